"""Tiny random EAGLE checkpoints as they are published, and what they mean, in plain torch.

The reference is written from the published definitions alone: no cache, no batching, nothing of `engines`. Features
and the target's own weights come from transformers.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

VOCAB, HIDDEN, LAYERS = 17, 32, 7  # of the targets
DRAFT = [0, 2, 3, 5, 7, 8, 11, 13, 16]  # the target's ids that a small vocabulary layer has


@dataclass
class Case:
    """One checkpoint. `layout`: eagle1, eagle3, or either in the layout of speculators (spec1, spec3).

    `taps` are the counts of target layers that the published definition leads to, `card` what config.json says besides
    the sizes, `bias` the products that have one.
    """

    layout: str
    target: str
    taps: tuple[int, ...]
    card: dict = field(default_factory=dict)
    layer: dict = field(default_factory=dict)
    hidden: int = HIDDEN
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 8
    eps: float = 1e-5
    theta: float = 10000.0
    stretch: float = 1.0  # linear rope scaling
    bias: tuple[str, ...] = ()
    qk_norm: bool = False
    own_embedding: bool = False
    small: bool = True  # EAGLE-3: a vocabulary layer of few rows
    out: bool = True  # EAGLE-3: a vocabulary layer at all
    before: bool = False  # norm_before_residual

    @property
    def wide(self) -> bool:
        return self.layout.endswith("3")


EAGLE3_TAPS = (2, 3, 4)  # 2, L // 2 and L - 3 of 7 layers
CASES = {
    "eagle1-llama": Case("eagle1", "llama", (LAYERS,), {"rope_theta": 500.0}, theta=500.0),
    "eagle1-qwen3": Case(
        "eagle1", "qwen3", (LAYERS,), {"model_type": "qwen2"}, bias=("fc", "q", "k", "v"), own_embedding=True, heads=2,
        kv_heads=1, head_dim=16, eps=1e-3,
    ),
    "eagle1-gemma": Case("eagle1", "gemma", (LAYERS,), bias=("fc",), kv_heads=4),
    "eagle3-llama": Case(
        "eagle3", "llama", EAGLE3_TAPS, {"rope_theta": 300.0}, theta=300.0, head_dim=12, own_embedding=True
    ),
    "eagle3-qwen3": Case(
        "eagle3", "qwen3", EAGLE3_TAPS, {"target_hidden_size": HIDDEN}, hidden=24, own_embedding=True, heads=3,
        kv_heads=3, qk_norm=True,
    ),
    "eagle3-gemma": Case(
        "eagle3", "gemma", (1, 4, 6), {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 3, 5]}}, small=False,
    ),
    "eagle3-shared": Case("eagle3", "llama", EAGLE3_TAPS, small=False, out=False, bias=("q", "v", "o")),
    "spec3-llama": Case(
        "spec3", "llama", (1, 5, 7),
        {"norm_before_residual": True, "eagle_aux_hidden_state_layer_ids": [1, 5, 7], "norm_before_fc": False},
        {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 200.0}},
        theta=200.0, stretch=4.0, before=True, own_embedding=True,
    ),
    "spec3-qwen3": Case(
        "spec3", "qwen3", EAGLE3_TAPS, {"norm_before_residual": False, "eagle_aux_hidden_state_layer_ids": None},
        {"model_type": "qwen3", "rope_theta": 100.0}, theta=100.0, qk_norm=True, bias=("fc",),
    ),
    "spec3-gemma": Case(
        "spec3", "gemma", (3, 6), {"norm_before_residual": True, "eagle_aux_hidden_state_layer_ids": [3, 6]},
        before=True,
    ),
    "spec1-llama": Case("spec1", "llama", (LAYERS,), bias=("fc",)),
}  # fmt: skip


def tensors_of(case: Case) -> dict[str, torch.Tensor]:
    """Random weights under the names of EAGLE-3's `layers.0` form; all of them matter."""
    g = torch.Generator().manual_seed(11)
    H, D, wide = case.hidden, case.head_dim, case.wide
    width = 2 * H if wide else H
    shapes = {
        "fc": (H, len(case.taps) * HIDDEN if wide else 2 * H),
        "layers.0.self_attn.q_proj": (case.heads * D, width),
        "layers.0.self_attn.k_proj": (case.kv_heads * D, width),
        "layers.0.self_attn.v_proj": (case.kv_heads * D, width),
        "layers.0.self_attn.o_proj": (H, case.heads * D),
        "layers.0.mlp.gate_proj": (40, H),
        "layers.0.mlp.up_proj": (40, H),
        "layers.0.mlp.down_proj": (H, 40),
    }
    norms = {"layers.0.post_attention_layernorm": H}
    if wide:
        norms |= {"layers.0.hidden_norm": H, "layers.0.input_layernorm": H, "norm": H}
        if case.out:
            shapes["lm_head"] = (len(DRAFT) if case.small else VOCAB, H)
    if case.qk_norm:
        norms |= {"layers.0.self_attn.q_norm": D, "layers.0.self_attn.k_norm": D}
    if case.own_embedding:
        shapes["embed_tokens"] = (VOCAB, H)
    out = {}
    for name, shape in shapes.items():
        out[f"{name}.weight"] = torch.randn(shape, generator=g) * 1.5 * shape[1] ** -0.5
        if name.split(".")[-1].removesuffix("_proj") in case.bias:
            out[f"{name}.bias"] = torch.randn(shape[0], generator=g) * 0.5
    for name, size in norms.items():
        out[f"{name}.weight"] = 1 + 0.3 * torch.randn(size, generator=g)
    if wide and case.small:
        out["d2t"] = torch.tensor(DRAFT) - torch.arange(len(DRAFT))
        out["t2d"] = torch.zeros(VOCAB, dtype=torch.bool).index_fill_(0, torch.tensor(DRAFT), True)
    return out


