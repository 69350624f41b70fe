"""A real Chromium, a page that is watched for errors and for requests to elsewhere, and the servers that it visits."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def chromium_path() -> str | None:
    """$CHROMIUM, what the system has, or what Playwright itself has installed (None when there is none)."""
    named = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    return named


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import Error, sync_playwright

    with sync_playwright() as playwright:
        try:
            instance = playwright.chromium.launch(executable_path=chromium_path(), args=FLAGS)
        except Error as error:
            if os.environ.get("CI"):
                raise
            pytest.skip(f"no Chromium: install it, or name it in $CHROMIUM ({str(error).splitlines()[0]})")
        yield instance
        instance.close()


class Watched:
    """A page, and what went wrong on it."""

    def __init__(self, page, address: str) -> None:
        self.page, self.address = page, address
        self.faults: list[str] = []
        self.left = False
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("request", self._request)
        page.on("dialog", lambda dialog: (self.faults.append(f"dialog: {dialog.message}"), dialog.dismiss()))

    def leave(self) -> None:
        self.left = True

    def _console(self, message) -> None:
        if message.type == "error" and not self.left:
            self.faults.append(f"console: {message.text}")

    def _request(self, request) -> None:
        if not request.url.startswith((self.address, "data:", "blob:")):
            self.faults.append(f"request to {request.url}")


@pytest.fixture
def visit(browser):
    """visit(address, width=, height=, theme=, race=) opens the page in a browser profile of its own; at the end of the
    test no page may have had an error or have asked another host for anything. `race`: a race follows each Run."""
    contexts, watched = [], []

    def open_page(address, width=1440, height=1000, theme="light", init=None, race=False, fragment="", **more):
        context = browser.new_context(viewport={"width": width, "height": height}, **more)
        contexts.append(context)
        page = context.new_page()
        if not race:
            page.add_init_script("try { localStorage.setItem('specplay-race', 'off'); } catch (error) {}")
        if init:
            page.add_init_script(init)
        page.watched = Watched(page, address)
        watched.append(page.watched)
        page.goto(f"{address}/?__theme={theme}{fragment}")
        page.wait_for_selector("#sp-run")
        page.wait_for_selector('.sp-view[data-view="D"] .sp-tokens', state="attached")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [w.faults for w in watched if w.faults] == []


@contextmanager
def served(engine, target="smollm2-135m-instruct"):
    """The product's page over `engine`, on a port of its own."""
    from app.page import build_page, launch_options

    demo = build_page(engine, target)
    _, address, _ = demo.launch(server_name="127.0.0.1", prevent_thread_lock=True, **launch_options(engine, target))
    try:
        yield address.rstrip("/")
    finally:
        demo.close()


@pytest.fixture
def replay():
    """replay(script) -> (engine, address): the page over hand-made runs; see tests/replay.py."""
    from contextlib import ExitStack

    from replay import ReplayEngine

    with ExitStack() as stack:

        def serve(script):
            engine = ReplayEngine(script)
            return engine, stack.enter_context(served(engine))

        yield serve


@pytest.fixture(scope="session")
def product(model_folder):
    """app.py itself, as a person starts it, with the real default model: its address."""
    command = [sys.executable, str(ROOT / "app.py"), "--no-browser", "--port", "7960"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said: list[str] = []
    threading.Thread(target=lambda: said.extend(iter(process.stdout.readline, "")), daemon=True).start()
    address, deadline = None, time.monotonic() + 120
    while address is None and time.monotonic() < deadline and process.poll() is None:
        address = next((m[0] for line in said if (m := re.search(r"http://[\d.]+:\d+", line))), None)
        time.sleep(0.05)
    assert address, "".join(said)
    yield address
    process.terminate()
    process.wait(20)
    assert "Traceback" not in "".join(said), "".join(said)
