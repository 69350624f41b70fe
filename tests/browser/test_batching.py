"""The tab "Batching" in a browser, over the engine itself and a model that is a table."""

from __future__ import annotations

from contextlib import contextmanager

import gradio as gr
import pytest
from test_batch import TableDecoder, TableModels

from app.batching_tab import build_batching_tab
from app.page import launch_options
from engines.service import Engine

T = "smollm2-135m-instruct"


@contextmanager
def tab_over(models):
    """A page with this tab alone, on the scripts and styles of the whole page."""
    engine = Engine(models)
    with gr.Blocks(analytics_enabled=False) as demo, gr.Tab("Batching"):
        build_batching_tab(engine, T)
    _, address, _ = demo.launch(server_name="127.0.0.1", prevent_thread_lock=True, **launch_options(engine, T))
    try:
        yield address
    finally:
        demo.close()
        engine.close()


@pytest.fixture
def look(browser):
    """look(models, width) -> a page of that tab, once its calculation is drawn; no error may be logged."""
    faults, open_things = [], []

    def at(models, width=390):
        serving = tab_over(models)
        address = serving.__enter__()
        page = browser.new_page(viewport={"width": width, "height": 900})
        open_things.append((serving, page))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        ours = (address, "data:", "blob:")
        page.on("request", lambda r: None if r.url.startswith(ours) else faults.append(r.url))
        page.goto(address)
        page.wait_for_selector(".sp-batch-calculated[data-drawn]")
        return page

    yield at
    for serving, page in open_things:
        page.close()
        serving.__exit__(None, None, None)
    assert faults == []


def wait_state(page, state, part="measured"):
    page.wait_for_selector(f'.sp-batch-{part}[data-state="{state}"]', timeout=60_000)


def ask(page, prompts, largest="4"):
    page.get_by_role("button", name="Prompts").click()
    page.get_by_label("Prompts:").fill(prompts)
    page.get_by_label("largest batch").click()
    page.get_by_role("option", name=largest, exact=True).click()
    page.click("#sp-batch-run")


def test_a_phone_sees_what_was_measured_and_what_was_calculated(look):
    page = look(TableModels())
    assert "press Run" in page.locator(".sp-batch-measured .sp-batch-status").evaluate(
        "node => getComputedStyle(node, '::after').content"
    )
    ask(page, "ab\n\nabcabc\n\nh")
    wait_state(page, "done")
    page.wait_for_selector('.sp-batch-measured[data-drawn="3"]')
    assert page.locator(".sp-batch-measured .sp-batch-status").inner_text() == "Measured: 3 batch sizes."
    assert "plain decoding's tokens/s" in page.locator(".sp-batch-measured .sp-batch-said").inner_text()
    assert "identical" in page.locator(".sp-batch-note").first.inner_text()
    rows = page.locator(".sp-batch tbody tr")
    assert [rows.nth(i).locator("th").inner_text() for i in range(3)] == ["1", "2", "4"]
    assert rows.nth(0).locator('td[data-head="speed-up"]').inner_text().count("×") == 1
    titles = page.locator(".sp-batch h3").all_inner_texts()
    assert len(titles) == 5
    assert all(t.endswith(", measured") for t in titles[:3]) and all(t.endswith(", calculated") for t in titles[3:])
    assert page.locator(".sp-figure-plot .main-svg").count() >= 5
    for plot in page.locator(".sp-figure-plot").all():
        box = plot.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 390 and box["height"] >= 300
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    # The acceptance that was measured is what is calculated with from now on.
    page.wait_for_function("() => document.querySelector('input[aria-label*=\"acceptance rate\"]').value !== '0.7'")
    page.locator("#sp-batch-run:enabled").wait_for()


def test_the_calculation_follows_its_fields(look):
    page = look(TableModels(), width=1200)
    said = page.locator(".sp-batch-calculated .sp-batch-status")
    before = said.inner_text()
    assert before.startswith("Calculated, not measured: Llama-3.1-8B on NVIDIA H100 SXM")
    page.get_by_label("GPU", exact=True).click()
    page.get_by_role("option", name="NVIDIA L4", exact=True).click()
    page.wait_for_function(
        "() => document.querySelector('.sp-batch-calculated .sp-batch-status').innerText.includes('NVIDIA L4')"
    )
    assert page.get_by_label("memory (GB/s)").input_value() == "300"
    page.get_by_label("memory (GB/s)").fill("0")
    wait_state(page, "error", "calculated")
    assert "memory bandwidth" in said.inner_text()
    page.get_by_label("memory (GB/s)").fill("500")
    wait_state(page, "done", "calculated")
    assert "this GPU" in said.inner_text() and "as typed in" in page.locator(".sp-batch-calculated").inner_text()


def test_stop_keeps_what_is_there_and_a_wrong_field_is_a_sentence(look):
    page = look(TableModels(TableDecoder(delay=0.05), pass_seconds=0.05), width=800)
    ask(page, "ab\n\nabcabc\n\nh")
    page.wait_for_selector(".sp-batch tbody tr:nth-child(1)")
    page.wait_for_function(
        "() => document.querySelector('.sp-batch-measured .sp-batch-status').innerText.includes('s to go')"
    )
    page.click("#sp-batch-stop")
    wait_state(page, "stopped")
    assert page.locator(".sp-batch tbody tr").count() >= 1
    page.locator("#sp-batch-run:enabled").wait_for()
    page.get_by_label("time limit (s)").fill("")
    page.click("#sp-batch-run")
    wait_state(page, "error")
    assert "time limit" in page.locator(".sp-batch-measured .sp-batch-status").inner_text()
