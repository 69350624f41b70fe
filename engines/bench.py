"""Paired measuring: what two runs of one prompt say about each other, and nothing where they say nothing."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .cost import Costs, expected_tokens
from .events import Event, Start
from .fold import Fold, Metrics, fold

# Fewer tokens than this time nothing but the clock's grain and the first pass's cold caches.
MIN_TOKENS = 16
# The spread of a speed-up: blocks of this many rounds, as what slows a machine down lasts longer than one round.
BLOCK_ROUNDS = 5
RESAMPLES = 400
# Of fewer rounds than this no spread is told.
MIN_ROUNDS = 4
# A round holds one plain pass, so a speed-up beyond the tokens per pass by this factor is not the run's own.
CHEAPER = 1.05
# Settings that may differ between a plain run and the one it is compared with.
MAY_DIFFER = frozenset(
    (
        "proposer",
        "draft",
        "k",
        "adaptive",
        "branch",
        "remember",
        "verify",
        "draft_sampling",
        "skip_layers",
        "ngram_min",
        "ngram_max",
        "candidates",
    )
)
# The largest gap between the two best logits that the arithmetic's rounding can turn over when rows are computed
# together rather than one by one; measured on SmolLM2-135M, whose logits reach 30 (a bf16 step there is 0.125).
NEAR_TIE = {"fp32": 1e-3, "fp16": 1e-3, "bf16": 0.75}


def comparable(plain: Start, other: Start) -> str | None:
    """None, or the reason why the two runs must not be compared."""
    if plain.proposer != "none":
        return "not compared: the first run is not plain decoding"
    if plain.prompt_ids != other.prompt_ids:
        return "not compared: the prompts differ"
    for name in ("target", "device", "dtype", "engine"):
        if getattr(plain, name) != getattr(other, name):
            return f"not compared: the two runs differ in {name}"
    differing = [k for k, x in plain.settings.items() if k not in MAY_DIFFER and other.settings.get(k) != x]
    if differing:
        return f"not compared: the two runs differ in {', '.join(differing)}"
    return None


def shares(emitted: Sequence[int], tokens: int) -> list[float]:
    """Of each round, which emitted so many tokens, the share that belongs to the first `tokens` tokens of the run; the

    rounds beyond them are left out.
    """
    out, count = [], 0
    for n in emitted:
        out.append(1.0 if count + n <= tokens else (tokens - count) / n)
        count += n
        if count >= tokens:
            break
    return out


def seconds_by_round(run: Fold, tokens: int) -> list[float]:
    """Each round's seconds (prefill left out) until `tokens` tokens were emitted; a round that passes the mark counts

    by the share of its tokens up to it.
    """
    parts = shares([r.count(*Fold.EMITTED) for r in run.rounds], tokens)
    return [part * sum(r.seconds.values()) for part, r in zip(parts, run.rounds, strict=False)]


def seconds_to(run: Fold, tokens: int) -> float:
    """Decoding seconds until `tokens` tokens were emitted."""
    return sum(seconds_by_round(run, tokens))


@dataclass
class Speedup:
    """Plain time per token / the other run's. `low` and `high` are its spread (see `spread`), None where the rounds

    are too few to tell one. `value` is None where no honest number exists; `sentence` then says why.
    """

    value: float | None
    sentence: str
    low: float | None = None
    high: float | None = None


def disturbed(found: Speedup, m: Metrics) -> bool:
    """Whether a round would have cost less than the one plain pass it holds: between the two runs, which come one after

    the other, a shared machine's speed changed, and their spread cannot know that.
    """
    return found.value is not None and found.value > CHEAPER * (m.tokens_per_pass or 0.0)


def measured(plain_events: Sequence[Event], other_events: Sequence[Event]) -> Speedup:
    """The speed-up with its spread, over the tokens that both have (at T > 0 the texts, hence the lengths, differ)."""
    plain, other = fold(list(plain_events)), fold(list(other_events))
    if plain.start is None or other.start is None:
        return Speedup(None, "not measured: a run failed before it began")
    reason = comparable(plain.start, other.start)
    if reason:
        return Speedup(None, reason)
    for run in (plain, other):
        if run.done is not None and run.done.reason == "error":
            return Speedup(None, "not measured: a run failed")
    tokens = min(plain.metrics().emitted, other.metrics().emitted)
    if tokens < MIN_TOKENS:
        count = f"{tokens} token{'' if tokens == 1 else 's'}"
        return Speedup(None, f"too short to measure ({count}; at least {MIN_TOKENS} are needed)")
    mine, its = seconds_by_round(plain, tokens), seconds_by_round(other, tokens)
    value = sum(mine) / sum(its)
    low, high = spread(mine, its) or (None, None)
    return Speedup(value, f"{value:.2f}× plain decoding over {tokens} tokens", low, high)


def speedup(plain_events: Sequence[Event], other_events: Sequence[Event]) -> tuple[float | None, str]:
    """`measured` without the spread: the number, and a sentence."""
    found = measured(plain_events, other_events)
    return found.value, found.sentence


def spread(plain: Sequence[float], other: Sequence[float], seed: int = 0) -> tuple[float, float] | None:
    """The 5th and 95th percentile of sum(plain) / sum(other) when both runs' rounds [seconds] are drawn anew.

    A moving-block bootstrap (Künsch 1989): blocks of neighbouring rounds are drawn with replacement, since a machine's
    disturbances span several rounds. It says how steady these two runs were; what changed on the machine between the
    two is not in it. None for runs of fewer than MIN_ROUNDS rounds. The same seed gives the same numbers.
    """
    if min(len(plain), len(other)) < MIN_ROUNDS:
        return None
    rng = np.random.default_rng(seed)
    ratios = _resampled(plain, rng) / _resampled(other, rng)
    low, high = np.percentile(ratios, (5, 95))
    return float(low), float(high)


def resampled_rounds(n: int, rng: np.random.Generator) -> np.ndarray:
    """RESAMPLES runs of n rounds, each made of blocks of neighbouring rounds: their indices, int64 [RESAMPLES, n]."""
    size = max(1, min(BLOCK_ROUNDS, n // 3))  # of a short run, blocks that still can differ
    starts = rng.integers(0, n - size + 1, (RESAMPLES, -(-n // size)))
    return (starts[..., None] + np.arange(size)).reshape(RESAMPLES, -1)[:, :n]


def _resampled(seconds: Sequence[float], rng: np.random.Generator) -> np.ndarray:
    """Sums of RESAMPLES runs, each made of blocks of `seconds`: float64 [RESAMPLES]."""
    values = np.asarray(seconds, dtype=np.float64)
    return values[resampled_rounds(len(values), rng)].sum(axis=1)


@dataclass
class Identity:
    """Is the greedy text the same? `verdict`: identical, near-tie, different, or sampled (T > 0: nothing to say)."""

    verdict: str
    sentence: str
    at: int | None = None


def identity(plain_events: Sequence[Event], other_events: Sequence[Event]) -> Identity:
    """Compare a greedy run with plain decoding token by token.

    The first difference is a near-tie when the other run took the target's second choice and the gap to the first
    was within what rounding can turn over (`NEAR_TIE`); what comes after it is another text and says nothing.
    """
    plain, other = fold(list(plain_events)), fold(list(other_events))
    if plain.start is None or other.start is None:
        return Identity("different", "a run failed before it began")
    if plain.start.settings["sampling"]["temperature"] >= 1e-3:
        return Identity("sampled", "at a temperature above 0 only the distribution is the same, not the text")
    a, b = plain.done.ids, other.done.ids
    length = min(len(a), len(b))
    at = next((i for i in range(length) if a[i] != b[i]), None)
    if at is None:
        if len(a) == len(b) or "stopped" in (plain.done.reason, other.done.reason):
            return Identity("identical", f"identical to plain decoding ({length} tokens)")
        return Identity("different", f"the same for {length} tokens, but one text is longer", length)
    margin = _margin_at(plain_events, at)
    limit = NEAR_TIE.get(plain.start.dtype.split()[0], NEAR_TIE["bf16"])
    if margin is not None and margin <= limit:
        return Identity(
            "near-tie",
            f"differs from token {at} on, at a near-tie: the two best logits were {margin:.2g} apart, "
            f"within the rounding of {plain.start.dtype}",
            at,
        )
    gap = "" if margin is None else f" (the two best logits were {margin:.2g} apart)"
    return Identity("different", f"differs from token {at} on{gap}", at)


def _margin_at(plain_events: Sequence[Event], at: int) -> float | None:
    """The gap that the plain run recorded for its `at`-th token: each of its rounds emits exactly one."""
    extras = [e.extra for e in plain_events if e.type == "verdict"]
    return extras[at].margin if at < len(extras) and extras[at] is not None else None


def predicted_speedup(run: Fold, costs: Costs) -> float | None:
    """What the formula says for this run's proposal lengths: acceptance taken as i.i.d. at the measured rate, costs

    as measured at load, sampling and the rest as this run spent on them. None where the formula says nothing: of trees,
    and of a mixture of proposers.
    """
    metrics = run.metrics()
    if run.start is not None and run.start.proposer == "auto" or any(t.node is not None for t in run.tokens()):
        return None
    if metrics.acceptance_rate is None or not costs.pass_seconds:
        return None
    aside = (metrics.seconds["sample"] + metrics.seconds["other"]) / metrics.rounds / costs.pass_seconds
    proposed = [r.count("accepted", "rejected", "unjudged") for r in run.rounds]
    tokens = sum(expected_tokens(metrics.acceptance_rate, n) for n in proposed)
    return tokens * (1 + aside) / sum(costs.round(n) + aside for n in proposed)


def median_and_range(values: Sequence[float]) -> tuple[float, float, float]:
    return statistics.median(values), min(values), max(values)
