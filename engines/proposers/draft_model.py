"""A smaller model of the same vocabulary drafts (Leviathan et al. 2023; Chen et al. 2023)."""

from __future__ import annotations

from collections.abc import Sequence

from ..model import Session
from ..settings import Sampling
from .autoregressive import draft_tokens
from .base import Proposal


class DraftModelProposer:
    """`session` is the draft's own; `vocabulary` is how many ids draft and target have in common.

    Rows beyond it (vocabularies are padded to different sizes) are masked before anything is drawn. When the
    draft's context is full, drafting ends and the note says so; the text goes on without it.
    """

    name = "draft"

    def __init__(self, session: Session, sampling: Sampling, vocabulary: int) -> None:
        self.session, self.sampling, self.vocabulary = session, sampling, vocabulary

    def start(self, ids: Sequence[int]) -> None:
        self.session.rollback(0)
        inside = list(ids[: min(len(ids) - 1, self.session.capacity)])
        if inside:
            self.session.forward(inside, logits_from=len(inside))

    def _step(self, feed: Sequence[int]):
        logits = self.session.forward(feed, logits_from=len(feed) - 1)
        if logits.shape[-1] > self.vocabulary:
            logits[:, self.vocabulary :] = float("-inf")
        return logits

    def propose(self, ids: Sequence[int], k: int, go_on, chance) -> Proposal:
        # Drafting k tokens feeds the unseen ones and k - 1 of its own.
        room = self.session.capacity - len(ids) + 1
        full = f"The draft's context of {self.session.capacity} tokens is full: drafting has ended, the text goes on."
        if room < 1:
            return Proposal(note=full)
        unseen = list(ids[self.session.length :])
        out = draft_tokens(self._step, unseen, ids, min(k, room), self.sampling, go_on, chance)
        if len(out.ids) == room < k:
            out.note = full
        return out

    def commit(self, length: int) -> None:
        self.session.rollback(min(length, self.session.length))
