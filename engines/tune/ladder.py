"""The tuner: a ladder, not a grid. Each rung leaves fewer settings to be measured with more care.

1. Calibrate: what rounds cost here (kept from before, if they were measured).
2. Acceptance: on one prompt after another, plain decoding, one long proposal of each drafter, and what can only be
   known by running it. What is clearly hopeless is given up on the way.
3. Predict every setting from that (see `Candidate.way` and `engines.tune.predict`).
4. Confirm the few best and plain by runs over the prompts, all of them in turn on each prompt in random order, until
   the intervals separate (see `engines.tune.race`) or the budget ends.

It can be stopped between two runs; what was measured till then is what the report rests on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..cost import Calibration
from .blocks import Blocks, Budget
from .candidates import PLAIN, Candidate
from .foresight import Foresight
from .predict import Prediction
from .progress import Bench, Calibrated, Dropped, Finished, Phase, Predicted, Progress, Standing
from .prompts import Prompts
from .race import Measured, Race
from .report import report
from .sample import Sample
from .store import Store

CALIBRATION_SHARE = 0.2  # of the budget, for costs that are not known from before
ACCEPTANCE_SHARE = 0.4  # of what is left then, at most, before the confirming begins
LEAST = 8  # prompts before anything is decided (all of them, where there are fewer)
FINALISTS = 4
PER_FAMILY = 2
NEAR = 0.88  # of the best prediction: what predicts less is not confirmed
LATE = 1.03  # how much better than the leader a lookup must seem to join the race late
HOPELESS = 0.95
GLANCE = (1, 2, 4, 8)  # the numbers of tokens by which a family is found hopeless


@dataclass(frozen=True)
class Options:
    """`budget` in seconds of measuring, loading left out; `limit` new tokens of a run."""

    budget: float = 120.0
    limit: int = 64
    seed: int = 0


class Tuner:
    """`run` tells its progress and ends with `Finished`. One tuner, one run."""

    def __init__(
        self,
        bench: Bench,
        prompts: Prompts,
        candidates: Sequence[Candidate],
        options: Options | None = None,
        store: Store | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self.bench, self.given, self.options = bench, prompts, options or Options()
        self.store = store or Store(None, {})
        self.stopped = stopped
        self.candidates = [c for c in candidates if c != PLAIN]
        self.measured = Measured(prompts.prompts, skipped=set(self.store.skipped))
        self.measured.add(self.store.samples)
        self.why: dict[str, str] = dict(self.store.dropped)
        self.predictions: list[Prediction] = []
        self.race: Race | None = None
        self.calibration = Calibration()
        self.ended = "settled"
        self.foresight = Foresight(bench, self.measured, self.candidates, self.options.limit, self.options.seed)
        self.budget = Budget(bench.clock, self.store, self.options.budget)
        self.blocks = Blocks(
            bench, prompts, self.measured, self.store, self.budget, self.options.seed, stopped, self._drop
        )

    # -- the rungs -------------------------------------------------------------------------------------------------

    def run(self) -> Iterator[Progress]:
        self.budget.begin()
        yield from self._calibrate()
        if not self.stopped():
            yield from self._acceptance()
        self._predict()
        yield Predicted(self.predictions)
        if not self.stopped():
            yield from self._confirm()
        if self.stopped():
            self.ended = "stopped"
        yield Phase("done", "The report is being written.", 1.0, 0.0)
        yield Finished(self.report())

    def report(self) -> dict[str, Any]:
        """What is known so far."""
        return report(self)

    def _calibrate(self) -> Iterator[Progress]:
        yield Phase("calibrating", "Measuring what rounds cost here.", 0.0, self.budget.left)
        fresh = self.store.calibration is None
        if fresh:
            self.calibration, fresh = self.bench.calibrate(
                self.candidates, list(self.given.prompts), CALIBRATION_SHARE * self.options.budget
            )
            self.store.calibrated(self.calibration, self.budget.note())
        else:
            self.calibration = self.store.calibration
        self.foresight.calibration = self.calibration
        self.measured.expected = self.foresight.expected_seconds
        yield Calibrated(self.calibration, fresh)

    def _acceptance(self) -> Iterator[Progress]:
        if self.store.finalists is not None:
            return
        kinds = len(self.measured.shares)
        most = max(2 * LEAST, 2 * kinds)
        share = self.budget.spent + self.budget.left * ACCEPTANCE_SHARE
        while not self.stopped():
            blocks = len(self.measured.blocks)
            prompt = self.blocks.next_prompt()
            over = self.budget.spent + self.blocks.expected(self._arms()) > share
            if prompt is None or blocks >= most or self.measured.used[prompt] or (blocks >= 2 and over):
                return
            message = f"Measuring acceptance: prompt {blocks + 1}."
            yield Phase("acceptance", message, min(1.0, self.budget.spent / self.options.budget), self.budget.left)
            yield from self.blocks.run(prompt, self._arms())
            if blocks + 1 in (4, LEAST) and not self.stopped():
                yield from self._give_up_hopeless()

    def _arms(self) -> list[Candidate]:
        """Whom an acceptance block runs beside plain: of each chain's family the longest, and all that stand alone."""
        alive = [c for c in self.candidates if c.family not in self.why and c.name not in self.why]
        longest: dict[str, Candidate] = {}
        for c in alive:
            if c.way == "long" and c.k >= longest.get(c.family, c).k:
                longest[c.family] = c
        return [*longest.values(), *(c for c in alive if c.way == "own")]

    def _give_up_hopeless(self) -> Iterator[Progress]:
        """No more acceptance runs for what cannot come near the best any more."""
        few = [c for c in self.candidates if c.k in GLANCE]
        blocks = self._acceptance_blocks()
        found = {c.name: p.speedup for c in few if (p := self.foresight.of(c, blocks, False)) is not None}
        found |= {
            c.name: i for c in self._arms() if (i := self.measured.speedup(c.name)) is not None and c.way == "own"
        }
        bar = max([1.0, *(i.low for i in found.values() if i.low is not None)]) * HOPELESS
        for arm in self._arms():
            mine = [found[c.name] for c in self.candidates if c.family == arm.family and c.name in found]
            if arm.way == "own":
                mine = [found[arm.name]] if arm.name in found else []
            if mine and all(i.high is not None and i.high < bar for i in mine):
                best = max(i.value for i in mine)
                why = f"it would reach {best:.2f} times plain decoding at most, after {mine[0].prompts} prompts"
                yield self._drop(arm.name if arm.way == "own" else arm.family, why)

    def _predict(self) -> None:
        """Every setting's prediction, from the acceptance blocks alone: what is confirmed later must not flatter it."""
        blocks = self._acceptance_blocks()
        found = [p for c in self.candidates if (p := self.foresight.of(c, blocks)) is not None]
        self.predictions = sorted(found, key=lambda p: -p.speedup.value)

    def _acceptance_blocks(self) -> list[dict[str, Sample]]:
        blocks = list(self.measured.blocks.values())
        return blocks[: self.store.finalists[0]] if self.store.finalists else blocks

    # -- confirming ------------------------------------------------------------------------------------------------

    def _finalists(self) -> list[Candidate]:
        """The few best by prediction or, where there is none, by measurement; of a proposer two, or three by itself."""
        score = {p.candidate: p.speedup.value for p in self.predictions}
        for c in self.candidates:
            if c.way == "own" and c.name not in self.why and (i := self.measured.speedup(c.name)) is not None:
                score[c] = i.value
        best = max(score.values(), default=0.0)
        order = sorted(score, key=lambda c: -score[c])
        near = [c for c in order if score[c] >= NEAR * best]
        out: list[Candidate] = []
        for c in near:
            if len(out) < FINALISTS and sum(x.proposer == c.proposer for x in out) < PER_FAMILY:
                out.append(c)
        out += [c for c in near if c not in out][: max(0, FINALISTS - 1 - len(out))]
        if len({c.proposer for c in out}) == 1:  # a runner-up of another kind, if there is one
            out += [c for c in order if c.proposer != out[0].proposer][:1]
        return out

    def _confirm(self) -> Iterator[Progress]:
        if self.store.finalists is None:
            self.store.chosen(len(self.measured.blocks), [c.name for c in self._finalists()])
        names = self.store.finalists[1]
        finalists = sorted((c for c in self.candidates if c.name in names), key=lambda c: names.index(c.name))
        usable = len(self.given.prompts) - len(self.measured.skipped)
        self.race = Race(self.measured, [c for c in finalists if c.name not in self.why], min(LEAST, usable))
        first = True
        while self.race.live:
            if self.race.settled():
                late = self._late()
                if late is None:
                    return
                self.race.join(late)
            prompt = self.blocks.next_prompt()
            if prompt is None:
                self.ended = "all prompts were run"
                return
            if not first and self.blocks.expected(self.race.live) > self.budget.left:
                self.ended = "the budget ended"
                return
            first = False
            names = ", ".join(c.name for c in self.race.live)
            done = min(1.0, self.budget.spent / self.options.budget)
            yield Phase("confirming", f"Running plain decoding and {names} in turn.", done, self.budget.left)
            yield from self.blocks.run(prompt, self.race.live)
            if self.stopped():
                return
            self.race.live = [c for c in self.race.live if c.name not in self.why and c.family not in self.why]
            for c, why in self.race.beaten():
                yield Dropped(c.name, why)
            yield Standing(self.race.standing())

    def _late(self) -> Candidate | None:
        """A lookup that seems better than the leader by now: each plain run foretells it anew, and for nothing."""
        others = [c for c in self.candidates if c.way == "text" and c not in self.race.all]
        blocks = list(self.measured.blocks.values())
        found = [(p.speedup.value, c) for c in others if (p := self.foresight.of(c, blocks, False)) is not None]
        best, c = max(found, key=lambda x: x[0], default=(0.0, None))
        beside = self.measured.speedup(self.race.leader().name)
        return c if best > LATE * max(1.0, beside.value) else None

    def _drop(self, name: str, why: str) -> Dropped:
        self.why[name] = why
        self.store.drop(name, why)
        return Dropped(name, why)
