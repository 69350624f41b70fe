"""Lossless verification: how much of a proposal stands, and the target's own token after it.

p are the target's rows, q the draft's, both after their own warping; q must be the distribution that the proposed
tokens were drawn from. Then the emitted tokens have exactly the target's law, whatever q is. That holds as well when
the length of the proposal was decided while drafting, as long as each decision looked only at tokens already drawn
(a stopping time) and no drawn token was dropped.

There is no floating-point constant here: rows may be arrays of float32 or of fractions.Fraction, and the tests prove
exactness by running this very code on fractions, over every outcome of `chance`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np


class Chance(Protocol):
    """Random numbers: `accept` is true with the given probability, `draw` picks an index by unnormalised weights.

    `last`, when there is one, is the number that the latest `accept` drew."""

    def accept(self, probability: Any) -> bool: ...

    def draw(self, weights: np.ndarray) -> int: ...


@dataclass
class Outcome:
    """The first `accepted` tokens stand, `extra` follows them.

    `kind` is "corrected" (after a rejection), "bonus" (all accepted) or "plain" (nothing was proposed). The lists
    cover the judged tokens: the accepted ones and the first rejected. `ratios` are min(1, p/q); `thresholds` the
    acceptance probabilities that `us` were compared with (None where nothing is drawn). `mass`: the sum of the
    residual that a corrected token was drawn from; None for other kinds and for greedy decoding.
    """

    accepted: int
    extra: int
    kind: str
    ratios: list
    thresholds: list
    us: list
    mass: Any = None
    path: list[int] | None = None  # of a tree: the accepted tokens; of a chain they are the first ones
    judged: list[int] | None = None  # of a tree: the judged tokens, in the order in which they were


def verify_greedy(target_ids: Sequence[int], ids: Sequence[int]) -> Outcome:
    """T = 0: proposed `ids` [n] stand while they are the target's own choices `target_ids` [n + 1]."""
    n = len(ids)
    accepted = 0
    while accepted < n and ids[accepted] == target_ids[accepted]:
        accepted += 1
    nothing = [None] * min(accepted + 1, n)
    ratios = [int(i < accepted) for i in range(len(nothing))]
    return Outcome(accepted, int(target_ids[accepted]), _kind(accepted, n), ratios, nothing, list(nothing))


def verify_tokens(p: np.ndarray, q: np.ndarray | None, ids: Sequence[int], chance: Chance) -> Outcome:
    """Token by token: Leviathan et al. 2023 (arXiv 2211.17192), Chen et al. 2023 (arXiv 2302.01318).

    p [n + 1, V], q [n, V'] (a missing tail of either counts as zero) or None for tokens that were determined, not
    drawn (q = 1 at each), ids [n]. Each token stands with probability min(1, p/q); the first that does not is
    replaced by a draw from the normalised max(p - q, 0); when all stand, p[n] gives one more.
    """
    ratios: list = []
    us: list = []
    for i, token in enumerate(ids):
        ratios.append(min(1, _ratio(p, q, i, token)))
        accepted = chance.accept(ratios[i])
        us.append(getattr(chance, "last", None))
        if not accepted:
            extra, mass = _correct(1, p, q, i, token, chance)
            return Outcome(i, extra, "corrected", ratios, list(ratios), us, mass)
    n = len(ids)
    return Outcome(n, chance.draw(p[n]), _kind(n, n), ratios, list(ratios), us)


def verify_block(p: np.ndarray, q: np.ndarray | None, ids: Sequence[int], chance: Chance) -> Outcome:
    """The block as a whole: Sun et al. 2024, "Block verification accelerates speculative decoding", arXiv 2403.10444.

    Arguments as `verify_tokens`. With w_0 = 1 and w_i = min(1, w_(i-1) * p/q of token i), the prefix of length
    i < n is good with probability h_i = S_i / (S_i + 1 - w_i), where S_i is the mass of the residual
    max(w_i * p - q, 0) of the row after it, and the whole block with h_n = w_n. The longest good prefix stands (the
    empty one always does); then comes a draw from its residual, or from p[n] after the whole block. On average it
    keeps at least as many tokens as `verify_tokens`, because a token's luck makes up for the next one's lack.

    Thus a token may stand although its own u failed: a longer prefix was good. The first token after the
    prefix counts as rejected, the ones after it as unjudged. `thresholds` are the h_i.

    Lossless for a block length that is a stopping time, too: h_i rests on P(length >= i | first i tokens) = w_i, which
    follows backwards from the end of the block, and whether the block ends at i is a function of those i tokens.
    """
    n = len(ids)
    weights: list = [1]
    ratios: list = []
    thresholds: list = []
    us: list = []
    accepted = 0
    for i, token in enumerate(ids, start=1):
        ratio = _ratio(p, q, i - 1, token)
        weights.append(min(1, weights[-1] * ratio))
        ratios.append(min(1, ratio))
        thresholds.append(weights[i] if i == n else _prefix_good(weights[i], p, q, i, ids[i]))
        if chance.accept(thresholds[-1]):
            accepted = i
        us.append(getattr(chance, "last", None))
    judged = min(accepted + 1, n)
    lists = ratios[:judged], thresholds[:judged], us[:judged]
    if accepted == n:
        return Outcome(n, chance.draw(p[n]), _kind(n, n), *lists)
    extra, mass = _correct(weights[accepted], p, q, accepted, ids[accepted], chance)
    return Outcome(accepted, extra, "corrected", *lists, mass)


