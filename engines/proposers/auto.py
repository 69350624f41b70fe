"""Each round the proposer that promises most, or none: lookup where the text repeats, a head elsewhere.

What a proposer promises is tokens per time: for one that is free to ask (lookup), what its confidences, as they have
proved true in this run, make of the proposal at hand; for one whose drafting costs, what its last rounds brought. The
best is taken if it beats plain decoding, which is 1. The others are tried again now and then, so that a text that turns
from prose to a list is noticed. Costs are those measured at load, so that a seed gives the same run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..adaptive import AdaptiveLength
from ..cost import Costs
from .base import Proposal, Proposer, depths


@dataclass
class Member:
    """One proposer of the choice, with what it costs and what has been learnt of it."""

    proposer: Proposer
    costs: Costs
    free: bool  # asking costs nothing

    def __post_init__(self) -> None:
        self.policy = AdaptiveLength(self.costs)
        self.tokens, self.time = 3.0, 2.0  # hopeful at first, so that each is tried early
        self.rested = 0

    @property
    def rate(self) -> float:
        return self.tokens / self.time

    def learn(self, emitted: int, cost: float) -> None:
        self.tokens, self.time = self.tokens * 0.9 + emitted, self.time * 0.9 + cost


class AutoProposer:
    """Proposer and length policy in one: the loop asks it for both."""

    name = "auto"
    TRY_EVERY = 16  # rounds between two tries of one that costs and does not seem to pay

    def __init__(self, members: Sequence[Member]) -> None:
        self.members = list(members)
        self._now: Member | None = None

    def start(self, ids: Sequence[int]) -> None:
        for m in self.members:
            m.proposer.start(ids)

    # -- the loop's questions about length ---------------------------------------------------------------------

    def limit(self, k: int) -> int:
        return k

    def go_on(self, confidences: Sequence[float | None], coming: float | None = None) -> bool:
        return self._now is None or self._now.policy.go_on(confidences, coming)

    def keep(self, confidences: Sequence[float | None], parents: Sequence[int]) -> list[int]:
        return list(range(len(parents))) if self._now is None else self._now.policy.keep(confidences, parents)

    # -- the choice --------------------------------------------------------------------------------------------

    def propose(self, ids: Sequence[int], k: int, go_on, chance) -> Proposal:
        """Free ones first: their proposal is at hand, and is judged as it is."""
        best, rate, made = None, 1.0, None
        for m in self.members:
            if m.free:
                proposal = self._ask(m, ids, k, chance)
                promise = self._promise(m, proposal)
                if promise > rate:
                    best, rate, made = m, promise, proposal
        for m in self.members:
            if m.free:
                continue
            m.rested += 1
            due = m.rested >= self.TRY_EVERY and rate < 2.0
            if m.rate > rate or (due and best is None):
                best, rate, made = m, max(rate, m.rate), None
        self._now = best
        if best is None:
            return Proposal()
        if made is None:
            best.rested = 0
            made = self._ask(best, ids, k, chance)
        made.note = made.note or best.proposer.name
        return made

    def _ask(self, m: Member, ids: Sequence[int], k: int, chance) -> Proposal:
        m.policy.look_ahead(k)
        return m.proposer.propose(ids, k, m.policy.go_on, chance)

    def _promise(self, m: Member, proposal: Proposal) -> float:
        """Tokens per time that the proposal at hand is expected to bring."""
        if not proposal.ids:
            return 0.0
        parents = proposal.parents or list(range(-1, len(proposal.ids) - 1))
        kept = m.policy.keep(proposal.confidence, parents)
        return m.policy.expected(proposal.confidence, parents, kept) / m.costs.v(len(kept)) if kept else 0.0

    # -- what became of it -------------------------------------------------------------------------------------

    def _settle(self, proposed: int, steps: int, emitted: int) -> None:
        if self._now is not None:
            self._now.learn(emitted, self._now.costs.v(proposed) + steps * self._now.costs.draft)

    def learn(self, confidences: Sequence[float | None], accepted: int) -> None:
        if self._now is not None:
            self._now.policy.learn(confidences, accepted)
            self._settle(len(confidences), len(confidences), accepted + 1)

    def learn_tree(self, confidences: Sequence[float | None], parents: Sequence[int], path: Sequence[int]) -> None:
        if self._now is not None:
            self._now.policy.learn_tree(confidences, parents, path)
            self._settle(len(parents), 0 if self._now.free else 1 + max(depths(parents)), len(path) + 1)

    def observe(self, ids: Sequence[int], logits: Any, proposal: Proposal, outcome: Any) -> None:
        for m in self.members:
            if hasattr(m.proposer, "observe"):
                m.proposer.observe(ids, logits, proposal, outcome)

    def commit(self, length: int) -> None:
        for m in self.members:
            m.proposer.commit(length)
