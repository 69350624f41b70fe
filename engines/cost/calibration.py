"""What whole rounds of the loop take, at several context lengths; kept per machine and model in the cache folder.

A calibration holds seconds by who drafts ("" where nobody does: plain decoding and lookups), context length and number
of proposed tokens. It is data: `engines.tune.calibrate` takes it, inside the very loop that runs use.
"""

from __future__ import annotations

import contextlib
import json
import os
from bisect import bisect_left
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..weights.places import home
from .costs import Costs

FILE = "calibration.json"


@dataclass(frozen=True)
class RoundCost:
    """Seconds of one round: proposing, the target's pass, and all the rest (sampling, text, book-keeping)."""

    propose: float
    verify: float
    rest: float

    @property
    def total(self) -> float:
        return self.propose + self.verify + self.rest

    def mixed(self, other: RoundCost, share: float) -> RoundCost:
        """This one and `share` of the way to `other`; never below nothing."""
        pairs = zip(self.to_json(), other.to_json(), strict=True)
        return RoundCost(*(max(0.0, a + (b - a) * share) for a, b in pairs))

    def to_json(self) -> list[float]:
        return [self.propose, self.verify, self.rest]


ByTokens = dict[int, RoundCost]  # by number of proposed tokens


@dataclass
class Calibration:
    """`of` says what it was taken on (machine, torch, threads, dtype, model), `taken` when; `rounds[who][context][n]`

    holds the seconds.
    """

    of: dict[str, str] = field(default_factory=dict)
    taken: str = ""
    rounds: dict[str, dict[int, ByTokens]] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return " | ".join(f"{name} {value}" for name, value in sorted(self.of.items()))

    def has(self, who: str, contexts: list[int]) -> bool:
        """Whether it says what `who` costs at all these context lengths."""
        return set(contexts) <= set(self.rounds.get(who, {}))

    def at(self, who: str, context: float, n: int) -> RoundCost:
        """A round of n proposed tokens at a context of so many tokens.

        Between what was measured on straight lines; beyond the numbers of tokens on the last of them, beyond the
        contexts as at the nearest. Raises KeyError for a drafter that was not calibrated.
        """
        by_context = self.rounds[who]
        known = sorted(by_context)
        right = min(bisect_left(known, context), len(known) - 1)
        left = max(0, right - 1) if context < known[right] else right
        low = _at_tokens(by_context[known[left]], n)
        if left == right:
            return low
        share = (context - known[left]) / (known[right] - known[left])
        return low.mixed(_at_tokens(by_context[known[right]], n), share)

    def costs(self, who: str, context: float) -> Costs:
        """The same in the formula's terms: v and c in plain rounds' target passes."""
        unit = self.at(who if who in self.rounds else "", context, 0).verify
        counts = sorted({n for table in self.rounds[who].values() for n in table})
        verify = {n: self.at(who, context, n).verify / unit for n in counts}
        most = counts[-1]
        step = self.at(who, context, most).propose / most / unit if most else 0.0
        return Costs(verify | {0: 1.0}, step, unit)

    def overhead(self, who: str, context: float, n: int) -> float:
        """What a round takes besides proposing and the pass, in target passes, more than a plain round does."""
        unit = self.at(who, context, 0).verify
        return (self.at(who, context, n).rest - self.at(who, context, 0).rest) / unit

    def to_json(self) -> dict[str, Any]:
        rounds = {
            who: {str(c): {str(n): cost.to_json() for n, cost in table.items()} for c, table in by_context.items()}
            for who, by_context in self.rounds.items()
        }
        return {"of": self.of, "taken": self.taken, "rounds": rounds}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Calibration:
        """What `to_json` gave. Raises KeyError, TypeError, ValueError or AttributeError for anything else."""
        rounds = {
            who: {int(c): {int(n): RoundCost(*cost) for n, cost in table.items()} for c, table in by_context.items()}
            for who, by_context in data["rounds"].items()
        }
        return cls(dict(data["of"]), data["taken"], rounds)


def _at_tokens(table: ByTokens, n: int) -> RoundCost:
    known = sorted(table)
    if n in table or len(known) == 1:
        return table.get(n) or table[known[0]]
    right = min(max(1, bisect_left(known, n)), len(known) - 1)
    low, high = known[right - 1], known[right]
    return table[low].mixed(table[high], (n - low) / (high - low))


def _file() -> Path:
    return home() / FILE


def _all() -> dict[str, Any]:
    try:
        data = json.loads(_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def known(of: dict[str, str]) -> Calibration:
    """What was measured before of the same machine and model; an empty calibration where nothing was."""
    empty = Calibration(dict(of))
    try:
        return Calibration.from_json(_all()[empty.key])
    except (KeyError, TypeError, ValueError, AttributeError):
        return empty


def keep(calibration: Calibration) -> None:
    """Remember it beside the others; a folder that cannot be written to costs its measuring next time, nothing else."""
    path = _file()
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(_all() | {calibration.key: calibration.to_json()}, indent=1), encoding="utf-8")
        part.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()
