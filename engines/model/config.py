"""What a folder's config.json says, in one shape for all the families that the compact decoder covers.

The families differ in a dozen switches, not in structure, so they are switches here and the decoder has no file per
family. Whatever is not understood completely raises `NotCompact`, and the model is then run by transformers.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engines.errors import UserError

FAMILIES = ("llama", "qwen2", "qwen3", "mistral", "gemma3_text")
# Of keys that a config.json may leave out, the values that transformers takes for the family.
_DEFAULTS: dict[str, dict[str, Any]] = {
    "llama": {"max_position_embeddings": 2048, "rms_norm_eps": 1e-6, "vocab_size": 32000},
    "qwen2": {"max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "vocab_size": 151936, "sliding_window": 4096,
              "max_window_layers": 28},
    "qwen3": {"max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "vocab_size": 151936, "sliding_window": 4096,
              "max_window_layers": 28, "head_dim": 128},
    "mistral": {"max_position_embeddings": 131072, "rms_norm_eps": 1e-6, "vocab_size": 32000, "sliding_window": 4096,
                "num_key_value_heads": 8},
    "gemma3_text": {"max_position_embeddings": 131072, "rms_norm_eps": 1e-6, "vocab_size": 262208,
                    "sliding_window": 4096, "sliding_window_pattern": 6, "head_dim": 256, "num_attention_heads": 8,
                    "num_key_value_heads": 4, "query_pre_attn_scalar": 256, "tie_word_embeddings": True,
                    "rope_theta": 1e6, "rope_local_base_freq": 1e4, "hidden_activation": "gelu_pytorch_tanh",
                    "eos_token_id": 1, "bos_token_id": 2},
}  # fmt: skip
_ACTIVATIONS = {"silu": "silu", "swish": "silu", "gelu_pytorch_tanh": "gelu_tanh"}
_ROPES = ("default", "linear", "llama3", "yarn")


class NotCompact(Exception):
    """The compact decoder does not cover this model; the message says what it lacks."""


@dataclass(frozen=True)
class Rope:
    """One table of rotary frequencies: the base and how it is stretched beyond the trained context."""

    theta: float
    scaling: dict[str, Any]  # {"rope_type": "default"} or one of _ROPES with its numbers


@dataclass(frozen=True)
class ModelConfig:
    """The architecture of a decoder. `sliding[i]` says whether layer i sees only the last `window` positions.

    `ropes` has the table of the full layers and, if they differ, that of the sliding ones. `context` is the most
    positions that the model was made for.
    """

    family: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    eps: float
    context: int
    tied: bool
    ropes: tuple[Rope, Rope]
    window: int | None
    sliding: tuple[bool, ...]
    qkv_bias: bool
    out_bias: bool
    mlp_bias: bool
    qk_norm: bool
    gemma: bool  # norms multiply by (1 + w), and stand behind attention and MLP too
    activation: str  # "silu" or "gelu_tanh"
    embed_scale: float
    attn_scale: float
    eos: tuple[int, ...]
    bos: int | None

    @classmethod
    def from_folder(cls, path: str | Path) -> ModelConfig:
        """Reads config.json and, if there, generation_config.json. Raises UserError and NotCompact."""
        path = Path(path)
        data = read_json(path / "config.json")
        generation = read_json(path / "generation_config.json") if (path / "generation_config.json").exists() else {}
        return cls.from_dict(data, generation)

    @classmethod
    def from_dict(cls, data: dict[str, Any], generation: dict[str, Any] | None = None) -> ModelConfig:
        """`data` is a config.json, `generation` a generation_config.json, whose EOS ids go before the former's."""
        if data.get("model_type") == "gemma3":
            if not isinstance(data.get("text_config"), dict):
                raise UserError("config.json names a Gemma 3 model without its text_config; get the file again.")
            inherited = {k: v for k, v in data.items() if k.endswith("_token_id") or k == "quantization_config"}
            data = {**inherited, **data["text_config"], "model_type": "gemma3_text"}
        family = data.get("model_type")
        if family not in FAMILIES:
            raise NotCompact(f"the family {family!r}")
        data = {**_DEFAULTS[family], **{k: v for k, v in data.items() if v is not None or k == "sliding_window"}}
        _refuse_the_unknown(data)
        gemma = family == "gemma3_text"
        layers, heads, hidden = (
            _whole(data, "num_hidden_layers"),
            _whole(data, "num_attention_heads"),
            _whole(data, "hidden_size"),
        )
        kv_heads = _whole(data, "num_key_value_heads", heads)
        head_dim = _whole(data, "head_dim", hidden // heads)
        if heads % kv_heads or head_dim % 2:
            raise UserError(f"config.json is inconsistent: {heads} heads, {kv_heads} key/value heads of {head_dim}.")
        window, sliding = _windows(family, data, layers)
        activation = data.get("hidden_activation") if gemma else data.get("hidden_act", "silu")
        if activation not in _ACTIVATIONS:
            raise NotCompact(f"the activation {activation!r}")
        bias = bool(data.get("attention_bias", False))
        eos = (generation or {}).get("eos_token_id")
        eos = data.get("eos_token_id") if eos is None else eos
        return cls(
            family=family,
            hidden=hidden,
            layers=layers,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            intermediate=_whole(data, "intermediate_size"),
            vocab=_whole(data, "vocab_size"),
            eps=_number(data, "rms_norm_eps"),
            context=_whole(data, "max_position_embeddings"),
            tied=bool(data.get("tie_word_embeddings", False)),
            ropes=_ropes(data, _whole(data, "max_position_embeddings")),
            window=window,
            sliding=sliding,
            qkv_bias=family == "qwen2" or bias,
            out_bias=family != "qwen2" and bias,
            mlp_bias=bool(data.get("mlp_bias", False)),
            qk_norm=family in ("qwen3", "gemma3_text"),
            gemma=gemma,
            activation=_ACTIVATIONS[activation],
            embed_scale=math.sqrt(hidden) if gemma else 1.0,
            attn_scale=(_number(data, "query_pre_attn_scalar") if gemma else head_dim) ** -0.5,
            eos=tuple(eos) if isinstance(eos, list) else () if eos is None else (int(eos),),
            bos=data.get("bos_token_id"),
        )


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises UserError when it is missing or not one."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path.parent} has no {path.name}: it is not a model folder.") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read ({error}); get the file again.") from None
    if not isinstance(data, dict):
        raise UserError(f"{path} does not hold a JSON object; get the file again.")
    return data


