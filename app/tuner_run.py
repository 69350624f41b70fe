"""One tuning on the page: an order on its way through the engine -> what the view shows, and the report's files.

Knows nothing of gradio. What the view gets is one JSON object at a time: state, message, fraction, so_far, notes, and
report, once there is one (see app/tuner_words.py).
"""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from engines.errors import UserError
from engines.tune.order import Order, tuning
from engines.tune.progress import Calibrated, Dropped, Finished, Phase, Predicted, Ran, Standing
from engines.tune.verdict import spoken
from engines.tune.write import write

from .sweep_run import in_time
from .tuner_form import same_work
from .tuner_words import Names, shown
from .words import by_label
from .work_run import WorkRun

SO_FAR = 4  # settings that are named while it works
DOWNLOADS = ("report.html", "report.json", "runs.csv")


class TunerRun(WorkRun):
    """A tuning on its way through the engine. `files` are the report's, by their names, once the last frame is there.

    The order's `out` is the folder that they are written into.
    """

    def __init__(self, engine: Any, order: Order) -> None:
        self.engine, self.order = engine, order
        self.names = Names(order.candidates())
        self.work = engine.work(order.base.target, tuning(order))
        self.report: dict[str, Any] | None = None
        self.files: dict[str, Path] = {}
        self._runs = 0
        self._phase: Phase | None = None
        self._at = 0.0  # when the phase was told
        self.shown: dict[str, Any] = {
            "state": "queued", "message": "Starts now.", "fraction": None, "so_far": None, "notes": [], "report": None,
        }  # fmt: skip

    def _take(self, item: Any) -> None:
        if isinstance(item, Phase):
            self._phase, self._at = item, time.monotonic()
        elif isinstance(item, Ran):
            self._runs += 1
        elif isinstance(item, Dropped):
            note = f"Given up: {self.names.of(item.name)}: {self.names.within(item.why).rstrip('.')}."
            self.shown["notes"] = [*self.shown["notes"], note]
        elif isinstance(item, Calibrated):
            self.shown["notes"] = [*self.shown["notes"], _calibrated(item.fresh)]
        elif isinstance(item, Predicted):
            found = [(p.candidate, p.speedup) for p in item.predictions]
            self._so_far("Predicted best, not confirmed yet", found)
        elif isinstance(item, Standing) and item.measured:
            self._so_far("Measured so far, times plain decoding", item.measured)
        elif isinstance(item, Finished):
            self.report = item.report

    def _so_far(self, title: str, found: list[Any]) -> None:
        rows = [{"name": self.names.of(c.name), "said": spoken(i)} for c, i in found[:SO_FAR]]
        self.shown["so_far"] = {"title": title, "rows": rows} if rows else None

    def _tell(self) -> None:
        phase = self._phase
        if self.work.stopped:
            self._say("stopping", "Stops after this round of this run; what was measured is kept.")
        elif waits := self.queued():
            self._say("queued", waits)
        elif phase is None or phase.name == "loading":
            self._say("loading", str(self.engine.state()["message"]))
        else:
            left = max(0.0, (phase.seconds_left or 0.0) - (time.monotonic() - self._at))
            runs = f" {self._runs} run{'' if self._runs == 1 else 's'} so far." if self._runs else ""
            time_left = f" At most {in_time(left)} left." if left else ""
            self._say("running", self.names.within(phase.message) + runs + time_left, 1 - left / self.order.budget)

    def _say(self, state: str, message: str, fraction: float | None = None) -> None:
        self.shown |= {
            "state": state, "message": message, "fraction": None if fraction is None else round(min(1.0, fraction), 3),
        }  # fmt: skip

    def _end(self) -> None:
        if self.work.error:
            self._say("error", by_label(self.work.error))
            return
        if self.report is None:
            self._say("stopped", "Stopped before anything was measured.")
            return
        self.shown |= {"report": shown(self.report, self.order.base, self.names), "so_far": None}
        took, runs = in_time(self.report["seconds"]), len(self.report["runs"])
        if self.report["ended"] == "stopped":
            said = f"Stopped after {runs} runs, {took} of measuring: what is known till then. Tune goes on from here."
            self._say("stopped", said)
        else:
            self._say("done", f"{runs} runs, {took} of measuring. Ended: {_ended(self.report['ended'])}.")
        try:
            written = write(self.report, self.order.out)
        except UserError as error:
            self.shown["notes"] = [*self.shown["notes"], f"The report's files could not be written: {error}"]
            return
        self.files = {path.name: path for path in written if path.name in DOWNLOADS}


def _calibrated(fresh: bool) -> str:
    return "What rounds cost here was measured." if fresh else "What rounds cost here was known from before."


def _ended(how: str) -> str:
    return "the intervals had separated" if how == "settled" else how


def refused(error: UserError) -> str:
    """The frame that says why nothing was begun."""
    return json.dumps({"state": "error", "message": str(error), "fraction": None, "notes": [], "report": None})


class Seat:
    """One browser tab's tuning, and the folder that its runs and reports are kept in till the tab goes."""

    def __init__(self, below: Path) -> None:
        below.mkdir(parents=True, exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(prefix="specplay-tuner-", dir=below))
        self.run: TunerRun | None = None
        self._count = 0

    def begin(self, engine: Any, order: Order) -> TunerRun:
        """The same work again goes on from where it was stopped, or with more time than it had; else it begins anew."""
        before = self.run
        if before is not None:
            before.stop()
            if before.work.phase == "working":  # it may be writing its runs
                before.work.wait()
        if before is not None and same_work(before.order, order) and self._unfinished(before, order):
            out = before.order.out
        else:
            self._count += 1
            out = self.folder / str(self._count)
            if before is not None:
                shutil.rmtree(before.order.out, ignore_errors=True)
        self.run = TunerRun(engine, replace(order, out=out))
        return self.run

    @staticmethod
    def _unfinished(before: TunerRun, order: Order) -> bool:
        if before.work.error is not None or before.report is None:
            return False
        ended, more_time = before.report["ended"], order.budget > before.order.budget
        return ended == "stopped" or (ended == "the budget ended" and more_time)

    def leave(self) -> None:
        if self.run is not None:
            self.run.stop()
            if self.run.work.phase == "working":
                self.run.work.wait(30)
        shutil.rmtree(self.folder, ignore_errors=True)


class Seats:
    """The seats of all browser tabs. `below` is where their folders are made."""

    def __init__(self, below: Path) -> None:
        self._below, self._lock = below, threading.Lock()
        self._seats: dict[str, Seat] = {}

    def of(self, session: str) -> Seat:
        with self._lock:
            if session not in self._seats:
                self._seats[session] = Seat(self._below)
            return self._seats[session]

    def stop(self, session: str) -> None:
        with self._lock:
            seat = self._seats.get(session)
        if seat is not None and seat.run is not None:
            seat.run.stop()

    def leave(self, session: str) -> None:
        with self._lock:
            seat = self._seats.pop(session, None)
        if seat is not None:
            seat.leave()
