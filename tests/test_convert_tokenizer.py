"""GGUF vocabularies: the tokenizer that comes out cuts text as the original does."""

from __future__ import annotations

import json

import pytest
from gguf_samples import byte_level_vocabulary, write_gguf

from engines.errors import UserError
from engines.text import TextStream, check_shared_vocabulary, load_tokenizer
from engines.text.stream import decode
from engines.weights.convert import convert
from engines.weights.gguf_tokenizer import LLAMA3, QWEN


def tokenizer_of(tmp_path, arch="llama", **options):
    write_gguf(tmp_path / "m.gguf", arch, **options)
    return load_tokenizer(convert(tmp_path / "m.gguf", tmp_path / "out"), "m")


def pieces(t, text):
    return [t.piece(i) for i in t.encode(text, add_bos=False)]


def test_byte_level(tmp_path):
    t = tokenizer_of(tmp_path)
    tokens, _, _ = byte_level_vocabulary()
    assert t.vocab() == tokens[:-2]  # without the rows that only pad the embedding
    assert t.bos_id == 1 and t.eos_ids == (2, 0) and not t.add_bos and t.has_chat_template
    assert pieces(t, "the thing") == ["the", "Ġ", "th", "ing"]
    assert t.encode("<|im_start|>the<|im_end|>", add_bos=False) == [1, t.id_of("the"), 2]
    assert t.is_special(1) and not t.is_special(t.id_of("<tool_call>"))
    assert decode(t, t.encode("  नम 👩‍👩‍👧 \n\n 12345", add_bos=False)) == "  नम 👩‍👩‍👧 \n\n 12345"


@pytest.mark.parametrize(
    ("pre", "text", "want"),
    [
        ("smollm", "123 the", ["1", "2", "3", "Ġthe"]),  # each digit by itself
        ("qwen2", "123 the", ["1", "2", "3", "Ġthe"]),
        ("qwen2", " 1", ["Ġ", "1"]),  # the blank stays outside of a number
        ("llama-bpe", "123the", ["123", "the"]),
        ("llama-bpe", "1231", ["123", "1"]),  # three digits at a time
        ("gpt-2", "1231", ["123", "1"]),
        ("gpt-2", " 1", ["Ġ1"]),
    ],
)
def test_words_are_cut_by_the_named_rule(pre, text, want, tmp_path):
    assert pieces(tokenizer_of(tmp_path, pre=pre), text) == want


@pytest.mark.parametrize(
    ("rule", "text", "words"),
    [
        (QWEN, "I'LL say: x=12\n\n  go", ["I", "'LL", " say", ":", " x", "=", "1", "2", "\n\n", " ", " go"]),
        (LLAMA3, "a1234 b!\n", ["a", "123", "4", " b", "!\n"]),
        (QWEN, "tail   ", ["tail", "   "]),
    ],
)
def test_the_regular_expressions(rule, text, words):
    from tokenizers import Regex, pre_tokenizers

    split = pre_tokenizers.Split(Regex(rule), behavior="isolated")
    assert [word for word, _ in split.pre_tokenize_str(text)] == words


def test_sentencepiece(tmp_path):
    t = tokenizer_of(tmp_path, "gemma3")
    assert (tmp_path / "out" / "tokenizer.model").exists()
    assert t.bos_id == 2 and t.eos_ids == (1, 5) and t.add_bos and not t.dummy_prefix
    assert pieces(t, "the fox  the\n\nx") == ["the", "▁fox", "▁▁", "the", "\n\n", "x"]
    assert t.encode("<start_of_turn>the<end_of_turn>") == [2, 4, t.id_of("the"), 5]
    assert 4 not in t.encode("<start_of_turn>", specials=False)
    text = "fox 👩‍👩‍👧 안녕\n\n    the"
    ids = t.encode(text)
    assert "".join(TextStream(t).prompt_pieces(ids)) == "<bos>" + text
    assert decode(t, ids) == text


def test_sentencepiece_with_a_blank_in_front(tmp_path):
    """A Llama 2: no add_space_prefix in the file means yes."""
    t = tokenizer_of(tmp_path, spm=True, drop=("tokenizer.ggml.add_space_prefix", "tokenizer.ggml.add_bos_token"))
    assert t.dummy_prefix and t.add_bos
    assert pieces(t, "fox") == ["▁fox"] and decode(t, t.encode("fox")) == "fox"


def test_two_conversions_of_one_vocabulary_are_shared(tmp_path):
    a = tokenizer_of(tmp_path, pre="smollm")
    (tmp_path / "b").mkdir()
    check_shared_vocabulary(a, tokenizer_of(tmp_path / "b", "qwen2", pre="qwen2"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pre": "made-up"}, "'made-up', which is not known"),
        ({"drop": ("tokenizer.ggml.tokens",)}, r"lacks tokenizer\.ggml\.tokens"),
        ({"drop": ("tokenizer.ggml.model",)}, r"lacks tokenizer\.ggml\.model"),
        ({"drop": ("tokenizer.ggml.merges",)}, r"lacks tokenizer\.ggml\.merges"),
        ({"meta": {"tokenizer.ggml.model": "bert"}, "drop": ()}, "of kind 'bert'"),
    ],
)
def test_what_is_not_known_is_refused_by_name(options, message, tmp_path):
    options = dict(options)
    if "meta" in options:
        options["drop"] = ("nothing",)
    with pytest.raises(UserError, match=message):
        _tokenizer_with(tmp_path, options)
    assert not (tmp_path / "out").exists()


def _tokenizer_with(tmp_path, options):
    meta = options.pop("meta", None)
    write_gguf(tmp_path / "m.gguf", **options)
    if meta is not None:  # the writer has the key already: change it in the file, to one of the same length
        data = (tmp_path / "m.gguf").read_bytes()
        (tmp_path / "m.gguf").write_bytes(data.replace(b"gpt2", b"bert"))
    return convert(tmp_path / "m.gguf", tmp_path / "out")


def test_settings_are_those_of_the_file(tmp_path):
    tokenizer_of(tmp_path)
    settings = json.loads((tmp_path / "out" / "tokenizer_config.json").read_text())
    assert settings["bos_token"] == "<|im_start|>" and settings["eos_token"] == "<|im_end|>"
    assert settings["chat_template"] == "{{ messages[0].content }}" and settings["add_bos_token"] is False
    generation = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert generation["eos_token_id"] == [2, 0]


def test_a_padding_token_is_not_a_special_case(tmp_path):
    """Qwen's padding token is its end-of-text token: no id is lost."""
    t = tokenizer_of(tmp_path)
    assert sorted({t.bos_id, *t.eos_ids}) == [0, 1, 2]


def test_against_transformers_reading_the_same_file(tmp_path):
    """transformers' own GGUF reader is slow, but somebody else's."""
    from transformers import AutoTokenizer

    t = tokenizer_of(tmp_path, "qwen2", pre="qwen2")
    theirs = AutoTokenizer.from_pretrained(tmp_path, gguf_file="m.gguf")
    for text in ("the thing", "I'll  go\n\n 123", "👩‍👩‍👧 नमस्ते", "<|im_start|>the<|im_end|>"):
        assert t.encode(text, add_bos=False) == theirs(text, add_special_tokens=False).input_ids
