"""Events on a terminal: tokens in their states' colours and marks, progress, and a summary."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TextIO

from ..events import Done, Event, Verdict
from ..fold import Fold, Token

# The states' colours (Okabe & Ito's palette, safe for colour-blind readers), each with a mark of its own.
STYLES = {
    "accepted": "38;2;86;180;233",
    "rejected": "9;38;2;213;94;0",
    "corrected": "4;38;2;240;228;66",
    "bonus": "38;2;204;121;167",
    "unjudged": "2;9",
    "plain": "",
}
MARKS = {"corrected": "↻", "bonus": "✦"}


def wants_colour(stream: TextIO) -> bool:
    """On a terminal, unless NO_COLOR is set (no-color.org) or the terminal is a dumb one."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def harmless(text: str) -> str:
    """Without control characters: a model's text must not drive the terminal that shows it."""
    return "".join(c for c in text if c in "\n\t" or (c >= " " and not "\x7f" <= c <= "\x9f"))


class TerminalView:
    """Prints tokens as they are judged; those that a stop string may yet withdraw wait."""

    def __init__(self, out: TextIO | None = None) -> None:
        self.out = sys.stdout if out is None else out
        self.colour = wants_colour(self.out)
        self.fold = Fold()
        self._shown = 0

    def show(self, event: Event) -> None:
        self.fold.add(event)
        if not isinstance(event, Verdict | Done):
            return
        tokens = self.fold.tokens()
        end = len(tokens)
        held = self.fold.held
        while held and end > self._shown:
            end -= 1
            held -= tokens[end].state in Fold.EMITTED
        for token in tokens[self._shown : end]:
            self.out.write(self._styled(token) if self.colour else self._bare(token))
        self._shown = max(self._shown, end)
        self.out.flush()

    def _bare(self, token: Token) -> str:
        if token.state not in Fold.EMITTED:
            return ""
        return harmless(token.text) if self.out.isatty() else token.text

    def _styled(self, token: Token) -> str:
        style, text = STYLES[token.state], harmless(token.text) + MARKS.get(token.state, "")
        if token.state in ("rejected", "unjudged"):
            text = text.replace("\n", "↵")  # a refused line break must not break the line
        return f"\x1b[{style}m{text}\x1b[0m" if style and text else text


def legend() -> str:
    names = ("accepted", "rejected", "corrected", "bonus", "unjudged")
    return "  ".join(f"\x1b[{STYLES[n]}m{n}{MARKS.get(n, '')}\x1b[0m" for n in names)


def percent(x: float | None) -> str:
    return "–" if x is None else f"{x:.0%}"


def counted(n: int, noun: str) -> str:
    """ "1 token", "2 tokens", "2 passes"."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}{'es' if noun.endswith('s') else 's'}"


def columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table: the head, a line under it, and the rows, each column as wide as it needs."""
    lines = [head, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    out = ["  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([out[0], "  ".join("-" * w for w in widths), *out[1:]])


def summary(events: list[Event]) -> str:
    """A few lines on what the run did."""
    fold = Fold()
    for event in events:
        fold.add(event)
    start, done, m = fold.start, fold.done, fold.metrics()
    lines = []
    if start is not None:
        who = start.target + (f" with {start.draft}" if start.draft else "")
        lines.append(f"{who} · {start.proposer} · {start.device} {start.dtype}")
    rate = "–" if m.tokens_per_second is None else f"{m.tokens_per_second:.1f}"
    per_pass = "–" if m.tokens_per_pass is None else f"{m.tokens_per_pass:.2f}"
    made = f"{counted(m.emitted, 'token')} in {counted(m.rounds, 'target pass')}"
    lines.append(f"{made} · {per_pass} tokens per pass · {rate} tokens/s")
    if start is not None and start.proposer != "none":
        lines.append(
            f"proposed {m.proposed}: accepted {m.accepted}, rejected {m.rejected}, unjudged {m.unjudged}"
            f" · acceptance rate {percent(m.acceptance_rate)} · rounds with nothing proposed {m.nothing_proposed}"
        )
    lines.append("seconds: " + ", ".join(f"{name} {x:.2f}" for name, x in m.seconds.items()))
    if done is not None:
        lines.append(f"ended: {done.reason}" + (f" ({done.message})" if done.message else ""))
    return "\n".join(lines)


class Progress:
    """One line on standard error that is rewritten in place; on anything but a terminal, one line per phase."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.live = self.stream.isatty()
        self._last = ""

    def __call__(self, phase: str, message: str, fraction: float | None = None) -> None:
        if self.live:
            bar = "" if fraction is None else f"[{'#' * round(fraction * 20):<20}] {fraction:4.0%} "
            self.stream.write(f"\r\x1b[K{bar}{message}")
            self.stream.flush()
        elif phase != self._last:
            self.stream.write(message + "\n")
        self._last = phase

    def clear(self) -> None:
        if self.live:
            self.stream.write("\r\x1b[K")
            self.stream.flush()
