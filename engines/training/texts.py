"""A person's own text or prompts as training data: prompts are answered by the target, texts are read by it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import UserError
from .selftalk import kept, likeliest
from .store import ANSWER, Sequence_, Store

WINDOW = 256  # tokens of a text that are read together
ROWS = 16
MAX_BYTES = 200_000_000


def read_files(paths: Sequence[str]) -> tuple[list[str], list[str]]:
    """(prompts, texts). JSON Lines give prompts (`prompt`, `messages`' first user turn, or `turns`' first), anything

    else is text, cut at blank lines. Raises UserError for a file or line that cannot be read, with its number.
    """
    prompts: list[str] = []
    texts: list[str] = []
    for name in paths:
        path = Path(name).expanduser()
        try:
            if path.stat().st_size > MAX_BYTES:
                raise UserError(f"{path} is longer than {MAX_BYTES // 1_000_000} MB: give a part of it.")
            content = path.read_bytes().decode("utf-8-sig")
        except OSError as error:
            raise UserError(f"{path} cannot be read: {error.strerror or error}.") from None
        except UnicodeDecodeError as error:
            raise UserError(f"{path} is not UTF-8 text (byte {error.start}).") from None
        if path.suffix in (".jsonl", ".ndjson"):
            for number, line in enumerate(content.splitlines(), start=1):
                if line.strip():
                    prompts.append(_prompt(line, f"{path}, line {number}"))
        else:
            texts += [part.strip("\r\n") for part in content.replace("\r\n", "\n").split("\n\n\n") if part.strip()]
    if not prompts and not texts:
        raise UserError("The files that were given hold no text.")
    return prompts, texts


def _prompt(line: str, where: str) -> str:
    try:
        data = json.loads(line)
    except ValueError:
        raise UserError(f"{where} is not JSON.") from None
    found: Any = None
    if isinstance(data, dict):
        found = data.get("prompt")
        if found is None and isinstance(data.get("turns"), list) and data["turns"]:
            found = data["turns"][0]
        if found is None and isinstance(data.get("messages"), list):
            said = (m for m in data["messages"] if isinstance(m, dict) and m.get("role") == "user")
            found = next((m.get("content") for m in said), None)
    if not isinstance(found, str) or not found.strip():
        raise UserError(f"{where} has no prompt: it needs `prompt`, `turns` or `messages` with text.")
    return found


def read_texts(
    decoder: Any,
    tokenizer: Any,
    store: Store,
    texts: Sequence[str],
    tokens: int,
    progress: Callable[[int], None],
    stopped: Callable[[], bool] = lambda: False,
) -> None:
    """The target reads `texts` in windows, many at once, and what it thinks after each token goes into the store.

    What was read before an interruption is left out, by its number: the same texts must be given again.
    """
    store.cut()
    windows: list[list[int]] = []
    for text in texts:
        ids = tokenizer.encode(text)
        windows += [ids[i : i + WINDOW] for i in range(0, len(ids), WINDOW) if len(ids) - i >= 16]
    K, taps = store.meta["top"], tuple(store.meta["taps"])
    rest = windows[len(store) :]
    for i in range(0, len(rest), ROWS):
        if stopped() or store.tokens >= tokens:
            return
        part = rest[i : i + ROWS]
        n = max(map(len, part))
        batch = decoder.batch(len(part), n, taps=taps)
        logits = batch.forward([ids + [0] * (n - len(ids)) for ids in part])
        top, p = likeliest(logits)
        for row, ids in enumerate(part):
            m = len(ids)
            store.add(
                Sequence_(
                    np.array(ids), np.full(m, ANSWER), kept(batch.features[row, :m], len(taps)),
                    top[row, :m, :K], p[row, :m, :K],
                )
            )  # fmt: skip
        progress(store.tokens)
