"""Readable everywhere: widths, both themes, contrast; and what the page says when something is missing."""

from __future__ import annotations

import pytest
from conftest import served
from looking import tokens_of, wait_state

from engines.service import Engine

TEXT = [f" word{i}" if i % 12 else "\n    line" for i in range(90)]

# The contrast of a node's text with what is behind it: tints are blended down to the first opaque colour. Where a
# pattern lies behind the text, its darker stroke counts.
CONTRAST = """(node) => {
  const parse = (c) => (c.match(/[\\d.]+/g) || []).map(Number);
  const rgba = (c) => { const [r, g, b, a = 1] = parse(c); return {r, g, b, a}; };
  const over = (top, under) => ({r: top.r * top.a + under.r * (1 - top.a), g: top.g * top.a + under.g * (1 - top.a),
                                 b: top.b * top.a + under.b * (1 - top.a), a: 1});
  const layers = [];
  for (let n = node; n; n = n.parentElement) {
    const style = getComputedStyle(n);
    const stroke = style.backgroundImage.match(/gradient.*?(rgba?\\([^)]*\\))/);
    if (stroke) layers.push(rgba(stroke[1]));
    const colour = rgba(style.backgroundColor);
    if (colour.a > 0) layers.push(colour);
    if (colour.a === 1) break;
  }
  let behind = {r: 255, g: 255, b: 255, a: 1};
  for (const layer of layers.reverse()) behind = over(layer, behind);
  const light = ({r, g, b}) => {
    const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    const [x, y, z] = [r / 255, g / 255, b / 255].map(linear);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const [a, b] = [light(over(rgba(getComputedStyle(node).color), behind)), light(behind)].sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05);
}"""


def done_page(replay, visit, **how):
    _, address = replay(lambda run: run.play([*TEXT, ""], 600, "eos"))
    page = visit(address, **how)
    page.click("#sp-run")
    wait_state(page, "B", "done")
    return page


def sideways(page) -> int:
    return page.evaluate("document.documentElement.scrollWidth - window.innerWidth")


@pytest.mark.parametrize("width", [390, 768, 1024, 1440])
def test_nothing_scrolls_sideways(replay, visit, width):
    _, address = replay(lambda run: run.play(TEXT, 600, "length"))
    page = visit(address, width=width, height=844)
    assert sideways(page) <= 0
    for more in page.locator(".sp-more > button:visible").all():
        more.click()
    page.wait_for_selector("text=repetition penalty")
    assert sideways(page) <= 0
    page.click("#sp-run")
    wait_state(page, "B", "done")
    assert sideways(page) <= 0
    boxes = [page.locator(f'.sp-view[data-view="{v}"]').bounding_box() for v in "AB"]
    if width >= 1024:
        assert boxes[0]["x"] + boxes[0]["width"] < boxes[1]["x"]  # side by side
        assert boxes[0]["y"] == pytest.approx(boxes[1]["y"], abs=60)  # their settings are open, and of unequal height
    elif width == 390:
        assert boxes[1] is None and boxes[0]["width"] > 350  # one at a time
        page.get_by_role("button", name="Show panel B").click()
        boxes = [page.locator(f'.sp-view[data-view="{v}"]').bounding_box() for v in "AB"]
        assert boxes[0] is None and boxes[1]["width"] > 350
        assert sideways(page) <= 0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_is_readable_on_every_tint(replay, visit, theme):
    page = done_page(replay, visit, theme=theme)
    assert page.evaluate("document.body.classList.contains('dark')") == (theme == "dark")
    low = {}
    selectors = [
        *(f'.sp-view[data-view="A"] .sp-tokens .sp-{s}' for s in ("accepted", "rejected", "corrected", "bonus")),
        '.sp-view[data-view="A"] .sp-tokens .sp-unjudged',
        *(
            f".sp-legend .sp-{s}"
            for s in ("accepted", "rejected", "corrected", "bonus", "plain", "unjudged", "pending")
        ),
        ".sp-value",
        ".sp-note",
        ".sp-label",
        ".sp-verdict",
        ".sp-status",
        ".sp-copy",
        ".sp-title-block p",
        ".sp-engine-phase",
    ]
    for selector in selectors:
        found = page.locator(selector)
        assert found.count(), selector
        ratio = min(node.evaluate(CONTRAST) for node in found.all()[:3])
        if ratio < 4.5:
            low[selector] = round(ratio, 2)
    assert low == {}


