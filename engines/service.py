"""One engine thread that does the computing, and runs that are watched from elsewhere.

The thread writes events into a run's list and goes on; whoever watches takes them when it likes, so a slow consumer
costs the engine nothing. Runs queue in order of arrival: two at once on one device would only spoil each other's
timing. Importing this module loads no torch; the thread does, when it first needs it.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from .errors import UserError
from .events import Event
from .fold import PHASES
from .settings import RunSettings
from .watched import Run, Watched, Work

if TYPE_CHECKING:
    from collections.abc import Callable

    from .models import Models
    from .watched import Function

_log = logging.getLogger(__name__)


class Engine:
    """Loads models, keeps the last ones, and computes runs one after another on its own thread."""

    def __init__(self, models: Models | None = None) -> None:
        self._models = models
        self._lock = threading.Condition()
        self._queue: deque[Watched | RunSettings] = deque()
        self._current: Watched | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._loaded: set[tuple[str, str, str]] = set()  # targets that were loaded: name, dtype, device
        self._state: dict[str, Any] = {"phase": "idle", "message": "No model is loaded yet.", "fraction": None}

    def state(self) -> dict[str, Any]:
        """What the engine is about: phase (idle, importing, fetching, converting, loading, ready, error), message,
        and the fraction done, or None where that is not known."""
        return dict(self._state)

    def preload(self, settings: RunSettings) -> None:
        """Begin loading the models of `settings` in the background."""
        self._enqueue(settings)

    def submit(self, settings: RunSettings, prompt: str) -> Run:
        """Queue a run. Raises UserError at once for what can be told before a model is loaded."""
        if not isinstance(prompt, str):
            raise UserError("The prompt must be text.")
        run = Run(self, settings, prompt)
        self._enqueue(run)
        return run

    def work(self, name: str, function: Function) -> Work:
        """Queue any other computation that needs the models. `name` is the target that it is about."""
        work = Work(self, RunSettings(target=name), function)
        self._enqueue(work)
        return work

    def close(self) -> None:
        """Stop everything that runs or waits, and end the thread."""
        with self._lock:
            self._closed = True
            runs = [r for r in (self._current, *self._queue) if isinstance(r, Watched)]
            self._lock.notify_all()
        for run in runs:
            run.stop()
        if self._thread is not None:
            self._thread.join(timeout=30)

    def ahead_of(self, run: Watched) -> int:
        with self._lock:
            waiting = [r for r in self._queue if isinstance(r, Watched)]
            if run not in waiting:
                return 0
            return waiting.index(run) + (self._current is not None)

    def _enqueue(self, work: Watched | RunSettings) -> None:
        with self._lock:
            if self._closed:
                raise UserError("The engine has been closed: start the program again.")
            self._queue.append(work)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="engine", daemon=True)
                self._thread.start()
            self._lock.notify_all()

    def _work(self) -> None:
        while True:
            with self._lock:
                self._current = None
                self._lock.wait_for(lambda: self._queue or self._closed)
                if self._closed and not self._queue:
                    return
                work = self._queue.popleft()
                self._current = work if isinstance(work, Watched) else None
            if isinstance(work, Run):
                self._guard(
                    work.settings, lambda run=work: self._compute(run), lambda m, run=work: run.fail("error", m)
                )
            elif isinstance(work, Work):
                self._guard(work.settings, lambda work=work: self._do(work), work.fail)
            else:
                self._guard(work, lambda settings=work: self._load(settings), lambda message: None)

    def _guard(self, settings: RunSettings, work: Callable[[], None], fail: Callable[[str], None]) -> None:
        """A fault ends the work it happened in, never the thread."""
        try:
            work()
        except UserError as error:
            message = str(error)
        except MemoryError:
            _log.exception("Out of memory")
            message = "Out of memory: choose a smaller model, or fewer new tokens."
        except Exception as error:
            _log.exception("A run, or the loading of a model, failed")
            message = f"Something went wrong in the program ({type(error).__name__}: {error})."
        else:
            return
        fail(message)
        if _target_of(settings) in self._loaded:  # the fault is the run's own: a draft, a prompt
            self._say("ready", f"{settings.target} is ready.")
        else:
            self._say("error", message)

    def _say(self, phase: str, message: str, fraction: float | None = None) -> None:
        self._state = {"phase": phase, "message": message, "fraction": fraction}

    def _load(self, settings: RunSettings) -> None:
        models = self._ready_models()
        self._target(models, settings)
        models.prepare(settings, self._say)
        self._say("ready", f"{settings.target} is ready.")

    def _target(self, models: Models, settings: RunSettings) -> None:
        """Load the target by itself first, so that a fault of the draft is not taken for one of the target."""
        models.get(settings.target, settings.dtype, settings.device, self._say)
        self._loaded.add(_target_of(settings))

    def _ready_models(self) -> Models:
        if self._models is None:
            self._say("importing", "Loading torch.")
            from .models import Models

            self._models = Models()
        return self._models

    def _compute(self, run: Run) -> None:
        if run.stopped:
            run.fail("stopped", None)
            return
        run.phase = "loading"
        models = self._ready_models()
        self._target(models, run.settings)
        job = models.job(run.settings, run.prompt, self._say, lambda: run.stopped)
        self._say("ready", f"{run.settings.target} is ready.")
        if run.stopped:
            run.fail("stopped", None)
            return

        from .decode import decode

        run.phase = "prefill"
        for event in decode(job):
            if event.type == "draft":
                run.phase = "decoding"
            run.add(event)

    def _do(self, work: Work) -> None:
        if work.stopped:
            work.end()
            return
        work.phase = "working"
        models = self._ready_models()
        self._target(models, work.settings)
        self._say("ready", f"{work.settings.target} is ready.")
        for item in work.function(models, self._say, lambda: work.stopped):
            work.add(item)
        self._say("ready", f"{work.settings.target} is ready.")
        work.end()


def _target_of(settings: RunSettings) -> tuple[str, str, str]:
    return settings.target, settings.dtype, settings.device


def run_to_end(models: Models, settings: RunSettings, prompt: str, say: Callable[..., None]) -> list[Event]:
    """All events of one run, computed on the calling thread."""
    from .decode import decode

    return list(decode(models.job(settings, prompt, say, lambda: False)))


__all__ = ["PHASES", "Engine", "Run", "Work", "run_to_end"]
