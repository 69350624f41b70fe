"""Published EAGLE and EAGLE-3 heads (safetensors) -> `Head`, beside a target that the compact decoder runs.

Three layouts, told apart by their tensors and config.json:

- EAGLE-1 and EAGLE-2, github.com/SafeAILab/EAGLE (Li et al. 2024, arXiv 2401.15077): `fc` [H, 2H] reads [embedding,
  state], where the state is the target's behind its final norm; then one Llama layer without an input norm. What it
  puts out is the next state, and goes through the target's own vocabulary layer as it is.
- EAGLE-3, same place (Li et al. 2025, arXiv 2503.01840): `fc` [H, 3 H_target] reads the target's residual stream after
  2, L // 2 and L - 3 of its L layers. `midlayer`'s queries, keys and values read [input_layernorm(embedding),
  hidden_norm(state)] side by side, and its residual is the state. `norm` and `lm_head` [V', H] follow; row i of it is
  the target's token i + d2t[i]. The next state is what stands before `norm`.
- The same two in the layout of github.com/vllm-project/speculators: the layer's shape is config.json's
  `transformer_layer_config`, and EAGLE's tensors may be called `fusion_fc` and `transformer`. With
  `norm_before_residual` the layer adds to its normed state.

`eagle_aux_hidden_state_layer_ids` at the top of config.json count the layers before a feature (as vLLM reads them);
inside `eagle_config` they name the layer whose output it is, one less (as SGLang and SpecForge read them). Features are
taken in the order of the layers. Embeddings are unscaled, also where the target (Gemma) scales its own.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import torch

from ..errors import UserError
from . import linear
from .config import ModelConfig, NotCompact, read_json
from .decoder import Decoder, Layer
from .head import Head
from .rope import pair_rows
from .weights import Weights

_RENAMED = (("midlayer.", "layers.0."), ("transformer.", "layers.0."), ("fusion_fc.", "fc."))
_PRODUCTS = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
             "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")  # fmt: skip
_KNOWN = {"fc.weight", "fc.bias", "embed_tokens.weight", "layers.0.post_attention_layernorm.weight"}
_KNOWN |= {f"layers.0.{p}.{kind}" for p in _PRODUCTS for kind in ("weight", "bias")}
_KNOWN3 = {f"layers.0.{n}.weight" for n in ("hidden_norm", "input_layernorm", "self_attn.q_norm", "self_attn.k_norm")}
_KNOWN3 |= {"norm.weight", "lm_head.weight", "d2t", "t2d"}
_UNUSED = ("rotary_emb.inv_freq", "verifier_norm.weight", "verifier_lm_head.weight")  # left over from training
# Settings of later variants, which compute something else: of EAGLE 3.1, and of heads that draft in parallel.
_VARIANTS = ("norm_before_fc", "fc_norm", "norm_output", "parallel_drafting")


def _common(name: str) -> str:
    """A tensor's name in any layout -> the one that is used here."""
    for theirs, ours in _RENAMED:
        if name.startswith(theirs):
            return ours + name.removeprefix(theirs)
    return name


def is_published(folder: str | Path) -> bool:
    """Whether a folder looks like a published EAGLE head; `load_published` may still refuse it, and says why."""
    folder = Path(folder)
    if not (folder / "config.json").is_file():
        return False
    card = read_json(folder / "config.json")
    if card.get("speculators_model_type") or card.get("draft_vocab_size"):
        return True
    try:
        return "fc.weight" in {_common(n) for n in Weights(folder).names()}
    except UserError:
        return False


@torch.inference_mode()
def load_published(folder: str | Path, target: Any, name: str | None = None) -> Head:
    """The head in `folder` (config.json, model.safetensors), ready to run beside `target`.

    Raises UserError when it is no EAGLE head, is a variant that is not supported here, was made for another target, or
    lacks files or tensors; and when `target` is run by transformers.
    """
    folder = Path(folder)
    name = name or folder.name
    card = read_json(folder / "config.json")
    if not isinstance(target, Decoder):
        raise UserError(
            f"{name} needs a target that the compact decoder runs, and {target.name} is run by transformers."
        )
    _refuse_variants(card, name)
    tensors = _Tensors(folder, name, target)
    tensors.config = config = _layer_config(card, name, target)
    made = card.get("target_hidden_size") if tensors.wide else None
    for what, theirs, here in (
        ("hidden size", config.hidden if made is None else made, target.config.hidden),
        ("vocabulary", config.vocab, target.vocab_size),
    ):
        if theirs != here:
            raise UserError(
                f"{name} was made for a target with a {what} of {theirs}, and {target.name} has one of {here}: choose "
                "a head made for this target, or train one."
            )
    try:
        return _eagle3(tensors, card) if tensors.wide else _eagle1(tensors)
    except linear.HalfOverflow:
        raise UserError(f"Some weights of {name} are too large for fp16; choose bf16 or fp32.") from None


