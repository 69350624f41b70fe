"""The lessons' figures, and the picture of the same-distribution test: they compute what the engine computes."""

from __future__ import annotations

import math

import pytest
from lesson_page import CONTRAST, alone, opened

from app.lessons import LESSONS
from app.lessons_view import told
from engines.cost import expected_tokens


@pytest.fixture
def bare(browser):
    with alone(browser) as build:
        yield build


def test_the_formula_says_what_the_engine_says(bare):
    page = bare()
    opened(page, "formula")
    result = page.locator(".sp-result")
    assert result.inner_text().startswith(f"{expected_tokens(0.8, 4):.2f} tokens per pass")
    page.get_by_role("button", name="a = 0.5, k = 4").click()
    assert result.inner_text().startswith(f"{expected_tokens(0.5, 4):.2f} tokens per pass")
    sliders = page.get_by_role("slider")
    assert sliders.nth(0).input_value() == "0.5" and sliders.nth(1).input_value() == "4"
    sliders.nth(0).fill("0.8")
    speed = expected_tokens(0.8, 4) / 1.4
    assert f"{speed:.2f}× the speed" in result.inner_text()
    best = max(range(17), key=lambda k: expected_tokens(0.8, k) / (1 + 0.1 * k))
    assert f"Best here: k = {best}" in result.inner_text()
    assert f"At k = 4: {expected_tokens(0.8, 4):.2f} tokens" in page.locator("svg.sp-chart").get_attribute("aria-label")
    sliders.nth(0).fill("0.05")
    sliders.nth(2).fill("0.9")
    assert "leave it off" in result.inner_text()


def test_measured_costs_are_those_of_the_recording(bare):
    page = bare()
    opened(page, "idle")
    rows = page.locator(".sp-costs tbody tr").all_inner_texts()
    costs = told(LESSONS[0])["costs"]
    assert [row.split()[0] for row in rows] == ["1", "2", "3", "5", "9", "17"]
    for row in rows:
        tokens, together, single = row.split()
        assert together == f"{costs[str(int(tokens) - 1)]:.2f}×" and single == f"{tokens}×"


def test_a_full_batch_gains_nothing(bare):
    page = bare()
    opened(page, "batching")
    speed = [page.evaluate("(b) => SpecPlay.batched(0.8, 4, 64, b)", b) for b in (1, 8, 16, 64, 256)]
    whole = expected_tokens(0.8, 4)
    assert speed == pytest.approx([whole, whole, whole * 64 / 80, whole / 5, whole / 5])
    result = page.locator(".sp-result")
    assert result.inner_text() == "With 1 request: 3.36×. It pays."
    page.get_by_role("slider").first.fill("8")
    assert result.inner_text() == "With 256 requests: 0.67×. It costs: leave it off."


P = [0.4, 0.25, 0.2, 0.1, 0.05]


def tally(page):
    rows = page.locator(".sp-laws tbody tr").all()
    counts = [int(row.locator("td").nth(2).inner_text()) for row in rows]
    return [count / sum(counts) for count in counts], sum(counts)


@pytest.mark.parametrize("draft", ["fair", "poor", "copy"])
def test_whatever_the_draft_the_tally_comes_to_p(bare, draft):
    page = bare()
    opened(page, "same-text")
    page.locator(".sp-choice select").first.select_option(draft)
    page.evaluate("for (let i = 0; i < 40; i++) document.querySelector('.sp-many').click()")
    shares, total = tally(page)
    assert total == 40_000
    for share, p in zip(shares, P, strict=True):
        assert abs(share - p) < 4.5 * math.sqrt(p * (1 - p) / total)
    page.locator(".sp-choice select").nth(1).select_option("p")  # the wrong way
    page.evaluate("for (let i = 0; i < 40; i++) document.querySelector('.sp-many').click()")
    shares, total = tally(page)
    assert max(abs(share - p) for share, p in zip(shares, P, strict=True)) > 0.02


