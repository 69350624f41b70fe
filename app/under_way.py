"""What is under way, each by the name of who asked for it: a browser tab, or a press of Run."""

from __future__ import annotations

import threading
from typing import Any


class UnderWay:
    """Anything that can be stopped. A name has one at a time: what it had before is stopped when another begins."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_name: dict[str, Any] = {}

    def begin(self, name: str, run: Any) -> None:
        with self._lock:
            before = self._by_name.get(name)
            self._by_name[name] = run
        if before is not None:
            before.stop()

    def end(self, name: str, run: Any) -> None:
        with self._lock:
            if self._by_name.get(name) is run:
                del self._by_name[name]

    def stop(self, name: str) -> None:
        with self._lock:
            run = self._by_name.get(name)
        if run is not None:
            run.stop()
