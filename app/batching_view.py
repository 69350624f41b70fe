"""What assets/batching.js draws: the JSON that a measurement or a calculation came to."""

from __future__ import annotations

import json
from typing import Any

from .json_view import JsonView


class Drawn(JsonView):
    """What assets/batching.js draws. `part` is measured or calculated."""

    def __init__(self, value: str, part: str, **more: Any) -> None:
        html = f'<div class="sp-batch sp-batch-{part}" data-state="idle"></div>'
        super().__init__(html, f'SpecPlay.mountBatching(element, props, watch, "{part}");', value, **more)


def told(**fields: Any) -> str:
    """The value of a `Drawn`: `state` (idle, queued, running, done, stopped, error), `message`, and what there is."""
    return json.dumps(fields, ensure_ascii=False)
