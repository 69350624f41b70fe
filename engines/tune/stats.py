"""How sure a ratio of times is: prompts are drawn anew, since other prompts are what the answer is for.

A speed-up over a workload is sum(plain seconds) / sum(speculative seconds), both over the same tokens of the same
prompts. What varies is mostly the prompts, not the clock, so the prompt is the unit that is resampled, with both of its
times together; the noise within runs is in each prompt's times, averaged over its repetitions, and comes along.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

LEVEL = 0.9  # the stated rate of every interval that is shown
RESAMPLES = 1000


@dataclass(frozen=True)
class Pair:
    """Two times [s] of one prompt, taken in one block: `top` / `bottom` is the ratio that is asked for."""

    prompt: int
    category: str
    top: float
    bottom: float


@dataclass(frozen=True)
class Interval:
    """A ratio, and the interval that holds it at the rate `level`. `low` and `high` are None where one prompt was run

    but once. `of_prompts` is false where only repetitions of one prompt could be resampled: the interval then says how
    steady the runs were, and nothing of other prompts.
    """

    value: float
    low: float | None
    high: float | None
    prompts: int
    level: float = LEVEL
    of_prompts: bool = True

    @property
    def above_one(self) -> bool:
        return self.low is not None and self.low > 1

    @property
    def below_one(self) -> bool:
        return self.high is not None and self.high < 1

    def to_json(self) -> dict[str, Any]:
        return dict(self.__dict__)


def ratio(
    pairs: Sequence[Pair],
    shares: Mapping[str, float] | None = None,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval | None:
    """Sum of tops over sum of bottoms, with a bootstrap interval; None without pairs. A seed gives the same numbers.

    `shares` says how much of the workload each category is; prompts measured are weighted to it, and drawn anew within
    their category, the mix being given. Per category n - 1 prompts are drawn of n (Rao & Wu 1988), which makes the
    spread right where categories have few prompts, and the distances from the middle are stretched by Student's
    quantile over the normal one, for the spread itself is estimated. A category with one prompt measured joins others.
    """
    if not pairs:
        return None
    grouped: dict[int, list[Pair]] = {}
    for p in pairs:
        grouped.setdefault(p.prompt, []).append(p)
    if len(grouped) == 1:
        return _one_prompt(pairs, level, resamples, seed)
    prompts = list(grouped.values())
    kinds = [group[0].category for group in prompts]
    weights = _weights(kinds, shares)
    tops = np.array([sum(p.top for p in group) / len(group) for group in prompts]) * weights
    bottoms = np.array([sum(p.bottom for p in group) / len(group) for group in prompts]) * weights
    strata = _strata(kinds)
    draws = _multiplicities(strata, resamples, np.random.default_rng(seed))
    centre = float(np.log(tops.sum() / bottoms.sum()))
    spread = np.log((draws @ tops) / (draws @ bottoms)) - centre
    stretch = student(0.5 + level / 2, len(prompts) - len(strata)) / NormalDist().inv_cdf(0.5 + level / 2)
    low, high = np.quantile(spread, (0.5 - level / 2, 0.5 + level / 2)) * stretch
    return Interval(math.exp(centre), math.exp(centre + low), math.exp(centre + high), len(prompts), level)


def middle(pairs: Sequence[Pair], shares: Mapping[str, float] | None = None) -> float | None:
    """The value of `ratio` by itself, where no interval is wanted."""
    if not pairs:
        return None
    repeats = Counter(p.prompt for p in pairs)
    weights = _weights([p.category for p in pairs], shares, [1 / repeats[p.prompt] for p in pairs])
    return float(weights @ [p.top for p in pairs]) / float(weights @ [p.bottom for p in pairs])


def _weights(
    kinds: Sequence[str], shares: Mapping[str, float] | None, counts: Sequence[float] | None = None
) -> np.ndarray:
    """Per row, which stands for `counts` of a prompt (default: a whole one): its category's share of the workload, over

    the prompts measured of it.
    """
    counts = [1.0] * len(kinds) if counts is None else counts
    measured: dict[str, float] = {}
    for kind, n in zip(kinds, counts, strict=True):
        measured[kind] = measured.get(kind, 0.0) + n
    if not shares:
        return np.array(counts)
    return np.array([n * shares.get(kind, 0.0) / measured[kind] for kind, n in zip(kinds, counts, strict=True)])


def _strata(kinds: Sequence[str]) -> list[list[int]]:
    """Prompts by category; categories with a single prompt are put together, and the last single one with others."""
    by_kind: dict[str, list[int]] = {}
    for i, kind in enumerate(kinds):
        by_kind.setdefault(kind, []).append(i)
    strata = [rows for rows in by_kind.values() if len(rows) > 1]
    single = [rows[0] for rows in by_kind.values() if len(rows) == 1]
    if len(single) > 1:
        strata.append(single)
    elif single:
        min(strata, key=len).append(single[0])
    return strata


def _multiplicities(strata: Sequence[Sequence[int]], resamples: int, rng: np.random.Generator) -> np.ndarray:
    """How often each prompt counts in each resample, 1 on average: float64 [resamples, prompts]."""
    out = np.zeros((resamples, sum(map(len, strata))))
    for rows in strata:
        n = len(rows)
        out[:, rows] = rng.multinomial(n - 1, [1 / n] * n, resamples) * (n / (n - 1))
    # With two prompts a stratum, all its weight may lie on one that is nothing; a ratio needs something.
    return out + 1e-12


def _one_prompt(pairs: Sequence[Pair], level: float, resamples: int, seed: int) -> Interval:
    """Repetitions of one prompt, drawn anew."""
    tops, bottoms, n = np.array([p.top for p in pairs]), np.array([p.bottom for p in pairs]), len(pairs)
    centre = math.log(tops.sum() / bottoms.sum())
    if n == 1:
        return Interval(math.exp(centre), None, None, 1, level, False)
    draws = _multiplicities([range(n)], resamples, np.random.default_rng(seed))
    spread = np.log((draws @ tops) / (draws @ bottoms)) - centre
    stretch = student(0.5 + level / 2, n - 1) / NormalDist().inv_cdf(0.5 + level / 2)
    low, high = np.quantile(spread, (0.5 - level / 2, 0.5 + level / 2)) * stretch
    return Interval(math.exp(centre), math.exp(centre + low), math.exp(centre + high), 1, level, False)


def student(p: float, degrees: int) -> float:
    """The p-quantile of Student's t: exact for 1 and 2 degrees of freedom, else by the Cornish-Fisher series

    (Abramowitz & Stegun 26.7.5), within 0.5 % for p up to 0.99.
    """
    if degrees <= 1:
        return math.tan(math.pi * (p - 0.5))
    if degrees == 2:
        return (2 * p - 1) * math.sqrt(2 / (4 * p * (1 - p)))
    z = NormalDist().inv_cdf(p)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / degrees**i for i, term in enumerate(terms, start=1))
