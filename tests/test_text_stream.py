"""Streaming: exact additions, half characters that wait (U1), white space kept (U2)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_samples import KINDS, TEXTS, loses_first_blank, tokenizer

from engines.text import TextStream
from engines.text.stream import decode

EMOJI = "👩‍👩‍👧‍👦"
SCRIPTS = [EMOJI, "안녕하세요", "नमस्ते दुनिया", "🏳️‍🌈 ½ ﷽", "éà ñ"]


def pushes(t, ids, **options):
    stream = TextStream(t, **options)
    return [stream.push(i) for i in ids]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", SCRIPTS)
def test_u1_half_characters_wait_for_their_other_half(kind, text):
    """U1: no moment of the stream shows a replacement character; what is shown is always a beginning of the text."""
    t = tokenizer(kind)
    shown = ""
    stream = TextStream(t, at_start=True)
    for i in t.encode(text, add_bos=False):
        shown += stream.push(i)
        assert text.startswith(shown)
    assert shown == text


@pytest.mark.parametrize("kind", ["byte-level", "sp-bpe", "json-llama"])
def test_u1_byte_tokens_of_an_emoji_come_together(kind):
    t = tokenizer(kind)
    ids = t.encode("👩", add_bos=False)
    ids = [i for i in ids if t.token_bytes(i) != b" "]
    assert len(ids) == 4
    assert pushes(t, ids) == ["", "", "", "👩"]


@pytest.mark.parametrize("kind", KINDS)
def test_u1_a_limit_in_mid_character_shows_nothing_of_it(kind):
    """U1: cut anywhere, the text is a beginning of the whole, without half characters."""
    t = tokenizer(kind)
    text = "ok " + EMOJI
    ids = t.encode(text, add_bos=False)
    for n in range(len(ids) + 1):
        part = decode(t, ids[:n])
        assert text.startswith(part) and "\ufffd" not in part


def test_u1_bytes_that_are_no_character_are_dropped():
    t = tokenizer("sp-bpe")
    byte = [t.id_of(f"<0x{b:02X}>") for b in range(256)]
    good = t.encode("fox", add_bos=False)
    assert decode(t, [byte[0xF0], byte[0x9F], *good, byte[0xFF], byte[0x80], *good]) == " fox fox"
    assert decode(t, [byte[0xF0], byte[0x9F], byte[0x91]]) == ""
    # A character that the model did write in full is not taken for a fault, whatever it is.
    assert decode(t, [byte[0xEF], byte[0xBF], byte[0xBD]]) == "\ufffd"


@pytest.mark.parametrize("kind", KINDS)
def test_u2_indented_python_keeps_every_blank_and_newline(kind):
    """U2: streamed as a whole text, and as the continuation of a prompt."""
    code = "def f(n):\n\n    if n < 2:\n        return n\n\n\n    return  f(n - 1)\t# end \n"
    t = tokenizer(kind)
    assert "".join(pushes(t, t.encode(code, add_bos=False), at_start=True)) == code
    whole = t.encode("x" + code, add_bos=False)
    assert "".join(pushes(t, whole, at_start=True)) == "x" + code


@pytest.mark.parametrize("kind", ["sp-bpe", "sp-unigram", "json-unigram", "json-llama"])
def test_the_first_blank_is_the_tokenizers_only_at_the_start_of_a_text(kind):
    t = tokenizer(kind)
    ids = t.encode("fox", add_bos=False)
    assert decode(t, ids) == "fox"
    assert "".join(pushes(t, ids)) == " fox"  # going on after a prompt
    assert "".join(TextStream.after(t, [t.bos_id]).push(i) for i in ids) == "fox"
    assert "".join(TextStream.after(t, [t.bos_id, *ids]).push(i) for i in ids) == " fox"
    if not loses_first_blank(kind, " fox"):
        assert decode(t, t.encode(" fox", add_bos=False)) == " fox"  # only one blank is not the text's own


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_in_between_change_nothing(kind):
    t = tokenizer(kind)
    ids = t.encode("fox " + EMOJI, add_bos=False)
    noisy = [i for token in ids for i in (token, t.eos_ids[0])]
    assert decode(t, [t.bos_id, *noisy]) == decode(t, ids)


@pytest.mark.parametrize("kind", KINDS)
def test_peek_tells_what_push_will_say_and_takes_nothing(kind):
    t = tokenizer(kind)
    ids = t.encode("ab " + EMOJI + " c", add_bos=False)
    for at in range(len(ids)):
        stream = TextStream(t, at_start=True)
        for i in ids[:at]:
            stream.push(i)
        seen = stream.peek(ids[at:])
        assert stream.peek(ids[at:]) == seen
        assert [stream.push(i) for i in ids[at:]] == seen


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", TEXTS)
def test_prompt_pieces_joined_are_the_prompt(kind, text):
    t = tokenizer(kind)
    ids = [t.bos_id, *t.encode(text, add_bos=False), t.eos_ids[0]]
    pieces = TextStream(t).prompt_pieces(ids)
    assert len(pieces) == len(ids)
    text = text[1:] if loses_first_blank(kind, text) else text
    assert "".join(pieces) == t.piece(t.bos_id) + text + t.piece(t.eos_ids[0])


# Any text but lone surrogates; SentencePiece replaces the characters of its own visible blank.
ANY_TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\u2581\x00"), max_size=40)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(text=ANY_TEXT)
def test_any_text_streams_to_itself(kind, text):
    t = tokenizer(kind)
    ids = t.encode(text, add_bos=False, specials=False)
    if any(t.is_special(i) for i in ids):  # an <unk>: the text has a character that this vocabulary cannot write
        return
    parts = pushes(t, ids, at_start=True)
    text = text[1:] if loses_first_blank(kind, text) else text
    assert "".join(parts) == text == decode(t, ids)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_tokens_stream_to_what_their_bytes_say(kind, data):
    """Models write nonsense too: whatever comes, pushes add up to the bytes with invalid ones left out."""
    t = tokenizer(kind)
    ids = data.draw(st.lists(st.integers(0, t.size - 1), max_size=30))
    parts = pushes(t, ids)
    assert "".join(parts) == b"".join(t.token_bytes(i) for i in ids).decode("utf-8", "ignore")
    assert TextStream(t).peek(ids) == parts