def _refuse_variants(card: dict[str, Any], name: str) -> None:
    kind = card.get("speculators_model_type")
    if kind not in (None, "eagle", "eagle3"):
        raise UserError(f"{name} is a speculator of the kind {kind!r}; only eagle and eagle3 are supported here.")
    nested = _nested(card)
    for key in _VARIANTS:
        if card.get(key) or nested.get(key):
            raise UserError(f"{name} is a variant of EAGLE-3 that is not supported here ({key} in config.json).")
    if nested.get("use_aux_hidden_state", True) is False:
        raise UserError(f"{name} reads only the target's last state, a variant of EAGLE-3 not supported here.")


def _nested(card: dict[str, Any]) -> dict[str, Any]:
    inner = card.get("eagle_config")
    return inner if isinstance(inner, dict) else {}


def _layer_config(card: dict[str, Any], name: str, target: Decoder) -> ModelConfig:
    """The shape of the head's layer. The repository of EAGLE has Llama's layer for all targets."""
    inner, family = card, "llama"
    if "speculators_model_type" in card:
        inner = card.get("transformer_layer_config")
        if not isinstance(inner, dict):
            raise UserError(f"The config.json of {name} has no transformer_layer_config; get the file again.")
        family = inner.get("model_type", "llama")
        if family not in ("llama", "qwen3"):
            raise UserError(f"{name} has a layer of the family {family!r}; only llama and qwen3 are supported here.")
    try:
        config = ModelConfig.from_dict({**inner, "model_type": family, "num_hidden_layers": 1})
    except NotCompact as reason:
        raise UserError(f"{name} cannot be run by the compact decoder: {reason}.") from None
    # Trained on short texts, it is used as far as the target goes.
    return dataclasses.replace(config, context=target.context, eos=target.eos, bos=target.bos)


class _Tensors:
    """A head's tensors under their common names, in the form that the decoder wants. `wide`: EAGLE-3.

    `config` is set once it is known. A GPU runs the head in the target's own type; so does a CPU.
    """

    config: ModelConfig

    def __init__(self, folder: Path, name: str, target: Decoder) -> None:
        self.name, self.target, self.weights = name, target, Weights(folder)
        self._stored = {_common(n): n for n in self.weights.names()}
        self.wide = self.has("layers.0.hidden_norm.weight")
        if not self.wide and not self.has("fc.weight"):
            raise UserError(
                f"{folder} holds no trained head that can be read here: neither one of this project's own form nor a "
                "published EAGLE or EAGLE-3 head (it has no tensor fc.weight)."
            )
        if any(n.startswith("layers.") and not n.startswith("layers.0.") for n in self._stored):
            raise UserError(f"{name} has more than one layer, and only heads of one layer are supported here.")
        known = _KNOWN | _KNOWN3 if self.wide else _KNOWN
        for n, stored in self._stored.items():
            if n not in known and not n.endswith(_UNUSED):
                raise UserError(f"{name} is a variant of EAGLE that is not supported here: it has the tensor {stored}.")

    def has(self, name: str) -> bool:
        return name in self._stored

    def read(self, name: str, shape: tuple[int, ...], whole: bool = False) -> torch.Tensor:
        return self.weights.read(self._stored.get(name, name), shape, whole=whole)

    def product(self, rows: dict[str, int], columns: int, turned: int = 0) -> linear.Kernel:
        """The product of the stacked weights; the rows of the first `turned` ones are brought side by side."""
        weights, offsets = [], []
        for i, (name, n) in enumerate(rows.items()):
            pair = [self.read(f"{name}.weight", (n, columns))]
            pair.append(self.read(f"{name}.bias", (n,)) if self.has(f"{name}.bias") else torch.zeros(n))
            weight, offset = (pair_rows(x, self.config.head_dim) if i < turned else x for x in pair)
            weights.append(weight)
            offsets.append(offset)
        bias = offsets if any(self.has(f"{name}.bias") for name in rows) else None
        return linear.make(self.target.dtype, self.target.device, weights, bias)

    def norm(self, name: str, size: int, heads: int = 0) -> torch.Tensor:
        """A norm's weight, float32, times sqrt(size) (see `Decoder._norm`); [heads, size] for queries and keys."""
        w = self.read(f"{name}.weight", (size,)).float() * size**0.5
        return (pair_rows(w, size).expand(heads, size) if heads else w).to(self.target.device)

    def layer(self, norm_before_residual: bool = False) -> Layer:
        c, wide, at = self.config, self.wide, "layers.0."
        q, k, v, o, gate, up, down = (at + p for p in _PRODUCTS)
        queries, kv = c.heads * c.head_dim, c.kv_heads * c.head_dim
        qk_norm = None
        if c.qk_norm or self.has(f"{at}self_attn.q_norm.weight"):
            parts = (("self_attn.q_norm", c.heads), ("self_attn.k_norm", c.kv_heads))
            qk_norm = torch.cat([self.norm(at + n, c.head_dim, heads) for n, heads in parts])
        return Layer(
            norm=self.norm(f"{at}hidden_norm", c.hidden) if wide else None,
            qkv=self.product({q: queries, k: kv, v: kv}, c.hidden * (2 if wide else 1), turned=2),
            out=self.product({o: c.hidden}, queries),
            mlp_norm=self.norm(f"{at}post_attention_layernorm", c.hidden),
            gate_up=self.product({gate: c.intermediate, up: c.intermediate}, c.hidden),
            down=self.product({down: c.hidden}, c.intermediate),
            qk_norm=qk_norm,
            beside=self.norm(f"{at}input_layernorm", c.hidden) if wide else None,
            norm_before_residual=norm_before_residual,
        )

    def embedding(self) -> torch.Tensor:
        """The head's own, [V, H], or the target's memory where it has none or the same."""
        theirs = self.target._embedding
        if not self.has("embed_tokens.weight") and self.config.hidden == self.target.config.hidden:
            return theirs
        own = self.read("embed_tokens.weight", (self.target.vocab_size, self.config.hidden))
        if theirs.dtype == torch.float16:
            linear.check_half(own)
        own = own.to(theirs.device, theirs.dtype)
        return theirs if torch.equal(own, theirs) else own

    def decoder(self, layer: Layer, norm: torch.Tensor, head: linear.Kernel, *more: linear.Kernel) -> Decoder:
        """The layer over the head's own cache. `more` are the products beside it, for the count of bytes."""
        embedding, target = self.embedding(), self.target
        used = [layer.qkv, layer.out, layer.gate_up, layer.down, *more] + ([head] if head is not target._head else [])
        total = sum(k.bytes for k in used) + (embedding.nbytes if embedding is not target._embedding else 0)
        return Decoder(self.config, target.dtype, embedding, [layer], norm, head, total, self.name)


