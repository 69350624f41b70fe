"""Where training begins: not at random but from the target's own layers, final norm and vocabulary rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from ..errors import UserError
from ..model.config import ModelConfig
from ..model.weights import Weights
from .net import HeadNet, Shape

_PARTS = {
    "q": "self_attn.q_proj.weight", "k": "self_attn.k_proj.weight", "v": "self_attn.v_proj.weight",
    "o": "self_attn.o_proj.weight", "gate": "mlp.gate_proj.weight", "up": "mlp.up_proj.weight",
    "down": "mlp.down_proj.weight",
}  # fmt: skip
STREAM = 4.0  # mean square root of what flows into a head's first layer at the start; a choice, tuned on SmolLM2


def shape_for(config: ModelConfig, layers: int, vocab: int, taps: tuple[int, ...], mixing: str = "sum") -> Shape:
    """A head or draft of the target's own width."""
    return Shape(
        config.hidden, config.heads, config.kv_heads, config.head_dim, config.intermediate, layers, vocab, taps,
        mixing, config.eps, config.ropes[0].theta,
    )  # fmt: skip


def default_taps(layers: int) -> tuple[int, ...]:
    """A low, a middle and the last layer: EAGLE-3's idea of several depths, with the end among them."""
    return (max(1, layers // 3), max(1, 2 * layers // 3), layers)


class Target:
    """Reads what is needed of a target's folder: embedding, final norm, vocabulary rows, whole layers; float32."""

    def __init__(self, folder: str | Path) -> None:
        self.config, self.weights = ModelConfig.from_folder(folder), Weights(folder)
        names = self.weights.names()
        stem = next((n.removesuffix("embed_tokens.weight") for n in names if n.endswith("embed_tokens.weight")), None)
        if stem is None:
            raise UserError(f"The weights in {folder} lack the tensor model.embed_tokens.weight.")
        self.stem = stem

    def embedding(self) -> torch.Tensor:
        """[V, H], as the target's first layer gets it."""
        c = self.config
        return self.weights.read(f"{self.stem}embed_tokens.weight", (c.vocab, c.hidden)).float() * c.embed_scale

    def rows(self, ids: np.ndarray) -> torch.Tensor:
        """The vocabulary layer's rows of `ids` [n] -> [n, H]."""
        c = self.config
        name = f"{self.stem}embed_tokens.weight" if c.tied else "lm_head.weight"
        return self.weights.read(name, (c.vocab, c.hidden)).float()[torch.from_numpy(ids)]

    def norm(self, name: str) -> torch.Tensor:
        weight = self.weights.read(f"{self.stem}{name}", (self.config.hidden,)).float()
        return weight + 1 if self.config.gemma else weight

    def layer(self, i: int) -> dict[str, torch.Tensor]:
        c = self.config
        width, narrow = c.heads * c.head_dim, c.kv_heads * c.head_dim
        shapes = {"q": (width, c.hidden), "k": (narrow, c.hidden), "v": (narrow, c.hidden), "o": (c.hidden, width),
                  "gate": (c.intermediate, c.hidden), "up": (c.intermediate, c.hidden),
                  "down": (c.hidden, c.intermediate)}  # fmt: skip
        out = {k: self.weights.read(f"{self.stem}layers.{i}.{_PARTS[k]}", shapes[k]).float() for k in shapes}
        out["norm"] = self.norm(f"layers.{i}.input_layernorm.weight")
        after = "pre_feedforward_layernorm" if c.gemma else "post_attention_layernorm"
        out["mlp_norm"] = self.norm(f"layers.{i}.{after}.weight")
        return out


@torch.no_grad()
def begin(target: Target, shape: Shape, vocabulary: np.ndarray, seed: int = 0, copied: tuple[int, ...] = ()) -> HeadNet:
    """A new net: its layers are the target's last ones (a draft's: some first and the last), its output their rows.

    `copied` names other layers of the target to begin from.
    """
    torch.manual_seed(seed)
    net = HeadNet(shape)
    L, H = target.config.layers, shape.hidden
    if not copied:
        first = 0 if shape.taps else shape.layers - shape.layers // 2
        copied = tuple(range(first)) + tuple(range(L - shape.layers + first, L))
    for block, i in zip(net.blocks, copied, strict=True):
        own = target.layer(i)
        for name in ("o", "gate", "up", "down"):
            getattr(block, name).weight.copy_(own[name])
        for name in ("q", "k", "v"):
            weight = getattr(block, name).weight
            weight[:, -H:].copy_(own[name])
            if block.wide:
                weight[:, :H].copy_(own[name] * 0.5)
        block.norm.weight.copy_(own["norm"])
        block.mlp_norm.weight.copy_(own["mlp_norm"])
    net.norm.weight.copy_(target.norm("norm.weight"))
    net.out.weight.copy_(target.rows(vocabulary))
    if shape.taps:
        # g begins as the last tap, the residual stream whose direction the target's vocabulary layer reads.
        net.fuse.weight.zero_()
        net.fuse.weight[:, -H:].copy_(torch.eye(H) * (1.0 if not net.wide else STREAM))
        if not net.wide:
            net.mix.weight[:, :H].copy_(torch.eye(H) * STREAM / 2)
            net.mix.weight[:, H:].copy_(torch.eye(H) * STREAM)
    return net
