"""Prompts as people have them: JSON Lines, CSV, plain text, a pasted list.

A line of JSON has `prompt` (as HumanEval's files do), `messages` (a chat; it ends with its last user turn) or `turns`
(Spec-Bench's; the first is asked). A byte-order mark, CRLF and blank lines are fine; what cannot be read is named by
its number and the reason.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import UserError

MAX_BYTES = 200_000_000
ROLES = ("system", "user", "assistant", "tool")


@dataclass(frozen=True)
class Prompt:
    """`text` is the (first) user turn. `messages` is the whole chat, where it is more than that turn. `category` groups

    results. `number` counts prompts from 1 as they stand in their file.
    """

    text: str
    category: str = ""
    number: int = 0
    messages: tuple[tuple[str, str], ...] = ()  # (role, content)

    @property
    def asked(self) -> str | list[dict[str, str]]:
        """What `Models.job` is given: the text, or the chat's messages."""
        return [{"role": role, "content": content} for role, content in self.messages] or self.text


@dataclass(frozen=True)
class Prompts:
    """Prompts and what was done to them: `notes` are sentences for the reader."""

    prompts: tuple[Prompt, ...]
    notes: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Tells one set of prompts from another: hex, 16 digits."""
        rows = [(p.text, p.category, p.messages) for p in self.prompts]
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]


def content_of(name: str) -> str:
    """A file's text, "-" being standard input. Raises UserError for one that cannot be read or is no text."""
    path = Path(name).expanduser()
    try:
        if name == "-":
            raw = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            raw = b"" if path.stat().st_size > MAX_BYTES else path.read_bytes()
        if len(raw) > MAX_BYTES or (name != "-" and path.stat().st_size > MAX_BYTES):
            raise UserError(f"{path} is longer than {MAX_BYTES // 1_000_000} MB: give a part of it.")
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text (byte {error.start}).") from None


def read_prompts(name: str, column: str | None = None) -> Prompts:
    """The prompts of a file, by the end of its name: .jsonl and .ndjson, .csv and .tsv, else text.

    `column` names the column of a table that holds them (default: the one called `prompt`). Raises UserError.
    """
    content, suffix = content_of(name), Path(name).suffix.lower()
    if suffix in (".csv", ".tsv"):
        found = list(_table(content, name, column, "\t" if suffix == ".tsv" else ","))
    elif column is not None:
        raise UserError(f"--column is for tables (.csv, .tsv), and {name} is none.")
    elif suffix in (".jsonl", ".ndjson", ".json") or _looks_like_json(content):
        found = list(json_lines(content, name))
    else:
        found = [Prompt(text) for text in paragraphs(content)]
    return finished(found, name)


def pasted(text: str) -> Prompts:
    """Prompts typed or pasted into a box: lines of JSON; or paragraphs, where blank lines part them; or one a line."""
    text = text.removeprefix("\ufeff")
    if _looks_like_json(text):
        return finished(list(json_lines(text, "The list")), "The list")
    parts = paragraphs(text)
    if len(parts) == 1:
        parts = [line.strip() for line in parts[0].splitlines() if line.strip()]
    return finished([Prompt(part) for part in parts], "The list")


def finished(found: Sequence[Prompt], name: str) -> Prompts:
    """Numbered, and each prompt once: a repeated one would be measured with what its first run left behind, and counted

    as if it were another. Raises UserError when there are none.
    """
    if not found:
        raise UserError(f"{name} holds no prompts.")
    seen: dict[tuple, Prompt] = {}
    for number, p in enumerate(found, start=1):
        seen.setdefault((p.text, p.messages), Prompt(p.text, p.category, number, p.messages))
    notes = []
    if len(seen) < len(found):
        count = len(found) - len(seen)
        notes.append(
            f"{count} prompt{'' if count == 1 else 's'} occurred before in the file: each is measured once, as a "
            "repetition is no new evidence."
        )
    return Prompts(tuple(seen.values()), tuple(notes))


def paragraphs(content: str) -> list[str]:
    """What blank lines part."""
    out: list[list[str]] = [[]]
    for line in content.splitlines():
        if line.strip():
            out[-1].append(line)
        elif out[-1]:
            out.append([])
    return ["\n".join(part) for part in out if part]


def json_lines(content: str, name: str) -> Iterator[Prompt]:
    """One prompt a line of JSON. Raises UserError with the line's number."""
    for number, line in enumerate(content.split("\n"), start=1):
        if line.strip():
            yield prompt_of_line(line.strip(), f"{name}, line {number}")


def prompt_of_line(line: str, where: str) -> Prompt:
    """The prompt of one line of JSON. Raises UserError that begins with `where`."""
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = f": {error.msg} at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else ""
        raise UserError(f"{where} is not JSON{reason}.") from None
    if not isinstance(data, dict):
        raise UserError(f'{where} is JSON but no object: write one such as {{"prompt": "..."}}.')
    text, messages = data.get("prompt"), ()
    if text is None and isinstance(data.get("turns"), list) and data["turns"]:
        text = data["turns"][0]
    if text is None and isinstance(data.get("messages"), list):
        text, messages = _chat(data["messages"], where)
    if not isinstance(text, str) or not text.strip():
        raise UserError(f"{where} has no prompt: it needs `prompt`, `turns` or `messages` with text.")
    category = data.get("category")
    return Prompt(text, "" if category is None else str(category), 0, messages)


def _chat(said: list[Any], where: str) -> tuple[str | None, tuple[tuple[str, str], ...]]:
    """(first user turn, all messages up to the last user turn; none where the first turn is all there is)."""
    messages = []
    for m in said:
        if not isinstance(m, dict) or m.get("role") not in ROLES:
            raise UserError(f"{where}: each of `messages` needs a role ({', '.join(ROLES)}) and content.")
        content = m.get("content")
        if isinstance(content, list):  # parts, as servers take them
            content = "".join(p["text"] for p in content if isinstance(p, dict) and isinstance(p.get("text"), str))
        if not isinstance(content, str):
            raise UserError(f"{where}: a message has no text.")
        messages.append((m["role"], content))
    turns = [i for i, (role, _) in enumerate(messages) if role == "user"]
    if not turns:
        return None, ()
    kept = tuple(messages[: turns[-1] + 1])
    return messages[turns[0]][1], kept if len(kept) > 1 else ()


def _looks_like_json(content: str) -> bool:
    first = content.lstrip().split("\n", 1)[0].strip()
    return first.startswith("{") and first.endswith("}")


def _table(content: str, name: str, column: str | None, delimiter: str) -> Iterator[Prompt]:
    csv.field_size_limit(MAX_BYTES)
    reader = csv.DictReader(io.StringIO(content, newline=""), delimiter=delimiter, strict=True)
    wanted = column or "prompt"
    try:
        head = reader.fieldnames or []
        if wanted not in head:
            choose = f"choose one with --column: {', '.join(filter(None, head))}" if head else "it is empty"
            raise UserError(f"{name} has no column {wanted!r}; {choose}.")
        for row in reader:
            text = row.get(wanted) or ""
            if text.strip():
                yield Prompt(text, (row.get("category") or "") if wanted != "category" else "")
            elif any(isinstance(v, str) and v.strip() for v in row.values()):
                raise UserError(f"{name}, line {reader.line_num} has nothing in its column {wanted!r}.")
    except csv.Error as error:
        raise UserError(f"{name}, line {reader.line_num} is not a line of a table: {error}.") from None
