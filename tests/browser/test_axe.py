"""Axe (axe-core, as a Python package brings it) finds no serious fault in what the page shows."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from looking import wait_state

WORDS = [f" w{i}" for i in range(40)]


def faults(page, within=None):
    """What is wrong, with where: only what Axe calls serious or critical."""
    found = Axe().run(page, context=within).response["violations"]
    return {v["id"]: [n["html"][:160] for n in v["nodes"]][:3] for v in found if v["impact"] in ("serious", "critical")}


@pytest.mark.parametrize(("width", "theme"), [(1440, "light"), (390, "dark")])
def test_no_serious_fault(replay, visit, width, theme):
    _, address = replay(lambda run: run.play(WORDS, 2000, "eos"))
    page = visit(address, width=width, height=900, theme=theme)
    assert faults(page) == {}
    page.click("#sp-run")
    wait_state(page, "B", "done")
    page.locator("#sp-run:enabled").wait_for()
    page.get_by_text("Share and keep").click()
    page.click(".sp-lessons-door")
    page.wait_for_timeout(1500)
    page.locator(".sp-plots summary").first.click()
    page.wait_for_timeout(3000)
    assert faults(page) == {}
    for place in ("Sweep", "Batching", "Tuner"):
        tab = page.get_by_role("tab", name=place)
        if tab.count():
            tab.click()
            page.wait_for_timeout(600)
            assert faults(page) == {}, place
