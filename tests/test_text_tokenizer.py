"""Tokenizers of every kind: bytes of tokens, special tokens, BOS and EOS, empty prompts (E10)."""

from __future__ import annotations

import json
import threading

import pytest
from text_samples import KINDS, TEXTS, byte_level, loses_first_blank, sentencepiece_folder, tokenizer, write_json

from engines.errors import UserError
from engines.text import TextStream, load_tokenizer
from engines.text.backends import byte_alphabet
from engines.text.stream import decode


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", TEXTS)
def test_the_bytes_of_the_tokens_are_the_bytes_of_the_text(kind, text):
    t = tokenizer(kind)
    ids = t.encode(text, add_bos=False)
    data = b"".join(t.token_bytes(i) for i in ids)
    if loses_first_blank(kind, text):
        assert data == text.encode()
        return
    assert data == (b" " if t.dummy_prefix else b"") + text.encode()
    assert decode(t, ids) == text


@pytest.mark.parametrize("kind", KINDS)
def test_ids_and_pieces_belong_together(kind):
    t = tokenizer(kind)
    vocab = t.vocab()
    assert len(vocab) == t.size
    assert all(t.piece(i) == vocab[i] for i in range(t.size))
    assert all(t.id_of(p) == i for i, p in enumerate(vocab) if p)
    assert t.piece(t.size) == "" and t.piece(-1) == "" and t.token_bytes(t.size + 7) == b""


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_have_no_text(kind):
    t = tokenizer(kind)
    special = [i for i in range(t.size) if t.is_special(i)]
    assert t.bos_id in special and set(t.eos_ids) <= set(special) and t.eos_ids
    assert all(t.token_bytes(i) == b"" for i in special)
    assert "<" not in decode(t, special)


@pytest.mark.parametrize("kind", ["byte-level", "json-llama", "json-unigram"])
def test_bytes_agree_with_the_librarys_own_decoder(kind, tmp_path):
    from tokenizers import Tokenizer as Library

    library = Library.from_file(str(KINDS[kind](tmp_path) / "tokenizer.json"))
    t = load_tokenizer(tmp_path)
    for text in TEXTS:
        ids = t.encode(text, add_bos=False)
        assert ids == library.encode(text, add_special_tokens=False).ids
        assert decode(t, ids) == library.decode(ids)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_bytes_agree_with_sentencepieces_own_decoder(kind, tmp_path):
    import sentencepiece

    t = load_tokenizer(sentencepiece_folder(tmp_path, kind))
    sp = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "tokenizer.model"))
    for text in TEXTS:
        ids = t.encode(text, add_bos=False)
        assert ids == sp.encode(text)
        assert decode(t, ids) == sp.decode(ids)


def test_byte_alphabet_is_the_librarys():
    from tokenizers import pre_tokenizers

    assert set(byte_alphabet()) == set(pre_tokenizers.ByteLevel.alphabet())
    assert sorted(byte_alphabet().values()) == list(range(256))


def test_added_tokens_that_are_not_special_show_as_they_are():
    t = tokenizer("byte-level")
    i = t.id_of("<tool_call>")
    assert not t.is_special(i) and t.token_bytes(i) == b"<tool_call>"
    assert t.encode("x<tool_call>", add_bos=False)[-1] == i


def test_special_names_in_a_text_are_tokens_only_when_asked_for():
    for kind, name in (("byte-level", "<|im_end|>"), ("sp-bpe", "</s>"), ("json-llama", "</s>")):
        t = tokenizer(kind)
        assert t.id_of(name) in t.encode(f"a{name}b", add_bos=False)
        plain = t.encode(f"a{name}b", add_bos=False, specials=False)
        assert t.id_of(name) not in plain and decode(t, plain) == f"a{name}b"


def test_user_defined_piece_that_the_settings_call_special(tmp_path):
    """Gemma's tokenizer.model has <start_of_turn> as a user-defined piece, which SentencePiece finds in any text."""
    sentencepiece_folder(tmp_path, dummy_prefix=False, symbols=("<start_of_turn>",))
    i = load_tokenizer(tmp_path).id_of("<start_of_turn>")
    write_json(
        tmp_path / "tokenizer_config.json",
        {"added_tokens_decoder": {str(i): {"content": "<start_of_turn>", "special": True}}},
    )
    t = load_tokenizer(tmp_path)
    assert t.is_special(i) and t.token_bytes(i) == b""
    assert t.encode("a<start_of_turn>b", add_bos=False).count(i) == 1
    plain = t.encode("a<start_of_turn>b", add_bos=False, specials=False)
    assert i not in plain and decode(t, plain) == "a<start_of_turn>b"


