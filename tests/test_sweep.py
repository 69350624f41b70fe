"""A sweep: who is compared with whom and when, what the numbers are, and what happens when something goes wrong."""

from __future__ import annotations

import csv
import io
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replay import done_of, start_of
from sweep_tables import COSTS, TableModels

from engines import bench, sweep_stats
from engines.cli import main
from engines.errors import UserError
from engines.events import Draft, Extra, Judged, Proposed, Verdict
from engines.fold import fold
from engines.service import Engine
from engines.settings import RunSettings
from engines.sweep import Failed, Planned, Ran, Rows, sweep
from engines.sweep_plan import AXES, GROUP, MOST_POINTS, Text, numbers, plan, seconds_left
from engines.sweep_stats import pair_of, row_of

BASE = RunSettings(proposer="ngram", k=4, max_new_tokens=40)
TEXTS = [Text("code", "Write code."), Text("prose", "Tell a story.")]


def news_of(made, models=None, stopped=lambda: False):
    return list(sweep(made, settle=0)(models or TableModels(), lambda *_: None, stopped))


@given(
    axis=st.sampled_from(sorted(AXES)), points=st.integers(1, 9), texts=st.integers(1, 4), repeats=st.integers(1, 3),
    seed=st.integers(0, 99),
)  # fmt: skip
@settings(deadline=None)
def test_every_run_has_a_plain_one_of_the_same_law_beside_it(axis, points, texts, repeats, seed):
    values = {
        "k": range(1, points + 1),
        "temperature": [0.1 * i for i in range(points)],
        "proposer": ["ngram", "suffix", "recycle", "layer-skip", "eagle", "auto", "none"][:points],
        "draft": [f"draft-{i}" for i in range(points)],
        "text": (),
    }[axis]
    made = plan(axis, list(values), BASE, [Text(f"text {i}", "x" * i) for i in range(texts)], repeats, seed)
    assert made == plan(axis, list(values), BASE, made.texts, repeats, seed)
    groups = {}
    for step in made.steps:
        groups.setdefault(step.group, []).append(step)
    assert [s.group for s in made.steps] == sorted(s.group for s in made.steps)  # a group's runs follow one another
    for steps in groups.values():
        plain = [s for s in steps if s.point is None]
        assert len(plain) == 1 and 1 <= len(steps) - 1 <= GROUP
        assert {(s.text, s.repeat) for s in steps} == {(plain[0].text, plain[0].repeat)}
        theirs, its = plain[0].settings.to_json(), [s.settings.to_json() for s in steps]
        assert theirs["proposer"] == "none"
        assert not [k for s in its for k, x in theirs.items() if k not in bench.MAY_DIFFER and s[k] != x]
    wanted = {(i, t, r): 1 for i, p in enumerate(made.points) for t in p.texts for r in range(repeats)}
    assert Counter((s.point, s.text, s.repeat) for s in made.steps if s.point is not None) == wanted


def test_the_order_is_drawn_from_the_seed():
    orders = {tuple(s.point for s in plan("k", range(1, 9), BASE, TEXTS, 2, seed).steps) for seed in range(5)}
    assert len(orders) == 5
    places = Counter()
    for seed in range(60):
        steps = plan("k", [1, 2, 3], BASE, TEXTS[:1], 1, seed).steps
        places[next(i for i, s in enumerate(steps) if s.point is None)] += 1
    assert set(places) == {0, 1, 2, 3}  # the plain run is not always the first, which is the cold one


def test_repeats_have_seeds_of_their_own():
    steps = plan("temperature", [0, 1], BASE.replace(seed=7), TEXTS, 3).steps
    assert {(s.repeat, s.settings.seed) for s in steps} == {(0, 7), (1, 8), (2, 9)}


