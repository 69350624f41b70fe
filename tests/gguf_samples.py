"""Tiny GGUF files of every family that can be converted, written with the gguf package from known HF tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np

LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD_DIM, INNER = 2, 64, 4, 2, 16, 96


def hf_tensors(arch: str, vocab: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Random tensors under the hub's names, float32 [out, in], with values that 16 bits hold exactly."""
    rng = np.random.default_rng(seed)

    def rand(*shape: int) -> np.ndarray:
        return rng.integers(-64, 64, shape).astype(np.float32) / 64

    q, kv = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
    out = {"model.embed_tokens.weight": rand(vocab, HIDDEN), "model.norm.weight": rand(HIDDEN)}
    for i in range(LAYERS):
        p = f"model.layers.{i}."
        out |= {
            p + "input_layernorm.weight": rand(HIDDEN),
            p + "post_attention_layernorm.weight": rand(HIDDEN),
            p + "self_attn.q_proj.weight": rand(q, HIDDEN),
            p + "self_attn.k_proj.weight": rand(kv, HIDDEN),
            p + "self_attn.v_proj.weight": rand(kv, HIDDEN),
            p + "self_attn.o_proj.weight": rand(HIDDEN, q),
            p + "mlp.gate_proj.weight": rand(INNER, HIDDEN),
            p + "mlp.up_proj.weight": rand(INNER, HIDDEN),
            p + "mlp.down_proj.weight": rand(HIDDEN, INNER),
        }
        if arch == "qwen2":
            sizes = {"q": q, "k": kv, "v": kv}
            out |= {f"{p}self_attn.{x}_proj.bias": rand(n) for x, n in sizes.items()}
        if arch in ("qwen3", "gemma3"):
            out |= {p + "self_attn.q_norm.weight": rand(HEAD_DIM), p + "self_attn.k_norm.weight": rand(HEAD_DIM)}
        if arch == "gemma3":
            out |= {p + f"{x}_feedforward_layernorm.weight": rand(HIDDEN) for x in ("pre", "post")}
    return out


# llama.cpp's names, spelled out here and not taken from the converter that is tested.
NAMES = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def gguf_name(arch: str, name: str) -> str:
    if name == "model.embed_tokens.weight":
        return "token_embd.weight"
    if name == "model.norm.weight":
        return "output_norm.weight"
    if name == "lm_head.weight":
        return "output.weight"
    _, _, layer, rest = name.split(".", 3)
    stem, kind = rest.rsplit(".", 1)
    inner = NAMES[stem]
    if arch == "gemma3" and stem == "post_attention_layernorm":
        inner = "post_attention_norm"
    return f"blk.{layer}.{inner}.{kind}"


def permuted(weight: np.ndarray, heads: int) -> np.ndarray:
    """What llama.cpp's converter does to q and k of a llama (convert_hf_to_gguf.py, `permute`)."""
    split = weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:])
    return split.swapaxes(1, 2).reshape(weight.shape)


BYTE_LEVEL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def byte_level_vocabulary() -> tuple[list[str], list[int], list[str]]:
    """(tokens, kinds, merges): three control tokens, one that a user defined, the bytes, a few merges, padding."""
    from engines.text.backends import byte_alphabet

    merges = ["t h", "th e", "Ġ the", "i n", "in g", "1 2", "12 3", "Ġ 1", "Ġ Ġ"]
    words = [*BYTE_LEVEL_TOKENS, "<tool_call>", *sorted(byte_alphabet()), *(m.replace(" ", "") for m in merges)]
    kinds = [3, 3, 3, 4] + [1] * (len(words) - 4)
    return words + ["[PAD1]", "[PAD2]"], kinds + [5, 5], merges


