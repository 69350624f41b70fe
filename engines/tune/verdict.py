"""What is said of the measurements: the answer first, then why, then which assumption failed where a prediction did."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .candidates import Candidate
from .predict import Prediction
from .sample import Sample
from .stats import LEVEL, Interval

OPEN = 1.1  # an interval that reaches so far above 1 and below it leaves something to be found
DIFFER = 0.1  # a prediction farther than this from what was measured is looked into


@dataclass(frozen=True)
class Verdict:
    """`best` is what was measured fastest, None where nothing was; `on` says whether to turn speculation on with it."""

    best: Candidate | None
    speedup: Interval | None
    runner_up: Candidate | None
    runner_up_speedup: Interval | None

    @property
    def on(self) -> bool:
        return self.speedup is not None and self.speedup.above_one

    @property
    def sentence(self) -> str:
        """The answer, in one or two sentences."""
        if self.best is None or self.speedup is None:
            return "Nothing can be said yet: too little was measured. Give it a larger budget, or longer answers."
        if self.speedup.low is None:
            return (
                f"Nothing can be said yet: {self.best.name} was run once beside plain decoding. Give a larger budget."
            )
        if self.on:
            return (
                f"Turn it on: {self.best.name}, {spoken(self.speedup)} plain decoding on prompts like these."
                + self._second()
            )
        said = f"the best that was found, {self.best.name}, reaches {spoken(self.speedup)} plain decoding"
        if self.speedup.below_one:
            return f"Leave it off: {said}, which is slower." + self._second()
        more = " A larger budget, or more prompts, may show one." if self.speedup.high > OPEN else ""
        return f"Leave it off: {said}, which shows no gain.{more}" + self._second()

    def _second(self) -> str:
        if self.runner_up is None or self.runner_up_speedup is None:
            return ""
        if self.on and not self.runner_up_speedup.value > 1:
            return " Nothing else that was run beside it to the end was faster than plain decoding."
        return f" The runner-up is {self.runner_up.name}, {spoken(self.runner_up_speedup)}."

    def to_json(self) -> dict[str, Any]:
        def one(c: Candidate | None, i: Interval | None) -> dict[str, Any] | None:
            return None if c is None or i is None else {**c.to_json(), "speedup": i.to_json()}

        return {
            "on": self.on,
            "best": one(self.best, self.speedup),
            "runner_up": one(self.runner_up, self.runner_up_speedup),
            "sentence": self.sentence,
        }


def spoken(i: Interval) -> str:
    """ "1.52× (1.40 to 1.66)"."""
    return f"{i.value:.2f}×" + (f" ({i.low:.2f} to {i.high:.2f})" if i.low is not None else "")


def judge(standing: Sequence[tuple[Candidate, Interval]]) -> Verdict:
    """The verdict on measured speed-ups, the best first."""
    first = standing[0] if standing else (None, None)
    second = standing[1] if len(standing) > 1 else (None, None)
    return Verdict(*first, *second)


def times(samples: Sequence[Sample]) -> dict[str, float]:
    """Seconds per token by phase, over these runs, and tokens per pass; empty without any."""
    tokens, passes = sum(s.tokens for s in samples), sum(len(s.passes) for s in samples)
    if not tokens:
        return {}
    out = {
        name: sum(getattr(p, name) for s in samples for p in s.passes) / tokens
        for name in ("propose", "verify", "rest")
    }
    return out | {"tokens_per_pass": tokens / passes}


def failed_assumption(
    prediction: Prediction, measured: Interval, mine: Mapping[str, float], plain: Mapping[str, float]
):
    """Where prediction and measurement differ by more than a tenth: (difference, sentence); None where they agree.

    `mine` and `plain` are `times` of the setting's own runs and of the plain ones beside them. The two disagree by
    the product of four factors: tokens per pass, and per round the pass, the proposing and the rest, the last three in
    plain rounds' time, which cancels the machine's drift. The factor that explains most is named.
    """
    gap = math.log(prediction.speedup.value / measured.value)
    if abs(gap) <= math.log(1 + DIFFER) or not mine or not plain:
        return None
    unit = (plain["verify"] + plain["rest"] + plain["propose"]) * plain["tokens_per_pass"]
    per_pass = {name: prediction.seconds[name] * prediction.tokens_per_pass for name in ("propose", "verify", "rest")}
    believed_unit = prediction.seconds["plain"]
    believed = {name: x / believed_unit for name, x in per_pass.items()}
    found = {name: mine[name] * mine["tokens_per_pass"] / unit for name in believed}
    whole = sum(found.values())
    # Each as its share of the (log) gap in time per token, that of tokens first.
    causes = {"tokens": math.log(prediction.tokens_per_pass / mine["tokens_per_pass"])}
    causes |= {name: (found[name] - believed[name]) / whole for name in believed}
    name = max(causes, key=lambda c: causes[c] * math.copysign(1, gap))
    what = {
        "tokens": f"a pass yielded {mine['tokens_per_pass']:.2f} tokens where {prediction.tokens_per_pass:.2f} were "
        "expected: acceptance was not the same on the prompts (or in the rounds) that were measured later",
        "verify": f"the target's pass over the proposal took {found['verify']:.2f} plain rounds where the calibration "
        f"has {believed['verify']:.2f}",
        "propose": f"proposing took {found['propose']:.2f} plain rounds per round where {believed['propose']:.2f} were "
        "expected",
        "rest": f"sampling and book-keeping took {found['rest']:.2f} plain rounds per round where "
        f"{believed['rest']:.2f} were expected",
    }[name]
    more = "more" if gap > 0 else "less"
    return gap, f"{prediction.candidate.name}: predicted {math.exp(abs(gap)) - 1:.0%} {more} than measured; {what}."


def as_text(report: Mapping[str, Any]) -> str:
    """What a report is of, in one line."""
    of, prompts, options = report["of"], report["prompts"], report["options"]
    machine = of.get("versions", {})
    where = ", ".join(
        str(x)
        for x in (
            of.get("target"),
            of.get("dtype"),
            of.get("device"),
            machine.get("machine"),
            f"{machine['threads']} threads" if "threads" in machine else None,
        )
        if x
    )
    temperature = of.get("sampling", {}).get("temperature", 0)
    return (
        f"{where}; {prompts['measured']} of {prompts['count']} prompts run, up to {options['limit']} new tokens, "
        f"temperature {temperature:g}; {report['seconds']:.0f} s of measuring, ended: {report['ended']}; "
        f"{report['made']}; intervals hold at {LEVEL:.0%}."
    )