@pytest.mark.parametrize(
    ("axis", "values", "more", "says"),
    [
        ("k", range(1, MOST_POINTS + 2), {}, "a sweep has 12 at most"),
        ("k", [1], {"repeats": 6}, "repeats must lie in 1 to 5"),
        ("k", [1], {"base": BASE.replace(max_new_tokens=513)}, "512 tokens"),
        ("k", [1], {"base": BASE.replace(proposer="none")}, "Choose who proposes"),
        ("k", [1], {"texts": []}, "at least one text"),
        ("k", [2.5], {}, "whole number, not 2.5"),
        ("k", [40], {}, "from 1 to 32"),
        ("k", [], {}, "at least one value"),
        ("proposer", ["oracle"], {}, "must be one of none, draft"),
        ("proposer", ["draft"], {}, "needs a draft model"),
        ("length", [1], {}, "The axis must be one of k, temperature"),
    ],
)
def test_what_is_out_of_bounds_is_said(axis, values, more, says):
    asked = {"base": BASE, "texts": TEXTS, **more}
    with pytest.raises(UserError, match=says):
        plan(axis, values, **asked)


def test_a_whole_sweep():
    made = plan("k", [1, 2, 6], BASE, TEXTS, 2, seed=3)
    models = TableModels()
    news = news_of(made, models)
    assert isinstance(news[0], Planned) and news[0].runs == len(made.steps) == 16
    assert news[0].seconds == pytest.approx(16 * 40 * COSTS.pass_seconds)
    ran = [n for n in news if isinstance(n, Ran)]
    assert [r.done for r in ran] == list(range(1, 17)) and ran[-1].left == 0
    assert [s.k for s in models.runs[-16:] if s.proposer != "none"] == [
        s.settings.k for s in made.steps if s.point is not None
    ]
    last = news[-1]
    assert last.over and last.complete and sum(isinstance(n, Rows) for n in news) == 4
    assert [r.label for r in last.rows] == ["1", "2", "6"]
    for row, k in zip(last.rows, (1, 2, 6), strict=True):
        assert row.pairs == 4 and row.tokens == 160 and row.text == "identical" and row.note is None
        folds = [
            fold(_run(TableModels().job(BASE.replace(k=k), t.prompt, None, lambda: False))).metrics() for t in TEXTS
        ]
        assert row.acceptance.value == sum(m.accepted for m in folds) / sum(m.accepted + m.rejected for m in folds)
        assert row.tokens_per_pass.value == 80 / sum(m.rounds for m in folds)
        assert row.acceptance.low <= row.acceptance.value <= row.acceptance.high
        assert row.speedup.low <= row.speedup.value <= row.speedup.high
        assert row.predicted > 0 and 1 <= row.formula <= k + 1


def _run(made):
    from engines.decode import decode

    return list(decode(made))


def test_a_point_that_cannot_be_measured_leaves_the_others():
    made = plan("draft", ["good", "broken"], BASE, TEXTS)
    news = news_of(made)
    assert [n for n in news if isinstance(n, Failed)] == [
        Failed(1, "The draft model 'broken' cannot be used: it has another vocabulary.")
    ]
    good, broken = news[-1].rows
    assert news[-1].complete and good.speedup.value and good.pairs == 2
    assert broken.pairs == 0 and broken.speedup.value is None and "another vocabulary" in broken.note


def test_a_text_that_does_not_fit_ends_the_sweep_with_its_name():
    with pytest.raises(UserError, match="prose: The prompt is too long"):
        news_of(plan("k", [1], BASE, TEXTS), TableModels(fail_at=2))


@pytest.mark.parametrize("after", [0, 1, 3, 7])
def test_what_was_measured_until_stop_stays(after):
    made = plan("k", [1, 2, 6], BASE, TEXTS, 2)
    seen = []

    def stopped():
        return len([n for n in seen if isinstance(n, Ran)]) >= after

    for item in sweep(made, settle=0)(TableModels(), lambda *_: None, stopped):
        seen.append(item)
    assert len([n for n in seen if isinstance(n, Ran)]) == after
    assert seen[-1].over and not seen[-1].complete
    groups = {s.group for s in made.steps[:after] if s.point is None}  # those whose plain run is there
    paired = [s for s in made.steps[:after] if s.point is not None and s.group in groups]
    assert sum(r.pairs for r in seen[-1].rows) == len(paired)


