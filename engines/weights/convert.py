"""GGUF -> a folder as model hubs have them: config.json, model.safetensors, tokenizer, settings.

Reading a GGUF takes seconds to minutes; the folder loads in less than a second, so it is made once and kept. The
quantised numbers are unpacked to 16 bits: the model is exactly as good as the GGUF, not as the original.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from ..errors import UserError
from . import gguf_config, gguf_tensors, gguf_tokenizer, safetensors_file
from .gguf_file import GGUFFile
from .places import Progress, need_space


def convert(gguf: Path, folder: Path, progress: Progress | None = None) -> Path:
    """Make `folder` out of the file `gguf` and return it; `folder` must not exist, and appears when it is whole.

    Raises UserError when the file is damaged or of a kind that cannot be converted; nothing is left behind then.
    """
    tell = progress or (lambda fraction, message: None)
    tell(None, f"reading {gguf.name}")
    file = GGUFFile(gguf)
    work = folder.with_name(folder.name + ".partial")
    shutil.rmtree(work, ignore_errors=True)  # what a killed run left: ours by its name, and under the caller's lock
    work.mkdir(parents=True)
    try:
        _fill(file, work, tell)
        work.rename(folder)
    except ValueError as error:
        raise UserError(f"{gguf} cannot be converted: {error}. Fetch it again.") from None
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return folder


def _fill(file: GGUFFile, folder: Path, tell: Progress) -> None:
    config = gguf_config.config(file)
    plans = gguf_tensors.plans(file, config)
    need_space(folder, sum(p.nbytes for p in plans))
    tell(None, "converting the tokenizer")
    endings = gguf_tokenizer.write(file, folder)
    _json(folder / "generation_config.json", {"bos_token_id": config["bos_token_id"], "eos_token_id": endings})

    def on_bytes(done: int, total: int) -> None:
        tell(done / total, f"converting the weights ({done / 1e6:,.0f} of {total / 1e6:,.0f} MB)")

    safetensors_file.write(folder / "model.safetensors", plans, on_bytes)
    _json(folder / "config.json", config)


def _json(path: Path, data: dict) -> None:
    path.write_text(json.dumps(data, indent=1), "utf-8")
