"""An engine for tests of the page alone: it plays hand-made runs at a given rate, by the service's interface.

It is put in the place of `engines.service.Engine` where what the screen does is tested (odd characters, markup, four
views at 200 tokens a second), not what a model does.
"""

from __future__ import annotations

import codecs
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from queue import Queue

from engines.events import Done, Draft, Event, Extra, Judged, Proposed, Start, Verdict, to_json
from engines.fold import Fold
from engines.settings import RunSettings

Tokens = Sequence[str]  # what each token adds to the text: "" for one that ends inside a character
ACCEPTED = (3, 1, 8, 0, 2)  # accepted in the first, second, ... round, over and over; all of them where k is less


def byte_tokens(text: str, size: int = 2) -> list[str]:
    """Tokens of `size` bytes each, as a byte-level tokenizer could make them."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    raw = text.encode()
    return [decoder.decode(raw[i : i + size]) for i in range(0, len(raw), size)]


def word_tokens(text: str) -> list[str]:
    """Each blank or line break begins a token."""
    out: list[str] = []
    for char in text:
        if not out or (char.isspace() and not out[-1][-1].isspace()) or (char == "\n" and out[-1] != "\n"):
            out.append(char)
        else:
            out[-1] += char
    return out


def rounds(
    tokens: Tokens,
    proposer: str,
    k: int = 4,
    accepted: Sequence[int] = ACCEPTED,
    wrong: str = " wrong",
    pace: float = 0.01,
) -> Iterator[tuple[Draft, Verdict]]:
    """Rounds that emit `tokens`, `pace` seconds each by their own account; what is refused reads `wrong`."""
    at = 0
    turns = itertools.cycle(accepted)
    for number in itertools.count(1):
        if at >= len(tokens):
            return
        left = len(tokens) - at
        if proposer == "none":
            extra = Extra(at, tokens[at], "plain", 0.9, 0.9, 0)
            yield Draft(number, [], 0.0), Verdict(number, 0, [], extra, _seconds(pace))
            at += 1
            continue
        kept = min(next(turns), k, left - 1)
        right = [Proposed(at + i, tokens[at + i], 0.8, 0.8) for i in range(kept)]
        refused = [Proposed(90_000 + i, f"{wrong}{i}", 0.5, 0.5) for i in range(k - kept)]
        judged = [Judged(t.id, True, 0.9, t.q, 1.0, 1.0, 0.3, 0.9, 0) for t in right]
        judged += [Judged(t.id, False, 0.1, t.q, 0.2, 0.2, 0.7, 0.1, 5) for t in refused[:1]]
        extra = Extra(at + kept, tokens[at + kept], "bonus" if kept == k else "corrected", 0.7, 0.7, 0)
        yield Draft(number, right + refused, pace / 4), Verdict(number, kept, judged, extra, _seconds(pace))
        at += kept + 1


def _seconds(pace: float) -> dict[str, float]:
    return {"propose": pace / 4, "verify": pace / 2, "sample": pace / 8, "other": pace / 8}


def start_of(settings: RunSettings, prompt: str) -> Start:
    return Start(
        settings.to_json(),
        settings.target,
        settings.proposer,
        "replay",
        "cpu",
        "fp32",
        {"test": "1"},
        [1, 2],
        prompt,
        [prompt, ""],
        prompt=prompt,
    )


def done_of(events: Sequence[Event], reason: str, message: str | None = None) -> Done:
    fold = Fold()
    for event in events:
        fold.add(event)
    kept = [t for t in fold.tokens() if t.state in Fold.EMITTED]
    metrics = fold.metrics()
    seconds = {**metrics.seconds, "prefill": 0.01}
    done = Done(reason, fold.text(), [t.id for t in kept], len(kept), {}, seconds, None, message)
    fold.add(done)
    done.metrics = fold.metrics().to_json()
    return done


class ReplayRun:
    _numbers = itertools.count(1)

    def __init__(self, engine: ReplayEngine, settings: RunSettings, prompt: str) -> None:
        self.engine, self.settings, self.prompt = engine, settings, prompt
        self.number = next(self._numbers)
        self.events: list[Event] = []
        self.phase = "queued"
        self.ended_at = 0.0
        self._taken = 0
        self._stop = threading.Event()
        self._news = threading.Condition()

    def take(self, timeout: float = 0.0) -> list[str]:
        with self._news:
            if self._taken == len(self.events) and self.phase != "done":
                self._news.wait(timeout)
            new = self.events[self._taken :]
            self._taken += len(new)
        return [to_json(e) for e in new]

    @property
    def over(self) -> bool:
        return self.phase == "done" and self._taken == len(self.events)

    @property
    def ahead(self) -> int:
        runs = self.engine.runs
        return sum(r.phase != "done" for r in runs[: runs.index(self)])

    def stop(self) -> None:
        self._stop.set()

    def wait(self, timeout: float | None = None) -> bool:
        with self._news:
            return self._news.wait_for(lambda: self.phase == "done", timeout)

    def add(self, event: Event) -> None:
        with self._news:
            self.events.append(event)
            if isinstance(event, Done):
                self.ended_at = time.monotonic()
                self.phase = "done"
            self._news.notify_all()

    def play(self, tokens: Tokens, rate: float, reason: str, **more: object) -> None:
        """Emit `tokens` at `rate` a second of real time."""
        self.phase = "prefill"
        self.add(start_of(self.settings, self.prompt))
        begin, emitted = time.monotonic(), 0
        for draft, verdict in rounds(tokens, self.settings.proposer, self.settings.k, **more):
            if self._stop.is_set():
                self.add(done_of(self.events, "stopped"))
                return
            self.phase = "decoding"
            gain = verdict.accepted + (verdict.extra is not None)
            self.add(draft)
            self._until(begin + (emitted + gain / 2) / rate)
            emitted += gain
            self._until(begin + emitted / rate)
            self.add(verdict)
        self.add(done_of(self.events, reason))

    @staticmethod
    def _until(moment: float) -> None:
        time.sleep(max(0.0, moment - time.monotonic()))


class ReplayEngine:
    """`script(run)` plays each run; runs are played one after another, as the engine does."""

    def __init__(self, script: Callable[[ReplayRun], None]) -> None:
        self.script = script
        self.runs: list[ReplayRun] = []
        self._queue: Queue[ReplayRun] = Queue()
        threading.Thread(target=self._work, daemon=True).start()

    def state(self) -> dict[str, object]:
        return {"phase": "ready", "message": "Nothing to load.", "fraction": None}

    def preload(self, settings: RunSettings) -> None:
        pass

    def submit(self, settings: RunSettings, prompt: str) -> ReplayRun:
        run = ReplayRun(self, settings, prompt)
        self.runs.append(run)
        self._queue.put(run)
        return run

    def _work(self) -> None:
        while True:
            run = self._queue.get()
            if run._stop.is_set():
                run.add(done_of([], "stopped"))
                continue
            self.script(run)
