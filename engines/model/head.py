"""A trained head, ready to run: the layers of a compact decoder, fed by a target's features instead of tokens alone.

At position t it reads the embedding of token t + 1 and g, which is made of the target's features at t where the target
has been, and is the head's own state at t - 1 further on (EAGLE, Li et al. 2024, arXiv 2401.15077; EAGLE-3, 2025,
arXiv 2503.01840). What comes out, through a norm and a vocabulary layer of few rows, is a guess of the law of token
t + 2. See `engines.training.net` for the network as it is trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from .decoder import Decoder
from .linear import Kernel


def widened(logits: torch.Tensor, ids: torch.Tensor, vocab: int) -> torch.Tensor:
    """Logits [n, V'] over the tokens `ids` [V'] -> float32 [n, vocab], all other tokens impossible."""
    out = torch.full((len(logits), vocab), -torch.inf, device=logits.device)
    out[:, ids] = logits.float()
    return out


def unit(features: torch.Tensor, taps: int) -> torch.Tensor:
    """Features [n, taps * H] with each tap scaled to mean square 1, float32: the streams of deep layers are many times

    as large as those of early ones, and would drown them.
    """
    parts = features.float().view(len(features), taps, -1)
    return (parts * parts.square().mean(-1, keepdim=True).add(1e-6).rsqrt()).view(len(features), -1)


@dataclass
class Head:
    """`layers` embeds, and runs over its own cache; its vocabulary layer has `ids` [V'] rows: the target's ids.

    `fuse` maps features [n, taps * H] to g; `mix` maps [embedding, g], each normed, to the stream, and is None where
    the first layer reads the embedding beside the stream (EAGLE-3). `normed`: the features are those behind the
    target's final norm (EAGLE-1), so that the target's own norm is applied to them first.
    """

    layers: Decoder
    target: Decoder
    taps: tuple[int, ...]
    ids: torch.Tensor
    fuse: Kernel | None
    mix: Kernel | None = None
    embed_norm: torch.Tensor | None = None
    state_norm: torch.Tensor | None = None
    final: bool = True  # a norm stands before the vocabulary layer
    normed: bool = False
    unit: bool = False
    name: str = "the head"

    def session(self, capacity: int) -> HeadSession:
        return HeadSession(self, capacity)

    def states_of(self, features: torch.Tensor) -> torch.Tensor:
        """g [n, H] of the target's features [n, taps * H]."""
        if self.normed:
            features = self.target._norm(features, self.target._final, self.target._tiny)
        if self.unit:
            features = unit(features, len(self.taps))
        return features if self.fuse is None else self.fuse(features).float()

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """[n, H] -> float32 [n, V'] over `ids`."""
        if self.final:
            return self.layers.logits(states)
        return self.layers._head(states).float()


class HeadSession:
    """One text on its way through a head. `length`: positions that rest on the target's own features."""

    def __init__(self, head: Head, capacity: int) -> None:
        self.head, self.capacity, self.length = head, capacity, 0
        self._cache = head.layers.new_cache(1, capacity)
        self._parents: list[int] = []  # the tree of guesses behind `length`

    @torch.inference_mode()
    def read(self, ids: Sequence[int], features: torch.Tensor) -> torch.Tensor:
        """Positions length .. length + n - 1: `ids` [n] are the tokens after each, `features` [n, taps * H] the

        target's at each. Returns the states [n, H]. Guesses are forgotten.
        """
        self._parents, out = [], []
        step = self.head.layers.chunk(self.length + len(ids))
        for i in range(0, len(ids), step):
            part = ids[i : i + step]
            plan = self._cache.plan([self.length], len(part))
            out.append(self._run(part, self.head.states_of(features[i : i + step]), plan))
            self.length += len(part)
        return out[0] if len(out) == 1 else torch.cat(out)

    @torch.inference_mode()
    def guess(self, ids: Sequence[int], states: torch.Tensor, parents: Sequence[int]) -> torch.Tensor:
        """Grow the tree of guesses by `ids` [n]: guess number len(tree) + i goes on from guess parents[i] (-1: the

        text), whose state is states[i]. Returns the new states [n, H].
        """
        done = len(self._parents)
        self._parents += parents
        if self._parents == list(range(-1, len(self._parents) - 1)):  # a chain needs no mask of its own
            plan = self._cache.plan([self.length + done], len(ids))
        else:
            plan = self._cache.plan_tree(self.length, self._parents, done)
        return self._run(ids, states, plan)

    def _run(self, ids: Sequence[int], g: torch.Tensor, plan) -> torch.Tensor:
        head, layers = self.head, self.head.layers
        e = layers.embed(torch.as_tensor(ids, dtype=torch.long, device=g.device))
        if head.mix is None:
            return layers.run_layers(g.clone(), plan, None, beside=e)
        norm, tiny = layers._norm, layers._tiny
        e = e if head.embed_norm is None else norm(e, head.embed_norm, tiny)
        g = g if head.state_norm is None else norm(g, head.state_norm, tiny)
        return layers.run_layers(head.mix(torch.cat((e, g), -1)).float(), plan, None)

    def rollback(self, length: int) -> None:
        """Forget the guesses, and all positions from `length` on."""
        self._parents = []
        self.length = min(self.length, length)
