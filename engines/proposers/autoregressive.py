"""Drafting token by token with a model: the part that a draft model and layer skip have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..sampling import greedy_ids, raw_stats, warp
from ..settings import Sampling
from .base import Chance, Proposal

if TYPE_CHECKING:
    import torch

# Feeds tokens to the drafting model and returns the logits [1, V] that follow the last of them.
Step = Callable[[Sequence[int]], "torch.Tensor"]


def draft_tokens(
    step: Step,
    first: Sequence[int],
    ids: Sequence[int],
    k: int,
    sampling: Sampling,
    go_on: Callable[[Sequence[float | None]], bool],
    chance: Chance,
) -> Proposal:
    """Draft up to k tokens: feed `first` (what the model has not seen of `ids`), then each token drawn.

    Under greedy drafting the token is determined, so q is one-hot and `Proposal.q` stays None; otherwise the rows
    drawn from are kept, for they are what the acceptance test must divide by (Leviathan et al. 2023). The
    confidence is the model's softmax probability before warping.
    """
    out = Proposal()
    rows = []
    feed = first
    while len(out.ids) < k and (not out.ids or go_on(out.confidence)):
        logits = step(feed)
        if sampling.greedy:
            token = greedy_ids(logits, sampling, [*ids, *out.ids], [])[0]
        else:
            row = warp(logits, sampling, [*ids, *out.ids], [])[0]
            token = chance.draw(row)
            rows.append(row)
        out.confidence.append(raw_stats(logits, [token])[0][0])
        out.ids.append(token)
        out.sources.append(None)
        feed = [token]
    if rows:
        out.q = np.stack(rows)
    return out
