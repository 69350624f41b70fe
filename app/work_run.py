"""A work on the engine's thread, followed for a view: frames of JSON. Knows nothing of gradio."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


class WorkRun:
    """`frames` yields `shown` as it changes; any thread may `stop` the work. What its items mean, a subclass says."""

    WAIT_SECONDS = 0.5  # how long to wait for news before the state is told anew
    work: Any
    shown: dict[str, Any]

    def stop(self) -> None:
        self.work.stop()

    def frames(self) -> Iterator[str]:
        """A frame whenever something is new; the last one says how it ended."""
        last = ""
        try:
            while True:
                for item in self.work.take(self.WAIT_SECONDS):
                    self._take(item)
                if self.work.over:
                    break
                self._tell()
                frame = json.dumps(self.shown, ensure_ascii=False)
                if frame != last:
                    yield frame
                last = frame
        finally:  # also when the page is gone and the generator is closed
            self.stop()
        self._end()
        yield json.dumps(self.shown, ensure_ascii=False)

    def queued(self) -> str:
        """What it waits for, in a sentence; "" when nothing is ahead of it."""
        ahead = self.work.ahead
        waits = self.work.phase == "queued" and ahead
        return f"Queued: {ahead} run{' is' if ahead == 1 else 's are'} ahead." if waits else ""

    def _take(self, item: Any) -> None:
        """One thing that the work has yielded."""
        raise NotImplementedError

    def _tell(self) -> None:
        """What is to be said while it goes on, or waits."""
        raise NotImplementedError

    def _end(self) -> None:
        """How it ended."""
        raise NotImplementedError
