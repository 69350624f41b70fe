"""One press of Run, without a browser: the order of the runs, their states, Stop, and what is said of the result."""

from __future__ import annotations

import json
import re
import threading
import time

import pytest
from replay import ReplayEngine, done_of

from app.run_page import PageRun
from engines.errors import UserError
from engines.events import from_json, to_json
from engines.fold import fold
from engines.settings import RunSettings, Sampling

WORDS = [f" word{i}" for i in range(40)]
PLAIN = RunSettings()
NGRAM = RunSettings(proposer="ngram", k=8)
SKIP = RunSettings(proposer="layer-skip", k=3)
HOT = Sampling(temperature=0.8)


def play(tokens=WORDS, rate=4000.0, reason="eos"):
    def script(run):
        pace = 0.02 if run.settings.proposer == "none" else 0.03
        run.play(tokens, rate, reason, pace=pace)

    return script


def press(panels, script=None, engine=None):
    return PageRun(engine or ReplayEngine(script or play()), "the prompt", dict(zip("ABCD", panels, strict=False)))


def lines(frames):
    """All that was sent, by view."""
    out = {}
    for frame in frames:
        for line in frame:
            view, _, text = line.partition("\t")
            out.setdefault(view, []).append(json.loads(text))
    return out


def pages(sent):
    return [line for line in sent if line["type"] == "page"]


def states(sent):
    return [line["state"] for line in pages(sent) if "state" in line]


def last(page_run):
    return lines(page_run.frames())


def test_the_baseline_first_then_the_panels():
    engine = ReplayEngine(play())
    sent = last(press([NGRAM, SKIP], engine=engine))
    assert [r.settings.proposer for r in engine.runs] == ["none", "ngram", "layer-skip"]
    assert engine.runs[0].settings == NGRAM.baseline() == SKIP.baseline()
    assert len({r.prompt for r in engine.runs}) == 1
    assert set(sent) == {"baseline 1", "A", "B"}
    for view, proposer in (("baseline 1", "none"), ("A", "ngram"), ("B", "layer-skip")):
        events = [from_json(json.dumps(line)) for line in sent[view] if line["type"] != "page"]
        folded = fold(events)
        assert folded.start.proposer == proposer
        assert folded.text() == "".join(WORDS) == folded.done.text
    assert pages(sent["A"])[0]["baseline"] == pages(sent["B"])[0]["baseline"] == "baseline 1"


def test_a_panel_keeps_its_letter_when_others_are_left_out():
    engine = ReplayEngine(play())
    sent = lines(PageRun(engine, "the prompt", {"B": NGRAM, "D": SKIP}).frames())
    assert set(sent) == {"baseline 1", "B", "D"}


def test_runs_do_not_overlap():
    """One at a time: the next is not even queued before the one before it has ended."""
    engine = ReplayEngine(play(rate=800))
    running = []
    submit = engine.submit

    def watched(settings, prompt):
        running.append([r.phase for r in engine.runs])
        return submit(settings, prompt)

    engine.submit = watched
    last(press([NGRAM, SKIP], engine=engine))
    assert running == [[], ["done"], ["done", "done"]]


def test_panels_with_other_sampling_get_a_baseline_of_their_own():
    engine = ReplayEngine(play())
    panels = [NGRAM.replace(sampling=HOT), SKIP, NGRAM.replace(k=2)]
    sent = last(press(panels, engine=engine))
    assert [(r.settings.proposer, r.settings.sampling.temperature) for r in engine.runs] == [
        ("none", 0.8),
        ("ngram", 0.8),
        ("none", 0.0),
        ("layer-skip", 0.0),
        ("ngram", 0.0),
    ]
    titles = [pages(sent[view])[0]["title"] for view in ("baseline 1", "baseline 2")]
    assert titles == [
        "Baseline for A: plain decoding · temperature 0.8",
        "Baseline for B: plain decoding · greedy",
    ]
    assert [pages(sent[view])[0]["baseline"] for view in "ABC"] == ["baseline 1", "baseline 2", "baseline 2"]


def test_each_line_is_sent_once_and_in_order():
    engine = ReplayEngine(play(tokens=WORDS * 10, rate=1000))
    sent = last(press([NGRAM], engine=engine))
    for view, run in zip(("baseline 1", "A"), engine.runs, strict=True):
        events = [line for line in sent[view] if line["type"] != "page"]
        assert events == [json.loads(to_json(e)) for e in run.events]


def test_waiting_is_shown_from_the_first_frame():
    first = lines([next(iter(press([NGRAM, SKIP]).frames()))])
    assert [states(sent) for sent in first.values()] == [["queued"]] * 3


def test_frames_come_at_most_twenty_a_second():
    begin = time.monotonic()
    frames = [f for f in press([NGRAM], play(tokens=WORDS * 5, rate=400)).frames() if f]
    took = time.monotonic() - begin
    assert took > 0.5
    assert len(frames) <= 20 * took + 6


def test_measured_speed_up_and_why():
    sent = last(press([NGRAM, SKIP]))
    for view in "AB":
        measured = pages(sent[view])[-1]
        assert measured["speedup"] > 1.05
        assert measured["tone"] == "faster"
        assert measured["low"] * 0.999 <= measured["speedup"] <= measured["high"] * 1.001
        assert "Faster than plain decoding: " in measured["sentence"]
        per_pass, cost, value = re.search(
            r"([\d.]+) tokens per pass ÷ ([\d.]+) \(what a round costs, in plain passes\) = ([\d.]+)",
            measured["sentence"],
        ).groups()
        assert float(per_pass) / float(cost) == pytest.approx(float(value), rel=0.02)
        assert "identical to plain decoding (40 tokens)" in measured["sentence"]
        assert measured["plain_rate"] == pytest.approx(1 / 0.02)


