"""The section "Plots": closed at first, drawn in the browser from what the panels hold (assets/plots.js)."""

from __future__ import annotations

from typing import Any

import gradio as gr


class Plots(gr.HTML):
    """Has no value: nothing travels for it."""

    def __init__(self, **more: Any) -> None:
        super().__init__(
            value="",
            html_template='<div class="sp-plots"></div>',
            js_on_load="SpecPlay.mountPlots(element);",
            apply_default_css=False,
            **more,
        )

    def api_info(self) -> dict[str, Any]:
        return {"type": "string"}
