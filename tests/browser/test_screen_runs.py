"""Stop, closing the tab, two browsers, and keeping up: rows U4 to U8. The runs are hand-made and at a given rate."""

from __future__ import annotations

import gc
import threading
import time

import psutil
import pytest
from looking import kept_text, tokens_of, wait_state
from replay import ReplayEngine, rounds, start_of

from app.run_page import SHARED_FRAME_SECONDS
from engines.events import to_json
from engines.fold import Fold
from engines.settings import RunSettings

pytestmark = pytest.mark.clock
WORDS = [f" w{i}" for i in range(4000)]
LINES = [w + "\n" if i % 40 == 39 else w for i, w in enumerate(WORDS)]  # paragraphs of forty words
TRIES = 3  # for what is timed: others use this machine, too, and the best try is what the page can do
ROUND_SECONDS = 0.1  # of the slow script: what "within one round" allows, beside the click's own way


def slow(run):
    """A short baseline, then rounds of about a tenth of a second."""
    if run.settings.proposer == "none":
        run.play(WORDS[:20], 400, "eos")
    else:
        run.play(WORDS, 30, "eos")


def rounds_of(run) -> int:
    return sum(e.type == "verdict" for e in run.events)


def wait_for(condition, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def test_u5_stop_keeps_the_partial_run_and_frees_the_page(replay, visit):
    engine, address = replay(slow)
    page = visit(address)
    page.click("#sp-run")
    wait_state(page, "A", "running")
    wait_for(lambda: rounds_of(engine.runs[1]) > 3)
    stopped_at = []
    stop = engine.runs[1].stop

    def noted():
        stopped_at.append((time.monotonic(), rounds_of(engine.runs[1])))
        stop()

    engine.runs[1].stop = noted
    page.click("#sp-stop")
    wait_state(page, "A", "stopped")
    run = engine.runs[1]
    moment, done_before = stopped_at[0]
    assert run.ended_at - moment < 2 * ROUND_SECONDS
    assert rounds_of(run) - done_before <= 1
    assert run.events[-1].reason == "stopped"
    assert kept_text(page, "A") == run.events[-1].text != ""
    assert "Stopped after" in page.locator('.sp-view[data-view="A"] .sp-status').inner_text()
    assert [wait_state(page, v, "stopped", "done") for v in ("baseline 1", "B")] == ["done", "stopped"]
    assert len(engine.runs) == 2

    page.locator("#sp-run:enabled").click(timeout=1000)  # at once
    wait_state(page, "A", "running", timeout=3)
    assert len(engine.runs) == 4
    page.click("#sp-stop")
    wait_state(page, "B", "stopped")


def test_u5_stop_in_a_later_run_keeps_what_came_before(replay, visit):
    def script(run):
        if run.settings.proposer == "layer-skip":
            run.play(WORDS, 50, "length")
        else:
            run.play(WORDS[:40], 400, "length")

    engine, address = replay(script)
    page = visit(address)
    page.click("#sp-run")
    page.wait_for_function(
        """() => document.querySelectorAll(
               '.sp-view[data-view="B"] .sp-t:not(.sp-rejected):not(.sp-unjudged)').length > 40"""
    )
    page.click("#sp-stop")
    wait_state(page, "B", "stopped")
    assert wait_state(page, "A", "done", "stopped") == "done"
    assert kept_text(page, "B") == engine.runs[2].events[-1].text
    for view in "AB":
        assert page.locator(f'.sp-view[data-view="{view}"] [data-tile="speedup"] .sp-value').inner_text().endswith("×")


def test_u6_twenty_stops_leave_nothing_behind(replay, visit):
    engine, address = replay(lambda run: run.play(WORDS, 200, "eos"))
    page = visit(address)
    me = psutil.Process()
    used, threads = [], []
    for turn in range(20):
        page.locator("#sp-run:enabled").click()
        wait_for(lambda turn=turn: len(engine.runs) == turn + 1 and rounds_of(engine.runs[turn]) > 2)
        page.locator("#sp-stop:enabled").click()
        wait_state(page, "B", "stopped")
        page.wait_for_selector("#sp-run:enabled")
        assert engine.runs[turn].events[-1].reason == "stopped"
        gc.collect()
        used.append(me.memory_info().rss)
        threads.append(threading.active_count())
    assert used[-1] - used[4] < 30e6
    assert threads[-1] <= threads[4] + 2
    nodes = page.evaluate("document.querySelectorAll('*').length")
    engine.script = lambda run: run.play(WORDS[:30], 300, "eos")
    page.click("#sp-run")
    wait_state(page, "B", "done")
    assert kept_text(page, "A") == "".join(WORDS[:30])
    assert page.evaluate("document.querySelectorAll('*').length") < nodes + 600


@pytest.mark.parametrize("how", ["close", "leave", "reload"])
def test_u7_a_closed_tab_stops_the_engine(replay, visit, how):
    engine, address = replay(slow)
    page = visit(address)
    page.click("#sp-run")
    wait_for(lambda: len(engine.runs) > 1 and rounds_of(engine.runs[1]) > 3)
    before = rounds_of(engine.runs[1])
    closed_at = time.monotonic()
    page.watched.leave()  # a page that is being left says that its connections end
    if how == "close":
        page.close()
    elif how == "leave":
        page.goto("about:blank")
    else:
        page.reload()
    wait_for(lambda: engine.runs[1].phase == "done")
    assert engine.runs[1].events[-1].reason == "stopped"
    # The way of the news is the browser's and the network's; the engine's own part is one round.
    assert engine.runs[1].ended_at - closed_at < 1.0
    assert rounds_of(engine.runs[1]) - before < 1.0 / ROUND_SECONDS
    time.sleep(0.5)
    assert len(engine.runs) == 2  # nothing that was to come is begun


def test_u8_two_browsers_see_their_own_and_the_second_that_it_waits(replay, visit):
    def script(run):
        run.play([f" {run.prompt}{i}" for i in range(30)], 15 if run.settings.proposer == "ngram" else 60, "eos")

    engine, address = replay(script)
    first, second = visit(address), visit(address)
    for page, prompt in ((first, "one"), (second, "two")):
        page.locator(".sp-prompt textarea").fill(prompt)
    first.click("#sp-run")
    wait_state(first, "A", "running")
    second.click("#sp-run")
    wait_state(second, "A", "queued")
    status = second.locator('.sp-view[data-view="baseline 1"] .sp-status')
    second.wait_for_function(
        """() => document.querySelector('.sp-view[data-view="baseline 1"] .sp-status')
                  .textContent.includes("one run is ahead")"""
    )
    assert status.inner_text() == "Queued: one run is ahead."
    for page, prompt in ((first, "one"), (second, "two")):
        wait_state(page, "B", "done")
        for view in ("A", "B"):
            assert kept_text(page, view) == "".join(f" {prompt}{i}" for i in range(30))
    second.close()


def test_u8_stop_in_one_browser_leaves_the_other_alone(replay, visit):
    engine, address = replay(lambda run: run.play(WORDS[:60], 60, "eos"))
    first, second = visit(address), visit(address)
    first.click("#sp-run")
    wait_state(first, "A", "running")
    second.click("#sp-run")
    wait_state(second, "A", "queued")
    second.locator("#sp-stop:enabled").click()
    wait_state(second, "A", "stopped", timeout=3)
    wait_state(first, "B", "done")
    assert kept_text(first, "B") == "".join(WORDS[:60])


def test_u4_two_panels_in_turn_end_with_the_engine(replay, visit):
    """The product's page: each panel at 200 tokens a second for 1 200 tokens."""
    engine, address = replay(
        lambda run: run.play(LINES[: 60 if run.settings.proposer == "none" else 1200], 200, "length")
    )
    page = visit(address)
    late = []
    for _ in range(TRIES):
        engine.runs.clear()
        page.evaluate(WATCH_ENDS)
        page.locator("#sp-run:enabled").click()
        page.wait_for_function("window.ends.A && window.ends.B")
        late.append(
            [
                page.evaluate("(v) => window.ends[v]", v) - _wall(r.ended_at)
                for v, r in zip("AB", engine.runs[1:], strict=True)
            ]
        )
        for view in "AB":
            assert kept_text(page, view) == "".join(LINES[:1200])
        if max(late[-1]) < 0.5:
            return
    raise AssertionError(f"the browser was behind the engine by {late} s")


# When each view's state became done, in seconds of the wall clock.
WATCH_ENDS = """() => {
  window.ends = {};
  for (const view of document.querySelectorAll(".sp-view.sp-full")) {
    let begun = false;
    new MutationObserver((changes, observer) => {
      begun ||= view.dataset.state === "running";
      if (!begun || view.dataset.state !== "done") return;
      observer.disconnect();
      requestAnimationFrame(() => setTimeout(() => { window.ends[view.dataset.view] = Date.now() / 1000; }));  // drawn
    }).observe(view, {attributes: true, attributeFilter: ["data-state"]});
  }
}"""


def _wall(moment: float) -> float:
    """A time.monotonic() as seconds of the wall clock."""
    return time.time() - (time.monotonic() - moment)


class AllAtOnce:
    """In the place of PageRun: the four panels' runs at the same time, each at 200 tokens a second."""

    def __init__(self, engine, prompt, panels, here):
        engines = [ReplayEngine(lambda run: run.play(LINES[:1200], 200, "length")) for _ in "ABCD"]
        self.runs = [e.submit(RunSettings(proposer="ngram", k=4), "p") for e in engines]
        engine.fed = self.runs

    def frames(self):
        while not all(r.over for r in self.runs):
            yield [f"{view}\t{line}" for view, r in zip("ABCD", self.runs, strict=True) for line in r.take(0)]
            begin = time.monotonic()
            for run in self.runs:  # the end is not kept waiting
                run.wait(max(0.0, begin + SHARED_FRAME_SECONDS - time.monotonic()))

    def stop(self):
        for run in self.runs:
            run.stop()


def test_u4_four_views_at_once(replay, visit, monkeypatch):
    """Four of the product's views on the product's page."""
    monkeypatch.setattr("app.routes.PageRun", AllAtOnce)
    engine, address = replay(None)
    page = visit(address, height=2200)
    for _ in "CD":
        page.click("#sp-add")
    late = []
    for _ in range(TRIES):
        page.evaluate(WATCH_ENDS)
        page.locator("#sp-run:enabled").click()
        page.wait_for_function("Object.keys(window.ends).length === 4")
        late.append(max(page.evaluate("Object.values(window.ends)")) - max(_wall(r.ended_at) for r in engine.fed))
        for view in "ABCD":
            assert kept_text(page, view) == "".join(LINES[:1200])
        if late[-1] < 0.5:
            return
    raise AssertionError(f"four views: the browser was behind the engine by {late} s")


def test_the_messages_stay_small():
    """A run's lines are a few hundred bytes a token: 1 200 tokens are well below a megabyte."""
    made = RunSettings(proposer="ngram", k=4)
    lines = [to_json(start_of(made, "p"))]
    for draft, verdict in rounds(LINES[:1200], "ngram"):
        lines += [to_json(draft), to_json(verdict)]
    assert sum(map(len, lines)) < 800_000


def test_tokens_keep_their_place_while_more_come(replay, visit):
    """Old tokens are not drawn again: a node that is there stays the same node."""
    engine, address = replay(lambda run: run.play(WORDS[:200], 100, "eos"))
    page = visit(address)
    page.click("#sp-run")
    wait_for(lambda: len(engine.runs) > 1 and rounds_of(engine.runs[1]) > 10)
    page.wait_for_function("""() => document.querySelectorAll('.sp-view[data-view="A"] .sp-t').length > 40""")
    view = tokens_of(page, "A")
    view.evaluate("(n) => { window.first = [...n.querySelectorAll('.sp-t')].slice(0, 20); }")
    wait_state(page, "A", "done")
    assert view.evaluate("(n) => window.first.every((node, i) => n.querySelectorAll('.sp-t')[i] === node)")
    fold = Fold()
    for event in engine.runs[1].events:
        fold.add(event)
    assert kept_text(page, "A") == fold.text()
    wait_state(page, "B", "done")
