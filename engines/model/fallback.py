"""Any other decoder, run by transformers' own model behind the same calls.

The one file that imports transformers, and only once a model is there that the compact decoder does not cover. Text
must never be wrong, so three things are not taken on trust. Layers with a sliding window get an ordinary cache, for a
cropped window cannot bring back what it dropped; their masks still hide what they should. A model with a state that
runs on from token to token (Mamba, RWKV, ...) cannot be rolled back and is refused before its weights are read. And
every loaded model is tried once: rejected tokens are rolled back, and the logits must equal those of a fresh run.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from engines.errors import UserError

from .config import read_json
from .decoder import too_long
from .linear import TYPES
from .weights import Weights

_CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length")
_CONTEXT = 2048  # of a model that names no limit


def load_fallback(
    folder: Path, dtype: str, device: torch.device, lacking: str, progress: Callable[[float, str], None] | None = None
) -> Fallback:
    """The model in `folder` through transformers. `lacking` is why the compact decoder does not run it.

    Raises UserError when transformers cannot load it from safetensors alone, or when it cannot be rolled back.
    """
    say = progress or (lambda fraction, message: None)
    Weights(folder)  # says what is wrong with the files in words, which transformers does not
    family = read_json(folder / "config.json").get("model_type")
    say(0.0, f"the compact decoder lacks {lacking}; starting transformers")
    try:
        import transformers
    except ImportError:
        raise UserError(
            f"The compact decoder lacks {lacking}, and transformers, which could run it, is not installed: "
            "pip install transformers."
        ) from None
    with _as_user_error(f"transformers cannot load {folder.name} ({family})"):
        config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        kind = transformers.AutoModelForCausalLM._model_mapping.get(type(config), None)
    if kind is None:
        raise UserError(f"{folder.name} ({family}) is not a model that continues text; choose a causal language model.")
    _refuse_state(kind, config, folder.name)
    chosen = _choose(dtype, device)
    say(0.2, "transformers reads the weights")
    with _as_user_error(f"transformers cannot load {folder.name} ({family})"):
        model, report = transformers.AutoModelForCausalLM.from_pretrained(
            folder,
            config=config,
            dtype=TYPES[chosen],
            trust_remote_code=False,
            use_safetensors=True,
            local_files_only=True,
            output_loading_info=True,
        )
    absent = sorted(report.get("missing_keys") or []) + sorted(str(k) for k in report.get("mismatched_keys") or [])
    if absent:
        raise UserError(f"The weights in {folder} lack the tensor {absent[0]}; they are not those of config.json.")
    loaded = Fallback(model.eval().to(device), chosen, folder.name)
    say(0.9, "trying a rollback")
    loaded.check_rollback()
    say(1.0, "ready")
    return loaded


@contextlib.contextmanager
def _as_user_error(what: str):
    """transformers raises whatever comes; its first line is the best that there is to say."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise UserError(f"{what}: {lines[0]}") from error


def _choose(dtype: str, device: torch.device) -> str:
    if dtype == "auto":
        return "fp32" if device.type == "cpu" else "bf16"
    if dtype == "fp16" and device.type == "cpu":
        raise UserError("dtype fp16 on the CPU needs the compact decoder, which lacks this model; choose bf16 or fp32.")
    return dtype


def _refuse_state(kind: type, config: Any, name: str) -> None:
    """Raises UserError for a model that carries a recurrent state: it has no past to go back to."""
    layers = [] if getattr(kind, "_is_stateful", False) else new_cache(config).layers
    if getattr(kind, "_is_stateful", False) or not all(layer.is_croppable for layer in layers):
        raise UserError(
            f"{name} ({config.model_type}) carries a recurrent state that cannot be rolled back to before a rejected "
            "token, so speculation would write wrong text. Choose a model that uses attention only."
        )


def new_cache(config: Any) -> Any:
    """An empty cache in which every attention layer keeps all positions, sliding windows included."""
    from transformers import cache_utils

    cache = cache_utils.DynamicCache(config=config)
    plain = cache_utils.DynamicLayer
    cache.layers = [plain() if type(x) is cache_utils.DynamicSlidingWindowLayer else x for x in cache.layers]
    return cache