def test_the_estimate_learns_from_the_runs():
    steps = plan("k", [1, 2], BASE, TEXTS[:1], 2).steps
    assert seconds_left(steps, {}, 0.01) == pytest.approx(6 * 40 * 0.01)
    assert seconds_left(steps, {None: [4.0]}, 0.01) == pytest.approx(6 * 4.0)
    assert seconds_left(steps, {None: [4.0], 0: [1.0, 3.0], 1: [1.0]}, 0.01) == pytest.approx(2 * (4 + 2 + 1))


def made_run(proposer, rounds, temperature=0.0, k=4):
    """Events of rounds (accepted, proposed, seconds); each but the plain ones emits accepted + 1 tokens."""
    made = RunSettings(proposer=proposer, k=k)
    made = made.replace(sampling=made.sampling.__class__(temperature=temperature))
    events = [start_of(made, "p")]
    for number, (accepted, n, seconds) in enumerate(rounds, start=1):
        kind = "plain" if n == 0 else "bonus" if accepted == n else "corrected"
        events.append(Draft(number, [Proposed(7, "x") for _ in range(n)], 0.0))
        judged = [Judged(7, i < accepted, 0.5, 0.5, 1.0) for i in range(min(n, accepted + 1))]
        events.append(Verdict(number, accepted, judged, Extra(7, "x", kind, 0.5), {"verify": seconds}))
    return [*events, done_of(events, "length")]


def test_numbers_and_ranges():
    assert numbers("1-4, 8,12") == [1, 2, 3, 4, 8, 12]
    assert numbers("0-1 step 0.5, .7") == [0, 0.5, 1, 0.7]
    assert numbers("0 to 0.3 by 0.1") == [0, 0.1, 0.2, 0.3]
    assert numbers(" ") == []
    down, neither, many = "does not go up", "is neither", "more than the 12"
    for wrong, says in {
        "4-1": down, "1-2 step 0": down, "two": neither, "-1": neither, "1e9": neither, "1-9999999999": many,
        "1-12, 14": many,
    }.items():  # fmt: skip
        with pytest.raises(UserError, match=says):
            numbers(wrong)


def test_a_speed_up_over_runs_is_a_ratio_of_sums():
    short, long = [(0, 0, 0.1)] * 20, [(0, 0, 0.2)] * 40
    pairs = [
        pair_of(made_run("none", short), made_run("ngram", [(1, 1, 0.1)] * 10), 0, 0),  # 2 s / 1 s
        pair_of(made_run("none", long), made_run("ngram", [(1, 1, 0.4)] * 20), 1, 0),  # 8 s / 8 s
    ]
    row = row_of("4", 4, pairs)
    assert row.speedup.value == pytest.approx(10 / 9)
    assert (row.speedup.low, row.speedup.high) == pytest.approx((10 / 9, 10 / 9))  # rounds that never vary
    assert (row.acceptance.value, row.tokens_per_pass.value) == (1.0, 2.0)
    assert row.tokens == 60


def test_greedy_repeats_do_not_feign_certainty_of_acceptance():
    rng = random.Random(0)
    rounds = [(rng.randint(0, 4), 4, 0.1) for _ in range(30)]
    plain = made_run("none", [(0, 0, 0.1)] * 60)
    once = row_of("4", 4, [pair_of(plain, made_run("ngram", rounds), 0, 0)])
    often = row_of("4", 4, [pair_of(plain, made_run("ngram", rounds), 0, r) for r in range(5)])
    assert often.acceptance == once.acceptance and often.tokens_per_pass == once.tokens_per_pass
    warm = made_run("none", [(0, 0, 0.1)] * 60, temperature=1.0)
    drawn = row_of(
        "4", 4, [pair_of(warm, made_run("ngram", rounds, temperature=1.0), 0, r) for r in range(5)]
    ).acceptance
    assert drawn.high - drawn.low < once.acceptance.high - once.acceptance.low