def test_a_draw_step_by_step(bare):
    page = bare()
    opened(page, "same-text")
    page.locator(".sp-choice select").first.select_option("poor")
    told_line, step = page.locator(".sp-residual .sp-result"), page.locator(".sp-step")
    assert "stands with chance 0.45" in told_line.inner_text()
    seen = set()
    for _ in range(12):  # draws
        step.click()
        assert "The draft draws" in told_line.inner_text()
        assert page.locator(".sp-laws [data-state=drawn]").count() == 1
        step.click()
        line = told_line.inner_text()
        if "rejected" in line:
            assert "is not below it" in line and page.locator(".sp-laws [data-state=rejected]").count() == 1
            step.click()
            assert "draws from what p has beyond q" in told_line.inner_text()
            assert page.locator(".sp-laws [data-state=corrected]").count() == 1
            seen.add("corrected")
        else:
            assert page.locator(".sp-laws [data-state=accepted]").count() == 1
            seen.add("accepted")
    assert seen == {"corrected", "accepted"} and tally(page)[1] == 12
    page.locator(".sp-again").click()
    assert page.locator(".sp-tally").inner_text() == "Nothing drawn yet."


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_motion_is_asked_for(bare, motion):
    """One draw goes through its steps by itself: at once where motion is not wanted."""
    page = bare(reduced_motion=motion)
    opened(page, "same-text")
    page.locator(".sp-one-draw").click()
    if motion == "reduce":
        assert tally(page)[1] == 1
        return
    assert "The draft draws" in page.locator(".sp-residual .sp-result").inner_text()
    page.wait_for_function("document.querySelector('.sp-tally').dataset.off !== ''", timeout=6000)
    assert tally(page)[1] == 1


LAW = {
    "state": "done",
    "done": 200,
    "of": 400,
    "place": "She <b>opened",
    "verdict": "same",
    "sentences": ["One.", "<i>Two</i>."],
    "tokens": [
        {"text": " the", "expected": 120.0, "seen": 126},
        {"text": "\n", "expected": 50.5, "seen": 44},
        {"text": "<script>alert(1)</script>", "expected": 9.5, "seen": 10},
        {"text": None, "expected": 20.0, "seen": 20},
    ],
}


@pytest.mark.parametrize("dark", [False, True])
def test_the_test_of_the_law_is_drawn(bare, dark):
    page = bare(dark=dark)
    page.evaluate("document.querySelector('main').append(Object.assign(document.createElement('div'), { id: 'law' }))")
    draw = "(data) => SpecPlay.sameLaw(document.querySelector('#law'), data)"
    law = page.locator("#law")
    page.evaluate(draw, {"state": "choosing", "done": 0, "of": 400})
    assert law.inner_text() == "Looking for a place in the text at which the model has a choice."
    page.evaluate(draw, LAW | {"state": "running", "verdict": None, "sentences": None})
    assert law.get_by_role("status").inner_text() == "200 of 400 rounds."
    page.evaluate(draw, LAW)
    assert law.get_by_role("status").inner_text() == "No difference found, after 200 of 400 rounds."
    rows = [row.split("\t") for row in law.locator("tbody tr").all_inner_texts()]
    assert [row[:3] for row in rows] == [
        ["␣the", "120.0", "126"],
        ["↵", "50.5", "44"],
        ["<script>alert(1)</script>", "9.5", "10"],
        ["all others", "20.0", "20"],
    ]
    assert (
        law.locator("section > p").all_inner_texts()[1:] == ["One.", "<i>Two</i>."]
        and law.locator("script, b, i b").count() == 0
    )
    widths = (
        law.locator("tbody tr")
        .first.locator("i")
        .evaluate_all("(bars) => bars.map((b) => b.getBoundingClientRect().width)")
    )
    assert widths[0] / widths[1] == pytest.approx(120 / 126, rel=0.02)
    assert page.evaluate(CONTRAST) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
