"""Ctrl-C as a request to stop, for work that can end well."""

from __future__ import annotations

import signal
import sys


class Interrupt:
    """Within `with`, a call gives True once Ctrl-C was pressed: the work ends at its next stop, and keeps what it has.

    While `heeded` is false, and at a second time, Ctrl-C raises KeyboardInterrupt at once. `said` answers it.
    """

    def __init__(self, heeded: bool = True, said: str = "Stopping ...") -> None:
        self.heeded, self.said = heeded, said
        self.hit = False

    def __call__(self) -> bool:
        return self.hit

    def __enter__(self) -> Interrupt:
        self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *fault: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: object) -> None:
        if self.hit or not self.heeded:
            raise KeyboardInterrupt
        self.hit = True
        if self.said:
            print(self.said, file=sys.stderr, flush=True)
