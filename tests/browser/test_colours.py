"""The states' colours as people see them who confuse some: Chromium's own simulation of their sight, and the pixels."""

from __future__ import annotations

import io
from collections import Counter
from itertools import combinations

import pytest
from PIL import Image

TINTED = ("accepted", "rejected", "corrected", "bonus", "plain")
STATES = (*TINTED, "unjudged", "pending")
SIGHTS = ("none", "deuteranopia", "protanopia", "tritanopia")
MARKED = {"corrected": "↻", "bonus": "✦"}


def light(colour) -> float:
    """Relative luminance (WCAG 2.2) of 8-bit sRGB."""
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in (c / 255 for c in colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b) -> float:
    high, low = sorted((light(a), light(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def lab(colour) -> tuple[float, float, float]:
    """CIELAB (D65) of 8-bit sRGB."""
    r, g, b = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in (c / 255 for c in colour))
    xyz = (
        (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505,
        0.2126 * r + 0.7152 * g + 0.0722 * b,
        (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089,
    )
    x, y, z = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def apart(a, b) -> float:
    """The distance of two colours, CIE 1976: 2.3 is just noticeable side by side."""
    return sum((x - y) ** 2 for x, y in zip(lab(a), lab(b), strict=True)) ** 0.5


def seen(page, state) -> Image.Image:
    shot = page.locator(f".sp-legend .sp-{state}").screenshot()
    return Image.open(io.BytesIO(shot)).convert("RGB")


def ground(image) -> tuple[int, int, int]:
    """The colour that most of it has."""
    return Counter(image.getdata()).most_common(1)[0][0]


@pytest.fixture
def as_seen_by(replay, visit):
    _, address = replay(lambda run: run.play(["a"], 100, "length"))

    def look(sight, theme):
        page = visit(address, theme=theme, device_scale_factor=3)
        session = page.context.new_cdp_session(page)
        session.send("Emulation.setEmulatedVisionDeficiency", {"type": sight})
        return page

    return look


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("sight", SIGHTS)
def test_states_are_told_apart(as_seen_by, sight, theme):
    """By their tints alone, however the eye mixes them; and each by more than its tint."""
    page = as_seen_by(sight, theme)
    images = {state: seen(page, state) for state in STATES}
    tints = {state: ground(images[state]) for state in TINTED}
    close = {
        (a, b): round(apart(tints[a], tints[b]), 1)
        for a, b in combinations(TINTED, 2)
        if apart(tints[a], tints[b]) < 4.6  # twice what is just noticeable
    }
    assert close == {}, tints
    for state, image in images.items():
        # The letters' own pixels are those farthest from the ground; a mark of the state may be among them.
        best = max(contrast(colour, ground(image)) for colour in set(image.getdata()))
        assert best >= 4.5, (state, best)


def test_each_state_has_a_mark_besides_its_colour(as_seen_by):
    page = as_seen_by("achromatopsia", "light")
    said = {
        state: page.locator(f".sp-legend .sp-{state}").evaluate(
            """(node) => {
              const style = getComputedStyle(node);
              return JSON.stringify([
                style.textDecorationLine, style.textDecorationStyle, style.backgroundImage !== "none",
                style.boxShadow !== "none", node.querySelector(".sp-mark")?.dataset.mark || "",
              ]);
            }"""
        )
        for state in STATES
    }
    assert len(set(said.values())) == len(STATES), said
    assert all(mark in said[state] for state, mark in MARKED.items())
