"""Four panels at 200 tokens a second for 1 200 tokens: `python -m tests.benchmarks.four_panels`.

Prints how far the browser is behind the engine in the end, and how busy its main thread was meanwhile. The runs are
hand-made (tests/replay.py) and come all at once, as no engine on one device would make them.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "browser"), str(ROOT / "tests"), str(ROOT)]

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]


def main(repeats: int = 3) -> None:
    from conftest import served
    from playwright.sync_api import sync_playwright
    from replay import ReplayEngine
    from test_screen_runs import WATCH_ENDS, AllAtOnce, _wall

    import app.routes

    app.routes.PageRun = AllAtOnce
    engine = ReplayEngine(None)
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    with served(engine) as address, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=FLAGS)
        tab = browser.new_page(viewport={"width": 1440, "height": 2200})
        tab.add_init_script("localStorage.setItem('specplay-race', 'off')")
        tab.goto(address)
        tab.wait_for_selector('.sp-view[data-view="D"] .sp-tokens', state="attached")
        for _ in "CD":
            tab.click("#sp-add")
        client = tab.context.new_cdp_session(tab)
        client.send("Performance.enable")

        def busy() -> float:
            return {m["name"]: m["value"] for m in client.send("Performance.getMetrics")["metrics"]}["TaskDuration"]

        for _ in range(repeats):
            tab.evaluate(WATCH_ENDS)
            before, begin = busy(), time.monotonic()
            tab.locator("#sp-run:enabled").click()
            tab.wait_for_function("Object.keys(window.ends).length === 4", timeout=120_000)
            took, spent = time.monotonic() - begin, busy() - before
            behind = max(tab.evaluate("Object.values(window.ends)")) - max(_wall(r.ended_at) for r in engine.fed)
            print(f"behind the engine: {behind:.2f} s, at most 0.5 wanted", end="; ")
            print(f"main thread busy: {spent / took:.0%}, less than 40 % wanted", flush=True)
        browser.close()


if __name__ == "__main__":
    main()
