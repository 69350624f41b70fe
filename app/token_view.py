"""The component that shows a run: a growing string of JSON lines, drawn by assets/panel.js.

A string that only gains a suffix travels to the browser as that suffix, and the script parses only what is new, so
the cost of an update does not grow with the run. The template never contains the value: nothing of a run is ever
treated as HTML.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gradio as gr

ASSETS = Path(__file__).resolve().parent.parent / "assets"
SCRIPTS = ("fold.js", "tokens.js", "tooltip.js", "tree.js", "copy.js", "panel.js", "asked.js", "status.js")


def head() -> str:
    """The scripts, in order, for the page's head: inline, so that the page asks for nothing beyond itself."""
    return "\n".join(f"<script>\n{(ASSETS / name).read_text(encoding='utf-8')}</script>" for name in SCRIPTS)


class TokenView(gr.HTML):
    """One run. `name` is its letter or word on the page; `slim` makes it one line, its text folded away."""

    def __init__(self, name: str = "", slim: bool = False, **more: Any) -> None:
        super().__init__(
            value="",
            html_template=f'<div class="sp-view {"sp-slim" if slim else "sp-full"}" data-state="idle"></div>',
            js_on_load="SpecPlay.mount(element, props, watch);",
            apply_default_css=False,
            name=name,
            slim=slim,
            **more,
        )

    def postprocess(self, value: str | None) -> str | None:
        return value

    def api_info(self) -> dict[str, Any]:
        return {"type": "string"}
