"""The kernels of the matrix products: what a weight is kept as, and which product runs over it.

On the CPU activations are float32 throughout, so the residual stream and the attention lose nothing; only the product
itself runs in the kernel's own precision. What a row costs beside the first one decides what speculation can win
there, and differs by kernel and CPU, hence `choose` measures.

- fp32: plain.
- bf16: weights and products in bfloat16; each row's result does not depend on how many rows there are, up to
  `_MANY`. On a CPU without bfloat16 instructions more rows than that (a prompt) go through float32, block by block.
- fp16: on the CPU FBGEMM's product of float16 weights with float32 activations (x86 with AVX2), which sums in float32
  and is as accurate as fp32 over the rounded weights; reading half the bytes makes it nearly flat in the number of
  rows. Its results for 1 to 3 rows differ from those for 4 and more by about 1e-6 of their size, as another
  blocking adds in another order. On a GPU it is plain half precision.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from engines.errors import UserError

TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
HALF_MAX = 65504.0
# A matrix of more rows is packed in blocks of about so many: packing takes float32 copies, whose size this bounds, and
# walks down columns, which is three times slower once a column spans more than the cache's and the TLB's pages.
_BLOCK_ROWS = 8192
_MANY = 64  # rows from which converting the weights costs less than multiplying in emulated bfloat16


class HalfOverflow(Exception):
    """A weight does not fit float16."""


class Dense:
    """y = x W^T + b in the weight's own type. x [n, in] of any float type, y [n, out]."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        self.weight, self.bias, self.dtype = weight, bias, weight.dtype
        self.bytes = weight.nbytes + (0 if bias is None else bias.nbytes)
        emulated = weight.device.type == "cpu" and weight.dtype == torch.bfloat16 and not native_bf16()
        self._many = _MANY if emulated else 2**62

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        x = x.to(self.dtype)
        return F.linear(x, self.weight, self.bias) if len(x) < self._many else self._converted(x)

    def _converted(self, x: torch.Tensor) -> torch.Tensor:
        out = torch.empty(len(x), len(self.weight), dtype=self.dtype)
        x = x.float()
        for i in range(0, len(self.weight), _BLOCK_ROWS):
            rows = slice(i, i + _BLOCK_ROWS)
            part = F.linear(x, self.weight[rows].float())
            out[:, rows] = part if self.bias is None else part.add_(self.bias[rows])
        return out


class PackedHalf:
    """y = x W^T + b, W in float16 as FBGEMM packs it, everything else float32. x [n, in] contiguous."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        """`weight` float32, contiguous; it is not kept."""
        self._packed = torch.ops.quantized.linear_prepack_fp16(weight, bias)
        self._run = torch.ops.quantized.linear_dynamic_fp16.default
        rows, columns = weight.shape
        # FBGEMM pads to panels of 16 rows by 512 columns, and those bytes are in use, too.
        self.bytes = 2 * (-(-rows // 16) * 16) * (-(-columns // 512) * 512) + (0 if bias is None else bias.nbytes)

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


def native_bf16() -> bool:
    """Whether the CPU multiplies bfloat16 itself, or has wide enough vectors for a fast emulation."""
    try:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    except (AttributeError, RuntimeError):  # a build without oneDNN
        return False


class Scratch:
    """Memory that is used again for one matrix after the other, so that loading leaves no holes behind."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, torch.dtype], torch.Tensor] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """An uninitialised tensor; it overwrites what was taken under the same `name` and type before."""
        size = math.prod(shape)
        held = self._held.get((name, dtype))
        if held is None or held.numel() < size:
            held = self._held[name, dtype] = torch.empty(size, dtype=dtype)
        return held[:size].view(shape)


def make(
    dtype: str,
    device: torch.device,
    weights: list[torch.Tensor],
    bias: list[torch.Tensor] | None = None,
    scratch: Scratch | None = None,
) -> Kernel:
    """The kernel over `weights` ([out_i, in] each, as stored), stacked in their order; `bias` likewise.

    Raises UserError when this machine lacks the kernel, HalfOverflow when a weight does not fit float16.
    """
    rows, columns = sum(len(w) for w in weights), weights[0].shape[1]
    packed = dtype == "fp16" and device.type == "cpu"
    if packed and not has_packed_half():
        raise UserError("dtype fp16 needs an x86 CPU with AVX2 here; choose bf16, fp32 or auto.")
    if dtype == "fp16":
        for w in weights:
            check_half(w)
    offsets = None if bias is None else torch.cat([b.float() for b in bias])
    if not packed:
        out = torch.empty(rows, columns, dtype=TYPES[dtype], device=device)
        _stack(weights, 0, out)
        return Dense(out, None if offsets is None else offsets.to(device, TYPES[dtype]))
    scratch = scratch or Scratch()
    step = -(-rows // -(-rows // _BLOCK_ROWS))  # as many blocks as needed, of equal size
    parts = []
    for i in range(0, rows, step):
        block = scratch.take("block", (min(step, rows - i), columns), torch.float32)
        _stack(weights, i, block)
        parts.append(PackedHalf(block, None if offsets is None else offsets[i : i + step].clone()))
    return parts[0] if len(parts) == 1 else Blocks(parts)


def _stack(weights: list[torch.Tensor], start: int, out: torch.Tensor) -> None:
    """Rows start .. start + len(out) - 1 of the stacked weights, converted into `out`."""
    at = -start  # where the next weight begins in `out`
    for w in weights:
        low, high = max(at, 0), min(at + len(w), len(out))
        if low < high:
            out[low:high].copy_(w[low - at : high - at])
        at += len(w)


def check_half(weight: torch.Tensor) -> None:
    """Raises HalfOverflow unless all of `weight` is finite in float16."""
    if weight.dtype != torch.float16 and weight.numel():
        low, high = torch.aminmax(weight)
        if max(-low.item(), high.item()) > HALF_MAX:
            raise HalfOverflow
