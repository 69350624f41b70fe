"""The lessons in a browser: stops, keys, widths and themes, alone and on the page; there without a model."""

from __future__ import annotations

import json
import time

import pytest
from lesson_page import CONTRAST, alone, opened
from looking import kept_text, wait_state

from app.lessons import LESSONS
from app.lessons_view import told
from engines.presets import PRESETS
from engines.recorded import of_lesson


@pytest.fixture
def bare(browser):
    with alone(browser) as build:
        yield build


def asked(page):
    return page.evaluate("asked.splice(0)")


def test_closed_it_is_one_button_and_asks_for_nothing(bare):
    page = bare()
    door = page.get_by_role("button", name="Lessons", exact=True)
    assert door.get_attribute("aria-expanded") == "false"
    assert page.locator(".sp-lessons-body").is_hidden() and asked(page) == []
    assert page.locator("#here").bounding_box()["height"] < 45
    door.click()
    assert door.get_attribute("aria-expanded") == "true"
    assert asked(page) == [["recorded", "idle", PRESETS["idle"].prompt, 1]]
    door.click()
    door.click()  # what was shown is still there: nothing is asked for again
    assert asked(page) == [] and page.locator(".sp-lessons-body").is_visible()


def test_each_stop_shows_its_words_its_figure_and_its_run(bare):
    page = bare()
    page.get_by_role("button", name="Lessons", exact=True).click()
    asked(page)
    for i, lesson in enumerate(LESSONS):
        if i:
            page.get_by_role("button", name="Next →").click()
        whole = told(lesson)
        assert page.locator(".sp-stop h2").inner_text() == f"{i + 1}. {lesson.title}"
        assert page.locator(".sp-lesson-text p").all_inner_texts() == whole["text"]
        assert page.locator(".sp-attempt").inner_text() == f"Try: {lesson.attempt}"
        assert page.locator(".sp-stops [aria-current=step] b").inner_text() == str(i + 1)
        assert page.locator(".sp-where").inner_text() == f"Stop {i + 1} of 10"
        assert page.locator(".sp-figure").is_visible() == bool(lesson.widget)
        if lesson.widget:
            assert page.locator(".sp-figure > *").count() >= 1
        first = next(iter(lesson.shows))
        if i:
            assert asked(page) == [["recorded", first, PRESETS[first].prompt, len(PRESETS[first].panels)]]
        for words in lesson.shows.values():
            label = f"{words}: show the recorded run" if words else "Show the recorded run"
            assert page.get_by_role("button", name=label).count() == 1
    assert page.get_by_role("button", name="Next →").is_disabled()
    page.get_by_role("button", name="← Previous").click()
    assert page.locator(".sp-where").inner_text() == "Stop 9 of 10"


def test_live_and_the_other_recording(bare):
    page = bare()
    opened(page, "code-or-prose")
    page.get_by_role("button", name="Prose: show the recorded run").click()
    assert asked(page)[1:] == [["recorded", "prose", PRESETS["prose"].prompt, 1]]
    assert page.locator(".sp-recorded[aria-pressed=true]").inner_text().startswith("Prose")
    page.get_by_role("button", name="Run it live").click()
    page.wait_for_function("asked.length === 2")
    assert asked(page) == [["preset", PRESETS["prose"].prompt, 1], ["run"]]


def test_a_run_under_way_is_left_alone(bare):
    page = bare()
    page.evaluate("document.dispatchEvent(new CustomEvent('specplay:begun'))")
    opened(page, "long-k")
    assert asked(page) == [] and page.get_by_role("button", name="Run it live").is_disabled()
    page.evaluate("document.dispatchEvent(new CustomEvent('specplay:ended'))")
    page.get_by_role("button", name="Show the recorded run").click()
    assert asked(page)[0][:2] == ["recorded", "long-k"]


