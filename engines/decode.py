"""The loop: propose -> verify -> commit. Everything else in this package serves this page of code.

Invariant between rounds: the cache holds every token but the last, which the next target pass reads together with the
proposal. So each emitted token, the first one included, comes out of a round.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from .adaptive import FixedLength
from .errors import UserError
from .events import Done, Draft, Event, Proposed, Start, Verdict
from .fold import PHASES, Fold
from .judge import add_candidates, judge, verdict_of
from .proposers.base import Proposal, Proposer
from .sampling import Chance
from .settings import RunSettings
from .text.stops import StopFinder

if TYPE_CHECKING:
    import torch

    from .model import Session

PREFILL_CHUNK = 256  # between two looks at `stopped` while the prompt is read


class Text(Protocol):
    """Text of tokens, as `engines.text.stream.TextStream` has it."""

    def push(self, id: int) -> str: ...
    def peek(self, ids: Sequence[int]) -> list[str]: ...


@dataclass
class Job:
    """One run, ready to start: models loaded, prompt encoded, everything checked that can be checked before.

    `start` is the event that opens the trace. `stopped` is asked between passes. `sync` waits for the device, so that
    the phases' times are theirs (nothing to wait for on a CPU). `piece(id)` is the text of one token by itself, for
    lists of candidates.
    """

    start: Start
    session: Session
    proposer: Proposer
    settings: RunSettings
    text: Text
    eos_ids: frozenset[int]
    piece: Callable[[int], str]
    length_policy: Any = field(default_factory=FixedLength)
    stopped: Callable[[], bool] = lambda: False
    sync: Callable[[], None] = lambda: None


class Laps:
    """Seconds by phase."""

    def __init__(self) -> None:
        self.total = dict.fromkeys(PHASES, 0.0)
        self.round = dict.fromkeys(PHASES[1:], 0.0)
        self._since = time.perf_counter()

    def to(self, phase: str) -> float:
        """Book what passed since the last call under `phase`."""
        now = time.perf_counter()
        passed, self._since = now - self._since, now
        self.total[phase] += passed
        if phase in self.round:
            self.round[phase] += passed
        return passed

    def resume(self) -> None:
        """What passed since the last call was the consumer's time, not ours."""
        self._since = time.perf_counter()

    def new_round(self) -> None:
        self.round = dict.fromkeys(self.round, 0.0)


def decode(job: Job) -> Iterator[Event]:
    """Run `job` and yield its events, `Start` first and `Done` last.

    Losslessness: at T = 0 the ids are plain decoding's; at T > 0 every emitted token has the target's law (see
    `verify`). A `UserError` on the way (NaN logits, ...) ends the run with reason "error" and keeps what was written.
    """
    s = job.settings
    ids = list(job.start.prompt_ids)
    laps, fold, chance = Laps(), Fold(), Chance(s.seed)
    end = _End(job, fold)

    fold.add(job.start)
    yield job.start
    laps.resume()
    try:
        for begin in range(0, len(ids) - 1, PREFILL_CHUNK):
            chunk = ids[begin : min(begin + PREFILL_CHUNK, len(ids) - 1)]
            job.session.forward(chunk, logits_from=len(chunk))
            if job.stopped():
                break
        else:
            job.proposer.start(ids)
        job.sync()
        laps.to("prefill")

        number = 0
        while not end.reason:
            if job.stopped():
                end.reason = "stopped"
                break
            number += 1
            laps.new_round()

            room = min(s.max_new_tokens - len(end.ids), _room(job, ids)) - 1  # the extra token needs a place, too
            k = min(s.k, room)
            proposal = propose(job, ids, job.length_policy.limit(k), chance) if k > 0 else Proposal()
            job.sync()
            seconds = laps.to("propose")
            draft = Draft(number, _proposed(job, proposal), seconds, proposal.note)
            fold.add(draft)
            laps.to("other")
            yield draft
            laps.resume()

            logits = target_pass(job, ids[-1], proposal)
            job.sync()
            laps.to("verify")

            outcome, p = judge(s, logits, ids, proposal, chance)
            verdict = verdict_of(number, logits, p, proposal, outcome)
            laps.to("sample")

            if hasattr(job.proposer, "observe"):
                job.proposer.observe(ids, logits, proposal, outcome)
            end.take(verdict, proposal)
            ids += end.new_ids
            if proposal.parents:
                job.session.keep([0, *(node + 1 for node in outcome.path)])
            job.session.rollback(len(ids) - 1)
            job.proposer.commit(len(ids) - 1)
            if proposal.parents:
                job.length_policy.learn_tree(proposal.confidence, proposal.parents, outcome.path)
            else:
                job.length_policy.learn(proposal.confidence, outcome.accepted)
            if not end.reason and _room(job, ids) < 1:
                end.reason, end.message = "length", f"The context of {job.session.capacity} tokens is full."
            fold.add(verdict)
            laps.to("other")
            verdict.seconds.update(laps.round)
            if s.candidates:  # for whoever looks on: the run would not need the time, and is not charged for it
                add_candidates(verdict, logits, p, proposal, outcome, s.candidates, job.piece)
            yield verdict
            laps.resume()
    except UserError as error:
        end.reason, end.message = "error", str(error)
    yield end.done(laps)


