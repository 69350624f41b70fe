"""A trained head drafts from the target's own features (EAGLE: Li et al. 2024, arXiv 2401.15077).

As a chain each token is drawn from the head's law, like a draft model's. As a tree (EAGLE-2: Li et al. 2024, arXiv
2406.16858) the likeliest tokens of each step are followed at once, and of all that was found those with the greatest
product of confidences are proposed; they are determined, not drawn, as a tree's tokens must be.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..model import Session
from ..model.head import Head, widened
from ..settings import MAX_K, Sampling
from .autoregressive import draft_tokens
from .base import Proposal

SPARE = 3 * MAX_K  # positions for a tree's rows beyond the text


class EagleProposer:
    """`session` is the target's, opened with the head's taps. `branch` is how many children a token may have in a

    tree, and how many tokens of a depth are followed; 1 means a chain.
    """

    name = "eagle"

    def __init__(self, head: Head, session: Session, sampling: Sampling, branch: int = 1) -> None:
        self.head, self.target, self.sampling, self.branch = head, session, sampling, branch
        self.own = head.session(session.capacity + SPARE)

    def start(self, ids: Sequence[int]) -> None:
        self.own.rollback(0)
        if len(ids) > 2:  # the last position waits for the first round, as it does in the target
            self._read(ids, len(ids) - 2)

    def _read(self, ids: Sequence[int], upto: int) -> torch.Tensor:
        """Take in positions length .. upto - 1; their states."""
        begin = self.own.length
        return self.own.read(ids[begin + 1 : upto + 1], self.target.features[begin:upto])

    def propose(self, ids: Sequence[int], k: int, go_on, chance) -> Proposal:
        known = min(self.target.length, len(ids) - 1)  # positions whose features are there
        if known < 1:
            return Proposal(note="The head needs one token before it can guess.")
        # The features of the last position may have been read already, when a round proposed nothing.
        self.own.rollback(min(self.own.length, known - 1))
        state = self._read(ids, known)[-1:]
        try:
            return self._tree(state, k, go_on) if self.branch > 1 else self._chain(state, ids, k, go_on, chance)
        finally:
            self.own.rollback(known)

    def _chain(self, state: torch.Tensor, ids: Sequence[int], k: int, go_on, chance) -> Proposal:
        if self.sampling.greedy and self.sampling.repetition_penalty == 1:
            return self._greedy_chain(state, k, go_on)
        count = 0

        def step(feed: Sequence[int]) -> torch.Tensor:
            nonlocal state, count
            if feed:
                state = self.own.guess(feed, state, [count - 1])
                count += 1
            return widened(self.head.logits(state), self.head.ids, self.target.vocab_size)

        return draft_tokens(step, [], ids, k, self.sampling, go_on, chance)

    def _greedy_chain(self, state: torch.Tensor, k: int, go_on) -> Proposal:
        """As `draft_tokens` does it, over the head's few tokens alone."""
        out = Proposal()
        while len(out.ids) < k and (not out.ids or go_on(out.confidence)):
            if out.ids:
                state = self.own.guess(out.ids[-1:], state, [len(out.ids) - 2])
            p, at = self.head.logits(state)[0].softmax(-1).max(-1)
            out.ids.append(int(self.head.ids[at]))
            out.confidence.append(float(p))
            out.sources.append(None)
        return out

    def _tree(self, state: torch.Tensor, k: int, go_on) -> Proposal:
        """Depth by depth; then the best k of everything found. A token outranks none of its forebears, so that the best

        k hang together.
        """
        found: list[tuple[int, int, float, float]] = []  # token, parent, confidence, product
        self._branches(found, state, [-1])
        follow = list(range(len(found)))
        rows: dict[int, int] = {-1: -1}  # node -> its row in the head's own tree
        while follow and len(rows) <= 2 * k:
            lead = max(follow, key=lambda i: found[i][3])
            if self._rank(found, lead) >= k or not go_on(self._confidences(found, lead)):
                break
            follow = sorted(sorted(follow, key=lambda i: -found[i][3])[: self.branch])
            state_of = self._states(found, follow, rows, state)
            first = len(found)
            self._branches(found, state_of, follow)
            state = torch.cat((state, state_of))
            follow = list(range(first, len(found)))
        best = sorted(sorted(range(len(found)), key=lambda i: (-found[i][3], i))[:k])
        at = {node: i for i, node in enumerate(best)} | {-1: -1}
        out = Proposal([found[i][0] for i in best], parents=[at[found[i][1]] for i in best])
        out.confidence = [found[i][2] for i in best]
        out.sources = [None] * len(best)
        return out

    def _branches(self, found: list, states: torch.Tensor, parents: Sequence[int]) -> None:
        p, at = self.head.logits(states).softmax(-1).topk(min(self.branch, len(self.head.ids)))
        ids = self.head.ids[at].tolist()
        for parent, tokens, confidences in zip(parents, ids, p.tolist(), strict=True):
            before = found[parent][3] if parent >= 0 else 1.0
            for token, confidence in zip(tokens, confidences, strict=True):
                found.append((token, parent, confidence, before * confidence))

    def _states(self, found: list, follow: list[int], rows: dict[int, int], states: torch.Tensor) -> torch.Tensor:
        """Run the nodes to be followed through the head; `states` are those of the text and of all rows so far."""
        parents = [rows[found[i][1]] for i in follow]
        new = self.own.guess([found[i][0] for i in follow], states[[p + 1 for p in parents]], parents)
        for i in follow:
            rows[i] = len(rows) - 1
        return new

    @staticmethod
    def _rank(found: list, node: int) -> int:
        return sum(other[3] > found[node][3] for other in found)

    @staticmethod
    def _confidences(found: list, node: int) -> list[float]:
        path: list[float] = []
        while node >= 0:
            path.insert(0, found[node][2])
            node = found[node][1]
        return path

    def commit(self, length: int) -> None:
        self.own.rollback(min(self.own.length, max(0, length - 1)))