def test_by_keyboard_alone(bare):
    page = bare()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    for key in ("ArrowDown", "ArrowRight", "ArrowUp", "ArrowDown"):
        page.keyboard.press(key)
    page.keyboard.press("Enter")
    assert page.locator(".sp-where").inner_text() == "Stop 3 of 10"
    page.get_by_role("slider").nth(1).focus()
    page.keyboard.press("ArrowRight")
    assert "tokens per pass" in page.locator(".sp-result").inner_text()
    page.get_by_role("button", name="Next →").focus()
    page.keyboard.press("Space")
    assert page.locator(".sp-stop h2").inner_text().startswith("4.")


@pytest.mark.parametrize("width", [390, 1024, 1440])
def test_it_fits(bare, width):
    page = bare(width=width)
    for lesson in LESSONS:
        opened(page, lesson.name)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, lesson.name
        inner = page.evaluate(
            "[...document.querySelectorAll('.sp-stop, .sp-stop *')].filter("
            "(n) => n.getBoundingClientRect().right > innerWidth + 1 && !n.closest('svg')).map((n) => n.className)"
        )
        assert inner == [], lesson.name


@pytest.mark.parametrize("dark", [False, True])
def test_all_text_has_contrast(bare, dark):
    page = bare(dark=dark)
    for lesson in LESSONS:
        opened(page, lesson.name)
        if lesson.widget == "residual":
            for _ in range(6):
                page.locator(".sp-step").click()
                page.wait_for_timeout(300)  # the row's colour fades in
                assert page.evaluate(CONTRAST) == [], lesson.name
        assert page.evaluate(CONTRAST) == [], lesson.name


def test_everything_that_is_used_has_a_name(bare):
    page = bare()
    for lesson in LESSONS:
        opened(page, lesson.name)
        nameless = page.evaluate(
            """() => {
              const named = (node) => node.textContent.trim() || node.getAttribute("aria-label");
              const used = [...document.querySelectorAll(".sp-lessons :is(button, input, select)")];
              const nameless = (node) => !named(node) && ![...(node.labels || [])].some(named);
              return used.filter(nameless).map((node) => node.outerHTML);
            }"""
        )
        assert nameless == [], lesson.name


def wait_text(page, view, text):
    """The one before it may still be there."""
    deadline = time.monotonic() + 30
    while kept_text(page, view) != text:
        assert time.monotonic() < deadline, (view, kept_text(page, view))
        page.wait_for_timeout(50)


def quick(run):
    run.play(["a"] * 20, 1000, "length")


def test_on_the_page_each_recorded_run_is_shown_without_a_model(replay, visit):
    """Panels, text and speed-up are those of the recording, and nothing was asked of the engine."""
    engine, address = replay(quick)
    page = visit(address)
    page.get_by_role("button", name="Lessons", exact=True).click()
    for i, lesson in enumerate(LESSONS):
        if i:
            page.get_by_role("button", name="Next →").click()
        name = next(iter(lesson.shows))
        runs = of_lesson(name)[-len(PRESETS[name].panels) :]
        page.wait_for_function("(n) => document.querySelector('#sp-panels').dataset.count === String(n)", arg=len(runs))
        for letter, run in zip("ABC", runs, strict=False):
            wait_text(page, letter, run[-1].text)
            assert wait_state(page, letter, "done") == "done"
        assert page.locator(".sp-prompt textarea").input_value() == PRESETS[name].prompt
    assert engine.runs == []


def test_on_the_page_run_it_live_runs_the_preset(replay, visit):
    engine, address = replay(quick)
    page = visit(address)
    for name in ("bad-draft", "same-text"):
        opened(page, name)
        for letter, run in zip("AB", of_lesson(name)[-2:], strict=True):
            wait_text(page, letter, run[-1].text)
        before = len(engine.runs)
        page.get_by_role("button", name="Run it live").click()
        page.wait_for_function("document.body.classList.contains('sp-busy')")
        page.wait_for_function("!document.body.classList.contains('sp-busy')", timeout=60_000)
        asked = [run.settings.replace(candidates=0) for run in engine.runs[before:] if run.settings.proposer != "none"]
        assert asked == [settings.replace(candidates=0) for settings in PRESETS[name].settings()]
        assert {run.prompt for run in engine.runs[before:]} == {PRESETS[name].prompt}


