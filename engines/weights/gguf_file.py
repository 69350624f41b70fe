"""Reading a GGUF: its metadata as a plain dictionary, its tensors by name.

The layout is that of ggml's docs/gguf.md, versions 2 and 3. The `gguf` package unpacks the quantised blocks; its
reader is not used, because it makes several numpy objects for each token of the vocabulary: 5 to 30 s, here 0.1 s.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import UserError

BLOCK_BYTES = 32 << 20  # of float32 that are dequantised at once
# Kinds of a value, by their number in the file.
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9


class _Damaged(Exception):
    pass


@dataclass(frozen=True)
class Tensor:
    """`shape` as torch has it, [out, in], the reverse of how the file counts; `kind` gguf's number for the type."""

    shape: tuple[int, ...]
    kind: int
    offset: int  # from the start of the data


class _Cursor:
    """Little-endian values, one after the other; reading past the end is _Damaged."""

    def __init__(self, data: memoryview) -> None:
        self.data, self.at = data, 0

    def take(self, n: int) -> memoryview:
        if n < 0 or self.at + n > len(self.data):
            raise _Damaged("it ends too early")
        self.at += n
        return self.data[self.at - n : self.at]

    def scalar(self, form: str) -> Any:
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))[0]

    def string(self) -> str:
        return bytes(self.take(self.scalar("Q"))).decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.string()
        if kind != _ARRAY:
            if kind not in _SCALARS:
                raise _Damaged(f"a value of unknown kind {kind}")
            return self.scalar(_SCALARS[kind])
        inner, count = self.scalar("I"), self.scalar("Q")
        if inner in _SCALARS:
            form = np.dtype(_SCALARS[inner]).newbyteorder("<")
            return np.frombuffer(self.take(count * form.itemsize), form).tolist()
        return [self.value(inner) for _ in range(count)]


class GGUFFile:
    """`meta` holds every key of the file, `tensors` every tensor by its GGUF name, in the file's order."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.stat().st_size < 24:
            raise UserError(f"{path} is too short for a GGUF file; fetch it again.")
        self._data = np.memmap(path, mode="r", dtype=np.uint8)
        cursor = _Cursor(memoryview(self._data))
        if bytes(cursor.take(4)) != b"GGUF":
            raise UserError(f"{path} is not a GGUF file; give a GGUF, a folder with a model, or a model's name.")
        version = cursor.scalar("I")
        if version not in (2, 3):
            raise UserError(f"{path} is a GGUF of version {version & 0xFFFF}; little-endian versions 2 and 3 are read.")
        try:
            self._read(cursor)
        except _Damaged as error:
            raise UserError(f"{path} is a damaged GGUF ({error}): fetch it again.") from None
        self.arch: str = str(self.meta.get("general.architecture", ""))
        if int(self.meta.get("split.count", 1) or 1) > 1:
            raise UserError(f"{path} is one part of a split GGUF; merge the parts first (llama-gguf-split --merge).")

    def _read(self, cursor: _Cursor) -> None:
        tensor_count, key_count = cursor.scalar("Q"), cursor.scalar("Q")
        self.meta: dict[str, Any] = {}
        for _ in range(key_count):
            key = cursor.string()
            self.meta[key] = cursor.value(cursor.scalar("I"))
        self.tensors: dict[str, Tensor] = {}
        for _ in range(tensor_count):
            name, dims = cursor.string(), cursor.scalar("I")
            if not 1 <= dims <= 4:
                raise _Damaged(f"the tensor {name!r} has {dims} dimensions")
            shape = tuple(cursor.scalar("Q") for _ in range(dims))[::-1]
            self.tensors[name] = Tensor(shape, cursor.scalar("I"), cursor.scalar("Q"))
        alignment = int(self.meta.get("general.alignment", 32)) or 32
        self._start = -(-cursor.at // alignment) * alignment
        for name in self.tensors:
            self._raw(name)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of `key`, with {arch} standing for the architecture's name."""
        return self.meta.get(key.format(arch=self.arch), default)

    def need(self, key: str) -> Any:
        value = self.get(key)
        if value is None:
            raise UserError(f"{self.path} lacks {key.format(arch=self.arch)}; it is not a whole language model.")
        return value

    def shape(self, name: str) -> tuple[int, ...]:
        return self.tensors[name].shape

    def is_bf16(self, name: str) -> bool:
        return self.tensors[name].kind == 30

    def _raw(self, name: str) -> np.ndarray:
        """The tensor's bytes, uint8 [rows, bytes of a row]: quantisation runs along a row."""
        import gguf

        tensor = self.tensors[name]
        columns = tensor.shape[-1]
        count = int(np.prod(tensor.shape[:-1], dtype=np.int64))
        try:
            per_block, block_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(tensor.kind)]
        except (ValueError, KeyError):
            raise UserError(f"{self.path} uses quantisation number {tensor.kind}, which is not known here.") from None
        if columns < 1 or count < 1 or columns % per_block:
            raise _Damaged(f"the tensor {name!r} has the shape {list(tensor.shape)}")
        row = columns // per_block * block_bytes
        start = self._start + tensor.offset
        if start + count * row > len(self._data):
            raise _Damaged(f"it ends before the tensor {name!r} does")
        return self._data[start : start + count * row].reshape(count, row)

    def rows(self, name: str, order: np.ndarray | None = None) -> Callable[[], Iterator[np.ndarray]]:
        """A function that yields the tensor as float32 blocks of whole rows, rows taken in `order` if given."""
        import gguf

        kind = gguf.GGMLQuantizationType(self.tensors[name].kind)
        data = self._raw(name)
        step = max(1, BLOCK_BYTES // (4 * self.shape(name)[-1]))

        def blocks() -> Iterator[np.ndarray]:
            for at in range(0, len(data), step):
                some = data[at : at + step] if order is None else data[order[at : at + step]]
                try:
                    yield gguf.dequantize(np.ascontiguousarray(some), kind).astype(np.float32, copy=False)
                except NotImplementedError:
                    message = f"{self.path} uses the quantisation {kind.name}, which cannot be unpacked."
                    raise UserError(message) from None

        return blocks
