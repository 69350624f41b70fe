"""The product as a person meets it: app.py, the real default model, the untouched page."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time

import pytest
from conftest import ROOT
from looking import kept_text, tokens_of, wait_state

pytestmark = [pytest.mark.model, pytest.mark.clock]

# From now on, which states the tokens of each view have ever been drawn in.
WATCH_STATES = """() => {
  window.seen = {};
  for (const view of document.querySelectorAll(".sp-view")) {
    const seen = window.seen[view.dataset.view] = new Set();
    new MutationObserver(() => {
      for (const node of view.querySelectorAll("[data-token]")) seen.add(node.spToken.state);
    }).observe(view, {childList: true, subtree: true});
  }
}"""


def seen(page, view):
    return set(page.evaluate("(v) => [...window.seen[v]]", view))


def number(page, view, tile):
    text = page.locator(f'.sp-view[data-view="{view}"] [data-tile="{tile}"] .sp-value').inner_text()
    return float(re.sub(r"[^\d.]", "", text))


@pytest.fixture
def ready(product, visit):
    page = visit(product)
    page.wait_for_selector('.sp-engine[data-phase="ready"]', timeout=300_000)
    return page


def test_run_on_the_untouched_page_teaches(ready):
    page = ready
    page.evaluate(WATCH_STATES)
    page.click("#sp-run")
    for view in ("baseline 1", "A", "B"):
        assert wait_state(page, view, "done", "error", timeout=240) == "done"
    assert seen(page, "A") >= {"pending", "accepted", "rejected", "corrected", "bonus", "unjudged"}
    assert seen(page, "B") >= {"pending", "accepted", "rejected", "corrected"}
    assert seen(page, "baseline 1") <= {"pending", "plain"}
    # Greedy: one text, whoever proposes; and looking things up in the prompt pays when the prompt is to be quoted.
    page.locator('.sp-view[data-view="baseline 1"] summary.sp-head').click()
    text = kept_text(page, "A")
    assert "class Cart" in text
    for view in ("A", "B"):
        sentence = page.locator(f'.sp-view[data-view="{view}"] .sp-verdict').inner_text()
        if "identical to plain decoding" in sentence:
            assert kept_text(page, view) == kept_text(page, "baseline 1")
        else:
            assert "near-tie" in sentence
    assert number(page, "A", "speedup") > 1.2
    assert number(page, "A", "pass") > 2
    assert 0 < number(page, "B", "acceptance") < 100
    assert "faster" in page.locator('.sp-view[data-view="A"] .sp-verdict').inner_text().lower()


def test_the_first_tokens_come_soon(ready):
    """Within 3 s of pressing Run; the first coloured one within 3 s of the end of the baseline, which goes first."""
    page, took = ready, []
    for _ in range(3):  # the best of three, others use this machine, too
        page.evaluate(
            """() => {
              Object.assign(window, {first: null, coloured: null, plain: null});
              const look = new MutationObserver(() => {
                const now = performance.now();
                const judged = ":is(.sp-accepted, .sp-rejected, .sp-corrected, .sp-bonus)";
                if (document.querySelector(".sp-tokens .sp-t")) window.first ??= now;
                if (document.querySelector('.sp-view[data-view="baseline 1"][data-state="done"]')) window.plain ??= now;
                if (!document.querySelector(`.sp-tokens ${judged}`)) return;
                window.coloured = now;
                look.disconnect();
              });
              document.querySelector("#sp-run").addEventListener("click", () => {
                for (const view of document.querySelectorAll(".sp-tokens")) view.replaceChildren();  // of before
                for (const view of document.querySelectorAll(".sp-view")) view.dataset.state = "idle";
                window.pressed = performance.now();
                look.observe(document.body, {childList: true, subtree: true, attributes: true});
              }, {once: true, capture: true});
            }"""
        )
        page.locator("#sp-run:enabled").click()
        page.wait_for_function("window.coloured !== null")
        took.append(page.evaluate("[first - pressed, coloured - plain, coloured - pressed].map((ms) => ms / 1000)"))
        wait_state(page, "B", "done", "error")
        page.locator("#sp-run:enabled").wait_for()
        if took[-1][0] <= 3 and took[-1][1] <= 3:
            print("first token, first coloured after the baseline, after pressing Run:", took[-1])
            return
    raise AssertionError(f"first token, coloured after the baseline's end: {took} s")


def test_stop_and_run_again(ready):
    page = ready
    page.get_by_role("button", name="Prose").click()
    page.click("#sp-run")
    page.wait_for_function("""() => document.querySelectorAll('.sp-view[data-view="A"] .sp-t').length > 5""")
    page.click("#sp-stop")
    assert wait_state(page, "A", "stopped", timeout=5) == "stopped"
    assert kept_text(page, "A") != ""
    assert wait_state(page, "B", "stopped") == "stopped"
    page.get_by_label("max tokens").fill("24")
    page.locator("#sp-run:enabled").click(timeout=2000)
    for view in ("baseline 1", "A", "B"):
        assert wait_state(page, view, "done", "error", timeout=120) == "done"
    assert tokens_of(page, "A").locator(".sp-t").count() >= 24


def test_a_sampled_run(ready):
    page = ready
    panel = page.locator(".sp-panel").first
    panel.get_by_label("number input for temperature").fill("0.8")
    page.get_by_label("max tokens").fill("24")
    page.click("#sp-run")
    for view in ("baseline 1", "baseline 2", "A", "B"):
        assert wait_state(page, view, "done", "error", timeout=120) == "done"
    title = page.locator('.sp-view[data-view="A"] .sp-title').inner_text()
    assert title.endswith("temperature 0.8")
    assert "text:" not in page.locator('.sp-view[data-view="A"] .sp-verdict').inner_text().lower()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_the_page_is_usable_soon(browser, model_folder):
    """Within 3 s of what importing gradio alone takes: torch and the model load behind it.

    A machine on which that import takes more than 5 s is a slow one, or a busy one, and gets time in proportion.
    """
    alone, usable = [], []
    for _ in range(4):  # the best of each: others use this machine, too
        begin = time.monotonic()
        subprocess.run([sys.executable, "-c", "import gradio"], cwd=ROOT, check=True)
        alone.append(time.monotonic() - begin)
        port = free_port()
        page = browser.new_page()
        begin = time.monotonic()
        command = [sys.executable, "app.py", "--no-browser", "--port", str(port)]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), 0.2).close()
                    break
                except OSError:
                    assert process.poll() is None
                    time.sleep(0.02)
            page.goto(f"http://127.0.0.1:{port}/")
            page.locator("#sp-run:enabled").wait_for()
            page.get_by_role("button", name="Prose").click()
            page.wait_for_function("document.querySelector('.sp-prompt textarea').value.includes('lighthouse')")
            usable.append(time.monotonic() - begin)
        finally:
            page.close()
            process.terminate()
            process.wait(20)
        if min(usable) - min(alone) <= max(3, 0.6 * min(alone)):
            return
    raise AssertionError(f"usable after {usable} s, of which importing gradio takes {alone} s")
