"""What stands beside a result: its spread, the arithmetic, and what is said when there is none."""

from __future__ import annotations

import time

from looking import wait_state
from replay import done_of, start_of

TEXT = [f" word{i}" for i in range(40)]


def tile(page, view, name, part="value"):
    return page.locator(f'.sp-view[data-view="{view}"] [data-tile="{name}"] .sp-{part}').inner_text()


def test_a_speed_up_shows_its_spread_and_its_arithmetic(replay, visit):
    _, address = replay(lambda run: run.play(TEXT, 600, "eos"))
    page = visit(address)
    page.click("#sp-run")
    wait_state(page, "B", "done")
    page.wait_for_selector('.sp-view[data-view="A"] .sp-verdict[data-tone="faster"]')
    value = float(tile(page, "A", "speedup").rstrip("×"))
    low, high = map(float, tile(page, "A", "speedup", "note").strip("()").split(" to "))
    assert low <= value + 0.06 and value <= high + 0.06 and low > 1
    assert f"= {value:.2f}" in page.locator('.sp-view[data-view="A"] .sp-verdict').inner_text()
    assert "a round: one proposal and the pass that judges it" in page.locator(".sp-legend").inner_text()


def test_no_speed_up_is_announced_for_a_run_that_wrote_nothing(replay, visit):
    """Stop while the prompt is read: nothing is to come any more."""

    def script(run):
        run.phase = "prefill"
        run.add(start_of(run.settings, run.prompt))
        while not run._stop.is_set():
            time.sleep(0.01)
        run.add(done_of(run.events, "stopped"))

    _, address = replay(script)
    page = visit(address)
    page.click("#sp-run")
    page.wait_for_function(
        """() => document.querySelector('.sp-view[data-view="A"] .sp-status').textContent === "Reading the prompt." """
    )
    assert tile(page, "A", "speedup", "note") == "when both are done"
    page.click("#sp-stop")
    wait_state(page, "A", "stopped")
    page.locator("#sp-run:enabled").wait_for()
    assert tile(page, "A", "speedup", "note") == ""
