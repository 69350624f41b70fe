"""What is said of a run beside its baseline: faster, slower or neither, and why."""

from __future__ import annotations

import time

import pytest
from replay import ReplayEngine
from test_page_run import HOT, NGRAM, SKIP, WORDS, last, pages, play, press

from app.verdict import explain, verdict
from engines.bench import Speedup
from engines.cost import Costs
from engines.fold import Metrics


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


def told(value, proposer, metrics, low=None, high=None, expected=None):
    low = value * 0.9 if low is None else low
    found = Speedup(value, "", low, value * 1.1 if high is None else high)
    return explain(found, metrics, {"proposer": proposer}, expected)


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
            ["little was proposed, and hardly any of it was accepted;", "In 18 of 20 rounds nothing was proposed."],
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


@pytest.mark.parametrize(
    ("value", "expected", "tone", "doubted"),
    [
        (1.8, None, "faster", ""),
        (2.2, None, "same", "A round cannot cost less than a plain pass"),  # 2.00 tokens per pass
        (1.8, 0.8, "faster", "foretold 0.80×"),
        (1.8, 1.2, "faster", ""),  # less than it seems, but on the same side
        (1.15, 0.95, "faster", ""),
        (0.6, 1.4, "slower", "foretold 1.40×"),
        (0.6, 0.9, "slower", ""),
        (0.85, 1.05, "slower", ""),
    ],
)
def test_what_cannot_be_is_no_difference_and_what_was_not_foretold_is_said(value, expected, tone, doubted):
    """A busy moment may have spoilt the costs as well as the runs: the measured figure stands beside the doubt."""
    said, sentence = told(value, "draft", numbers(), value * 0.99, value * 1.01, expected)
    assert said == tone
    assert doubted in sentence
    assert ("Press Run again" in sentence) == (tone == "same") and ("another Run" in sentence) == (
        "foretold" in doubted
    )


def test_without_a_spread_nothing_is_claimed():
    said, sentence = explain(Speedup(1.6, ""), numbers(), {"proposer": "ngram"})
    assert said == "same" and "too few rounds" in sentence


@pytest.mark.parametrize("same", [True, False])
def test_at_a_temperature_the_page_says_why_the_texts_differ(same):
    def script(run):
        other = WORDS if same or run.settings.proposer == "none" else [*WORDS[:20], *reversed(WORDS[20:])]
        ids = {w: i for i, w in enumerate(WORDS)}
        run.play(other, 4000, "eos")
        run.events[-1].ids = [ids[w] for w in other]

    hot = NGRAM.replace(sampling=HOT)
    plain, other = (list(drawn(s, script)) for s in (hot.baseline(), hot))
    sentence = verdict(plain, other)["sentence"]
    assert (
        "each run draws its own random numbers; the distribution they are drawn from is the same" in sentence
    ) != same


def drawn(settings, script):
    run = ReplayEngine(script).submit(settings, "p")
    while run.phase != "done":
        time.sleep(0.005)
    time.sleep(0.05)  # for what the script does after the end
    return run.events


def test_what_the_passes_cost_is_held_against_a_noisy_measurement():
    """The costs of the start event reach the verdict: drafting that costs two passes a token cannot have paid."""

    def script(run):
        add = run.add

        def priced(event):
            if event.type == "start":
                event.costs = Costs({0: 1.0, 4: 1.2}, 2.0, 0.02).to_json()
            add(event)

        run.add = priced
        play()(run)

    measured = pages(last(press([SKIP], script))["A"])[-1]
    assert measured["speedup"] > 1.3 and measured["tone"] == "faster"
    assert "foretold" in measured["sentence"]
