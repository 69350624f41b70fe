"""The section "Plots" in Chromium: when it draws, that it can be read and saved, and that a text stays a text."""

from __future__ import annotations

import csv
import io
import json
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import pytest
from looking import wait_state
from replay import done_of, rounds, start_of, word_tokens

from app.scripts import ASSETS
from engines.cost import Costs
from engines.events import to_json
from engines.settings import RunSettings, Sampling

PLOTLY = Path(find_spec("plotly").origin).parent / "package_data" / "plotly.min.js"
SCRIPTS = ("dom.js", "fold.js", "tokens.js", "plot_kit.js", "plots_data.js", "plots_figures.js", "plots.js")
# The library is there, but handed out and looked at as it is on the page: when it is asked for.
SETUP = """([runs, theme]) => {
  document.body.className = theme;
  document.getElementById("here").innerHTML = '<div class="sp-plots"></div>';
  window.draws = {};
  window.asked = 0;
  const library = {...Plotly, react: (node, ...more) => {
    const key = node.closest("[data-plot]").dataset.plot;
    window.draws[key] = (window.draws[key] || 0) + 1;
    return Plotly.react(node, ...more);
  }};
  SpecPlay.plotly = async () => (window.asked++, library);
  window.lines = Object.fromEntries(runs.map((r) => [r.name, r.lines]));
  window.shown = runs.map(({lines, ...view}) => ({...view, fold: new SpecPlay.Fold()}));
  SpecPlay.views = () => window.shown.filter((v) => v.fold.start);
  window.play = (name, count) => {
    const view = window.shown.find((v) => v.name === name);
    for (const line of window.lines[name].splice(0, count)) view.fold.add(JSON.parse(line));
    document.dispatchEvent(new CustomEvent("specplay:changed"));
  };
  window.total = () => Object.values(window.draws).reduce((a, b) => a + b, 0);
  SpecPlay.mountPlots(document.getElementById("here"));
}"""
ALL_DRAWN = """() => {
  const figures = [...document.querySelectorAll(".sp-plots .sp-figure")];
  return figures.length === 5 && figures.every((f) => f.querySelector("svg, .sp-figure-none:not([hidden])"));
}"""
TEXT = word_tokens("The quick brown fox jumps over the lazy dog and runs through a wood. " * 8)


def events_of(proposer: str, k: int = 4, temperature: float = 0.0, tokens=TEXT, count: int | None = None) -> list:
    made = RunSettings(proposer=proposer, k=k, sampling=Sampling(temperature))
    start = start_of(made, "p")
    start.costs = Costs({0: 1.0, 4: 1.3, 8: 1.5}, 0.1, 0.01).to_json()
    body = [e for pair in islice(rounds(tokens, proposer, k), count) for e in pair]
    return [start, *body, done_of([start, *body], "length")]


def run_of(name: str, events: list, **more) -> dict:
    return {"name": name, "baseline": False, "title": f"setting {name}", "speedup": None, **more} | {
        "lines": [to_json(e) for e in events]
    }


def usual() -> list[dict]:
    hot = {"speedup": 1.52, "low": 1.4, "high": 1.7, "plain_rate": 100.0}
    none = {"speedup": None, "instead": "too short to measure", "plain_rate": 100.0}
    return [
        run_of("baseline 1", events_of("none"), baseline=True),
        run_of("A", events_of("ngram", 8, 1.0), speedup=hot),
        run_of("B", events_of("layer-skip", 2), speedup=none),
    ]


@pytest.fixture(scope="module")
def sheet(browser):
    """One page for all tests of this file, as the library takes long to load."""
    context = browser.new_context(accept_downloads=True)
    page = context.new_page()
    page.set_content("<body style='margin:0; font-family:sans-serif'><div id='here'></div></body>")
    for name in ("tokens.css", "plots.css"):
        page.add_style_tag(path=str(ASSETS / name))
    for path in (PLOTLY, *(ASSETS / name for name in SCRIPTS)):
        page.add_script_tag(path=str(path))
    yield page
    context.close()


