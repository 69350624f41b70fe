"""The line at the top that says what the engine is about: loading, ready, or why it cannot."""

from __future__ import annotations

import json
from typing import Any

import gradio as gr

SETTLED = ("ready", "error")


def status_line(engine: Any, target: str) -> str:
    """What assets/status.js shows, as JSON."""
    return json.dumps({**engine.state(), "target": target}, ensure_ascii=False)


class EngineStatus(gr.HTML):
    """Its value is a JSON object: phase, message, fraction, target."""

    def __init__(self, value: str = "", **more: Any) -> None:
        super().__init__(
            value=value,
            html_template='<div class="sp-engine" data-phase="idle" role="status"></div>',
            js_on_load="SpecPlay.mountStatus(element, props, watch);",
            apply_default_css=False,
            **more,
        )

    def postprocess(self, value: str | None) -> str | None:
        return value
