"""What a setting should bring: rounds told by replay, times by calibration, in units of the plain runs beside them.

Three predictions stand side by side: `speedup`, from the rounds that the setting would have had on these very texts,
which is what the tuner goes by; `iid`, the formula with one acceptance rate; and `position`, the formula with a rate
for each position. Where acceptance comes in stretches, as in copied text, the last two fall short; it is shown how far.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..bench import shares as parts_of
from ..cost import Calibration, expected_tokens, expected_tokens_by_position
from .candidates import Candidate
from .sample import Pass, Sample
from .stats import Interval, Pair, middle, ratio


@dataclass(frozen=True)
class Prediction:
    """Predicted speed-up over plain decoding, with the interval that the choice of prompts alone gives it.

    `iid` and `position` are the formula's, None where it says nothing (trees). `tokens_per_pass` and `seconds` per
    token by phase are what the prediction rests on: propose, verify, rest, and plain (a plain round's, all of it).
    """

    candidate: Candidate
    speedup: Interval
    tokens_per_pass: float
    acceptance: float | None
    by_position: tuple[float, ...]
    iid: float | None
    position: float | None
    seconds: Mapping[str, float]
    by_category: Mapping[str, float]

    def to_json(self) -> dict[str, Any]:
        out = {**self.__dict__, "candidate": self.candidate.name, "family": self.candidate.family}
        return out | {"k": self.candidate.k, "way": self.candidate.way, "speedup": self.speedup.to_json()}


@dataclass(frozen=True)
class Told:
    """The rounds that a candidate would have had on the prompt of a plain run."""

    plain: Sample
    category: str
    rounds: list[Pass]


def predict(
    candidate: Candidate,
    told: Sequence[Told],
    calibration: Calibration,
    who: str,
    rates: tuple[float | None, tuple[float, ...]],
    shares: Mapping[str, float],
    by_formula: bool = True,
) -> Prediction | None:
    """The prediction for these prompts; None without any. `who` drafts, by its name in the calibration; `rates` are

    the acceptance rate and the conditional rates by position. Without `by_formula` that part is left out.
    """
    if not told:
        return None
    pairs, iid, position = [], [], []
    seconds = dict.fromkeys(("propose", "verify", "rest", "plain"), 0.0)
    tokens = rounds = 0
    overall, by_position = rates
    by_formula = by_formula and overall is not None and not candidate.branch
    for t in told:
        phases = np.array(_costs(t, calibration, who))  # [rounds, 3]
        each, emitted = phases.sum(axis=1), [p.emitted for p in t.rounds]
        both = min(t.plain.tokens, sum(emitted))
        parts = parts_of(emitted, both)
        plain = t.plain.seconds(both)
        pairs.append(Pair(t.plain.prompt, t.category, plain, float(each[: len(parts)] @ parts)))
        if by_formula:
            counts, whole = Counter(p.proposed for p in t.rounds), float(each.sum())
            for kept, law, given in (
                (iid, expected_tokens, overall),
                (position, expected_tokens_by_position, by_position),
            ):
                expected = sum(law(given, n) * times for n, times in counts.items())
                kept.append(Pair(t.plain.prompt, t.category, plain / both * expected, whole))
        for name, x in zip(("propose", "verify", "rest"), phases.sum(axis=0).tolist(), strict=True):
            seconds[name] += x
        seconds["plain"] += plain / both * sum(emitted)
        tokens += sum(emitted)
        rounds += len(t.rounds)
    value = ratio(pairs, shares, resamples=400)
    kinds = dict.fromkeys(t.category for t in told)
    return Prediction(
        candidate,
        value,
        tokens / rounds,
        overall,
        by_position,
        middle(iid, shares),
        middle(position, shares),
        {name: x / tokens for name, x in seconds.items()},
        {c: middle([p for p in pairs if p.category == c]) for c in kinds},
    )


def _unit(plain: Sample, calibration: Calibration, who: str) -> float:
    """How much slower than in `who`'s calibration the machine was in this block: it drifts, and a ratio need not.

    Each drafter's table has plain rounds of its own, taken in turn with the others.
    """
    expected = calibration.at(who, plain.context, 0)
    return plain.seconds() / len(plain.passes) / (expected.verify + expected.rest)


def _costs(t: Told, calibration: Calibration, who: str) -> list[tuple[float, float, float]]:
    """Each round's seconds by phase: propose, verify, rest. What a lookup took was measured while it was replayed."""
    unit = _unit(t.plain, calibration, who)
    known: dict[int, tuple[float, float, float]] = {}
    for n in {p.proposed for p in t.rounds}:
        cost = calibration.at(who, t.plain.context, n)
        known[n] = (cost.propose * unit, cost.verify * unit, cost.rest * unit)
    if who:
        return [known[p.proposed] for p in t.rounds]
    return [(p.propose, *known[p.proposed][1:]) for p in t.rounds]
