"""The tab "Sweep" in Chromium, over a table of logits: what it asks, what it shows while it runs and after, Stop."""

from __future__ import annotations

import csv
import io
import time
from pathlib import Path

import pytest
from conftest import served
from sweep_tables import TableModels
from test_looks import CONTRAST
from test_plots import contrast

from engines.service import Engine


class SlowModels(TableModels):
    """Each pass takes `delay` seconds."""

    def __init__(self, delay: float) -> None:
        super().__init__()
        self.delay = delay

    def job(self, settings, prompt, say, stopped):
        made = super().job(settings, prompt, say, stopped)
        forward = made.session.forward
        made.session.forward = lambda *a, **k: (time.sleep(self.delay), forward(*a, **k))[1]
        return made


@pytest.fixture(scope="module")
def place():
    engine = Engine(SlowModels(0.001))
    with served(engine) as address:
        yield engine, address
    engine.close()


@pytest.fixture
def tab(place, visit):
    def open_tab():
        page = visit(place[1])
        page.get_by_role("tab", name="Sweep").click()
        page.wait_for_selector(".sp-sweep", state="attached")
        return page

    return open_tab


def state_of(page, *states: str, timeout: float = 60) -> str:
    choice = ", ".join(f'.sp-sweep[data-state="{s}"]' for s in states)
    page.wait_for_selector(choice, state="attached", timeout=1000 * timeout)
    return page.locator(".sp-sweep-status").inner_text()


def choose(page, label: str, option: str) -> None:
    page.locator("#sp-sweep-tab").get_by_label(label, exact=True).click()
    page.get_by_role("option", name=option).click()


def fill(page, **values: str) -> None:
    for label, value in values.items():
        field = page.locator("#sp-sweep-tab").get_by_label(label.replace("_", " "), exact=label != "values")
        field.fill(value)
        field.blur()


def plan_is(page, text: str) -> None:
    page.wait_for_function(f"document.querySelector('.sp-sweep-plan').textContent.includes({text!r})")


def readable(page) -> None:
    """Nothing scrolls sideways, and texts can be told from what is behind them."""
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    texts = page.locator(".sp-sweep :is(td, th, caption, p, h3, button, span)").all()
    assert min(node.evaluate(CONTRAST) for node in texts if node.is_visible()) >= 4.5
    behind, fills = page.evaluate(
        """() => { const numbers = (c) => c.match(/[\\d.]+/g).map(Number);
             const svg = document.querySelector(".sp-sweep .main-svg");
             const fills = [...document.querySelectorAll(".sp-sweep text")].map((n) => getComputedStyle(n).fill);
             return [numbers(getComputedStyle(svg).backgroundColor), [...new Set(fills)].map(numbers)]; }"""
    )
    assert min(contrast(fill, behind) for fill in fills) >= 4.5


def test_a_sweep_from_start_to_table(tab):
    page = tab()
    fill(page, values="1, 3-4", max_tokens="32")
    plan_is(page, "3 points, 8 runs of up to 32 tokens, 2 of them plain decoding")
    assert page.locator("#sp-sweep-stop").is_disabled()
    page.click("#sp-sweep-start")
    assert "runs" in state_of(page, "running")
    assert page.locator(".sp-sweep progress").is_visible() and page.locator("#sp-sweep-start").is_disabled()
    assert state_of(page, "done").startswith("8 runs in ")
    page.wait_for_function("document.querySelectorAll('.sp-sweep .js-plotly-plot').length === 3")
    assert page.locator(".sp-sweep progress").is_hidden() and page.locator("#sp-sweep-start").is_enabled()
    heads = page.locator(".sp-sweep tbody th").all_inner_texts()
    assert heads == ["1", "3", "4"]
    speedups = page.locator('.sp-sweep td[data-head="speed-up"]').all_inner_texts()
    assert all("×" in text for text in speedups)
    assert page.locator('.sp-sweep td[data-head="text"]').all_inner_texts() == ["identical"] * 3
    for key, said in (("speedup", speedups[1].split()[0]), ("acceptance", " %"), ("passes", "by k (tokens proposed")):
        plot = page.locator(f'[data-plot="sweep-{key}"] .sp-figure-plot')
        label = plot.get_attribute("aria-label")
        assert plot.get_attribute("role") == "img" and said in label and "3 " in label
        drawn = plot.evaluate("(n) => n.data.map((t) => [t.name, t.x.length])")
        assert drawn == [["measured", 3], ["the formula", 3]]
    with page.expect_download() as table:
        page.get_by_role("button", name="Save the table as CSV").click()
    rows = list(csv.reader(io.StringIO(Path(table.value.path()).read_text(encoding="utf-8-sig"))))
    assert rows[0][:4] == ["k", "speedup", "speedup_low", "speedup_high"] and [r[0] for r in rows[1:]] == heads
    assert all(float(r[2]) <= float(r[1]) <= float(r[3]) for r in rows[1:])
    with page.expect_download() as picture:
        page.get_by_role("button", name="Save as PNG: Speed-up").click()
    assert Path(picture.value.path()).read_bytes().startswith(b"\x89PNG")
    readable(page)
    page.evaluate("document.body.classList.add('dark')")
    page.set_viewport_size({"width": 390, "height": 844})
    plot = "document.querySelector('.sp-sweep .sp-figure-plot').layout"
    page.wait_for_function(f"{plot}.width <= 390 && {plot}.paper_bgcolor === '#191e25'")
    readable(page)


