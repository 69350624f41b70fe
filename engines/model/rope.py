"""Rotary positions: the frequencies of each kind of stretching, and tables of turns.

A pair of numbers (a, b) at position p is turned by the angle p * f: as complex numbers, (a + bi) * exp(ipf). The
published weights keep a and b half a head apart; `pair_rows` brings them side by side when weights are loaded, so that
a head is a row of complex numbers and a turn is one product. Dot products do not see that order.
"""

from __future__ import annotations

import math

import torch

from engines.errors import UserError

from .config import Rope


def pair_rows(weight: torch.Tensor, head_dim: int) -> torch.Tensor:
    """Reorders rows [heads * head_dim, ...] from (all a, all b) to (a, b, a, b, ...) within each head."""
    rest = weight.shape[1:]
    return weight.reshape(-1, 2, head_dim // 2, *rest).transpose(1, 2).reshape(-1, *rest)


def frequencies(rope: Rope, dim: int) -> tuple[torch.Tensor, float]:
    """Angle per position for each pair, float32 [dim / 2], and a factor on queries and keys (YaRN's; else 1).

    linear: Chen et al. 2023 (position interpolation). llama3: as published with Llama 3.1. yarn: Peng et al. 2023.
    """
    base = 1.0 / rope.theta ** (torch.arange(0, dim, 2, dtype=torch.float32) / dim)
    s = rope.scaling
    try:
        if s["rope_type"] == "linear":
            return base / float(s["factor"]), 1.0
        if s["rope_type"] == "llama3":
            return _llama3(base, s), 1.0
        if s["rope_type"] == "yarn":
            return _yarn(base, rope.theta, dim, s)
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise UserError(f"The rope scaling in config.json is incomplete ({error!r}); get the file again.") from None
    return base, 1.0


def _llama3(base: torch.Tensor, s: dict) -> torch.Tensor:
    old = float(s["original_max_position_embeddings"])
    low, high, factor = float(s["low_freq_factor"]), float(s["high_freq_factor"]), float(s["factor"])
    turns = old * base / (2 * math.pi)  # how often a pair turns over the trained context
    keep = ((turns - low) / (high - low)).clamp(0, 1)  # 1: fast, left alone; 0: slow, stretched
    return base * keep + base / factor * (1 - keep)


def _yarn(base: torch.Tensor, theta: float, dim: int, s: dict) -> tuple[torch.Tensor, float]:
    factor, old = float(s["factor"]), float(s["original_max_position_embeddings"])

    def pair_of(turns: float) -> float:  # the (fractional) index of the pair that turns so often
        return dim * math.log(old / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low, high = pair_of(float(s.get("beta_fast") or 32)), pair_of(float(s.get("beta_slow") or 1))
    if s.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    ramp = ((torch.arange(dim // 2, dtype=torch.float32) - low) / max(high - low, 1e-3)).clamp(0, 1)
    scaled = base / factor * ramp + base * (1 - ramp)

    def magnitude(weight: float) -> float:
        return 0.1 * weight * math.log(factor) + 1 if factor > 1 else 1.0

    if s.get("attention_factor") is not None:
        return scaled, float(s["attention_factor"])
    if s.get("mscale") and s.get("mscale_all_dim"):
        return scaled, magnitude(float(s["mscale"])) / magnitude(float(s["mscale_all_dim"]))
    return scaled, magnitude(1.0)


class Turns:
    """A table of turns, complex64 [positions, 1, dim / 2], that grows as far as it is asked for."""

    def __init__(self, rope: Rope, dim: int, device: torch.device) -> None:
        self._frequencies, self._factor = frequencies(rope, dim)
        self._device = device
        self.table = torch.empty(0, 1, dim // 2, dtype=torch.complex64, device=device)

    def upto(self, length: int) -> torch.Tensor:
        """The table with at least `length` positions."""
        if length > len(self.table):
            size = max(length, 2 * len(self.table), 1024)
            angles = torch.outer(torch.arange(size, dtype=torch.float32), self._frequencies)
            turns = torch.complex(angles.cos() * self._factor, angles.sin() * self._factor)
            self.table = turns.unsqueeze(1).to(self._device)
        return self.table
