"""The kernels of the matrix products: what a weight is kept as, and which product runs over it.

On the CPU activations are float32 throughout, so the residual stream and the attention lose nothing; only the product
itself runs in the kernel's own precision. What a row costs beside the first one decides what speculation can win
there, and differs by kernel and CPU, hence `choose` measures.

- fp32: plain.
- bf16: weights and products in bfloat16; each row's result does not depend on how many rows there are.
- fp16: on the CPU FBGEMM's product of float16 weights with float32 activations (x86 with AVX2), which sums in float32
  and is as accurate as fp32 over the rounded weights; reading half the bytes makes it nearly flat in the number of
  rows. Its results for 1 to 3 rows differ from those for 4 and more by about 1e-6 of their size, as another
  blocking adds in another order. On a GPU it is plain half precision.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.nn.functional as F

from engines.errors import UserError

TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
HALF_MAX = 65504.0
# Rows of a large matrix are packed in blocks of about this many bytes of float32, so that packing the vocabulary layer
# of a large vocabulary takes a bounded amount of memory beside the packed weights.
_BLOCK_BYTES = 128 * 2**20


class HalfOverflow(Exception):
    """A weight does not fit float16."""


class Dense:
    """y = x W^T + b in the weight's own type. x [n, in] of any float type, y [n, out]."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        self.weight, self.bias, self.dtype = weight, bias, weight.dtype
        self.bytes = weight.nbytes + (0 if bias is None else bias.nbytes)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x.to(self.dtype), self.weight, self.bias)


class PackedHalf:
    """y = x W^T + b, W in float16 as FBGEMM packs it, everything else float32. x [n, in] contiguous."""

    _product = None

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        self._packed = torch.ops.quantized.linear_prepack_fp16(weight.contiguous(), bias)
        self._run = torch.ops.quantized.linear_dynamic_fp16.default
        self.bytes = weight.numel() * 2 + (0 if bias is None else bias.nbytes)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self._run(x, self._packed)


class Blocks:
    """The rows of one matrix cut into several kernels."""

    def __init__(self, parts: list[PackedHalf]) -> None:
        self._parts = parts
        self.bytes = sum(p.bytes for p in parts)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([p(x) for p in self._parts], dim=-1)


Kernel = Dense | PackedHalf | Blocks


def has_packed_half() -> bool:
    """Whether this build and CPU have FBGEMM's float16 product."""
    engines = torch.backends.quantized.supported_engines
    return ("fbgemm" in engines or "x86" in engines) and hasattr(torch.ops.quantized, "linear_prepack_fp16")


def make(
    dtype: str, device: torch.device, weights: Iterable[torch.Tensor], bias: Iterable[torch.Tensor] | None = None
) -> Kernel:
    """The kernel over `weights` ([out_i, in] each, as stored), stacked in their order; `bias` likewise.

    Raises UserError when this machine lacks the kernel, HalfOverflow when a weight does not fit float16.
    """
    weights = list(weights)
    rows = sum(w.shape[0] for w in weights)
    packed = dtype == "fp16" and device.type == "cpu"
    if packed and not has_packed_half():
        raise UserError("dtype fp16 needs an x86 CPU with AVX2 here; choose bf16, fp32 or auto.")
    if dtype == "fp16":
        for w in weights:
            check_half(w)
    offsets = None if bias is None else torch.cat([b.float() for b in bias])
    if not packed:
        out = torch.empty(rows, weights[0].shape[1], dtype=TYPES[dtype], device=device)
        torch.cat([w.to(device) for w in weights], out=out) if len(weights) > 1 else out.copy_(weights[0])
        return Dense(out, None if offsets is None else offsets.to(device, TYPES[dtype]))
    if len(weights) > 1:
        return PackedHalf(torch.cat([w.float() for w in weights]), offsets)
    step = max(1, _BLOCK_BYTES // (4 * weights[0].shape[1]))
    parts = [
        PackedHalf(weights[0][i : i + step].float(), None if offsets is None else offsets[i : i + step])
        for i in range(0, rows, step)
    ]
    return parts[0] if len(parts) == 1 else Blocks(parts)


def check_half(weight: torch.Tensor) -> None:
    """Raises HalfOverflow unless all of `weight` is finite in float16."""
    if weight.dtype != torch.float16 and weight.numel():
        low, high = torch.aminmax(weight)
        if max(-low.item(), high.item()) > HALF_MAX:
            raise HalfOverflow
