"""What the JSON files beside a model say about its tokenizer: special tokens, EOS ids, BOS, chat template."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import UserError


@dataclass
class Info:
    """`specials` are the named special tokens (bos_token, eos_token ...) as a template sees them.

    `added` lists extra tokens as id -> (text, special). `add_bos` is None where no file says.
    """

    folder: Path
    specials: dict[str, str] = field(default_factory=dict)
    added: dict[int, tuple[str, bool]] = field(default_factory=dict)
    add_bos: bool | None = None
    legacy: bool = True
    bos_id: int | None = None
    eos_ids: list[int] = field(default_factory=list)
    template: str | None = None


def read_json(path: Path) -> Any:
    """The parsed file, or {} when there is none. Raises UserError when it is not JSON."""
    try:
        return json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (ValueError, OSError) as error:
        raise UserError(f"{path} cannot be read ({error}); fetch the model again.") from None


def _content(value: Any) -> str | None:
    """A special token is written as a string or as an object that has one."""
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) and value else None


def _ids(value: Any) -> list[int]:
    values = value if isinstance(value, list) else [value]
    return [v for v in values if isinstance(v, int) and not isinstance(v, bool) and v >= 0]


def read(folder: Path) -> Info:
    """Read what is there; every file is optional, a broken one is a UserError."""
    config, generation, settings, special_map, added = (
        _object(folder / name)
        for name in (
            "config.json",
            "generation_config.json",
            "tokenizer_config.json",
            "special_tokens_map.json",
            "added_tokens.json",
        )
    )
    config = {**config, **(config.get("text_config") or {})}  # models that also see hide their text half in there
    info = Info(folder)
    for source in (special_map, settings):
        for name, value in source.items():
            text = _content(value)
            if name.endswith("_token") and text is not None:
                info.specials[name] = text
    for text, i in added.items():
        info.added[int(i)] = (text, False)
    for i, value in (settings.get("added_tokens_decoder") or {}).items():
        text = _content(value)
        if text is not None:
            info.added[int(i)] = (text, bool(value.get("special", False)))
    if isinstance(settings.get("add_bos_token"), bool):
        info.add_bos = settings["add_bos_token"]
    info.legacy = settings.get("legacy") is not False
    for source in (generation, config):
        info.eos_ids += _ids(source.get("eos_token_id"))
        if info.bos_id is None:
            info.bos_id = next(iter(_ids(source.get("bos_token_id"))), None)
    info.template = _template(folder, settings)
    return info


def _object(path: Path) -> dict:
    data = read_json(path)
    if not isinstance(data, dict):
        raise UserError(f"{path} does not hold a JSON object; fetch the model again.")
    return data


def _template(folder: Path, settings: dict) -> str | None:
    """A file of its own wins over the settings, as in transformers; of several templates the default one."""
    own = folder / "chat_template.jinja"
    if own.is_file():
        return own.read_text("utf-8")
    found = _object(folder / "chat_template.json").get("chat_template") or settings.get("chat_template")
    if isinstance(found, list):
        named = {t.get("name"): t.get("template") for t in found if isinstance(t, dict)}
        found = named.get("default") or next(iter(named.values()), None)
    return found if isinstance(found, str) and found else None
