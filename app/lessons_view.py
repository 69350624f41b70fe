"""The section "Lessons": closed at first, shown in the browser by assets/lessons.js."""

from __future__ import annotations

from functools import cache
from typing import Any

import gradio as gr

from engines.events import from_json
from engines.presets import PRESETS
from engines.recorded import FOLDER

from .lesson_figures import Figures, of_runs
from .lessons import LESSONS, Lesson


def build_lessons() -> gr.HTML:
    """Lay the section out, inside the page's `gr.Blocks`. Its script asks for `lessons` when it is opened first."""
    return gr.HTML(
        html_template='<div class="sp-lessons"></div>',
        js_on_load="SpecPlay.mountLessons(element);",
        apply_default_css=False,
        elem_classes=["sp-lessons-block"],
    )


@cache
def lessons() -> list[dict[str, Any]]:
    """All stops. The figures in their words come from the recorded runs, which take a moment to read."""
    return [told(lesson) for lesson in LESSONS]


@cache
def figures_of(name: str) -> dict[str, Figures]:
    """The figures of the preset's recorded runs, by the panels' letters."""
    runs: list[list[Any]] = []
    for line in (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").split("\n")[:-1]:
        event = from_json(line)  # the repository's own lines: no need to doubt each field at every start
        if event.type == "start":
            runs.append([])
        runs[-1].append(event)
    return of_runs(runs, len(PRESETS[name].panels))


def told(lesson: Lesson) -> dict[str, Any]:
    """A stop as the script takes it: plain JSON."""
    figures = {name: figures_of(name) for name in lesson.shows}
    first = next(iter(next(iter(figures.values())).values()))
    return {
        "name": lesson.name,
        "title": lesson.title,
        "text": list(lesson.said(figures)),
        "attempt": lesson.attempt,
        "shows": [
            {"recorded": name, "words": words, **PRESETS[name].to_json()} for name, words in lesson.shows.items()
        ],
        "widget": lesson.widget,
        "costs": {str(n): round(v, 3) for n, v in sorted(first.costs.verify.items())},
        "made": made(first),
    }


def made(figures: Figures) -> str:
    """Where and with what the run was recorded."""
    start = figures.run[0]
    versions = start.versions
    return f"Recorded with {start.target} in {start.dtype} on {versions['machine']}; torch {versions['torch']}."
