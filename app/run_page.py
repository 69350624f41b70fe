"""One press of Run: plain decoding as the baseline, then the panels, one after another.

All on the engine's one thread, since two runs at once on one device would spoil each other's timing.

Knows nothing of the web: it turns runs into frames, a frame being the lines that are new, each for one view.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from engines.errors import UserError
from engines.settings import RunSettings

from .verdict import verdict
from .words import in_words, sampling_words

FRAME_SECONDS = 0.05  # what the browser draws without falling behind
# Where the browser has to share two cores with the engine, each frame is time that all of the engine's threads wait
# for: less often is better there, and the race shows it all again, smoothly.
SHARED_FRAME_SECONDS = {1: 0.6, 2: 0.6, 3: 0.2, 4: 0.1}.get(os.cpu_count() or 1, FRAME_SECONDS)
FIRST_SECONDS = 0.1  # after which the first of a run is shown: who waits wants to see that something happens
SETTLE_SECONDS = 0.1  # a browser on this machine draws what came before; it must not take time from what is measured
WAIT_SECONDS = 0.25  # how long to wait for news before looking at the phase again
FAULT = "Something went wrong in the program; its log says what. Press Run to try again."

_log = logging.getLogger(__name__)


def _kept(task: Task) -> int:
    """Tokens that a run that has ended leaves; none if it never began."""
    return task.run.events[-1].keep if task.run is not None and task.run.events else 0


def _loading_words(state: dict[str, Any]) -> str:
    if state["phase"] == "ready":  # the model is there, and the run's own things are not yet
        return "Getting ready."
    part = state.get("fraction")
    done = "" if part is None else f" {100 * part:.0f} %"
    return f"{state['message'][:1].upper()}{state['message'][1:]}{done}"


class Lane:
    """The lines of one view that were not sent yet: a run's events, and between them lines of the page's own."""

    def __init__(self, view: str) -> None:
        self.view = view
        self.waiting: list[str] = []
        self._last: dict[str, Any] = {}

    def page(self, **fields: Any) -> None:
        """A line of the page's own (title, state, message, measured numbers). The same twice is one."""
        if fields == self._last:
            return
        self._last = fields
        self.events([json.dumps({"type": "page", **fields}, ensure_ascii=False, allow_nan=False)])

    def events(self, lines: Iterable[str]) -> None:
        self.waiting += lines

    def take(self) -> list[str]:
        lines, self.waiting = self.waiting, []
        return [f"{self.view}\t{line}" for line in lines]


@dataclass
class Task:
    """One run and the lane of its view. `needs` is the baseline's task, for a panel's."""

    lane: Lane
    settings: RunSettings
    needs: Task | None = None
    run: Any = None
    outcome: str = ""  # done, stopped, error
    compared: bool = False


