"""What the page says in words, and what it makes of what was typed."""

from __future__ import annotations

import pytest

from app.catalogue_choices import drafts_for
from app.fields import panels_from, settings_from
from app.panel import PROPOSER_CHOICES
from app.words import by_label, in_words, ranges
from engines.errors import UserError
from engines.settings import PROPOSERS, RunSettings, Sampling

TYPED = {
    "proposer": "ngram",
    "draft": None,
    "k": 8,
    "temperature": 0,
    "adaptive": False,
    "verify": "token",
    "top_k": 0,
    "top_p": 1,
    "min_p": 0,
    "repetition_penalty": 1,
    "ngram_min": 1,
    "ngram_max": 4,
    "skip_layers": "",
    "branch": 3,
}
SHARED = {"target": "smollm2-135m-instruct", "max_new_tokens": 64, "seed": 3}


def read(**changes):
    typed = {**TYPED, **changes}
    return settings_from(typed, SHARED)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            RunSettings(proposer="eagle", k=5, branch=3),
            "trained head (EAGLE) · k = 5 · a tree, up to 3 branches · greedy",
        ),
        (RunSettings(proposer="recycle"), "token recycling · k = 4 · a tree, up to 4 branches · greedy"),
        (RunSettings(proposer="auto", k=8), "auto: the best each round · k up to 8 · greedy"),
        (RunSettings(), "plain decoding · greedy"),
        (RunSettings(proposer="ngram", k=8), "n-gram lookup (1 to 4) · k = 8 · greedy"),
        (
            RunSettings(proposer="draft", draft="org/small", adaptive=True, sampling=Sampling(0.7, 40, 0.9, 0.05)),
            "draft org/small · k up to 4, adaptive · temperature 0.7 · top-k 40 · top-p 0.9 · min-p 0.05",
        ),
        (
            RunSettings(proposer="layer-skip", skip_layers=(10, 11, 12, 20), verify="block"),
            "layer skip without layers 10-12, 20 · k = 4 · block verification · greedy",
        ),
        (
            RunSettings(sampling=Sampling(top_k=5, repetition_penalty=1.2)),
            "plain decoding · greedy · repetition penalty 1.2",
        ),
    ],
)
def test_settings_in_words(settings, words):
    assert in_words(settings) == words


def test_ranges():
    assert ranges(()) == ""
    assert ranges((3,)) == "3"
    assert ranges((9, 4, 5, 6, 6)) == "4-6, 9"


def test_what_is_typed_becomes_settings():
    assert read() == RunSettings(proposer="ngram", k=8, max_new_tokens=64, seed=3)
    assert read(proposer="layer-skip", skip_layers="4-6, 9").skip_layers == (4, 5, 6, 9)
    assert read(proposer="ngram", skip_layers="4-6").skip_layers == ()
    assert read(proposer="draft", draft=" org/small ").draft == "org/small"
    assert read(proposer="ngram", draft="org/small").draft is None
    assert read(k=8.0).k == 8


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            "max-new-tokens must be a whole number of at least 1, not 0.",
            "max tokens must be a whole number of at least 1",
        ),
        ("ngram-min (5) must not exceed ngram-max (4).", "shortest match (5) must not exceed longest match (4)."),
        ("repetition-penalty must lie above 0 and up to 10", "repetition penalty must lie above"),
        ("k must be a whole number", "k must be a whole number"),
    ],
)
def test_errors_name_the_fields_of_the_page(said, shown):
    assert by_label(said).startswith(shown)


def test_errors_of_what_the_page_reads_name_its_fields():
    asked = {"max_tokens": 64, "seed": 3, "panels": {"A": {**TYPED, "ngram_min": 5}, "B": TYPED}}
    read_panels = panels_from("t", asked)
    assert str(read_panels["A"]) == "shortest match (5) must not exceed longest match (4)."
    assert read_panels["B"].k == 8
    assert str(panels_from("t", {**asked, "max_tokens": 0})["B"]).startswith("max tokens must be")
    assert str(panels_from("t", {**asked, "max_tokens": 4096})["B"]).startswith("The page shows up to 2048")
    assert str(panels_from("t", {**asked, "seed": -1})["B"]).startswith("seed must be")


@pytest.mark.parametrize("panels", [None, [], {}, {"E": TYPED}, {"": TYPED}, {"AB": TYPED}])
def test_what_no_page_asks_is_refused(panels):
    with pytest.raises(UserError, match="reload"):
        panels_from("t", {"max_tokens": 64, "seed": 3, "panels": panels})


@pytest.mark.parametrize(
    "form", [None, 3, {}, {**TYPED, "verify": []}, {**TYPED, "k": float("nan")}, {**TYPED, "k": {}}]
)
def test_a_panel_that_no_page_sends_is_a_sentence(form):
    assert isinstance(panels_from("t", {"max_tokens": 64, "seed": 3, "panels": {"A": form}})["A"], UserError)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"k": 2.5}, "whole number"),
        ({"k": None}, "Fill in a number for k"),
        ({"k": "8"}, "Fill in a number for k"),
        ({"k": 0}, "k must be"),
        ({"temperature": -1}, "temperature"),
        ({"top_p": 0}, "top-p"),
        ({"ngram_min": 5}, "must not exceed"),
        ({"proposer": "draft", "draft": " "}, "Choose a draft model"),
        ({"proposer": "layer-skip", "skip_layers": "a-b"}, "Layers to skip"),
        ({"proposer": "layer-skip", "skip_layers": "9-4"}, "Layers to skip"),
        ({"proposer": "layer-skip", "skip_layers": "1-999999999"}, "Layers to skip"),
        ({"proposer": "layer-skip", "skip_layers": "-3"}, "Layers to skip"),
    ],
)
def test_what_is_typed_wrongly_is_a_sentence(changes, part):
    with pytest.raises(UserError, match=part):
        read(**changes)


def test_drafts_of_a_target():
    assert drafts_for("smollm2-1.7b-instruct")[0][1] == "smollm2-135m-instruct"
    assert [name for _, name in drafts_for("qwen2.5-coder-1.5b-instruct")] == [
        "qwen2.5-coder-0.5b-instruct",
        "qwen2.5-coder-1.5b-instruct",
    ]
    assert [name for _, name in drafts_for("/some/folder")] == ["/some/folder"]


def test_branches_belong_to_those_who_make_trees():
    assert read(proposer="eagle").branch == 3 == read(proposer="auto").branch
    assert read(proposer="ngram").branch == 0 == read(proposer="none").branch
    with pytest.raises(UserError, match="branches"):
        read(proposer="eagle", branch=2.5)


def test_every_proposer_has_a_name_and_a_place():
    assert {value for _, value in PROPOSER_CHOICES} == set(PROPOSERS)
