"""The rows of one `DecoderBatch`, each as a session of its own to the loop, all read in common passes.

What a row is told to read of its prompt waits until all rows can read together; what a round feeds (the text's last
token and the proposal) is announced by whoever drives the rows, read in one pass by the first row that asks, and
handed to the others as they ask. Each row feeds as many tokens as it has. A row that begins anew finds the part of its
prompt that is still in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..errors import UserError
from ..model.decoder import too_long

READ = 1024  # positions, all rows together, between two looks at `stopped` while prompts are read


class Rows:
    """`sessions` are `count` rows of one batch of `decoder`, each of at most `capacity` positions.

    No round may feed more than `widest` tokens of a row. Raises UserError for a model that has no batched pass, or
    whose context is too short.
    """

    def __init__(self, decoder: Any, count: int, capacity: int, widest: int) -> None:
        if not hasattr(decoder, "batch"):
            raise UserError(
                "This model runs through transformers here, which has no batched pass: choose a Llama, SmolLM2, Qwen, "
                "Mistral or Gemma 3 model."
            )
        whole = capacity + widest  # attention is padded to the widest row, at the end of the longest, too
        if whole > decoder.context:
            raise too_long(decoder.name, whole, decoder.context, decoder.context)
        self.batch = decoder.batch(count, whole)
        self.widest = widest
        self.sessions = [Row(self, i, decoder, capacity) for i in range(count)]
        self._held: list[list[int]] = [[] for _ in range(count)]  # what the cache has of each row
        self._feeds: dict[int, list[int]] = {}
        self._logits: dict[int, torch.Tensor] = {}
        self._chunk = decoder.chunk

    def read(self, stopped: Callable[[], bool] = lambda: False) -> bool:
        """Bring the cache to where the rows' texts are: forget what they gave up, read what they were told of.

        False when `stopped` ended it before all was read.
        """
        for row, held in zip(self.sessions, self._held, strict=True):
            if held != row.ids[: len(held)]:
                same = next((n for n, (a, b) in enumerate(zip(held, row.ids, strict=False)) if a != b), None)
                del held[min(len(held), len(row.ids)) if same is None else same :]
        self.batch.rollback([len(held) for held in self._held])
        step = max(16, min(self._chunk(self.batch.capacity), READ // len(self.sessions)))
        while any(len(row.ids) > len(held) for row, held in zip(self.sessions, self._held, strict=True)):
            if stopped():
                return False
            step = min(step, self.batch.capacity - max(self.batch.lengths))
            news = [row.ids[len(held) : len(held) + step] for row, held in zip(self.sessions, self._held, strict=True)]
            self._pass(news, logits=False)
        return True

    def announce(self, feeds: dict[int, Sequence[int]]) -> None:
        """What each row of `feeds` is going to feed; the pass is run when the first of them does. Call `read` before.

        ValueError for a row that feeds more than `widest`.
        """
        if any(not 0 < len(ids) <= self.widest for ids in feeds.values()):
            raise ValueError(f"a round feeds 1 to {self.widest} tokens")
        self._feeds, self._logits = {i: list(ids) for i, ids in feeds.items()}, {}

    def logits(self, index: int, ids: Sequence[int]) -> torch.Tensor:
        """float32 [len(ids), V] of the announced pass, for one row."""
        if self._feeds.get(index) != list(ids):
            raise ValueError(f"row {index} feeds {list(ids)} where {self._feeds.get(index)} was announced")
        if not self._logits:
            feeds = [self._feeds.get(i, []) for i in range(len(self.sessions))]
            parts = self._pass(feeds).split([len(feed) for feed in feeds])
            self._logits = dict(enumerate(parts))
        return self._logits[index]

    def try_pass(self, width: int) -> None:
        """A pass over `width` positions of every row, behind what is there, which is then forgotten: for a clock."""
        before = list(self.batch.lengths)
        self.batch.forward([[0] * width] * len(before))
        self.batch.rollback(before)

    def _pass(self, feeds: Sequence[Sequence[int]], logits: bool = True) -> torch.Tensor:
        out = self.batch.forward_uneven(feeds, logits=logits)
        for held, ids in zip(self._held, feeds, strict=True):
            held += ids
        return out


class Row:
    """One row, as a `Session`: chains through all layers. `ids` is its text, as far as the loop has fed it."""

    trees = False
    taps = ()
    features = None

    def __init__(self, rows: Rows, index: int, decoder: Any, capacity: int) -> None:
        self.capacity, self.vocab_size = capacity, decoder.vocab_size
        self.num_layers, self.device, self.name, self.context = (
            decoder.num_layers, decoder.device, decoder.name, decoder.context
        )  # fmt: skip
        self.ids: list[int] = []
        self._rows, self._index = rows, index

    @property
    def length(self) -> int:
        return len(self.ids)

    def forward(
        self,
        ids: Sequence[int],
        *,
        logits_from: int = 0,
        layers: Sequence[int] | None = None,
        parents: Sequence[int] | None = None,
    ) -> torch.Tensor:
        if layers is not None or parents is not None:
            raise UserError("In a batch only chains through all layers run: choose a proposer that makes chains.")
        if self.length + len(ids) > self.capacity:
            raise too_long(self.name, self.length + len(ids), self.capacity, self.context)
        if logits_from >= len(ids):  # a prompt: it is read together with those of the other rows
            self.ids += ids
            return torch.empty(0, self.vocab_size, device=self.device)
        logits = self._rows.logits(self._index, ids)
        self.ids += ids
        return logits[logits_from:]

    def rollback(self, length: int) -> None:
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot roll back from {self.length} to {length}")
        del self.ids[length:]

    def keep(self, rows: Sequence[int]) -> None:
        raise ValueError("a row of a batch has no trees")
