"""Logits -> probability rows, and the random numbers that belong to a run.

Everything that ends up in an acceptance test goes through `warp`, for p and for q alike, so that q is the very
distribution that its token was drawn from. Filters (top-k, top-p, min-p) find their few survivors without sorting
the vocabulary: a bound that is cheap and safe first, exact arithmetic on what passes it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from .errors import UserError
from .settings import Sampling

_BLOCK = 256  # how many weights `Chance.draw` sums at once
_STRIDE = 64  # how many logits share one maximum when the k-th largest is looked for


def warp(
    logits: torch.Tensor, sampling: Sampling, history: Sequence[int] = (), drafts: Sequence[int] = ()
) -> np.ndarray:
    """The law of each next token: float32 rows [n, V], each summing to 1.

    `logits` [n, V] on any device, left as they are; row i is the law of the token after history + drafts[:i].
    In transformers' order: repetition penalty (CTRL, Keskar et al. 2019, arXiv 1909.05858) over all tokens before
    the position, drafts of the same block included; temperature; top-k (ties at its threshold stay); top-p
    (Holtzman et al. 2020, arXiv 1904.09751: the fewest likeliest tokens whose mass reaches top-p, lowest ids first at
    a tie); min-p (Nguyen et al. 2024, arXiv 2407.01082). The likeliest token always survives. -inf is a legal mask.
    For a greedy `sampling` the row is one-hot at `greedy_ids`. Raises UserError on NaN, +inf, or a row of only -inf.
    """
    n, vocab = logits.shape
    if sampling.greedy:
        rows = np.zeros((n, vocab), dtype=np.float32)
        rows[np.arange(n), greedy_ids(logits, sampling, history, drafts)] = 1.0
        return rows
    logits = _penalised(logits, sampling, history, drafts)
    if 0 < sampling.top_k < vocab:
        return _top_k_rows(logits.cpu().numpy(), sampling)
    rows = _softmax(logits, sampling.temperature)
    if sampling.top_p < 1 or sampling.min_p > 0:
        for row in rows:
            kept, mass = _nucleus(row, sampling)
            row.fill(0.0)
            row[kept] = mass
    return rows


def greedy_ids(
    logits: torch.Tensor, sampling: Sampling, history: Sequence[int] = (), drafts: Sequence[int] = ()
) -> list[int]:
    """The likeliest token of each row (the lowest id at a tie), penalty applied. Arguments and errors as `warp`."""
    logits = _penalised(logits, sampling, history, drafts)
    if logits.device.type == "cpu":  # numpy's argmax takes a tenth of torch's time here
        x = logits.numpy()
        ids = [int(row.argmax()) for row in x]
        best = x[np.arange(len(ids)), ids]
    else:  # only the winners travel
        at = logits.argmax(dim=-1, keepdim=True)
        best = logits.gather(1, at).cpu().numpy()
        ids = at[:, 0].tolist()
    _must_be_numbers(best)  # both argmax take NaN for the largest
    return ids


def _softmax(logits: torch.Tensor, temperature: float = 1.0) -> np.ndarray:
    """softmax(logits / temperature) of rows [n, V], on the CPU and ours to write to. Errors as `warp`."""
    if logits.device.type != "cpu":
        rows = torch.softmax(logits / temperature, dim=-1).cpu().numpy()
    else:
        # Row by row it stays on this thread. Waiting for others costs more than they save, and far more on a machine
        # that is busy otherwise.
        rows = np.empty(logits.shape, dtype=np.float32)
        for row, out in zip(logits.numpy(), rows, strict=True):
            scaled = row if temperature == 1 else row / np.float32(temperature)
            torch.softmax(torch.from_numpy(scaled), dim=0, out=torch.from_numpy(out))
    # One NaN, one +inf or nothing but -inf turns a whole row into NaN. And torch adds one by one: its rows may miss 1
    # by 1e-5, where numpy, which adds pairwise, is right to float32's precision.
    sums = rows.sum(axis=1, keepdims=True)
    _must_be_numbers(sums)
    rows /= sums
    return rows


def _must_be_numbers(values: np.ndarray) -> None:
    if not np.isfinite(values).all():
        raise UserError(
            "The model's logits hold NaN or infinity, or mask every token. "
            "Try dtype fp32, or fetch the weights again in case they are damaged."
        )


def _penalised(logits: torch.Tensor, sampling: Sampling, history: Sequence[int], drafts: Sequence[int]) -> torch.Tensor:
    """Contiguous float32 [n, V]: the logits themselves, or a copy on the CPU with the repetition penalty applied."""
    logits = logits.detach().float().contiguous()
    factor = sampling.repetition_penalty
    if factor == 1:
        return logits

    def punish(x: np.ndarray) -> np.ndarray:
        return np.where(x < 0, x * factor, x / factor)

    n, vocab = logits.shape
    x = logits.cpu().numpy().copy()
    seen = {t for t in history if t < vocab}  # a draft's vocabulary may be narrower than the target's
    if seen:
        ids = np.fromiter(seen, dtype=np.int64, count=len(seen))
        x[:, ids] = punish(x[:, ids])
    for i, token in enumerate(drafts[: n - 1], start=1):
        if token not in seen and token < vocab:
            seen.add(token)
            x[i:, token] = punish(x[i:, token])
    return torch.from_numpy(x)


def _kth_bound(x: np.ndarray, k: int) -> np.float32:
    """A value that at least k of x [V] reach, close below the k-th largest: the k-th largest of group maxima."""
    groups = len(x) // _STRIDE
    if groups < 2 * k:  # too few groups to say anything: the k-th largest itself
        return np.partition(x, len(x) - k)[len(x) - k]
    highest = x[: groups * _STRIDE].reshape(_STRIDE, groups).max(axis=0)  # group = every `groups`-th: adds along SIMD
    return np.partition(highest, groups - k)[groups - k]


def _top_k_rows(x: np.ndarray, sampling: Sampling) -> np.ndarray:
    """As `warp`, for logits [n, V] with 0 < top_k < V: only the survivors are ever exponentiated."""
    _must_be_numbers(x.max(axis=1))
    rows = np.zeros(x.shape, dtype=np.float32)
    k = sampling.top_k
    for logits, row in zip(x, rows, strict=True):
        ids = np.flatnonzero(logits >= _kth_bound(logits, k))
        scaled = logits[ids] / np.float32(sampling.temperature)
        stays = scaled >= np.partition(scaled, len(scaled) - k)[len(scaled) - k]
        ids, scaled = ids[stays], scaled[stays]
        mass = np.exp(scaled - scaled.max())
        mass /= mass.sum()
        if sampling.top_p < 1 or sampling.min_p > 0:
            kept, mass = _nucleus(mass, sampling)
            ids = ids[kept]
        row[ids] = mass
    return rows


def _nucleus(probs: np.ndarray, sampling: Sampling) -> tuple[np.ndarray, np.ndarray]:
    """Top-p, then min-p over one row [V] that sums to 1: the indices that stay, ascending, and their new shares.

    Top-p keeps a token when those likelier than it hold less than top_p. Both filters keep the likeliest so many;
    hence they commute, and min-p may go first.
    """
    least = float(probs.max()) * sampling.min_p if sampling.min_p else 0.0
    if sampling.top_p == 1:
        ids = np.flatnonzero(probs >= np.float32(least))
        return ids, probs[ids] / probs[ids].sum()
    # Drop before the sort what cannot stay. A bar of a thousandth of the tail is high, and right if what passes it
    # holds top_p; V tokens under the low one hold at most half the tail together, so that none of them can stay.
    for bar in (1e-3, 0.5 / len(probs)):
        floor = max(least, bar * (1 - sampling.top_p))
        ids = np.flatnonzero(probs >= np.float32(floor))
        mass = probs[ids]
        if floor == least or mass.sum() > sampling.top_p:
            break
    falling = np.sort(mass)[::-1]
    before = np.cumsum(falling, dtype=np.float64) - falling
    count = int(np.searchsorted(before, sampling.top_p, side="left"))  # at least 1: nothing is before the likeliest
    least = falling[count - 1]
    stays = mass > least
    tied = np.flatnonzero(mass == least)
    stays[tied[: count - np.count_nonzero(stays)]] = True
    ids, mass = ids[stays], mass[stays]
    return ids, mass / mass.sum()


def raw_stats(logits: torch.Tensor, ids: Sequence[int]) -> tuple[list[float], list[int]]:
    """For each id, one a row of logits [>= n, V]: its softmax probability before any warping, and its rank

    (how many logits of the row are strictly larger; 0 is the model's first choice). Errors as `warp`.
    """
    n = len(ids)
    x = logits[:n].detach().float().contiguous()
    if x.device.type == "cpu":  # numpy's view: thin passes, and none of the cost of many small tensors
        rank = [int(np.count_nonzero(row > row[i])) for row, i in zip(x.numpy(), ids, strict=True)]
        return [float(row[i]) for row, i in zip(_softmax(x), ids, strict=True)], rank
    at = torch.tensor(list(ids), device=x.device, dtype=torch.long)[:, None]
    probs = torch.softmax(x, dim=-1).gather(1, at)[:, 0].tolist()
    return probs, (x > x.gather(1, at)).sum(dim=-1).tolist()


def top(row: np.ndarray | torch.Tensor, n: int) -> list[tuple[int, float]]:
    """The n largest entries of a row [V] as (id, value), falling; the lowest id first at a tie."""
    if isinstance(row, torch.Tensor):
        row = row.detach().float().cpu().numpy()
    n = min(n, len(row))
    if n == 0:
        return []
    ids = np.flatnonzero(row >= _kth_bound(row, n))
    ids = ids[np.argsort(-row[ids], kind="stable")][:n]
    return [(int(i), float(row[i])) for i in ids]


def margin(row: np.ndarray | torch.Tensor) -> float | None:
    """Gap between the two largest entries of a row [V]; None where there is no second one to compare with."""
    best = top(row, 2)
    return best[0][1] - best[1][1] if len(best) == 2 and np.isfinite(best[1][1]) else None


class Chance:
    """One run's random numbers: numpy's PCG64 under the run's seed. No global state is read or written.

    `last` is the number that the latest `accept` drew.
    """

    def __init__(self, seed: int) -> None:
        self._random = np.random.Generator(np.random.PCG64(seed))
        self.last: float | None = None

    def uniform(self) -> float:
        """A number in [0, 1)."""
        return float(self._random.random())

    def accept(self, probability: float) -> bool:
        """True with this probability: always at 1 or more, never at 0."""
        self.last = self.uniform()
        return self.last < probability

    def draw(self, weights: np.ndarray) -> int:
        """An index with probability in proportion to weights [V] (>= 0, any sum), never one of weight zero.

        Inverse of the distribution function in float64, in two steps (block, then index in the block), which is
        four times as fast as one running sum over a vocabulary. Raises ValueError when no weight is positive.
        """
        start, target = 0, None
        if len(weights) >= 16 * _BLOCK:
            whole = len(weights) // _BLOCK * _BLOCK
            sums = weights[:whole].reshape(-1, _BLOCK).sum(axis=1, dtype=np.float64)
            sums = np.cumsum(np.append(sums, weights[whole:].sum(dtype=np.float64)))
            target = self._point(sums[-1])
            block = int(np.searchsorted(sums, target, side="right"))
            target -= sums[block - 1] if block else 0.0
            start = block * _BLOCK
            weights = weights[start : start + _BLOCK] if block < len(sums) - 1 else weights[start:]
        sums = np.cumsum(weights, dtype=np.float64)
        if target is None:
            target = self._point(sums[-1] if len(sums) else 0.0)
        # The two steps round differently: what falls beyond the block's own sum belongs to its last positive weight.
        target = min(target, np.nextafter(sums[-1], 0.0))
        return start + int(np.searchsorted(sums, target, side="right"))

    def _point(self, total: float) -> float:
        if not 0 < total < np.inf:
            raise ValueError(f"Nothing to draw from: the weights sum to {total}.")
        return min(self.uniform() * total, np.nextafter(total, 0.0))
