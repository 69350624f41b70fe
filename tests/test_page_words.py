"""What the page says in words, and what it makes of what was typed."""

from __future__ import annotations

import pytest

from app.catalogue_choices import drafts_for
from app.page import _panels
from app.panel import FIELDS, settings_from
from app.verdict import explain
from app.words import by_label, in_words, ranges
from engines.bench import Speedup
from engines.errors import UserError
from engines.fold import Metrics
from engines.settings import RunSettings, Sampling

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
}
SHARED = {"target": "smollm2-135m-instruct", "max_new_tokens": 64, "seed": 3}


def read(**changes):
    typed = {**TYPED, **changes}
    return settings_from([typed[name] for name in FIELDS], SHARED)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
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
    values = [{**TYPED, "ngram_min": 5}[name] for name in FIELDS] + [TYPED[name] for name in FIELDS]
    first, second = _panels("t", 64, 3, values)
    assert str(first) == "shortest match (5) must not exceed longest match (4)." and second.k == 8
    values = [TYPED[name] for name in FIELDS]
    assert str(_panels("t", 0, 3, values)[0]).startswith("max tokens must be")
    assert str(_panels("t", 64, -1, values)[0]).startswith("seed must be")


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


def numbers(**changes):
    base = dict.fromkeys(("rounds", "emitted", "proposed", "accepted", "rejected", "corrected", "bonus", "plain"), 10)
    rest = {
        "unjudged": 0,
        "nothing_proposed": 0,
        "acceptance_rate": 0.5,
        "draft_yield": 0.5,
        "tokens_per_pass": 2.0,
        "acceptance_by_position": [],
        "acceptance_by_position_judged": [],
        "seconds": {"prefill": 1.0, "propose": 0.1, "verify": 0.8, "sample": 0.05, "other": 0.05},
        "tokens_per_second": 10.0,
    }
    return Metrics(**{**base, **rest, **changes})


def told(value, proposer, metrics, low=None, high=None):
    low = value * 0.9 if low is None else low
    found = Speedup(value, "", low, value * 1.1 if high is None else high)
    return explain(found, metrics, {"proposer": proposer})


@pytest.mark.parametrize(
    ("value", "proposer", "metrics", "tone", "parts"),
    [
        (
            1.6,
            "ngram",
            numbers(),
            "faster",
            ["Faster", "2.00 tokens per pass ÷ 1.25 (what a round costs, in plain passes) = 1.60", "50 %"],
        ),
        (1.03, "ngram", numbers(), "same", ["No clear difference", "2.00 tokens per pass ÷ 1.94"]),
        (0.5, "ngram", numbers(acceptance_rate=0.2), "slower", ["Slower", "÷ 4.00", "= 0.50", "smaller k"]),
        (0.5, "draft", numbers(acceptance_rate=0.9), "slower", ["Slower", "costs more here than it saves"]),
        (
            0.5,
            "draft",
            numbers(seconds={"prefill": 9.0, "propose": 0.6, "verify": 0.4, "sample": 0, "other": 0}),
            "slower",
            ["Proposing took 60 %"],
        ),
        (0.5, "layer-skip", numbers(acceptance_rate=0.3), "slower", ["never trained to leave", "is mostly refused"]),
        (0.5, "layer-skip", numbers(acceptance_rate=0.57), "slower", ["57 %", "is often refused"]),
        (0.5, "layer-skip", numbers(acceptance_rate=0.65), "slower", ["65 %", "refused too often to pay"]),
        (1.9, "none", numbers(proposed=0), "same", ["decodes plainly"]),
        (1.9, "ngram", numbers(proposed=0, acceptance_rate=None), "same", ["Nothing was proposed"]),
        (
            1.5,
            "layer-skip",
            numbers(tokens_per_pass=1.0, acceptance_rate=0.0),
            "same",
            ["Nothing was gained: hardly anything proposed was accepted; the difference is noise of this machine."],
        ),
        (
            1.5,
            "ngram",
            numbers(tokens_per_pass=1.02, rounds=20, nothing_proposed=18),
            "same",
            ["hardly anything was proposed", "In 18 of 20 rounds nothing was proposed."],
        ),
        (1.6, "ngram", numbers(rounds=20, nothing_proposed=12), "faster", ["In 12 of 20 rounds nothing was proposed."]),
        (0.6, "layer-skip", numbers(tokens_per_pass=1.0, acceptance_rate=0.0), "slower", ["Slower", "1.00 tokens"]),
    ],
)
def test_a_speed_up_is_explained(value, proposer, metrics, tone, parts):
    said, sentence = told(value, proposer, metrics)
    assert said == tone
    for part in parts:
        assert part in sentence


def test_rounds_with_nothing_proposed_are_told_where_they_are_most():
    assert "nothing was proposed" not in told(1.6, "ngram", numbers(rounds=20, nothing_proposed=10))[1]


@pytest.mark.parametrize(
    ("low", "high", "tone"),
    [(1.01, 3.0, "faster"), (0.99, 3.0, "same"), (0.2, 1.01, "same"), (0.2, 0.99, "slower")],
)
def test_a_difference_is_one_when_the_whole_spread_says_so(low, high, tone):
    assert told(1.5, "ngram", numbers(), low, high)[0] == tone


def test_without_a_spread_nothing_is_claimed():
    said, sentence = explain(Speedup(1.6, ""), numbers(), {"proposer": "ngram"})
    assert said == "same" and "too few rounds" in sentence


def test_drafts_of_a_target():
    assert drafts_for("smollm2-1.7b-instruct")[0][1] == "smollm2-135m-instruct"
    assert [name for _, name in drafts_for("qwen2.5-coder-1.5b-instruct")] == [
        "qwen2.5-coder-0.5b-instruct",
        "qwen2.5-coder-1.5b-instruct",
    ]
    assert [name for _, name in drafts_for("/some/folder")] == ["/some/folder"]
