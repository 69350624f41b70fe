"""Models a person has on the disk: a folder, or a GGUF that is converted once."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from ..errors import UserError
from .convert import convert
from .places import Progress, disk_errors, home, lock, missing


def use(path: Path, tell: Progress) -> Path:
    """The folder to load for what is at `path`. Raises UserError when it is not a model."""
    if path.is_file():
        return converted(path, tell)
    lacks = missing(path)
    if lacks is None:
        return path
    found = sorted(path.glob("*.gguf"))
    if len(found) == 1:
        return converted(found[0], tell)
    if found:
        raise UserError(f"{path} holds {len(found)} GGUF files; name one of them.")
    raise UserError(f"{path} is not a model's folder: it lacks {lacks}.")


def converted(gguf: Path, tell: Progress) -> Path:
    """The folder made of `gguf`, made now if it is not there. Known by path, size and time of change."""
    folder = home() / "converted" / _key(gguf)
    if folder.exists():
        return folder
    with disk_errors(), lock(folder.name, tell):
        if not folder.exists():
            convert(gguf, folder, tell)
    return folder


def _key(gguf: Path) -> str:
    gguf = gguf.resolve()
    stat = gguf.stat()
    what = f"{gguf}\n{stat.st_size}\n{stat.st_mtime_ns}"
    stem = re.sub(r"[^\w.-]+", "-", gguf.stem)[:60].strip(".-")
    return f"{stem}-{hashlib.sha256(what.encode()).hexdigest()[:12]}"
