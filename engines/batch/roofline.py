"""What a GPU would make of it, by calculation: the time of a pass as the longer of moving its bytes and doing its sums.

The roofline model (Williams, Waterman and Patterson 2009, CACM 52(4)) with the two ceilings that decoding runs into. A
pass reads all weights once, whatever the batch, and every sequence's own keys and values; its arithmetic grows with
batch times tokens. While reading takes longer, the k more tokens of a proposal cost nothing, and speculation gains all
of its tokens per pass; once the arithmetic takes longer, every rejected token costs what an accepted one does. Nothing
here is measured: no real pass reaches the data sheet's figures, and the time of drafting is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..cost import expected_tokens
from ..errors import UserError

if TYPE_CHECKING:
    from ..model.config import ModelConfig

LARGEST = 2**20  # sequences: beyond that the gain is said never to end


@dataclass(frozen=True)
class Gpu:
    """`bandwidth` of the memory in bytes per second, `flops` per second of dense bfloat16 matrix products that are

    summed in float32. `source` says where the figures are from. Raises UserError for figures that are none.
    """

    name: str
    bandwidth: float
    flops: float
    source: str

    def __post_init__(self) -> None:
        for what, value in (("memory bandwidth", self.bandwidth), ("rate of arithmetic", self.flops)):
            if not 0 < value < float("inf"):
                raise UserError(f"The {what} of a GPU must be a number above 0.")


# Makers state the rate with structured sparsity for most; dense is half of that.
GPUS = (
    Gpu("NVIDIA L4", 300e9, 121e12, "NVIDIA L4 data sheet (242 with sparsity)"),
    Gpu("NVIDIA RTX 3090", 936e9, 71e12, "NVIDIA GA102 architecture white paper, appendix A"),
    Gpu("NVIDIA RTX 4090", 1008e9, 165.2e12, "NVIDIA Ada GPU architecture white paper, appendix A"),
    Gpu("NVIDIA RTX 5090", 1792e9, 209.5e12, "NVIDIA RTX Blackwell GPU architecture white paper, appendix A"),
    Gpu("NVIDIA L40S", 864e9, 362e12, "NVIDIA L40S data sheet (733 with sparsity)"),
    Gpu("NVIDIA A100 80GB SXM", 2039e9, 312e12, "NVIDIA A100 80GB data sheet"),
    Gpu("NVIDIA H100 SXM", 3350e9, 989e12, "NVIDIA H100 data sheet (1 979 with sparsity)"),
    Gpu("NVIDIA H200 SXM", 4800e9, 989e12, "NVIDIA H200 data sheet (1 979 with sparsity)"),
    Gpu("NVIDIA B200", 8000e9, 2250e12, "NVIDIA DGX B200 data sheet, an eighth of it (4 500 with sparsity)"),
    Gpu("AMD MI300X", 5300e9, 1307e12, "AMD Instinct MI300X data sheet"),
)


@dataclass(frozen=True)
class Size:
    """What a model has to read and to compute.

    `weights` are the parameters of its matrix products, those of the vocabulary layer included, the embedding's not
    (a pass looks up a few of its rows); `weight_bytes` of each. `cache` are the keys and values of one position, all
    layers together, `cache_bytes` of each. `width` is layers x heads x head size, which attention's products grow with.
    """

    name: str
    weights: float
    cache: float
    width: float
    weight_bytes: float = 2.0
    cache_bytes: float = 2.0

    def __post_init__(self) -> None:
        for what, value in (
            ("number of parameters", self.weights),
            ("bytes per weight", self.weight_bytes),
            ("bytes per cached number", self.cache_bytes),
        ):
            if not 0 < value < float("inf"):
                raise UserError(f"The {what} of a model must be above 0.")
        if not (0 <= self.cache < float("inf") and 0 <= self.width < float("inf")):
            raise UserError("The layers and heads of a model must not be below 0.")

    @property
    def weight_total(self) -> float:
        """Bytes of weights that a pass reads."""
        return self.weights * self.weight_bytes

    @property
    def cache_total(self) -> float:
        """Bytes of keys and values per position of a sequence."""
        return self.cache * self.cache_bytes


def shape(
    name: str, layers: int, hidden: int, heads: int, kv_heads: int, head_dim: int, intermediate: int, vocab: int
) -> Size:
    """The size of a dense decoder with gated MLPs, from the numbers of its config.json."""
    layer = hidden * head_dim * (2 * heads + 2 * kv_heads) + 3 * hidden * intermediate
    return Size(name, layers * layer + vocab * hidden, 2 * layers * kv_heads * head_dim, layers * heads * head_dim)


def size_of(name: str, c: ModelConfig) -> Size:
    """The size of a model of the compact decoder."""
    return shape(name, c.layers, c.hidden, c.heads, c.kv_heads, c.head_dim, c.intermediate, c.vocab)


# From each model's own config.json on the hub.
SIZES = (
    shape("SmolLM2-135M", 30, 576, 9, 3, 64, 1536, 49152),
    shape("Qwen2.5-Coder-1.5B", 28, 1536, 12, 2, 128, 8960, 151936),
    shape("Llama-3.1-8B", 32, 4096, 32, 8, 128, 14336, 128256),
    shape("Qwen3-14B", 40, 5120, 40, 8, 128, 17408, 151936),
    shape("Qwen3-32B", 64, 5120, 64, 8, 128, 25600, 151936),
    shape("Llama-3.1-70B", 80, 8192, 64, 8, 128, 28672, 128256),
)


def bytes_moved(model: Size, batch: int, tokens: int, context: float) -> float:
    """Bytes of a pass over `tokens` of each of `batch` sequences that have `context` positions before them: the weights

    once, the keys and values of every sequence, and the new ones written.
    """
    return model.weight_total + batch * (context + tokens) * model.cache_total


def operations(model: Size, batch: int, tokens: int, context: float) -> float:
    """Floating-point operations of such a pass: two for each weight and token, and attention's two products."""
    seen = context + (tokens + 1) / 2  # positions that a token looks at, on average
    return batch * tokens * (2 * model.weights + 4 * model.width * seen)


