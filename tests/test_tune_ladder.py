"""The ladder on a simulated bench: its progress, its stopping and going on, what it gives up, and what it then says."""

from __future__ import annotations

import dataclasses
import json

import pytest
from tune_machines import LIMIT, SimulatedBench, world

from engines.cost import Calibration
from engines.errors import UserError
from engines.tune.candidates import PLAIN, Candidate
from engines.tune.ladder import Options, Tuner
from engines.tune.predict import Prediction
from engines.tune.progress import Calibrated, Dropped, Finished, Phase, Predicted, Ran, Standing
from engines.tune.prompts import Prompts
from engines.tune.race import Measured
from engines.tune.sample import Pass, Sample
from engines.tune.stats import Interval
from engines.tune.store import Store
from engines.tune.verdict import Verdict, failed_assumption, judge

HERE = world(17)


def tuner(bench=None, prompts=None, budget=600.0, candidates=None, **more):
    bench = bench or SimulatedBench(HERE)
    return Tuner(bench, prompts or bench.prompts(), candidates or HERE.candidates, Options(budget, LIMIT), **more)


def runs(events):
    return [(e.sample.candidate, e.sample.prompt, e.sample.block) for e in events if isinstance(e, Ran)]


def test_the_rungs_come_in_order_and_end_with_the_report():
    events = list(tuner().run())
    kinds = [type(e) for e in events]
    assert kinds.index(Calibrated) < kinds.index(Ran) < kinds.index(Predicted) < kinds.index(Standing)
    assert kinds[-1] is Finished and kinds.count(Finished) == 1
    phases = list(dict.fromkeys(e.name for e in events if isinstance(e, Phase)))
    assert phases == ["calibrating", "acceptance", "confirming", "done"]
    left = [e.seconds_left for e in events if isinstance(e, Phase)]
    assert left == sorted(left, reverse=True) and left[0] == 600
    report = json.loads(json.dumps(events[-1].report, allow_nan=False))
    assert report["verdict"]["on"] and report["ended"] == "settled"
    assert len(report["runs"]) == kinds.count(Ran)
    foretold = events[kinds.index(Predicted)].predictions
    assert [p.speedup.value for p in foretold] == sorted((p.speedup.value for p in foretold), reverse=True)


def test_every_block_has_plain_and_its_order_is_random():
    blocks: dict[int, list[str]] = {}
    for name, _, block in runs(tuner().run()):
        blocks.setdefault(block, []).append(name)
    assert all(names.count("plain") == 1 for names in blocks.values())
    assert len({names.index("plain") for names in blocks.values()}) > 2


def test_categories_are_taken_in_turn():
    bench = SimulatedBench(world(3))
    prompts = bench.prompts()
    kinds = {p.category for p in prompts.prompts}
    order = list(dict.fromkeys(prompt for _, prompt, _ in runs(tuner(bench, candidates=bench.world.candidates).run())))
    assert {prompts.prompts[i].category for i in order[: len(kinds)]} == kinds and len(kinds) > 1


class Stop:
    """Says stop after so many runs."""

    def __init__(self, bench, runs):
        self.bench, self.runs = bench, runs

    def __call__(self):
        return self.bench.runs >= self.runs


@pytest.mark.parametrize("after", [0, 5, 40, 90])
def test_it_stops_at_any_time_with_what_is_known(after):
    bench = SimulatedBench(HERE)
    *_, last = tuner(bench, stopped=Stop(bench, after)).run()
    report = last.report
    assert bench.runs == after and report["ended"] == "stopped"
    assert report["verdict"]["sentence"] and (after > 5 or report["verdict"]["best"] is None)
    assert any("stopped" in note for note in report["notes"])


