"""The page's own scripts and styles, all of them inline: the page asks for nothing beyond itself."""

from __future__ import annotations

import json
from pathlib import Path

from engines.settings import RunSettings

from .fields import FIELDS, LETTERS, MOST_K, MOST_TOKENS, TREES
from .words import PROPOSER_NAMES

ASSETS = Path(__file__).resolve().parent.parent / "assets"
STYLES = (
    "page.css", "panels.css", "tokens.css", "card.css", "lessons.css", "plots.css", "tables.css", "tuner.css",
    "batching.css",
)  # fmt: skip
# In this order: each uses what those before it have put into the name SpecPlay.
SCRIPTS = (
    "fold.js", "timeline.js", "record.js", "dom.js", "tokens.js", "card.js", "tree.js", "tooltip.js", "copy.js",
    "drawing.js", "view.js", "words.js", "preset.js", "panels.js", "run.js", "replay.js", "files.js",
    "same_law.js", "law.js", "tools.js", "plotly.js", "status.js",
    "plots_data.js", "plot_kit.js", "plots_figures.js", "plots.js", "tables.js", "sweep.js",
    "tuner_plots.js", "tuner.js", "batching.js", "residual.js", "formula.js", "lesson_figures.js", "lessons.js",
)  # fmt: skip


def head() -> str:
    """For `launch(head=...)`."""
    shared = {
        "fields": FIELDS,
        "letters": LETTERS,
        "trees": TREES,
        "mostTokens": MOST_TOKENS,
        "mostK": MOST_K,
        "proposers": PROPOSER_NAMES,
        "defaults": RunSettings().to_json(),
    }
    told = f"globalThis.SpecPlay = {{ shared: {json.dumps(shared)} }};\n"
    scripts = [told, *((ASSETS / name).read_text(encoding="utf-8") for name in SCRIPTS)]
    style = f"<style>\n{(ASSETS / 'narrow.css').read_text(encoding='utf-8')}</style>\n"
    return style + "\n".join(f"<script>\n{script}</script>" for script in scripts)
