"""What the plots show is what the engine would say of the same runs; tables and texts survive whatever is in a run."""

from __future__ import annotations

import csv
import io
import json
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_fold_js import random_run

from app.scripts import ASSETS
from engines.bench import predicted_speedup
from engines.cost import Costs, expected_tokens
from engines.events import Draft, Extra, Judged, Proposed, Start, Verdict, to_json
from engines.fold import Fold, fold
from engines.settings import RunSettings, Sampling

SCRIPTS = ("fold.js", "plots_data.js")
DRIVER = """(lines) => {
  const fold = new SpecPlay.Fold();
  for (const line of lines) fold.add(JSON.parse(line));
  const view = {name: "A", title: "a", baseline: false, fold, speedup: null};
  const d = SpecPlay.plotsData;
  return {
    predicted: d.predictedSpeedup(fold), rounds: d.roundCosts(view, [view]), position: d.byPosition(view),
    passes: d.passes(view), speedups: d.speedups([view]), confidences: d.confidences(view),
    csv: d.csv(d.tables.confidences(d.confidences(view))),
    said: [d.roundCostsSummary(d.roundCosts(view, [view])),
           d.byPositionSummary([d.byPosition(view)].filter((x) => x.positions.length)),
           d.passesSummary([d.passes(view)]), d.speedupsSummary(d.speedups([view])),
           d.confidencesSummary(d.confidences(view))],
  };
}"""


@pytest.fixture(scope="module")
def page(browser):
    context = browser.new_context()
    page = context.new_page()
    for name in SCRIPTS:
        page.add_script_tag(path=str(ASSETS / name))
    yield page
    context.close()


def costs_of(rng: random.Random) -> dict:
    measured = sorted({0, *rng.sample(range(1, 17), rng.randint(0, 6))})
    verify = {n: 1.0 if n == 0 else 1 + rng.random() * n for n in measured}
    return Costs(verify, rng.choice([0.0, rng.random()]), rng.choice([0.0, 0.01, 0.03, 0.1])).to_json()


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**9))
def test_the_browser_predicts_what_the_engine_predicts(page, seed):
    events, rng = random_run(seed), random.Random(seed)
    events[0].costs = costs_of(rng) if rng.random() < 0.9 else None
    if rng.random() < 0.1:
        events[0].proposer = "auto"
    if rng.random() < 0.3:
        del events[-1]  # while it runs
    run = fold(events)
    ours = predicted_speedup(run, Costs.from_json(events[0].costs)) if events[0].costs else None
    got = page.evaluate(DRIVER, [to_json(e) for e in events])
    assert got["predicted"] == (None if ours is None else pytest.approx(ours, rel=1e-9))
    assert got["speedups"][0]["predicted"] == got["predicted"]
    assert all(isinstance(s, str) and s and "NaN" not in s and "undefined" not in s for s in got["said"])
    check_passes(run, got["passes"])
    check_positions(run, got["position"])
    check_rounds(run, got["rounds"])


def applies(run: Fold) -> bool:
    return run.start.proposer not in ("none", "auto") and all(t.node is None for t in run.tokens())


def check_passes(run: Fold, got: dict) -> None:
    m = run.metrics()
    if not m.rounds:
        assert got["bins"] == []
        return
    assert sum(b["measured"] for b in got["bins"]) == pytest.approx(1)
    assert sum(b["tokens"] * b["measured"] for b in got["bins"]) == pytest.approx(m.tokens_per_pass)
    if not applies(run) or m.acceptance_rate is None:
        assert got["expected"] is None and all(b["expected"] is None for b in got["bins"])
        return
    assert sum(b["expected"] for b in got["bins"]) == pytest.approx(1)
    judged = [r for r in run.rounds if r.count("pending") == 0]
    lengths = [r.count("accepted", "rejected", "unjudged") for r in judged]
    mean = sum(expected_tokens(m.acceptance_rate, n) for n in lengths) / len(lengths)
    assert got["expected"] == pytest.approx(mean)


def check_positions(run: Fold, got: dict) -> None:
    m = run.metrics()
    assert [p["unconditional"] for p in got["positions"]] == pytest.approx(m.acceptance_by_position)
    assert [p["conditional"] for p in got["positions"]] == m.acceptance_by_position_judged
    a = m.acceptance_rate
    for i, p in enumerate(got["positions"]):
        if applies(run) and a is not None:
            assert (p["iidUnconditional"], p["iidConditional"]) == (pytest.approx(a ** (i + 1)), pytest.approx(a))
        else:
            assert p["iidUnconditional"] is p["iidConditional"] is None


def check_rounds(run: Fold, got: dict) -> None:
    judged = [r for r in run.rounds if r.count("pending") == 0]
    assert len(got["bars"]) == len(judged)
    for bar, round_ in zip(got["bars"], judged, strict=True):
        assert bar["total"] == pytest.approx(1000 * sum(round_.seconds.values()))
        assert bar["tokens"] == round_.count(*Fold.EMITTED)


@pytest.mark.parametrize("n", [0, 1, 2, 5, 9, 12, 16, 20, 40])
def test_the_cost_of_verifying_is_the_engines(page, n):
    for measured in ({0: 1.0}, {0: 1.0, 1: 1.5}, {0: 1.0, 1: 1.4, 4: 1.1, 8: 1.3, 16: 2.2}, {0: 1.0, 8: 1.4, 12: 1.2}):
        costs = Costs(measured, 0.1, 0.02)
        got = page.evaluate("([c, n]) => SpecPlay.plotsData.verifyCost(c, n)", [costs.to_json(), n])
        assert got == pytest.approx(costs.v(n))


