"""Measuring passes by themselves, outside the loop: what adaptive drafting needs when a model is loaded."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..model import Session


def _median_seconds(step: Callable[[], None], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return sorted(times)[len(times) // 2]


def measure_verify(
    session: Session,
    proposed: Sequence[int] = (*range(9), 12, 16),
    repeats: int = 4,
    sync: Callable[[], None] = lambda: None,
) -> tuple[dict[int, float], float]:
    """v at each of `proposed`, and the seconds of one pass over one token; measured in turn, on a short context.

    The session comes back as it was. Medians of `repeats` rounds through all sizes: a machine that is shared drifts.
    """
    before = session.length
    times: dict[int, list[float]] = {n: [] for n in proposed if before + n + 1 <= session.capacity}
    for n in times:  # warm up each shape once
        session.forward([1] * (n + 1))
        session.rollback(before)
    for _ in range(repeats):
        for n, seen in times.items():
            begin = time.perf_counter()
            session.forward([1] * (n + 1))
            sync()
            seen.append(time.perf_counter() - begin)
            session.rollback(before)
    median = rising({n: sorted(seen)[len(seen) // 2] for n, seen in times.items()})
    return {n: t / median[0] for n, t in median.items()}, median[0]


def rising(seconds: dict[int, float]) -> dict[int, float]:
    """By number of tokens, ascending: no pass over more tokens costs less than one over fewer. Where measuring says so,

    a busy machine has changed its speed meanwhile, and a speed-up would be foretold that nobody can reach.
    """
    out, most = {}, 0.0
    for n in sorted(seconds):
        out[n] = most = max(most, seconds[n])
    return out


def measure_step(step: Callable[[], None], repeats: int = 5) -> float:
    """Seconds of one drafting step, the first (cold) one left out."""
    step()
    return _median_seconds(step, repeats)