def test_on_the_page_ones_own_comes_back(replay, visit):
    """Prompt, settings, panels and runs that a lesson took the place of."""
    _, address = replay(quick)
    page = visit(address)
    page.locator(".sp-prompt textarea").fill("My own words.")
    page.click("#sp-run")
    assert wait_state(page, "B", "done") == "done"
    before = page.evaluate("JSON.stringify(SpecPlay.preset())")
    text = kept_text(page, "A")
    back = page.get_by_role("button", name="Back to my own")
    assert back.count() == 0
    opened(page, "long-k")
    opened(page, "quoting")
    wait_text(page, "A", of_lesson("quoting")[-2][-1].text)
    back.click()
    wait_text(page, "A", text)
    assert page.evaluate("JSON.stringify(SpecPlay.preset())") == before
    assert page.locator(".sp-lessons-body").is_hidden()
    # A prompt typed after the section was closed is one's own from then on.
    opened(page, "quoting")
    wait_text(page, "A", of_lesson("quoting")[-2][-1].text)
    door = page.get_by_role("button", name="Lessons", exact=True)
    door.click()
    page.locator(".sp-prompt textarea").fill("Newer words.")
    page.wait_for_function("SpecPlay.preset().prompt === 'Newer words.'")
    door.click()
    page.get_by_role("button", name="← Previous").click()
    back.click()
    page.wait_for_function("SpecPlay.preset().prompt === 'Newer words.'")


@pytest.mark.parametrize("width", [390, 1024])
def test_on_the_page_it_fits(replay, visit, width):
    _, address = replay(quick)
    page = visit(address, width=width, height=844)
    for name in ("idle", "long-k", "same-text"):  # one panel, three, and a wide figure
        opened(page, name)
        wait_text(page, "A", of_lesson(name)[-len(PRESETS[name].panels)][-1].text)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name


@pytest.mark.model
@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
def test_each_lesson_runs_live_on_the_real_model(product, visit, lesson):
    """All of its presets, shortened on the way to the program so that this ends soon."""
    page = visit(product)

    def shorten(route):
        route.continue_(post_data=json.dumps({**route.request.post_data_json, "max_tokens": 12}))

    page.route("**/specplay/run", shorten)
    page.wait_for_selector('.sp-engine[data-phase="ready"]', timeout=300_000)
    opened(page, lesson.name)
    for i, (name, words) in enumerate(lesson.shows.items()):
        if i:
            page.get_by_role("button", name=f"{words}: show the recorded run").click()
        wait_text(page, "A", of_lesson(name)[-len(PRESETS[name].panels)][-1].text)
        page.get_by_role("button", name="Run it live").click()
        page.wait_for_function("document.body.classList.contains('sp-busy')")
        for view in ("baseline 1", *"ABCD"[: len(PRESETS[name].panels)]):
            assert wait_state(page, view, "done", "error", timeout=240) == "done"
            assert kept_text(page, view)


@pytest.mark.model
def test_a_lesson_live_on_the_real_model(product, visit):
    """The recorded run first, then its own: the same proposals pay, on the same text."""
    page = visit(product)
    page.wait_for_selector('.sp-engine[data-phase="ready"]', timeout=300_000)
    opened(page, "quoting")
    text = of_lesson("quoting")[-2][-1].text
    wait_text(page, "A", text)
    page.get_by_role("button", name="Run it live").click()
    page.wait_for_function("document.body.classList.contains('sp-busy')")
    for view in ("baseline 1", "A", "B"):
        assert wait_state(page, view, "done", "error", timeout=240) == "done"
    assert kept_text(page, "A")[:40] == text[:40]
    per_pass = [
        float(page.locator(f'.sp-view[data-view="{view}"] [data-tile="pass"] .sp-value').inner_text()) for view in "AB"
    ]
    assert per_pass[0] > 2 * per_pass[1]
