"""Runs side by side: which of the measured settings leads, which are beaten, and when enough is known.

Two questions are asked of the same runs. What a setting brings on prompts *like these* is what is reported, and other
prompts are what makes it unsure. Which setting is best *for these prompts* decides while measuring goes on: of that
nothing but the clock is unsure any more once all prompts were run.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from ..bench import MIN_TOKENS
from .candidates import PLAIN, Candidate
from .prompts import Prompt
from .sample import Sample
from .stats import LEVEL, Interval, Pair, middle, ratio

SURE = 0.98  # the rate of intervals that decide while measuring goes on: looking often must not mean erring often
SAME = 1.03  # settings closer than this are as good as each other


@dataclass
class Measured:
    """All runs, by block: the runs of a block are of one prompt, one after another, in random order."""

    prompts: Sequence[Prompt]
    blocks: dict[int, dict[str, Sample]] = field(default_factory=dict)
    skipped: set[int] = field(default_factory=set)  # prompts that cannot be measured
    expected: Callable[[Sample], float | None] = lambda sample: None  # a run's seconds by the calibration

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

    @property
    def fresh(self) -> bool:
        """Whether there are prompts that were not run yet."""
        return len(self.used.keys() | self.skipped) < len(self.prompts)

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
        return ratio(self.pairs(over, name, category), shares, level, resamples=400 if level == SURE else 1000)

    def here(self, name: str, over: str = PLAIN.name) -> Interval | None:
        """`speedup` for these very prompts, at the rate SURE: a part of them has been run, and of what the ratios vary

        by from prompt to prompt only the share of those not yet run is open (the correction for a finite population).
        What the clock adds stays; it is told from what the two runs of a block took beyond their rounds' costs.
        """
        found = self.speedup(name, over, SURE)
        if found is None or found.low is None or not found.of_prompts:
            return found
        share = self._open_share(self.pairs(over, name), over, name)
        centre = math.log(found.value)
        low, high = (math.exp(centre + (math.log(x) - centre) * math.sqrt(share)) for x in (found.low, found.high))
        return replace(found, low=low, high=high)

    def _open_share(self, pairs: Sequence[Pair], top: str, bottom: str) -> float:
        """Of the variance that the interval rests on, the share that is open for these prompts: 0 to 1."""
        noise = [math.log(a / b) for a, b in self._units(top, bottom)]
        if len(noise) < 3:
            return 1.0
        by_prompt: dict[int, list[float]] = {}
        for p in pairs:
            by_prompt.setdefault(p.prompt, []).append(math.log(p.top / p.bottom))
        whole = statistics.variance([sum(x) / len(x) for x in by_prompt.values()])
        clock = min(whole, statistics.variance(noise) * len(by_prompt) / len(pairs))
        usable = len(self.prompts) - len(self.skipped | self.short)
        left = max(0.0, 1 - len(by_prompt) / usable)
        return 1.0 if whole <= 0 else ((whole - clock) * left + clock) / whole

    def _units(self, top: str, bottom: str) -> list[tuple[float, float]]:
        """Per block, by how much either run was slower than its rounds' costs by the calibration."""
        out = []
        for b in self.blocks.values():
            if top in b and bottom in b:
                expected = [self.expected(b[name]) for name in (top, bottom)]
                if all(expected):
                    out.append((b[top].seconds() / expected[0], b[bottom].seconds() / expected[1]))
        return out


class Race:
    """The finalists of the confirming, plain decoding among them though it is not in `live`."""

    def __init__(self, measured: Measured, finalists: Sequence[Candidate], least: int) -> None:
        self.measured, self.live, self.least = measured, list(finalists), least
        self.all = list(finalists)

    def join(self, c: Candidate) -> None:
        """One more to race with."""
        self.live.append(c)
        self.all.append(c)

    def standing(self, level: float = LEVEL) -> list[tuple[Candidate, Interval]]:
        """Measured speed-ups over plain, the best first; those that were taken out come last, as they were not run on

        the same prompts as the others.
        """
        found = [(c, self.measured.speedup(c.name, level=level)) for c in self.all]
        leader = self.leader()
        return sorted(
            ((c, i) for c, i in found if i is not None),
            key=lambda x: (x[0] != leader, x[0] not in self.live, -x[1].value),
        )

    def beaten(self) -> list[tuple[Candidate, str]]:
        """Takes those out that the leader is surely faster than, and says why."""
        at = self.leader()
        out: list[tuple[Candidate, str]] = []
        if at is None:
            return out
        for c in [c for c in self.live if c != at]:
            against = self.measured.here(at.name, over=c.name)
            if against is not None and against.prompts >= self.least and against.above_one:
                self.live.remove(c)
                out.append((c, f"{at.name} is {against.value:.2f} times as fast"))
        return out

    def leader(self) -> Candidate | None:
        """The fastest of those that still run, by the blocks in which all of them ran, if there are any such."""
        names = [PLAIN.name, *(c.name for c in self.live)]
        blocks = {n: b for n, b in self.measured.blocks.items() if all(name in b for name in names)}
        common = Measured(self.measured.prompts, blocks or self.measured.blocks, self.measured.skipped)
        shares = self.measured.shares
        found = [(c, middle(common.pairs(PLAIN.name, c.name), shares)) for c in self.live]
        return max(((c, x) for c, x in found if x is not None), key=lambda x: x[1], default=(None, 0.0))[0]

    def settled(self) -> bool:
        """Nothing that matters is open: no other setting can be more than 3 % better than the leader, and whether it

        beats plain decoding is known, or by how little it can at most.
        """
        at = self.leader()
        if at is None:
            return False
        plain = self.measured.here(at.name)
        if plain is None or plain.low is None or plain.prompts < self.least:
            return False
        if not (plain.low > 1 or plain.high < SAME):
            return False
        if plain.low > 1 and self.measured.fresh and not self.measured.speedup(at.name).above_one:
            return False  # it pays for these prompts; that it does for others like them, more of them may show
        for c in (c for c in self.live if c != at):
            against = self.measured.here(c.name, over=at.name)
            if against is None or against.high is None or against.high > SAME:
                return False
        return True