def save(case: Case, folder: Path, changes: dict | None = None, card_changes: dict | None = None) -> Path:
    """Writes the checkpoint as its project does. `changes` replaces tensors (None: leaves them out) under their common

    names; `card_changes` does so in config.json.
    """
    tensors = {**tensors_of(case), **(changes or {})}
    renamed = {}
    for name, tensor in tensors.items():
        if tensor is None:
            continue
        if case.layout == "eagle3":
            name = name.replace("layers.0.", "midlayer.")
        elif case.layout == "spec1":
            name = name.replace("layers.0.", "transformer.").replace("fc.", "fusion_fc.")
        renamed[name] = tensor.contiguous()
    layer = {
        "model_type": "llama", "hidden_size": case.hidden, "intermediate_size": 40, "num_hidden_layers": 1,
        "num_attention_heads": case.heads, "num_key_value_heads": case.kv_heads, "head_dim": case.head_dim,
        "rms_norm_eps": case.eps, "vocab_size": VOCAB, "hidden_act": "silu", "max_position_embeddings": 16,
        **case.layer,
    }  # fmt: skip
    if case.layout.startswith("spec"):
        card = {"speculators_model_type": f"eagle{'3' if case.wide else ''}", "transformer_layer_config": layer}
    else:
        card = {"architectures": ["LlamaForCausalLM"], **layer}
    if case.wide:
        card["draft_vocab_size"] = len(DRAFT) if case.small else VOCAB
    card = {**card, **case.card, **(card_changes or {})}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(card))
    save_file(renamed, folder / "model.safetensors")
    return folder