def test_the_untouched_page_is_calm(replay, visit):
    """A prompt, Run, two panels; what else there is stays folded away."""
    _, address = replay(lambda run: run.play(TEXT, 600, "length"))
    page = visit(address)
    assert page.locator(".sp-panel:visible").count() == 2
    assert "class Basket" in page.locator(".sp-prompt textarea").input_value()
    assert not page.get_by_label("repetition penalty").first.is_visible()
    assert not page.locator(".sp-slim").first.is_visible()
    assert page.locator("#sp-stop").is_disabled()
    assert page.locator(".sp-example").count() == 6
    page.get_by_role("button", name="Prose").click()
    assert "lighthouse" in page.locator(".sp-prompt textarea").input_value()


def test_a_panels_choices_follow_its_proposer(replay, visit):
    _, address = replay(lambda run: run.play(TEXT[:30], 600, "length"))
    page = visit(address)
    panel = page.locator(".sp-panel").first
    panel.get_by_label("who proposes").click()
    page.get_by_role("option", name="draft model").click()
    draft = panel.get_by_label("draft model: a name")
    draft.wait_for(state="visible")
    assert "smollm2-135m-instruct-draft (trained for this target)" in draft.input_value()
    panel.locator(".sp-more > button").click()
    assert not panel.get_by_label("longest match").is_visible()
    page.click("#sp-run")
    wait_state(page, "A", "done")
    said = "draft smollm2-135m-instruct-draft · k = 8 · greedy"
    assert panel.locator(".sp-chip").inner_text() == said
    assert page.locator('.sp-view[data-view="A"] .sp-title').text_content() == said


@pytest.mark.parametrize("width", [390, 1440])
def test_run_brings_the_results_into_sight_where_they_are_below(replay, visit, width):
    _, address = replay(lambda run: run.play(TEXT, 600, "length"))
    page = visit(address, width=width, height=844)
    page.click("#sp-run")
    wait_state(page, "A", "done")
    top = page.locator(".sp-key").bounding_box()["y"]
    assert (-1 <= top < 120) if width == 390 else page.evaluate("window.scrollY") == 0
    wait_state(page, "B", "done")


def test_a_long_name_ends_before_the_arrow_of_its_field(replay, visit):
    _, address = replay(lambda run: run.play(TEXT[:30], 600, "length"))
    page = visit(address, width=390, height=844)
    panel = page.locator(".sp-panel").first
    panel.get_by_label("who proposes").click()
    page.get_by_role("option", name="draft model").click()
    draft = panel.get_by_label("draft model: a name")
    draft.wait_for(state="visible")
    end, arrow = draft.evaluate(
        """(n) => [n.getBoundingClientRect().right - parseFloat(getComputedStyle(n).paddingRight),
                   n.parentElement.querySelector("svg").getBoundingClientRect().left]"""
    )
    assert end <= arrow
    assert draft.evaluate("(n) => getComputedStyle(n).textOverflow") == "ellipsis"


def test_an_empty_prompt_says_so(replay, visit):
    _, address = replay(lambda run: run.play(TEXT[:30], 600, "length"))
    page = visit(address)
    page.locator(".sp-prompt textarea").fill("")
    assert "Empty: the model gets an empty message" in page.locator(".sp-prompt textarea").get_attribute("placeholder")
    page.click("#sp-run")
    wait_state(page, "B", "done")


def test_a_value_that_makes_no_sense_is_a_sentence_in_its_panel(replay, visit):
    _, address = replay(lambda run: run.play(TEXT[:30], 600, "length"))
    page = visit(address)
    panel = page.locator(".sp-panel").nth(1)
    panel.locator(".sp-more > button").click()
    panel.get_by_label("layers to skip").fill("9-4")
    page.click("#sp-run")
    wait_state(page, "B", "error")
    assert "Layers to skip are numbers" in page.locator('.sp-view[data-view="B"] .sp-status').inner_text()
    wait_state(page, "A", "done")
    panel.get_by_label("layers to skip").fill("4-9")
    page.locator("#sp-run:enabled").click()
    wait_state(page, "B", "done")


