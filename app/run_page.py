"""One press of Run: plain decoding first, then each panel, one after another on the engine's one thread.

Knows nothing of gradio: it turns runs into frames, a frame being one string for each view.
"""

from __future__ import annotations

import itertools
import logging
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

FRAME_SECONDS = 0.05  # 20 Hz: what the browser draws without falling behind
WAIT_SECONDS = 0.25  # how long to wait for news before looking at the phase again
FAULT = "Something went wrong in the program; its log says what. Press Run to try again."

_numbers = itertools.count(1)
_log = logging.getLogger(__name__)


def baseline_of(settings: RunSettings) -> RunSettings:
    """The plain run of the same prompt and settings; panels that differ in speculation alone share one."""
    return settings.plain().replace(
        k=4, verify="token", skip_layers=(), ngram_min=1, ngram_max=4, draft_sampling=None, candidates=0
    )


@dataclass
class Task:
    """One run and the view that shows it. `needs` is the baseline's task, for a panel's."""

    screen: Screen
    settings: RunSettings
    needs: Task | None = None
    run: Any = None
    outcome: str = ""  # done, stopped, error


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
        """A frame whenever something is new, at most 20 a second; the first clears what earlier runs left."""
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
        letters = "ABCDEFGH"
        distinct = len({baseline_of(p) for p in panels if isinstance(p, RunSettings)})
        for i, settings in enumerate(panels):
            name = f"{press}-{letters[i]}"
            at = len(panels) + i
            if isinstance(settings, UserError):
                self.screens[at] = Screen(name, "")
                self.screens[at].page(state="error", message=str(settings))
                continue
            plain = baseline_of(settings)
            if plain not in baselines:
                which = f"Baseline for {letters[i]}" if distinct > 1 else "Baseline"
                title = " · ".join([f"{which}: plain decoding", *sampling_words(plain.sampling)])
                screen = self.screens[len(baselines)] = Screen(f"{name}-plain", title)
                screen.page(state="queued", message="Next.")
                baselines[plain] = Task(screen, plain)
            screen = self.screens[at] = Screen(name, in_words(settings))
            screen.page(state="queued", message="Waits for its turn.")
            tasks.append(Task(screen, settings, needs=baselines[plain]))
        return [*baselines.values(), *tasks]

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
        task.screen.finish()
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
        if task.needs is not None and task.needs.outcome == "error":
            self._fail(task, "Not run, since its baseline failed: see the message above.")
            return
        task.run = self._run = self.engine.submit(task.settings, self.prompt)
        if self._stop.is_set():  # pressed between the check and the submission
            task.run.stop()
        yield from self._follow(task)
        if task.outcome:
            return
        last = task.run.events[-1]
        task.outcome = last.reason if last.reason in ("error", "stopped") else "done"
        if task.needs is not None and task.outcome != "error" and last.keep:
            task.screen.page(**verdict(task.needs.run.events, task.run.events))

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
        phase = run.phase
        if phase == "queued":
            ahead = run.ahead
            who = {0: "Starts now.", 1: "Queued: one run is ahead."}.get(ahead, f"Queued: {ahead} runs are ahead.")
            screen.page(state="queued", message=who)
        elif phase == "loading":
            state = self.engine.state()
            part = state.get("fraction")
            done = "" if part is None else f" {100 * part:.0f} %"
            screen.page(state="loading", message=f"{state['message']}{done}")
        elif phase == "prefill":
            screen.page(state="running", message="Reading the prompt.")
        return phase in ("queued", "loading")
