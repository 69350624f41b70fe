"""What travels to one view: lines of JSON, one after another, in one string that only grows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any


class Screen:
    """The string of one view. Its first line names the run, so that the browser knows when a new one begins."""

    def __init__(self, run: str, title: str) -> None:
        self.text = ""
        self.fresh = False  # whether `text` grew since it was last sent
        self._last: dict[str, Any] = {}
        self.page(run=run, title=title)

    def page(self, **fields: Any) -> None:
        """A line of the page's own (state, message, measured numbers) between the events. The same twice is one."""
        if fields == self._last:
            return
        self._last = fields
        self.events([json.dumps({"type": "page", **fields}, ensure_ascii=False, allow_nan=False)])

    def events(self, lines: Iterable[str]) -> None:
        added = "".join(f"{line}\n" for line in lines)
        if added:
            self.text += added
            self.fresh = True

    def sent(self) -> bool:
        """Whether there was something new, which is taken as sent by this call."""
        fresh, self.fresh = self.fresh, False
        return fresh