def test_numbers_of_a_bad_and_of_a_short_run(replay, visit):
    """M4 and M2 on the screen."""

    def script(run):
        if run.settings.proposer == "ngram":
            run.play(TEXT[:40], 600, "length", accepted=(0,), pace=0.05)
        else:
            run.play(TEXT[:40] if run.settings.proposer == "none" else TEXT[:3], 600, "length", pace=0.02)

    _, address = replay(script)
    page = visit(address)
    page.click("#sp-run")
    wait_state(page, "B", "done")
    a, b = (page.locator(f'.sp-view[data-view="{v}"]') for v in "AB")
    assert a.locator('[data-tile="speedup"] .sp-value').inner_text() == "0.40×"
    assert a.locator('[data-tile="rate"] .sp-value').inner_text() == "20.0"
    assert a.locator('[data-tile="pass"] .sp-value').inner_text() == "1.00"
    assert a.locator('[data-tile="acceptance"] .sp-value').inner_text() == "0 %"
    assert a.locator(".sp-verdict").inner_text().startswith("Slower than plain decoding")
    assert b.locator('[data-tile="speedup"] .sp-value').inner_text() == "too short to measure"
    assert tokens_of(page, "B").inner_text().count("word") >= 2


@pytest.mark.model
def test_a_model_that_cannot_be_had_is_a_visible_sentence(visit):
    """E16, with the engine itself."""
    engine = Engine()
    try:
        with served(engine, target="no-such-model") as address:
            page = visit(address)
            page.wait_for_selector('.sp-engine[data-phase="error"]', timeout=60_000)
            assert "There is no model 'no-such-model'" in page.locator(".sp-engine-message").inner_text()
            page.click("#sp-run")
            for view in ("A", "baseline 1", "B"):
                assert wait_state(page, view, "error") == "error"
            assert "no-such-model" in page.locator('.sp-view[data-view="baseline 1"] .sp-status').inner_text()
            page.locator("#sp-run:enabled").wait_for()
            page.watched.leave()  # what ends first is the server
    finally:
        engine.close()


def test_a_lost_connection_is_seen_at_the_top(visit):
    from replay import ReplayEngine

    engine = ReplayEngine(lambda run: run.play(TEXT, 600, "length"))
    with served(engine) as address:
        page = visit(address)
        page.wait_for_selector('.sp-engine[data-phase="ready"]')
        green = page.locator(".sp-engine-dot").evaluate("(n) => getComputedStyle(n).backgroundColor")
        page.wait_for_timeout(5500)  # it asks, and is answered
        assert page.locator(".sp-engine").get_attribute("data-phase") == "ready"
        page.watched.leave()
    page.wait_for_selector('.sp-engine[data-phase="lost"]', timeout=15_000)
    assert "connection lost" in page.locator(".sp-engine-phase").inner_text()
    assert "reload this page" in page.locator(".sp-engine-message").inner_text()
    assert page.locator(".sp-engine-dot").evaluate("(n) => getComputedStyle(n).backgroundColor") != green


@pytest.mark.clock
def test_a_page_at_rest_is_at_rest(replay, visit):
    """Nothing asks for frames while nothing happens: the machine's cores are the engine's (see assets/calm.js)."""
    _, address = replay(lambda run: run.play(TEXT, 600, "length"))
    page = visit(
        address,
        init="""
        window.asked = 0;
        const raf = window.requestAnimationFrame.bind(window);
        window.requestAnimationFrame = (callback) => { window.asked += 1; return raf(callback); };
    """,
    )
    page.wait_for_timeout(5000)  # what a page does when it opens
    page.evaluate("window.asked = 0")
    page.wait_for_timeout(2000)
    assert page.evaluate("window.asked") < 20
    page.click("#sp-run")
    wait_state(page, "B", "done")
    page.wait_for_timeout(1000)
    page.evaluate("window.asked = 0")
    page.wait_for_timeout(2000)
    assert page.evaluate("window.asked") < 20
