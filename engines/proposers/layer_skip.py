"""The target drafts for itself with some of its layers left out (Draft & Verify, Zhang et al. 2023, arXiv 2309.08168).

No extra weights and no extra cache: the kept layers read and write the target's own cache. What drafting writes
there is rolled back before the target judges, so verification sees only what the whole model wrote.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import UserError
from ..model import Session
from ..settings import Sampling
from .autoregressive import draft_tokens
from .base import Proposal


def default_skip(num_layers: int) -> tuple[int, ...]:
    """The middle sixth: on SmolLM2-135M the choice that kept most greedy tokens of those tried without training."""
    first = num_layers // 3
    return tuple(range(first, first + max(1, num_layers // 6)))


def kept_layers(num_layers: int, skip: Sequence[int]) -> tuple[int, ...]:
    """The layers that draft. Raises UserError when `skip` names none that exist, or all."""
    beyond = [i for i in skip if i >= num_layers]
    if beyond:
        raise UserError(f"The target has layers 0 to {num_layers - 1}; there is no layer {beyond[0]} to skip.")
    kept = tuple(i for i in range(num_layers) if i not in set(skip))
    if not kept:
        raise UserError("Every layer would be skipped: keep at least one.")
    return kept


class LayerSkipProposer:
    name = "layer-skip"

    def __init__(self, session: Session, skip: Sequence[int], sampling: Sampling) -> None:
        self.session, self.sampling = session, sampling
        self.skip = tuple(skip) or default_skip(session.num_layers)
        self.layers = kept_layers(session.num_layers, self.skip)

    def start(self, ids: Sequence[int]) -> None:
        pass  # the target's prefill is also ours

    def propose(self, ids: Sequence[int], k: int, go_on, chance) -> Proposal:
        before = self.session.length
        try:
            return draft_tokens(self._step, ids[before:], ids, k, self.sampling, go_on, chance)
        finally:
            self.session.rollback(before)

    def _step(self, feed: Sequence[int]):
        return self.session.forward(feed, logits_from=len(feed) - 1, layers=self.layers)

    def commit(self, length: int) -> None:
        pass
