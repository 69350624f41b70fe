"""Several texts through one decoder at once, each at its own length: what a busy server does."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .decoder import Decoder, too_long, windows


class DecoderBatch:
    """Several texts through one `Decoder`, each at its own length: `lengths` [B].

    In `forward` rows that have less to say than the others are padded at the end with any id and rolled back
    afterwards; `forward_uneven` takes them as they are.
    `features` [B, capacity, taps * hidden] as in `DecoderSession`.
    """

    def __init__(self, decoder: Decoder, rows: int, capacity: int, taps: Sequence[int] = ()) -> None:
        self.lengths, self.capacity, self.taps = [0] * rows, capacity, tuple(taps)
        self.vocab_size, self.num_layers, self.device = decoder.vocab_size, decoder.num_layers, decoder.device
        self.hidden: torch.Tensor | None = None  # [B, n, hidden], see DecoderSession
        self._decoder, self._cache = decoder, decoder.new_cache(rows, capacity)
        self.features = decoder.new_features(rows, capacity, taps)

    @torch.inference_mode()
    def forward(
        self, ids: Sequence[Sequence[int]], *, logits_from: int = 0, layers: Sequence[int] | None = None
    ) -> torch.Tensor:
        """ids [B, n] at positions lengths[b] .. lengths[b]+n-1 -> float32 logits [B, n - logits_from, V]."""
        d, B = self._decoder, len(self.lengths)
        all_ids = torch.as_tensor(ids, dtype=torch.long, device=d.device)
        if all_ids.ndim != 2 or all_ids.shape[0] != B:
            raise ValueError(f"ids must be {B} rows of the same length, not of shape {tuple(all_ids.shape)}")
        n, end = all_ids.shape[1], max(self.lengths) + all_ids.shape[1]
        if end > self.capacity:
            raise too_long(d.name, end, self.capacity, d.context)
        d.check_layers(layers)
        step, out = max(16, d.chunk(end) // B), []
        for i in range(0, n, step):
            part = all_ids[:, i : i + step]
            m = part.shape[1]
            plan = self._cache.plan(self.lengths, m)
            fresh = self.features.new_empty(B, m, self.features.shape[-1]) if self.features is not None else None
            tapped = windows(fresh, self.taps, layers, 0, m)
            h = d.run_layers(d.embed(part.flatten()), plan, layers, tapped).view(B, m, -1)
            self.hidden = h
            if tapped is not None:
                for row, at in enumerate(self.lengths):
                    self.features[row, at : at + m] = fresh[row]
            self.lengths = [x + m for x in self.lengths]
            if logits_from < i + m:
                kept = h[:, max(0, logits_from - i) :]
                out.append(d.logits(kept.flatten(0, 1)).view(B, -1, self.vocab_size))
        return torch.cat(out, 1) if out else torch.empty(B, 0, self.vocab_size, device=d.device)

    @torch.inference_mode()
    def forward_uneven(self, ids: Sequence[Sequence[int]], *, logits: bool = True) -> torch.Tensor:
        """Of each row as many ids as it has, none included, in one pass -> float32 logits [all of them, V], one row's

        after the other's; with `logits` False, [0, V]. Each length grows by its own. Only attention is padded to the
        widest row (hence the capacity must hold that of the longest text); the products run over what is there.
        """
        d, counts = self._decoder, [len(row) for row in ids]
        n, end = max(counts), max(self.lengths) + max(counts)
        if len(ids) != len(self.lengths) or n < 1 or self.taps:
            raise ValueError(f"uneven passes are over {len(self.lengths)} rows with a token among them, without taps")
        if end > self.capacity:
            raise too_long(d.name, end, self.capacity, d.context)
        plan = self._cache.plan(self.lengths, n)
        if min(counts) < n:
            places = [row * n + i for row, count in enumerate(counts) for i in range(count)]
            plan.real = torch.tensor(places, device=d.device)
        flat = torch.tensor([token for row in ids for token in row], device=d.device)
        h = d.run_layers(d.embed(flat), plan, None)
        self.lengths = [length + count for length, count in zip(self.lengths, counts, strict=True)]
        return d.logits(h if logits else h[:0])

    def rollback(self, lengths: Sequence[int]) -> None:
        """Forget, in each row, all positions from lengths[b] on. ValueError where a row is not so long."""
        if len(lengths) != len(self.lengths) or any(
            not 0 <= new <= old for new, old in zip(lengths, self.lengths, strict=True)
        ):
            raise ValueError(f"cannot roll back from {self.lengths} to {list(lengths)}")
        self.lengths = list(lengths)
