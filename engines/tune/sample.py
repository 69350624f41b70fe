"""What the tuner keeps of a run: its rounds as counts and seconds, made from the run's events and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from ..bench import shares
from ..events import Event
from ..fold import Fold, fold


@dataclass(frozen=True)
class Pass:
    """One round. `proposed` tokens were judged in one target pass; `rejected` is 0 or 1 in a chain. Times in seconds:

    `rest` is sampling, text and book-keeping.
    """

    proposed: int
    accepted: int
    rejected: int
    emitted: int
    propose: float = 0.0
    verify: float = 0.0
    rest: float = 0.0

    @property
    def seconds(self) -> float:
        return self.propose + self.verify + self.rest

    def to_json(self) -> list[float]:
        times = [round(x, 7) for x in (self.propose, self.verify, self.rest)]
        return [self.proposed, self.accepted, self.rejected, self.emitted, *times]


@dataclass
class Sample:
    """One run of `candidate` (its name) on the prompt with this index, in this block of runs."""

    candidate: str
    prompt: int
    block: int
    passes: list[Pass]
    ids: list[int] = field(default_factory=list)
    prompt_ids: list[int] = field(default_factory=list)
    reason: str = "length"
    message: str | None = None
    prefill: float = 0.0

    @cached_property
    def tokens(self) -> int:
        return sum(p.emitted for p in self.passes)

    @cached_property
    def _rounds(self) -> tuple[list[int], list[float]]:
        return [p.emitted for p in self.passes], [p.seconds for p in self.passes]

    @property
    def context(self) -> float:
        """Tokens of context in the run's middle."""
        return len(self.prompt_ids) + self.tokens / 2

    def seconds(self, tokens: int | None = None) -> float:
        """Decoding seconds until `tokens` tokens were emitted (None: all); prompt reading is not in it."""
        emitted, seconds = self._rounds
        if tokens is None or tokens >= self.tokens:
            return sum(seconds)
        return sum(part * x for part, x in zip(shares(emitted, tokens), seconds, strict=False))

    def to_json(self) -> dict[str, Any]:
        out = {f.name: getattr(self, f.name) for f in fields(self)} | {"passes": [p.to_json() for p in self.passes]}
        return {name: value for name, value in out.items() if value is not None}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Sample:
        """What `to_json` gave. Raises KeyError or TypeError for anything else."""
        return cls(**{**data, "passes": [Pass(*p) for p in data["passes"]]})


def sample_of(events: Sequence[Event], candidate: str, prompt: int, block: int) -> Sample:
    """What stays of a run's events."""
    run = fold(list(events))
    passes = []
    for r in run.rounds:
        seconds = {"propose": 0.0, "verify": 0.0, "sample": 0.0, "other": 0.0} | r.seconds
        passes.append(
            Pass(
                r.rows - 1,
                r.count("accepted"),
                r.count("rejected"),
                r.count(*Fold.EMITTED),
                seconds["propose"],
                seconds["verify"],
                seconds["sample"] + seconds["other"],
            )
        )
    done, start = run.done, run.start
    return Sample(
        candidate, prompt, block, passes, list(done.ids), list(start.prompt_ids), done.reason, done.message,
        done.seconds.get("prefill", 0.0),
    )  # fmt: skip
