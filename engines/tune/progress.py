"""What the tuner tells while it works: typed objects, in the order in which things happen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from ..cost import Calibration
from .candidates import Candidate
from .predict import Prediction
from .prompts import Prompt
from .sample import Pass, Sample
from .stats import Interval


@dataclass(frozen=True)
class Phase:
    """`name`: loading, calibrating, acceptance, confirming or done. `seconds_left` of the budget, at most."""

    name: str
    message: str
    fraction: float | None = None
    seconds_left: float | None = None


@dataclass(frozen=True)
class Calibrated:
    """What rounds cost here, for the plot."""

    calibration: Calibration
    fresh: bool  # measured now, not kept from before


@dataclass(frozen=True)
class Ran:
    """A run was measured."""

    sample: Sample


@dataclass(frozen=True)
class Dropped:
    """A candidate, family or prompt was given up, and why."""

    name: str
    why: str


@dataclass(frozen=True)
class Predicted:
    """What every candidate should bring, the best first; before anything was confirmed."""

    predictions: list[Prediction]


@dataclass(frozen=True)
class Standing:
    """How the confirming stands: measured speed-ups by candidate, the best first."""

    measured: list[tuple[Candidate, Interval]] = field(default_factory=list)


@dataclass(frozen=True)
class Finished:
    """The end: the report, as `report.json` has it."""

    report: dict[str, Any]


Progress = Phase | Calibrated | Ran | Dropped | Predicted | Standing | Finished


class Bench(Protocol):
    """What the tuner measures with: the real models, or, in tests, a simulated machine."""

    def clock(self) -> float:
        """Seconds, from any beginning."""
        ...

    def describe(self) -> dict[str, Any]:
        """Target, device, dtype, versions, machine: what the report says the numbers are of."""
        ...

    def who(self, candidate: Candidate) -> str:
        """The drafter's name in the calibration, "" for what drafts nothing."""
        ...

    def calibrate(self, candidates: list[Candidate], prompts: list[Prompt], seconds: float) -> tuple[Calibration, bool]:
        """What rounds cost with each of these drafters, in about `seconds`, and whether any of it was measured now. A

        drafter that cannot be used is left out of it; running it says why.
        """
        ...

    def run(self, candidate: Candidate, prompt: Prompt, index: int, block: int) -> Sample:
        """One run. Raises UserError for what cannot be run."""
        ...

    def looked_up(self, candidate: Candidate, plain: Sample) -> list[Pass]:
        """The rounds that a candidate of way "text" would have had on a plain run's text."""
        ...
