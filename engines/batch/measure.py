"""Measuring what batches cost and what speculation brings them, on this machine.

For each batch size: the time of a pass over 1 and over k + 1 tokens of every sequence, in turn; then plain and
speculative decoding in turn, each until it has emitted the same number of tokens. Every sequence is under way all the
time, as on a busy server: one that ends begins again behind its prompt, which the cache still holds. So what is timed
is the steady state, and no reading of prompts. A batch smaller than the list of prompts takes them group by group, so
that no size has an easier text than another.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

from ..bench import identity
from ..decode import Job
from ..errors import UserError
from ..events import Done, Event
from ..settings import RunSettings
from .lockstep import decode_batch
from .plan import BatchPlan, Say
from .results import Point, Progress, Skipped, Tally, compare, counted
from .rows import Rows

MAX_BYTES = 2 * 10**9  # of the cache and logits of one batch
LEAST_TURNS = 2  # of plain and speculative decoding
CLOCKED = 4  # passes of each width that are timed, after one that is not
GUESSED_YIELD = 1.5  # tokens per pass, before any is known
CALIBRATED = 16  # positions: about the largest pass that is measured when a model is loaded
SEEDS = 1000  # rows of one batch have seeds of their own; a row that begins again has one of the next thousand
SAY_SECONDS = 1.0

Item = Progress | Point | Skipped


class Measuring:
    def __init__(self, plan: BatchPlan, models: Any, say: Say, stopped: Callable[[], bool]) -> None:
        self.plan, self.models, self.say, self.stopped = plan, models, say, stopped
        self.settings = plan.settings.replace(branch=1)  # a batch's passes are chains
        self.sizes = sorted(set(plan.sizes))
        self.gain, self.slower = GUESSED_YIELD, 1.0
        self.at = 0.0  # the guessed seconds of the size at work

    def run(self) -> Iterator[Item]:
        s = self.settings
        self.costs = self.models.costs(s.plain(), self.say)
        self.target = self.models.get(s.target, s.dtype, s.device, self.say)
        self.lengths = [self._length(prompt) for prompt in self.plan.prompts]
        self.capacity = max(self.lengths) + s.max_new_tokens
        self.began = time.perf_counter()
        self.guesses = {size: self._guess(size) for size in self.sizes}  # seconds of what is still to come
        self.since = self.began  # when the size at work was begun
        yield self._progress("Begins.")
        for size in self.sizes:
            guess = self.guesses.pop(size)
            reason = self._too_large(size) or self._too_late(size)
            if reason:
                yield Skipped(size, reason)
                continue
            self.at, self.since = guess, time.perf_counter()
            yield from self._measure(size)
            if self.stopped():
                return
            self.slower, self.at = (time.perf_counter() - self.since) / guess, 0.0
            self.guesses = {size: self._guess(size) for size in self.guesses}

    def _measure(self, size: int) -> Iterator[Item]:
        groups = self.plan.groups(size)
        rows = Rows(self.target.decoder, size, self.capacity, self.settings.k + 1)
        yield self._progress(f"{counted(size)}: reading the prompts.")
        jobs = [self._job(rows, row, groups[0][row], self.settings.plain()) for row in range(size)]
        for job in jobs:
            job.session.ids += job.start.prompt_ids[:-1]
        if not rows.read(self.stopped):
            return
        yield self._progress(f"{counted(size)}: timing passes.")
        point = self._clock(rows, size, jobs[0].sync)
        if point is None:
            return
        yield point
        ways, tallies = (self.settings.plain(), self.settings), (Tally(size), Tally(size))
        texts: dict[str, int] = {}
        turns = max(LEAST_TURNS, len(groups))
        for turn in range(turns):
            if turn and self._spent() > self.plan.budget:
                yield Skipped(size, f"{counted(size)}: the time limit came after {turn} of {turns} turns.")
                return
            first: tuple[dict, dict] = ({}, {})  # the events of each row's first run
            for which in (0, 1) if turn % 2 == 0 else (1, 0):
                yield from self._stretch(rows, groups[turn % len(groups)], ways[which], tallies[which], first[which])
                if self.stopped():
                    return
            if turn < len(groups):
                for row in range(size):
                    verdict = identity(first[0][row], first[1][row]).verdict
                    texts[verdict] = texts.get(verdict, 0) + 1
            found = compare(*tallies)
            self.gain = found["tokens_per_pass"]
            yield Point(size, point.one, point.many, **found, texts=dict(texts))

    def _clock(self, rows: Rows, size: int, sync: Callable[[], None]) -> Point | None:
        """The time of passes over 1 and k + 1 tokens of every row, in turn; None when it was stopped."""
        times: dict[int, list[float]] = {1: [], self.settings.k + 1: []}
        for turn in range(CLOCKED + 1):
            for width, seen in times.items():
                if self.stopped():
                    return None
                begin = time.perf_counter()
                rows.try_pass(width)
                sync()
                if turn:
                    seen.append(time.perf_counter() - begin)
        return Point(size, *(median(seen) for seen in times.values()))

    def _stretch(
        self, rows: Rows, prompts: list[int], settings: RunSettings, tally: Tally, first: dict[int, list[Event]]
    ) -> Iterator[Progress]:
        """Decode until the batch has emitted its tokens. `tally` counts, `first` gets each row's first run."""
        size, over = len(rows.sessions), False
        goal = tally.running + size * settings.max_new_tokens
        begun = [0] * size

        def ended() -> bool:
            return over or self.stopped()

        def job(row: int) -> Job:
            begun[row] += 1
            return self._job(rows, row, prompts[row], settings, begun[row] - 1, ended)

        jobs = [job(row) for row in range(size)]
        way = "plain" if settings.proposer == "none" else "speculative"
        said, verdicts = time.perf_counter(), 0
        for row, event in decode_batch(jobs, rows, lambda row: None if ended() else job(row), self.stopped):
            tally.add(row, event)
            if begun[row] == 1:
                first.setdefault(row, []).append(event)
            if isinstance(event, Done) and event.reason == "error":
                raise UserError(event.message or "A sequence failed.")
            verdicts += event.type == "verdict"
            if event.type == "verdict" and verdicts % size == 0:  # all rows stand behind the same pass
                over = tally.running >= goal
                if time.perf_counter() - said > SAY_SECONDS:
                    said = time.perf_counter()
                    yield self._progress(f"{counted(size)}: {way} decoding.")

    def _job(
        self,
        rows: Rows,
        row: int,
        prompt: int,
        settings: RunSettings,
        begun: int = 0,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Job:
        settings = settings.replace(seed=settings.seed + row + SEEDS * begun)
        job = self.models.job(settings, self.plan.prompts[prompt], self.say, stopped)
        job.session = rows.sessions[row]
        return job

    def _length(self, prompt: str | list[dict[str, str]]) -> int:
        """In tokens."""
        tokenizer = self.target.tokenizer
        if isinstance(prompt, str):
            return len(tokenizer.prompt_ids(prompt, raw=self.settings.raw))
        return len(tokenizer.chat(prompt)[1])

    # What it will take.

    def _guess(self, size: int) -> float:
        """Seconds, by what passes cost when the model was loaded, carried on to more positions in proportion."""
        width, tokens, unit = self.settings.k + 1, self.settings.max_new_tokens, self.costs.pass_seconds

        def seconds(positions: int) -> float:
            return unit * self.costs.v(positions - 1)

        one_more = (seconds(CALIBRATED) - seconds(CALIBRATED // 2)) / (CALIBRATED // 2)
        groups = self.plan.groups(size)
        read = sum(self.lengths[prompt] for group in groups for prompt in group)
        clocked = (CLOCKED + 1) * (seconds(size) + seconds(size * width))
        turn = tokens * seconds(size) + tokens / self.gain * seconds(size * width)
        return max(0.0, read * one_more) + clocked + max(LEAST_TURNS, len(groups)) * turn

    def _spent(self) -> float:
        return time.perf_counter() - self.began

    def _progress(self, message: str) -> Progress:
        spent = self._spent()
        here = max(0.0, self.slower * self.at - (time.perf_counter() - self.since))
        left = min(here + self.slower * sum(self.guesses.values()), max(0.0, self.plan.budget - spent))
        return Progress(message, spent / (spent + left) if left else 1.0, left)

    def _too_large(self, size: int) -> str | None:
        d, width = self.target.decoder, self.settings.k + 1
        if not hasattr(d, "new_cache"):
            return None  # `Rows` will say that this model has no batches
        c = d.config
        cache = size * (self.capacity + width) * 2 * c.layers * c.kv_heads * c.head_dim * d.cache_dtype.itemsize
        needed = cache + size * width * d.vocab_size * 4
        if needed <= MAX_BYTES:
            return None
        return (
            f"{counted(size)} of up to {self.capacity} tokens would need {needed / 1e9:.1f} GB beside the model, and "
            f"the limit is {MAX_BYTES / 1e9:.0f} GB: shorter prompts would fit."
        )

    def _too_late(self, size: int) -> str | None:
        left = self.plan.budget - self._spent()
        takes = self.slower * self._guess(size)
        if takes <= left:
            return None
        return (
            f"{counted(size)} would take about {takes:.0f} s, and of the time limit {max(left, 0):.0f} s are left: "
            "raise it to measure them."
        )