def test_a_bad_draft_is_shown_as_slower_and_explained():
    def script(run):
        speculative = run.settings.proposer != "none"
        run.play(WORDS, 4000, "length", accepted=(0, 0, 1), pace=0.05 if speculative else 0.02)

    measured = pages(last(press([SKIP], script))["A"])[-1]
    assert measured["speedup"] == pytest.approx((1 / 0.05) * (4 / 3) * 0.02, rel=0.05)
    assert measured["tone"] == "slower"
    assert "Slower than plain decoding" in measured["sentence"]
    assert "never trained to leave layers out" in measured["sentence"]


def test_a_short_run_gets_no_number():
    measured = pages(last(press([NGRAM], play(tokens=WORDS[:3])))["A"])[-1]
    assert measured["speedup"] is None
    assert measured["instead"] == "too short to measure"
    assert "3 tokens" in measured["sentence"]


def test_a_panel_that_cannot_be_read_says_so_and_the_other_runs():
    engine = ReplayEngine(play())
    frame = last(press([UserError("k must be a whole number."), NGRAM], engine=engine))
    assert pages(frame["A"])[-1] == {"type": "page", "state": "error", "message": "k must be a whole number."}
    assert [r.settings.proposer for r in engine.runs] == ["none", "ngram"]
    assert pages(frame["B"])[-1]["speedup"] > 1


def test_no_baseline_no_comparison():
    def script(run):
        run.add(done_of([], "error", "The prompt is too long: shorten it."))

    engine = ReplayEngine(script)
    frame = last(press([NGRAM, SKIP], engine=engine))
    assert [r.settings.proposer for r in engine.runs] == ["none"]
    assert frame["baseline 1"][-1]["message"] == "The prompt is too long: shorten it."
    for view in "AB":
        assert states(frame[view])[-1] == "error"
        assert "baseline failed" in pages(frame[view])[-1]["message"]


def test_a_panel_that_fails_leaves_the_next_alone():
    def script(run):
        if run.settings.proposer == "ngram":
            run.add(done_of([], "error", "The draft cannot be used."))
        else:
            play()(run)

    frame = last(press([NGRAM, SKIP], script))
    assert frame["A"][-1]["message"] == "The draft cannot be used."
    assert not any("speedup" in line for line in pages(frame["A"]))
    assert pages(frame["B"])[-1]["speedup"] > 1


@pytest.mark.parametrize("fault", [UserError("Name a target model."), RuntimeError("a bug")])
def test_what_submit_raises_is_shown(fault):
    engine = ReplayEngine(play())

    def submit(settings, prompt):
        raise fault

    engine.submit = submit
    frame = last(press([NGRAM], engine=engine))
    message = pages(frame["baseline 1"])[-1]["message"]
    assert message == "Name a target model." if isinstance(fault, UserError) else "went wrong" in message


def test_stop_halts_within_a_round_and_skips_what_comes():
    engine = ReplayEngine(play(tokens=WORDS * 20, rate=200))
    page_run = press([NGRAM, SKIP], engine=engine)
    at_stop, frames = None, []
    for frame in page_run.frames():
        frames.append(frame)
        if at_stop is None and engine.runs and len(engine.runs[0].events) > 20:
            at_stop = len(engine.runs[0].events)
            page_run.stop()
    frame = lines(frames)
    assert len(engine.runs) == 1
    assert engine.runs[0].events[-1].reason == "stopped"
    assert len(engine.runs[0].events) - at_stop <= 2 + 2  # the round under way, perhaps one more, and the end
    assert fold(engine.runs[0].events).text() == engine.runs[0].events[-1].text != ""
    assert [line["reason"] for line in frame["baseline 1"] if line["type"] == "done"] == ["stopped"]
    assert [states(frame[view])[-1] for view in "AB"] == ["stopped", "stopped"]


def test_stop_before_the_run_began_does_not_wait_for_it():
    gate = threading.Event()
    engine = ReplayEngine(lambda run: gate.wait(20) and run.play(WORDS, 4000, "eos"))
    other = engine.submit(PLAIN, "another browser's")
    page_run = press([NGRAM], engine=engine)
    threading.Timer(0.3, page_run.stop).start()
    begin = time.monotonic()
    frames = list(page_run.frames())
    assert time.monotonic() - begin < 2
    messages = [line.get("message") for line in pages(lines(frames)["baseline 1"])]
    assert "Queued: one run is ahead." in messages
    assert messages[-1] == "Stopped before it began."
    gate.set()
    while other.phase != "done":
        time.sleep(0.01)


def test_closing_the_generator_stops_the_engine():
    engine = ReplayEngine(play(tokens=WORDS * 50, rate=100))
    frames = press([NGRAM], engine=engine).frames()
    while not engine.runs or len(engine.runs[0].events) < 4:
        next(frames)
    frames.close()
    deadline = time.monotonic() + 2
    while engine.runs[0].phase != "done" and time.monotonic() < deadline:
        time.sleep(0.005)
    assert engine.runs[0].events[-1].reason == "stopped"
    assert len(engine.runs) == 1


@pytest.mark.parametrize("phase", ["queued", "loading"])  # queued: behind the loading that the page itself began
def test_loading_is_shown_with_its_fraction(phase):
    gate = threading.Event()

    def script(run):
        run.phase = phase
        gate.wait(10)
        play()(run)

    engine = ReplayEngine(script)
    engine.state = lambda: {"phase": "fetching", "message": "Fetching the model.", "fraction": 0.25}
    seen = []
    for frame in press([NGRAM], engine=engine).frames():
        seen += [line.get("message") for line in pages(lines([frame]).get("baseline 1", []))]
        if "Fetching the model. 25 %" in seen:
            gate.set()
    assert "Fetching the model. 25 %" in seen
