"""What a run is asked to do: plain frozen data, checked on construction, JSON in and out."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

from .errors import UserError

PROPOSERS = ("none", "draft", "ngram", "layer-skip", "eagle", "suffix", "recycle", "auto")
VERIFIERS = ("token", "block")
DTYPES = ("auto", "fp32", "bf16", "fp16")
MAX_K = 32
# Below this temperature the law is one-hot for every purpose: exp(gap / T) of the smallest gap that single
# precision resolves already under- or overflows, so T = 1e-4 and T = 0 mean the same thing.
GREEDY_BELOW = 1e-3


def _need(ok: bool, message: str) -> None:
    if not ok:
        raise UserError(message)


def _number(name: str, value: Any) -> float:
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    _need(good, f"{name} must be a number, not {value!r}.")
    return value


def _whole(name: str, value: Any, low: int, high: int | None = None) -> None:
    good = isinstance(value, int) and not isinstance(value, bool) and value >= low and (high is None or value <= high)
    span = f"of at least {low}" if high is None else f"from {low} to {high}"
    _need(good, f"{name} must be a whole number {span}, not {value!r}.")


@dataclass(frozen=True)
class Sampling:
    """How logits become the probability row that a token is drawn from.

    Applied in this order: repetition penalty, temperature, top-k, top-p, min-p (the order of transformers).
    The defaults leave the model's own distribution at T = 0, that is, greedy decoding.
    """

    temperature: float = 0.0
    top_k: int = 0  # 0: off
    top_p: float = 1.0  # 1: off
    min_p: float = 0.0  # 0: off
    repetition_penalty: float = 1.0  # 1: off

    def __post_init__(self) -> None:
        for name in ("temperature", "top_p", "min_p", "repetition_penalty"):
            _number(name.replace("_", "-"), getattr(self, name))
        _need(0 <= self.temperature <= 10, f"temperature must lie in 0 to 10, not {self.temperature}.")
        _whole("top-k", self.top_k, 0)
        _need(0 < self.top_p <= 1, f"top-p must lie above 0 and up to 1, not {self.top_p}.")
        _need(0 <= self.min_p <= 1, f"min-p must lie in 0 to 1, not {self.min_p}.")
        _need(
            0 < self.repetition_penalty <= 10,
            f"repetition-penalty must lie above 0 and up to 10 (1 is off), not {self.repetition_penalty}.",
        )

    @property
    def greedy(self) -> bool:
        return self.temperature < GREEDY_BELOW


@dataclass(frozen=True)
class RunSettings:
    """Everything that decides what a run does; two equal settings and prompts give two equal runs.

    `draft_sampling` is the draft's own warping; None means the same as the target's. `skip_layers` are the
    indices of the target's layers that the layer-skip proposer leaves out; empty means the default choice. `draft` is a
    model for the proposer "draft", a trained head for "eagle" (None: the one made for the target). `branch` is how many
    tokens may follow one in a proposal: 1 is a chain, more a tree, of k tokens in all, 0 what the proposer does by
    itself (recycling makes trees, all others chains). `remember`: suffix lookup looks in earlier outputs, too.
    """

    target: str = "smollm2-135m-instruct"
    proposer: str = "none"
    draft: str | None = None
    k: int = 4
    adaptive: bool = False
    branch: int = 0
    remember: bool = False
    verify: str = "token"
    sampling: Sampling = field(default_factory=Sampling)
    draft_sampling: Sampling | None = None
    skip_layers: tuple[int, ...] = ()
    ngram_min: int = 1
    ngram_max: int = 4
    seed: int = 0
    max_new_tokens: int = 128
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    raw: bool = False
    dtype: str = "auto"
    device: str = "auto"
    candidates: int = 0  # how many top candidates of p and q each verdict carries

    def __post_init__(self) -> None:
        _need(isinstance(self.target, str) and self.target.strip() != "", "Name a target model.")
        _need(
            isinstance(self.proposer, str) and self.proposer != "",
            f"proposer must be one of {', '.join(PROPOSERS)}, not {self.proposer!r}.",
        )
        _need(
            self.verify in VERIFIERS,
            f"verify must be one of {', '.join(VERIFIERS)}, not {self.verify!r}.",
        )
        _need(self.dtype in DTYPES, f"dtype must be one of {', '.join(DTYPES)}, not {self.dtype!r}.")
        _whole("k", self.k, 1, MAX_K)
        _whole("branch", self.branch, 0, 16)
        _whole("ngram-min", self.ngram_min, 1, 64)
        _whole("ngram-max", self.ngram_max, 1, 64)
        _need(
            self.ngram_min <= self.ngram_max,
            f"ngram-min ({self.ngram_min}) must not exceed ngram-max ({self.ngram_max}).",
        )
        _whole("seed", self.seed, 0, 2**63 - 1)
        _whole("max-new-tokens", self.max_new_tokens, 1)
        _whole("candidates", self.candidates, 0, 20)
        for i in self.skip_layers:
            _whole("skip-layers", i, 0)
        for s in self.stop:
            _need(isinstance(s, str) and s != "", "A stop string must not be empty.")
        if self.proposer == "draft":
            _need(bool(self.draft), "proposer 'draft' needs a draft model: name one with --draft.")

    def replace(self, **changes: Any) -> RunSettings:
        return dataclasses.replace(self, **changes)

    def plain(self) -> RunSettings:
        """The same run with nothing proposed: the baseline that a speed-up is measured against."""
        return self.replace(proposer="none", draft=None, adaptive=False, branch=0, remember=False)

    def baseline(self) -> RunSettings:
        """The plain run that all settings share which differ in speculation alone."""
        usual = RunSettings()
        return self.plain().replace(
            k=usual.k,
            verify=usual.verify,
            skip_layers=(),
            ngram_min=usual.ngram_min,
            ngram_max=usual.ngram_max,
            draft_sampling=None,
        )

    def to_json(self) -> dict[str, Any]:
        out = dataclasses.asdict(self)
        out["skip_layers"] = list(self.skip_layers)
        out["stop"] = list(self.stop)
        return out

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> RunSettings:
        """Raises UserError on an unknown key or a bad value."""
        _need(isinstance(data, dict), "Settings must be a JSON object.")
        data = dict(data)
        names = {f.name for f in dataclasses.fields(cls)}
        unknown = sorted(set(data) - names)
        _need(not unknown, f"Unknown setting: {', '.join(unknown)}.")
        for key in ("sampling", "draft_sampling"):
            if isinstance(data.get(key), dict):
                try:
                    data[key] = Sampling(**data[key])
                except TypeError as error:
                    raise UserError(f"Bad {key} settings: {error}.") from None
        for key in ("skip_layers", "stop"):
            if key in data:
                data[key] = tuple(data[key])
        return cls(**data)
