"""What the exactness tests have in common: every outcome of a run's chances, laws of emitted tokens, chi-square.

A *model* here is a function from the tokens so far (a tuple) to the probability row of the next, of Fractions or of
floats. A *round* is a function of a chance that returns the tokens it emitted.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction

import numpy as np

Model = Callable[[tuple[int, ...]], np.ndarray]


class Enumerated:
    """A chance that follows a script, then always takes the first possible branch, and knows the others."""

    def __init__(self, script: tuple) -> None:
        self.script, self.taken = script, []
        self.weight = Fraction(1)
        self.untried: list[tuple] = []

    def _choose(self, options: list[tuple]) -> object:
        """`options` are (value, probability), all possible."""
        at = len(self.taken)
        if at < len(self.script):
            value, probability = next(o for o in options if o[0] == self.script[at])
        else:
            value, probability = options[0]
            self.untried += [(*self.taken, other) for other, _ in options[1:]]
        self.taken.append(value)
        self.weight *= probability
        return value

    def accept(self, probability: Fraction) -> bool:
        sure = min(Fraction(1), Fraction(probability))
        assert sure >= 0
        return self._choose([(b, w) for b, w in ((True, sure), (False, 1 - sure)) if w > 0])

    def draw(self, weights: np.ndarray) -> int:
        total = sum(weights, Fraction(0))
        assert total > 0 and min(weights) >= 0, "nothing to draw from"
        return self._choose([(i, Fraction(w) / total) for i, w in enumerate(weights) if w > 0])


def outcomes(run: Callable[[Enumerated], object]) -> Iterator[tuple[object, Fraction]]:
    """Everything that `run` can come to, each with its exact probability (they sum to 1)."""
    scripts: list[tuple] = [()]
    while scripts:
        chance = Enumerated(scripts.pop())
        yield run(chance), chance.weight
        scripts += chance.untried


def law(run: Callable[[Enumerated], tuple[int, ...]]) -> dict[tuple[int, ...], Fraction]:
    """The law of what a round emits: tuples of different lengths."""
    out: dict[tuple[int, ...], Fraction] = defaultdict(Fraction)
    for emitted, weight in outcomes(run):
        out[emitted] += weight
    assert sum(out.values()) == 1
    return out


def chain(model: Model, tokens: tuple[int, ...], after: int = 0) -> Fraction:
    """The model's probability of tokens[after:] given tokens[:after]."""
    out = Fraction(1)
    for i in range(after, len(tokens)):
        out *= model(tokens[:i])[tokens[i]]
    return out


def completed(emitted: dict[tuple[int, ...], Fraction], target: Model, vocab: int, horizon: int) -> dict:
    """The joint law of `horizon` tokens when the target itself writes what the round left open."""
    return {
        tokens: sum(
            (emitted[tokens[:n]] * chain(target, tokens, n) for n in range(horizon + 1) if tokens[:n] in emitted),
            Fraction(0),
        )
        for tokens in itertools.product(range(vocab), repeat=horizon)
    }


def is_lossless(emitted: dict[tuple[int, ...], Fraction], target: Model, vocab: int, horizon: int) -> bool:
    """Is the round's law, completed, the target's own, fraction by fraction?"""
    joint = completed(emitted, target, vocab, horizon)
    return all(joint[tokens] == chain(target, tokens) for tokens in joint)


def table(seed: int, vocab: int, zeros: float = 0.0, only: Iterable[int] | None = None) -> Model:
    """A model of random Fractions that depends on all tokens so far. `zeros`: the share of impossible tokens;
    `only`: the tokens that are possible at all."""
    rows: dict[tuple[int, ...], np.ndarray] = {}
    possible = list(range(vocab)) if only is None else list(only)

    def row(tokens: tuple[int, ...]) -> np.ndarray:
        if tokens not in rows:
            dice = random.Random(f"{seed} {tokens}")
            weights = [0] * vocab
            for i in possible:
                weights[i] = 0 if dice.random() < zeros else dice.randint(1, 9)
            if not any(weights):
                weights[dice.choice(possible)] = 1
            rows[tokens] = np.array([Fraction(w, sum(weights)) for w in weights], dtype=object)
        return rows[tokens]

    return row


def warped(model: Model, keep: int, power: int = 2) -> Model:
    """The model under a warping that keeps fractions: probabilities to a power (a temperature), the `keep` largest."""

    def row(tokens: tuple[int, ...]) -> np.ndarray:
        weights = model(tokens) ** power
        least = sorted(weights)[-keep]
        weights = np.array([w if w >= least else Fraction(0) for w in weights], dtype=object)
        return weights / weights.sum()

    return row


def stack(rows: list[np.ndarray], vocab: int) -> np.ndarray:
    """[n, V] of rows; of no rows, too."""
    return np.stack(rows) if rows else np.empty((0, vocab), dtype=object)


def chi_square_tail(x: float, freedom: int) -> float:
    """P(chi-square with `freedom` >= 1 degrees > x), by the closed sums for even and odd degrees."""
    y = x / 2
    if y <= 0:
        return 1.0
    half = freedom % 2 / 2
    steps = int(freedom / 2 - half)
    # even: e^-y sum y^j / j!; odd: erfc(sqrt y) + e^-y sum y^(j + 1/2) / Gamma(j + 3/2)
    terms = [math.exp((j + half) * math.log(y) - y - math.lgamma(j + half + 1)) for j in range(steps)]
    return min(1.0, math.fsum([math.erfc(math.sqrt(y)) if half else 0.0, *terms]))


class ChiSquare:
    """Counts against laws, over any number of groups; within a group the cells' probabilities sum to 1."""

    EXPECTED = 10  # cells that are expected more rarely are merged: the tail below 1e-6 needs a good approximation

    def __init__(self) -> None:
        self.counts: dict[object, Counter] = defaultdict(Counter)
        self.laws: dict[object, dict] = {}
        self.impossible: list[tuple] = []

    def add(self, group: object, cell: object, law: dict) -> None:
        """One observation; `law` is the group's, {cell: probability}."""
        self.laws.setdefault(group, law)
        if not law.get(cell):
            self.impossible.append((group, cell))
        self.counts[group][cell] += 1

    def total(self) -> int:
        return sum(sum(c.values()) for c in self.counts.values())

    def statistic(self) -> tuple[float, int]:
        """The sum over all groups, and its degrees of freedom."""
        x, freedom = 0.0, 0
        for group, counts in self.counts.items():
            n = sum(counts.values())
            cells, rare = [], [0.0, 0]
            for cell, probability in self.laws[group].items():
                expected = n * float(probability)
                if expected >= self.EXPECTED:
                    cells.append([expected, counts[cell]])
                else:
                    rare = [rare[0] + expected, rare[1] + counts[cell]]
            if rare[0] >= self.EXPECTED or not cells:
                cells.append(rare)
            elif rare[0] > 0:  # too rare even together: with the rarest that is not
                least = min(cells)
                least[0], least[1] = least[0] + rare[0], least[1] + rare[1]
            if len(cells) > 1:
                x += sum((seen - expected) ** 2 / expected for expected, seen in cells)
                freedom += len(cells) - 1
        return x, freedom

    def p_value(self) -> float:
        """The chance of a statistic this large under the laws; 0 when something impossible was seen."""
        if self.impossible:
            return 0.0
        x, freedom = self.statistic()
        assert freedom > 0, "nothing was counted"
        return chi_square_tail(x, freedom)