@pytest.mark.parametrize("after", [0, 3, 47, 75])
def test_it_goes_on_where_it_was_stopped(tmp_path, after):
    order = {"prompts": "x"}
    bench = SimulatedBench(HERE)
    stopped = Stop(bench, after)
    list(tuner(bench, store=Store(tmp_path, order), stopped=stopped).run())
    kept = {s.block for s in Store(tmp_path, order).samples}
    stopped.runs = 10**9
    again = tuner(bench, store=Store(tmp_path, order), stopped=stopped)
    events = list(again.run())
    done = runs(events)
    assert not kept & {block for _, _, block in done}  # nothing is measured twice
    assert not events[1].fresh or after == 0
    report = events[-1].report
    assert report["ended"] == "settled" and len(report["runs"]) == len(Store(tmp_path, order).samples)
    assert report["seconds"] == pytest.approx(bench.seconds, abs=5.0)  # both sittings count, but for the block cut off
    assert [type(e) for e in tuner(bench, store=Store(tmp_path, order)).run()].count(Ran) == 0  # it is settled


def test_a_line_cut_in_two_is_left_out_and_another_order_is_refused(tmp_path):
    order = {"prompts": "x"}
    bench = SimulatedBench(HERE)
    list(tuner(bench, store=Store(tmp_path, order), stopped=Stop(bench, 20)).run())
    path = tmp_path / "runs.jsonl"
    whole = path.read_text()
    path.write_text(whole + '{"samples": [{"cand')
    assert len(Store(tmp_path, order).samples) > 0 and path.read_text() == whole
    with pytest.raises(UserError, match="differs in: prompts"):
        Store(tmp_path, {"prompts": "y"})
    path.write_text(whole.replace('"samples"', '"samples', 1))
    with pytest.raises(UserError, match="damaged"):
        Store(tmp_path, order)


def test_a_small_budget_is_kept_to_and_a_larger_one_goes_on(tmp_path):
    slow = world(5)
    bench = SimulatedBench(slow)
    *_, last = tuner(bench, budget=200, candidates=slow.candidates, store=Store(tmp_path, {})).run()
    assert last.report["ended"] == "the budget ended" and bench.seconds < 240
    before = len(last.report["runs"])
    *_, last = tuner(bench, budget=500, candidates=slow.candidates, store=Store(tmp_path, {})).run()
    assert len(last.report["runs"]) > before + 20


class Faulty(SimulatedBench):
    """Fails for some: `bad(candidate, index)` gives the reason."""

    def __init__(self, world, bad):
        super().__init__(world)
        self.bad = bad

    def run(self, candidate, prompt, index, block):
        why = self.bad(candidate, index)
        if why:
            raise UserError(why)
        return super().run(candidate, prompt, index, block)


def test_what_cannot_be_run_is_given_up_and_the_rest_goes_on():
    bench = Faulty(HERE, lambda c, i: "no such draft" if c.proposer == "draft" else None)
    events = list(tuner(bench).run())
    assert [(e.name, e.why) for e in events if isinstance(e, Dropped)][0] == ("draft", "no such draft")
    assert events[-1].report["verdict"]["on"]
    long = Faulty(HERE, lambda c, i: "The prompt is too long" if i % 5 == 0 else None)
    report = list(tuner(long).run())[-1].report
    assert any("of the prompts could not be run: left out" in n for n in report["notes"])
    assert all(run["prompt"] % 5 != 1 for run in report["runs"])
    nothing = Faulty(HERE, lambda c, i: "never")
    report = list(tuner(nothing).run())[-1].report
    assert report["verdict"]["best"] is None and report["verdict"]["sentence"].startswith("Nothing can be said")


def test_answers_too_short_to_time_are_left_out_and_counted():
    bench = SimulatedBench(HERE)
    run = bench.run

    def cut(candidate, prompt, index, block):
        s = run(candidate, prompt, index, block)
        return s if index % 2 else dataclasses.replace(s, passes=s.passes[:3], ids=s.ids[:3])

    bench.run = cut
    report = list(tuner(bench).run())[-1].report
    short = next(n for n in report["notes"] if "too few to time" in n)
    assert "fewer than 16 tokens" in short
    blocks = {r["block"] for r in report["runs"] if r["prompt"] % 2 and r["candidate"] == "plain"}
    assert len(blocks) == len({r["prompt"] for r in report["runs"] if r["prompt"] % 2})  # none was tried again


def test_one_prompt_is_labelled():
    bench = SimulatedBench(HERE)
    report = list(tuner(bench, Prompts(bench.prompts().prompts[:1])).run())[-1].report
    assert any("nothing about other prompts" in n for n in report["notes"])
    assert not report["verdict"]["best"]["speedup"]["of_prompts"]


