"""GGUF tensors -> tensors with the names and the layout of the hub's safetensors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..errors import UserError
from .gguf_file import GGUFFile
from .safetensors_file import Plan

TOP = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
HEAD_NORMS = {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
# Gemma norms both before and after each half of a layer, so that the same GGUF name means another tensor.
GEMMA = {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
BLOCKS = {"qwen3": HEAD_NORMS, "gemma3": {**HEAD_NORMS, **GEMMA}}
IGNORED = {"rope_freqs.weight"}  # folded into the configuration


def plans(file: GGUFFile, config: dict[str, Any]) -> list[Plan]:
    """What to write, in the file's order. Raises UserError for a tensor without a place, or a missing one."""
    blocks = {**BLOCK, **BLOCKS.get(file.arch, {})}
    out = []
    for name in file.tensors:
        if name in IGNORED:
            continue
        out.append(_plan(file, config, name, _hf_name(file, blocks, name)))
    have = {p.name for p in out}
    norm = "model.layers.{}.input_layernorm.weight"
    for need in ["model.embed_tokens.weight", *(norm.format(i) for i in range(config["num_hidden_layers"]))]:
        if need not in have:
            raise UserError(f"{file.path} lacks the tensor {need}; it may be cut short: fetch it again.")
    return out


def _hf_name(file: GGUFFile, blocks: dict[str, str], name: str) -> str:
    if name in TOP:
        return TOP[name]
    match = re.fullmatch(r"blk\.(\d+)\.(\w+)\.(weight|bias)", name)
    if match is None or match[2] not in blocks:
        raise UserError(f"{file.path} holds the tensor {name!r}, which a {file.arch} model here has no place for.")
    return f"model.layers.{match[1]}.{blocks[match[2]]}.{match[3]}"


def _plan(file: GGUFFile, config: dict[str, Any], name: str, hf: str) -> Plan:
    shape = file.shape(name)
    order, rows = None, None
    if file.arch == "llama" and re.search(r"\.attn_[qk]\.", name):
        heads = config["num_attention_heads" if ".attn_q." in name else "num_key_value_heads"]
        order = rope_order(heads, shape[0] // heads)
        if len(shape) == 1:
            rows = _reordered(file.rows(name), order)
    rows = rows or file.rows(name, order)
    if file.arch == "gemma3" and hf.endswith("norm.weight"):
        rows = _minus_one(rows)
    # Norms and biases stay exact: they are small, and Gemma's lose their last bits in the +1.
    wide = len(shape) == 1
    return Plan(hf, shape, "F32" if wide else "BF16" if file.is_bf16(name) else "F16", rows)


def rope_order(heads: int, head_dim: int) -> np.ndarray:
    """Which GGUF row each HF row is, [heads * head_dim].

    llama.cpp turns neighbouring rows (0, 1), (2, 3) ... of a head together, HF rows (0, d/2), (1, d/2 + 1) ...; its
    converter therefore interleaves the two halves of every head of a llama's q and k, and this takes them apart.
    """
    one = np.arange(head_dim).reshape(head_dim // 2, 2).T.ravel()
    return (np.arange(heads)[:, None] * head_dim + one).ravel()


Rows = Callable[[], Iterator[np.ndarray]]


def _reordered(rows: Rows, order: np.ndarray) -> Rows:
    """For a bias, which is a single row."""
    return lambda: (block[:, order] for block in rows())


def _minus_one(rows: Rows) -> Rows:
    """llama.cpp multiplies by w where Gemma's own code multiplies by (1 + w)."""
    return lambda: (block - 1.0 for block in rows())
