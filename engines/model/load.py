"""From a model folder to something that can run: the compact decoder, or transformers behind the same calls."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from engines.errors import UserError

from . import linear
from .choose import ranking
from .config import ModelConfig, NotCompact
from .decoder import Decoder, Layer
from .linear import HalfOverflow
from .rope import pair_rows
from .weights import Weights

if TYPE_CHECKING:
    from .fallback import Fallback

Progress = Callable[[float, str], None]


def load(
    folder: str | Path,
    dtype: str = "auto",
    device: str = "auto",
    threads: int | None = None,
    progress: Progress | None = None,
) -> Decoder | Fallback:
    """The model in `folder` (config.json and safetensors), ready to run.

    `dtype`: auto, fp32, bf16 or fp16 (see `linear`); `device`: auto, cuda, mps, cpu or cuda:1; `threads` sets torch's
    number of threads for the whole process. `progress(fraction, message)` is called as weights come in. Raises
    UserError when files are missing, damaged or do not fit together, or the machine lacks what was asked for.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"There is no model folder {folder}.")
    if dtype not in ("auto", *linear.TYPES):
        raise UserError(f"dtype must be auto, {', '.join(linear.TYPES)}, not {dtype!r}.")
    if threads is not None:
        torch.set_num_threads(threads)
    where = choose_device(device)
    try:
        return load_decoder(folder, dtype, where, progress)
    except NotCompact as reason:
        from .fallback import load_fallback

        return load_fallback(folder, dtype, where, str(reason), progress)


def choose_device(device: str) -> torch.device:
    """cuda before mps before cpu for "auto". Raises UserError for a device that is not there."""
    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    if device == "auto":
        return torch.device("cuda" if cuda else "mps" if mps else "cpu")
    try:
        where = torch.device(device)
    except RuntimeError:
        raise UserError(f"There is no device {device!r}; choose auto, cuda, mps or cpu.") from None
    there = {"cpu": True, "cuda": cuda and (where.index or 0) < torch.cuda.device_count(), "mps": mps}
    if not there.get(where.type, False):
        raise UserError(f"The device {device!r} is not available here; choose auto or cpu.")
    return where


@torch.inference_mode()
def load_decoder(folder: str | Path, dtype: str, device: torch.device, progress: Progress | None = None) -> Decoder:
    """As `load`, but raises NotCompact for a model that the compact decoder does not cover."""
    config, weights = ModelConfig.from_folder(folder), Weights(folder)
    for choice in ranking(config, device) if dtype == "auto" else [dtype]:
        try:
            return _build(config, weights, choice, device, progress)
        except HalfOverflow:
            continue
    raise UserError("Some weights are too large for fp16; choose bf16, fp32 or auto.")


def _build(
    config: ModelConfig, weights: Weights, dtype: str, device: torch.device, progress: Progress | None
) -> Decoder:
    names = weights.names()
    stem = next((n.removesuffix("embed_tokens.weight") for n in names if n.endswith("embed_tokens.weight")), None)
    if stem is None:
        raise UserError(f"The weights in {weights.folder} lack the tensor model.embed_tokens.weight.")
    say = progress or (lambda fraction, message: None)
    folder = _Folder(config, weights, stem, dtype, device)
    folder.refuse_strangers()
    say(0.0, "reading the weights")
    layers: list[Layer] = []
    with ThreadPoolExecutor(_workers(device)) as pool:
        ends = pool.submit(folder.ends)
        waiting = [pool.submit(folder.layer, i) for i in range(config.layers)]
        try:
            for i, layer in enumerate(waiting):
                layers.append(layer.result())
                say((i + 1) / (config.layers + 1), f"reading layer {i + 1} of {config.layers}")
            embedding, head = ends.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    norm = folder.norm("norm.weight", config.hidden)
    shared = isinstance(head, linear.Dense) and head.weight is embedding
    total = sum(k.bytes for x in layers for k in (x.qkv, x.out, x.gate_up, x.down))
    total += embedding.nbytes + (0 if shared else head.bytes)
    say(1.0, "ready")
    return Decoder(config, dtype, embedding, layers, norm, head, total, weights.folder.name)


def _workers(device: torch.device) -> int:
    """How many layers to read at once. Packing is single-threaded, so it pays on the CPU; more would cost memory."""
    return min(4, torch.get_num_threads()) if device.type == "cpu" else 1


