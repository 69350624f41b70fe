"""No pass over more tokens costs less than one over fewer, whatever a busy machine measured."""

from __future__ import annotations

import pytest

from engines.cost.measure import measure_verify, rising


@pytest.mark.parametrize(
    ("seconds", "risen"),
    [
        ({0: 1.0, 1: 0.6, 4: 1.3}, {0: 1.0, 1: 1.0, 4: 1.3}),
        ({4: 1.1, 0: 1.0, 2: 1.4}, {0: 1.0, 2: 1.4, 4: 1.4}),
        ({0: 1.0, 1: 1.0, 2: 1.5}, {0: 1.0, 1: 1.0, 2: 1.5}),
        ({}, {}),
    ],
)
def test_rising(seconds, risen):
    assert rising(seconds) == risen


def test_a_pass_that_seemed_cheaper_is_taken_as_equal(monkeypatch):
    """A session whose one-token pass met a busy moment each time."""
    now = [0.0]
    monkeypatch.setattr("engines.cost.measure.time.perf_counter", lambda: now[0])

    class Busy:
        length, capacity = 8, 64

        def forward(self, ids):
            now[0] += 2.0 if len(ids) == 1 else 1.0 + 0.1 * len(ids)

        def rollback(self, length):
            pass

    verify, seconds = measure_verify(Busy(), proposed=(0, 1, 2, 12))
    assert seconds == pytest.approx(2.0)
    assert verify == pytest.approx({0: 1.0, 1: 1.0, 2: 1.0, 12: 1.15})
