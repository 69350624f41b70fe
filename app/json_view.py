"""A component whose value a script of assets/ draws."""

from __future__ import annotations

from typing import Any

import gradio as gr


class JsonView(gr.HTML):
    """Its value is a string of JSON that a script of assets/ draws; the template never contains it."""

    def __init__(self, html: str, script: str, value: str = "", **more: Any) -> None:
        super().__init__(value=value, html_template=html, js_on_load=script, apply_default_css=False, **more)

    def postprocess(self, value: str | None) -> str | None:
        return value

    def api_info(self) -> dict[str, Any]:
        return {"type": "string"}
