"""The component that shows a run, drawn by assets/view.js from the lines that app/routes.py sends.

Nothing of a run ever passes through its template, and nothing is ever treated as HTML.
"""

from __future__ import annotations

from typing import Any

import gradio as gr


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
