"""What an outcome says, at the edges; that the emitted law is right is proved in test_exact_enumeration."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

from engines.sampling import Chance, warp
from engines.settings import Sampling
from engines.verify import Outcome, verify_block, verify_greedy, verify_tokens

BOTH = pytest.mark.parametrize("verifier", (verify_tokens, verify_block))


class Scripted:
    """Compares with the given numbers; draws the likeliest, and remembers what it was to draw from."""

    def __init__(self, *us):
        self.us, self.last, self.weights = list(us), None, None

    def accept(self, probability):
        self.last = self.us.pop(0)
        return self.last < probability

    def draw(self, weights):
        self.weights = np.array(weights)
        assert self.weights.sum() > 0, "normalised from zeros"
        return int(self.weights.argmax())


def rows(*values) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def test_greedy_stands_while_equal():
    assert verify_greedy([5], []) == Outcome(0, 5, "plain", [], [], [])
    assert verify_greedy([5, 6], [5]) == Outcome(1, 6, "bonus", [1], [None], [None])
    assert verify_greedy([5, 6, 7], [4, 6]) == Outcome(0, 5, "corrected", [0], [None], [None])
    assert verify_greedy([5, 6, 7, 8], [5, 9, 7]) == Outcome(1, 6, "corrected", [1, 0], [None] * 2, [None] * 2)


@BOTH
def test_nothing_proposed_is_plain_decoding(verifier):
    for q in (None, np.zeros((0, 3), dtype=np.float32)):
        assert verifier(rows([0.2, 0.5, 0.3]), q, [], Scripted()) == Outcome(0, 1, "plain", [], [], [])


@BOTH
def test_a_block_of_one_is_the_same_for_both(verifier):
    p, q = rows([0.2, 0.5, 0.3], [0.1, 0.1, 0.8]), rows([0.8, 0.1, 0.1])
    chance = Scripted(0.2499)
    assert verifier(p, q, [0], chance) == Outcome(1, 2, "bonus", [pytest.approx(0.25)], [pytest.approx(0.25)], [0.2499])
    chance = Scripted(0.2501)
    out = verifier(p, q, [0], chance)
    assert (out.accepted, out.extra, out.kind) == (0, 1, "corrected") and out.mass == pytest.approx(0.6)
    np.testing.assert_allclose(chance.weights, [0, 0.4, 0.2], atol=1e-7)


def test_lists_cover_the_accepted_and_the_first_rejected():
    p = rows(*[[0.5, 0.5]] * 4)
    q = rows(*[[0.9, 0.1]] * 3)
    out = verify_tokens(p, q, [1, 0, 0], Scripted(0.9, 0.8))  # the second is refused: 5/9 < 0.8
    assert out.accepted == 1 and out.kind == "corrected" and out.us == [0.9, 0.8]
    assert out.ratios == out.thresholds == [1, pytest.approx(5 / 9)]


def test_block_by_hand():
    """w = 5/9, then (5/9)^2, then min(1, 5 * (5/9)^2) = 1; S_1 = max(5/18 - .9, 0) + max(5/18 - .1, 0) = 8/45."""
    p = rows(*[[0.5, 0.5]] * 4)
    q = rows(*[[0.9, 0.1]] * 3)
    s1, s2 = Fraction(8, 45), Fraction(25, 162) - Fraction(1, 10)
    h = [s1 / (s1 + Fraction(4, 9)), s2 / (s2 + Fraction(56, 81)), 1]
    out = verify_block(p, q, [0, 0, 1], Scripted(0.99, 0.99, 0.99))
    assert (out.accepted, out.kind) == (3, "bonus")  # the last token's luck saves those before it
    assert out.thresholds == [pytest.approx(float(x), rel=1e-5) for x in h]
    assert out.ratios == [pytest.approx(5 / 9), pytest.approx(5 / 9), 1] and out.us == [0.99] * 3

    chance = Scripted(0.2, 0.99, 0.99)  # 0.2 < h_1 = 0.286
    out = verify_block(p, q, [0, 0, 0], chance)
    assert (out.accepted, out.extra, out.kind) == (1, 1, "corrected")
    assert len(out.ratios) == len(out.thresholds) == len(out.us) == 2 and out.us == [0.2, 0.99]
    np.testing.assert_allclose(chance.weights, [0, float(s1)], atol=1e-6)
    assert out.mass == pytest.approx(float(s1), rel=1e-5)


@BOTH
@pytest.mark.parametrize("determined", (False, True))
def test_S1_disjoint_support_never_accepts(verifier, determined):
    p, q = rows([0.5, 0.5, 0, 0], [1, 0, 0, 0], [0.5, 0.5, 0, 0]), rows([0, 0, 0.5, 0.5], [0, 0, 0.1, 0.9])
    chance = Chance(0)
    for i in range(300):
        out = verifier(p, None if determined else q, [2 + i % 2, 3], chance)
        assert (out.accepted, out.kind) == (0, "corrected") and out.extra in (0, 1)
        assert out.ratios == [0] and out.thresholds == [0] and out.mass == pytest.approx(1)
    assert verifier(p, q, [2, 3], Scripted(0.0, 0.0)).accepted == 0  # not even at u = 0


@pytest.mark.parametrize("s", (Sampling(0.7), Sampling(1.0, top_k=5), Sampling(1.0, top_p=0.8)))
@BOTH
def test_S2_q_is_the_distribution_of_the_draw(verifier, s):
    """The same warped row is drawn from and divided by: with draft = target under its own sampling, ratios tell."""
    logits = torch.from_numpy(np.random.default_rng(1).normal(size=(2, 30)).astype(np.float32) * 2)
    p, q = warp(logits, Sampling(1.0)), warp(logits[:1], s)
    chance = Chance(3)
    for _ in range(200):
        token = chance.draw(q[0])
        assert q[0, token] > 0
        out = verifier(p, q, [token], chance)
        assert out.ratios == [pytest.approx(min(1, float(p[0, token]) / float(q[0, token])))]


@BOTH
def test_S5_equal_rows_are_always_accepted(verifier):
    """And the residual, all zero, is never normalised: Scripted.draw would say so."""
    random = np.random.default_rng(0)
    for _ in range(200):
        p = random.dirichlet(np.ones(6) * 0.3, size=4).astype(np.float32)
        ids = [int(row.argmax()) for row in p[:3]]
        out = verifier(p, p[:3].copy(), ids, Scripted(*[1 - 2.0**-53] * 3))
        assert (out.accepted, out.kind) == (3, "bonus") and out.ratios == [1, 1, 1]


@BOTH
def test_rows_that_are_equal_but_for_rounding_fall_back_to_p(verifier):
    """p below q everywhere by one rounding, and an unlucky u: the residual is empty, and p stands in for it."""
    q = rows([0.25, 0.75])
    p = np.stack([np.nextafter(q[0], np.float32(0)), q[0]])
    chance = Scripted(1 - 2.0**-53)
    out = verifier(p, q, [1], chance)
    assert (out.accepted, out.extra, out.kind, out.mass) == (0, 1, "corrected", 0)
    np.testing.assert_array_equal(chance.weights, p[0])


def test_block_with_equal_rows_after_a_certain_prefix():
    """0/0: w_1 = 1 and S_1 = 0; the prefix counts as good whatever u is, and nothing is divided by zero."""
    p, q = rows([0.5, 0.5], [0.3, 0.7], [0.5, 0.5]), rows([0.4, 0.6], [0.3, 0.7])
    with np.errstate(all="raise"):
        out = verify_block(p, q, [0, 1], Scripted(0.999, 0.999))
    assert out.accepted == 2 and out.thresholds == [1, 1]


@BOTH
def test_determined_tokens(verifier):
    p = rows([0.2, 0.8, 0], [0.5, 0.25, 0.25])
    chance = Scripted(0.5)
    assert verifier(p, None, [1], chance).accepted == 1
    chance = Scripted(0.9)
    out = verifier(p, None, [1], chance)
    assert out.accepted == 0 and out.ratios == [pytest.approx(0.8)] and out.mass == pytest.approx(0.2)
    np.testing.assert_allclose(chance.weights, [0.2, 0, 0])
    assert verifier(rows([0, 1], [0, 1]), None, [1], Scripted(1 - 2.0**-53)).kind == "bonus"


@BOTH
@pytest.mark.parametrize("width", (2, 5))
def test_E11_rows_of_another_width(verifier, width):
    """Vocabularies padded to different sizes: what is missing counts as zero."""
    q = np.zeros((1, width), dtype=np.float32)
    q[0, :2] = 0.5
    chance = Scripted(0.9)
    out = verifier(rows([0.1, 0.3, 0.6], [0, 0, 1]), q, [0], chance)
    assert out.accepted == 0
    np.testing.assert_allclose(chance.weights, [0, 0, 0.6])
    if width > 3:  # a token that the target does not have
        q[0, :] = 0.2
        out = verifier(rows([0.1, 0.3, 0.6], [0, 0, 1]), q, [4], Scripted(0.0))
        assert (out.accepted, out.ratios) == (0, [0])
        assert verifier(rows([0.1, 0.3, 0.6], [0, 0, 1]), None, [4], Scripted(0.0)).mass == pytest.approx(1)


@BOTH
def test_rows_are_left_as_they_are(verifier):
    random = np.random.default_rng(2)
    p, q = (
        random.dirichlet(np.ones(5), size=4).astype(np.float32),
        random.dirichlet(np.ones(5), size=3).astype(np.float32),
    )
    before = p.copy(), q.copy()
    for seed in range(50):
        chance = Chance(seed)
        verifier(p, q, [chance.draw(row) for row in q], chance)
        verifier(p, None, [0, 1, 2], chance)
    np.testing.assert_array_equal(p, before[0])
    np.testing.assert_array_equal(q, before[1])
