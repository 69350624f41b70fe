"""Which layers to skip: a search for the subset of a target's layers that drafts best on a text, acceptance for cost.

Draft & Verify (Zhang et al. 2023, arXiv 2309.08168) searches such subsets by Bayesian optimisation, SWIFT (Xia et al.
2024, arXiv 2410.06916) while it decodes. Here a subset's acceptance is measured on the target's own greedy text, at
hundreds of places in one pass: each place is asked what the kept layers alone would draft there, with the target's own
cache before it, which is what layer skip does. The search drops one layer after the other, always the one whose loss
hurts least, tries exchanges around the best size, and can be stopped at any time. What a subset is worth is the
predicted speed-up at its best k, from its acceptance, its measured cost and the measured cost of verifying.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .cost import Costs, expected_tokens, measure_step
from .errors import UserError
from .model import Session
from .weights.places import home

MOST_K = 8
COARSE = 64  # places that a first look takes; the best few of it are looked at properly
MARGIN = 1.05  # what costs measured in a second are good for: less is no gain to speak of
FILE = "layers.json"


@dataclass(frozen=True)
class Choice:
    """One subset: the layers left out, the share of places where the rest drafts right, one step's cost in target

    passes, the k at which it is worth most, and the speed-up that is predicted there.
    """

    skip: tuple[int, ...]
    acceptance: float
    cost: float
    k: int
    speedup: float


@dataclass
class Found:
    """How far a search is. `best` is never worse than what was found before; `pays` says whether it beats plain."""

    best: Choice
    tried: int
    path: list[Choice] = field(default_factory=list)  # the best of each number of skipped layers

    @property
    def pays(self) -> bool:
        return self.best.speedup > MARGIN

    def sentence(self) -> str:
        b = self.best
        what = f"without layers {', '.join(map(str, b.skip))}, {100 * b.acceptance:.0f} % of the drafted tokens stand"
        if self.pays:
            return f"Layer skip pays here: {what}, and k = {b.k} should bring {b.speedup:.2f} times plain decoding."
        return (
            f"No subset of layers pays here: the best of {self.tried} tried would reach {b.speedup:.2f} times plain "
            f"decoding ({what}). Another proposer will do better."
        )


class Search:
    """`session` holds the text (`ids`, of which the last need not have been read); `verify` is v(n), see `cost`."""

    def __init__(self, session: Session, ids: Sequence[int], costs: Costs, sync: Callable[[], None] = lambda: None):
        if not hasattr(session, "beside"):
            raise UserError("The layers of a model that transformers runs cannot be skipped.")
        self.session, self.costs, self.layers = session, costs, session.num_layers
        session.rollback(0)
        logits = session.forward(ids)
        first = max(1, len(ids) // 8)  # the first tokens are not yet what the text will be
        self.places = list(range(first, len(ids)))
        self.ids = [ids[i] for i in self.places]
        self.wanted = logits[first:].argmax(-1)
        self._unit = self._measure(tuple(range(self.layers)), sync)
        self._base = self._measure((0,), sync)
        self._known: dict[tuple[int, ...], Choice] = {}
        self.tried = 0

    def _measure(self, layers: tuple[int, ...], sync: Callable[[], None]) -> float:
        at = self.session.length

        def step() -> None:
            self.session.forward([1], layers=layers)
            sync()
            self.session.rollback(at)

        return measure_step(step)

    def cost(self, kept: int) -> float:
        """One step through so many layers, in target passes: on a line between one layer and all."""
        one = self._base / self._unit
        return one + (1 - one) * (kept - 1) / max(1, self.layers - 1)

    def glance(self, skip: Sequence[int]) -> float:
        """Acceptance without these layers at a few places."""
        self.tried += 1
        every = max(1, len(self.places) // COARSE)
        return self._acceptance(skip, every)

    def _acceptance(self, skip: Sequence[int], every: int = 1) -> float:
        kept = [i for i in range(self.layers) if i not in set(skip)]
        logits = self.session.beside(self.ids[::every], self.places[::every], kept)
        return float((logits.argmax(-1) == self.wanted[::every]).float().mean())

    def judge(self, skip: Sequence[int]) -> Choice:
        """What this subset is worth, at all places; remembered."""
        skip = tuple(sorted(skip))
        if skip not in self._known:
            acceptance = self._acceptance(skip)
            kept = self.layers - len(skip)
            c = self.cost(kept)
            best = max(
                (expected_tokens(acceptance, k) / (self.costs.v(k) + k * c), -k) for k in range(1, MOST_K + 1)
            )  # fmt: skip
            self._known[skip] = Choice(skip, acceptance, c, -best[1], best[0])
        return self._known[skip]

    def run(
        self,
        seconds: float,
        progress: Callable[[Found], None] = lambda found: None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Found:
        """Search for so long at most; what is found by then, at least one subset."""
        end = time.monotonic() + seconds
        found = Found(self.judge([self.layers // 2]), 1)

        def over() -> bool:
            return stopped() or time.monotonic() > end

        def note(choice: Choice) -> Choice:
            found.tried = self.tried
            if choice.speedup > found.best.speedup:
                found.best = choice
            progress(found)
            return choice

        skip: tuple[int, ...] = ()
        while len(skip) < self.layers - 1 and not over():
            glances = []
            for i in range(self.layers):
                if i not in skip and not over():
                    glances.append((self.glance((*skip, i)), i))
            if not glances:
                break
            glances.sort(key=lambda g: (-g[0], g[1]))
            best = max((note(self.judge((*skip, i))) for _, i in glances[:2]), key=lambda c: c.acceptance)
            found.path.append(best)
            skip = best.skip
            if best.acceptance < 0.02:  # nothing is left to lose
                break
        self._exchange(found, note, over)
        return found

    def _exchange(self, found: Found, note: Callable[[Choice], Choice], over: Callable[[], bool]) -> None:
        """Around the best: one skipped layer for one kept, as long as that is better."""
        better = True
        while better and not over():
            better, now = False, found.best
            for out in now.skip:
                for into in range(self.layers):
                    if into in now.skip or over():
                        continue
                    other = [i for i in now.skip if i != out] + [into]
                    if self.glance(other) >= now.acceptance:
                        better = better or note(self.judge(other)).speedup > now.speedup + 1e-9


def _file() -> Path:
    return home() / FILE


def known(target: str) -> Choice | None:
    """What the last search found best for `target` on this machine."""
    try:
        data = json.loads(_file().read_text(encoding="utf-8"))[target]
        return Choice(tuple(data["skip"]), data["acceptance"], data["cost"], data["k"], data["speedup"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep(target: str, choice: Choice) -> None:
    """Remember it, beside those of other targets."""
    path = _file()
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        assert isinstance(data, dict)
    except (OSError, ValueError, AssertionError):
        data = {}
    data[target] = {**choice.__dict__, "skip": list(choice.skip)}
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(data, indent=1), encoding="utf-8")
    part.replace(path)
