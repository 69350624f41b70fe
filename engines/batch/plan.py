"""What is to be measured with batches, checked before a model is loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import UserError
from ..settings import RunSettings

if TYPE_CHECKING:
    from .measure import Item

SIZES = (1, 2, 4, 8, 16, 32, 64)
PROPOSERS = ("ngram", "suffix", "recycle")  # one object per row costs nothing; a draft's steps would need batches, too
MAX_BATCH = 256
MAX_GROUPS = 8  # of prompts that one size goes through

Say = Callable[..., None]


@dataclass(frozen=True)
class BatchPlan:
    """What is to be measured.

    `settings.max_new_tokens` is how much a sequence writes before it begins again, and, times the batch, what each
    measured stretch emits. The rows take the prompts in turn, over again if they are fewer. `budget` in seconds: sizes
    that would not fit any more are left out, and said to be. UserError for what cannot be measured.
    """

    settings: RunSettings
    prompts: tuple[str | list[dict[str, str]], ...]  # each a user's turn, or a chat's messages
    sizes: tuple[int, ...] = SIZES
    budget: float = 180.0

    def __post_init__(self) -> None:
        if self.settings.proposer not in PROPOSERS:
            raise UserError(
                f"In a batch the proposer must be one of {', '.join(PROPOSERS)}, not {self.settings.proposer}: those "
                "that draft with a model would have to draft in batches, too."
            )
        if not self.prompts:
            raise UserError("There is no prompt: give at least one.")
        if not self.sizes or not all(isinstance(b, int) and 1 <= b <= MAX_BATCH for b in self.sizes):
            raise UserError(f"Batch sizes are whole numbers from 1 to {MAX_BATCH}, such as 1,2,4,8.")
        if not 0 < self.budget < 1e6:
            raise UserError("The time limit must be a number of seconds above 0.")
        if self.settings.max_new_tokens < 8:
            raise UserError("max-new-tokens must be 8 or more: shorter stretches time nothing.")

    def __call__(self, models: Any, say: Say, stopped: Callable[[], bool]) -> Iterator[Item]:
        """Measure, smallest batch first. A generator for `Engine.work`; what was yielded holds whenever it is ended."""
        from .measure import Measuring  # not before: it loads torch

        yield from Measuring(self, models, say, stopped).run()

    def groups(self, size: int) -> list[list[int]]:
        """Which prompts the rows of a batch take, group by group."""
        count = len(self.prompts)
        number = min(MAX_GROUPS, -(-count // size))
        return [[(g * count // number + row) % count for row in range(size)] for g in range(number)]
