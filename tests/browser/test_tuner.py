"""The tab "Tuner" in Chromium: from a file to an export on the real model; the rest on a simulated machine."""

from __future__ import annotations

import csv
import io
import json
import time
from pathlib import Path

import pytest
from conftest import served
from test_looks import CONTRAST
from tuner_bench import NoModels, PageBench

from engines.service import Engine

SENTENCE = "The boats come back to the harbour with what the night has given them"
REAL = [
    {"messages": [{"role": "user", "content": f"Repeat this sentence five times: {SENTENCE}."}], "category": "copying"},
    {"turns": ["Tell me about the sea, at length.", "Go on."], "category": "chat"},
]


def tab_of(page):
    page.get_by_role("tab", name="Tuner").click()
    page.wait_for_selector(".sp-tuner", state="attached")
    return page.locator("#sp-tuner-tab")


def state_of(page, *states: str, timeout: float = 90) -> str:
    choice = ", ".join(f'.sp-tuner[data-state="{s}"]' for s in states)
    page.wait_for_selector(choice, state="attached", timeout=1000 * timeout)
    return page.locator(".sp-tuner-status").inner_text()


def only(tab, *proposers: str) -> None:
    for box in tab.get_by_role("group").filter(has_text="proposers to choose among").get_by_role("checkbox").all():
        box.uncheck()
    for name in proposers:
        tab.get_by_label(name).check()


def fill(tab, label: str, value: str) -> None:
    tab.get_by_label(label).fill(value)
    tab.get_by_label(label).blur()


def line_says(page, text: str) -> None:
    page.wait_for_function(
        "(said) => [...document.querySelectorAll('.sp-tuner-line')].some((n) => n.textContent.includes(said))", arg=text
    )


def choose(tab, name: str) -> None:
    """Gradio moves a radio's mark in its own time: `check` looks at once, and on a busy machine finds the old one."""
    tab.get_by_label(name).click()
    tab.get_by_label(name).and_(tab.page.locator(":checked")).wait_for()


def upload(page, tab, named: Path) -> None:
    choose(tab, "a file of yours")
    clear = tab.locator("#sp-tuner-file").get_by_label("Clear")
    if clear.count():
        clear.click()
    page.set_input_files("#sp-tuner-file input[type=file]", str(named))


def saved(page, name: str) -> str:
    with page.expect_download() as download:
        page.get_by_role("button", name=name).or_(page.get_by_role("link", name=name)).first.click()
    return Path(download.value.path()).read_text(encoding="utf-8")


@pytest.mark.clock
def test_from_a_file_to_an_export_on_the_real_model(product, visit, tmp_path):
    page = visit(product)
    tab = tab_of(page)
    named = tmp_path / "mine.jsonl"
    named.write_text("\n\n".join(json.dumps(row) for row in REAL) + "\n", encoding="utf-8-sig")
    upload(page, tab, named)
    line_says(page, "2 prompts of 2 kinds.")
    only(tab, "n-gram lookup")
    fill(tab, "max tokens", "24")
    fill(tab, "time budget (s", "20")
    line_says(page, "11 settings of 1 proposer to choose among, in about 20 s")
    page.click("#sp-tuner-start")
    assert "of measuring. Ended: " in state_of(page, "done")
    answer = page.locator(".sp-tuner-answer")
    assert answer.inner_text().startswith(("Turn it on: n-gram lookup (k", "Leave it off: the best"))
    page.wait_for_selector('.sp-tuner[data-drawn="5"]')
    assert page.locator(".sp-tuner .sp-scroll").first.locator("tbody th").all_inner_texts() == ["copying", "chat"]
    page.locator(".sp-tuner-export select").select_option("vLLM")
    text = page.locator(".sp-tuner textarea").input_value()
    assert text.startswith("# Written for ") and "vllm serve HuggingFaceTB/SmolLM2-135M-Instruct" in text.replace(
        "\\\n ", ""
    )
    report = json.loads(saved(page, "Everything (JSON)"))
    assert report["of"]["target"] == "smollm2-135m-instruct" and report["options"]["limit"] == 24
    rows = list(csv.DictReader(io.StringIO(saved(page, "The runs (CSV)"))))
    assert len(rows) == len(report["runs"]) >= 2 and {r["candidate"] for r in rows} > {"plain"}
    assert all(float(r["seconds"]) > 0 and int(r["tokens"]) <= 24 for r in rows)