def rms(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return x * (x.pow(2).mean(-1, keepdim=True) + eps).rsqrt() * weight


class Reference:
    """What a published head computes. `model` is the target, of transformers."""

    def __init__(self, case: Case, model, kind: str) -> None:
        self.case, self.model, self.w = case, model, tensors_of(case)
        # The raw rows, also where the target multiplies them by a factor.
        self.embedding = self.w.get("embed_tokens.weight", model.get_input_embeddings().weight.data)
        theirs = model.get_output_embeddings().weight.data
        self.out = self.w.get("lm_head.weight", theirs) if case.wide else theirs
        self.ids = torch.tensor(DRAFT) if case.wide and case.small else torch.arange(VOCAB)

    @torch.no_grad()
    def features(self, ids: list[int]) -> torch.Tensor:
        """g [n, H] that the target's pass over `ids` [n] gives: the normed last state, or three streams through fc."""
        states = self.model(torch.tensor([ids]), output_hidden_states=True, use_cache=False).hidden_states
        if not self.case.wide:
            return states[-1][0]  # transformers' last one is normed
        raw = []
        hook = self.model.model.layers[-1].register_forward_hook(
            lambda module, args, out: raw.append(out[0] if isinstance(out, tuple) else out)
        )
        self.model(torch.tensor([ids]), use_cache=False)
        hook.remove()
        states = [*states[:-1], raw[0]]
        joined = torch.cat([states[t][0] for t in self.case.taps], -1)
        return F.linear(joined, self.w["fc.weight"], self.w.get("fc.bias"))

    @torch.no_grad()
    def states(self, tokens: list[int], g: torch.Tensor) -> torch.Tensor:
        """The layer over positions 0 .. n - 1, each with the token after it and its state g [n, H] -> [n, H]."""
        c, w, n = self.case, self.w, len(tokens)
        e = self.embedding[torch.tensor(tokens)]
        if c.wide:
            normed = rms(g, w["layers.0.hidden_norm.weight"], c.eps)
            read = torch.cat((rms(e, w["layers.0.input_layernorm.weight"], c.eps), normed), -1)
            x = normed if c.before else g
        else:
            read = x = F.linear(torch.cat((e, g), -1), w["fc.weight"], w.get("fc.bias"))

        def product(name: str, y: torch.Tensor) -> torch.Tensor:
            return F.linear(y, w[f"layers.0.{name}_proj.weight"], w.get(f"layers.0.{name}_proj.bias"))

        q, k, v = (product(f"self_attn.{m}", read).view(n, -1, c.head_dim).transpose(0, 1) for m in "qkv")
        if c.qk_norm:
            q = rms(q, w["layers.0.self_attn.q_norm.weight"], c.eps)
            k = rms(k, w["layers.0.self_attn.k_norm.weight"], c.eps)
        half = c.head_dim // 2
        angles = torch.outer(torch.arange(n) / c.stretch, c.theta ** -(torch.arange(half) / half))

        def turn(y: torch.Tensor) -> torch.Tensor:
            a, b = y[..., :half], y[..., half:]
            return torch.cat((a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()), -1)

        k, v = (y.repeat_interleave(c.heads // c.kv_heads, 0) for y in (turn(k), v))
        scores = turn(q) @ k.transpose(-1, -2) / math.sqrt(c.head_dim)
        scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), -torch.inf)
        x = x + product("self_attn.o", (scores.softmax(-1) @ v).transpose(0, 1).reshape(n, -1))
        y = rms(x, w["layers.0.post_attention_layernorm.weight"], c.eps)
        return x + product("mlp.down", F.silu(product("mlp.gate", y)) * product("mlp.up", y))

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        if self.case.wide:
            states = rms(states, self.w["norm.weight"], self.case.eps)
        return states @ self.out.T

    def chain(self, text: list[int], guesses: list[int]) -> torch.Tensor:
        """States [len(text) - 1 + len(guesses), H]: those that rest on the target, then one for each guess in turn."""
        g = self.features(text[:-1])
        out = self.states(text[1:], g)
        for i in range(len(guesses)):
            g = torch.cat((g, out[-1:]))
            out = torch.cat((out, self.states([*text[1:], *guesses[: i + 1]], g)[-1:]))
        return out

    def greedy(self, text: list[int], k: int) -> list[int]:
        """The k tokens that a chain proposes after `text`."""
        guesses: list[int] = []
        for _ in range(k):
            best = self.logits(self.chain(text, guesses)[-1:]).argmax()
            guesses.append(int(self.ids[best]))
        return guesses