def sentencepiece_vocabulary() -> tuple[list[str], list[float], list[int]]:
    """(pieces, scores, kinds), as Gemma's: control tokens, user-defined runs of blanks, bytes, words."""
    pieces = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>", "\n\n", "  "]
    kinds = [3, 3, 3, 2, 3, 3, 4, 4]
    pieces += [f"<0x{b:02X}>" for b in range(256)]
    kinds += [6] * 256
    words = ["▁", "t", "h", "e", "f", "o", "x", "th", "the", "▁the", "fo", "fox", "▁fox", "\n"]
    scores = [0.0] * len(pieces) + [-float(i) for i in range(len(words))]
    longest_first = {w: 30.0 * len(w) for w in words if len(w) > 1}
    scores[len(pieces) :] = [longest_first.get(w, s) for w, s in zip(words, scores[len(pieces) :], strict=True)]
    return pieces + words, scores, kinds + [1] * len(words)


def write_gguf(
    path: Path,
    arch: str = "llama",
    *,
    tensors: dict[str, np.ndarray] | None = None,
    kinds: dict[str, gguf.GGMLQuantizationType] | None = None,
    spm: bool | None = None,
    meta: dict[str, Any] | None = None,
    drop: tuple[str, ...] = (),
    pre: str = "smollm",
) -> dict[str, np.ndarray]:
    """Write a model and return its HF tensors. `kinds` quantises single tensors (by HF name, default F32), `meta`
    overrides keys ({arch} written out), `drop` leaves keys out."""
    spm = arch == "gemma3" if spm is None else spm
    vocab = len((sentencepiece_vocabulary() if spm else byte_level_vocabulary())[0])
    tensors = hf_tensors(arch, vocab) if tensors is None else tensors
    writer = gguf.GGUFWriter(path, arch)
    keys: dict[str, Any] = {
        f"{arch}.block_count": LAYERS,
        f"{arch}.context_length": 512,
        f"{arch}.embedding_length": HIDDEN,
        f"{arch}.feed_forward_length": INNER,
        f"{arch}.attention.head_count": HEADS,
        f"{arch}.attention.head_count_kv": KV_HEADS,
        f"{arch}.attention.key_length": HEAD_DIM,
        f"{arch}.attention.layer_norm_rms_epsilon": 1e-5,
        f"{arch}.rope.freq_base": 10000.0,
        **({"gemma3.attention.sliding_window": 8} if arch == "gemma3" else {}),
        **(meta or {}),
    }
    _add(writer, {k: v for k, v in keys.items() if k not in drop})
    _add_tokenizer(writer, spm, pre, drop)
    for name, value in tensors.items():
        data = value
        if arch == "llama" and ("q_proj" in name or "k_proj" in name):
            data = permuted(value, HEADS if "q_proj" in name else KV_HEADS)
        if arch == "gemma3" and name.endswith("norm.weight"):
            data = value + 1
        kind = (kinds or {}).get(name, gguf.GGMLQuantizationType.F32)
        data = gguf.quantize(np.ascontiguousarray(data, np.float32), kind)
        writer.add_tensor(gguf_name(arch, name), data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tensors


def _add(writer: gguf.GGUFWriter, keys: dict[str, Any]) -> None:
    for key, value in keys.items():
        if isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        elif isinstance(value, float):
            writer.add_float32(key, value)
        elif isinstance(value, str):
            writer.add_string(key, value)
        else:
            writer.add_array(key, value)


def _add_tokenizer(writer: gguf.GGUFWriter, spm: bool, pre: str, drop: tuple[str, ...]) -> None:
    if spm:
        pieces, scores, kinds = sentencepiece_vocabulary()
        ids = {"bos": 2, "eos": 1, "unknown": 3, "padding": 0}
        keys: dict[str, Any] = {"model": "llama", "add_space_prefix": False, "add_bos_token": True}
        keys |= {"tokens": pieces, "scores": scores, "token_type": kinds}
    else:
        tokens, kinds, merges = byte_level_vocabulary()
        ids = {"bos": 1, "eos": 2, "padding": 2}
        keys = {"model": "gpt2", "pre": pre, "tokens": tokens, "token_type": kinds, "merges": merges}
    keys |= {f"{name}_token_id": i for name, i in ids.items()}
    keys = {f"tokenizer.ggml.{k}": v for k, v in keys.items()}
    keys["tokenizer.chat_template"] = "{{ messages[0].content }}"
    _add(writer, {k: v for k, v in keys.items() if k not in drop})