class _Folder:
    """Reads the layers of one model folder in the form that the decoder wants."""

    def __init__(self, config: ModelConfig, weights: Weights, stem: str, dtype: str, device: torch.device) -> None:
        self.config, self.weights, self.stem, self.dtype, self.device = config, weights, stem, dtype, device
        self._own = threading.local()  # each worker's scratch memory

    def norm(self, name: str, size: int, heads: int = 0) -> torch.Tensor:
        """A norm's weight, float32, times sqrt(size) (see `Decoder._norm`); for heads in the order of their rows."""
        w = self.weights.read(self.stem + name, (size,)).float()
        w = (w + 1 if self.config.gemma else w) * size**0.5
        return (pair_rows(w, size).expand(heads, size) if heads else w).to(self.device)

    def _products(self, prefix: str, shapes: dict[str, tuple[int, int]], bias: bool) -> linear.Kernel:
        c, weights, offsets = self.config, [], []
        scratch = self._own.scratch = getattr(self._own, "scratch", None) or linear.Scratch()
        for name, shape in shapes.items():
            full = f"{self.stem}{prefix}{name}"
            weights.append(self.weights.read(f"{full}.weight", shape, scratch))
            if bias:
                offsets.append(self.weights.read(f"{full}.bias", shape[:1]))
            if name in ("q_proj", "k_proj"):
                weights[-1] = pair_rows(weights[-1], c.head_dim)
                if bias:
                    offsets[-1] = pair_rows(offsets[-1], c.head_dim)
        return linear.make(self.dtype, self.device, weights, offsets if bias else None, scratch)

    @torch.inference_mode()  # belongs to a thread, so each worker enters it
    def ends(self) -> tuple[torch.Tensor, linear.Kernel]:
        """The embedding [V, hidden] and the vocabulary layer, which share memory where they are one and the same."""
        c, dtype, device = self.config, self.dtype, self.device
        embedding = self.weights.read(f"{self.stem}embed_tokens.weight", (c.vocab, c.hidden))
        packed = dtype == "fp16" and device.type == "cpu"
        if c.tied:
            head = linear.make(dtype, device, [embedding])
            if not packed:
                return head.weight, head
        # Rows are looked up in it, not multiplied by: beside packed weights it stays in the type of the file.
        kind = embedding.dtype if packed and embedding.itemsize == 2 else linear.TYPES[dtype]
        if kind == torch.float16:
            linear.check_half(embedding)
        embedding = embedding.to(device, kind)
        if not c.tied:
            name = next((n for n in self.weights.names() if n.endswith("lm_head.weight")), "lm_head.weight")
            head = linear.make(dtype, device, [self.weights.read(name, (c.vocab, c.hidden))])
        return embedding, head

    @torch.inference_mode()
    def layer(self, i: int) -> Layer:
        c, at = self.config, f"layers.{i}."
        q, kv, hidden, inner = c.heads * c.head_dim, c.kv_heads * c.head_dim, c.hidden, c.intermediate
        qk_norm = None
        if c.qk_norm:
            parts = [(f"{at}self_attn.q_norm.weight", c.heads), (f"{at}self_attn.k_norm.weight", c.kv_heads)]
            qk_norm = torch.cat([self.norm(name, c.head_dim, heads) for name, heads in parts])
        return Layer(
            norm=self.norm(f"{at}input_layernorm.weight", hidden),
            qkv=self._products(
                f"{at}self_attn.",
                {"q_proj": (q, hidden), "k_proj": (kv, hidden), "v_proj": (kv, hidden)},
                c.qkv_bias,
            ),
            out=self._products(f"{at}self_attn.", {"o_proj": (hidden, q)}, c.out_bias),
            mlp_norm=self.norm(f"{at}{'pre_feedforward' if c.gemma else 'post_attention'}_layernorm.weight", hidden),
            gate_up=self._products(f"{at}mlp.", {"gate_proj": (inner, hidden), "up_proj": (inner, hidden)}, c.mlp_bias),
            down=self._products(f"{at}mlp.", {"down_proj": (hidden, inner)}, c.mlp_bias),
            qk_norm=qk_norm,
            after_attention=self.norm(f"{at}post_attention_layernorm.weight", hidden) if c.gemma else None,
            after_mlp=self.norm(f"{at}post_feedforward_layernorm.weight", hidden) if c.gemma else None,
        )

    def refuse_strangers(self) -> None:
        """A tensor of layer 0 that the decoder would leave unread means another architecture: raises NotCompact."""
        c = self.config
        projections = {"self_attn.q_proj": c.qkv_bias, "self_attn.k_proj": c.qkv_bias, "self_attn.v_proj": c.qkv_bias,
                       "self_attn.o_proj": c.out_bias, "mlp.gate_proj": c.mlp_bias, "mlp.up_proj": c.mlp_bias,
                       "mlp.down_proj": c.mlp_bias}  # fmt: skip
        known = {f"{p}.weight" for p in projections} | {f"{p}.bias" for p, bias in projections.items() if bias}
        known |= {"input_layernorm.weight", "post_attention_layernorm.weight", "self_attn.rotary_emb.inv_freq"}
        if c.qk_norm:
            known |= {"self_attn.q_norm.weight", "self_attn.k_norm.weight"}
        if c.gemma:
            known |= {"pre_feedforward_layernorm.weight", "post_feedforward_layernorm.weight"}
        start = re.compile(re.escape(self.stem) + r"layers\.\d+\.")
        for name in self.weights.names():
            found = start.match(name)
            if found and name[found.end() :] not in known:
                raise NotCompact(f"the tensor {name}")