def _whole(data: dict[str, Any], key: str, default: int | None = None) -> int:
    value = data.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UserError(f"config.json says {key} = {value!r}, which must be a whole number above 0.")
    return value


def _number(data: dict[str, Any], key: str, default: float | None = None) -> float:
    value = data.get(key)
    value = default if value is None else value
    if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
        raise UserError(f"config.json says {key} = {value!r}, which must be a number above 0.")
    return float(value)


def _refuse_the_unknown(data: dict[str, Any]) -> None:
    """Settings that change the arithmetic and that the decoder does not have."""
    for key in ("quantization_config", "attn_logit_softcapping", "final_logit_softcapping"):
        if data.get(key) is not None:
            raise NotCompact(f"{key} in config.json")
    if data.get("use_bidirectional_attention"):
        raise NotCompact("bidirectional attention")
    if data.get("partial_rotary_factor", 1) != 1:
        raise NotCompact("rotary positions on a part of each head")


def _windows(family: str, data: dict[str, Any], layers: int) -> tuple[int | None, tuple[bool, ...]]:
    """The sliding window, and which layers have it: listed, or by the family's own rule."""
    window = data.get("sliding_window")
    if family in ("qwen2", "qwen3") and not data.get("use_sliding_window", False):
        window = None
    if window is None or family == "llama":
        return None, (False,) * layers
    window = _whole(data, "sliding_window")
    types = data.get("layer_types")
    if family == "mistral" and not types:
        return window, (True,) * layers
    if not types:
        if family == "gemma3_text":
            pattern = _whole(data, "sliding_window_pattern")
            return window, tuple((i + 1) % pattern != 0 for i in range(layers))
        return window, tuple(i >= data["max_window_layers"] for i in range(layers))
    unknown = set(types) - {"full_attention", "sliding_attention"}
    if unknown:
        raise NotCompact(f"layers of the kind {sorted(unknown)[0]!r}")
    if len(types) < layers:
        raise UserError(f"config.json lists {len(types)} layer_types for {layers} layers; they must be as many.")
    return window, tuple(t == "sliding_attention" for t in types[:layers])


def _ropes(data: dict[str, Any], context: int) -> tuple[Rope, Rope]:
    """(full, sliding), from the fields of transformers 4 (rope_theta, rope_scaling) or 5 (rope_parameters)."""
    theta = _number(data, "rope_theta", 10000.0)
    new = data.get("rope_parameters")
    local_theta = _number(data, "rope_local_base_freq", theta)
    if isinstance(new, dict) and isinstance(new.get("full_attention"), dict):
        full, local = new["full_attention"], new.get("sliding_attention") or {}
    elif isinstance(new, dict):
        full = local = new
        local_theta = theta
    else:
        full = data.get("rope_scaling") or {}
        local = {} if "rope_local_base_freq" in data else full
    return _rope(full, theta, context), _rope(local, local_theta, context)


def _rope(fields: dict[str, Any], theta: float, context: int) -> Rope:
    scaling = dict(fields)
    kind = scaling.pop("type", None)
    scaling["rope_type"] = kind = scaling.get("rope_type", kind) or "default"
    if kind == "mrope":  # the text part of a picture model: plain positions
        scaling["rope_type"] = kind = "default"
    if kind not in _ROPES:
        raise NotCompact(f"rotary positions of the kind {kind!r}")
    if scaling.get("partial_rotary_factor", 1) != 1:
        raise NotCompact("rotary positions on a part of each head")
    if kind == "yarn" or kind == "llama3":
        scaling.setdefault("original_max_position_embeddings", context)
    theta = _number(scaling, "rope_theta", theta)
    scaling.pop("rope_theta", None)
    return Rope(theta, scaling)
