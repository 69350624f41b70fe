"""Tokens per second with the page open in a real browser and streaming, against the command line."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]


def page_against_command_line(repeats: int) -> tuple[float, str]:
    """Median of paired ratios: the same prompt and settings, n-gram k=8 and the page's own panel A."""
    from playwright.sync_api import sync_playwright

    from app.examples import EXAMPLES
    from app.page import build_page, launch_options
    from engines.fold import fold
    from engines.service import Engine

    class Recording(Engine):
        runs: list = []

        def submit(self, settings, prompt):
            run = super().submit(settings, prompt)
            self.runs.append(run)
            return run

    def command_line() -> float:
        args = [
            sys.executable,
            "-m",
            "engines",
            "run",
            "--prompt",
            EXAMPLES[0][1],
            "--proposer",
            "ngram",
            "--k",
            "8",
            "--json",
        ]
        done = subprocess.run(args, cwd=ROOT, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)["tokens_per_second"]

    engine = Recording()
    page = build_page(engine, "smollm2-135m-instruct")
    _, address, _ = page.launch(prevent_thread_lock=True, **launch_options())
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=FLAGS)
        tab = browser.new_page(viewport={"width": 1440, "height": 1000})
        tab.goto(address)

        def on_the_page() -> float:
            before = len(engine.runs)
            tab.wait_for_selector("#sp-run:not([disabled])", timeout=120_000)
            tab.click("#sp-run")
            while len(engine.runs) < before + 2:
                tab.wait_for_timeout(50)
            run = engine.runs[before + 1]  # the first one is the baseline
            while not run.over:
                tab.wait_for_timeout(50)
            assert run.settings.proposer == "ngram"
            tab.wait_for_selector("#sp-run:not([disabled])", timeout=120_000)  # the last panel, too
            return fold(run.events).metrics().tokens_per_second

        on_the_page()
        ratios = [on_the_page() / command_line() for _ in range(repeats)]
        browser.close()
    page.close()
    engine.close()
    return statistics.median(ratios), f"{min(ratios):.2f} to {max(ratios):.2f} over {repeats} pairs, n-gram k=8"