def target_pass(job: Job, last: int, proposal: Proposal) -> torch.Tensor:
    """Logits [n + 1, V]: row 0 follows the text, row i + 1 the proposal's token i."""
    if not proposal.parents:
        return job.session.forward([last, *proposal.ids])
    return job.session.forward([last, *proposal.ids], parents=[-1, *(p + 1 for p in proposal.parents)])


def _room(job: Job, ids: Sequence[int]) -> int:
    """How many more tokens the context holds."""
    return min(job.session.capacity, job.start.context or job.session.capacity) - len(ids)


def propose(job: Job, ids: list[int], k: int, chance: Chance) -> Proposal:
    if k < 1:
        return Proposal()
    proposal = job.proposer.propose(ids, k, job.length_policy.go_on, chance)
    if len(proposal.ids) > k:
        raise UserError(
            f"The proposer {job.proposer.name!r} proposed {len(proposal.ids)} tokens where {k} were asked for."
        )
    bad = [i for i in proposal.ids if not 0 <= i < job.session.vocab_size]
    if bad:
        raise UserError(f"The proposer {job.proposer.name!r} proposed the id {bad[0]}, which the target does not have.")
    if proposal.parents and (
        proposal.q is not None
        or len(proposal.parents) != len(proposal.ids)
        or any(not -1 <= parent < i for i, parent in enumerate(proposal.parents))
    ):
        raise UserError(f"The proposer {job.proposer.name!r} proposed a tree that is none, or whose tokens were drawn.")
    if proposal.parents:
        return proposal.only(job.length_policy.keep(proposal.confidence, proposal.parents))
    return proposal


def _proposed(job: Job, proposal: Proposal) -> list[Proposed]:
    texts = _texts(job, proposal)
    q = (
        [1.0] * len(proposal.ids)
        if proposal.q is None
        else [float(r[i]) for r, i in zip(proposal.q, proposal.ids, strict=True)]
    )
    return [
        Proposed(
            token,
            "" if token in job.eos_ids else texts[i],
            q[i],
            proposal.confidence[i] if i < len(proposal.confidence) else None,
            list(proposal.sources[i]) if i < len(proposal.sources) and proposal.sources[i] else None,
            proposal.parents[i] if proposal.parents else None,
            None if texts[i] and token not in job.eos_ids else job.piece(token) or None,
        )
        for i, token in enumerate(proposal.ids)
    ]


def _texts(job: Job, proposal: Proposal) -> list[str]:
    """What each proposed token would add to the text, those before it on its own path included."""
    if not proposal.parents:
        return job.text.peek(proposal.ids)
    texts = []
    for i in range(len(proposal.ids)):
        texts.append(job.text.peek([proposal.ids[j] for j in proposal.path_to(i)])[-1])
    return texts


class _End:
    """Commits tokens one by one and knows where the run ends: at EOS, a stop string or the limit.

    Token by token, so that the end does not depend on where the blocks happen to begin.
    """

    def __init__(self, job: Job, fold: Fold) -> None:
        self.job, self.fold = job, fold
        self.stops = StopFinder(job.settings.stop)
        self.reason = ""
        self.message: str | None = None
        self.ids: list[int] = []
        self.new_ids: list[int] = []
        self.keep: int | None = None
        self.last_text: str | None = None

    def take(self, verdict: Verdict, proposal: Proposal) -> None:
        """Emit the round's tokens; cut `verdict` down to what lies before the end."""
        extra = verdict.extra
        self.new_ids = []
        for i, token in enumerate([*(j.id for j in verdict.judged if j.accepted), extra.id]):
            is_extra = i == verdict.accepted
            self.new_ids.append(token)
            self.ids.append(token)
            if token in self.job.eos_ids:
                self.reason = "eos"
                text = ""
            else:
                text = self.job.text.push(token)
                hit = self.stops.push(text)
                if hit is not None:
                    self.reason, self.keep, self.last_text = "stop", hit.keep, hit.last_text
                elif len(self.ids) >= self.job.settings.max_new_tokens:
                    self.reason = "length"
            if is_extra:
                extra.text = text
            if self.reason:
                self._cut(verdict, len(proposal.ids), i, is_extra)
                break
        verdict.held = self.stops.held
        if self.keep is not None:  # what the end will take back must not be shown before it comes
            verdict.held = len(self.ids) - self.keep + (self.last_text is not None)

    def _cut(self, verdict: Verdict, proposed: int, last: int, is_extra: bool) -> None:
        """The round's emitted token number `last` was the run's last one: what was judged after it goes, too."""
        if not is_extra:
            verdict.accepted = last + 1
            stood = [i for i, j in enumerate(verdict.judged) if j.accepted]
            verdict.judged = verdict.judged[: stood[last] + 1]
            verdict.extra = None
        verdict.cut = proposed - len(verdict.judged)

    def done(self, laps: Laps) -> Done:
        keep = len(self.ids) if self.keep is None else self.keep
        laps.to("other")
        done = Done(
            self.reason or "stopped", "", self.ids[:keep], keep, {}, dict(laps.total), self.last_text, self.message
        )
        self.fold.add(done)
        done.text = self.fold.text()
        done.metrics = self.fold.metrics().to_json()
        return done
