"""What a target said and thought, on disk: computed once, read for as many epochs as one likes.

A store is a folder of flat arrays, one row a token, sequences one after another, and `ends.i64` which says where each
ends. A sequence counts once its end is written, which comes last; what an interruption left behind it is cut off when
the store is opened to be continued. Reading maps the files, so a store may be larger than the memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import UserError

VERSION = 1
TEMPLATE, USER, ANSWER = 0, 1, 2  # who wrote a token: nobody (it was given), the target as user, the target as itself


@dataclass
class Sequence_:
    """One text of n tokens as the target read it.

    `ids` [n]; `kinds` [n] (TEMPLATE, USER or ANSWER); `features` [n, F], the residual stream behind each tapped layer,
    each scaled to mean square 1; `top_ids`, `top_p` [n, K]: the target's likeliest next tokens after each position, at
    temperature 1, and their probabilities.
    """

    ids: np.ndarray
    kinds: np.ndarray
    features: np.ndarray
    top_ids: np.ndarray
    top_p: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)


_ARRAYS = {"ids": np.int32, "kinds": np.uint8, "features": np.float16, "top_ids": np.int32, "top_p": np.float16}


class Store:
    """Open or begin one. `meta` must have `target`, `taps`, `features` (F) and `top` (K).

    An existing store must have been made with the same (UserError otherwise). `meta` None: whatever is there.
    """

    def __init__(self, folder: str | Path, meta: dict[str, Any] | None = None) -> None:
        self.folder = Path(folder)
        card = self.folder / "store.json"
        if card.exists():
            known = self._read(card)
            if meta is not None and any(known.get(k) != v for k, v in meta.items()):
                odd = next(k for k, v in meta.items() if known.get(k) != v)
                raise UserError(
                    f"{self.folder} was made with {odd} = {known.get(odd)!r}, not {meta[odd]!r}: name another folder."
                )
            self.meta = known
        elif meta is None:
            raise UserError(f"{self.folder} holds no training data; make some first.")
        else:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.meta = {"version": VERSION, **meta}
            card.write_text(json.dumps(self.meta, indent=1), encoding="utf-8")
        self._widths = {
            "ids": (), "kinds": (), "features": (self.meta["features"],),
            "top_ids": (self.meta["top"],), "top_p": (self.meta["top"],),
        }  # fmt: skip
        self.refresh()

    def _read(self, card: Path) -> dict[str, Any]:
        try:
            meta = json.loads(card.read_text(encoding="utf-8"))
            assert meta["version"] == VERSION
            return meta
        except (ValueError, KeyError, TypeError, AssertionError):
            raise UserError(
                f"{card} is not that of a store of this version: remove its folder, or name another."
            ) from None

    def refresh(self) -> None:
        """Look again what is there; another process may be adding to it."""
        path = self.folder / "ends.i64"
        self.ends = np.fromfile(path, dtype=np.int64) if path.exists() else np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def tokens(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.bin"

    def cut(self) -> None:
        """Forget what an interruption left unfinished. Before the first `add`."""
        for name, dtype in _ARRAYS.items():
            width = int(np.prod(self._widths[name], dtype=np.int64)) * np.dtype(dtype).itemsize
            path = self._path(name)
            have = path.stat().st_size if path.exists() else 0
            if have < self.tokens * width:
                raise UserError(f"{path} is shorter than its store says: remove the folder {self.folder}.")
            if path.exists():
                with open(path, "r+b") as file:
                    file.truncate(self.tokens * width)

    def add(self, sequence: Sequence_) -> None:
        for name, dtype in _ARRAYS.items():
            array = np.ascontiguousarray(getattr(sequence, name), dtype=dtype)
            if array.shape != (len(sequence), *self._widths[name]):
                raise ValueError(f"{name} has shape {array.shape}")
            with open(self._path(name), "ab") as file:
                array.tofile(file)
        end = np.array([self.tokens + len(sequence)], np.int64)
        with open(self.folder / "ends.i64", "ab") as file:
            end.tofile(file)
        self.ends = np.append(self.ends, end)

    def arrays(self) -> dict[str, np.ndarray]:
        """The whole store, mapped: {"ids": [N], "features": [N, F], ...}."""
        n = self.tokens
        if not n:
            return {name: np.zeros((0, *self._widths[name]), dtype) for name, dtype in _ARRAYS.items()}
        return {
            name: np.memmap(self._path(name), dtype, "r", shape=(n, *self._widths[name]))
            for name, dtype in _ARRAYS.items()
        }

    def spans(self) -> Iterator[tuple[int, int]]:
        begin = 0
        for end in self.ends.tolist():
            yield begin, end
            begin = end
