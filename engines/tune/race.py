"""Runs side by side: which of the measured settings leads, which are beaten, and when enough is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..bench import MIN_TOKENS
from .candidates import PLAIN, Candidate
from .prompts import Prompt
from .sample import Sample
from .stats import LEVEL, Interval, Pair, ratio

SURE = 0.98  # the rate of intervals that decide while measuring goes on: looking often must not mean erring often
SAME = 1.03  # settings closer than this are as good as each other


@dataclass
class Measured:
    """All runs, by block: the runs of a block are of one prompt, one after another, in random order."""

    prompts: Sequence[Prompt]
    blocks: dict[int, dict[str, Sample]] = field(default_factory=dict)
    skipped: set[int] = field(default_factory=set)  # prompts that cannot be measured

    def add(self, samples: Iterable[Sample]) -> None:
        for s in samples:
            self.blocks.setdefault(s.block, {})[s.candidate] = s

    @property
    def shares(self) -> dict[str, float]:
        """How much of the workload each category is, by number of prompts."""
        counts = Counter(p.category for i, p in enumerate(self.prompts) if i not in self.skipped)
        return {kind: n / counts.total() for kind, n in counts.items()}

    @property
    def used(self) -> Counter[int]:
        """In how many blocks each prompt was run."""
        return Counter(next(iter(block.values())).prompt for block in self.blocks.values())

    @property
    def short(self) -> set[int]:
        """Prompts whose plain answer was too short to time anything."""
        return {s.prompt for s in self.samples(PLAIN.name) if s.tokens < MIN_TOKENS}

    def samples(self, name: str) -> list[Sample]:
        return [block[name] for block in self.blocks.values() if name in block]

    def pairs(self, top: str, bottom: str, category: str | None = None) -> list[Pair]:
        """Both settings' seconds for the tokens that both emitted, wherever both ran; answers too short are left out.

        Greedy texts are the same, but for near-ties; at a temperature the lengths differ, and the longer is cut.
        """
        out = []
        for block in self.blocks.values():
            if top not in block or bottom not in block:
                continue
            a, b = block[top], block[bottom]
            tokens = min(a.tokens, b.tokens)
            kind = self.prompts[a.prompt].category
            if tokens >= MIN_TOKENS and a.prompt not in self.skipped and category in (None, kind):
                out.append(Pair(a.prompt, kind, a.seconds(tokens), b.seconds(tokens)))
        return out

    def speedup(
        self, name: str, over: str = PLAIN.name, level: float = LEVEL, category: str | None = None
    ) -> Interval | None:
        """Seconds of `over` / seconds of `name`; None where they never ran together."""
        shares = self.shares if category is None else None
        return ratio(self.pairs(over, name, category), shares, level, resamples=400 if level == SURE else 2000)


class Race:
    """The finalists of the confirming, plain decoding among them though it is not in `live`."""

    def __init__(self, measured: Measured, finalists: Sequence[Candidate], least: int) -> None:
        self.measured, self.live, self.least = measured, list(finalists), least
        self.all = list(finalists)

    def standing(self, level: float = LEVEL) -> list[tuple[Candidate, Interval]]:
        """Measured speed-ups over plain, the best first."""
        found = [(c, self.measured.speedup(c.name, level=level)) for c in self.all]
        return sorted(((c, i) for c, i in found if i is not None), key=lambda x: -x[1].value)

    def beaten(self) -> list[tuple[Candidate, str]]:
        """Takes those out that the leader is surely faster than, and says why."""
        at = self._leader()
        out: list[tuple[Candidate, str]] = []
        if at is None:
            return out
        for c in [c for c in self.live if c != at]:
            against = self.measured.speedup(at.name, over=c.name, level=SURE)
            if against is not None and against.prompts >= self.least and against.above_one:
                self.live.remove(c)
                out.append((c, f"{at.name} is {against.value:.2f} times as fast"))
        return out

    def _leader(self) -> Candidate | None:
        """The fastest of those that still run."""
        return next((c for c, _ in self.standing(SURE) if c in self.live), None)

    def settled(self) -> bool:
        """Nothing that matters is open: no other setting can be more than 3 % better than the leader, and whether it

        beats plain decoding is known, or by how little it can at most.
        """
        at = self._leader()
        if at is None:
            return False
        plain = self.measured.speedup(at.name, level=SURE)
        if plain is None or plain.low is None or plain.prompts < self.least:
            return False
        if not (plain.low > 1 or plain.high < SAME):
            return False
        for c in (c for c in self.live if c != at):
            against = self.measured.speedup(c.name, over=at.name, level=SURE)
            if against is None or against.high is None or against.high > SAME:
                return False
        return True
