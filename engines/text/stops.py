"""Stop strings, found token by token, so that the place does not depend on where blocks begin and end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import UserError


@dataclass(frozen=True)
class Cut:
    """Where the text ends: the first `keep` tokens stay, the last of them with its text cut to `last_text` if that is
    not None. `stop` is the string that was found."""

    keep: int
    last_text: str | None
    stop: str


class StopFinder:
    """Feed it the text of one token after the other.

    The run ends at the token that completes the first stop string; of several complete by then, the one that begins
    first decides. `held` is how many of the last tokens may yet be withdrawn: those that reach into an end of the
    text that a stop string begins with, and those that wait for the rest of their character.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        if not all(isinstance(s, str) and s for s in stops):
            raise UserError("A stop string must not be empty.")
        self._stops = tuple(stops)
        self._reach = max((len(s) for s in self._stops), default=1) - 1  # what may have begun before this token
        self._tail = ""  # the last characters of the text, at least `_reach` of them where there are
        self._texts: list[str] = []
        self.held = 0

    def push(self, text: str) -> Cut | None:
        """The next token's text. Once a cut is returned nothing more may be pushed."""
        self._texts.append(text)
        if not self._stops:
            return None
        tail = self._tail + text
        # No stop was complete before, so any found now reaches into this token.
        found = min(((at, s) for s in self._stops if (at := tail.find(s)) >= 0), default=None)
        if found is not None:
            self.held = 0
            return self._cut(len(tail) - found[0], found[1])
        self._tail = tail[-self._reach :] if self._reach else ""
        self.held = self._count(self._begun(tail))
        return None

    def _begun(self, tail: str) -> int:
        """How many characters at the end could be the beginning of a stop string."""
        for n in range(min(self._reach, len(tail)), 0, -1):
            end = tail[-n:]
            if any(s.startswith(end) for s in self._stops):
                return n
        return 0

    def _count(self, characters: int) -> int:
        """How many of the last tokens the last `characters` characters reach into, and empty ones before them."""
        n = 0
        for text in reversed(self._texts):
            if characters <= 0 and text:
                break
            characters -= len(text)
            n += 1
        return n

    def _cut(self, characters: int, stop: str) -> Cut:
        """Take the last `characters` characters away. Tokens left without any text go as well: those that carry
        half of a character that is gone."""
        keep = len(self._texts)
        while keep and characters >= len(self._texts[keep - 1]):
            characters -= len(self._texts[keep - 1])
            keep -= 1
        if characters == 0:
            return Cut(keep, None, stop)
        return Cut(keep, self._texts[keep - 1][:-characters], stop)
