"""The arithmetic of speculation: what a pass yields, what it costs, and when it pays.

All times are ratios to one target pass over one token. `a` is the acceptance rate per judged token, taken as the
same for every position and independent (Leviathan et al. 2023); `k` the tokens proposed; `c` the cost ratio (one
draft step / one target pass); v(n) the verify ratio (a target pass over n + 1 tokens / over one).
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .model import Session


def expected_tokens(a: float, k: int) -> float:
    """(1 - a^(k+1)) / (1 - a), and k + 1 when a = 1: tokens per pass, the target's own included."""
    if not 0 <= a <= 1 or k < 0:
        raise ValueError(f"need 0 <= a <= 1 and k >= 0, got a={a}, k={k}")
    # The sum, not the quotient: the quotient loses its digits as a nears 1.
    return sum(a**i for i in range(k + 1))


def predicted_speedup(a: float, k: int, c: float, v: float, overhead: float = 0.0) -> float:
    """Expected tokens per pass / (v(k) + k c + overhead): plain time per token over speculative time per token."""
    return expected_tokens(a, k) / (v + k * c + overhead)


@dataclass(frozen=True)
class Costs:
    """What steps cost on this machine, in target passes over one token.

    `verify[n]` is v at n proposed tokens, for the n that were measured (0 included, where it is 1); between them
    v is interpolated, beyond them carried on along the last two. `draft` is c. `pass_seconds` gives the unit.
    """

    verify: dict[int, float] = field(default_factory=lambda: {0: 1.0, 1: 1.0})
    draft: float = 0.0
    pass_seconds: float = 0.0

    def v(self, n: int) -> float:
        known = sorted(self.verify)
        at = bisect_left(known, n)
        if at < len(known) and known[at] == n:
            return self.verify[n]
        low, high = known[max(0, min(at, len(known) - 1) - 1)], known[min(at, len(known) - 1)]
        if low == high:
            return self.verify[low]
        slope = (self.verify[high] - self.verify[low]) / (high - low)
        return max(self.verify[low], self.verify[low] + slope * (n - low))

    def round(self, n: int) -> float:
        """Cost of a round that proposes n tokens."""
        return self.v(n) + n * self.draft

    def to_json(self) -> dict[str, Any]:
        """As the start event carries it."""
        return {
            "verify": {str(n): v for n, v in self.verify.items()},
            "draft": self.draft,
            "pass_seconds": self.pass_seconds,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Costs:
        """What `to_json` gave."""
        return cls({int(n): v for n, v in data["verify"].items()}, data["draft"], data["pass_seconds"])


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
    median = {n: sorted(seen)[len(seen) // 2] for n, seen in times.items()}
    return {n: t / median[0] for n, t in median.items()}, median[0]


def measure_step(step: Callable[[], None], repeats: int = 5) -> float:
    """Seconds of one drafting step, the first (cold) one left out."""
    step()
    return _median_seconds(step, repeats)