def verify_tree(
    row: Callable[[int], np.ndarray], children: Callable[[int], list[int]], ids: Sequence[int], chance: Chance
) -> Outcome:
    """A tree of determined tokens `ids`: at each fork the children are tried in turn, and the first to stand leads on.

    `children(i)` are the tokens that follow token i (-1: the text); `row(i)` is the target's law [V] after it. A child
    x stands with probability p(x) / (what the children refused before it have left of p): that is token-by-token
    verification with q = 1 at x, and the residual of each refusal, p without x, takes the place of p. When no child
    stands, the extra token is drawn from what is left. Hence a fork emits x with probability p(x), child or not, and
    the tree is lossless whatever its shape, if that was chosen without a look at `chance`. The scheme is SpecInfer's
    (Miao et al. 2023, arXiv 2305.09781) for tokens that were not drawn. Greedy decoding is the case of one-hot rows.
    """
    at, path = -1, []
    seen: list[int] = []
    ratios: list = []
    us: list = []
    while True:
        rest = row(at).copy()
        left, whole, stood = rest.sum(), True, None
        brothers = children(at)
        for child in brothers:
            token = ids[child]
            mine = rest.item(token) if token < len(rest) else 0
            ratios.append(min(1, mine / left) if left > 0 else 0)
            seen.append(child)
            stands = chance.accept(ratios[-1])
            us.append(getattr(chance, "last", None))
            if stands:
                stood = child
                break
            if token < len(rest):
                rest[token] = 0
            left, whole = rest.sum(), False
        if stood is None:
            if not whole and not left > 0:  # rounding alone: a child of probability 1 always stands
                rest = row(at)
            kind = "corrected" if brothers else "bonus" if len(ids) else "plain"
            extra = chance.draw(rest)
            return Outcome(
                len(path), extra, kind, ratios, list(ratios), us, None if whole else left, path, seen
            )  # fmt: skip
        path.append(stood)
        at = stood


def verify_tree_greedy(best: Callable[[int], int], children: Callable[[int], list[int]], ids: Sequence[int]) -> Outcome:
    """T = 0: `best(i)` is the target's choice after token i (-1: the text); see `verify_tree`."""
    at, path = -1, []
    seen: list[int] = []
    ratios: list = []
    while True:
        choice, stood = best(at), None
        brothers = children(at)
        for child in brothers:
            seen.append(child)
            ratios.append(int(ids[child] == choice))
            if ratios[-1]:
                stood = child
                break
        if stood is None:
            nothing = [None] * len(seen)
            kind = "corrected" if brothers else "bonus" if len(ids) else "plain"
            return Outcome(len(path), int(choice), kind, ratios, nothing, list(nothing), None, path, seen)
        path.append(stood)
        at = stood


def _prefix_good(weight: Any, p: np.ndarray, q: np.ndarray | None, i: int, token: int) -> Any:
    """h_i of `verify_block` for i < n: the prefix of length i, with `weight` w_i, is good with this probability."""
    if weight == 0:  # its residual is empty, too
        return 0
    if weight == 1:  # S / (S + 0); and at S = 0 (p = q in this row) the limit: all but surely a longer one is good
        return 1
    mass = _residual(weight, p, q, i, token).sum()
    return mass / (mass + 1 - weight)


def _kind(accepted: int, n: int) -> str:
    if n == 0:
        return "plain"
    return "bonus" if accepted == n else "corrected"


def _ratio(p: np.ndarray, q: np.ndarray | None, i: int, token: int) -> Any:
    """p/q of the token proposed at i; q is above zero there, for the token was drawn from it."""
    chance_p = p[i].item(token) if token < len(p[i]) else 0
    return chance_p if q is None else chance_p / q[i].item(token)


def _residual(weight: Any, p: np.ndarray, q: np.ndarray | None, i: int, token: int) -> np.ndarray:
    """max(weight * p - q, 0) of row i; q is one-hot at `token` when None."""
    rest = weight * p[i]
    if q is None:
        if token < len(rest):
            rest[token] = 0  # weight * p <= 1
        return rest
    width = min(len(rest), len(q[i]))
    rest[:width] -= q[i][:width]
    return np.maximum(rest, 0, out=rest)


def _correct(weight: Any, p: np.ndarray, q: np.ndarray | None, i: int, token: int, chance: Chance) -> tuple[int, Any]:
    """The target's own token in place of the rejected one at i, and the mass of the residual it came from."""
    rest = _residual(weight, p, q, i, token)
    mass = rest.sum()
    if mass > 0:
        return chance.draw(rest), mass
    # In exact arithmetic a rejection leaves a residual, since p and q have the same sum. In floating point two equal
    # rows may differ by rounding, p the smaller one everywhere: then p is the residual's limit, to within rounding.
    return chance.draw(p[i]), mass
