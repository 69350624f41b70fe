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
        if run.settings.proposer == "none":
            run.play(TEXT, 2000, "eos")
            return
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
    page.locator('.sp-view[data-view="A"] [data-tile="speedup"] .sp-note', has_text="when both are done").wait_for()
    page.click("#sp-stop")
    wait_state(page, "A", "stopped")
    page.locator("#sp-run:enabled").wait_for()
    assert tile(page, "A", "speedup", "note") == ""


def outdated(page):
    return [v for v in ("baseline 1", "A", "B") if page.locator(f'.sp-view[data-view="{v}"] .sp-outdated').is_visible()]


def test_a_result_says_when_it_is_of_other_settings(replay, visit):
    _, address = replay(lambda run: run.play(TEXT, 600, "eos"))
    page = visit(address)
    everyone = ["baseline 1", "A", "B"]
    page.locator(".sp-prompt textarea").fill("another prompt")
    page.wait_for_timeout(300)
    assert outdated(page) == []
    page.click("#sp-run")
    wait_state(page, "B", "done")
    assert outdated(page) == []
    said = page.locator('.sp-view[data-view="A"] .sp-outdated')
    prompt = page.locator(".sp-prompt textarea")
    prompt.fill("a third one")
    said.wait_for(state="visible")
    assert outdated(page) == everyone and said.inner_text() == "for the settings before"
    prompt.fill("another prompt")  # as it was
    said.wait_for(state="hidden")
    assert outdated(page) == []
    page.get_by_role("button", name="Prose").click()
    said.wait_for(state="visible")
    page.locator("#sp-run:enabled").click()
    said.wait_for(state="hidden")
    wait_state(page, "B", "done")
    page.locator("#sp-run:enabled").wait_for()
    second = page.locator(".sp-panel").nth(1)
    number = second.locator("input[type=number][aria-label*=' k']")
    number.fill("2")
    number.press("Tab")
    page.locator('.sp-view[data-view="B"] .sp-outdated').wait_for(state="visible")
    assert outdated(page) == ["B"]
