"""Blocks of the tuner's runs: plain decoding and some settings on one prompt, in random order, and their time."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from ..errors import UserError
from .candidates import PLAIN, Candidate
from .progress import Bench, Dropped, Progress, Ran
from .prompts import Prompts
from .race import Measured
from .sample import Sample
from .store import Store

REPEATS = 4  # blocks in which one prompt may be run


class Budget:
    """Seconds of measuring: `total` of them, less what was spent, an earlier part of the same search included."""

    def __init__(self, clock: Callable[[], float], store: Store, total: float) -> None:
        self.clock, self.store, self.total = clock, store, total
        self._begin = 0.0

    def begin(self) -> None:
        self._begin = self.clock()

    @property
    def spent(self) -> float:
        return self.store.spent + self.clock() - self._begin

    @property
    def left(self) -> float:
        return max(0.0, self.total - self.spent)

    def note(self) -> float:
        """Seconds spent in all, booked; the clock begins anew."""
        spent = self.spent
        self.begin()
        return spent


class Blocks:
    """Runs them, and keeps what they gave in `measured` and `store`. `drop` is told of what cannot be run, and why."""

    def __init__(
        self,
        bench: Bench,
        prompts: Prompts,
        measured: Measured,
        store: Store,
        budget: Budget,
        seed: int,
        stopped: Callable[[], bool],
        drop: Callable[[str, str], Dropped],
    ) -> None:
        self.bench, self.prompts, self.measured, self.store, self.budget = bench, prompts, measured, store, budget
        self.seed, self.stopped, self.drop = seed, stopped, drop
        self._order = _in_turn(prompts, seed)
        self._seconds: dict[str, list[float]] = {}

    def next_prompt(self) -> int | None:
        """The one that was run least so far, in the order that takes the categories in turn."""
        used = self.measured.used
        out = self.measured.skipped | self.measured.short
        free = (i for i in self._order if i not in out and used[i] < REPEATS)
        return min(free, key=lambda i: used[i], default=None)  # the first of the least

    def expected(self, arms: Sequence[Candidate]) -> float:
        """Seconds that a block of these will take, by the last ones."""
        known = {n: sum(t[-5:]) / len(t[-5:]) for n, t in self._seconds.items()}
        usual = sum(known.values()) / len(known) if known else 0.0
        return sum(known.get(c.name, usual) for c in [PLAIN, *arms])

    def run(self, prompt: int, arms: Sequence[Candidate]) -> Iterator[Progress]:
        """One block. One that is stopped half-way leaves nothing."""
        number = 1 + max(self.measured.blocks, default=-1)
        order = [PLAIN, *arms]
        random.Random(f"{self.seed} {number}").shuffle(order)
        samples: list[Sample] = []
        failed: list[tuple[Candidate, str]] = []
        for c in order:
            if self.stopped():
                return
            begin = self.bench.clock()
            try:
                s = self.bench.run(c, self.prompts.prompts[prompt], prompt, number)
            except UserError as error:
                failed.append((c, str(error)))
                continue
            self._seconds.setdefault(c.name, []).append(self.bench.clock() - begin)
            if s.reason == "stopped":
                return
            if s.reason == "error":
                failed.append((c, s.message or "the run failed"))
                continue
            samples.append(s)
            yield Ran(s)
        yield from self._settle(prompt, failed)
        if prompt not in self.measured.skipped:
            self.measured.add(samples)
            self.store.block(samples, self.budget.note())

    def _settle(self, prompt: int, failed: list[tuple[Candidate, str]]) -> Iterator[Progress]:
        """Where plain decoding fails it is the prompt's fault, where something else does, its own."""
        plain = next((why for c, why in failed if c == PLAIN), None)
        if plain is not None:
            self.measured.skipped.add(prompt)
            self.store.skip(prompt)
            yield Dropped(f"prompt {self.prompts.prompts[prompt].number}", plain)
            return
        for c, why in failed:
            yield self.drop(c.name if c.way == "own" else c.family, why)


def _in_turn(prompts: Prompts, seed: int) -> list[int]:
    """Indices of the prompts, one of each category after another, in random order within it."""
    by_kind: dict[str, list[int]] = {}
    for i, p in enumerate(prompts.prompts):
        by_kind.setdefault(p.category, []).append(i)
    shuffled = random.Random(seed)
    for rows in by_kind.values():
        shuffled.shuffle(rows)
    out: list[int] = []
    while any(by_kind.values()):
        out += [rows.pop() for rows in by_kind.values() if rows]
    return out
