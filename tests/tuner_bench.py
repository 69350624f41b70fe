"""The tuner's bench on a simulated machine, in the place of the real one, for what the page does with a tuning."""

from __future__ import annotations

import threading
import time

from tune_machines import SimulatedBench, world

from engines.errors import UserError

SIMULATED = ("none", "ngram", "eagle", "recycle")


class NoModels:
    """Stands for the models, of which a simulated machine needs none. `delay` is how long a run takes, in seconds."""

    def __init__(self, seed: int = 17, delay: float = 0.0) -> None:
        self.world, self.delay = world(seed), delay
        self.runs = 0
        self.begun = threading.Event()

    def get(self, *_):
        pass

    def prepare(self, *_):
        pass


class PageBench(SimulatedBench):
    """Takes the arguments of `engines.tune.real.RealBench`; put it there by monkeypatch."""

    def __init__(self, models, base, *_) -> None:
        super().__init__(models.world)
        self.models, self.base = models, base

    def describe(self):
        versions = {"machine": "<b>simulated</b>", "threads": "2"}
        of = {"target": self.base.target, "dtype": "bf16", "device": "cpu", "versions": versions}
        return {**of, "sampling": dict(self.base.sampling.__dict__), "greedy": self.base.sampling.greedy}

    def run(self, candidate, prompt, index, block):
        if candidate.proposer not in SIMULATED:
            raise UserError(f"{candidate.proposer} is not simulated.")
        time.sleep(self.models.delay)
        self.models.runs += 1
        self.models.begun.set()
        return super().run(candidate, prompt, index, block)
