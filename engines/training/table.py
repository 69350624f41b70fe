"""The table that token recycling may start from: what a target thinks of as next after each token, on average.

Averaged over all places of a store where the token stands, from the target's own probabilities there. Small enough to
ship: tokens that were seen often enough, eight successors each, shares as bytes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from ..errors import UserError
from .store import Store

WIDTH = 8
SEEN = 3  # a token that stood at fewer places says little
BLOCK = 100_000


def save_table(store: Store, folder: Path) -> int:
    """Write table.safetensors: `tokens` [n], `next` [n, 8] ids, `share` [n, 8] uint8 (255 is 1). How many tokens."""
    if not store.tokens:
        raise UserError(f"{store.folder} holds no training data yet.")
    a = store.arrays()
    mass: dict[int, dict[int, float]] = {}
    seen: dict[int, int] = {}
    for begin in range(0, store.tokens, BLOCK):
        ids = np.asarray(a["ids"][begin : begin + BLOCK])
        top, p = np.asarray(a["top_ids"][begin : begin + BLOCK]), np.asarray(a["top_p"][begin : begin + BLOCK])
        for token, row, share in zip(ids.tolist(), top[:, :WIDTH].tolist(), p[:, :WIDTH].tolist(), strict=True):
            if not share[0]:  # nobody asked what the target thinks here
                continue
            own = mass.setdefault(token, {})
            seen[token] = seen.get(token, 0) + 1
            for successor, x in zip(row, share, strict=True):
                own[successor] = own.get(successor, 0.0) + x
    tokens = sorted(t for t, n in seen.items() if n >= SEEN)
    following = np.zeros((len(tokens), WIDTH), np.int32)
    shares = np.zeros((len(tokens), WIDTH), np.uint8)
    for i, token in enumerate(tokens):
        best = sorted(mass[token].items(), key=lambda kv: -kv[1])[:WIDTH]
        following[i, : len(best)] = [t for t, _ in best]
        shares[i, : len(best)] = [min(255, round(255 * x / seen[token])) for _, x in best]
    folder.mkdir(parents=True, exist_ok=True)
    save_file({"tokens": np.array(tokens, np.int32), "next": following, "share": shares}, folder / "table.safetensors")
    return len(tokens)
