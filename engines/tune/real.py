"""The tuner's bench on real models: runs by the engine's loop, counted by its events."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from .. import heads
from ..adaptive import AdaptiveLength
from ..cost import Calibration
from ..cost.calibration import keep, known
from ..decode import decode
from ..errors import UserError
from ..models import Models, Say
from ..proposers.ngram import NgramProposer
from ..proposers.suffix import SuffixProposer
from ..settings import RunSettings
from .calibrate import contexts_for, machine, take
from .candidates import PLAIN, Candidate
from .prompts import Prompt
from .replay import looked_up
from .sample import Pass, Sample, sample_of

WARM_UP = 12  # tokens of the run that comes before the first that counts: pages, kernels and caches find their places


class RealBench:
    """`base` has what all runs share: target, sampling, limit of new tokens, seed, dtype, device.

    `fresh` measures costs anew though they are known from before.
    """

    def __init__(
        self,
        models: Models,
        base: RunSettings,
        say: Say,
        stopped: Callable[[], bool] = lambda: False,
        fresh: bool = False,
    ) -> None:
        self.models, self.say, self.stopped, self.fresh = models, say, stopped, fresh
        self.base = base.replace(candidates=0, remember=False)
        self.target = models.get(base.target, base.dtype, base.device, say)
        self._warm: set[str] = set()

    def clock(self) -> float:
        return time.perf_counter()

    def describe(self) -> dict[str, Any]:
        sampling = self.base.sampling
        return {
            "target": self.base.target,
            "device": str(self.target.decoder.device),
            "dtype": self.target.decoder.dtype,
            "versions": machine(),
            "sampling": dict(sampling.__dict__),
            "greedy": sampling.greedy,
            "max_new_tokens": self.base.max_new_tokens,
        }

    def who(self, candidate: Candidate) -> str:
        """Drafters by proposer and, where there is one, name; a tree of a head costs otherwise than its chain."""
        if candidate.proposer not in ("draft", "eagle", "layer-skip"):
            return ""
        name = candidate.draft or (heads.for_target(self.base.target, "eagle") if candidate.proposer == "eagle" else "")
        return f"{candidate.proposer} {name or ''}".strip() + (" tree" if candidate.branch > 1 else "")

    # -- calibration -----------------------------------------------------------------------------------------------

    def calibrate(self, candidates: list[Candidate], prompts: list[Prompt], seconds: float) -> tuple[Calibration, bool]:
        """What is known of this machine and model, with what was missing measured now and kept.

        The shortest context is measured for every drafter, the longer ones as far as `seconds` reach.
        """
        contexts = contexts_for(self.target, self.base, prompts)
        of = {**machine(), "model": self.base.target, "dtype": self.target.decoder.dtype}
        of["device"] = str(self.target.decoder.device)
        of["sampling"] = "greedy" if self.base.sampling.greedy else str(self.base.sampling)
        calibration = Calibration(of) if self.fresh else known(of)
        drafters = {"": PLAIN} | {self.who(c): c for c in candidates if c.way == "long"}
        begin, fresh = self.clock(), False
        for context in contexts:
            for who in list(drafters):
                mine = calibration.rounds.get(who, {})
                over = self.stopped() or (mine and self.clock() - begin > seconds)
                if context in mine or over:
                    continue
                self.say("calibrating", f"Measuring what a round costs{f' with {who}' if who else ''}.", None)
                try:
                    table = take(self.models, drafters[who], self.base, context, self.say)
                except UserError:  # the run that follows says so, and why
                    del drafters[who]
                    continue
                calibration.rounds.setdefault(who, {})[context] = table
                fresh = True
        if fresh and not self.stopped():
            calibration.taken = time.strftime("%Y-%m-%d")
            keep(calibration)
        return calibration, fresh

    # -- runs ------------------------------------------------------------------------------------------------------

    def run(self, candidate: Candidate, prompt: Prompt, index: int, block: int) -> Sample:
        settings = candidate.settings(self.base).replace(seed=self.base.seed + block)
        if candidate.name not in self._warm:
            short = settings.replace(max_new_tokens=WARM_UP)
            list(decode(self.models.job(short, prompt.asked, self.say, self.stopped)))
            self._warm.add(candidate.name)
        job = self.models.job(settings, prompt.asked, self.say, self.stopped)
        return sample_of(list(decode(job)), candidate.name, index, block)

    def looked_up(self, candidate: Candidate, plain: Sample) -> list[Pass]:
        trees = self.target.decoder.session(1).trees
        marks = self.target.tokenizer.marks
        if candidate.proposer == "ngram":
            proposer = NgramProposer(self.base.ngram_min, self.base.ngram_max, marks)
        else:
            proposer = SuffixProposer(candidate.branch, None, trees, marks)
        policy = None
        if candidate.adaptive:
            policy = AdaptiveLength(self.models.costs(candidate.settings(self.base), self.say))
        return looked_up(proposer, plain.prompt_ids, plain.ids, candidate.k, self.base.max_new_tokens, policy)
