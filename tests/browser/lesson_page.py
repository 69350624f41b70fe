"""The lessons' section alone, on a page of nothing else, and the contrast of what is written in it."""

from __future__ import annotations

import json
from contextlib import contextmanager

from app.lessons_view import lessons
from app.scripts import ASSETS

SHEETS = ("tokens.css", "page.css", "panels.css", "lessons.css")
SCRIPTS = ("fold.js", "dom.js", "same_law.js", "residual.js", "formula.js", "lesson_figures.js", "lessons.js")
STAND_INS = """
  globalThis.asked = [];
  SpecPlay.applyPreset = async (preset) => { asked.push(["preset", preset.prompt, preset.panels.length]); };
  SpecPlay.preset = () => ({});
  SpecPlay.setAside = () => ({});
  SpecPlay.showRecorded = async (name, { prompt, panels }) => {
    asked.push(["recorded", name, prompt, panels.length]);
  };
  document.querySelector("#sp-run").addEventListener("click", () => asked.push(["run"]));
"""


@contextmanager
def alone(browser):
    """Gives build(width=, dark=) -> the page. What the real page does for the section is stood in for, and noted in

    the script's variable `asked`. No page may have had an error.
    """
    contexts, faults = [], []

    def build(width=1280, height=900, dark=False, **more):
        context = browser.new_context(viewport={"width": width, "height": height}, **more)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.set_content(
            f"<!doctype html><html lang=en><title>Lessons</title><body class='{'dark' if dark else ''}' "
            f"style='background: {'#0b0f19' if dark else '#fff'}; font-family: sans-serif; margin: 12px'><main>"
            "<div id=here><div class=sp-lessons></div></div><button id=sp-run>Run</button></main>"
        )
        for name in SHEETS:
            page.add_style_tag(path=str(ASSETS / name))
        for name in SCRIPTS:
            page.add_script_tag(path=str(ASSETS / name))
        page.evaluate(STAND_INS)
        told = json.loads(json.dumps(lessons()))
        page.evaluate("(told) => { SpecPlay.mountLessons(document.querySelector('#here'), async () => told); }", told)
        return page

    yield build
    for context in contexts:
        context.close()
    assert faults == []


def opened(page, name):
    page.evaluate("(name) => SpecPlay.openLesson(name)", name)


CONTRAST = """() => {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data].map((v, i) => (i < 3 ? v : v / 255));
  };
  const over = (a, b) => [0, 1, 2].map((i) => a[i] * a[3] + b[i] * (1 - a[3]));
  const ground = (node) => {
    const chain = [];
    for (; node; node = node.parentElement) chain.unshift(rgba(getComputedStyle(node).backgroundColor));
    return chain.reduce((below, colour) => over(colour, below), [255, 255, 255]);
  };
  const light = (c) => c.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const faint = [];
  for (const node of document.querySelectorAll(".sp-lessons *, .sp-law-test *")) {
    const own = [...node.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (!own || node.disabled || !node.getClientRects().length) continue;
    const style = getComputedStyle(node);
    const below = ground(node);
    const ink = over(rgba(node.closest("svg") ? style.fill : style.color), below);
    const [a, b] = [light(ink), light(below)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) faint.push([String(node.className.baseVal ?? node.className), node.textContent, ratio]);
  }
  return faint;
}"""
