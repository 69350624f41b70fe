"""Which dtype "auto" means."""

from __future__ import annotations

import torch

from .config import ModelConfig
from .linear import has_packed_half


def choose_dtype(config: ModelConfig, device: torch.device) -> str:
    """bf16 on a GPU; on the CPU the packed float16 product where it exists, else fp32."""
    if device.type != "cpu":
        return "bf16"
    return "fp16" if has_packed_half() else "fp32"