def test_what_is_wrong_is_said_before_and_after_start(tab):
    page = tab()
    fill(page, values="1-40")
    plan_is(page, "more than the 12 points")
    page.click("#sp-sweep-start")
    assert "more than the 12 points" in state_of(page, "error")
    assert page.locator(".sp-sweep .js-plotly-plot").count() == 0
    fill(page, values="two")
    plan_is(page, "such as 1-8, 12 or 0-1.5 step 0.25; 'two' is neither")
    fill(page, values="2", repeats="9")
    plan_is(page, "repeats must lie in 1 to 5")


def test_the_form_follows_the_axis(tab):
    page = tab()
    field = lambda name: page.locator("#sp-sweep-tab").get_by_label(name, exact=name != "values")  # noqa: E731
    assert field("values").is_visible() and not field("k").first.is_visible()
    choose(page, "what changes", "temperature")
    page.locator("#sp-sweep-tab").get_by_label("values").wait_for()
    page.wait_for_function(
        "document.querySelector('.sp-sweep-axis textarea, .sp-sweep-axis input[type=text]') !== null"
    )
    plan_is(page, "4 points, 16 runs")  # at each temperature its own plain run
    choose(page, "what changes", "kind of text")
    plan_is(page, "6 points, 24 runs")
    assert not field("values").is_visible()
    choose(page, "what changes", "who proposes")
    page.locator("#sp-sweep-tab").get_by_label("trained head (EAGLE)").wait_for()
    choose(page, "what changes", "draft model")
    page.locator("#sp-sweep-tab").get_by_label("draft models: names").wait_for()
    plan_is(page, "1 point")


def test_kinds_of_text_and_ones_own_without_a_line_between_them(tab):
    page = tab()
    choose(page, "what changes", "kind of text")
    plan_is(page, "6 points")
    for name in ("JSON", "Summarise", "Chat", "Prose"):
        page.locator("#sp-sweep-tab").get_by_label(name, exact=True).uncheck()
    page.locator("#sp-sweep-tab").get_by_label("and a text of your own").fill("<b>mine</b>")
    page.locator("#sp-sweep-tab").get_by_label("and a text of your own").blur()
    fill(page, max_tokens="24", repeats="1")
    plan_is(page, "3 points, 6 runs of up to 24")
    page.click("#sp-sweep-start")
    state_of(page, "done")
    page.wait_for_function("document.querySelectorAll('.sp-sweep .js-plotly-plot').length === 3")
    assert page.locator(".sp-sweep tbody th").all_inner_texts() == ["Edit code", "Write code", "My text"]
    modes = page.evaluate("document.querySelector('[data-plot=sweep-speedup] .sp-figure-plot').data.map((t) => t.mode)")
    assert modes == ["markers", "markers"]


def test_a_draft_that_cannot_be_used_is_said_and_the_others_are_measured(tab):
    page = tab()
    choose(page, "what changes", "draft model")
    drafts = page.locator("#sp-sweep-tab").get_by_label("draft models: names")
    drafts.fill("broken")
    drafts.press("Enter")
    drafts.blur()
    plan_is(page, "2 points")
    fill(page, max_tokens="24", repeats="1")
    plan_is(page, "of up to 24")
    page.click("#sp-sweep-start")
    state_of(page, "done")
    assert "broken: The draft model 'broken' cannot be used" in page.locator(".sp-sweep").inner_text()
    assert page.locator('.sp-sweep td[data-head="runs compared"]').all_inner_texts()[0] == "1"


def test_stop_keeps_what_was_measured_and_a_closed_tab_stops_too(tab, place):
    engine, _ = place
    page = tab()
    fill(page, values="1-8", max_tokens="512", repeats="5")
    plan_is(page, "50 runs")
    page.click("#sp-sweep-start")
    page.wait_for_selector(".sp-sweep tbody tr", timeout=60_000)  # the first group is complete
    page.click("#sp-sweep-stop")
    assert "what was measured till then stays" in state_of(page, "stopped")
    assert page.locator(".sp-sweep tbody tr").count() == 8
    page.wait_for_function("!document.querySelector('#sp-sweep-start').disabled")
    page.click("#sp-sweep-start")
    state_of(page, "running")
    assert engine._current is not None
    page.close()
    until = time.monotonic() + 20
    while engine._current is not None and time.monotonic() < until:
        time.sleep(0.05)
    assert engine._current is None
