"""GGUF metadata -> config.json as model hubs write it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import UserError
from .gguf_file import GGUFFile

ARCHITECTURES = {
    "llama": ("llama", "LlamaForCausalLM"),  # Llama, SmolLM, Mistral
    "qwen2": ("qwen2", "Qwen2ForCausalLM"),
    "qwen3": ("qwen3", "Qwen3ForCausalLM"),
    "gemma3": ("gemma3_text", "Gemma3ForCausalLM"),
}
GEMMA_PATTERN = 6  # five layers with a window, then one that sees everything; GGUF does not say so


def config(file: GGUFFile) -> dict[str, Any]:
    """Raises UserError for an architecture that the conversion does not know."""
    if file.arch not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise UserError(
            f"{file.path} holds a model of architecture {file.arch!r}; GGUFs of {known} can be converted. "
            "Name the model's folder or hub id instead."
        )
    if int(file.get("{arch}.expert_count", 0) or 0) > 0:
        raise UserError(f"{file.path} holds a mixture of experts, which cannot be converted; use its hub id instead.")
    model_type, class_name = ARCHITECTURES[file.arch]
    hidden = int(file.need("{arch}.embedding_length"))
    heads = _one(file, file.need("{arch}.attention.head_count"))
    head_dim = int(file.get("{arch}.attention.key_length") or hidden // heads)
    if int(file.get("{arch}.rope.dimension_count") or head_dim) != head_dim:
        raise UserError(f"{file.path} turns only a part of each head (partial rotary), which is not supported.")
    out: dict[str, Any] = {
        "architectures": [class_name],
        "model_type": model_type,
        "vocab_size": file.shape("token_embd.weight")[0],
        "hidden_size": hidden,
        "intermediate_size": _one(file, file.need("{arch}.feed_forward_length")),
        "num_hidden_layers": int(file.need("{arch}.block_count")),
        "num_attention_heads": heads,
        "num_key_value_heads": _one(file, file.get("{arch}.attention.head_count_kv", heads)),
        "head_dim": head_dim,
        "max_position_embeddings": int(file.get("{arch}.context_length", 2048)),
        "rms_norm_eps": float(np.float32(file.get("{arch}.attention.layer_norm_rms_epsilon", 1e-6))),
        "rope_theta": float(file.get("{arch}.rope.freq_base", 10000.0)),
        "rope_scaling": _rope_scaling(file, head_dim),
        "hidden_act": "silu",
        "tie_word_embeddings": "output.weight" not in file.tensors,
        "bos_token_id": file.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": file.get("tokenizer.ggml.eos_token_id"),
        # What the families were trained in; the tensors themselves are stored in 16-bit floats where they fit.
        "torch_dtype": "bfloat16",
    }
    out["rms_norm_eps"] = float(f"{out['rms_norm_eps']:.6g}")  # 1e-05, not its float32 neighbour
    if file.arch != "qwen2":  # whose q, k and v always have a bias, and o never
        out["attention_bias"] = "blk.0.attn_q.bias" in file.tensors
    window = file.get("{arch}.attention.sliding_window")
    if file.arch == "gemma3":
        out.update(_gemma(file, out, window))
    elif window and file.arch == "llama":  # the first Mistral: a llama with a window on every layer
        out.update(architectures=["MistralForCausalLM"], model_type="mistral", sliding_window=int(window))
    return out


def _one(file: GGUFFile, value: Any) -> int:
    """Some models have a number for each layer; the families here have one for all."""
    values = set(value) if isinstance(value, list) else {value}
    if len(values) != 1:
        raise UserError(f"{file.path} has layers of different shapes, which is not supported.")
    return int(values.pop())


def _gemma(file: GGUFFile, out: dict[str, Any], window: Any) -> dict[str, Any]:
    layers = out["num_hidden_layers"]
    # The scale of the attention is 1/sqrt(head_dim) except in the 27B, the one with 62 layers.
    scalar = out["hidden_size"] // out["num_attention_heads"] if layers == 62 else out["head_dim"]
    return {
        "hidden_activation": "gelu_pytorch_tanh",
        "hidden_act": "gelu_pytorch_tanh",
        "query_pre_attn_scalar": scalar,
        "rope_theta": float(file.get("gemma3.rope.freq_base", 1_000_000.0)),
        "rope_local_base_freq": float(file.get("gemma3.rope.freq_base_swa", 10000.0)),
        "sliding_window": int(window or 512),
        "sliding_window_pattern": GEMMA_PATTERN,
        "layer_types": [
            "full_attention" if (i + 1) % GEMMA_PATTERN == 0 else "sliding_attention" for i in range(layers)
        ],
        "attn_logit_softcapping": None,
        "final_logit_softcapping": None,
    }


def _rope_scaling(file: GGUFFile, head_dim: int) -> dict[str, Any] | None:
    if "rope_freqs.weight" in file.tensors:
        return _llama3_scaling(file, head_dim)
    kind = file.get("{arch}.rope.scaling.type", "none")
    factor = float(file.get("{arch}.rope.scaling.factor", 1.0) or 1.0)
    if kind == "none" or factor == 1.0:
        return None
    if kind not in ("linear", "yarn"):
        raise UserError(f"{file.path} stretches its positions by {kind!r}, which is not supported.")
    out: dict[str, Any] = {"rope_type": kind, "factor": factor}
    original = file.get("{arch}.rope.scaling.original_context_length")
    if kind == "yarn" and original:
        out["original_max_position_embeddings"] = int(original)
    return out


def _llama3_scaling(file: GGUFFile, head_dim: int) -> dict[str, Any]:
    """Llama 3.1's stretching. GGUF stores the finished divisor of each frequency; HF the four numbers behind them.

    Two of the numbers are the same in every release, the largest divisor is the third; the result is checked.
    """
    found = np.concatenate(list(file.rows("rope_freqs.weight")())).ravel()
    factor, low, high, original = float(found.max()), 1.0, 4.0, 8192
    theta = float(file.get("{arch}.rope.freq_base", 10000.0))
    waves = 2 * np.pi * theta ** (np.arange(0, head_dim, 2) / head_dim)
    smooth = np.clip((original / waves - low) / (high - low), 0.0, 1.0)
    if not np.allclose(found, 1 / ((1 - smooth) / factor + smooth), rtol=1e-3):
        raise UserError(f"{file.path} stretches its positions in a way that is not supported.")
    return {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": low,
        "high_freq_factor": high,
        "original_max_position_embeddings": original,
    }
