"""The network that is trained: an EAGLE-style head or a small draft, in plain torch.

Head (Li et al. 2024, EAGLE, arXiv 2401.15077; EAGLE-3, arXiv 2503.01840): at position t it sees the embedding of token
t + 1 and g_t, which is made of the target's features at t, and foretells the target's law after t + 1. Further ahead
there are no features yet, and its own output at t - 1 stands in for g_t. Training goes through those steps, too
("training-time test"), or acceptance would fall with depth.

Draft: the same without features, so each step sees tokens alone.

Both speak a small vocabulary, the target's most frequent tokens.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class Shape:
    """`taps`: counts of target layers behind which features are taken; empty: a draft. `vocab`: of the output.

    `mixing`: how the embedding e and g meet. "sum": x = We e + Wg g, a decoder layer on x. "eagle3": the first layer's
    queries, keys and values read [e, g] side by side and its residual is g, as in EAGLE-3's published heads.
    """

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    layers: int
    vocab: int
    taps: tuple[int, ...] = ()
    mixing: str = "sum"
    eps: float = 1e-5
    rope_theta: float = 10000.0

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "taps": list(self.taps)}


class Norm(nn.Module):
    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x.square().mean(-1, keepdim=True).add(self.eps).rsqrt() * self.weight


def turn(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary positions: x [B, heads, n, D], halves rotated together, cos and sin [n, D / 2]."""
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Block(nn.Module):
    """A decoder layer. With `wide`, queries, keys and values read [e, x] and the residual is x alone."""

    def __init__(self, shape: Shape, wide: bool) -> None:
        super().__init__()
        s = self.shape = shape
        width = s.hidden * (2 if wide else 1)
        self.wide = wide
        self.norm = Norm(s.hidden, s.eps)
        self.embed_norm = Norm(s.hidden, s.eps) if wide else None
        self.q = nn.Linear(width, s.heads * s.head_dim, bias=False)
        self.k = nn.Linear(width, s.kv_heads * s.head_dim, bias=False)
        self.v = nn.Linear(width, s.kv_heads * s.head_dim, bias=False)
        self.o = nn.Linear(s.heads * s.head_dim, s.hidden, bias=False)
        self.mlp_norm = Norm(s.hidden, s.eps)
        self.gate = nn.Linear(s.hidden, s.intermediate, bias=False)
        self.up = nn.Linear(s.hidden, s.intermediate, bias=False)
        self.down = nn.Linear(s.intermediate, s.hidden, bias=False)

    def forward(
        self,
        x: torch.Tensor,
        e: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        seen: list[tuple[torch.Tensor, torch.Tensor]],
    ) -> torch.Tensor:
        """x, e [B, n, H]. `seen` holds keys and values of the steps before this one, and gains this one's.

        At step j position t sees step 0 at positions up to t - j (all that the target had judged by then), and of
        each later step i what its own chain of guesses wrote: position t - (j - i).
        """
        s, (B, n, _) = self.shape, x.shape
        y = self.norm(x)
        if self.wide:
            y = torch.cat((self.embed_norm(e), y), -1)
        q, k, v = (w(y).view(B, n, -1, s.head_dim).transpose(1, 2) for w in (self.q, self.k, self.v))
        q, k = turn(q, cos, sin), turn(k, cos, sin)
        seen.append((k, v))
        step, group = len(seen) - 1, s.heads // s.kv_heads
        if step == 0:
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=group > 1)
        else:
            q = q.view(B, s.kv_heads, group, n, s.head_dim) * s.head_dim**-0.5
            k0, v0 = seen[0]
            scores = q @ k0.unsqueeze(2).transpose(-1, -2)  # [B, kv, group, n, n]
            far = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1 - step)
            own = []
            for i in range(1, step + 1):
                ki = _later(seen[i][0], step - i)
                own.append((q * ki.unsqueeze(2)).sum(-1, keepdim=True))  # [B, kv, group, n, 1]
            p = torch.cat((scores.masked_fill(far, float("-inf")), *own), -1).softmax(-1)
            a = p[..., :n] @ v0.unsqueeze(2)
            for i in range(1, step + 1):
                a = a + p[..., n + i - 1, None] * _later(seen[i][1], step - i).unsqueeze(2)
            a = a.view(B, s.heads, n, s.head_dim)
        x = x + self.o(a.transpose(1, 2).reshape(B, n, -1))
        y = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def _later(x: torch.Tensor, by: int) -> torch.Tensor:
    """x [B, kv, n, D] moved `by` positions on, zeros coming in."""
    return x if by == 0 else F.pad(x, (0, 0, by, 0))[:, :, : x.shape[2]]


class HeadNet(nn.Module):
    """`forward` gives the states before the final norm, `logits` what they say over the small vocabulary."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        s = self.shape = shape
        self.wide = s.mixing == "eagle3" and bool(s.taps)
        if s.taps:
            self.fuse = nn.Linear(len(s.taps) * s.hidden, s.hidden, bias=False)
        if s.taps and not self.wide:
            self.embed_norm, self.state_norm = Norm(s.hidden, s.eps), Norm(s.hidden, s.eps)
            self.mix = nn.Linear(2 * s.hidden, s.hidden, bias=False)
        self.blocks = nn.ModuleList(Block(s, self.wide and i == 0) for i in range(s.layers))
        self.norm = Norm(s.hidden, s.eps)
        self.out = nn.Linear(s.hidden, s.vocab, bias=False)
        half = s.head_dim // 2
        self.register_buffer("rates", s.rope_theta ** -(torch.arange(half) / half), persistent=False)

    def turns(self, n: int) -> tuple[torch.Tensor, torch.Tensor]:
        angles = torch.arange(n, device=self.rates.device)[:, None] * self.rates
        return angles.cos(), angles.sin()

    def forward(self, e: torch.Tensor, g: torch.Tensor | None, seen: list[list], turns: tuple) -> torch.Tensor:
        """e [B, n, H]: embeddings of tokens t + 1; g [B, n, H]: fused features, or the states of the step before."""
        x = e if g is None else g
        if g is not None and not self.wide:
            x = self.mix(torch.cat((self.embed_norm(e), self.state_norm(g)), -1))
        for block, own in zip(self.blocks, seen, strict=True):
            x = block(x, e, *turns, own)
        return x

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.norm(x))

    def unroll(self, e: torch.Tensor, features: torch.Tensor | None, steps: int) -> list[torch.Tensor]:
        """States [B, n, H] of each step ahead. A draft has one: what it feeds on does not change with depth."""
        turns = self.turns(e.shape[1])
        seen: list[list] = [[] for _ in self.blocks]
        if features is None:
            return [self(e, None, seen, turns)]
        states = [self(e, self.fuse(features), seen, turns)]
        for _ in range(1, steps):
            states.append(self(e, F.pad(states[-1], (0, 0, 1, 0))[:, :-1], seen, turns))
        return states
