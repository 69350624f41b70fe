"""Events, settings and the fold: the contract that everything shown and counted rests on."""

from __future__ import annotations

import json

import pytest

from engines.errors import UserError
from engines.events import Done, Draft, Extra, Judged, Proposed, Start, Verdict, from_json, to_json
from engines.fold import Fold, fold
from engines.settings import RunSettings, Sampling


def judged(id, ok):
    return Judged(id, ok, p=0.5, q=0.5, ratio=1.0)


def round_(number, ids, accepted, extra, kind="corrected", cut=0, held=0, texts=None):
    texts = texts or [chr(97 + i) for i in ids]
    kept = len(ids) - cut
    looked = [judged(i, n < accepted) for n, i in enumerate(ids[: min(accepted + 1, kept)])]
    times = {"propose": 0.1, "verify": 1.0, "sample": 0.2, "other": 0.1}
    return [
        Draft(number, [Proposed(i, t) for i, t in zip(ids, texts, strict=True)], 0.1),
        Verdict(number, accepted, looked, extra and Extra(extra, chr(97 + extra), kind, 0.5), times, cut, held),
    ]


def start(proposer="draft"):
    return Start({}, "t", proposer, "torch", "cpu", "fp32", {}, [0], "a", ["a"])


def states(view):
    return [(t.text, t.state) for t in view.tokens()]


def test_states_and_counts():
    view = fold(
        [start(), *round_(1, [1, 2, 3], 1, 4), *round_(2, [5, 6], 2, 7, "bonus"), *round_(3, [], 0, 8, "plain")]
    )
    assert states(view) == [
        ("b", "accepted"),
        ("c", "rejected"),
        ("d", "unjudged"),
        ("e", "corrected"),
        ("f", "accepted"),
        ("g", "accepted"),
        ("h", "bonus"),
        ("i", "plain"),
    ]
    m = view.metrics()
    assert (m.rounds, m.emitted, m.proposed, m.accepted, m.rejected, m.unjudged) == (3, 6, 5, 3, 1, 1)
    assert m.acceptance_rate == 0.75 and m.draft_yield == 0.6 and m.tokens_per_pass == 2.0
    assert m.acceptance_by_position == [1.0, 0.5, 0.0]
    assert m.acceptance_by_position_judged == [1.0, 0.5, None]
    assert m.nothing_proposed == 1
    assert m.tokens_per_second == pytest.approx(6 / (3 * 1.4))
    assert view.text() == "befghi"


def test_pending_until_judged():
    view = Fold()
    view.add(start())
    view.add(round_(1, [1, 2], 0, 3)[0])
    assert states(view) == [("b", "pending"), ("c", "pending")]
    assert view.metrics().rounds == 0 and view.metrics().proposed == 0


def test_cut_tokens_have_no_state():
    view = fold([start(), *round_(1, [1, 2, 3], 2, None, cut=1)])
    assert states(view) == [("b", "accepted"), ("c", "accepted")]
    assert view.metrics().proposed == 2


def done(keep, last_text=None, reason="stop"):
    return Done(reason, "", [], keep, {}, {"prefill": 1.0}, last_text)


@pytest.mark.parametrize(
    ("keep", "shown", "rounds"),
    [
        (5, "b1 c2 d3 e4 f1 g1 h5", 2),
        (4, "b1 c2 d3 e4 f1 g1", 2),
        (3, "b1 c2 d3 e4 f1", 2),
        (2, "b1 c2 d3 e4", 1),
        (1, "b1", 1),  # the rejected token stands where the dropped correction stood: beyond the end, too
        (0, "", 0),
    ],
)
def test_what_lies_beyond_the_end_is_gone(keep, shown, rounds):
    marks = {"accepted": "1", "rejected": "2", "unjudged": "3", "corrected": "4", "bonus": "5"}
    view = fold([start(), *round_(1, [1, 2, 3], 1, 4), *round_(2, [5, 6], 2, 7, "bonus"), done(keep)])
    assert " ".join(t.text + marks[t.state] for t in view.tokens()) == shown
    assert view.metrics().emitted == keep and view.metrics().rounds == rounds


def test_the_last_tokens_text_is_cut():
    view = fold([start(), *round_(1, [1], 1, 2, "bonus"), done(2, "")])
    assert view.text() == "b"
    view = fold([start(), *round_(1, [1], 1, 2, "bonus"), done(1, "")])
    assert view.text() == ""


def test_an_unjudged_proposal_of_a_stopped_run_is_dropped():
    view = fold([start(), *round_(1, [1], 1, 2, "bonus"), round_(2, [3, 4], 0, 5)[0], done(2, reason="stopped")])
    assert states(view) == [("b", "accepted"), ("c", "bonus")]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "[]",
        "null",
        "{}",
        '{"type":"nothing"}',
        '{"type":"start","v":2}',
        '{"type":"draft","round":1}',
        '{"type":"verdict","round":1,"accepted":0,"judged":[{"x":1}],"seconds":{}}',
        '{"type":"done","reason":"eos","extra_key":1}',
        "[" * 100_000,
    ],
)
def test_a_bad_line_is_a_clear_error(line):
    with pytest.raises(UserError):
        from_json(line)


def test_json_is_strict():
    with pytest.raises(ValueError, match="Out of range"):
        to_json(Draft(1, [], float("nan")))
    line = to_json(round_(1, [1], 0, 2)[1])
    assert "\n" not in line and json.loads(line)["type"] == "verdict"


class TestSettings:
    @pytest.mark.parametrize(
        ("bad", "says"),
        [
            ({"k": 0}, "k must be"),
            ({"k": 33}, "1 to 32"),
            ({"k": True}, "whole number"),
            ({"k": 2.5}, "whole number"),
            ({"seed": -1}, "seed"),
            ({"max_new_tokens": 0}, "max-new-tokens"),
            ({"verify": "magic"}, "token, block"),
            ({"dtype": "int3"}, "fp32"),
            ({"proposer": "draft"}, "--draft"),
            ({"stop": ("",)}, "stop string"),
            ({"ngram_min": 5, "ngram_max": 4}, "exceed"),
            ({"target": " "}, "target"),
        ],
    )
    def test_bad_values(self, bad, says):
        with pytest.raises(UserError, match=says):
            RunSettings(**bad)

    @pytest.mark.parametrize(
        "bad",
        [
            {"temperature": -1},
            {"temperature": float("nan")},
            {"temperature": "hot"},
            {"top_k": -1},
            {"top_p": 0},
            {"top_p": 1.5},
            {"min_p": 2},
            {"repetition_penalty": 0},
        ],
    )
    def test_bad_sampling(self, bad):
        with pytest.raises(UserError):
            Sampling(**bad)

    def test_json_round_trip(self):
        settings = RunSettings(
            stop=("a", "b"), skip_layers=(1, 2), draft_sampling=Sampling(0.5), sampling=Sampling(1.0)
        )
        assert RunSettings.from_json(json.loads(json.dumps(settings.to_json()))) == settings
        with pytest.raises(UserError, match="Unknown setting: color"):
            RunSettings.from_json({"color": 1})
        with pytest.raises(UserError, match="sampling"):
            RunSettings.from_json({"sampling": {"heat": 1}})

    def test_greedy_below_a_thousandth(self):
        assert Sampling(0.0).greedy and Sampling(1e-4).greedy and not Sampling(0.01).greedy
