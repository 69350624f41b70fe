"""The two libraries that cut text into tokens, behind one small interface."""

from __future__ import annotations

import json
import re
import threading
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from ..errors import UserError
from .folder import Info

SPACE = "\u2581"  # SentencePiece's visible blank
BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class Backend(Protocol):
    """`pieces[id]` is the raw token ("" for an id without one), `special` the ids that never show as text, `added`
    the text of tokens that stand for themselves. `dummy_prefix`: a text's first token carries a blank that the text
    does not have. `adds_bos`: what the tokenizer's own files do, None if they do not say."""

    pieces: list[str]
    special: frozenset[int]
    added: dict[int, str]
    dummy_prefix: bool
    adds_bos: int | None

    def encode(self, text: str, specials: bool) -> list[int]: ...

    def raw_bytes(self, i: int) -> bytes: ...


def byte_alphabet() -> dict[str, int]:
    """GPT-2's letters for bytes: printable Latin-1 stands for itself, the others for U+0100 onwards."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    out = {chr(b): b for b in printable}
    rest = (b for b in range(256) if chr(b) not in out)
    return out | {chr(0x100 + n): b for n, b in enumerate(rest)}


_BYTES = byte_alphabet()


class JsonBackend:
    """A tokenizer.json, through `tokenizers`: byte-level BPE, or SentencePiece's models in that format."""

    def __init__(self, path: Path, info: Info) -> None:
        from tokenizers import Tokenizer

        try:
            self._tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises bare Exception
            raise UserError(f"{path} cannot be read as a tokenizer ({error}); fetch the model again.") from None
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._lock = threading.Lock()
        added = self._tokenizer.get_added_tokens_decoder()
        self.added = {i: t.content for i, t in added.items()}
        self.special = frozenset(i for i, t in added.items() if t.special)
        steps = _steps(self._tokenizer.decoder)
        kinds = {step.get("type") for step in steps}
        self._byte_level = "ByteLevel" in kinds
        self._byte_fallback = "ByteFallback" in kinds
        metaspace = next((s for s in steps if s["type"] == "Metaspace"), None)
        replaces = any(s["type"] == "Replace" and s.get("content") == " " for s in steps)
        if not (self._byte_level or metaspace or replaces):
            raise UserError(f"{path} is a kind of tokenizer that is not supported (its decoder: {sorted(kinds)}).")
        strips = any(s["type"] == "Strip" and s.get("content") == " " and s.get("start") for s in steps)
        prepends = metaspace is not None and (
            metaspace.get("prepend_scheme", "always") != "never" and metaspace.get("add_prefix_space", True)
        )
        self.dummy_prefix = strips or bool(prepends)

    @cached_property
    def pieces(self) -> list[str]:
        vocab = self._tokenizer.get_vocab(with_added_tokens=True)
        out = [""] * (max(vocab.values(), default=-1) + 1)
        for piece, i in vocab.items():
            out[i] = piece
        return out

    @cached_property
    def adds_bos(self) -> int | None:
        """The token that the tokenizer's own post-processor puts first."""
        plain = self._tokenizer.encode("a", add_special_tokens=False).ids
        full = self._tokenizer.encode("a", add_special_tokens=True).ids
        return full[0] if len(full) > len(plain) and full[: len(plain)] != plain else None

    def encode(self, text: str, specials: bool) -> list[int]:
        with self._lock:
            self._tokenizer.encode_special_tokens = not specials
            return self._tokenizer.encode(text, add_special_tokens=False).ids

    def raw_bytes(self, i: int) -> bytes:
        piece = self._tokenizer.id_to_token(i)
        if piece is None:
            return b""
        if self._byte_level:
            if all(c in _BYTES for c in piece):
                return bytes(_BYTES[c] for c in piece)
            return piece.encode("utf-8", "replace")
        return _piece_bytes(piece, self._byte_fallback)


