"""Shared vocabularies: padding is fine (E11), another tokenizer is refused with its first different token (E12)."""

from __future__ import annotations

import time

import pytest
from text_samples import TEXTS, tokenizer

from engines.errors import UserError
from engines.text import check_shared_vocabulary


class Named:
    """As much of a tokenizer as a vocabulary is."""

    def __init__(self, name, pieces):
        self.name, self._pieces = name, pieces

    def vocab(self):
        return self._pieces


WORDS = [f"w{i}" for i in range(2000)]


@pytest.mark.parametrize("padding", ["", "[PAD{}]", "<|reserved_{}|>", "<unused{}>"])
def test_e11_vocabularies_padded_to_different_sizes(padding):
    """E11: 152 064 against 151 936, whatever the export calls the filling."""
    pad = [padding.format(i) for i in range(128)]
    small, large = Named("small", WORDS), Named("large", WORDS + pad * 20)
    check_shared_vocabulary(large, small)
    check_shared_vocabulary(small, large)
    check_shared_vocabulary(Named("x", [*WORDS, *["[PAD1]"] * 64]), Named("y", [*WORDS, *[""] * 99]))


def test_e11_a_few_added_tokens_at_the_end_are_fine():
    check_shared_vocabulary(Named("base", WORDS), Named("tuned", [*WORDS, "<think>", "</think>"]))


def test_e12_another_tokenizer_is_refused_with_the_first_different_token():
    """E12: same size, one string different."""
    other = [*WORDS[:7], "other", *WORDS[8:]]
    with pytest.raises(
        UserError, match=r"^D cannot draft for T: .*differ, first at token 7 \('w7' in the target, 'other'"
    ):
        check_shared_vocabulary(Named("T", WORDS), Named("D", other))
    with pytest.raises(UserError, match="chosen draft cannot draft for chosen target"):
        check_shared_vocabulary(Named("T", WORDS), Named("D", other), "chosen target", "chosen draft")


def test_e12_one_vocabulary_that_begins_with_the_other_is_refused():
    with pytest.raises(UserError, match=r"T has 1100 tokens that D lacks, the first is token 2000 \('x0'\)"):
        check_shared_vocabulary(Named("T", [*WORDS, *[f"x{i}" for i in range(1100)]]), Named("D", WORDS))


def test_e12_real_tokenizers():
    check_shared_vocabulary(tokenizer("sp-bpe"), tokenizer("sp-bpe"))
    for target in ("byte-level", "sp-bpe"):
        for draft in ("sp-unigram", "sp-bpe-gemma", "json-llama"):
            with pytest.raises(UserError, match=f"{draft} cannot draft for {target}"):
                check_shared_vocabulary(tokenizer(target), tokenizer(draft))


def test_the_same_model_in_both_formats_shares_its_vocabulary():
    """A draft with a tokenizer.model and a target with a tokenizer.json made of it."""
    check_shared_vocabulary(tokenizer("sp-unigram"), tokenizer("json-unigram"))
    assert tokenizer("sp-unigram").encode(TEXTS[0]) == [1, *tokenizer("json-unigram").encode(TEXTS[0])]


def test_150_000_tokens_take_less_than_a_fifth_of_a_second():
    words = [f"token {i}" for i in range(152_000)]
    other = [*words[:-1], "last"]  # the slow way: every token is looked at
    start = time.perf_counter()
    with pytest.raises(UserError, match="first at token 151999"):
        check_shared_vocabulary(Named("T", words), Named("D", other))
    assert time.perf_counter() - start < 0.2
