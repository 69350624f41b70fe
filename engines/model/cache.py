"""The key/value cache: allocated once, never moved; a length per row says how much of it holds.

Rolling back is setting a length. Layers with a sliding window keep all positions too and mask the old ones, so a
rollback across the window's edge is as right as any other.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .config import ModelConfig
from .rope import Turns


@dataclass(slots=True)
class Plan:
    """What one pass over n new positions of B rows needs, made once for all layers.

    `turns` and `masks` have an entry for full layers and one for sliding ones. `keys[i]`, `values[i]` [B, kv, T, D]
    are what layer i sees (T differs between the two kinds). The new ones go to `slots[i]` [2, B, kv, n, D], or, where
    the rows have different lengths, into `slots[i]` [2, B, kv, capacity, D] at `where` (scattered).
    """

    rows: int
    new: int
    turns: tuple[torch.Tensor, torch.Tensor]  # complex [B * n, 1, D / 2] each
    masks: tuple[torch.Tensor | None, torch.Tensor | None]  # [1 or B, 1, group * n, T] each, 0 or -inf
    keys: list[torch.Tensor]
    values: list[torch.Tensor]
    slots: list[torch.Tensor] | tuple[torch.Tensor, ...]
    where: torch.Tensor | None = None


class Cache:
    """Keys and values [layers, 2, B, kv, capacity, D]. On the CPU pages are taken only once they are written."""

    def __init__(
        self,
        config: ModelConfig,
        turns: tuple[Turns, Turns],
        rows: int,
        capacity: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.config, self.turns, self.capacity, self.rows = config, turns, capacity, rows
        shape = (config.layers, 2, rows, config.kv_heads, capacity, config.head_dim)
        self.data = torch.empty(shape, dtype=dtype, device=device)
        self._reached = 0  # positions from here on were never written by any row
        self.group = config.heads // config.kv_heads
        self.kinds = (not all(config.sliding), any(config.sliding))
        self.device = device

    def plan(self, lengths: list[int], new: int) -> Plan:
        """For `new` positions behind those that each row has; the caller has checked that they fit."""
        low, high = min(lengths), max(lengths)
        end = high + new
        if self.rows > 1 and end > self._reached:
            # Uneven rows read, with weight 0, what only a longer row has written; 0 times NaN would be NaN.
            self.data[:, :, :, :, self._reached : end] = 0
            self._reached = end
        tables = (self.turns[0].upto(end), self.turns[1].upto(end))
        if low == high:
            where = None
            turns = tuple(t[low:end] if self.rows == 1 else t[low:end].repeat(self.rows, 1, 1) for t in tables)
            slots = self.data[:, :, :, :, low:end].unbind(0)
            lengths = lengths[:1]
        else:
            at = torch.tensor([range(x, x + new) for x in lengths], device=self.device)  # [B, n]
            turns = tuple(t[at.flatten()] for t in tables)
            slots = self.data.unbind(0)
            where = at[None, :, None, :, None].expand(2, -1, self.config.kv_heads, -1, self.config.head_dim)
        seen = [self._seen(0, end, None, lengths, new) if self.kinds[0] else None, None]
        if self.kinds[1]:  # positions before the first row's window are not even read
            seen[1] = self._seen(max(0, low + 1 - self.config.window), end, self.config.window, lengths, new)
        if all(self.kinds):
            keys, values = ([seen[s][part][i] for i, s in enumerate(self.config.sliding)] for part in (0, 1))
        else:
            keys, values = (seen[0] or seen[1])[:2]
        return Plan(self.rows, new, turns, tuple(s and s[2] for s in seen), keys, values, slots, where)

    def _seen(self, start: int, end: int, window: int | None, lengths: list[int], new: int) -> tuple:
        """Keys and values of all layers at positions start .. end-1, and the mask over them."""
        data = self.data[:, :, :, :, start:end]
        return data[:, 0].unbind(0), data[:, 1].unbind(0), self._mask(lengths, new, start, end, window)

    def _mask(self, lengths: list[int], new: int, start: int, end: int, window: int | None) -> torch.Tensor | None:
        """[1 or B, 1, group * new, end - start]: which of positions start .. end-1 each new one sees; None: all."""
        if new == 1 and len(lengths) == 1:
            return None  # start has cut off what lies before the window
        at = torch.tensor([range(x, x + new) for x in lengths], device=self.device).unsqueeze(-1)  # [B, n, 1]
        seen = torch.arange(start, end, device=self.device)
        hidden = seen > at
        if window is not None:
            hidden |= seen <= at - window
        mask = torch.zeros(hidden.shape, dtype=self.data.dtype, device=self.device).masked_fill_(hidden, -torch.inf)
        return mask.repeat(1, self.group, 1).unsqueeze(1)
