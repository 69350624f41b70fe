"""Reading a GGUF: its metadata as a plain dictionary, its tensors by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import UserError

BLOCK_BYTES = 32 << 20  # of float32 that are dequantised at once


class GGUFFile:
    """`meta` holds every key of the file; `tensors` the reader's tensors by GGUF name.

    Shapes are given as torch has them, [out, in], the reverse of how the file counts.
    """

    def __init__(self, path: Path) -> None:
        import gguf

        self.path = path
        with open(path, "rb") as handle:
            head = handle.read(24)
        if len(head) < 24 or not head.startswith(b"GGUF"):
            raise UserError(f"{path} is not a GGUF file; give a GGUF, a folder with a model, or a model's name.")
        try:
            self.reader = gguf.GGUFReader(path)
            self.meta: dict[str, Any] = {k: f.contents() for k, f in self.reader.fields.items()}
        except (ValueError, IndexError, KeyError, UnicodeDecodeError, OverflowError, MemoryError) as error:
            raise UserError(
                f"{path} cannot be read as a GGUF ({error}); it may be cut short: fetch it again."
            ) from None
        self.tensors = {t.name: t for t in self.reader.tensors}
        self.arch: str = str(self.meta.get("general.architecture", ""))
        if int(self.meta.get("split.count", 1) or 1) > 1:
            raise UserError(f"{path} is one part of a split GGUF; merge the parts first (llama-gguf-split --merge).")

    def get(self, key: str, default: Any = None) -> Any:
        """The value of `key`, with {arch} standing for the architecture's name."""
        return self.meta.get(key.format(arch=self.arch), default)

    def need(self, key: str) -> Any:
        value = self.get(key)
        if value is None:
            raise UserError(f"{self.path} lacks {key.format(arch=self.arch)}; it is not a whole language model.")
        return value

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(int(n) for n in reversed(self.tensors[name].shape))

    def is_bf16(self, name: str) -> bool:
        return self.tensors[name].tensor_type.name == "BF16"

    def rows(self, name: str, order: np.ndarray | None = None) -> Callable[[], Iterator[np.ndarray]]:
        """A function that yields the tensor as float32 blocks of whole rows, rows taken in `order` if given.

        Quantisation runs along a row, so rows can be picked and reordered before anything is unpacked.
        """
        import gguf

        tensor = self.tensors[name]
        shape = self.shape(name)
        columns = shape[-1]
        count = int(np.prod(shape)) // columns
        data = tensor.data.reshape(count, -1)
        step = max(1, BLOCK_BYTES // (4 * columns))

        def blocks() -> Iterator[np.ndarray]:
            for at in range(0, count, step):
                some = data[at : at + step] if order is None else data[order[at : at + step]]
                try:
                    yield gguf.dequantize(np.ascontiguousarray(some), tensor.tensor_type).astype(np.float32, copy=False)
                except NotImplementedError:
                    kind = tensor.tensor_type.name
                    raise UserError(f"{self.path} uses the quantisation {kind}, which cannot be unpacked.") from None

        return blocks
