"""What steps cost on this machine, in target passes over one token."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Any


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