def test_the_spread_holds_the_truth_as_often_as_it_says():
    """5th to 95th percentile: nine times of ten, over machines whose rounds vary independently."""
    rng, held = random.Random(1), 0
    for _ in range(60):
        pairs = []
        for repeat in range(3):
            plain = made_run("none", [(0, 0, rng.lognormvariate(0, 0.4)) for _ in range(60)])
            other = made_run("ngram", [(1, 1, rng.lognormvariate(0, 0.4)) for _ in range(30)])
            pairs.append(pair_of(plain, other, 0, repeat))
        found = row_of("1", 1, pairs).speedup
        held += found.low <= 2.0 <= found.high
    assert 0.78 <= held / 60 <= 1.0


def test_runs_that_are_too_short_give_no_number_but_say_why():
    pair = pair_of(made_run("none", [(0, 0, 0.1)] * 5), made_run("ngram", [(1, 1, 0.1)] * 3), 0, 0)
    row = row_of("4", 4, [pair])
    assert row.speedup.value is None and row.note.startswith("too short to measure (5 tokens")
    assert row.acceptance.value == 1.0 and row.acceptance.low is None  # three rounds: no spread


def test_no_formula_where_it_says_nothing():
    pair = pair_of(made_run("none", [(0, 0, 0.1)] * 30), made_run("ngram", [(1, 4, 0.1)] * 15), 0, 0)
    assert row_of("4", 4, [pair]).predicted is None  # these events carry no costs
    assert sweep_stats.row_of("4", 4, []).to_json()["speedup"] == {"value": None, "low": None, "high": None}


SWEEP = ["sweep", "--prompt", "p", "--proposer", "ngram", "--values", "1, 4", "--max-new-tokens", "40"]


def test_on_the_command_line(monkeypatch, capsys):
    monkeypatch.setattr("engines.models.Models", TableModels)
    assert main([*SWEEP, "--format", "csv"]) == 0
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert [r[0] for r in rows] == ["point", "1", "4"] and all(len(r) == len(rows[0]) for r in rows)
    assert float(rows[2][2]) <= float(rows[2][1]) <= float(rows[2][3])
    assert main(SWEEP) == 0
    head, _, *lines = capsys.readouterr().out.splitlines()
    assert head.split()[:2] == ["k", "speed-up"] and [line.split()[0] for line in lines] == ["1", "4"]
    assert main([*SWEEP, "--axis", "draft", "--proposer", "draft", "--draft", "x", "--values", "broken"]) == 2
    assert "broken: The draft model" in (err := capsys.readouterr().err) and "No point could be measured" in err


@pytest.mark.parametrize(("at", "says"), [(2, "before anything"), (9, "until then")])
def test_interrupting_it_keeps_what_was_measured(monkeypatch, capsys, at, says):
    class Interrupted(TableModels):
        def job(self, *asked):
            if len(self.runs) == at:
                raise KeyboardInterrupt
            return super().job(*asked)

    monkeypatch.setattr("engines.models.Models", Interrupted)
    assert main([*SWEEP, "--repeats", "3"]) == 130
    out, err = capsys.readouterr()
    assert says in err and ("4" in out) == (at == 9)


@pytest.mark.model
def test_on_the_real_model(models):
    """By the engine's thread: n-gram at two k on a text that quotes itself."""
    base = RunSettings(proposer="ngram", max_new_tokens=24)
    text = Text("edit", "Repeat: one, two, three, four, one, two, three, four, one, two, three, four.")
    engine = Engine(models)
    try:
        work = engine.work(base.target, sweep(plan("k", [1, 6], base, [text])))
        assert work.wait(240) and work.error is None
        news = work.take()
    finally:
        engine.close()
    low, high = news[-1].rows
    assert news[-1].complete and high.tokens_per_pass.value > low.tokens_per_pass.value > 1
    assert low.text in ("identical", "near-tie") and low.predicted and high.predicted
    assert low.speedup.value > 0 and 1 < high.formula <= 7
