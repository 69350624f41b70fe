"""Does speculation leave the distribution as it is? A test on the running model, at a temperature above 0.

Many short rounds begin at one place of a text, each with fresh random numbers: the proposer proposes, the target
judges, the session is rolled back. What the rounds emit is counted, and compared with the target's own law at that
place, which is known exactly; for the second token with the law that follows the first. The rounds are the loop's own
code (`decode`), on the model and with the settings of the run in question, so that a fault in any part of it shows: in
the acceptance, the residual, the draft's q, the cache.

Where a round emits one token, the second is drawn from the target itself. Only so do all rounds have a second token:
a look at those alone that went far would be biased where tokens are judged by block.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from . import decode as loop
from .chi_square import LEAST, Fit, cells, fit
from .errors import UserError
from .judge import judge
from .law_words import sentences, verdict_of
from .proposers.base import Proposal
from .sampling import Chance, top, warp
from .settings import MAX_K, RunSettings

if TYPE_CHECKING:
    from .models import Models

ROUNDS = 400
MOST_ROUNDS = 1000
SECONDS = 120.0
SPAN = 32  # places that are looked at: the first tokens of an answer
TELL_EVERY = 0.25  # seconds
SHOWN = 8  # tokens in the table
MOST_LAWS = 64  # laws of second tokens that are kept: those after the first tokens that came first
LEAST_CONTEXT = 20  # a first token must have come this often for the second to be looked at

Item = dict[str, Any]
Function = Callable[["Models", Callable[..., None], Callable[[], bool]], Iterator[Item]]


def same_law(settings: RunSettings, prompt: str, rounds: int = ROUNDS, seconds: float = SECONDS) -> Function:
    """The test, for `Engine.work`: it ends after `rounds` rounds or `seconds` seconds, or when it is stopped.

    Its items are plain JSON. `state` is "choosing", "running" (a few times a second) or, once and last, "done". All
    have `done` and `of` (rounds); those that run have `place` (the text before) and `tokens`, the likeliest first
    tokens: [{"text", "expected", "seen"}], with all others as the last, whose text is None. The last one has
    `statistic`, `freedom`, `p_value`, `first` (the same of the first token alone), `verdict` (same, unclear, differs,
    or nothing where too little could be compared) and `sentences`. Raises UserError at temperature 0.
    """
    if settings.sampling.greedy:
        raise UserError(
            "At temperature 0 nothing is drawn, so there is no distribution to test: compare the texts, "
            "or set a temperature above 0."
        )
    if not 1 <= rounds <= MOST_ROUNDS:
        raise UserError(f"The test takes 1 to {MOST_ROUNDS} rounds, not {rounds}.")

    def work(models: Models, say: Callable[..., None], stopped: Callable[[], bool]) -> Iterator[Item]:
        yield {"state": "choosing", "done": 0, "of": rounds}
        place = _Place(models, settings, prompt, rounds, say, stopped)
        yield from _Test(place, rounds, seconds, stopped).items()

    return work


class _Place:
    """Where the rounds begin: of the first places in the greedy answer the one at which most can be learnt.

    That takes a law that is spread over tokens which come often enough to be counted, and a proposal of which it is
    open whether it stands.
    """

    def __init__(
        self,
        models: Models,
        settings: RunSettings,
        prompt: str,
        rounds: int,
        say: Callable[..., None],
        stopped: Callable[[], bool],
    ) -> None:
        # Always k tokens, from the text alone: a proposal that depends on earlier rounds would make them alike.
        self.settings = settings.replace(
            max_new_tokens=SPAN + MAX_K + 2, adaptive=False, remember=False, candidates=0, ignore_eos=True
        )
        self._new = lambda: models.job(self.settings, prompt, say, stopped)
        self._begin(self._new(), None)
        self.prompt_length = len(self.ids)
        best = self._best(rounds)
        if best is not None:
            self._begin(self._new(), best)

    def _begin(self, job: loop.Job, ids: list[int] | None) -> None:
        """Read `ids` (the prompt if None) but for the last of them, and make the proposer ready."""
        self.job, self.ids = job, list(job.start.prompt_ids) if ids is None else ids
        for begin in range(0, len(self.ids) - 1, loop.PREFILL_CHUNK):
            if job.stopped():
                return
            chunk = self.ids[begin : min(begin + loop.PREFILL_CHUNK, len(self.ids) - 1)]
            job.session.forward(chunk, logits_from=len(chunk))
        job.proposer.start(self.ids)

    def _best(self, rounds: int) -> list[int] | None:
        """The text before the best place; None when stopped."""
        chance = Chance(self.settings.seed)
        session, places = self.job.session, []
        for _ in range(SPAN):
            if self.job.stopped():
                return None
            if session.capacity - len(self.ids) < 3:
                break
            proposal = self.propose(chance)
            self.back()
            law = warp(session.forward(self.ids[-1:]), self.settings.sampling, self.ids)[0]
            spread = _spread(law, rounds)
            places.append((spread * _open(law, proposal), spread, list(self.ids)))
            self.ids.append(int(law.argmax()))
            if self.ids[-1] in self.job.eos_ids:
                break
        if not places:
            raise UserError("The prompt leaves no room for a proposal: shorten it.")
        return max(places, key=lambda place: place[:2])[2]

    def propose(self, chance: Chance) -> Proposal:
        k = min(self.settings.k, self.job.session.capacity - len(self.ids) - 1)
        return loop.propose(self.job, self.ids, self.job.length_policy.limit(k), chance)

    def back(self) -> None:
        """As if the round had never been."""
        self.job.session.rollback(len(self.ids) - 1)
        self.job.proposer.commit(len(self.ids) - 1)

    @property
    def text(self) -> str:
        """What the answer says before the place."""
        return "".join(self.job.text.peek(self.ids[self.prompt_length :]))


def _spread(law: np.ndarray, rounds: int) -> float:
    """The chance that two draws from `law` [V] differ, those that come too seldom to be counted taken as one."""
    own = law[cells(law, rounds)].astype(np.float64)
    return float(1 - (own**2).sum() - max(0.0, 1 - own.sum()) ** 2)


def _open(law: np.ndarray, proposal: Proposal) -> float:
    """How open it is whether a first token of the proposal stands: 0 if there is none, most if half the time."""
    if not proposal.ids:
        return 0.0
    if proposal.q is None:
        stands = sum(float(law[proposal.ids[i]]) for i in proposal.children(-1))
    else:
        width = min(len(law), len(proposal.q[0]))
        stands = float(np.minimum(law[:width], proposal.q[0][:width]).sum())
    return 0.05 + 4 * stands * max(0.0, 1 - stands)


class _Test:
    """Rounds at one place, and what they emitted: `seen` by the tokens before, () or (first token,)."""

    def __init__(self, place: _Place, rounds: int, seconds: float, stopped: Callable[[], bool]) -> None:
        self.place, self.rounds, self.seconds, self.stopped = place, rounds, seconds, stopped
        self.laws: dict[tuple[int, ...], np.ndarray] = {}
        self.seen: dict[tuple[int, ...], Counter[int]] = {(): Counter()}
        self.proposing = self.stood = self.done = 0
        self.chance = Chance(place.settings.seed + 1)

    def items(self) -> Iterator[Item]:
        begin = told = time.monotonic()
        while self.done < self.rounds and not self.stopped() and time.monotonic() - begin < self.seconds:
            self._round()
            self.done += 1
            if time.monotonic() - told > TELL_EVERY:
                told = time.monotonic()
                yield self._item("running")
        yield self._item("done") | self._result()

    def _round(self) -> None:
        place, job = self.place, self.place.job
        proposal = place.propose(self.chance)
        logits = loop.target_pass(job, place.ids[-1], proposal)
        outcome, p = judge(place.settings, logits, place.ids, proposal, self.chance)
        path = list(range(outcome.accepted)) if outcome.path is None else outcome.path
        tokens = [*(proposal.ids[i] for i in path), outcome.extra]
        self.proposing += bool(proposal.ids)
        self.stood += bool(path)
        for i, row in enumerate([0, *(node + 1 for node in path)][:2]):
            self._law(tuple(tokens[:i]), p[row])
        place.back()
        first = tuple(tokens[:1])
        self.seen[()][tokens[0]] += 1
        if tokens[0] in job.eos_ids:  # nothing follows it
            return
        second = tokens[1] if len(tokens) > 1 else self.chance.draw(self._after(first))
        if first in self.laws:
            self.seen.setdefault(first, Counter())[second] += 1

    def _law(self, before: tuple[int, ...], row: np.ndarray) -> None:
        if before not in self.laws and len(self.laws) < MOST_LAWS:
            self.laws[before] = np.array(row)

    def _after(self, first: tuple[int, ...]) -> np.ndarray:
        """The target's own law of the second token."""
        if first in self.laws:
            return self.laws[first]
        place, session = self.place, self.place.job.session
        logits = session.forward([place.ids[-1], *first], logits_from=1)
        place.back()
        law = warp(logits, place.settings.sampling, [*place.ids, *first])[0]
        self._law(first, law)
        return law

    def _item(self, state: str) -> Item:
        law, seen, piece = self.laws.get(()), self.seen[()], self.place.job.piece
        tokens: list[Item] = []
        if law is not None:
            for token, p in top(law, SHOWN):
                tokens.append({"text": piece(token), "expected": p * self.done, "seen": seen[token]})
            rest = max(0.0, self.done - sum(t["expected"] for t in tokens))
            tokens.append({"text": None, "expected": rest, "seen": self.done - sum(t["seen"] for t in tokens)})
        return {"state": state, "done": self.done, "of": self.rounds, "place": self.place.text, "tokens": tokens}

    def _result(self) -> Item:
        first = fit(self.laws[()], self.seen[()]) if self.done else Fit()
        contexts, whole = 0, first
        for before, seen in self.seen.items():
            if before and seen.total() >= LEAST_CONTEXT:
                part = fit(self.laws[before], seen)
                contexts += bool(part.freedom)
                whole += part
        facts = {
            "statistic": whole.statistic, "freedom": whole.freedom, "p_value": whole.p_value,
            "first": {"statistic": first.statistic, "freedom": first.freedom, "p_value": first.p_value},
            "contexts": contexts, "proposing": self.proposing, "stood": self.stood,
            "rounds": self.done, "likeliest": float(self.laws[()].max()) if self.done else 0.0,
        }  # fmt: skip
        facts["verdict"] = verdict_of(facts)
        return facts | {"sentences": sentences(facts)}


__all__ = ["LEAST", "ROUNDS", "same_law"]
