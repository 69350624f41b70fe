"""Reading safetensors, one tensor at a time and into memory of our own.

The format is a length (8 bytes, little-endian), so much JSON that names each tensor's type, shape and bytes, then the
bytes. Files are read, not mapped: mapped pages would count as the process's memory until the last tensor is let go.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch

from engines.errors import UserError
from engines.weights.places import again

from .config import read_json
from .linear import Scratch

_TYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
          "I64": torch.int64, "I32": torch.int32, "BOOL": torch.bool}  # fmt: skip
_HEADER_MAX = 100 * 2**20  # the format's own limit


class Weights:
    """The tensors of a model folder by name, from model.safetensors or the shards that its index lists.

    Raises UserError when there are none, and for a file that is cut off, damaged or not safetensors.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._where: dict[str, tuple[Path, dict[str, Any], int]] = {}
        for path in self._files():
            start, header = _header(path)
            for name, entry in header.items():
                if name != "__metadata__":
                    self._where[name] = (path, entry, start)

    def _files(self) -> list[Path]:
        single, index = self.folder / "model.safetensors", self.folder / "model.safetensors.index.json"
        if single.exists():
            return [single]
        if index.exists():
            shards = read_json(index).get("weight_map")
            if not isinstance(shards, dict) or not all(isinstance(s, str) for s in shards.values()):
                raise UserError(f"{index} has no weight_map; get the file again.")
            paths = [self.folder / Path(s).name for s in sorted(set(shards.values()))]
            for path in paths:
                if not path.exists():
                    raise UserError(f"{self.folder} lacks {path.name}, which its index lists; get the file again.")
            return paths
        if any(self.folder.glob("*.bin")) or any(self.folder.glob("*.pt*")):
            raise UserError(
                f"{self.folder} has only pickled weights (.bin), which can run any code when opened and are not "
                "loaded. Convert them to model.safetensors, or get a version of the model that has it."
            )
        raise UserError(f"{self.folder} has no model.safetensors; get the model's files again.")

    def names(self) -> list[str]:
        return list(self._where)

    def _entry(self, name: str) -> tuple[Path, dict[str, Any], int]:
        if name not in self._where:
            raise UserError(f"The weights in {self.folder} lack the tensor {name}; they are not those of config.json.")
        return self._where[name]

    def read(
        self, name: str, shape: tuple[int, ...], scratch: Scratch | None = None, whole: bool = False
    ) -> torch.Tensor:
        """The tensor in its stored type. Raises UserError if it is missing or not of `shape`.

        `whole`: whole numbers (or truth values) are wanted, where otherwise none will do. With `scratch` it lies there
        under its own last name, until the next tensor of that name is read.
        """
        path, entry, start = self._entry(name)
        found = tuple(entry["shape"])
        if found != shape:
            raise UserError(f"The tensor {name} has shape {list(found)}, but config.json asks for {list(shape)}.")
        if entry["dtype"] not in _TYPES or _TYPES[entry["dtype"]].is_floating_point == whole:
            raise UserError(f"The tensor {name} is stored as {entry['dtype']}, which is not supported here.")
        begin, end = entry["data_offsets"]
        dtype = _TYPES[entry["dtype"]]
        own = ".".join(name.split(".")[-2:])
        out = scratch.take(own, found, dtype) if scratch else torch.empty(found, dtype=dtype)
        if out.nbytes != end - begin:
            raise UserError(f"{path} is damaged: the tensor {name} has the wrong number of bytes. Get it again.")
        if out.nbytes:
            with open(path, "rb", buffering=0) as file:
                file.seek(start + begin)
                _fill(file, memoryview(out.view(-1).view(torch.uint8).numpy()), path)
        return out


def _fill(file: Any, buffer: memoryview, path: Path) -> None:
    done = 0
    while done < len(buffer):
        count = file.readinto(buffer[done:])
        if not count:
            raise UserError(f"{path} is cut off; {again(path)}.")
        done += count


def _header(path: Path) -> tuple[int, dict[str, Any]]:
    """(where the bytes begin, the JSON). Checks that every tensor lies inside the file."""
    damaged = UserError(f"{path} is damaged or not a safetensors file; {again(path)}.")
    size = path.stat().st_size
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or not 0 < length <= min(_HEADER_MAX, size - 8):
            raise damaged
        try:
            header = json.loads(file.read(length))
            needed = 8 + length
            for name, entry in header.items():
                if name == "__metadata__":
                    continue
                begin, end = entry["data_offsets"]
                if not (isinstance(begin, int) and isinstance(end, int) and 0 <= begin <= end):
                    raise damaged
                needed = max(needed, 8 + length + end)
                if math.prod(entry["shape"]) < 0 or not isinstance(entry["dtype"], str):
                    raise damaged
        except (ValueError, TypeError, KeyError, AttributeError):
            raise damaged from None
    if size < needed:
        raise UserError(f"{path} is cut off ({size} bytes, {needed} expected); {again(path)}.")
    return 8 + length, header