@pytest.fixture
def section(sheet):
    faults = []
    sheet.on("pageerror", lambda error: faults.append(str(error)))

    def open_section(runs=None, theme="light", width=1440, whole=True, opened=True):
        sheet.set_viewport_size({"width": width, "height": 900})
        sheet.evaluate(SETUP, [usual() if runs is None else runs, theme])
        if whole:
            sheet.evaluate("shown.forEach((v) => play(v.name, 1e9))")
        if opened:
            sheet.click("summary")
            if whole:
                drawn = (
                    "[...document.querySelectorAll('.sp-figure')].every((f) => f.querySelector('svg, p:not([hidden])'))"
                )
                sheet.wait_for_function(f"document.querySelector('.sp-figure') && {drawn}")
        return sheet

    yield open_section
    sheet.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = false; })")
    assert faults == []


def test_while_it_is_closed_nothing_is_loaded_or_drawn(section):
    page = section(opened=False)
    page.evaluate(
        "async () => { for (let i = 0; i < 20; i++) { play('A', 0); await new Promise((r) => setTimeout(r, 20)); } }"
    )
    page.wait_for_timeout(700)
    assert page.evaluate("[asked, total(), document.querySelectorAll('svg').length]") == [0, 0, 0]
    page.click("summary")
    page.wait_for_function("total() >= 5")
    assert page.evaluate("asked") == 1 and page.locator(".js-plotly-plot").count() == 5
    page.click("summary")
    before = page.evaluate("total()")
    page.evaluate("shown[1].fold = new SpecPlay.Fold(); play('A', 0)")
    page.wait_for_timeout(700)
    assert page.evaluate("total()") == before


def test_it_says_what_to_do_while_there_is_nothing(section):
    page = section(whole=False)
    page.wait_for_function("document.querySelector('.sp-plots-say').textContent.startsWith('Press Run')")
    page.evaluate("play('A', 1)")  # the run has begun, and no round of it is over
    page.wait_for_timeout(600)
    assert page.evaluate("total()") == 0
    page.evaluate("play('A', 2)")
    page.wait_for_function("total() > 0")
    assert page.locator(".sp-plots-say").inner_text() == ""
    assert page.locator('[data-plot="speedup"] .sp-figure-none').is_hidden()  # predicted, while it runs


def test_it_follows_a_run_at_most_twice_a_second(section):
    page = section([run_of("A", events_of("ngram", tokens=TEXT * 10))], whole=False)
    page.evaluate("play('A', 3)")
    page.wait_for_function("draws.rounds === 1")
    page.evaluate(
        """() => {
          window.drawnAt = [];
          const library = SpecPlay.plotly();
          library.then((l) => { const react = l.react; l.react = (node, ...more) => {
            if (node.closest("[data-plot]").dataset.plot === "rounds") drawnAt.push(performance.now());
            return react(node, ...more);
          }; });
          window.playing = setInterval(() => play("A", 1), 30);
        }"""
    )
    page.wait_for_function("drawnAt.length >= 3")
    page.evaluate("clearInterval(playing)")
    times = page.evaluate("drawnAt")
    assert min(b - a for a, b in zip(times, times[1:], strict=False)) >= 495
    page.evaluate("play('A', 1e9)")
    last = page.evaluate("shown[0].fold.rounds.length")
    page.wait_for_function(
        "(n) => document.querySelector('[data-plot=rounds] .sp-figure-plot').data[0].x.at(-1) + 3 > n", arg=last
    )
    before = page.evaluate("total()")
    page.evaluate("play('A', 0)")  # nothing new: nothing is drawn
    page.wait_for_timeout(900)
    assert page.evaluate("total()") == before


