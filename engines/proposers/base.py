"""What the loop asks of a proposer. Anything with these methods can be passed to `decode`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np


@dataclass
class Proposal:
    """What a proposer suggests.

    `q` holds the distribution that each token was drawn from, float rows [n, V] with V at least as wide as any id
    proposed (a missing tail counts as zero), or is None when the tokens were not drawn but determined, which is a
    distribution with q = 1 at the token. It must be the very distribution of the draw: losslessness rests on it.
    `confidence` is what the proposer thinks of each token (None: no opinion), `sources` the copied span of each.

    A proposal may be a tree: `parents[i]` is then the token that token i follows (-1: the text), which comes before
    it, and brothers stand in the order in which they are to be judged. A tree's tokens must be determined, not drawn:
    `q` is None. Empty `parents` are a chain.
    """

    ids: list[int] = field(default_factory=list)
    q: np.ndarray | None = None
    confidence: list[float | None] = field(default_factory=list)
    sources: list[tuple[int, int] | None] = field(default_factory=list)
    note: str | None = None
    parents: list[int] = field(default_factory=list)

    def path_to(self, i: int) -> list[int]:
        """The indices of the tokens from the text to token i, which is the last; none for -1."""
        if not self.parents:
            return list(range(i + 1))
        path = []
        while i >= 0:
            path.append(i)
            i = self.parents[i]
        return path[::-1]

    def only(self, nodes: list[int]) -> Proposal:
        """Of a tree, these tokens (ascending), each with its forebears among them."""
        at = {node: i for i, node in enumerate(nodes)} | {-1: -1}
        return Proposal(
            [self.ids[i] for i in nodes], None, [self.confidence[i] for i in nodes], [self.sources[i] for i in nodes],
            self.note, [at[self.parents[i]] for i in nodes],
        )  # fmt: skip

    def children(self, i: int) -> list[int]:
        """The tokens that follow token i (-1: the text), in the order in which they are judged."""
        if not self.parents:
            return [i + 1] if i + 1 < len(self.ids) else []
        return [j for j, parent in enumerate(self.parents) if parent == i]


def depths(parents: Sequence[int]) -> list[int]:
    """How many forebears each token of a tree has among the tree's."""
    out: list[int] = []
    for parent in parents:
        out.append(out[parent] + 1 if parent >= 0 else 0)
    return out


class Chance(Protocol):
    """The run's own random numbers (see `engines.sampling`)."""

    def draw(self, weights: np.ndarray) -> int: ...


class Proposer(Protocol):
    """One run's proposer. `name` is shown.

    `start(ids)` is called once with the prompt, and is where a draft prefills. `propose(ids, k, go_on, chance)`
    gets prompt + output so far and returns up to k tokens; after each drafted token it asks `go_on(confidences)`
    with the confidences so far and stops when that says no (the token already drawn stays in the proposal: dropping
    it by its own confidence would bias the law). One that knows its next token's confidence without drawing anything
    asks `go_on(confidences, coming)` before each token, the first one included.

    `commit(length)` says that the first `length` positions of
    (ids + proposal) still stand; what a proposer remembers of later ones is to be forgotten.

    One that also has `observe(ids, logits, proposal, outcome)` is shown, after each round, the text before it, the
    target's logits [n + 1, V] (row 0 after the text, row i + 1 after the proposal's token i), the proposal, whoever
    made it, and what became of it. It may not change them.
    """

    name: str

    def start(self, ids: Sequence[int]) -> None: ...

    def propose(self, ids: Sequence[int], k: int, go_on: Callable[..., bool], chance: Chance) -> Proposal: ...

    def commit(self, length: int) -> None: ...
