"""Models for sweeps without a model: tables of logits, and a proposer that guesses the next letter."""

from __future__ import annotations

from fakes import Scripted, TableSession, job

from engines.cost import Costs
from engines.errors import UserError

COSTS = Costs({0: 1.0, 4: 1.2}, 0.1, 0.02)


class TableModels:
    """Runs on a table of logits; the draft "broken" cannot be used."""

    def __init__(self, fail_at: int | None = None) -> None:
        self.runs, self.fail_at = [], fail_at

    def get(self, *_):
        pass

    def prepare(self, settings, say):
        if settings.draft == "broken":
            raise UserError("The draft model 'broken' cannot be used: it has another vocabulary.")

    def costs(self, settings, say):
        return COSTS

    def job(self, settings, prompt, say, stopped):
        self.runs.append(settings)
        if len(self.runs) == self.fail_at:
            raise UserError("The prompt is too long.")
        guess = Scripted(lambda ids, k: [(ids[-1] + 1) % 8] * k)
        asked = {name: getattr(settings, name) for name in ("k", "max_new_tokens", "sampling", "seed")}
        proposer = None if settings.proposer == "none" else guess
        made = job(TableSession(seed=len(prompt)), proposer, stopped=stopped, **asked)
        made.start.costs = COSTS.to_json()
        return made
