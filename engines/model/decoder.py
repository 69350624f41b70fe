"""One decoder for all covered families: the layers in a loop, with everything that a pass shares made beforehand.

A pass over a few rows of a small model is a matter of operators called as much as of arithmetic, so: query, key and
value are one product, gate and up another; both rotations are one in-place complex product; the norm is five cheap
operators instead of a costly fused one; key/value views, masks and turns are made once a pass (`cache.Plan`). Grouped
queries are laid out as more rows of their key's head, so that attention reads each key once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from engines.errors import UserError

from .cache import Cache, Plan
from .config import ModelConfig
from .linear import Kernel
from .rope import Turns

if TYPE_CHECKING:
    from .decoder_batch import DecoderBatch

PREFILL = 512  # rows of a prompt that go through the layers at once
_SCORES = 2**24  # the most attention scores per head that a pass may hold (64 MB of float32 masks)


@dataclass(slots=True)
class Layer:
    """Weights of one layer. Norm weights are float32 and carry the factor that `Decoder._norm` wants."""

    norm: torch.Tensor | None  # None: the product reads the stream as it is (the first layer of an EAGLE-1 head)
    qkv: Kernel
    out: Kernel
    mlp_norm: torch.Tensor
    gate_up: Kernel
    down: Kernel
    qk_norm: torch.Tensor | None = None  # [heads + kv, D]
    after_attention: torch.Tensor | None = None  # Gemma's norms of what a block adds
    after_mlp: torch.Tensor | None = None
    beside: torch.Tensor | None = None  # EAGLE-3: the norm of embeddings, which qkv reads before the stream
    norm_before_residual: bool = False  # the layer adds to its normed input


class Decoder:
    """Weights and how to run them; what belongs to one text is in its session.

    `dtype` is "fp32", "bf16" or "fp16"; `weight_bytes` the bytes of all weights in use. `name` is for messages.
    """

    def __init__(
        self,
        config: ModelConfig,
        dtype: str,
        embedding: torch.Tensor,
        layers: list[Layer],
        norm: torch.Tensor,
        head: Kernel,
        weight_bytes: int,
        name: str = "the model",
    ) -> None:
        self.config, self.dtype, self.name = config, dtype, name
        self.device = embedding.device
        self.vocab_size, self.num_layers, self.context = config.vocab, config.layers, config.context
        self.eos, self.bos = config.eos, config.bos
        self.weight_bytes = weight_bytes
        # Activations and cache: float32 on the CPU, the weights' type on a GPU (the residual stays float32).
        self.cache_dtype = torch.float32 if self.device.type == "cpu" else embedding.dtype
        self._embedding, self._layers, self._final, self._head = embedding, layers, norm, head
        self._scale = config.embed_scale
        if dtype == "bf16":  # as the model was trained: the factor, too, is rounded
            self._scale = float(torch.tensor(self._scale, dtype=torch.bfloat16))
        c = config
        self._group = c.heads // c.kv_heads
        self._turned = c.heads + c.kv_heads
        self._all = self._turned + c.kv_heads
        self._activate = F.silu if c.activation == "silu" else partial(F.gelu, approximate="tanh")
        self._tiny = torch.tensor(c.eps * c.hidden, device=self.device)
        self._tiny_head = torch.tensor(c.eps * c.head_dim, device=self.device)
        self._turns = tuple(Turns(rope, c.head_dim, self.device) for rope in c.ropes)
        if c.ropes[0] == c.ropes[1]:
            self._turns = (self._turns[0], self._turns[0])

    def session(self, capacity: int | None = None, taps: Sequence[int] = ()) -> DecoderSession:
        """A new empty text of at most `capacity` positions; the model's context limit is never exceeded.

        `taps` asks for features (see `DecoderSession`): the residual stream after that many layers, 1 to num_layers.
        """
        return DecoderSession(self, min(self.context if capacity is None else capacity, self.context), taps)

    def batch(self, rows: int, capacity: int | None = None, taps: Sequence[int] = ()) -> DecoderBatch:
        """`rows` new empty texts that go through the model together."""
        from .decoder_batch import DecoderBatch

        return DecoderBatch(self, rows, min(self.context if capacity is None else capacity, self.context), taps)

    def new_features(self, rows: int, capacity: int, taps: Sequence[int]) -> torch.Tensor | None:
        """Room for what a session's taps hold, [rows, capacity, taps * hidden]; None without taps."""
        if not taps:
            return None
        if not all(1 <= t <= self.num_layers for t in taps):
            raise UserError(f"{self.name} has {self.num_layers} layers; features cannot be taken after {list(taps)}.")
        return torch.empty(rows, capacity, len(taps) * self.config.hidden, device=self.device)

    def new_cache(self, rows: int, capacity: int) -> Cache:
        return Cache(self.config, self._turns, rows, capacity, self.cache_dtype, self.device)

    def chunk(self, end: int) -> int:
        """How many rows of a prompt to run at once when it reaches position `end`."""
        return max(16, min(PREFILL, _SCORES // (self._group * max(end, 1))))

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        """ids [N] -> float32 [N, hidden]."""
        h = self._embedding.index_select(0, ids).float()
        return h if self._scale == 1.0 else h.mul_(self._scale)

    def logits(self, h: torch.Tensor) -> torch.Tensor:
        """Residual rows [N, hidden] -> float32 logits [N, V]."""
        if not len(h):
            return torch.empty(0, self.vocab_size, device=self.device)
        return self._head(self._norm(h, self._final, self._tiny)).float()

    @staticmethod
    def _norm(h: torch.Tensor, weight: torch.Tensor, tiny: torch.Tensor) -> torch.Tensor:
        """Root-mean-square norm over the last axis of size d, with `weight` = w * sqrt(d) and `tiny` = eps * d:

        h w / sqrt(|h|^2 / d + eps) = h w sqrt(d) / sqrt(|h|^2 + eps d). Half the time of F.rms_norm on the CPU.
        """
        length = torch.linalg.vector_norm(h, 2, -1, True)
        return torch.mul(h, weight).mul_(torch.addcmul(tiny, length, length).rsqrt_())

    def run_layers(
        self,
        h: torch.Tensor,
        plan: Plan,
        layers: Sequence[int] | None,
        tapped: dict[int, torch.Tensor] | None = None,
        beside: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Residual rows [B * n, hidden], or those of `plan.real` alone, through the layers, in place. Writes their keys

        and values.

        `tapped` maps a count of layers to where [B, n, hidden] the stream behind them is to be copied. `beside`
        [B * n, hidden] are the embeddings that a head's first layer reads beside the stream.
        """
        c, B, n = self.config, plan.rows, plan.new
        kv, D, half, group, turned, every = c.kv_heads, c.head_dim, c.intermediate, self._group, self._turned, self._all
        rows, tiny, where, sliding, norm = B * n, self._tiny, plan.where, c.sliding, self._norm
        real = plan.real
        keys, values, slots, activate, dtype = plan.keys, plan.values, plan.slots, self._activate, self.cache_dtype
        for i in range(c.layers) if layers is None else layers:
            w = self._layers[i]
            kind = sliding[i]
            x = h if w.norm is None else norm(h, w.norm, tiny)
            if w.beside is not None:
                h = x.clone() if w.norm_before_residual else h
                x = torch.cat((norm(beside, w.beside, tiny), x), -1)
            qkv = w.qkv(x).float()
            if real is not None:
                qkv = qkv.new_zeros(rows, every * D).index_copy_(0, real, qkv)
            qkv = qkv.view(rows, every, D)
            if w.qk_norm is not None:
                qkv[:, :turned] = norm(qkv[:, :turned], w.qk_norm, self._tiny_head)
            torch.view_as_complex(qkv.view(rows, every, D // 2, 2)).narrow(1, 0, turned).mul_(plan.turns[kind])
            new = qkv.narrow(1, c.heads, 2 * kv).view(B, n, 2, kv, D).permute(2, 0, 3, 1, 4)
            if where is None:
                slots[i].copy_(new)
            else:
                slots[i].scatter_(3, where, new.to(dtype))
            q = qkv.narrow(1, 0, c.heads).view(B, n, kv, group, D).permute(0, 2, 3, 1, 4)
            q = q.reshape(B, kv, group * n, D).to(dtype)
            a = F.scaled_dot_product_attention(q, keys[i], values[i], attn_mask=plan.masks[kind], scale=c.attn_scale)
            a = a.view(B, kv, group, n, D).permute(0, 3, 1, 2, 4).reshape(rows, c.heads * D)
            a = w.out(a if real is None else a.index_select(0, real))
            h.add_(a if w.after_attention is None else norm(a.float(), w.after_attention, tiny))
            inner = w.gate_up(norm(h, w.mlp_norm, tiny))
            m = w.down(activate(inner.narrow(1, 0, half)).mul_(inner.narrow(1, half, half)))
            h.add_(m if w.after_mlp is None else norm(m.float(), w.after_mlp, tiny))
            if tapped and i + 1 in tapped:
                tapped[i + 1].copy_(h.view(B, n, -1))
        return h

    def check_layers(self, layers: Sequence[int] | None) -> None:
        """Raises UserError unless `layers` is an ascending choice of this decoder's layers."""
        if layers is None:
            return
        if not all(a < b for a, b in zip([-1, *layers], [*layers, self.num_layers], strict=True)):
            raise UserError(f"Layers must be ascending numbers from 0 to {self.num_layers - 1}, not {list(layers)}.")


def too_long(name: str, needed: int, capacity: int, context: int) -> UserError:
    """The error of a text that does not fit, with the limit that it ran into."""
    limit = "its context limit" if capacity >= context else "the space set aside for this run"
    return UserError(f"{name} would need {needed} positions, but {limit} is {capacity}; shorten the text.")


def windows(
    features: torch.Tensor | None, taps: Sequence[int], layers: Sequence[int] | None, start: int, new: int
) -> dict[int, torch.Tensor] | None:
    """Where the taps of `new` positions from `start` on go; none when only some of the layers run."""
    if features is None or layers is not None:
        return None
    parts = features[:, start : start + new].chunk(len(taps), -1)
    return dict(zip(taps, parts, strict=True))


class DecoderSession:
    """One text on its way through a `Decoder` (see `Session`). `hidden` [n, hidden] is the residual stream of the

    newest rows before the final norm, float32: of the last forward, or of its last chunk if it came in several.
    `features` [capacity, taps * hidden] holds the residual stream behind the asked-for layers by position, as far as
    `length` says; None without taps.
    """

    trees = True

    def __init__(self, decoder: Decoder, capacity: int, taps: Sequence[int] = ()) -> None:
        self.length, self.capacity, self.taps = 0, capacity, tuple(taps)
        self.vocab_size, self.num_layers, self.device = decoder.vocab_size, decoder.num_layers, decoder.device
        self.hidden: torch.Tensor | None = None
        self._before = 0  # the length before the last forward
        self._decoder, self._cache = decoder, decoder.new_cache(1, capacity)
        self._features = decoder.new_features(1, capacity, taps)
        self.features = None if self._features is None else self._features[0]

    @torch.inference_mode()
    def forward(
        self,
        ids: Sequence[int],
        *,
        logits_from: int = 0,
        layers: Sequence[int] | None = None,
        parents: Sequence[int] | None = None,
    ) -> torch.Tensor:
        d, n, end = self._decoder, len(ids), self.length + len(ids)
        self._before = self.length
        if end > self.capacity:
            raise too_long(d.name, end, self.capacity, d.context)
        d.check_layers(layers)
        all_ids = torch.as_tensor(ids, dtype=torch.long, device=d.device)
        step, out = d.chunk(end) if parents is None else n, []
        for i in range(0, n, step):
            part = all_ids[i : i + step]
            plan = (
                self._cache.plan([self.length], len(part))
                if parents is None
                else self._cache.plan_tree(self.length, parents)
            )
            tapped = windows(self._features, self.taps, layers, self.length, len(part))
            h = self.hidden = d.run_layers(d.embed(part), plan, layers, tapped)
            self.length += len(part)
            if logits_from < i + len(part):
                out.append(d.logits(h[max(0, logits_from - i) :]))
        if not out:
            return torch.empty(0, self.vocab_size, device=d.device)
        return out[0] if len(out) == 1 else torch.cat(out)

    @torch.inference_mode()
    def beside(self, ids: Sequence[int], positions: Sequence[int], layers: Sequence[int]) -> torch.Tensor:
        """Logits [n, V] of each of `ids` at its position, behind the text before it, through some of the layers only:

        what layer skip would draft there. The text itself stays as it is.
        """
        d, out = self._decoder, []
        step = min(d.chunk(self.length), self.capacity - self.length)
        if step < 1:
            raise too_long(d.name, self.length + 1, self.capacity, d.context)
        d.check_layers(layers)
        for i in range(0, len(ids), step):
            plan = self._cache.plan_beside(self.length, positions[i : i + step])
            part = torch.as_tensor(ids[i : i + step], dtype=torch.long, device=d.device)
            out.append(d.logits(d.run_layers(d.embed(part), plan, layers)))
        return torch.cat(out)

    def rollback(self, length: int) -> None:
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot roll back from {self.length} to {length}")
        self.length = length

    def keep(self, rows: Sequence[int]) -> None:
        if not all(a < b for a, b in zip([-1, *rows], [*rows, self.length - self._before], strict=True)):
            raise ValueError(f"cannot keep rows {list(rows)} of a pass of {self.length - self._before}")
        self._cache.move(self._before, rows)
        if self.features is not None:
            self.features[self._before : self._before + len(rows)] = self.features[[self._before + r for r in rows]]
        self.length = self._before + len(rows)