@pytest.mark.parametrize("width", [390, 1440])
def test_each_plot_says_what_it_is(section, width):
    page = section(width=width)
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    for key, unit, said in (
        ("rounds", "(ms)", "panel A"),
        ("position", "position in the proposal", "Panel B: acceptance"),
        ("passes", "share of passes", "the formula expects"),
        ("speedup", "(×)", "Panel A: 1.52 times plain decoding (1.40 to 1.70), predicted"),
        ("confidence", "p: the target's probability", "rejected (mean p 0.10"),
    ):
        figure = page.locator(f'[data-plot="{key}"]')
        assert figure.locator("h3").inner_text() and len(figure.locator(".sp-figure-read").inner_text()) > 60
        plot = figure.locator(".sp-figure-plot")
        assert plot.get_attribute("role") == "img" and said in plot.get_attribute("aria-label")
        assert unit in plot.locator("svg").first.evaluate("(n) => n.parentElement.textContent")
        assert plot.bounding_box()["width"] <= width
        assert plot.evaluate("(n) => n.querySelector('.main-svg').getBoundingClientRect().right") <= width
    assert "Panel B: too short to measure" in page.locator('[data-plot="speedup"] .sp-figure-plot').get_attribute(
        "aria-label"
    )


def contrast(a: list[float], b: list[float]) -> float:
    linear = lambda v: v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4  # noqa: E731
    light = sorted(
        0.2126 * linear(c[0] / 255) + 0.7152 * linear(c[1] / 255) + 0.0722 * linear(c[2] / 255) for c in (a, b)
    )
    return (light[1] + 0.05) / (light[0] + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_and_marks_can_be_told_from_what_is_behind(section, theme):
    four = [
        run_of("baseline 1", events_of("none"), baseline=True),
        *(run_of(n, events_of("ngram", k)) for n, k in zip("ABCD", (2, 3, 4, 8), strict=True)),
    ]
    page = section(four, theme=theme)
    found = page.evaluate(
        """() => {
          const numbers = (c) => c.match(/[\\d.]+/g).map(Number);
          const behind = numbers(getComputedStyle(document.querySelector(".sp-plots > details")).backgroundColor);
          const of = (nodes, key) => [...new Set(nodes.map((n) => getComputedStyle(n)[key]))].map(numbers);
          const plots = document.querySelector(".sp-figures");
          const all = (selector) => [...plots.querySelectorAll(selector)];
          const solid = (nodes, key) => nodes.filter((n) => getComputedStyle(n)[key].startsWith("rgb"));
          const dots = all("path.point, .legendpoints path"), lines = all("path.point, .js-line");
          return {
            behind,
            texts: of(all("h3, p, button, select, label"), "color").concat(of(all("text"), "fill")),
            marks: of(solid(lines, "stroke"), "stroke").concat(of(solid(dots, "fill"), "fill")),
          };
        }"""
    )
    texts = [contrast(c, found["behind"]) for c in found["texts"]]
    assert len(texts) > 1 and min(texts) >= 4.5
    marks = [contrast(c, found["behind"]) for c in found["marks"] if c[:3] != found["behind"][:3]]
    assert len(marks) > 4 and min(marks) >= 3


def test_they_are_saved_as_pictures_and_tables(section):
    page = section()
    heads = {
        "rounds": "first_round,last_round,drafting_ms",
        "position": "panel,position,rounds",
        "passes": "panel,tokens_per_pass",
        "speedup": "panel,setting,measured",
        "confidence": "round,position,id,text",
    }
    for key, head in heads.items():
        with page.expect_download() as table:
            page.click(f'[data-plot="{key}"] button:has-text("CSV")')
        assert table.value.suggested_filename.startswith(f"specplay-{key}")
        text = Path(table.value.path()).read_text(encoding="utf-8-sig")
        assert text.startswith(head) and len(list(csv.reader(io.StringIO(text)))) > 2
    for key in ("rounds", "speedup"):
        with page.expect_download() as picture:
            page.click(f'[data-plot="{key}"] button:has-text("PNG")')
        assert picture.value.suggested_filename.endswith(".png")
        raw = Path(picture.value.path()).read_bytes()
        assert raw.startswith(b"\x89PNG") and int.from_bytes(raw[16:20], "big") >= 600 and len(raw) > 10_000


def test_one_panel_is_chosen_for_both_plots_that_show_one(section):
    page = section()
    options = lambda key: page.locator(f'[data-plot="{key}"] option').all_inner_texts()  # noqa: E731
    assert options("rounds") == ["baseline 1", "A", "B"] and options("confidence") == ["A", "B"]
    label = lambda key: page.locator(f'[data-plot="{key}"] .sp-figure-plot').get_attribute("aria-label")  # noqa: E731
    assert "panel A" in label("rounds") and "panel A" in label("confidence")
    assert "Above the diagonal" in page.locator('[data-plot="confidence"] .sp-figure-read').inner_text()
    page.locator('[data-plot="confidence"] select').select_option("B")
    page.wait_for_function("document.querySelector('[data-plot=rounds] [role=img]').ariaLabel.includes('panel B')")
    assert "panel B" in label("confidence")
    assert "before the greedy choice" in page.locator('[data-plot="confidence"] .sp-figure-read').inner_text()


def test_a_runs_text_is_never_markup(section):
    bad = "<b>x</b><img src=x onerror=alert(1)>&amp;"
    runs = [run_of("<i>A</i>", events_of("ngram", tokens=[f" {bad}{i}" for i in range(30)]), title=bad)]
    page = section(runs)
    assert page.locator(".sp-plots :is(b, i, img)").count() == 0
    assert bad[:20] in page.locator('[data-plot="speedup"] svg').first.evaluate("(n) => n.parentElement.textContent")
    page.evaluate(
        """() => { const node = document.querySelector("[data-plot=confidence] .sp-figure-plot");
             Plotly.Fx.hover(node, [{curveNumber: 0, pointNumber: 0}]); }"""
    )
    assert "<b>x</b><img" in page.locator('[data-plot="confidence"] .hoverlayer').text_content()


def test_it_turns_dark_with_the_page(section):
    page = section()
    paper = "document.querySelector('[data-plot=rounds] .sp-figure-plot').layout.paper_bgcolor"
    assert page.evaluate(paper) == "#ffffff"
    page.evaluate("document.body.classList.add('dark')")
    page.wait_for_function(f"{paper} === '#191e25'")


def test_a_mixture_and_a_tree_have_no_formula_and_are_drawn(section):
    events = events_of("ngram", 4)
    events[0].proposer = "auto"
    tree = [json.loads(to_json(e)) for e in events_of("recycle", 2)]
    for event in tree:
        for i, token in enumerate(event.get("tokens", [])):
            token["parent"] = i - 1
        for i, judged in enumerate(event.get("judged", [])):
            judged["node"] = i
    runs = [run_of("A", events), {**run_of("B", []), "lines": [json.dumps(e) for e in tree]}]
    page = section(runs)
    label = lambda key: page.locator(f'[data-plot="{key}"] .sp-figure-plot').get_attribute("aria-label")  # noqa: E731
    assert "formula" not in label("passes") and "Panel B: " in label("passes")
    assert page.locator('[data-plot="speedup"] .sp-figure-none').is_visible()
    names = page.evaluate("document.querySelector('[data-plot=position] .sp-figure-plot').data.map((t) => t.name)")
    assert set(names) == {"A", "B"}


def test_on_the_page_they_are_of_what_the_panels_hold(replay, visit):
    """Closed they ask for nothing; open, for the library alone."""
    _, address = replay(lambda run: run.play(TEXT[:60], 400, "length"))
    page = visit(address)
    asked = []
    page.on("request", lambda request: asked.append(request.url.removeprefix(address).split("?")[0]))
    page.click("#sp-run")
    for view in "AB":
        wait_state(page, view, "done")
    assert not [path for path in asked if "plotly" in path]
    asked.clear()
    page.locator(".sp-plots summary").click()
    page.wait_for_function(ALL_DRAWN)
    asked = [path for path in asked if path != "/specplay/state"]
    assert asked == ["/plotly.min.js"]
    label = page.locator('[data-plot="speedup"] .sp-figure-plot').get_attribute("aria-label")
    assert "Panel A: " in label and "Panel B: " in label and "times plain decoding" in label
    names = page.locator('[data-plot="rounds"] option').all_inner_texts()
    assert names == ["baseline 1", "A", "B"]
