"""Token recycling: what the target thought of as next after a token, the last time it read it, is a guess for the next

time. No weights: a table from tokens to the target's own likeliest successors, which every pass refreshes for each row
that it computed, those of refused tokens included (Luo et al. 2024, "Turning Trash into Treasure", arXiv 2408.08696).
Beside the paper's table this one has another for pairs of tokens, which is asked first and is sharper. It may start
from a shipped table of the target's own text.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from ..sampling import top
from .base import Proposal
from .best_first import chain, tree

WIDTH = 8  # successors kept of each token
PAIRS = 20_000  # pairs remembered, the least recently refreshed go first
LEAST = 1e-3  # a successor less likely than this is none

Row = list[tuple[int, float]]  # (token, the target's probability), falling


class RecycleProposer:
    """`known` maps tokens to rows to start from; `branch` 1 makes chains. `trees`: whether the target judges trees."""

    name = "recycle"

    def __init__(self, branch: int = 4, known: dict[int, Row] | None = None, trees: bool = True) -> None:
        self.branch = branch if trees else 1
        self._known = known or {}
        self._single: dict[int, Row] = {}
        self._pair: OrderedDict[tuple[int, int], Row] = OrderedDict()

    def start(self, ids: Sequence[int]) -> None:
        self._single, self._pair = {}, OrderedDict()

    def propose(self, ids: Sequence[int], k: int, go_on, chance) -> Proposal:
        state = (ids[-2] if len(ids) > 1 else -1, ids[-1])
        if self.branch > 1:
            return tree(self._grow, state, k, self.branch)
        return chain(self._grow, state, k, go_on)

    def _grow(self, state: tuple[int, int]) -> list[tuple[int, float, None, tuple[int, int]]]:
        row = self._pair.get(state) or self._single.get(state[1]) or self._known.get(state[1], [])
        return [(token, p, None, (state[1], token)) for token, p in row]

    def observe(self, ids: Sequence[int], logits, proposal: Proposal, outcome) -> None:
        """Row 0 of the target's pass read the text's last token, row i + 1 the proposal's token i."""
        rows = logits.float().cpu().numpy()
        before = ids[-2:]
        for i in range(len(proposal.ids) + 1):
            token = before[-1] if i == 0 else proposal.ids[i - 1]
            if i == 0:
                elder = before[-2] if len(before) > 1 else -1
            else:
                parent = proposal.parents[i - 1] if proposal.parents else i - 2
                elder = proposal.ids[parent] if parent >= 0 else before[-1]
            best = top(rows[i], WIDTH)
            total = float(np.exp(rows[i] - best[0][1]).sum())
            row = [(t, float(np.exp(x - best[0][1])) / total) for t, x in best]
            row = [(t, p) for t, p in row if p >= LEAST]
            self._single[token] = row
            self._pair[elder, token] = row
            self._pair.move_to_end((elder, token))
        while len(self._pair) > PAIRS:
            self._pair.popitem(last=False)

    def commit(self, length: int) -> None:
        pass  # the table is about tokens, not about places
