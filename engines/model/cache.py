"""The key/value cache: allocated once, never moved; a length per row says how much of it holds.

Rolling back is setting a length. Layers with a sliding window keep all positions too and mask the old ones, so a
rollback across the window's edge is as right as any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .config import ModelConfig
from .rope import Turns


@dataclass(slots=True)
class Plan:
    """What one pass over n new positions of B rows needs, made once for all layers.

    `turns` and `masks` have an entry for full layers and one for sliding ones. `keys[i]`, `values[i]` [B, kv, T, D]
    are what layer i sees (T differs between the two kinds). The new ones go to `slots[i]` [2, B, kv, n, D], or, where
    the rows have different lengths, into `slots[i]` [2, B, kv, capacity, D] at `where` (scattered). `real`: which of
    the B * n positions are there at all, ascending; the others only fill up. None: all of them.
    """

    rows: int
    new: int
    turns: tuple[torch.Tensor, torch.Tensor]  # complex [B * n, 1, D / 2] each
    masks: tuple[torch.Tensor | None, torch.Tensor | None]  # [1 or B, 1, group * n, T] each, 0 or -inf
    keys: list[torch.Tensor]
    values: list[torch.Tensor]
    slots: list[torch.Tensor] | tuple[torch.Tensor, ...]
    where: torch.Tensor | None = None
    real: torch.Tensor | None = None


def forebears(parents: Sequence[int]) -> tuple[list[int], list[list[bool]]]:
    """Of a tree whose row i hangs on row parents[i] (-1: on the text): each row's depth, from 0, and which rows it

    sees, itself among them. ValueError when a parent does not come before its child.
    """
    depths: list[int] = []
    seen: list[list[bool]] = []
    for i, parent in enumerate(parents):
        if not -1 <= parent < i:
            raise ValueError(f"row {i} of a tree cannot hang on row {parent}")
        row = list(seen[parent]) if parent >= 0 else [False] * len(parents)
        row[i] = True
        depths.append(depths[parent] + 1 if parent >= 0 else 0)
        seen.append(row)
    return depths, seen


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
        return self._plan(new, turns, seen, slots, where)

    def plan_tree(self, length: int, parents: Sequence[int], done: int = 0) -> Plan:
        """For a tree behind the `length` positions of the only row: row i of it goes on from row parents[i]

        (-1: from the text itself), which must come before it. Rows lie in the cache in their own order, each at the
        position that its depth gives it, and see the text and their own forebears. The first `done` rows are there
        already; the pass is over the others.
        """
        new, end = len(parents) - done, length + len(parents)
        depths, seen = forebears(parents)
        every = torch.tensor(depths, device=self.device) + length  # the position of each row
        at = every[done:]
        turns = tuple(table.upto(end)[at] for table in self.turns)
        own = torch.tensor(seen[done:], device=self.device)  # [new, rows]
        window, kinds = self.config.window, []
        for there, width in ((self.kinds[0], None), (self.kinds[1], window)):
            if not there:
                kinds.append(None)
                continue
            start = 0 if width is None else max(0, length + 1 - width)
            seen = torch.arange(start, length, device=self.device)
            hidden = torch.zeros(new, end - start, dtype=torch.bool, device=self.device)
            hidden[:, length - start :] = ~own
            if width is not None:
                hidden[:, : length - start] = seen <= at[:, None] - width
                hidden[:, length - start :] |= every <= at[:, None] - width
            mask = self._additive(hidden[None])
            data = self.data[:, :, :, :, start:end]
            kinds.append((data[:, 0].unbind(0), data[:, 1].unbind(0), mask))
        slots = self.data[:, :, :, :, length + done : end].unbind(0)
        return self._plan(new, turns, kinds, slots, None)

    def plan_beside(self, length: int, positions: Sequence[int]) -> Plan:
        """For rows that stand beside a text of `length` positions: row i at positions[i] sees the text before that

        position, and itself. So one pass asks, at many places at once, what would follow there.
        """
        new, end = len(positions), length + len(positions)
        at = torch.tensor(positions, device=self.device)
        turns = tuple(table.upto(max(end, max(positions) + 1))[at] for table in self.turns)
        hidden = torch.ones(new, end, dtype=torch.bool, device=self.device)
        seen = torch.arange(length, device=self.device)
        kinds = []
        for there, width in ((self.kinds[0], None), (self.kinds[1], self.config.window)):
            if not there:
                kinds.append(None)
                continue
            hidden[:, :length] = seen >= at[:, None]
            if width is not None:
                hidden[:, :length] |= seen <= at[:, None] - width
            hidden[:, length:] = ~torch.eye(new, dtype=torch.bool, device=self.device)
            mask = self._additive(hidden[None])
            data = self.data[:, :, :, :, :end]
            kinds.append((data[:, 0].unbind(0), data[:, 1].unbind(0), mask))
        slots = self.data[:, :, :, :, length:end].unbind(0)
        return self._plan(new, turns, kinds, slots, None)

    def move(self, length: int, rows: Sequence[int]) -> None:
        """Bring what lies at length + rows[i] to length + i (rows ascending), in all layers."""
        moved = [i for i, row in enumerate(rows) if i != row]
        if moved:
            first = moved[0]
            at = torch.tensor(rows[first:], device=self.device) + length
            self.data[:, :, :, :, length + first : length + len(rows)] = self.data.index_select(4, at)

    def _plan(self, new: int, turns: tuple, seen: list, slots: Any, where: torch.Tensor | None) -> Plan:
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
        return self._additive(hidden)

    def _additive(self, hidden: torch.Tensor) -> torch.Tensor:
        """Hidden or not [b, n, T] -> the mask that attention adds, [b, 1, group * n, T]: 0 or -inf."""
        mask = torch.zeros(hidden.shape, dtype=self.data.dtype, device=self.device).masked_fill_(hidden, -torch.inf)
        return mask.repeat(1, self.group, 1).unsqueeze(1)
