"""Tokens per second with the page open in a real browser and streaming, against the command line.

Server, browser and this script are three processes, and the script sleeps while a run goes on: what it would do
meanwhile the engine would have to do without.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
PROMPT = "Write the numbers from one to forty as English words, one on each line, and then once more."
TOKENS = 200
RATE = '.sp-panels [data-tile="rate"] .sp-value'


def page_against_command_line(repeats: int) -> tuple[float, str]:
    """Median of paired ratios: one prompt, n-gram lookup with k=8 as the page's panel A has it untouched."""
    from playwright.sync_api import sync_playwright

    def command_line() -> float:
        args = ["run", "--prompt", PROMPT, "--proposer", "ngram", "--k", "8", "--max-new-tokens", str(TOKENS), "--json"]
        done = subprocess.run(
            [sys.executable, "-m", "engines", *args], cwd=ROOT, capture_output=True, text=True, check=True
        )
        return json.loads(done.stdout)["tokens_per_second"]

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "app.py", "--no-browser", "--port", str(port)], cwd=ROOT, stdout=subprocess.DEVNULL
    )
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        with sync_playwright() as play:
            browser = play.chromium.launch(executable_path=chromium, args=FLAGS)
            tab = browser.new_page(viewport={"width": 1440, "height": 1000})
            # No race after the run: it would take its time from the command line's turn.
            tab.add_init_script("localStorage.setItem('specplay-race', 'off')")
            _open(tab, f"http://127.0.0.1:{port}")

            def on_the_page() -> float:
                tab.click("#sp-run")
                time.sleep(2)
                while tab.locator("#sp-run").is_disabled():
                    time.sleep(2)
                return float(tab.locator(RATE).first.inner_text())

            on_the_page()
            ratios = [on_the_page() / command_line() for _ in range(repeats)]
            browser.close()
    finally:
        server.terminate()
        server.wait(30)
    return statistics.median(ratios), f"{min(ratios):.2f} to {max(ratios):.2f} over {repeats} pairs, n-gram k=8"


def _open(tab, address: str) -> None:
    """Wait for the server and the model, and fill in the form."""
    for _ in range(120):
        try:
            tab.goto(address)
            break
        except Exception:  # noqa: BLE001 - not listening yet
            time.sleep(0.5)
    tab.fill(".sp-prompt textarea", PROMPT)
    tab.get_by_label("max tokens").fill(str(TOKENS))
    tab.get_by_text("ready", exact=True).wait_for(timeout=120_000)