def test_added_tokens_beyond_the_sentencepiece_model(tmp_path):
    sentencepiece_folder(tmp_path)
    size = load_tokenizer(tmp_path).size
    write_json(tmp_path / "added_tokens.json", {"<|im_start|>": size})
    write_json(
        tmp_path / "tokenizer_config.json",
        {
            "added_tokens_decoder": {str(size + 1): {"content": "<|im_end|>", "special": True}},
            "eos_token": "<|im_end|>",
        },
    )
    t = load_tokenizer(tmp_path)
    assert t.size == size + 2 and size + 1 in t.eos_ids
    assert t.encode("<|im_start|>x<|im_end|>", add_bos=False)[0] == size
    assert t.token_bytes(size) == b"<|im_start|>" and t.token_bytes(size + 1) == b""


@pytest.mark.parametrize(("legacy", "count"), [(True, 2), (False, 1)])
def test_the_blank_before_text_after_a_special_token(tmp_path, legacy, count):
    """Legacy SentencePiece tokenizers put it before every stretch of text, newer settings only before the first."""
    sentencepiece_folder(tmp_path)
    write_json(tmp_path / "tokenizer_config.json", {"legacy": legacy})
    t = load_tokenizer(tmp_path)
    ids = t.encode("fox</s>fox", add_bos=False)
    assert b"".join(t.token_bytes(i) for i in ids).count(b" ") == count


def test_bos_is_added_as_the_files_say(tmp_path):
    assert tokenizer("byte-level").encode("fox")[0] != tokenizer("byte-level").bos_id  # add_bos_token: false
    assert tokenizer("sp-bpe").encode("fox")[0] == 1  # SentencePiece's own habit
    assert tokenizer("json-llama").encode("fox")[0] == 1  # the post-processor says so
    t = tokenizer("json-llama")
    assert t.encode("<s>fox").count(1) == 1  # a raw prompt that brings its own
    assert 1 not in t.encode("fox", add_bos=False)


@pytest.mark.parametrize("text", ["", " ", "\n\t "])
def test_e10_an_empty_prompt_starts_from_bos(text):
    """E10: an empty prompt, or white space only, with a BOS."""
    for kind in ("byte-level", "sp-bpe", "json-llama"):
        t = tokenizer(kind)
        ids = t.prompt_ids(text, raw=True)
        assert ids[0] == t.bos_id
        assert TextStream(t).prompt_pieces(ids)[0] == t.piece(t.bos_id)


@pytest.mark.parametrize("text", ["", " ", "\n\t "])
def test_e10_an_empty_prompt_without_bos_is_refused(text, tmp_path):
    """E10: an empty prompt, or white space only, without a BOS."""
    t = load_tokenizer(byte_level(tmp_path, bos=False, template=None), "nameless")
    assert t.bos_id is None
    with pytest.raises(UserError, match=r"prompt is empty.*nameless.*write something"):
        t.prompt_ids(text)
    assert t.prompt_ids("x")


def test_eos_ids_come_from_every_file_that_names_one(tmp_path):
    byte_level(tmp_path)
    write_json(tmp_path / "generation_config.json", {"eos_token_id": 0})
    write_json(tmp_path / "config.json", {"text_config": {"eos_token_id": [1]}})
    assert load_tokenizer(tmp_path).eos_ids == (0, 1, 2)
    for name in ("generation_config.json", "config.json"):
        (tmp_path / name).unlink()
    write_json(tmp_path / "tokenizer_config.json", {})
    assert load_tokenizer(tmp_path).eos_ids == ()  # E7: a model without one


def test_two_threads_that_want_different_things_do_not_mix():
    t = tokenizer("byte-level")
    text = "a<|im_end|>b" * 20
    want = {s: t.encode(text, specials=s) for s in (True, False)}
    wrong = []

    def work(specials):
        for _ in range(200):
            if t.encode(text, specials=specials) != want[specials]:
                wrong.append(specials)

    threads = [threading.Thread(target=work, args=(n % 2 == 0,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert want[True] != want[False] and not wrong


def test_broken_folders_say_what_is_wrong(tmp_path):
    with pytest.raises(UserError, match=r"no tokenizer\.json and no tokenizer\.model"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.model").write_bytes(b"not a model")
    with pytest.raises(UserError, match="cannot be read as a tokenizer"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(UserError, match="cannot be read as a tokenizer"):
        load_tokenizer(tmp_path)
    byte_level(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("[1]")
    with pytest.raises(UserError, match="does not hold a JSON object"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("{")
    with pytest.raises(UserError, match="cannot be read"):
        load_tokenizer(tmp_path)


def test_a_kind_that_streams_in_no_known_way_is_refused(tmp_path):
    byte_level(tmp_path)
    data = json.loads((tmp_path / "tokenizer.json").read_text("utf-8"))
    data["decoder"] = {"type": "WordPiece", "prefix": "##", "cleanup": True}
    write_json(tmp_path / "tokenizer.json", data)
    with pytest.raises(UserError, match=r"not supported.*WordPiece"):
        load_tokenizer(tmp_path)
