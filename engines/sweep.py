"""A sweep: one setting is varied along an axis, all else stays, and every point is measured against plain decoding.

`sweep` is a generator for `Engine.work`, which yields what happens as it happens (see `sweep_plan` for the order).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .errors import UserError
from .events import Event
from .settings import RunSettings
from .sweep_plan import Plan, Point, Step, Text, seconds_left
from .sweep_stats import Pair, Row, acceptance_counts, pair_of, row_of

WARM_TOKENS = 8
# What watches the sweep draws after each run; it must not take its time from the next one.
SETTLE_SECONDS = 0.2


@dataclass(frozen=True)
class Planned:
    """The models are there. `seconds` is what the whole will take at most, were every run as slow as a plain one."""

    runs: int
    seconds: float


@dataclass(frozen=True)
class Ran:
    """One run is over, the `done`-th of `runs`; `left` is the estimate of the seconds that are to come."""

    done: int
    runs: int
    point: int | None
    text: int
    repeat: int
    tokens: int
    tokens_per_second: float | None
    left: float


@dataclass(frozen=True)
class Failed:
    """A point cannot be measured; the others are."""

    point: int
    sentence: str


@dataclass(frozen=True)
class Rows:
    """What was found so far, one row a point; `complete` says whether everything planned was measured. `acceptance` is

    that of all points together.
    """

    rows: tuple[Row, ...]
    acceptance: float | None = None
    complete: bool = False
    over: bool = False


News = Planned | Ran | Failed | Rows


def sweep(plan: Plan, settle: float = SETTLE_SECONDS) -> Callable[..., Iterator[News]]:
    """A function for `Engine.work`: it yields `Planned`, then `Ran` after each run, `Failed` for a point that cannot

    be measured, `Rows` whenever a group is complete, and at the end `Rows` with `over`, also when it was stopped.
    """

    def work(models: Any, say: Callable[..., None], stopped: Callable[[], bool]) -> Iterator[News]:
        return _Sweep(plan, settle, models, say, stopped).news()

    return work


class _Sweep:
    def __init__(self, plan: Plan, settle: float, models: Any, say: Callable[..., None], stopped: Callable[[], bool]):
        self.plan, self.settle = plan, settle
        self.models, self.say, self.stopped = models, say, stopped
        self.failed: dict[int, str] = {}
        self.pairs: list[list[Pair]] = [[] for _ in plan.points]
        self.pass_seconds = 0.0

    def news(self) -> Iterator[News]:
        yield from self._prepare()
        steps = list(self.plan.steps)
        seen: dict[int | None, list[float]] = {}
        group: list[tuple[Step, list[Event]]] = []
        yield Planned(len(steps), seconds_left(steps, seen, self.pass_seconds))
        while steps and not self.stopped():
            step = steps[0]
            if step.point not in self.failed:
                time.sleep(self.settle)
                begin = time.perf_counter()
                events = self._run(step)
                if events is None:  # stopped within the run, which then says nothing
                    break
                if step.point in self.failed:
                    yield Failed(step.point, self.failed[step.point])
                else:
                    seen.setdefault(step.point, []).append(time.perf_counter() - begin + self.settle)
                    group.append((step, events))
                    yield self._ran(step, events, len(steps) - 1, seconds_left(steps[1:], seen, self.pass_seconds))
            steps.pop(0)
            if steps and steps[0].group != step.group:
                self._compare(group)
                group = []
                yield self._rows()
        self._compare(group)  # of a group that was stopped, what has its plain run
        yield self._rows(complete=not steps, over=True)

    def _prepare(self) -> Iterator[Failed]:
        """Load everything, and one short run of each kind: first passes pay for what later ones find ready."""
        plain = self.plan.points[0].settings.plain()
        self.models.prepare(plain, self.say)
        for text in self.plan.texts:
            if self.stopped():
                return
            try:
                events = self._warm(plain, text)
            except UserError as error:
                raise UserError(f"{text.name}: {error}") from None
            self.pass_seconds = (events[0].costs or {}).get("pass_seconds", 0.0)
        tried: dict[tuple, str | None] = {}
        for i, point in enumerate(self.plan.points):
            who = (point.settings.proposer, point.settings.draft)
            if who not in tried:
                if self.stopped():
                    return
                tried[who] = self._try(point)
            if tried[who] is not None:
                self.failed[i] = tried[who]
                yield Failed(i, tried[who])

    def _try(self, point: Point) -> str | None:
        try:
            self.models.prepare(point.settings, self.say)
            self.models.costs(point.settings, self.say)
            last = self._warm(point.settings, self.plan.texts[point.texts[0]])[-1]
        except UserError as error:
            return str(error)
        return last.message if last.reason == "error" else None

    def _warm(self, settings: RunSettings, text: Text) -> list[Event]:
        from .service import run_to_end

        short = settings.replace(max_new_tokens=min(WARM_TOKENS, settings.max_new_tokens))
        return run_to_end(self.models, short, text.prompt, self.say)

    def _run(self, step: Step) -> list[Event] | None:
        """The events of a run, or None when it was stopped. A point's fault is noted, a plain run's is raised."""
        from .decode import decode

        try:
            job = self.models.job(step.settings, self.plan.texts[step.text].prompt, self.say, self.stopped)
            events = list(decode(job))
        except UserError as error:
            if step.point is None:
                raise
            self.failed[step.point] = str(error)
            return []
        last = events[-1]
        if last.reason == "error":
            if step.point is None:
                raise UserError(f"Plain decoding failed: {last.message or 'no reason was given'}")
            self.failed[step.point] = last.message or "A run failed."
        return None if last.reason == "stopped" else events

    def _ran(self, step: Step, events: list[Event], coming: int, left: float) -> Ran:
        runs, m = len(self.plan.steps), events[-1].metrics
        rate = m["tokens_per_second"]
        return Ran(runs - coming, runs, step.point, step.text, step.repeat, m["emitted"], rate, left)

    def _compare(self, group: list[tuple[Step, list[Event]]]) -> None:
        """Pair each run of a group with the plain one."""
        plain = next((events for step, events in group if step.point is None), None)
        for step, events in group:
            if plain is not None and step.point is not None:
                self.pairs[step.point].append(pair_of(plain, events, step.text, step.repeat))

    def _rows(self, **more: bool) -> Rows:
        rows = tuple(
            row_of(point.label, point.value, self.pairs[i], self.failed.get(i))
            for i, point in enumerate(self.plan.points)
        )
        # Of each point by itself: greedy runs of one text at two points are not repeats of each other.
        everything = [acceptance_counts(pairs) for pairs in self.pairs]
        judged = sum(judged for _, judged in everything)
        return Rows(rows, sum(accepted for accepted, _ in everything) / judged if judged else None, **more)
