"""What a tuning is asked to do, and the doing of it as one generator of progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UserError
from ..settings import RunSettings
from .candidates import BY_LONG, BY_TEXT, Candidate, ladder
from .ladder import Options, Tuner
from .progress import Phase, Progress
from .prompts import Prompts
from .store import Store

if TYPE_CHECKING:
    from ..models import Models

MAX_BUDGET = 86_400.0


@dataclass(frozen=True)
class Order:
    """`base` has target, sampling, limit of new tokens, seed, dtype and device of all runs.

    `proposers` and `ks` empty: all that the target has, the usual numbers. `draft` names a draft model, or a trained
    draft or head. `out` is the folder that keeps the runs, so that a tuning can be gone on with; None keeps nothing.
    `fresh_costs` measures what rounds cost though that is known of this machine.
    """

    prompts: Prompts
    base: RunSettings = field(default_factory=lambda: RunSettings(max_new_tokens=64))
    proposers: Sequence[str] = ()
    ks: Sequence[int] = ()
    draft: str | None = None
    budget: float = 120.0
    out: Path | None = None
    fresh_costs: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.budget <= MAX_BUDGET:
            raise UserError(f"The budget must lie in 1 to {MAX_BUDGET:.0f} seconds, not {self.budget:g}.")
        if self.base.max_new_tokens < 16:
            raise UserError("Give --max-new-tokens 16 or more: fewer time nothing but the clock's grain.")
        self.candidates()

    def candidates(self) -> list[Candidate]:
        """What there is to choose among. Raises UserError for a proposer or k that cannot be."""
        return ladder(self.proposers or self.usual(), self.ks, self.draft)

    def usual(self) -> list[str]:
        """Lookup, recycling, the head if the target has one, the draft if one is named, layer skip, and auto."""
        from .. import heads

        named = heads.find(self.draft) if self.draft else None
        is_head = named is not None and named["kind"] == "eagle"
        own = heads.for_target(self.base.target, "eagle") is not None or is_head
        draft = ["draft"] if self.draft and not is_head else []
        return [*BY_TEXT, "recycle", *(["eagle"] if own else []), *draft, BY_LONG[-1], "auto"]

    def store(self) -> Store:
        """The runs kept so far. Raises UserError when the folder holds those of another order."""
        base = self.base.to_json()
        same = ("target", "sampling", "max_new_tokens", "seed", "stop", "ignore_eos", "raw", "dtype", "device")
        order = {"prompts": self.prompts.digest, "candidates": [c.name for c in self.candidates()], "draft": self.draft}
        return Store(self.out, {**order, **{name: base[name] for name in same}})


def tuning(order: Order) -> Callable[..., Iterator[Progress]]:
    """`function(models, say, stopped)` for `Engine.work`, or to be called on one's own thread. Loading does not count

    towards the budget.
    """

    def work(models: Models, say: Callable[..., Any], stopped: Callable[[], bool]) -> Iterator[Progress]:
        from .real import RealBench

        store = order.store()
        yield Phase("loading", f"Loading {order.base.target}.", None, order.budget)
        bench = RealBench(models, order.base, say, stopped, order.fresh_costs)
        options = Options(order.budget, order.base.max_new_tokens, order.base.seed)
        yield from Tuner(bench, order.prompts, order.candidates(), options, store, stopped).run()

    return work
