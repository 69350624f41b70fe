"""Stop strings (E4): found where they begin, whatever the tokens, and the same for any blocks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from text_samples import tokenizer

from engines.errors import UserError
from engines.text import StopFinder, TextStream


def run(stops, texts):
    """(what the run keeps as text, the cut, held after each token)."""
    finder = StopFinder(stops)
    held = []
    for n, text in enumerate(texts):
        cut = finder.push(text)
        if cut is not None:
            kept = [*texts[: cut.keep]]
            if cut.last_text is not None:
                kept[-1] = cut.last_text
            assert cut.keep <= n + 1
            return "".join(kept), cut, held
        held.append(finder.held)
    return "".join(texts), None, held


@pytest.mark.parametrize(
    ("stops", "texts", "keep", "last_text"),
    [
        (["END"], ["a", "END", "b"], 1, None),
        (["END"], ["a", "EN", "D"], 1, None),
        (["END"], ["aE", "N", "Db"], 1, "a"),
        (["END"], ["a", "bENDc"], 2, "b"),
        (["END"], ["END"], 0, None),
        (["END"], ["E", "E", "ND"], 1, None),  # the first E is not the stop's
        (["b", "END"], ["aENDb"], 1, "a"),  # the one that begins first decides
        (["END", "b"], ["xbEND"], 1, "x"),
        (["aab"], ["a", "a", "a", "b"], 1, None),
        (["\n\n"], ["x\n", "\n"], 1, "x"),
        (["abc", "b"], ["a", "b", "c"], 1, None),  # b is complete before abc is
        (["👩"], ["x", "", "", "👩"], 1, None),  # the halves go with the character
        (["x"], ["", "👩x"], 2, "👩"),
    ],
)
def test_e4_the_place_of_the_cut(stops, texts, keep, last_text):
    """E4: straddling tokens, inside one, at the very start, several at once."""
    _, cut, _ = run(stops, texts)
    assert (cut.keep, cut.last_text) == (keep, last_text)


def test_e4_nothing_found_keeps_everything():
    assert run(["END"], ["a", "EN", "d"]) == ("aENd", None, [0, 1, 0])
    assert run([], ["a", "b"]) == ("ab", None, [0, 0])


@pytest.mark.parametrize(
    ("stops", "texts", "held"),
    [
        (["END"], ["a", "E", "N", "x"], [0, 1, 2, 0]),
        (["END"], ["aE", "N"], [1, 2]),
        (["abab"], ["a", "b", "a", "a"], [1, 2, 3, 1]),
        (["ab", "bcd"], ["xb", "c", "a"], [1, 2, 1]),
        (["👩"], ["x", "", ""], [0, 1, 2]),  # may become the stop string's character
    ],
)
def test_e4_held_are_the_tokens_that_may_be_withdrawn(stops, texts, held):
    assert run(stops, texts)[2] == held


LETTERS = st.text("ab", max_size=4)


@given(st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3), st.lists(LETTERS, max_size=12))
def test_e4_against_searching_the_whole_text(stops, texts):
    """The kept text is what lies before the first stop string of the shortest beginning that holds one; no token
    that was let go (not held) is ever withdrawn."""
    kept, cut, held = run(stops, texts)
    expected, found_at = "".join(texts), None
    for n in range(1, len(texts) + 1):
        so_far = "".join(texts[:n])
        starts = [so_far.find(s) for s in stops if s in so_far]
        if starts:
            expected, found_at = so_far[: min(starts)], n
            break
    assert kept == expected
    assert (cut is None) == (found_at is None)
    if cut is not None:
        whole = cut.keep if cut.last_text is None else cut.keep - 1
        assert all(n + 1 - h <= whole for n, h in enumerate(held[: found_at - 1]))


def test_e4_with_a_real_tokenizer():
    t = tokenizer("byte-level")
    text = "one 👩‍👩‍👧‍👦 two STOP three"
    ids = t.encode(text, add_bos=False)
    stream = TextStream(t)
    kept, cut, _ = run(["👧", "STOP"], [stream.push(i) for i in ids])
    assert kept == "one 👩‍👩‍" and cut.stop == "👧"


def test_empty_stop_strings_are_refused():
    with pytest.raises(UserError, match="must not be empty"):
        StopFinder(["a", ""])
