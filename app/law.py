"""The same-distribution test of a panel's settings, as lines for its view."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

from engines.errors import UserError
from engines.settings import RunSettings

from .run_page import WAIT_SECONDS


class PageLaw:
    """To routes.py what a PageRun is. Raises UserError for settings at which there is nothing to test."""

    def __init__(self, engine: Any, prompt: str, letter: str, settings: RunSettings | UserError) -> None:
        if isinstance(settings, UserError):
            raise settings
        from engines.same_law import same_law  # not before a run has been: it needs torch

        self.letter = letter
        self.function = same_law(settings, prompt)
        self.engine, self.settings = engine, settings
        self._stop = threading.Event()
        self._work: Any = None

    def stop(self) -> None:
        self._stop.set()
        if self._work is not None:
            self._work.stop()

    def frames(self) -> Iterator[list[str]]:
        """The newest of the test's items, each as one line, until it is over."""
        try:
            self._work = work = self.engine.work(self.settings.target, self.function)
            if self._stop.is_set():
                work.stop()
            while not work.over:
                items = work.take(WAIT_SECONDS)
                yield [self._line({"law": items[-1]})] if items else []
            if work.error:
                yield [self._line({"law": None, "message": work.error})]
        finally:  # also when nobody reads on
            self.stop()

    def _line(self, data: dict[str, Any]) -> str:
        return f"{self.letter}\t{json.dumps({'type': 'law', **data}, ensure_ascii=False, allow_nan=False)}"
