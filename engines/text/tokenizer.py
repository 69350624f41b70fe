"""One tokenizer, whatever its files: text to ids, and what every id adds to a text, as bytes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from ..errors import UserError
from . import chat, folder
from .backends import Backend, JsonBackend, SentencePieceBackend


class Tokenizer:
    """`name` is for messages; `size` counts ids, gaps included; `eos_ids` end a text (may be empty, E7).

    `add_bos` says whether a text without a template starts with `bos_id`. `dummy_prefix` is true where the first
    token of a text carries a blank that the text does not have (SentencePiece).
    """

    def __init__(self, backend: Backend, info: folder.Info, name: str) -> None:
        self.name = name
        self._backend = backend
        self._info = info
        self._bytes: dict[int, bytes] = {}
        self.dummy_prefix = backend.dummy_prefix
        self.bos_id = self._first_id("bos_token", info.bos_id, backend.adds_bos)
        named_eos = self._first_id("eos_token", None, getattr(backend, "eos_id", None))
        ids = [*info.eos_ids, *([] if named_eos is None else [named_eos])]
        self.eos_ids: tuple[int, ...] = tuple(dict.fromkeys(ids))
        wants = info.add_bos if info.add_bos is not None else backend.adds_bos is not None
        self.add_bos = wants and self.bos_id is not None

    def _first_id(self, name: str, *others: int | None) -> int | None:
        text = self._info.specials.get(name)
        return next((i for i in (self.id_of(text) if text else None, *others) if i is not None), None)

    # -- ids ---------------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        return len(self._backend.pieces)

    def vocab(self) -> list[str]:
        """Raw token strings by id, "" for an id without one. Shared: do not change it."""
        return self._backend.pieces

    @cached_property
    def _by_piece(self) -> dict[str, int]:
        return {p: i for i, p in enumerate(self._backend.pieces) if p}

    def id_of(self, piece: str) -> int | None:
        return self._by_piece.get(piece)

    def piece(self, i: int) -> str:
        """The raw token string ("Ġthe", "▁the", "<0x0A>"), "" for an id without one."""
        return self._backend.pieces[i] if 0 <= i < self.size else ""

    def is_special(self, i: int) -> bool:
        """Control tokens (BOS, <|im_end|> ...), which never show as text."""
        return i in self._backend.special

    @cached_property
    def marks(self) -> frozenset[int]:
        """Control tokens that a model reads but does not write: a chat template's, BOS. What ends a text is none."""
        return self._backend.special - set(self.eos_ids)

    def token_bytes(self, i: int) -> bytes:
        """What token `i` adds to a running text, UTF-8; maybe a part of a character. b"" for a special token."""
        found = self._bytes.get(i)
        if found is None:
            if not 0 <= i < self.size or i in self._backend.special:
                found = b""
            elif i in self._backend.added:
                found = self._backend.added[i].encode()
            else:
                found = self._backend.raw_bytes(i)
            self._bytes[i] = found
        return found

    # -- text to ids -------------------------------------------------------------------------------------------

    def encode(self, text: str, *, add_bos: bool | None = None, specials: bool = True) -> list[int]:
        """Ids of `text`. `add_bos` None: as the tokenizer does by itself. `specials` False: a special token's name
        in the text is spelled out like any other text."""
        ids = self._backend.encode(text, specials)
        wanted = self.add_bos if add_bos is None else add_bos and self.bos_id is not None
        # A raw prompt may bring its own BOS; two of them are never meant.
        return [self.bos_id, *ids] if wanted and ids[:1] != [self.bos_id] else ids

    @property
    def has_chat_template(self) -> bool:
        return self._info.template is not None

    def chat_text(self, messages: Sequence[dict[str, Any]], **options: Any) -> str:
        """The template's text, ready for the answer. Raises UserError without a template, or with a broken one."""
        if self._info.template is None:
            raise UserError(f"{self.name} has no chat template; use the prompt as it is (raw).")
        return chat.render(self._info.template, messages, self._info.specials, name=self.name, **options)

    def chat(self, messages: Sequence[dict[str, Any]], **options: Any) -> tuple[str, list[int]]:
        """The template's text and its ids. The name of a special token inside a message stays plain text: nobody ends
        their own turn, or begins the system's, by typing it."""
        names = [self.piece(i) for i in self._backend.special]
        guard = chat.Guard(names, messages)
        text = self.chat_text(guard.messages, **options)
        if not guard.needed:
            return text, self.encode(text, add_bos=False)
        out: list[int] = []
        for part, special in guard.parts(text):
            out += [self._by_piece[part]] if special else self._backend.encode(part, False)
        return guard.clean(text), out

    def prompt_ids(self, text: str, *, raw: bool = False, system: str | None = None) -> list[int]:
        """The ids a run starts from: `text` as a user's turn, or as it is (`raw`, or no template). Never empty.

        A prompt of nothing or white space starts from BOS; without one it raises UserError.
        """
        if self.has_chat_template and not raw:
            head = [{"role": "system", "content": system}] if system else []
            return self.chat([*head, {"role": "user", "content": text}])[1]
        blank = not text.strip()
        if blank and self.bos_id is None:
            raise UserError(f"The prompt is empty, and {self.name} has no token to begin a text with: write something.")
        return self.encode(text, add_bos=True if blank else None)


def load_tokenizer(path: Path | str, name: str | None = None) -> Tokenizer:
    """The tokenizer in a model's folder. Raises UserError when there is none, or it cannot be read."""
    where = Path(path)
    info = folder.read(where)
    name = name or where.name
    if (where / "tokenizer.json").is_file():
        return Tokenizer(JsonBackend(where / "tokenizer.json", info), info, name)
    if (where / "tokenizer.model").is_file():
        return Tokenizer(SentencePieceBackend(where / "tokenizer.model", info), info, name)
    raise UserError(f"{where} has no tokenizer.json and no tokenizer.model; a model's folder needs one of them.")
