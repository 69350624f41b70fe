"""One press of Run, without a browser: the order of the runs, their states, Stop, and what is said of the result."""

from __future__ import annotations

import json
import re
import threading
import time

import pytest
from replay import ReplayEngine, done_of

from app.run_page import PageRun, baseline_of
from app.screens import WINDOW
from engines.errors import UserError
from engines.events import from_json
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
    return PageRun(engine or ReplayEngine(script or play()), "the prompt", panels)


def head(text):
    return json.loads(text.splitlines()[0])


def lines(text):
    """All but the head."""
    return [json.loads(line) for line in text.splitlines()[1:]]


def pages(text):
    return [line for line in lines(text) if line["type"] == "page"]


def states(text):
    return [line["state"] for line in pages(text) if "state" in line]


def last(page_run):
    frames = list(page_run.frames())
    return frames[-1]


def test_first_panel_then_baseline_then_the_other_panel():
    engine = ReplayEngine(play())
    frame = last(press([NGRAM, SKIP], engine=engine))
    assert [r.settings.proposer for r in engine.runs] == ["ngram", "none", "layer-skip"]
    assert engine.runs[1].settings == baseline_of(NGRAM) == baseline_of(SKIP)
    assert len({r.prompt for r in engine.runs}) == 1
    baseline, unused, a, b = frame
    assert unused == ""
    for text, proposer in ((baseline, "none"), (a, "ngram"), (b, "layer-skip")):
        events = [from_json(json.dumps(line)) for line in lines(text) if line["type"] != "page"]
        folded = fold(events)
        assert folded.start.proposer == proposer
        assert folded.text() == "".join(WORDS) == folded.done.text


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
    frame = last(press(panels, engine=engine))
    assert [(r.settings.proposer, r.settings.sampling.temperature) for r in engine.runs] == [
        ("ngram", 0.8),
        ("none", 0.8),
        ("none", 0.0),
        ("layer-skip", 0.0),
        ("ngram", 0.0),
    ]
    titles = [pages(text)[0]["title"] for text in frame[:2]]
    assert titles == [
        "Baseline for A: plain decoding · temperature 0.8",
        "Baseline for B: plain decoding · greedy",
    ]
    assert frame[2] == ""


def test_strings_only_grow_and_begin_with_the_run():
    previous = None
    seen = 0
    for frame in press([NGRAM, SKIP], play(rate=400)).frames():
        if previous:
            assert all(new.startswith(old) for new, old in zip(frame, previous, strict=True))
        previous = frame
        seen += 1
    assert seen > 5
    assert len({head(text)["run"] for text in previous if text}) == 3
    assert [head(text)["left_out"] for text in previous if text] == [0, 0, 0]


def test_a_long_run_travels_by_a_window_and_whole_in_the_end(monkeypatch):
    monkeypatch.setattr("app.run_page.FRAME_SECONDS", 0.05)  # few cores draw less often: more is new in each frame
    longest, left_out = 0, 0
    taken: list[str] = []  # as a browser that sees each frame takes them
    for frame in press([NGRAM], play(tokens=WORDS * 30, rate=1000)).frames():
        text = frame[1]  # the panel's
        first, *rest = text.splitlines()
        now = json.loads(first)["left_out"]
        assert now <= len(taken)  # nothing is missed
        taken += rest[len(taken) - now :]
        left_out = max(left_out, now)
        if not any('"type":"done"' in line for line in rest):
            longest = max(longest, len(text))
    assert left_out > 0
    assert longest <= 2 * WINDOW  # what is new in a frame comes on top
    assert head(text)["left_out"] == 0
    assert rest == taken
    assert len(text) > 2 * WINDOW


def test_two_presses_are_told_apart():
    names = [last(press([NGRAM]))[1].splitlines()[0] for _ in range(2)]
    assert names[0] != names[1]


def test_waiting_is_shown_from_the_first_frame():
    first = next(iter(press([NGRAM, SKIP]).frames()))
    assert [states(text) for text in first if text] == [["queued"]] * 3


def test_frames_come_at_most_twenty_a_second():
    begin = time.monotonic()
    frames = list(press([NGRAM], play(tokens=WORDS * 5, rate=400)).frames())
    took = time.monotonic() - begin
    assert took > 0.5
    assert len(frames) <= 20 * took + 6


def test_measured_speed_up_and_why():
    frame = last(press([NGRAM, SKIP]))
    for text in frame[2:]:
        measured = pages(text)[-1]
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

    measured = pages(last(press([SKIP], script))[1])[-1]
    assert measured["speedup"] == pytest.approx((1 / 0.05) * (4 / 3) * 0.02, rel=0.05)
    assert measured["tone"] == "slower"
    assert "Slower than plain decoding" in measured["sentence"]
    assert "never trained to leave layers out" in measured["sentence"]


