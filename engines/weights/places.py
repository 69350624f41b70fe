"""Where model files live on this machine, when a folder of them is whole, and who may write there."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import UserError

Progress = Callable[[float | None, str], None]


def home() -> Path:
    """The cache folder: $SPECPLAY_HOME, else the platform's place for such files. It need not exist yet.

    Raises UserError when $SPECPLAY_HOME is not the name of a folder.
    """
    own = os.environ.get("SPECPLAY_HOME")
    if own:
        return _folder_named(own)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "specplay"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "specplay"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "specplay"


def _folder_named(own: str) -> Path:
    try:
        folder = Path(own).expanduser().absolute()
        folder.exists()
    except (OSError, RuntimeError) as error:  # a name that is too long, "~nobody"
        raise UserError(
            f"SPECPLAY_HOME cannot be a folder ({error}): set it to one of your own, or unset it."
        ) from None
    return folder


def check_home() -> None:
    """Raises UserError when the cache folder can never be one, since a file stands in its place or above it."""
    folder = home()
    there = next(p for p in (folder, *folder.parents) if p.exists())
    if not there.is_dir():
        raise UserError(
            f"The cache folder would be {folder}, but {there} is a file: set SPECPLAY_HOME to another folder."
        )


def models() -> Path:
    """Ready models, one folder each; also where a person puts one that was fetched elsewhere."""
    return home() / "models"


def missing(folder: Path) -> str | None:
    """What `folder` lacks to be a model that can be loaded; None when it is whole."""
    if not (folder / "config.json").is_file():
        return "config.json"
    if not any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer.model")):
        return "tokenizer.json or tokenizer.model"
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        return next((name for name in shards(index) if not (folder / name).is_file()), None)
    if not (folder / "model.safetensors").is_file():
        other = any(folder.glob("*.bin")) or any(folder.glob("*.pth"))
        return "model.safetensors" + (" (pickled weights are not read: they could run code)" if other else "")
    return None


def shards(index: Path) -> list[str]:
    """The files that an index names. Raises UserError when it is damaged, or points out of its folder."""
    import json

    try:
        names = sorted(set(json.loads(index.read_text("utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, AttributeError, TypeError, OSError) as error:
        raise UserError(f"{index} cannot be read ({error}); fetch the model again.") from None
    for name in names:
        if not isinstance(name, str) or name != Path(name).name or "\\" in name:
            raise UserError(f"{index} names a file outside of its folder ({name!r}); do not use this model.")
    return names


def again(file: Path) -> str:
    """What to do about a damaged `file` of a model: which folder to delete, where this program would fetch it anew."""
    hub = next((p for p in file.parents if p.name.startswith("models--") and (p / "snapshots").is_dir()), None)
    if hub is not None:  # the hub's cache: the file is a link, and what it points to would be taken again
        return f"delete the folder {hub} so that it is fetched again"
    if home() in file.absolute().parents:
        return f"delete the folder {file.parent} so that it is fetched again"
    return "get it again"


def size_of(folder: Path) -> int:
    """Bytes of the files in `folder`, links followed."""
    return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())


def need_space(folder: Path, nbytes: int) -> None:
    """Raises UserError when the disk that holds `folder` has less than `nbytes` left (and a little)."""
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if free < nbytes + (32 << 20):
        raise UserError(
            f"The disk is too full: {_mb(nbytes)} are needed under {folder} and {_mb(free)} are free. "
            "Make room, or set SPECPLAY_HOME to a folder on another disk."
        )


def _mb(nbytes: float) -> str:
    return f"{nbytes / 1e9:.1f} GB" if nbytes >= 1e9 else f"{nbytes / 1e6:.0f} MB"


@contextmanager
def disk_errors() -> Iterator[None]:
    """Turns a full or forbidden disk into something to act on."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UserError(
                f"The disk is full ({error.filename or home()}): make room, or set SPECPLAY_HOME to a folder on "
                "another disk. What was fetched so far is kept."
            ) from None
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise UserError(
                f"{error.filename or home()} cannot be written to: set SPECPLAY_HOME to a folder of your own."
            ) from None
        raise


@contextmanager
def lock(key: str, tell: Progress) -> Iterator[None]:
    """One process at a time for `key`; the others wait, and say so."""
    from filelock import FileLock, Timeout

    check_home()
    folder = home() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    held = FileLock(folder / f"{key}.lock")
    while True:
        try:
            held.acquire(timeout=0)
            break
        except Timeout:
            tell(None, f"another process is getting {key}; waiting for it")
            time.sleep(0.3)
    try:
        yield
    finally:
        held.release()
