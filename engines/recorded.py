"""Recorded runs: files of one trace after another, written by this program, by a person, or by who knows whom.

`split` reads them so strictly that whatever follows (`fold`, `bench`, the page's own fold) can rely on what it gets:
types, ranges, order, and counts that agree. The lessons' runs lie in assets/recorded (`python -m engines record`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path

from .errors import UserError
from .events import Done, Draft, Event, Start, Verdict
from .fold import Fold
from .settings import MAX_K
from .trace_check import checked
from .trace_types import Bad, need

FOLDER = Path(__file__).resolve().parent.parent / "assets" / "recorded"
MAX_BYTES = 20_000_000
MAX_RUNS = 32
MAX_TOKENS = 4096  # that one run emits


def split(lines: str | Iterable[str]) -> list[list[Event]]:
    """The runs in a recorded file: for each its events, `Start` first and `Done` last, all of them checked.

    `lines` is the file's text or its lines; empty ones are passed over. A start's settings come back complete, as
    `RunSettings.to_json` gives them. Raises UserError, with the number of the line, for whatever is not exactly what a
    trace holds: a type, a range, an order, a count that contradicts another; and for files of more than MAX_BYTES or
    MAX_RUNS runs, and runs of more than MAX_TOKENS tokens.
    """
    runs: list[list[Event]] = []
    reader: _Reader | None = None
    at = 0
    try:
        for number, line in _numbered(lines):
            at = number
            event = checked(line)
            if isinstance(event, Start):
                need(reader is None or reader.over, "a run begins before the last one has ended")
                need(len(runs) < MAX_RUNS, f"the file holds more than {MAX_RUNS} runs")
                reader = _Reader(event)
                runs.append([event])
                continue
            need(reader is not None and not reader.over, f"a {event.type!r} line must belong to a run that has begun")
            reader.take(event)
            runs[-1].append(event)
    except Bad as bad:
        raise UserError(_sentence(f"line {at} is wrong: {bad}")) from None
    if reader is None:
        raise UserError(_sentence("there is no run in it"))
    if not reader.over:
        raise UserError(_sentence(f"its last run is cut off after line {at}"))
    return runs


def read(path: Path) -> list[list[Event]]:
    """`split` of a file. Raises UserError also for one that cannot be opened, is too large or is not UTF-8."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UserError(_sentence(f"it is larger than {MAX_BYTES // 1_000_000} MB"))
        return split(path.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise UserError(_sentence("it is not UTF-8 text")) from None
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror or error}.") from None


def of_lesson(name: str) -> list[list[Event]]:
    """The recorded runs of the preset `name` (see `presets`). Raises UserError when there is no such file."""
    if not name.replace("-", "").isalnum():
        raise UserError(f"There is no recorded run called {name!r}.")
    path = FOLDER / f"{name}.jsonl"
    if not path.is_file():
        raise UserError(f"There is no recorded run called {name!r}: make it with `python -m engines record {name}`.")
    return read(path)


def _sentence(what: str) -> str:
    advice = "Choose one that --trace or “Save the runs” wrote."
    return f"This is not a file of recorded runs that can be shown: {what}. {advice}"


def _numbered(lines: str | Iterable[str]) -> Iterator[tuple[int, str]]:
    """(number, line) of those that are not empty, while they are not too much."""
    if isinstance(lines, str):
        lines = lines.removeprefix("\ufeff").split("\n")  # not splitlines: text may hold other breaks
    size = 0
    for number, line in enumerate(lines, start=1):
        size += len(line.encode("utf-8", "surrogatepass")) + 1
        if size > MAX_BYTES:
            raise UserError(_sentence(f"it is larger than {MAX_BYTES // 1_000_000} MB"))
        if line.strip():
            yield number, line


class _Reader:
    """One run, event by event: each has to fit what came before."""

    def __init__(self, start: Start) -> None:
        self.start = start
        self.over = False
        self._fold = Fold()
        self._fold.add(start)
        self._draft: Draft | None = None  # a proposal that waits for its verdict
        self._rounds = self._emitted = 0
        self._ids: list[int] = []
        self._last = False  # the run ended inside the last round

    def take(self, event: Event) -> None:
        """Raises `Bad` for what does not fit."""
        if isinstance(event, Draft):
            self._propose(event)
        elif isinstance(event, Verdict):
            self._judge(event)
        else:
            self._end(event)
        self._fold.add(event)
        if isinstance(event, Done):
            self._check_end(event)
            self.over = True

    def _propose(self, event: Draft) -> None:
        need(self._draft is None, "a round begins before the last one was judged")
        need(not self._last, "a round begins after the one in which the run ended")
        self._rounds += 1
        need(event.round == self._rounds, f"round {event.round} comes where round {self._rounds} should")
        need(len(event.tokens) <= MAX_K, f"a round proposes {len(event.tokens)} tokens; {MAX_K} are the most")
        text = len(self.start.prompt_ids) + self._emitted
        for i, token in enumerate(event.tokens):
            need(token.source is None or token.source[1] <= text + i, f"source ends beyond the text: {token.source}")
        self._draft = event

    def _judge(self, event: Verdict) -> None:
        draft = self._draft
        need(draft is not None and draft.round == event.round, "a verdict without a proposal of its own")
        n = len(draft.tokens)
        stood = [j for j in event.judged if j.accepted]
        need(len(event.judged) <= n, f"{len(event.judged)} tokens are judged, of {n} that were proposed")
        need(
            len(stood) == event.accepted, f"accepted is {event.accepted}, and {len(stood)} judged tokens were accepted"
        )
        need(event.cut in (0, n - len(event.judged)), f"cut is {event.cut}, with {n - len(event.judged)} left unjudged")
        if any(t.parent is not None for t in draft.tokens):
            self._walk(event, draft)
        else:
            self._row(event, draft)
        self._ids += [j.id for j in stood]
        if event.extra is not None:
            self._ids.append(event.extra.id)
        need(len(self._ids) > self._emitted, "a round emits nothing")
        self._emitted = len(self._ids)
        need(self._emitted <= MAX_TOKENS, f"the run has more than {MAX_TOKENS} tokens")
        need(event.held <= self._emitted, f"held is {event.held}, of {self._emitted} tokens")
        self._last = event.extra is None or event.cut > 0
        self._draft = None

    @staticmethod
    def _row(event: Verdict, draft: Draft) -> None:
        """A chain: the first tokens are judged, in order, and what is refused ends it."""
        n, judged = len(draft.tokens), event.judged
        for i, one in enumerate(judged):
            need(one.node is None, "node belongs to trees only")
            need(one.id == draft.tokens[i].id, f"the judged token {i} is not the one that was proposed")
            need(one.accepted == (i < event.accepted), "a token is accepted after a rejected one")
        if event.extra is None:  # the last accepted token ended the run
            need(len(judged) == event.accepted > 0, "a round without the target's own token ends with an accepted one")
            return
        need(len(judged) == min(event.accepted + 1, n), f"{len(judged)} tokens are judged, {event.accepted} accepted")
        kind = "plain" if n == 0 else "bonus" if event.accepted == n else "corrected"
        need(event.extra.kind == kind, f"the target's own token is called {event.extra.kind}, and is {kind}")

    @staticmethod
    def _walk(event: Verdict, draft: Draft) -> None:
        """A tree: the children of where the walk stands are judged in turn, until one is accepted."""
        children: dict[int, list[int]] = {}
        for i, token in enumerate(draft.tokens):
            children.setdefault(token.parent, []).append(i)
        at = -1
        waiting = list(children.get(at, []))
        for one in event.judged:
            need(bool(waiting) and one.node == waiting[0], f"the judged token {one.node} of the tree is out of turn")
            need(one.id == draft.tokens[one.node].id, f"the judged token {one.node} is not the one that was proposed")
            waiting.pop(0)
            if one.accepted:
                at = one.node
                waiting = list(children.get(at, []))
        if event.extra is None:
            need(bool(event.judged) and event.judged[-1].accepted, "the last judged token must end the run")
            return
        need(not waiting, "a token of the tree was not judged, though it was its turn")
        kind = "corrected" if children.get(at) else "bonus"
        need(event.extra.kind == kind, f"the target's own token is called {event.extra.kind}, and is {kind}")

    def _end(self, event: Done) -> None:
        need(event.keep <= self._emitted, f"keep is {event.keep}, of {self._emitted} tokens")
        need(event.ids == self._ids[: event.keep], "ids are not the tokens that were emitted")
        need(event.last_text is None or event.keep > 0, "last_text belongs to a token, and none is kept")

    def _check_end(self, event: Done) -> None:
        need(event.text == self._fold.text(), "text is not what the tokens say")
        metrics = self._fold.metrics().to_json()
        for key, value in event.metrics.items():
            need(key in metrics and _agree(value, metrics[key]), f"metrics.{key[:40]} is not what the rounds say")


def _agree(a: object, b: object) -> bool:
    """The same JSON, numbers to within the rounding of another machine's sums."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_agree(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_agree, a, b))
    numbers = [isinstance(x, (int, float)) and not isinstance(x, bool) for x in (a, b)]
    return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9) if all(numbers) else type(a) is type(b) and a == b
