"""The component that shows a run, drawn by assets/view.js from the lines that app/routes.py sends.

Nothing of a run ever passes through its template, and nothing is ever treated as HTML.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gradio as gr

from engines.settings import RunSettings

from .fields import FIELDS, LETTERS, MOST_TOKENS, TREES
from .words import PROPOSER_NAMES

ASSETS = Path(__file__).resolve().parent.parent / "assets"
STYLES = ("page.css", "panels.css", "tokens.css")
SCRIPTS = (
    "fold.js", "timeline.js", "record.js", "dom.js", "tokens.js", "tooltip.js", "tree.js", "copy.js", "view.js",
    "words.js", "preset.js", "panels.js", "run.js", "replay.js", "tools.js", "plotly.js", "status.js",
)  # fmt: skip


def head() -> str:
    """The scripts, in order, for the page's head: inline, so that the page asks for nothing beyond itself."""
    shared = {
        "fields": FIELDS,
        "letters": LETTERS,
        "trees": TREES,
        "mostTokens": MOST_TOKENS,
        "proposers": PROPOSER_NAMES,
        "defaults": RunSettings().to_json(),
    }
    told = f"globalThis.SpecPlay = {{ shared: {json.dumps(shared)} }};\n"
    scripts = [told, *((ASSETS / name).read_text(encoding="utf-8") for name in SCRIPTS)]
    return "\n".join(f"<script>\n{script}</script>" for script in scripts)


class TokenView(gr.HTML):
    """One run. `name` is its letter or word on the page; `slim` makes it one line, its text folded away."""

    def __init__(self, name: str = "", slim: bool = False, **more: Any) -> None:
        super().__init__(
            value="",
            html_template=f'<div class="sp-view {"sp-slim" if slim else "sp-full"}" data-state="idle"></div>',
            js_on_load="SpecPlay.mount(element, props);",
            apply_default_css=False,
            name=name,
            slim=slim,
            **more,
        )
