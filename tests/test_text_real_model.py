"""The default model's tokenizer as it comes out of the conversion: against what is known of the original."""

from __future__ import annotations

import pytest
from prompts import ALL
from text_samples import TEXTS

from engines.text import TextStream, load_tokenizer
from engines.text.stream import decode

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def t(model_folder):
    return load_tokenizer(model_folder)


def test_what_is_known_of_the_original(t):
    """Ids that SmolLM2's own tokenizer gives: 49 152 tokens, 17 control tokens first, digits one by one."""
    assert t.size == 49152 and t.bos_id == 1 and t.eos_ids[0] == 2
    assert [i for i in range(t.size) if t.is_special(i)] == list(range(17))
    assert t.encode("The capital of France is") == [504, 3575, 282, 4649, 314]
    assert [t.piece(i) for i in t.encode("in 2024")] == ["in", "Ġ", "2", "0", "2", "4"]
    assert not t.add_bos


def test_its_chat_template(t):
    text, ids = t.chat([{"role": "user", "content": "Hello"}])
    assert text == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
    )
    assert [i for i in ids if t.is_special(i)] == [1, 2, 1, 2, 1]
    assert "".join(TextStream(t).prompt_pieces(ids)) == text


@pytest.mark.parametrize("text", [*ALL, *TEXTS])
def test_round_trips(t, text):
    ids = t.encode(text)
    assert decode(t, ids) == text
    shown = ""
    stream = TextStream(t)
    for i in ids:
        shown += stream.push(i)
        assert text.startswith(shown)


def test_ids_and_template_are_transformers(t, model_folder):
    """The same folder through transformers' own classes."""
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(model_folder)
    for text in [*ALL, *TEXTS]:
        assert t.encode(text) == theirs(text, add_special_tokens=False).input_ids
        messages = [{"role": "user", "content": text}]
        rendered = theirs.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        want = theirs(rendered, add_special_tokens=False).input_ids
        assert t.chat(messages) == (rendered, want)
