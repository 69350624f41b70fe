"""What assets/batching.js draws: the JSON that a measurement or a calculation came to."""

from __future__ import annotations

import json
from typing import Any

import gradio as gr


class Drawn(gr.HTML):
    """What assets/batching.js draws from its value, a JSON string. `part` is measured or calculated."""

    def __init__(self, value: str, part: str, **more: Any) -> None:
        super().__init__(
            value=value,
            html_template=f'<div class="sp-batch sp-batch-{part}" data-state="idle"></div>',
            js_on_load=f'SpecPlay.mountBatching(element, props, watch, "{part}");',
            apply_default_css=False,
            **more,
        )

    def postprocess(self, value: str | None) -> str | None:
        return value

    def api_info(self) -> dict[str, Any]:
        return {"type": "string"}


def told(**fields: Any) -> str:
    """The value of a `Drawn`: `state` (idle, queued, running, done, stopped, error), `message`, and what there is."""
    return json.dumps(fields, ensure_ascii=False)
