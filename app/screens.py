"""What travels to one view: lines of JSON, one after another, in one string that grows at its end.

The browser's side of gradio copies and compares a component's whole value several times an update, so a string that
grew without bound would cost more and more. Hence a window: beyond `WINDOW` characters the string starts anew from
lines that are well behind what was sent last, and its first line says how many were left out. At the end of a run it
is sent whole, so that nothing can be missing from what stays on the page.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

WINDOW = 24_000  # characters; a second or two of a fast run


class Screen:
    """The string of one view. Its first line names the run, so that the browser knows when a new one begins."""

    def __init__(self, run: str, title: str, window: int = WINDOW) -> None:
        self._run, self._window = run, window
        self._lines: list[str] = []
        self._sent = 0  # how many of them were sent; none of the others is ever left out
        self._last: dict[str, Any] = {}
        self._begin(0)
        self.page(title=title)

    def page(self, **fields: Any) -> None:
        """A line of the page's own (state, message, measured numbers) between the events. The same twice is one."""
        if fields == self._last:
            return
        self._last = fields
        self.events([json.dumps({"type": "page", **fields}, ensure_ascii=False, allow_nan=False)])

    def events(self, lines: Iterable[str]) -> None:
        added = [f"{line}\n" for line in lines]
        if not added:
            return
        self._lines += added
        self.text += "".join(added)
        self.fresh = True
        if len(self.text) > self._window:
            # What a slow browser has not seen yet is in the second half, unless it is far behind.
            at, room = len(self._lines), self._window // 2
            while at > 0 and room > 0:
                at -= 1
                room -= len(self._lines[at])
            self._begin(min(at, self._sent))

    def finish(self) -> None:
        """The run has ended: send all of it. May be called again when more was said since."""
        if self.left_out:
            self._begin(0)

    def sent(self) -> bool:
        """Whether there was something new, which is taken as sent by this call."""
        fresh, self.fresh = self.fresh, False
        self._sent = len(self._lines)
        return fresh

    def _begin(self, at: int) -> None:
        self.left_out = at
        head = json.dumps({"run": self._run, "left_out": at})
        self.text = f"{head}\n{''.join(self._lines[at:])}"
        self.fresh = True  # whether `text` changed since it was last sent
