"""The line at the top that says what the engine is about: loading, ready, or why it cannot."""

from __future__ import annotations

from typing import Any

import gradio as gr


class EngineStatus(gr.HTML):
    """Filled by assets/status.js, which asks the program itself."""

    def __init__(self, **more: Any) -> None:
        super().__init__(
            html_template='<div class="sp-engine" data-phase="idle" role="status"></div>',
            js_on_load="SpecPlay.mountStatus(element);",
            apply_default_css=False,
            **more,
        )
