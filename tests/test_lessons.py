"""The lessons' words: short, with figures that come from the recorded runs, and true of them."""

from __future__ import annotations

import copy
import json
import re

import pytest

from app.fields import FIELDS, LETTERS, MOST_TOKENS
from app.lesson_figures import of_runs
from app.lessons import LESSONS
from app.lessons_view import figures_of, told
from app.scripts import ASSETS, SCRIPTS
from engines.cost import expected_tokens
from engines.presets import PRESETS
from engines.recorded import of_lesson
from engines.settings import MAX_K, RunSettings, Sampling

BY_NAME = {lesson.name: lesson for lesson in LESSONS}
SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")


def test_there_are_ten_stops_and_each_preset_is_shown_by_one():
    names = "idle round formula long-k temperature code-or-prose quoting bad-draft same-text batching"
    assert [lesson.name for lesson in LESSONS] == names.split()
    assert sorted(name for lesson in LESSONS for name in lesson.shows) == sorted(PRESETS)


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
def test_what_is_said_is_true_of_the_recorded_runs(lesson):
    assert lesson.holds({name: figures_of(name) for name in lesson.shows})


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
def test_sentences_are_short_and_few(lesson):
    whole = told(lesson)
    assert json.loads(json.dumps(whole, allow_nan=False)) == whole
    assert 2 <= len(whole["text"]) <= 3
    for part in (*whole["text"], whole["attempt"]):
        assert not re.search(r"[{}]|\bnan\b|\binf\b|  |None", part), part
        for sentence in re.split(r"(?<=[.?!])\s+(?=[A-Z“])", part):
            assert len(sentence.split()) <= 36, sentence
        assert part[0].isupper() and part[-1] in ".?", part
    assert whole["made"].startswith("Recorded with smollm2-135m-instruct in ") and "torch 2." in whole["made"]


def test_figures_are_those_of_the_events():
    """A run whose last rounds are left out has other figures, and other sentences."""
    plain, run = copy.deepcopy(of_lesson("round"))
    whole = of_runs([plain, run], 1)["A"]
    text = BY_NAME["round"].said({"round": {"A": whole}})
    assert (
        f"These {whole.rounds} rounds wrote {run[-1].keep} tokens: {run[-1].metrics['accepted']} accepted" in text[-1]
    )
    halved = of_runs([plain, run[:21]], 1)["A"]
    assert halved.rounds == 10 and halved.emitted < whole.emitted
    assert BY_NAME["round"].said({"round": {"A": halved}})[-1] != text[-1]


def test_each_panel_is_compared_with_the_plain_run_of_its_temperature():
    for letter, figures in figures_of("temperature").items():
        assert figures.plain[0].proposer == "none", letter
        assert figures.plain[0].settings["sampling"] == figures.run[0].settings["sampling"]
    assert [f.temperature for f in figures_of("temperature").values()] == ["0", "0.7", "1"]


def test_the_textbook_numbers():
    text = " ".join(told(BY_NAME["formula"])["text"])
    assert f"{expected_tokens(0.8, 4):.1f} tokens at a = 0.8, and {expected_tokens(0.5, 4):.1f} at a = 0.5" in text
    assert "3.4 tokens" in text and "1.9 at" in text


@pytest.mark.parametrize("name", PRESETS)
def test_the_page_can_show_and_run_each_preset(name):
    """Its fields hold all that a preset sets, so that a live run has the settings of the recorded one."""
    preset = PRESETS[name]
    assert 1 <= len(preset.panels) <= min(3, len(LETTERS)) and 16 <= preset.max_tokens <= min(96, MOST_TOKENS)
    for panel, settings in zip(preset.panels, preset.settings(), strict=True):
        assert set(panel) <= {*FIELDS, "sampling"} and set(panel.get("sampling", {})) <= set(SAMPLING)
        assert settings.k <= MAX_K // 2  # the slider's end
        told_only = RunSettings.from_json({**panel, "max_new_tokens": preset.max_tokens, "seed": preset.seed})
        assert settings.replace(candidates=0) == told_only
        assert isinstance(settings.sampling, Sampling)
    assert json.loads(json.dumps(preset.to_json())) == preset.to_json()


def test_each_figure_is_there():
    scripts = "".join((ASSETS / name).read_text(encoding="utf-8") for name in SCRIPTS)
    for lesson in LESSONS:
        if lesson.widget:
            assert re.search(rf"widgets: {{[^}}]*\b{lesson.widget}\b", scripts), lesson.widget
