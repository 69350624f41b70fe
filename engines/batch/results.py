"""What measuring batches yields: how far it is, what was left out, and the numbers of each batch size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ..bench import spread
from ..events import Done, Event, Start, Verdict
from ..fold import Fold


@dataclass(frozen=True)
class Progress:
    """`fraction` of the whole is done, about `seconds_left` are to come, going by what passes took so far."""

    message: str
    fraction: float
    seconds_left: float


@dataclass(frozen=True)
class Skipped:
    """This batch size was not measured, or not wholly, and why: a sentence."""

    batch: int
    reason: str


@dataclass(frozen=True)
class Point:
    """What was measured with `batch` sequences under way; later points of the same batch replace earlier ones.

    `one`, `many`: seconds of a pass over 1 and over k + 1 tokens of each sequence, medians. `plain_rate`,
    `speculative_rate`: tokens per second of all sequences together. `low`, `high`: the spread of the speed-up (see
    `bench.spread`), None of too few passes. `tokens_per_pass` is each sequence's own. `wasted` is the
    share of the positions that speculative passes computed whose proposals were rejected or not judged, so that no
    token came of them; `aside` the share of the time spent outside passes. `texts` counts the sequences by what
    `bench.identity` says of their greedy text against plain decoding in the same batch. What is not known yet is None.
    """

    batch: int
    one: float
    many: float
    plain_rate: float | None = None
    speculative_rate: float | None = None
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    acceptance_rate: float | None = None
    tokens_per_pass: float | None = None
    wasted: float | None = None
    aside: float | None = None
    texts: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Tally:
    """Counts the events of the rows of one batch, every row busy in every pass."""

    def __init__(self, batch: int) -> None:
        self.batch = batch
        self.passes: list[float] = []  # seconds of each, with the proposing before it and the sampling after it
        self.emitted = self.rounds = self.accepted = self.judged = self.computed = 0
        self.running = 0  # emitted, those of rows that are not done yet included
        self.aside = 0.0  # seconds outside target passes
        self._folds: dict[int, Fold] = {}
        self._pass: list[float] = []

    def add(self, row: int, event: Event) -> None:
        if isinstance(event, Start):
            self._folds[row] = Fold()
        self._folds[row].add(event)
        if isinstance(event, Verdict):
            self.running += event.accepted + (event.extra is not None)
            self._pass.append(sum(event.seconds.values()))
            self.aside += self._pass[-1] - event.seconds["verify"]
            if len(self._pass) == self.batch:
                self.passes.append(sum(self._pass))
                self._pass = []
        elif isinstance(event, Done):
            run = self._folds.pop(row)
            m = run.metrics()
            self.emitted += m.emitted
            self.rounds += m.rounds
            self.accepted += m.accepted
            self.judged += m.accepted + m.rejected
            self.computed += sum(r.rows for r in run.rounds)

    @property
    def rate(self) -> float:
        """Tokens per second of all rows together."""
        return self.emitted / sum(self.passes)


def compare(plain: Tally, other: Tally) -> dict[str, Any]:
    """The fields of a `Point` that two tallies of the same batch give."""
    found = spread(plain.passes, other.passes)
    per_token = other.emitted / plain.emitted  # the spread is one of times, and the two emitted not quite the same
    return {
        "plain_rate": plain.rate,
        "speculative_rate": other.rate,
        "speedup": other.rate / plain.rate,
        "low": found and found[0] * per_token,
        "high": found and found[1] * per_token,
        "acceptance_rate": other.accepted / other.judged if other.judged else None,
        "tokens_per_pass": other.emitted / other.rounds,
        "wasted": (other.computed - other.emitted) / other.computed,
        "aside": other.aside / sum(other.passes),
    }


def counted(batch: int) -> str:
    return f"{batch} sequence{'s' if batch > 1 else ''}"


def conclusion(points: Sequence[Point]) -> str:
    """One sentence or two on where the gain goes; "" before anything can be said."""
    known = [p for p in points if p.speedup is not None]
    if not known:
        return ""
    first, last = known[0], known[-1]
    begin = f"With {counted(first.batch)} under way, speculation makes {first.speedup:.2f}× plain decoding's tokens/s"
    if last is first:
        return f"{begin}."
    text = f"{begin}; with {last.batch}, {last.speedup:.2f}×."
    lost = next((p for i, p in enumerate(known) if all(q.speedup <= 1 for q in known[i:])), None)
    if lost is None:
        return f"{text} The gain is not gone at the largest batch that was measured."
    if lost is first:
        return f"{text} There is no gain to lose here: the smallest batch is not faster, either."
    return (
        f"{text} From {lost.batch} sequences on the gain is gone: a pass over the proposals takes "
        f"{lost.many / lost.one:.1f}× the time of a plain one there, and brings each sequence "
        f"{lost.tokens_per_pass:.2f} tokens."
    )
