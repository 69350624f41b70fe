"""The states' colours as people see them who confuse some: Chromium's own simulation of their sight, and the pixels."""

from __future__ import annotations

import io
from itertools import combinations

import pytest
from PIL import Image

TINTED = ("accepted", "rejected", "corrected", "bonus", "plain")
STATES = (*TINTED, "unjudged", "pending")
SCALE = 3  # pixels for each of CSS
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


def seen(page) -> dict[str, list[tuple[int, tuple[int, int, int]]]]:
    """By state: the colours of its entry in the legend, the most frequent first, each with its pixels."""
    legend = page.locator(".sp-legend")
    whole = Image.open(io.BytesIO(legend.screenshot())).convert("RGB")
    origin = legend.bounding_box()
    out = {}
    for state in STATES:
        box = page.locator(f".sp-legend .sp-{state}").bounding_box()
        left, top = SCALE * (box["x"] - origin["x"]), SCALE * (box["y"] - origin["y"])
        part = whole.crop((left, top, left + SCALE * box["width"], top + SCALE * box["height"]))
        out[state] = sorted(part.getcolors(maxcolors=1 << 20), reverse=True)
    return out


@pytest.fixture
def as_seen_by(replay, visit):
    _, address = replay(lambda run: run.play(["a"], 100, "length"))

    def look(theme, *sights):
        """The page, as seen by one after another."""
        page = visit(address, theme=theme, device_scale_factor=SCALE)
        session = page.context.new_cdp_session(page)
        for sight in sights:
            session.send("Emulation.setEmulatedVisionDeficiency", {"type": sight})
            yield sight, page

    return look


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_states_are_told_apart(as_seen_by, theme):
    """By their tints alone, however the eye mixes them; and each by more than its tint."""
    looks = set()
    for sight, page in as_seen_by(theme, *SIGHTS):
        colours = {state: [c for _, c in counted] for state, counted in seen(page).items()}
        tints = {state: colours[state][0] for state in TINTED}
        looks.add(str(tints))
        close = {
            (a, b): round(apart(tints[a], tints[b]), 1)
            for a, b in combinations(TINTED, 2)
            if apart(tints[a], tints[b]) < 4.6  # twice what is just noticeable
        }
        assert close == {}, (sight, tints)
        for state, (ground, *others) in colours.items():
            # The letters' own pixels are those farthest from the ground; a mark of the state may be among them.
            best = max(contrast(colour, ground) for colour in others)
            assert best >= 4.5, (sight, state, best)
    assert len(looks) == len(SIGHTS)  # so the simulation was on


def test_each_state_has_a_mark_besides_its_colour(as_seen_by):
    _, page = next(as_seen_by("light", "achromatopsia"))
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