def test_measured_pairs_are_of_the_tokens_that_both_have():
    passes = [Pass(0, 0, 0, 1, 0.0, 1.0)] * 40
    fast = [Pass(4, 3, 1, 4, 0.0, 2.0)] * 8
    prompts = SimulatedBench(HERE).prompts().prompts
    measured = Measured(prompts)
    measured.add([Sample("plain", 0, 0, passes), Sample("x", 0, 0, fast)])
    [pair] = measured.pairs("plain", "x")
    assert (pair.top, pair.bottom) == (32.0, 16.0)
    assert measured.speedup("y") is None


A, B = Candidate("ngram", 4), Candidate("draft", 2, draft="d")


@pytest.mark.parametrize(
    ("found", "on", "words"),
    [
        ([(A, Interval(1.5, 1.4, 1.6, 9)), (B, Interval(1.3, 1.2, 1.4, 9))], True, "Turn it on: ngram k=4, 1.50×"),
        ([(A, Interval(1.02, 0.99, 1.05, 9))], False, "Leave it off: .* reaches 1.02×"),
        ([(A, Interval(1.2, 0.9, 1.6, 3))], False, "may show one"),
        ([(A, Interval(0.8, 0.7, 0.9, 9))], False, "which is slower"),
        ([(A, Interval(1.5, None, None, 1))], False, "Nothing can be said yet"),
        ([], False, "Nothing can be said yet"),
    ],
)
def test_one_thing_is_said_first(found, on, words):
    verdict = judge(found)
    assert isinstance(verdict, Verdict) and verdict.on is on
    import re

    assert re.search(words, verdict.sentence)
    assert ("The runner-up is draft k=2, 1.30×" in verdict.sentence) is (len(found) == 2)


def test_what_is_slower_than_plain_decoding_is_no_runner_up():
    verdict = judge([(A, Interval(1.5, 1.4, 1.6, 9)), (B, Interval(0.94, 0.9, 0.99, 9))])
    assert "runner-up" not in verdict.sentence and "Nothing else" in verdict.sentence
    slow = judge([(A, Interval(0.9, 0.8, 0.95, 9)), (B, Interval(0.7, 0.6, 0.8, 9))])
    assert "which is slower. The runner-up is draft k=2, 0.70×" in slow.sentence


@pytest.mark.parametrize(
    ("mine", "cause"),
    [
        ({"tokens_per_pass": 1.5}, "acceptance was not the same"),
        ({"verify": 0.9}, "the target's pass over the proposal took"),
        ({"propose": 0.5}, "proposing took"),
        ({"rest": 0.5}, "sampling and book-keeping took"),
    ],
)
def test_the_assumption_that_failed_is_named(mine, cause):
    plain = {"propose": 0.0, "verify": 0.95, "rest": 0.05, "tokens_per_pass": 1.0}
    expected = {"propose": 0.1, "verify": 0.5, "rest": 0.05}
    p = Prediction(A, Interval(1 / 0.65, 1, 2, 9), 2.0, 0.8, (0.8,), 1.5, 1.5, {**expected, "plain": 1.0}, {})
    now = {"tokens_per_pass": 2.0, **expected} | mine
    if "tokens_per_pass" in mine:  # the same rounds, which yield less
        now |= {name: x * 2.0 / 1.5 for name, x in expected.items()}
    measured = Interval(1 / (now["propose"] + now["verify"] + now["rest"]), 1, 2, 9)
    gap, sentence = failed_assumption(p, measured, now, plain)
    assert gap > 0.1 and cause in sentence and "more than measured" in sentence
    assert failed_assumption(p, p.speedup, {"tokens_per_pass": 2.0, **expected}, plain) is None


def test_plain_decoding_is_never_a_candidate_and_costs_may_be_unknown():
    t = tuner(candidates=[PLAIN, Candidate("ngram", 2)])
    assert [c.name for c in t.candidates] == ["ngram k=2"]
    t.foresight.calibration = Calibration()
    assert t.foresight.expected_seconds(Sample("ngram k=2", 0, 0, [])) is None
