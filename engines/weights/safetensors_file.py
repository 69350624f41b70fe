"""Writing a safetensors file tensor by tensor, so that a model is never in memory twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

BYTES = {"F32": 4, "F16": 2, "BF16": 2}
FP16_MAX = 65504.0


@dataclass
class Plan:
    """One tensor to be written: `rows()` yields float32 blocks [r, columns] that make up `shape` in order.

    `dtype` is F32, BF16 or F16; F16 is a wish that becomes BF16 when a value does not fit.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    rows: Callable[[], Iterator[np.ndarray]]

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape)) * BYTES[self.dtype]


def to_bf16(values: np.ndarray) -> np.ndarray:
    """float32 -> the upper 16 bits, rounded to nearest even, as uint16 of the same shape."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def write(path: Path, plans: list[Plan], on_bytes: Callable[[int, int], None] | None = None) -> None:
    """Write `plans` to `path`. Raises ValueError for a value that is not finite, or for rows that do not fill a shape.

    The header comes first but names the types, which are known last: it is written with the widest names, filled
    with blanks, and written again at the end in the same length.
    """
    # Four-byte tensors first: every tensor then begins at a multiple of its own element size.
    plans = sorted(plans, key=lambda p: p.dtype != "F32")
    total = sum(p.nbytes for p in plans)
    dtypes = {p.name: "BF16" if p.dtype == "F16" else p.dtype for p in plans}
    length = -(-len(_header(plans, dtypes)) // 8) * 8
    with open(path, "wb") as out:
        out.write(b" " * (8 + length))
        done = 0
        for plan in plans:
            dtypes[plan.name] = _write_tensor(out, plan)
            done += plan.nbytes
            if on_bytes is not None:
                on_bytes(done, total)
        out.seek(0)
        out.write(length.to_bytes(8, "little") + _header(plans, dtypes).ljust(length))


def _header(plans: list[Plan], dtypes: dict[str, str]) -> bytes:
    entries: dict[str, object] = {"__metadata__": {"format": "pt"}}
    at = 0
    for plan in plans:
        entries[plan.name] = {
            "dtype": dtypes[plan.name],
            "shape": list(plan.shape),
            "data_offsets": [at, at + plan.nbytes],
        }
        at += plan.nbytes
    return json.dumps(entries, separators=(",", ":")).encode()


def _write_tensor(out, plan: Plan) -> str:
    """Write one tensor where the file stands and return the type that it got."""
    start = out.tell()
    for dtype in (plan.dtype, "BF16"):
        out.seek(start)
        if all(_write_block(out, block, dtype, plan.name) for block in plan.rows()):
            break
    if out.tell() != start + plan.nbytes:
        raise ValueError(f"tensor {plan.name} has {out.tell() - start} bytes instead of {plan.nbytes}")
    return dtype


def _write_block(out, block: np.ndarray, dtype: str, name: str) -> bool:
    """False when the block does not fit into 16-bit floats."""
    top = float(np.abs(block).max(initial=0.0))
    if not np.isfinite(top):
        raise ValueError(f"tensor {name} holds a value that is not a finite number")
    if dtype == "F16" and top > FP16_MAX:
        return False
    data = to_bf16(block) if dtype == "BF16" else block.astype(np.float16 if dtype == "F16" else np.float32)
    out.write(np.ascontiguousarray(data).data)
    return True