def _steps(decoder: Any) -> list[dict]:
    """The decoder's steps as plain data, sequences flattened."""
    if decoder is None:
        return []
    state = json.loads(decoder.__getstate__())
    out, todo = [], [state]
    while todo:
        step = todo.pop(0)
        todo = step["decoders"] + todo if step.get("type") == "Sequence" else todo
        out.append(step)
    return out


def _piece_bytes(piece: str, byte_fallback: bool) -> bytes:
    match = BYTE_PIECE.fullmatch(piece) if byte_fallback else None
    return bytes([int(match[1], 16)]) if match else piece.replace(SPACE, " ").encode()


class SentencePieceBackend:
    """A tokenizer.model alone, through `sentencepiece`; added tokens come from the JSON files beside it."""

    def __init__(self, path: Path, info: Info) -> None:
        import sentencepiece

        self._model = path.read_bytes()
        try:
            self._sp = sentencepiece.SentencePieceProcessor(model_proto=self._model)
        except (RuntimeError, ValueError) as error:
            raise UserError(f"{path} cannot be read as a tokenizer ({error}); fetch the model again.") from None
        sp = self._sp
        size = sp.get_piece_size()
        every = list(range(size))  # one call for all of them: Gemma has 262 144
        self.pieces = sp.id_to_piece(every)
        control = {i for i, yes in enumerate(sp.is_control(every)) if yes} | {sp.unk_id()}
        self.added = {i: self.pieces[i] for i in control}
        special = set(control)
        for i, (text, is_special) in sorted(info.added.items()):
            if i >= size:
                self.pieces += [""] * (i + 1 - len(self.pieces))
                self.pieces[i] = text
            elif not is_special:
                continue  # a user-defined piece, which SentencePiece itself finds in a text
            self.added[i] = text
            if is_special:
                special.add(i)
        self.special = frozenset(special)
        self._size = size
        self._ids = {text: i for i, text in self.added.items()}
        self._finder = finder(self._ids)
        self._legacy = info.legacy
        self.dummy_prefix = sp.encode("a", out_type=str)[0].startswith(SPACE)
        # Models of this kind start with <s> or <bos> unless their settings say no.
        self.adds_bos = sp.bos_id() if sp.bos_id() >= 0 else None
        self.eos_id = sp.eos_id() if sp.eos_id() >= 0 else None

    @cached_property
    def _sp_inner(self) -> Any:
        """The same, but for text that goes on: without the blank in front."""
        import sentencepiece

        from ..weights.sentencepiece_proto import NO_DUMMY_PREFIX

        return sentencepiece.SentencePieceProcessor(model_proto=self._model + NO_DUMMY_PREFIX)

    def encode(self, text: str, specials: bool) -> list[int]:
        out: list[int] = []
        again = self._sp  # the blank in front of a text: before every stretch of it, or (legacy false) only the first
        for n, (part, is_special) in enumerate(split(self._finder, text)):
            if is_special and specials:
                out.append(self._ids[part])
            elif is_special:
                # Spelled out in two halves, for SentencePiece itself would find a user-defined name.
                out += (again if n == 0 else self._sp_inner).encode(part[0]) + self._sp_inner.encode(part[1:])
                again = self._sp_inner
            else:
                out += (again if n == 0 or specials and self._legacy else self._sp_inner).encode(part)
        return out

    def raw_bytes(self, i: int) -> bytes:
        if i >= self._size:
            return self.pieces[i].encode() if i < len(self.pieces) else b""
        return _piece_bytes(self.pieces[i], self._sp.is_byte(i))


def finder(texts: Any) -> re.Pattern[str] | None:
    """A pattern that finds any of `texts`, the longest where several begin at one place."""
    ordered = sorted((t for t in texts if t), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, ordered))) if ordered else None


def split(pattern: re.Pattern[str] | None, text: str) -> list[tuple[str, bool]]:
    """`text` as (stretch, was it found by `pattern`), no stretch empty."""
    out, at = [], 0
    for match in pattern.finditer(text) if pattern else ():
        out += [(text[at : match.start()], False), (match[0], True)]
        at = match.end()
    return [(part, found) for part, found in [*out, (text[at:], False)] if part]