def pass_seconds(gpu: Gpu, model: Size, batch: int, tokens: int, context: float = 0.0) -> float:
    """max(bytes / bandwidth, operations / peak). ValueError for a batch or tokens below 1, or a context below 0."""
    if batch < 1 or tokens < 1 or context < 0:
        raise ValueError(f"need batch and tokens of 1 or more, context of 0 or more; got {batch}, {tokens}, {context}")
    return max(
        bytes_moved(model, batch, tokens, context) / gpu.bandwidth,
        operations(model, batch, tokens, context) / gpu.flops,
    )


def speedup(gpu: Gpu, model: Size, batch: int, a: float, k: int, context: float = 0.0) -> float:
    """Expected tokens per pass at acceptance rate `a` (i.i.d.) x the time of a plain pass / of one over k + 1 tokens

    each. Drafting is taken to cost nothing, as with lookup.
    """
    plain = pass_seconds(gpu, model, batch, 1, context)
    return expected_tokens(a, k) * plain / pass_seconds(gpu, model, batch, k + 1, context)


def gain_ends(gpu: Gpu, model: Size, a: float, k: int, context: float = 0.0) -> int | None:
    """The smallest batch with no gain any more (speed-up of 1 or less); None when it does not end.

    It never does where reading the keys and values of long texts takes longer than the arithmetic, however many
    sequences there are: that is where speculation pays on busy servers, too (Chen et al. 2024, MagicDec,
    arXiv 2408.11049). The speed-up falls with the batch, so halving finds the place.
    """
    if speedup(gpu, model, LARGEST, a, k, context) > 1:
        return None
    low, high = 0, LARGEST  # at `high` the gain is gone
    while high - low > 1:
        middle = (low + high) // 2
        if speedup(gpu, model, middle, a, k, context) > 1:
            low = middle
        else:
            high = middle
    return high


def rate_of(per_pass: float, k: int) -> float:
    """The acceptance rate at which k proposed tokens yield `per_pass` tokens a pass: `expected_tokens` turned around.

    A measured yield holds rounds with nothing to propose as well, which the rate per judged token knows nothing of.
    """
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if expected_tokens(middle, k) < per_pass else (low, middle)
    return high if per_pass > 1 else 0.0


def find_gpu(name: str) -> Gpu:
    """By name or a part of it, in any case. Raises UserError when none or several match."""
    return _find(name, GPUS, "GPU", "or give its figures as GB/s,TFLOP/s")


def find_size(name: str) -> Size:
    """One of SIZES, likewise."""
    return _find(name, SIZES, "model", "each in bfloat16")


def _find(name: str, among: Sequence[Any], what: str, more: str) -> Any:
    wanted = name.lower().replace(" ", "")
    plain = {one.name.lower().replace(" ", ""): one for one in among}
    found = [one for key, one in plain.items() if wanted and wanted in key]
    if wanted in plain or len(found) == 1:
        return plain.get(wanted) or found[0]
    names = ", ".join(one.name for one in found or among)
    raise UserError(f"No one {what} of the table is called {name!r}: choose one of {names}, {more}.")


def curve(gpu: Gpu, model: Size, sizes: Sequence[int], a: float, k: int, context: float = 0.0) -> list[float]:
    """`speedup` at each of `sizes`."""
    return [speedup(gpu, model, size, a, k, context) for size in sizes]