def test_a_short_run_gets_no_number():
    measured = pages(last(press([NGRAM], play(tokens=WORDS[:3])))[1])[-1]
    assert measured["speedup"] is None
    assert measured["instead"] == "too short to measure"
    assert "3 tokens" in measured["sentence"]


def test_a_panel_that_cannot_be_read_says_so_and_the_other_runs():
    engine = ReplayEngine(play())
    frame = last(press([UserError("k must be a whole number."), NGRAM], engine=engine))
    assert pages(frame[2])[-1] == {"type": "page", "state": "error", "message": "k must be a whole number."}
    assert [r.settings.proposer for r in engine.runs] == ["ngram", "none"]
    assert pages(frame[3])[-1]["speedup"] > 1


def test_no_baseline_no_comparison():
    def script(run):
        run.add(done_of([], "error", "The prompt is too long: shorten it."))

    engine = ReplayEngine(script)
    frame = last(press([NGRAM, SKIP], engine=engine))
    assert [r.settings.proposer for r in engine.runs] == ["ngram", "none"]
    for text in (frame[0], frame[2]):
        assert lines(text)[-1]["message"] == "The prompt is too long: shorten it."
    assert states(frame[3])[-1] == "error"
    assert "baseline failed" in pages(frame[3])[-1]["message"]


def test_a_panel_whose_baseline_fails_gets_no_number():
    def script(run):
        if run.settings.proposer == "none":
            run.add(done_of([], "error", "Out of memory."))
        else:
            play()(run)

    frame = last(press([NGRAM], script))
    measured = pages(frame[1])[-1]
    assert (measured["speedup"], measured["instead"]) == (None, "not measured")
    assert "the baseline failed" in measured["sentence"]


def test_a_panel_that_fails_leaves_the_next_alone():
    def script(run):
        if run.settings.proposer == "ngram":
            run.add(done_of([], "error", "The draft cannot be used."))
        else:
            play()(run)

    frame = last(press([NGRAM, SKIP], script))
    assert lines(frame[2])[-1]["message"] == "The draft cannot be used."
    assert not any("speedup" in line for line in pages(frame[2]))
    assert pages(frame[3])[-1]["speedup"] > 1


@pytest.mark.parametrize("fault", [UserError("Name a target model."), RuntimeError("a bug")])
def test_what_submit_raises_is_shown(fault):
    engine = ReplayEngine(play())

    def submit(settings, prompt):
        raise fault

    engine.submit = submit
    frame = last(press([NGRAM], engine=engine))
    message = pages(frame[1])[-1]["message"]
    assert message == "Name a target model." if isinstance(fault, UserError) else "went wrong" in message


def test_stop_halts_within_a_round_and_skips_what_comes():
    engine = ReplayEngine(play(tokens=WORDS * 20, rate=200))
    page_run = press([NGRAM, SKIP], engine=engine)
    at_stop, frame = None, []
    for frame in page_run.frames():  # noqa: B007 - the last one is looked at below
        if at_stop is None and engine.runs and len(engine.runs[0].events) > 20:
            at_stop = len(engine.runs[0].events)
            page_run.stop()
    assert len(engine.runs) == 1
    assert engine.runs[0].events[-1].reason == "stopped"
    assert len(engine.runs[0].events) - at_stop <= 2 + 2  # the round under way, perhaps one more, and the end
    assert fold(engine.runs[0].events).text() == engine.runs[0].events[-1].text != ""
    assert [line["reason"] for line in lines(frame[2]) if line["type"] == "done"] == ["stopped"]
    assert [states(text)[-1] for text in (frame[0], frame[3])] == ["stopped", "stopped"]


def test_stop_before_the_run_began_does_not_wait_for_it():
    gate = threading.Event()
    engine = ReplayEngine(lambda run: gate.wait(20) and run.play(WORDS, 4000, "eos"))
    other = engine.submit(PLAIN, "another browser's")
    page_run = press([NGRAM], engine=engine)
    threading.Timer(0.3, page_run.stop).start()
    begin = time.monotonic()
    frames = list(page_run.frames())
    assert time.monotonic() - begin < 2
    messages = [line.get("message") for line in pages(frames[-1][1])]
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
        seen = [line.get("message") for line in pages(frame[1])]
        if "Fetching the model. 25 %" in seen:
            gate.set()
    assert "Fetching the model. 25 %" in seen
