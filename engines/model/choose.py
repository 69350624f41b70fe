"""Which dtype "auto" means: on a GPU bfloat16, on the CPU whichever kernel is fastest here, by measurement.

Plain decoding passes one row, verification k + 1; so what counts is t(1) + t(5). Which kernel wins depends on the CPU:
where bfloat16 is native it is flat in the number of rows, elsewhere the packed float16 product may be, and float32
doubles at two rows. The measurement takes about a second on the model's own shapes, over enough weights that they do
not stay in the CPU's cache, and is remembered in the product's cache folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import time
from pathlib import Path

import torch

from engines.weights.places import home

from . import linear
from .config import ModelConfig

ROWS = (1, 5)
_PARAMETERS = 24_000_000  # 48 MB in the smallest kernel, 192 MB in all, which take turns and so evict one another
_REPEATS = 7


def ranking(config: ModelConfig, device: torch.device) -> list[str]:
    """Usable dtypes, the best first."""
    if device.type == "cuda":
        return ["bf16", "fp16"] if torch.cuda.is_bf16_supported(including_emulation=False) else ["fp16", "fp32"]
    if device.type == "mps":
        return ["bf16", "fp16"] if _multiplies_bf16(device) else ["fp16", "fp32"]
    shapes = matrices(config)
    key = " | ".join((_cpu_name(), torch.__version__, f"{torch.get_num_threads()} threads", repr(shapes)))
    known = _remembered()
    times = known.get(key)
    if not _plausible(times):
        times = measure(shapes, config.layers)
        _remember({**known, key: times})
    return sorted(times, key=lambda dtype: sum(times[dtype]))


def matrices(config: ModelConfig) -> list[tuple[int, int]]:
    """Shapes (rows, columns) of one layer's products, as the decoder stacks them."""
    c = config
    width = c.heads * c.head_dim
    qkv = width + 2 * c.kv_heads * c.head_dim
    return [(qkv, c.hidden), (c.hidden, width), (2 * c.intermediate, c.hidden), (c.hidden, c.intermediate)]


@torch.inference_mode()
def measure(shapes: list[tuple[int, int]], layers: int) -> dict[str, list[float]]:
    """dtype -> seconds for 1 and for 5 rows over the same weights; the shortest of interleaved repeats.

    Over at most as many layers as the model has: what fits the cache when measured then does so in use.
    """
    usable = [d for d in linear.TYPES if d != "fp16" or linear.has_packed_half()]
    kernels: dict[str, list[tuple[linear.Kernel, int]]] = {d: [] for d in usable}
    total = 0
    for _ in range(layers):
        if total >= _PARAMETERS:
            break
        for rows, columns in shapes:
            rows = max(16, min(rows, _PARAMETERS // 2 // columns))  # of a giant, a part
            weight = torch.full((rows, columns), 0.01)
            for dtype in usable:
                kernels[dtype].append((linear.make(dtype, torch.device("cpu"), [weight]), columns))
            total += rows * columns
    inputs = {n: {columns: torch.full((n, columns), 0.5) for _, columns in shapes} for n in ROWS}
    times = {d: [float("inf")] * len(ROWS) for d in usable}
    for _ in range(_REPEATS):
        for at, n in enumerate(ROWS):
            for dtype in usable:
                start = time.perf_counter()
                for kernel, columns in kernels[dtype]:
                    kernel(inputs[n][columns])
                times[dtype][at] = min(times[dtype][at], time.perf_counter() - start)
    return times


def _multiplies_bf16(device: torch.device) -> bool:
    try:
        one = torch.ones(2, 2, dtype=torch.bfloat16, device=device)
        return bool((one @ one).sum().item() == 8)
    except (RuntimeError, TypeError):
        return False


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.lower().startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _file() -> Path:
    return home() / "kernels.json"


def _remembered() -> dict:
    try:
        data = json.loads(_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _remember(data: dict) -> None:
    """Whole or not at all; a folder that cannot be written to costs a second at each load, and nothing else."""
    path = _file()
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(data, indent=1), encoding="utf-8")
        part.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()


def _plausible(times: object) -> bool:
    """Whether a remembered entry can be used: all kernels of this machine, each with its numbers."""
    if not isinstance(times, dict):
        return False
    usable = {d for d in linear.TYPES if d != "fp16" or linear.has_packed_half()}
    return set(times) == usable and all(
        isinstance(t, list) and len(t) == len(ROWS) and all(isinstance(x, float) and x > 0 for x in t)
        for t in times.values()
    )
