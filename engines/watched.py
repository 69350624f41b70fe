"""What the engine's thread is asked to do, as the one who asked sees it: its items come while it goes on."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Any

from .events import Done, Event, to_json
from .fold import Fold
from .settings import RunSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .models import Models
    from .service import Engine

    Function = Callable[[Models, Callable[..., None], Callable[[], bool]], Iterator[Any]]


class Watched:
    """What the engine's thread makes, item by item, and someone else looks at. `phase`: queued, ..., done."""

    def __init__(self, engine: Engine) -> None:
        self.phase = "queued"
        self._engine = engine
        self._items: list[Any] = []
        self._taken = 0
        self._new = threading.Condition()
        self._stop = threading.Event()

    # For the one who watches.

    def _take(self, timeout: float) -> list[Any]:
        with self._new:
            if self._taken == len(self._items) and not self._ended:
                self._new.wait(timeout)
            items = self._items[self._taken :]
            self._taken += len(items)
        return items

    @property
    def over(self) -> bool:
        """It has ended and all of it was taken."""
        return self._ended and self._taken == len(self._items)

    @property
    def ahead(self) -> int:
        """Runs and other work that will be computed before this."""
        return self._engine.ahead_of(self)

    def stop(self) -> None:
        """Ask the engine to halt; a run does within one round, and ends with reason "stopped"."""
        self._stop.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Block until it has ended; False when the timeout came first."""
        with self._new:
            return self._new.wait_for(lambda: self._ended, timeout)

    @property
    def _ended(self) -> bool:
        return self.phase == "done"

    # For the engine thread.

    @property
    def stopped(self) -> bool:
        return self._stop.is_set()

    def _put(self, items: list[Any], last: bool = False) -> None:
        with self._new:
            self._items += items
            if last:
                self.phase = "done"
            self._new.notify_all()


class Run(Watched):
    """A run that was asked for: `phase` is queued, loading, prefill, decoding or done. Its items are `events`."""

    _numbers = itertools.count(1)

    def __init__(self, engine: Engine, settings: RunSettings, prompt: str) -> None:
        super().__init__(engine)
        self.id = f"run-{next(self._numbers)}"
        self.settings, self.prompt = settings, prompt
        self.events: list[Event] = self._items

    def take(self, timeout: float = 0.0) -> list[str]:
        """The events that came since the last take, as JSON lines; waits up to `timeout` seconds for the first."""
        return [to_json(event) for event in self._take(timeout)]

    def add(self, event: Event) -> None:
        self._put([event], last=isinstance(event, Done))

    def fail(self, reason: str, message: str | None) -> None:
        """End without, or in the midst of, decoding; what was emitted so far stays."""
        fold = Fold()
        for event in self.events:
            fold.add(event)
        ids = [t.id for t in fold.tokens() if t.state in Fold.EMITTED]
        metrics = fold.metrics()
        self.add(Done(reason, fold.text(), ids, len(ids), metrics.to_json(), dict(metrics.seconds), None, message))


class Work(Watched):
    """Any other computation on the engine's thread (a sweep, a tuning): `phase` is queued, working or done.

    `function(models, say, stopped)` is a generator; what it yields are the items. `error` is what it ended with, a
    sentence, or None.
    """

    def __init__(self, engine: Engine, settings: RunSettings, function: Function) -> None:
        super().__init__(engine)
        self.settings, self.function = settings, function
        self.error: str | None = None

    def take(self, timeout: float = 0.0) -> list[Any]:
        """What came since the last take; waits up to `timeout` seconds for the first."""
        return self._take(timeout)

    def add(self, item: Any) -> None:
        self._put([item])

    def end(self) -> None:
        self._put([], last=True)

    def fail(self, message: str) -> None:
        self.error = message
        self.end()