@pytest.fixture(scope="module")
def place():
    """(engine, address): the page over a simulated machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("engines.tune.real.RealBench", PageBench)
        engine = Engine(NoModels())
        with served(engine) as address:
            yield engine, address
        engine.close()


SIMULATED = ("n-gram lookup", "token recycling", "trained head (EAGLE)")


def readable(page) -> None:
    """Nothing scrolls sideways, and texts can be told from what is behind them."""
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    texts = page.locator(".sp-tuner :is(td, th, caption, p, h3, li, button, summary, select, textarea)")
    found = texts.evaluate_all(f"(all) => all.filter((n) => n.offsetParent && n.textContent).map({CONTRAST})")
    assert len(found) > 50 and min(found) >= 4.5


def test_an_answer_is_read_used_and_carried_off(place, visit):
    page = visit(place[1], width=390, height=844, theme="dark", permissions=["clipboard-read", "clipboard-write"])
    tab = tab_of(page)
    line_says(page, "24 prompts of 8 kinds.")
    choose(tab, "a pasted list")
    rows = [{"prompt": f"ask {i}", "category": "<b>bold</b>" if i % 2 else "plain <i>"} for i in range(12)]
    tab.get_by_label("your prompts").fill("\n".join(map(json.dumps, rows)))
    line_says(page, "12 prompts of 2 kinds.")
    only(tab, *SIMULATED)
    line_says(page, "settings of 3 proposers")
    assert page.locator("#sp-tuner-stop").is_disabled()
    page.click("#sp-tuner-start")
    assert "of measuring. Ended:" in state_of(page, "done")
    page.wait_for_selector('.sp-tuner[data-drawn="5"]')
    answer = page.locator(".sp-tuner-answer")
    assert answer.get_attribute("data-answer") == "on"
    assert answer.inner_text().startswith("Turn it on: trained head (k = 2)")
    assert "The runner-up is " in answer.inner_text()
    kinds = page.locator(".sp-tuner .sp-scroll").first.locator("tbody th")
    assert sorted(kinds.all_inner_texts()) == ["<b>bold</b>", "plain <i>"]  # as text
    label = page.locator('[data-plot="tuner-speedup"] .sp-figure-plot').get_attribute("aria-label")
    assert "<b>bold</b>: " in label and "trained head (k = 2) " in label
    assert page.locator(".sp-tuner b, .sp-tuner text tspan[style*=bold]").count() == 0
    names = page.evaluate(
        "document.querySelector('[data-plot=tuner-predicted] .sp-figure-plot').data.map((t) => t.name)"
    )
    assert names == ["measured", "predicted before"]
    curves = page.evaluate(
        "document.querySelector('[data-plot=tuner-curves] .sp-figure-plot').data.map((t) => [t.name, t.x.length])"
    )
    assert curves[:2] == [["trained head", 7], ["measured", 4]], curves
    costs = page.locator('[data-plot="tuner-costs"] .sp-figure-plot').get_attribute("aria-label")
    assert "lookup at " in costs and "plain rounds for" in costs
    for title in ("All settings", "What this rests on"):
        page.locator(".sp-tuner summary", has_text=title).click()
    assert "Given up on the way" in page.locator(".sp-tuner").inner_text()
    readable(page)
    engine = page.get_by_label("engine", exact=True)
    said = {}
    for name in ("llama.cpp", "vLLM", "SGLang", "transformers", "LM Studio"):
        engine.select_option(name)
        said[name] = page.get_by_label(f"Settings for {name}", exact=True).input_value()
        assert said[name].startswith("# Written for ") and "k carries over only as a starting point" in said[name]
    assert len(set(said.values())) == 5 and "--spec-type" in said["llama.cpp"]
    page.get_by_role("button", name="Copy the settings for LM Studio").click()
    page.get_by_text("Copied.").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == said["LM Studio"]
    assert saved(page, "The report (HTML)").startswith("<!doctype html>")
    page.get_by_role("button", name="Use it in the Playground").click()
    page.wait_for_function("document.querySelector('.sp-chip').textContent.includes('trained head')")
    page.locator("#sp-run").wait_for()
    assert "k = 2" in page.locator(".sp-chip").first.inner_text()


def test_what_is_wrong_with_a_file_is_said_beside_it(place, visit, tmp_path):
    page = visit(place[1])
    tab = tab_of(page)
    choose(tab, "a file of yours")
    line_says(page, "or text with blank lines between prompts")
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"prompt": "fine"}\n\n{"prompt": <script>}\n', encoding="utf-8")
    upload(page, tab, bad)
    line_says(page, "bad.jsonl, line 3 is not JSON")
    page.click("#sp-tuner-start")
    assert "bad.jsonl, line 3 is not JSON" in state_of(page, "error")
    page.locator("#sp-tuner-start:enabled").wait_for()
    table = tmp_path / "table.csv"
    table.write_text("number,question\n1,what?\n2,where?\n", encoding="utf-8")
    upload(page, tab, table)
    line_says(page, "2 prompts.")
    column = tab.get_by_label("column with the prompts")
    assert column.input_value() == "question"
    column.fill("answer")
    column.press("Enter")
    column.blur()
    line_says(page, "no column 'answer'; choose one of its columns: number, question.")
    fill(tab, "max tokens", "4")
    line_says(page, "max tokens must lie in 16 to 512")


def test_stop_keeps_what_is_known_and_a_closed_tab_stops_too(place, visit):
    engine, address = place
    engine._models.delay = 0.05
    try:
        page = visit(address)
        tab = tab_of(page)
        only(tab, *SIMULATED)
        line_says(page, "settings of 3 proposers")
        page.click("#sp-tuner-start")
        page.wait_for_function("document.querySelector('.sp-tuner-status').textContent.includes('runs so far')")
        assert "left." in state_of(page, "running") and page.locator(".sp-tuner progress").is_visible()
        page.click("#sp-tuner-stop")
        assert "what is known till then. Tune goes on from here." in state_of(page, "stopped")
        assert "Predicted best, not confirmed" in page.locator(".sp-tuner-answer").inner_text()
        page.wait_for_selector(".sp-tuner[data-drawn]")
        page.locator("#sp-tuner-start:enabled").click()
        state_of(page, "running")
        assert engine._current is not None
        page.close()
        until = time.monotonic() + 20
        while engine._current is not None and time.monotonic() < until:
            time.sleep(0.05)
        assert engine._current is None
    finally:
        engine._models.delay = 0