def _eagle1(tensors: _Tensors) -> Head:
    target, H = tensors.target, tensors.config.hidden
    mix = tensors.product({"fc": H}, 2 * H)
    decoder = tensors.decoder(tensors.layer(), target._final, target._head, mix)
    ids = torch.arange(target.vocab_size, device=target.device)
    taps = (target.num_layers,)
    return Head(decoder, target, taps, ids, None, mix, final=False, normed=True, name=tensors.name)


def _eagle3(tensors: _Tensors, card: dict[str, Any]) -> Head:
    target, H = tensors.target, tensors.config.hidden
    taps = _taps(card, target, tensors.name)
    fuse = tensors.product({"fc": H}, len(taps) * target.config.hidden)
    ids = _ids(tensors, card)
    shared = not tensors.has("lm_head.weight") and len(ids) == target.vocab_size and target.config.hidden == H
    out = target._head if shared else tensors.product({"lm_head": len(ids)}, H)
    layer = tensors.layer(bool(card.get("norm_before_residual")))
    decoder = tensors.decoder(layer, tensors.norm("norm", H), out, fuse)
    return Head(decoder, target, taps, ids, fuse, name=tensors.name)


def _taps(card: dict[str, Any], target: Decoder, name: str) -> tuple[int, ...]:
    """Behind how many of the target's layers the features are taken."""
    L = target.num_layers
    taps = card.get("eagle_aux_hidden_state_layer_ids")
    outputs = _nested(card).get("eagle_aux_hidden_state_layer_ids")
    try:
        taps = list(taps) if taps else [i + 1 for i in outputs] if outputs else [2, L // 2, L - 3]
        fits = len(set(taps)) == len(taps) and all(1 <= t <= L for t in taps)
    except TypeError:
        fits = False
    if not fits:
        raise UserError(
            f"{name} reads the states after layers {taps} of its target, which {target.name}, with {L} layers, does "
            "not have: choose a head made for this target."
        )
    return tuple(sorted(taps))


def _ids(tensors: _Tensors, card: dict[str, Any]) -> torch.Tensor:
    """The target's id [V'] of each row of the head's vocabulary layer."""
    vocab = tensors.target.vocab_size
    rows = card.get("draft_vocab_size") or vocab
    if not isinstance(rows, int):
        raise UserError(f"config.json says draft_vocab_size = {rows!r}, which must be a whole number.")
    ids = torch.arange(rows)
    if tensors.has("d2t") or rows != vocab:
        ids = ids + tensors.read("d2t", (rows,), whole=True).long()
    good = bool(((ids >= 0) & (ids < vocab)).all()) and len(ids.unique()) == rows
    if good and tensors.has("t2d"):
        chosen = tensors.read("t2d", (vocab,), whole=True).bool()
        good = not bool(chosen.any()) or (int(chosen.sum()) == rows and bool(chosen[ids].all()))
    if not good:
        raise UserError(
            f"{tensors.name} is damaged or made for another target: its d2t names tokens that the target lacks, or "
            "names some twice, or does not agree with its t2d. Get it again."
        )
    return ids.to(tensors.target.device)
