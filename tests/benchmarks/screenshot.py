"""Takes the README's picture: `python -m tests.benchmarks.screenshot [FOLDER]`. Real model, real run, real browser."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

SHOTS = (("page", 1440, "light"), ("page-dark", 1440, "dark"), ("page-narrow", 390, "light"))


def main(folder: Path) -> None:
    from playwright.sync_api import sync_playwright

    from app.page import build_page, launch_options
    from engines.service import Engine

    folder.mkdir(parents=True, exist_ok=True)
    engine = Engine()
    page = build_page(engine, "smollm2-135m-instruct")
    _, address, _ = page.launch(prevent_thread_lock=True, **launch_options(engine, "smollm2-135m-instruct"))
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for name, width, theme in SHOTS:
            tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=theme)
            tab.add_init_script("localStorage.setItem('specplay-race', 'off')")  # the picture is of the end
            tab.goto(f"{address}?__theme={theme}")
            tab.wait_for_selector("#sp-run:not([disabled])", timeout=120_000)
            tab.click("#sp-run")
            tab.wait_for_selector("#sp-run[disabled]", timeout=20_000)
            tab.wait_for_selector("#sp-run:not([disabled])", timeout=300_000)
            tab.wait_for_timeout(500)
            tab.screenshot(path=folder / f"{name}.png", full_page=True)
            tab.close()
        browser.close()
    page.close()
    engine.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "assets" / "screenshots")