class PageRun:
    """`panels` are what the panels ask for, by their letters, or the UserError that reading them raised.

    Views are called "A", "B", ... and, for the baselines, "baseline 1", ...: one for each way of sampling. `here`: the
    browser is on this machine, and its drawing takes time from the engine.
    """

    def __init__(
        self,
        engine: Any,
        prompt: str,
        panels: Mapping[str, RunSettings | UserError],
        here: bool = True,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.engine, self.prompt, self._sleep = engine, prompt, sleep
        self.frame_seconds = SHARED_FRAME_SECONDS if here else FRAME_SECONDS
        self._stop = threading.Event()
        self._run: Any = None
        self.lanes: list[Lane] = []
        self.tasks = self._plan(panels)

    def stop(self) -> None:
        """From any thread: the engine halts within one round, and what comes after is not begun."""
        self._stop.set()
        run = self._run
        if run is not None:
            run.stop()

    def frames(self) -> Iterator[list[str]]:
        """Every `frame_seconds` or WAIT_SECONDS the lines that are new, if any: "view<tab>JSON"."""
        yield from self._frame()
        try:
            for task in self.tasks:
                yield from self._guarded(task)
        finally:  # also when the page is gone and the generator is closed
            self.stop()

    def _lane(self, view: str) -> Lane:
        self.lanes.append(Lane(view))
        return self.lanes[-1]

    def _plan(self, panels: Mapping[str, RunSettings | UserError]) -> list[Task]:
        baselines: dict[RunSettings, Task] = {}
        tasks: list[Task] = []
        distinct = len({p.baseline() for p in panels.values() if isinstance(p, RunSettings)})
        for letter, settings in panels.items():
            if isinstance(settings, UserError):
                self._lane(letter).page(state="error", message=str(settings))
                continue
            plain = settings.baseline()
            if plain not in baselines:
                which = f"Baseline for {letter}" if distinct > 1 else "Baseline"
                lane = self._lane(f"baseline {len(baselines) + 1}")
                lane.page(title=" · ".join([f"{which}: plain decoding", *sampling_words(plain.sampling)]))
                baselines[plain] = Task(lane, plain)
                tasks.append(baselines[plain])
            lane = self._lane(letter)
            lane.page(title=in_words(settings), baseline=baselines[plain].lane.view)
            tasks.append(Task(lane, settings, needs=baselines[plain]))
        for task in tasks:
            task.lane.page(state="queued", message="Next." if task is tasks[0] else "Waits for its turn.")
        return tasks

    def _frame(self) -> Iterator[list[str]]:
        """What is new. It may be nothing: a sign of life, at which a reader that has gone is noticed."""
        yield [line for lane in self.lanes for line in lane.take()]

    def _guarded(self, task: Task) -> Iterator[list[str]]:
        """A fault ends the run it happened in, and shows; the runs after it go on."""
        try:
            yield from self._do(task)
        except UserError as error:
            self._fail(task, str(error))
        except Exception:  # the page must live on whatever went wrong
            _log.exception("A run failed")
            self._fail(task, FAULT)
        self._compare()
        yield from self._frame()

    @staticmethod
    def _fail(task: Task, message: str) -> None:
        task.outcome = "error"
        task.lane.page(state="error", message=message)

    def _do(self, task: Task) -> Iterator[list[str]]:
        if self._stop.is_set():
            task.outcome = "stopped"
            task.lane.page(state="stopped", message="Stopped before its turn.")
            return
        if task.needs is not None and task.needs.outcome == "error":  # it would fail likewise
            self._fail(task, "Not run, since its baseline failed: see the message above.")
            return
        yield from self._frame()
        self._sleep(SETTLE_SECONDS)
        task.run = self._run = self.engine.submit(task.settings, self.prompt)
        if self._stop.is_set():  # pressed between the check and the submission
            task.run.stop()
        yield from self._follow(task)
        if task.outcome:
            return
        last = task.run.events[-1]
        task.outcome = last.reason if last.reason in ("error", "stopped") else "done"

    def _compare(self) -> None:
        """Say what each run amounts to whose baseline is there by now, too."""
        for task in self.tasks:
            plain = task.needs
            if plain is None or task.compared or not (task.outcome and plain.outcome):
                continue
            task.compared = True
            if task.outcome == "error" or not _kept(task):
                continue
            if _kept(plain):
                task.lane.page(**verdict(plain.run.events, task.run.events))
            else:
                why = "was stopped before it began" if plain.outcome == "stopped" else "failed"
                sentence = f"The speed-up was not measured: the baseline {why}."
                task.lane.page(speedup=None, instead="not measured", sentence=sentence, tone="note")

    def _follow(self, task: Task) -> Iterator[list[str]]:
        """Move the run's lines to its lane until it is over; the last of them are left for the caller to send."""
        run, lane = task.run, task.lane
        sent_at, pause = time.monotonic(), FIRST_SECONDS
        while True:
            lines = run.take(WAIT_SECONDS)
            lane.events(lines)
            if run.over:
                return
            if not lines and self._waiting(run, lane) and self._stop.is_set():
                task.outcome = "stopped"
                lane.page(state="stopped", message="Stopped before it began.")
                return
            yield from self._frame()
            run.wait(max(0.0, sent_at + pause - time.monotonic()))  # the end is not kept waiting
            sent_at = time.monotonic()
            pause = self.frame_seconds if len(run.events) > 4 else FIRST_SECONDS

    def _waiting(self, run: Any, lane: Lane) -> bool:
        """Say what the run waits for, if it has not begun."""
        phase, ahead = run.phase, run.ahead
        state = self.engine.state()
        if phase == "queued" and (ahead or state["phase"] in ("ready", "error", "idle")):
            who = {0: "Starts now.", 1: "Queued: one run is ahead."}.get(ahead, f"Queued: {ahead} runs are ahead.")
            lane.page(state="queued", message=who)
        elif phase in ("queued", "loading"):  # what was being loaded before is as good a reason to wait
            lane.page(state="loading", message=_loading_words(state))
        elif phase == "prefill":
            lane.page(state="running", message="Reading the prompt.")
        return phase in ("queued", "loading")
