"""What the runs of a sweep's point amount to: ratios of sums, each with how far chance goes.

A speed-up over several runs is the plain runs' seconds / the others' seconds for the same tokens, so that a long run
weighs more than a short one and no mean of ratios favours the lucky. Its spread is a bootstrap within texts: of each
text the repeats are drawn anew (with replacement), and within each repeat blocks of neighbouring rounds, of the plain
run and of the other (see `bench.spread`). The texts themselves stay: it is a statement about these texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .bench import (
    MIN_ROUNDS,
    RESAMPLES,
    identity,
    measured,
    predicted_speedup,
    resampled_rounds,
    seconds_by_round,
)
from .cost import Costs, expected_tokens
from .events import Event
from .fold import Fold, fold


@dataclass(frozen=True)
class Value:
    """A number and its 5th to 95th percentile when chance is drawn anew; None where there is none to tell."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Row:
    """One point. `predicted` and `formula` are the model's speed-up and tokens per pass at the acceptance that was

    measured, None where the formula says nothing. `note` says why a number is missing, `text` whether the greedy text
    is the plain one's. `pairs` is how many runs were compared, `tokens` how many tokens they have in common.
    """

    label: str
    value: float | str
    pairs: int
    tokens: int
    speedup: Value
    acceptance: Value
    tokens_per_pass: Value
    predicted: float | None
    formula: float | None
    text: str
    note: str | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Pair:
    """A run and its plain run, folded to sums. `drawn` has them anew for each resample, float64 [RESAMPLES], and is

    None where the rounds are too few. Keys: plain, other (seconds up to the tokens that both have), emitted, rounds,
    accepted, judged (of the other run, whole).
    """

    text: int
    repeat: int
    greedy: bool
    tokens: int
    sums: dict[str, float]
    drawn: dict[str, np.ndarray] | None
    predicted: float | None
    formula: float | None  # tokens that the formula expects of the other run's passes
    verdict: str  # of `bench.identity`
    why: str | None  # why the two give no speed-up


def pair_of(plain_events: Sequence[Event], other_events: Sequence[Event], text: int, repeat: int) -> Pair:
    """Raises nothing for runs that must not be compared: `why` says so."""
    found = measured(plain_events, other_events)
    plain, other = fold(list(plain_events)), fold(list(other_events))
    metrics = other.metrics()
    tokens = min(plain.metrics().emitted, metrics.emitted)
    columns = np.array(
        [(r.count(*Fold.EMITTED), 1, r.count("accepted"), r.count("accepted", "rejected")) for r in other.rounds],
        dtype=np.float64,
    ).reshape(-1, 4)
    mine = np.array(seconds_by_round(plain, tokens) if found.value is not None else [])
    its = np.array(seconds_by_round(other, tokens) if found.value is not None else [])
    sums = dict(zip(("emitted", "rounds", "accepted", "judged"), columns.sum(axis=0).tolist(), strict=True))
    sums |= {"plain": float(mine.sum()), "other": float(its.sum())}
    costs = other.start.costs if other.start is not None else None
    predicted = predicted_speedup(other, Costs.from_json(costs)) if costs else None
    formula = None
    if predicted is not None:
        lengths = [r.count("accepted", "rejected", "unjudged") for r in other.rounds]
        formula = sum(expected_tokens(metrics.acceptance_rate or 0.0, n) for n in lengths)
    same = identity(plain_events, other_events).verdict
    return Pair(
        text,
        repeat,
        same != "sampled",
        tokens,
        sums,
        _drawn(columns, mine, its, seed=1009 * text + repeat),
        predicted,
        formula,
        same,
        None if found.value is not None else found.sentence,
    )


def _drawn(columns: np.ndarray, plain: np.ndarray, other: np.ndarray, seed: int) -> dict[str, np.ndarray] | None:
    if len(columns) < MIN_ROUNDS or 0 < min(len(plain), len(other)) < MIN_ROUNDS:
        return None
    rng = np.random.default_rng(seed)
    at = resampled_rounds(len(columns), rng)
    out = {name: columns[:, i][at].sum(axis=1) for i, name in enumerate(("emitted", "rounds", "accepted", "judged"))}
    for name, seconds in (("plain", plain), ("other", other)):
        if len(seconds):
            out[name] = seconds[resampled_rounds(len(seconds), rng)].sum(axis=1)
    return out


def row_of(label: str, value: float | str, pairs: Sequence[Pair], failed: str | None = None) -> Row:
    """All pairs of a point in one row; the same pairs give the same numbers."""
    timed = [p for p in pairs if p.why is None]
    seen = _events_of(pairs)
    predicted = formula = None
    if timed and all(p.predicted for p in timed):
        predicted = _ratio(
            sum(p.sums["plain"] for p in timed), sum(p.sums["plain"] / p.predicted for p in timed if p.predicted)
        )
    if seen and all(p.formula is not None for p in seen):
        formula = _ratio(sum(p.formula or 0.0 for p in seen), sum(p.sums["rounds"] for p in seen))
    return Row(
        label,
        value,
        len(timed),
        sum(p.tokens for p in timed),
        _value(timed, "plain", "other"),
        _value(seen, "accepted", "judged"),
        _value(seen, "emitted", "rounds"),
        predicted,
        formula,
        _text(pairs),
        failed or (pairs[0].why if pairs and not timed else None),
    )


def acceptance_counts(pairs: Sequence[Pair]) -> tuple[float, float]:
    """A point's accepted and judged tokens, each greedy text once."""
    seen = _events_of(pairs)
    return sum(p.sums["accepted"] for p in seen), sum(p.sums["judged"] for p in seen)


def _events_of(pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs whose acceptance counts: greedy repeats of a text are one and the same, and would feign certainty."""
    first: dict[tuple, Pair] = {}
    for pair in pairs:
        first.setdefault((pair.text, None if pair.greedy else pair.repeat), pair)
    return list(first.values())


def _ratio(a: float, b: float) -> float | None:
    return a / b if b else None


def _value(pairs: Sequence[Pair], above: str, below: str) -> Value:
    """sum(above) / sum(below) over all pairs, and its spread."""
    value = _ratio(sum(p.sums[above] for p in pairs), sum(p.sums[below] for p in pairs))
    if value is None or any(p.drawn is None for p in pairs):
        return Value(value)
    rng = np.random.default_rng(0)
    totals = {above: np.zeros(RESAMPLES), below: np.zeros(RESAMPLES)}
    for text in sorted({p.text for p in pairs}):
        mine = [p.drawn for p in pairs if p.text == text]
        repeat = rng.integers(0, len(mine), (len(mine), RESAMPLES))
        draw = rng.integers(0, RESAMPLES, (len(mine), RESAMPLES))
        for name, total in totals.items():
            total += np.stack([d[name] for d in mine])[repeat, draw].sum(axis=0)
    ratios = totals[above] / np.maximum(totals[below], 1e-12)
    if not (totals[below] > 0).all():  # resamples in which nothing was judged say nothing
        return Value(value)
    low, high = np.percentile(ratios, (5, 95))
    return Value(value, float(low), float(high))


def _text(pairs: Sequence[Pair]) -> str:
    """ "identical", "sampled", or the worst that happened and how often: "near-tie (1 of 4)"."""
    verdicts = [p.verdict for p in pairs]
    if not verdicts:
        return ""
    worst = next(v for v in ("different", "near-tie", "sampled", "identical") if v in verdicts)
    some = verdicts.count(worst)
    return worst if some == len(verdicts) else f"{worst} ({some} of {len(verdicts)})"


__all__ = ["Pair", "Row", "Value", "acceptance_counts", "pair_of", "row_of"]
