"""A head's or a draft's folder -> something that can run beside its target.

The folder holds config.json (what it is, for which target, its shape) and model.safetensors (weights, and `vocabulary`:
the target's id of each row of its vocabulary layer). Embeddings are the target's own and not stored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from ..errors import UserError
from . import linear
from .config import ModelConfig, Rope, read_json
from .decoder import Decoder, Layer
from .head import Head, widened
from .head_published import load_published
from .rope import pair_rows
from .weights import Weights

KIND = "specplay-head"  # config.json's model_type
VERSION = 1


class Widened:
    """A vocabulary layer of few rows whose logits stand in a full row; all other tokens are impossible."""

    def __init__(self, kernel: linear.Kernel, ids: torch.Tensor, vocab: int) -> None:
        self.kernel, self.ids, self.vocab, self.bytes = kernel, ids, vocab, kernel.bytes

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return widened(self.kernel(x), self.ids, self.vocab)


def is_head(folder: str | Path) -> bool:
    """Whether a folder holds a head or draft in this project's own form."""
    path = Path(folder) / "config.json"
    return path.is_file() and read_json(path).get("model_type") == KIND


def card_of(folder: str | Path) -> dict[str, Any]:
    """The config.json of such a folder. Raises UserError when it is none."""
    card = read_json(Path(folder) / "config.json")
    if card.get("model_type") != KIND or card.get("version") != VERSION or not isinstance(card.get("shape"), dict):
        raise UserError(f"{folder} does not hold a head or a draft that this version of the program can read.")
    return card


def check_target(card: dict[str, Any], target: Any, name: str) -> None:
    """Raises UserError, with the reason, when the head cannot have been made for `target`."""
    if not isinstance(target, Decoder):
        raise UserError(
            f"{name} needs a target that the compact decoder runs, and {target.name} is run by transformers."
        )
    made = card.get("target", {})
    for what, here in (("hidden", target.config.hidden), ("layers", target.num_layers), ("vocab", target.vocab_size)):
        if made.get(what) != here:
            raise UserError(
                f"{name} was made for {made.get('name', 'another target')} ({what} {made.get(what)}), and "
                f"{target.name} has {what} {here}: choose a head made for this target, or train one."
            )


class _Reader:
    def __init__(self, folder: Path, target: Decoder, shape: dict[str, Any]) -> None:
        self.weights, self.target, self.shape = Weights(folder), target, shape
        # A GPU runs the head in the target's own type; so does a CPU, whose kernel was chosen by measurement.
        self.dtype, self.device = target.dtype, target.device

    def kernel(self, names: Sequence[str], rows: Sequence[int], columns: int, turned: int = 0) -> linear.Kernel:
        """The product of the stacked weights; the rows of the first `turned` ones are brought side by side."""
        read = [self.weights.read(f"{n}.weight", (r, columns)).float() for n, r in zip(names, rows, strict=True)]
        read = [pair_rows(w, self.shape["head_dim"]) if i < turned else w for i, w in enumerate(read)]
        return linear.make(self.dtype, self.device, read)

    def norm(self, name: str) -> torch.Tensor:
        width = self.shape["hidden"]
        return (self.weights.read(f"{name}.weight", (width,)).float() * width**0.5).to(self.device)

    def layer(self, i: int, wide: bool) -> Layer:
        s, at = self.shape, f"blocks.{i}."
        q, kv = s["heads"] * s["head_dim"], s["kv_heads"] * s["head_dim"]
        return Layer(
            norm=self.norm(f"{at}norm"),
            qkv=self.kernel([f"{at}{n}" for n in "qkv"], [q, kv, kv], s["hidden"] * (2 if wide else 1), turned=2),
            out=self.kernel([f"{at}o"], [s["hidden"]], q),
            mlp_norm=self.norm(f"{at}mlp_norm"),
            gate_up=self.kernel([f"{at}gate", f"{at}up"], [s["intermediate"]] * 2, s["hidden"]),
            down=self.kernel([f"{at}down"], [s["hidden"]], s["intermediate"]),
            beside=self.norm(f"{at}embed_norm") if wide else None,
        )


def plain_config(target: ModelConfig, shape: dict[str, Any]) -> ModelConfig:
    """What the compact decoder has to know of a head's layers: plain Llama ones."""
    rope = Rope(float(shape["rope_theta"]), {"rope_type": "default"})
    n = shape["layers"]
    return dataclasses.replace(
        target, family="llama", layers=n, ropes=(rope, rope), window=None, sliding=(False,) * n, qkv_bias=False,
        out_bias=False, mlp_bias=False, qk_norm=False, gemma=False, activation="silu", eps=float(shape["eps"]),
        attn_scale=shape["head_dim"] ** -0.5,
        **{k: shape[k] for k in ("hidden", "heads", "kv_heads", "head_dim", "intermediate")},
    )  # fmt: skip


@torch.inference_mode()
def load_head(folder: str | Path, target: Any, name: str | None = None) -> Head | Decoder:
    """A head (with taps), or a draft (without), as a decoder over the target's whole vocabulary; or a published head.

    Raises UserError when files are missing, damaged, or made for another target.
    """
    folder = Path(folder)
    name = name or folder.name
    if not is_head(folder):
        return load_published(folder, target, name)
    card = card_of(folder)
    check_target(card, target, name)
    shape = card["shape"]
    try:
        config, taps = plain_config(target.config, shape), tuple(shape["taps"])
        reader = _Reader(folder, target, shape)
        wide = bool(taps) and shape["mixing"] == "eagle3"
        layers = [reader.layer(i, wide and i == 0) for i in range(shape["layers"])]
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{folder / 'config.json'} is incomplete ({error!r}); get the folder again.") from None
    H = shape["hidden"]
    out = reader.kernel(["out"], [shape["vocab"]], H)
    ids = reader.weights.read("vocabulary", (shape["vocab"],), whole=True).long().to(target.device)
    if not bool(((ids >= 0) & (ids < target.vocab_size)).all()):
        raise UserError(f"{folder} is damaged: it names tokens that {target.name} does not have. Get it again.")
    total = sum(k.bytes for x in layers for k in (x.qkv, x.out, x.gate_up, x.down)) + out.bytes
    head = out if taps else Widened(out, ids, target.vocab_size)
    decoder = Decoder(config, target.dtype, target._embedding, layers, reader.norm("norm"), head, total, name)
    decoder._scale = target._scale
    if not taps:
        return decoder
    fuse = reader.kernel(["fuse"], [H], len(taps) * H)
    mix = None if wide else reader.kernel(["mix"], [H], 2 * H)
    norms = (None, None) if wide else (reader.norm("embed_norm"), reader.norm("state_norm"))
    decoder.weight_bytes += fuse.bytes + (mix.bytes if mix else 0)
    return Head(decoder, target, taps, ids, fuse, mix, *norms, unit=True, name=name)
