"""What is foretold of each candidate from the blocks that were run: its rounds by replay, its times by calibration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..bench import MIN_TOKENS
from ..cost import Calibration
from .candidates import PLAIN, Candidate
from .predict import Prediction, Told, predict
from .progress import Bench
from .race import Measured
from .replay import acceptance, rates_by_depth, shortened
from .sample import Pass, Sample

Block = dict[str, Sample]


class Foresight:
    """`limit` new tokens of a run; `calibration` is set once it is known."""

    def __init__(
        self, bench: Bench, measured: Measured, candidates: Sequence[Candidate], limit: int, seed: int
    ) -> None:
        self.bench, self.measured, self.candidates, self.limit, self.seed = bench, measured, candidates, limit, seed
        self.calibration = Calibration()
        self._who = {c.name: bench.who(c) for c in candidates}

    def expected_seconds(self, s: Sample) -> float | None:
        """What a run's rounds cost by the calibration; None for a drafter that was not calibrated."""
        who = self._who.get(s.candidate, "")
        if who not in self.calibration.rounds:
            return None
        counts = Counter(p.proposed for p in s.passes)
        return sum(self.calibration.at(who, s.context, n).total * times for n, times in counts.items())

    def of(self, c: Candidate, blocks: Sequence[Block], by_formula: bool = True) -> Prediction | None:
        """The prediction from these blocks (see `Candidate.way`); None where they tell nothing of it.

        Without `by_formula`, what the formula says is left out.
        """
        if c.way == "own" or self._who[c.name] not in self.calibration.rounds:
            return None
        usable = [b for b in blocks if self._usable(b.get(PLAIN.name))]
        if c.way == "text":
            rows = [(b[PLAIN.name], self.bench.looked_up(c, b[PLAIN.name])) for b in usable]
            own = [Sample(c.name, plain.prompt, plain.block, rounds) for plain, rounds in rows]
            return self._predict(c, rows, own, by_formula)
        longest = max((x for x in self.candidates if x.family == c.family), key=lambda x: x.k).name
        both = [(b[PLAIN.name], b[longest]) for b in usable if longest in b]
        long = [s for _, s in both]
        by_depth = rates_by_depth(long)
        rows = [(plain, shortened(s, c.k, by_depth, self.limit, self.seed)) for plain, s in both]
        return self._predict(c, rows, long, by_formula)

    def _predict(
        self, c: Candidate, rows: list[tuple[Sample, list[Pass]]], rated: list[Sample], by_formula: bool
    ) -> Prediction | None:
        """From plain runs with the rounds that `c` would have had there; `rated` are the runs that acceptance is of."""
        prompts: Any = self.measured.prompts
        told = [Told(plain, prompts[plain.prompt].category, rounds) for plain, rounds in rows]
        rates = acceptance(rated), tuple(rates_by_depth(rated))
        who = self._who[c.name]
        return predict(c, told, self.calibration, who, rates, self.measured.shares, by_formula)

    def _usable(self, plain: Sample | None) -> bool:
        return plain is not None and plain.tokens >= MIN_TOKENS and plain.prompt not in self.measured.skipped
