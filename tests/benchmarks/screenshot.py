"""Takes the pictures of the page's main states: `python -m tests.benchmarks.screenshot [FOLDER] [NAME ...]`.

Real model, real runs, real browser. Without a folder they go where the README has its own from, and only those.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

TARGET = "smollm2-135m-instruct"
README = ("page", "card", "lesson", "tuner", "batching")
MINUTES = 60_000  # one, in milliseconds


def run_to_its_end(tab: Any) -> None:
    tab.click("#sp-run")
    tab.wait_for_selector("#sp-run[disabled]", timeout=MINUTES)
    tab.wait_for_selector("#sp-run:not([disabled])", timeout=5 * MINUTES)
    tab.wait_for_timeout(500)


def card(tab: Any) -> None:
    """The first rejected token's card, with what stood in its place."""
    run_to_its_end(tab)
    token = tab.locator('.sp-view[data-view="B"] .sp-rejected').nth(1)
    token.scroll_into_view_if_needed()
    token.click()
    tab.wait_for_timeout(400)


def race(tab: Any) -> None:
    tab.evaluate("localStorage.setItem('specplay-race', 'on')")
    tab.reload()
    tab.wait_for_selector("#sp-run:not([disabled])", timeout=2 * MINUTES)
    run_to_its_end(tab)  # it begins by itself
    tab.wait_for_timeout(1500)
    tab.click(".sp-play")
    tab.wait_for_timeout(300)


def plots(tab: Any) -> None:
    run_to_its_end(tab)
    tab.locator(".sp-plots summary").first.click()
    tab.wait_for_selector(".sp-plots .main-svg", timeout=MINUTES)
    tab.wait_for_timeout(1500)


def lesson(tab: Any) -> None:
    tab.evaluate("SpecPlay.openLesson('formula')")
    tab.wait_for_timeout(2000)


def measured(name: str, start: str, view: str) -> Callable[[Any], None]:
    """The tab `name`, after what its button begins has come to its end."""

    def act(tab: Any) -> None:
        tab.get_by_role("tab", name=name).click()
        tab.click(start)
        tab.wait_for_selector(f'{view}[data-state="done"]', timeout=8 * MINUTES)
        tab.wait_for_timeout(1000)

    return act


sweep = measured("Sweep", "#sp-sweep-start", ".sp-sweep")
tuner = measured("Tuner", "#sp-tuner-start", ".sp-tuner")
batching = measured("Batching", "#sp-batch-run", ".sp-batch-measured")


# name -> what is done on the page, its width and theme, and whether all of the page is on it.
SHOTS = {
    "page": (run_to_its_end, 1440, "light", True),
    "page-dark": (run_to_its_end, 1440, "dark", True),
    "page-narrow": (run_to_its_end, 390, "light", True),
    "card": (card, 1440, "light", False),
    "card-dark": (card, 1440, "dark", False),
    "race": (race, 1440, "light", False),
    "plots": (plots, 1440, "light", True),
    "lesson": (lesson, 1440, "light", False),
    "lesson-narrow": (lesson, 390, "dark", True),
    "sweep": (sweep, 1440, "light", True),
    "tuner": (tuner, 1440, "light", True),
    "batching": (batching, 1440, "light", True),
    "batching-narrow": (batching, 390, "dark", True),
}


def main(folder: Path, names: list[str]) -> None:
    from playwright.sync_api import sync_playwright

    from app.page import build_page, launch_options
    from engines.service import Engine

    folder.mkdir(parents=True, exist_ok=True)
    engine = Engine()
    page = build_page(engine, TARGET)
    _, address, _ = page.launch(prevent_thread_lock=True, **launch_options(engine, TARGET))
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for name in names:
            act, width, theme, whole = SHOTS[name]
            tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=theme)
            # Without a race, a picture is of the end.
            tab.add_init_script("localStorage['specplay-race'] ??= 'off'")
            tab.goto(f"{address}?__theme={theme}")
            tab.wait_for_selector("#sp-run:not([disabled])", timeout=2 * MINUTES)
            tab.wait_for_selector('.sp-engine[data-phase="ready"]', timeout=5 * MINUTES)
            act(tab)
            tab.screenshot(path=folder / f"{name}.png", full_page=whole)
            print(folder / f"{name}.png", flush=True)
            tab.close()
        browser.close()
    page.close()
    engine.close()


if __name__ == "__main__":
    given = sys.argv[1:]
    if unknown := [name for name in given[1:] if name not in SHOTS]:
        sys.exit(f"There is no picture called {unknown[0]}: choose among {', '.join(SHOTS)}.")
    if given:
        main(Path(given[0]), given[1:] or list(SHOTS))
    else:
        main(ROOT / "assets" / "screenshots", list(README))
