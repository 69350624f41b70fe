"""Puts a script at the very beginning of the page, before gradio's own: `launch(head=...)` comes after them."""

from __future__ import annotations

from typing import Any


class EarlyScript:
    """ASGI middleware: adds `script` to the one HTML document, and lets everything else through untouched."""

    def __init__(self, app: Any, script: str) -> None:
        self.app = app
        self.tag = f"<script>\n{script}</script>".encode()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] not in ("", "/"):
            await self.app(scope, receive, send)
            return
        started: dict[str, Any] = {}
        body = bytearray()

        async def hold(message: dict[str, Any]) -> None:
            """Keep the document until it is whole: its length changes."""
            if message["type"] == "http.response.start":
                started.update(message)
                return
            body.extend(message.get("body", b""))
            if message.get("more_body"):
                return
            whole = bytes(body).replace(b"<head>", b"<head>" + self.tag, 1)
            headers = [(name, value) for name, value in started["headers"] if name.lower() != b"content-length"]
            headers.append((b"content-length", str(len(whole)).encode()))
            await send({**started, "headers": headers})
            await send({"type": "http.response.body", "body": whole})

        await self.app(scope, receive, hold)