class Fallback:
    """A transformers model with the face of `Decoder`."""

    def __init__(self, model: Any, dtype: str, name: str) -> None:
        self.model, self.dtype, self.name = model, dtype, name
        self.device = model.device
        text = model.config.get_text_config(decoder=True)
        self.context = next((v for k in _CONTEXT_KEYS if isinstance(v := getattr(text, k, None), int)), _CONTEXT)
        self.num_layers = getattr(text, "num_hidden_layers", 0)
        self.vocab_size = model.get_output_embeddings().weight.shape[0]
        eos = model.generation_config.eos_token_id
        eos = getattr(text, "eos_token_id", None) if eos is None else eos
        self.eos = tuple(eos) if isinstance(eos, list) else () if eos is None else (eos,)
        self.bos = model.generation_config.bos_token_id or getattr(text, "bos_token_id", None)
        self.weight_bytes = sum(p.nbytes for p in model.parameters())
        takes = inspect.signature(model.forward).parameters
        self._cache_name = "cache" if "cache" in takes else "past_key_values"
        self._keeps = "logits_to_keep" in takes

    def session(self, capacity: int | None = None) -> FallbackSession:
        """A new empty text of at most `capacity` positions; the model's context limit is never exceeded."""
        return FallbackSession(self, min(self.context if capacity is None else capacity, self.context))

    @torch.inference_mode()
    def run(self, ids: Sequence[int], cache: Any, keep: int) -> torch.Tensor:
        """The last `keep` rows of float32 logits [keep, V] of ids [n]; `cache` grows."""
        extra = {"logits_to_keep": max(keep, 1)} if self._keeps else {}
        given = {self._cache_name: cache}
        out = self.model(torch.tensor([ids], device=self.device), use_cache=True, **given, **extra)
        if getattr(out, self._cache_name, None) is not cache:
            raise UserError(f"{self.name} keeps a cache of its own kind, which cannot be rolled back here.")
        return out.logits[0, out.logits.shape[1] - keep :].float()

    def check_rollback(self) -> None:
        """Raises UserError unless what follows a rollback equals a fresh run."""
        ids = [i % self.vocab_size for i in (11, 7, 5, 3, 2, 13, 17, 19, 23, 29)]
        with _as_user_error(f"transformers cannot run {self.name}"):
            fresh = self.session(16).forward(ids)
            tried = self.session(16)
            tried.forward(ids[:4])
            tried.forward([1 % self.vocab_size])
            tried.forward(ids[2:6])
            tried.rollback(3)
            again = tried.forward(ids[3:])
        gap = (again - fresh[3:]).abs().max().item()
        allowed = (1e-3 if self.dtype == "fp32" else 0.1) * max(1.0, fresh.abs().max().item())
        if not gap <= allowed:  # NaN counts as a failure
            raise UserError(
                f"{self.name} gives other results after tokens are rolled back (by {gap:.2g}), so speculation would "
                "write wrong text. Choose another model."
            )


class FallbackSession:
    """One text through a `Fallback` (see `Session`)."""

    def __init__(self, owner: Fallback, capacity: int) -> None:
        self.length, self.capacity = 0, capacity
        self.vocab_size, self.num_layers, self.device = owner.vocab_size, owner.num_layers, owner.device
        self._owner, self._cache = owner, new_cache(owner.model.config)

    trees = False

    def forward(
        self,
        ids: Sequence[int],
        *,
        logits_from: int = 0,
        layers: Sequence[int] | None = None,
        parents: Sequence[int] | None = None,
    ) -> torch.Tensor:
        if layers is not None:
            raise UserError(f"{self._owner.name} is run by transformers, which cannot run some layers only.")
        if parents is not None:
            raise UserError(
                f"{self._owner.name} is run by transformers, and trees are not judged there: leave them out."
            )
        if self.length + len(ids) > self.capacity:
            raise too_long(self._owner.name, self.length + len(ids), self.capacity, self._owner.context)
        if not len(ids):
            return torch.empty(0, self.vocab_size, device=self.device)
        logits = self._owner.run(list(ids), self._cache, max(0, len(ids) - logits_from))
        self.length += len(ids)
        return logits

    def rollback(self, length: int) -> None:
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot roll back from {self.length} to {length}")
        if length == 0:
            self._cache = new_cache(self._owner.model.config)
        elif length < self.length:
            self._cache.crop(length - self.length)  # negative: how many tokens go
        self.length = length

    def keep(self, rows: Sequence[int]) -> None:
        """Without trees, what is kept of a pass is its beginning."""
        if list(rows) != list(range(len(rows))):
            raise ValueError(f"cannot keep rows {list(rows)}: no tree was run")
