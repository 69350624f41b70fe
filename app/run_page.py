"""One press of Run: the first panel, plain decoding as the baseline, then the other panels, one after another.

All on the engine's one thread, since two runs at once on one device would spoil each other's timing. The first panel
is not kept waiting for the baseline, so that there is something to see at once.

Knows nothing of gradio: it turns runs into frames, a frame being one string for each view.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from engines.errors import UserError
from engines.settings import RunSettings

from .screens import Screen
from .verdict import verdict
from .words import in_words, sampling_words

# What the browser draws without falling behind is 20 Hz. Where it shares two cores with the engine, each frame is time
# that all of the engine's threads wait for, and less often is better.
FRAME_SECONDS = {1: 0.2, 2: 0.2, 3: 0.1, 4: 0.1}.get(os.cpu_count() or 1, 0.05)
SETTLE_SECONDS = 0.2  # a browser on this machine draws what came before; it must not take time from what is measured
WAIT_SECONDS = 0.25  # how long to wait for news before looking at the phase again
LETTERS = "ABCDEFGH"
FAULT = "Something went wrong in the program; its log says what. Press Run to try again."

_numbers = itertools.count(1)
_log = logging.getLogger(__name__)


def baseline_of(settings: RunSettings) -> RunSettings:
    """The plain run of the same prompt and settings; panels that differ in speculation alone share one."""
    return settings.plain().replace(
        k=4, verify="token", skip_layers=(), ngram_min=1, ngram_max=4, draft_sampling=None, candidates=0
    )


def _kept(task: Task) -> int:
    """Tokens that a run that has ended leaves; none if it never began."""
    return task.run.events[-1].keep if task.run is not None and task.run.events else 0


def _loading_words(state: dict[str, Any]) -> str:
    if state["phase"] == "ready":  # the model is there, and the run's own things are not yet
        return "Getting ready."
    part = state.get("fraction")
    done = "" if part is None else f" {100 * part:.0f} %"
    return f"{state['message'][:1].upper()}{state['message'][1:]}{done}"


@dataclass
class Task:
    """One run and the view that shows it. `needs` is the baseline's task, for a panel's."""

    screen: Screen
    settings: RunSettings
    needs: Task | None = None
    run: Any = None
    outcome: str = ""  # done, stopped, error
    compared: bool = False


class PageRun:
    """`panels` are what the panels ask for, or the UserError that reading them raised.

    Views are numbered baselines first (as many as panels; unused ones stay empty), then panels.
    """

    def __init__(
        self,
        engine: Any,
        prompt: str,
        panels: Sequence[RunSettings | UserError],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.engine, self.prompt, self._sleep = engine, prompt, sleep
        self._stop = threading.Event()
        self._run: Any = None
        self.screens: list[Screen | None] = [None] * (2 * len(panels))
        self.tasks = self._plan(panels)

    def stop(self) -> None:
        """From any thread: the engine halts within one round, and what comes after is not begun."""
        self._stop.set()
        run = self._run
        if run is not None:
            run.stop()

    def frames(self) -> Iterator[list[str]]:
        """A frame whenever something is new, no oftener than FRAME_SECONDS; the first clears what earlier runs left."""
        yield from self._frame()
        try:
            for task in self.tasks:
                yield from self._guarded(task)
        finally:  # also when the page is gone and the generator is closed
            self.stop()

    def _plan(self, panels: Sequence[RunSettings | UserError]) -> list[Task]:
        press = next(_numbers)
        baselines: dict[RunSettings, Task] = {}
        tasks: list[Task] = []
        distinct = len({baseline_of(p) for p in panels if isinstance(p, RunSettings)})
        for i, settings in enumerate(panels):
            name, letter, at = f"{press}-{LETTERS[i]}", LETTERS[i], len(panels) + i
            if isinstance(settings, UserError):
                self.screens[at] = Screen(name, "")
                self.screens[at].page(state="error", message=str(settings))
                continue
            plain = baseline_of(settings)
            fresh = plain not in baselines
            if fresh:
                which = f"Baseline for {letter}" if distinct > 1 else "Baseline"
                title = " · ".join([f"{which}: plain decoding", *sampling_words(plain.sampling)])
                screen = self.screens[len(baselines)] = Screen(f"{name}-plain", title)
                baselines[plain] = Task(screen, plain)
            screen = self.screens[at] = Screen(name, in_words(settings))
            task = Task(screen, settings, needs=baselines[plain])
            # The first panel goes before its baseline: colour at once, and the comparison as soon as it can be made.
            pair = [task, baselines[plain]] if not tasks else [baselines[plain], task]
            tasks += pair if fresh else [task]
        for task in tasks:
            task.screen.page(state="queued", message="Next." if task is tasks[0] else "Waits for its turn.")
        return tasks

    def _frame(self) -> Iterator[list[str]]:
        """One frame, or none if nothing is new. A string that has not grown is the same object, and costs nothing."""
        fresh = [screen.sent() for screen in self.screens if screen]
        if any(fresh):
            yield [screen.text if screen else "" for screen in self.screens]

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
        for screen in self.screens:
            if screen is not None and screen.text:
                screen.finish()
        yield from self._frame()

    @staticmethod
    def _fail(task: Task, message: str) -> None:
        task.outcome = "error"
        task.screen.page(state="error", message=message)

    def _do(self, task: Task) -> Iterator[list[str]]:
        if self._stop.is_set():
            task.outcome = "stopped"
            task.screen.page(state="stopped", message="Stopped before its turn.")
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
                task.screen.page(**verdict(plain.run.events, task.run.events))
            else:
                why = "was stopped before it began" if plain.outcome == "stopped" else "failed"
                sentence = f"The speed-up was not measured: the baseline {why}."
                task.screen.page(speedup=None, instead="not measured", sentence=sentence, tone="note")

    def _follow(self, task: Task) -> Iterator[list[str]]:
        """Move the run's lines to its screen until it is over; the last of them are left for the caller to send."""
        run, screen = task.run, task.screen
        sent_at = time.monotonic()
        while True:
            lines = run.take(WAIT_SECONDS)
            screen.events(lines)
            if run.over:
                return
            if not lines and self._waiting(run, screen) and self._stop.is_set():
                task.outcome = "stopped"
                screen.page(state="stopped", message="Stopped before it began.")
                return
            yield from self._frame()
            self._sleep(max(0.0, sent_at + FRAME_SECONDS - time.monotonic()))
            sent_at = time.monotonic()

    def _waiting(self, run: Any, screen: Screen) -> bool:
        """Say what the run waits for, if it has not begun."""
        phase, ahead = run.phase, run.ahead
        state = self.engine.state()
        if phase == "queued" and (ahead or state["phase"] in ("ready", "error", "idle")):
            who = {0: "Starts now.", 1: "Queued: one run is ahead."}.get(ahead, f"Queued: {ahead} runs are ahead.")
            screen.page(state="queued", message=who)
        elif phase in ("queued", "loading"):  # what was being loaded before is as good a reason to wait
            screen.page(state="loading", message=_loading_words(state))
        elif phase == "prefill":
            screen.page(state="running", message="Reading the prompt.")
        return phase in ("queued", "loading")
