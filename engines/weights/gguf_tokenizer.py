"""GGUF vocabulary -> tokenizer.json (byte-level BPE) or tokenizer.model (SentencePiece), and their settings."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from ..errors import UserError
from . import sentencepiece_proto as sp
from .gguf_file import GGUFFile

_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN = _WORDS + r"\p{N}" + _REST
LLAMA3 = _WORDS + r"\p{N}{1,3}" + _REST
TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|"
    r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
GPT2, DIGITS = "gpt2", "digits"
# How text is cut into words before merging: by the name that llama.cpp gives it in tokenizer.ggml.pre.
PRE_TOKENIZERS = {
    "": GPT2, "default": GPT2, "gpt-2": GPT2, "gpt2": GPT2,
    "smollm": DIGITS, "starcoder": DIGITS, "refact": DIGITS, "command-r": DIGITS,
    "qwen2": QWEN, "deepseek-r1-qwen": QWEN,
    "llama3": LLAMA3, "llama-v3": LLAMA3, "llama-bpe": LLAMA3,
    "tekken": TEKKEN,
}  # fmt: skip
# Words that are tokens as they stand, whatever the merges would make of them.
IGNORE_MERGES = {LLAMA3, TEKKEN}

# Ends a turn or a text, whichever of them a GGUF names as its one EOS.
ENDINGS = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>", "<end_of_turn>", "<|end|>", "<|eom_id|>")


def write(file: GGUFFile, folder: Path) -> list[int]:
    """Write the tokenizer's files into `folder` and return the ids that end a text, the main one first.

    Raises UserError for a kind of tokenizer, or a way of cutting words, that is not known: guessing would give
    a model that reads other tokens than it was trained on.
    """
    kind = file.need("tokenizer.ggml.model")
    tokens: list[str] = file.need("tokenizer.ggml.tokens")
    types: list[int] = file.get("tokenizer.ggml.token_type") or [sp.NORMAL] * len(tokens)
    if len(types) != len(tokens):
        raise UserError(f"{file.path} has {len(tokens)} tokens but {len(types)} kinds of them; fetch it again.")
    if kind == "gpt2":
        _write_bpe(file, folder, tokens, types)
    elif kind == "llama":
        _write_sentencepiece(file, folder, tokens, types)
    else:
        raise UserError(f"{file.path} has a tokenizer of kind {kind!r}; 'gpt2' and 'llama' can be converted.")
    _write_settings(file, folder, tokens)
    return _endings(file, tokens, types)


def _write_bpe(file: GGUFFile, folder: Path, tokens: list[str], types: list[int]) -> None:
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    pre = file.get("tokenizer.ggml.pre") or ""
    if pre not in PRE_TOKENIZERS:
        raise UserError(
            f"{file.path} cuts words by the rule {pre!r}, which is not known here; name the model's hub id or folder."
        )
    rule = PRE_TOKENIZERS[pre]
    merges = [tuple(m.split(" ", 1)) for m in file.need("tokenizer.ggml.merges")]
    # Rows that only pad the embedding to a round size are no tokens.
    vocab = {t: i for i, t in enumerate(tokens) if not _padding(t, types[i])}
    model = models.BPE(vocab=vocab, merges=merges, ignore_merges=rule in IGNORE_MERGES)
    tokenizer = Tokenizer(model)
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=rule in (GPT2, DIGITS))
    if rule == DIGITS:
        cut = [pre_tokenizers.Digits(individual_digits=True), byte_level]
    elif rule == GPT2:
        cut = [byte_level]
    else:
        from tokenizers import Regex

        cut = [pre_tokenizers.Split(Regex(rule), behavior="isolated"), byte_level]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(cut)
    if rule == QWEN:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    for kind, special in ((sp.CONTROL, True), (sp.USER_DEFINED, False)):
        added = [
            AddedToken(t, special=special, normalized=False) for t, k in zip(tokens, types, strict=True) if k == kind
        ]
        tokenizer.add_special_tokens(added) if special else tokenizer.add_tokens(added)
    tokenizer.save(str(folder / "tokenizer.json"))


def _padding(token: str, kind: int) -> bool:
    return kind == sp.UNUSED and re.fullmatch(r"\[PAD\d+\]", token) is not None


def _write_sentencepiece(file: GGUFFile, folder: Path, tokens: list[str], types: list[int]) -> None:
    scores = file.get("tokenizer.ggml.scores") or [0.0] * len(tokens)
    types = list(types)
    unknown = int(file.get("tokenizer.ggml.unknown_token_id", 0) or 0)
    if sp.UNKNOWN not in types:  # SentencePiece insists on exactly one
        types[unknown] = sp.UNKNOWN
    unknown = types.index(sp.UNKNOWN)
    types = [sp.CONTROL if k == sp.UNKNOWN and i != unknown else k for i, k in enumerate(types)]
    seen: dict[str, int] = {}
    pieces = []
    for i, (token, score, kind) in enumerate(zip(tokens, scores, types, strict=True)):
        if token == "" or token in seen:  # and on pieces that are all different, and not empty
            token, kind = f"<unused-{i}>", sp.UNUSED
        if kind == sp.USER_DEFINED:  # llama.cpp's converter writes their blanks out
            token = token.replace(" ", "\u2581")
        seen[token] = i
        pieces.append((token, score, kind))
    proto = sp.model_proto(
        pieces,
        add_dummy_prefix=bool(file.get("tokenizer.ggml.add_space_prefix", True)),
        unk_id=unknown,
        bos_id=_id(file, "bos", -1),
        eos_id=_id(file, "eos", -1),
        pad_id=_id(file, "padding", -1),
    )
    (folder / "tokenizer.model").write_bytes(proto)


def _id(file: GGUFFile, name: str, default: Any = None) -> Any:
    value = file.get(f"tokenizer.ggml.{name}_token_id")
    return default if value is None else int(value)


def _write_settings(file: GGUFFile, folder: Path, tokens: list[str]) -> None:
    settings: dict[str, Any] = {
        "add_bos_token": bool(file.get("tokenizer.ggml.add_bos_token", file.need("tokenizer.ggml.model") == "llama")),
        "add_eos_token": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": int(file.get("{arch}.context_length", 2048)),
    }
    for name, ours in (("bos", "bos"), ("eos", "eos"), ("unknown", "unk"), ("padding", "pad")):
        i = _id(file, name)
        if i is not None and 0 <= i < len(tokens):
            settings[f"{ours}_token"] = tokens[i]
    template = file.get("tokenizer.chat_template")
    if template:
        settings["chat_template"] = template
    if file.need("tokenizer.ggml.model") == "llama":
        settings["legacy"] = True  # llama.cpp, too, puts the blank after every control token
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, ensure_ascii=False, indent=1), "utf-8")


def _endings(file: GGUFFile, tokens: list[str], types: list[int]) -> list[int]:
    named = [_id(file, name) for name in ("eos", "eot", "eom")]
    known = [i for i, t in enumerate(tokens) if t in ENDINGS and types[i] in (sp.CONTROL, sp.USER_DEFINED)]
    return list(dict.fromkeys(i for i in [*named, *known] if i is not None))
