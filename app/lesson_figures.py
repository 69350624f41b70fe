"""What a recorded run's figures are, as a lesson's sentences show them: computed from its events, never typed in."""

from __future__ import annotations

from collections.abc import Sequence

from engines.bench import identity, measured
from engines.cost import Costs, expected_tokens
from engines.events import Event
from engines.fold import fold


class Figures:
    """One panel's run beside the plain run of the same prompt and sampling. Attributes are for `str.format`: those that

    are text are as a sentence shows them, the others are numbers.
    """

    def __init__(self, run: Sequence[Event], plain: Sequence[Event]) -> None:
        self.run, self.plain = run, plain
        self._fold = fold(list(run))
        self.metrics = self._fold.metrics()
        self.costs = Costs.from_json(run[0].costs)

    @property
    def emitted(self) -> int:
        return self.metrics.emitted

    @property
    def rounds(self) -> int:
        return self.metrics.rounds

    @property
    def per_pass(self) -> str:
        return f"{self.metrics.tokens_per_pass:.2f}"

    @property
    def acceptance(self) -> str:
        return _percent(self.metrics.acceptance_rate or 0.0)

    @property
    def speed(self) -> float:
        """Measured, over plain decoding."""
        return measured(self.plain, self.run).value or 0.0

    @property
    def speedup(self) -> str:
        return f"{self.speed:.2f}×"

    @property
    def formula(self) -> str:
        """Tokens per pass that the formula expects at this run's acceptance rate and k."""
        return f"{expected_tokens(self.metrics.acceptance_rate or 0.0, self.k):.2f}"

    @property
    def k(self) -> int:
        return self.run[0].settings["k"]

    @property
    def temperature(self) -> str:
        return f"{self.run[0].settings['sampling']['temperature']:g}"

    @property
    def skipped(self) -> int:
        return len(self.run[0].settings["skip_layers"])

    @property
    def guess_cost(self) -> float:
        """What proposing one token took, in passes of the plain run."""
        proposed = sum(r.rows - 1 for r in self._fold.rounds)
        plain = fold(list(self.plain)).metrics()
        return self.metrics.seconds["propose"] / proposed / (plain.seconds["verify"] / plain.rounds)

    @property
    def guess(self) -> str:
        return f"{self.guess_cost:.2f}"

    @property
    def whole_rounds(self) -> int:
        """Rounds in which all of k proposed tokens stood."""
        return sum(r.count("accepted") == self.k for r in self._fold.rounds)

    @property
    def unjudged(self) -> str:
        return _percent(self.metrics.unjudged / self.metrics.proposed)

    @property
    def waste(self) -> float:
        """Of the rows that the target computed, the share that gave no token."""
        return 1 - self.emitted / sum(r.rows for r in self._fold.rounds)

    @property
    def wasted(self) -> str:
        return _percent(self.waste)

    @property
    def same_text(self) -> bool:
        """Token by token that of plain decoding (at temperature 0)."""
        return identity(self.plain, self.run).verdict == "identical"

    def pass_over(self, tokens: int) -> str:
        """What a pass over so many tokens cost on the machine of the recording, in passes over one."""
        return f"{self.costs.v(tokens - 1):.2f}"

    @property
    def five(self) -> str:
        return self.pass_over(5)


def of_runs(runs: Sequence[Sequence[Event]], panels: int) -> dict[str, Figures]:
    """By the panels' letters. `runs`: the plain ones, then the panels' (as `python -m engines record` writes them)."""
    plain, own = runs[: len(runs) - panels], runs[len(runs) - panels :]
    return {letter: Figures(run, _baseline(run, plain)) for letter, run in zip("ABCD", own, strict=False)}


def _baseline(run: Sequence[Event], plain: Sequence[Sequence[Event]]) -> Sequence[Event]:
    return next(p for p in plain if p[0].settings["sampling"] == run[0].settings["sampling"])


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