def long_run(rounds: int, temperature: float = 0.0, text: str = " x") -> list:
    made = RunSettings(proposer="ngram", k=2, sampling=Sampling(temperature))
    events: list = [Start(made.to_json(), "t", "ngram", "e", "cpu", "fp32", {}, [1], "p", ["p"])]
    for number in range(1, rounds + 1):
        tokens = [Proposed(5, text, 0.9, 0.6), Proposed(6, " no", 0.5, 0.4)]
        judged = [Judged(5, True, 0.8, 0.9, 0.89, p_raw=0.7), Judged(6, False, 0.1, 0.5, 0.2, p_raw=0.2)]
        seconds = {"propose": 0.001 * number, "verify": 0.02, "sample": 0.001, "other": 0.002}
        events += [Draft(number, tokens, 0.001), Verdict(number, 1, judged, Extra(7, " c", "corrected", 0.5), seconds)]
    return events


def test_a_long_run_is_drawn_in_means_of_neighbouring_rounds(page):
    events = long_run(1000)
    got = page.evaluate(DRIVER, [to_json(e) for e in events])["rounds"]
    assert got["size"] == 7 and len(got["bars"]) == 143 <= 160
    assert (got["bars"][0]["from"], got["bars"][0]["to"], got["bars"][-1]["to"]) == (1, 7, 1000)
    assert got["bars"][0]["propose"] == pytest.approx(4.0)  # the mean of 1 to 7 ms
    spent = sum(b["total"] * (b["to"] - b["from"] + 1) for b in got["bars"])
    assert spent == pytest.approx(1000 * sum(sum(r.seconds.values()) for r in fold(events).rounds))
    assert got["mean"] == pytest.approx(spent / 1000)


def test_what_a_plain_token_costs_comes_from_the_baseline_if_there_is_one(page):
    run = [to_json(e) for e in long_run(4)]
    got = page.evaluate(
        """(lines) => {
          const folded = () => lines.reduce((f, l) => (f.add(JSON.parse(l)), f), new SpecPlay.Fold());
          const view = {name: "A", baseline: false, fold: folded(), speedup: null};
          const base = {name: "baseline 1", baseline: true, fold: folded(), speedup: null};
          const plain = (v, all) => SpecPlay.plotsData.roundCosts(v, all).plain;
          const none = plain(view, [view]);
          const baseline = plain(view, [base, view]);
          view.fold.start.costs = {verify: {0: 1}, draft: 0, pass_seconds: 0.05};
          const pass = plain(view, [view]);
          return [none, baseline, pass, plain({...view, speedup: {plain_rate: 40}}, [base, view])];
        }""",
        run,
    )
    rate = fold(long_run(4)).metrics().tokens_per_second
    assert got == [None, pytest.approx(1000 / rate), 50, 25]


@pytest.mark.parametrize(("temperature", "p", "q"), [(0.0, 0.7, 0.6), (1.0, 0.8, 0.9)])
def test_greedy_confidences_are_those_before_the_choice(page, temperature, p, q):
    got = page.evaluate(DRIVER, [to_json(e) for e in long_run(3, temperature)])["confidences"]
    assert got["greedy"] == (temperature == 0) and len(got["points"]) == 6
    first = got["points"][0]
    assert (first["p"], first["q"], first["state"], first["position"]) == (p, q, "accepted", 1)
    assert [x["state"] for x in got["points"]].count("rejected") == 3


def test_a_table_holds_every_text_and_no_formula(page):
    for text in ('a"b', "a,b", "\n", " x ", "=1+1", "-2", "@x", "+", "\t=x", "<b>", "한", ""):
        table = page.evaluate(DRIVER, [to_json(e) for e in long_run(2, text=text)])["csv"]
        rows = list(csv.reader(io.StringIO(table, newline="")))
        assert rows[0] == ["round", "position", "id", "text", "state", "p", "q"] and len(rows) == 5
        cell = rows[1][3]
        assert cell.removeprefix("'") == text and not cell.startswith(("=", "+", "-", "@", "\t", "\r"))
        assert rows[1][5:] == ["0.7", "0.6"]


def test_every_table_is_one(page):
    got = page.evaluate(
        """(lines) => {
          const fold = new SpecPlay.Fold();
          for (const line of lines) fold.add(JSON.parse(line));
          const view = {name: "A", title: "=n, k", baseline: false, fold, speedup: {speedup: 2, low: 1, high: 3}};
          const {tables: t, csv, roundCosts, byPosition, passes, speedups} = SpecPlay.plotsData;
          return [t.roundCosts(roundCosts(view, [view])), t.byPosition([byPosition(view)]), t.passes([passes(view)]),
                  t.speedups(speedups([view]))].map(csv);
        }""",
        [json.loads(json.dumps(to_json(e))) for e in long_run(5)],
    )
    rounds, position, passes, speedups = ([*csv.reader(io.StringIO(x, newline=""))] for x in got)
    assert len(rounds) == 6 and rounds[1][2:6] == ["1", "20", "1", "2"]
    assert position[1] == ["A", "1", "5", "1", "1", "0.5", "0.5"]
    assert position[2] == ["A", "2", "5", "0", "0", "0.25", "0.5"]
    assert passes[2] == ["A", "2", "1", "0.25"]
    assert speedups[1] == ["A", "'=n, k", "2", "1", "3", ""]
