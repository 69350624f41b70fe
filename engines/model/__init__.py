"""A model, to the loop: what `decode` and the proposers may ask of it, whoever implements it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch


class Session(Protocol):
    """One sequence on its way through one model: the weights are shared, the cache is its own.

    `length` is the number of positions in the cache. A session never looks at the global random state.
    """

    length: int
    capacity: int  # the most positions that fit
    vocab_size: int  # width of a logits row
    num_layers: int
    device: torch.device
    trees: bool  # whether a pass may be a tree

    def forward(
        self,
        ids: Sequence[int],
        *,
        logits_from: int = 0,
        layers: Sequence[int] | None = None,
        parents: Sequence[int] | None = None,
    ) -> torch.Tensor:
        """Run `ids` [n] at positions length .. length+n-1, growing the cache by n.

        Returns float32 logits [n - logits_from, vocab_size]: `logits_from` leaves out the first rows' vocabulary
        layer (prefill asks for none: logits_from = n returns an empty [0, V]). `layers` runs only those of the
        decoder's layers, in ascending order, reading and writing the same cache (layer skip). `parents`
        makes the pass a tree: row i goes on from row parents[i], or from the text where that is -1, and sees the text
        and its own forebears only. Raises UserError when the context does not hold n more positions, or the model
        cannot run some layers only, or trees.
        """
        ...

    def rollback(self, length: int) -> None:
        """Forget all positions from `length` on, in constant time. `length` <= self.length (ValueError)."""
        ...

    def keep(self, rows: Sequence[int]) -> None:
        """Of the last forward keep these rows, ascending, as if they alone had been run (after a tree). ValueError

        when there are none such.
        """
        ...
