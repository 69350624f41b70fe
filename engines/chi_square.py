"""Pearson's chi-square: do counts agree with the law that they should come from?

Cells of small expected count are pooled (Cochran 1954: at least five in each), so that the statistic has the
chi-square law to a good approximation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

LEAST = 5.0  # expected count of a cell


@dataclass
class Fit:
    """`freedom` 0: nothing could be compared, and `p_value` is 1."""

    statistic: float = 0.0
    freedom: int = 0

    @property
    def p_value(self) -> float:
        """The chance of a statistic as large as this or larger, if the law is the right one."""
        return tail(self.statistic, self.freedom) if self.freedom else 1.0

    def __add__(self, other: Fit) -> Fit:
        """Of independent samples the statistics add up, and so do the degrees of freedom."""
        return Fit(self.statistic + other.statistic, self.freedom + other.freedom)


def tail(statistic: float, freedom: int) -> float:
    """P(X >= statistic) for X of chi-square law: the regularised upper incomplete gamma function at half of each."""
    half = torch.tensor([freedom / 2, statistic / 2], dtype=torch.float64)
    return float(torch.special.gammaincc(half[0], half[1]))


def cells(law: np.ndarray, count: int) -> np.ndarray:
    """The tokens [n] of `law` [V] that are expected LEAST times or oftener in `count` draws."""
    return np.flatnonzero(law * count >= LEAST)


def fit(law: np.ndarray, seen: Mapping[int, int]) -> Fit:
    """`seen` {token: how often} against `law` [V], which sums to 1. Which cells there are depends on the law and the

    total alone: cells chosen by what was seen would spoil the statistic.
    """
    count = sum(seen.values())
    own = cells(law, count)
    expected = [float(law[i]) * count for i in own]
    observed = [float(seen.get(int(i), 0)) for i in own]
    if not own.size:
        return Fit()
    rest, others = max(0.0, count - sum(expected)), count - sum(observed)
    if rest >= LEAST:
        expected.append(rest)
        observed.append(others)
    else:  # too little for a cell of its own: together with the smallest
        least = int(np.argmin(expected))
        expected[least] += rest
        observed[least] += others
    statistic = sum((o - e) ** 2 / e for o, e in zip(observed, expected, strict=True))
    return Fit(statistic, len(expected) - 1)
