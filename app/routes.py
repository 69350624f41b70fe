"""What the page asks of the program while it is open: the engine's state, runs, files of runs, and Plotly's library.

Runs travel as a plain stream of lines, "view<tab>JSON", of which each is sent once: the least work for the cores that
the engine may have to share with the browser. A stream that is broken off, as when its tab is closed, stops its runs.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from engines import recorded
from engines.errors import UserError
from engines.presets import PRESETS
from engines.settings import RunSettings

from .fields import panels_from
from .law import PageLaw
from .lessons_view import lessons
from .run_page import PageRun
from .shown import shown
from .under_way import UnderWay

MOST_BYTES = 1_000_000  # of a request
# A page of another origin cannot send it without asking first, and is then refused: it must not start runs here.
OURS = ("x-specplay", "1")
# As it comes, uncompressed: packing costs the engine time, and would hold lines back.
_threads = ThreadPoolExecutor(64, thread_name_prefix="frames")  # one for each page whose runs are under way
STREAM = {"content-encoding": "identity", "cache-control": "no-store", "x-accel-buffering": "no"}


def routes(engine: Any, target: str) -> list[Route]:
    """For `launch(app_kwargs={"routes": ...})`."""
    runs = UnderWay()  # by the names that their pages gave them, so that a page can stop its own

    async def state(request: Request) -> Response:
        # Not before a browser asks, nor before it is answered: importing torch holds the interpreter, and the page
        # would wait for it.
        now = engine.state()
        preload = BackgroundTask(engine.preload, RunSettings(target=target)) if now["phase"] == "idle" else None
        return JSONResponse({**now, "target": target, "program": str(id(engine))}, background=preload)

    async def run(request: Request) -> Response:
        asked = await _json(request)
        prompt, name = asked.get("prompt"), asked.get("name")
        if not isinstance(prompt, str) or not isinstance(name, str) or not name:
            raise UserError("The page sent no prompt: reload it.")
        page_run = PageRun(engine, prompt, panels_from(target, asked), _is_here(request))
        runs.begin(name, page_run)
        return _stream(page_run.frames(), page_run.stop, lambda: runs.end(name, page_run))

    async def law(request: Request) -> Response:
        asked = await _json(request)
        prompt, name = asked.get("prompt"), asked.get("name")
        panels = panels_from(target, asked)
        if not isinstance(prompt, str) or not isinstance(name, str) or len(panels) != 1:
            raise UserError("The page asked for no test: reload it.")
        [(letter, settings)] = panels.items()
        page_law = PageLaw(engine, prompt, letter, settings)
        runs.begin(name, page_law)
        return _stream(page_law.frames(), page_law.stop, lambda: runs.end(name, page_law))

    async def show(request: Request) -> Response:
        content = await body(request, recorded.MAX_BYTES)
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise UserError("That is not a file of runs: it is not UTF-8 text.") from None
        return await _told(lambda: recorded.split(text))

    async def stops(request: Request) -> Response:
        return JSONResponse(await asyncio.get_running_loop().run_in_executor(_threads, lessons))

    async def record(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in PRESETS:  # never a path
            raise UserError(f"There is no recorded run {name!r}.")
        return await _told(lambda: recorded.read(recorded.FOLDER / f"{name}.jsonl"))

    async def stop(request: Request) -> Response:
        runs.stop(str((await _json(request)).get("name")))
        return Response(status_code=204)

    def guarded(function: Any) -> Any:
        async def endpoint(request: Request) -> Response:
            if request.headers.get(OURS[0]) != OURS[1]:
                return JSONResponse({"message": "Only the program's own page may ask for this."}, 403)
            try:
                return await function(request)
            except UserError as error:
                return JSONResponse({"message": str(error)}, 400)

        return endpoint

    return [
        Route("/specplay/state", state),
        Route("/specplay/run", guarded(run), methods=["POST"]),
        Route("/specplay/law", guarded(law), methods=["POST"]),
        Route("/specplay/show", guarded(show), methods=["POST"]),
        Route("/specplay/lessons", stops),
        Route("/specplay/recorded/{name}", guarded(record), methods=["POST"]),
        Route("/specplay/stop", guarded(stop), methods=["POST"]),
        Route("/plotly.min.js", plotly_library),
    ]


async def plotly_library(request: Request) -> Response:
    """Plotly's own build for browsers, as its Python package brings it. Nothing of the package is imported."""
    folder = Path(next(iter(find_spec("plotly").submodule_search_locations)))
    headers = {"cache-control": "max-age=86400"}
    return FileResponse(folder / "package_data" / "plotly.min.js", media_type="text/javascript", headers=headers)


async def body(request: Request, most: int) -> bytes:
    """The request's body. Raises UserError when it is longer than `most` bytes, before all of it is read."""
    out = bytearray()
    async for part in request.stream():
        out += part
        if len(out) > most:
            raise UserError(f"That is longer than the page takes ({most / 1e6:g} MB).")
    return bytes(out)


async def _told(read: Any) -> Response:
    """The lines of the runs that `read` reads, checked on a thread: a large file must not hold up the others."""
    lines = await asyncio.get_running_loop().run_in_executor(_threads, lambda: shown(read()))
    return PlainTextResponse("".join(f"{line}\n" for line in lines), headers=STREAM)


def _is_here(request: Request) -> bool:
    """Whether the browser is on this machine, as far as can be told; behind a proxy it is not."""
    passed_on = {"x-forwarded-for", "forwarded"} & set(request.headers)
    return request.client is not None and request.client.host in ("127.0.0.1", "::1") and not passed_on


async def _json(request: Request) -> dict[str, Any]:
    try:
        data = json.loads(await body(request, MOST_BYTES))
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise UserError("The page sent something that cannot be read: reload it.")
    return data


def _stream(frames: Iterator[list[str]], stop: Any, end: Any) -> Response:
    """`frames` as they come, made on a thread; when nobody reads on, this is cancelled, and calls `stop`."""

    loop = asyncio.get_running_loop()

    async def lines() -> AsyncIterator[str]:
        try:
            while (frame := await loop.run_in_executor(_threads, next, frames, None)) is not None:
                if frame:
                    yield "".join(f"{line}\n" for line in frame)
        finally:
            stop()
            end()

    return StreamingResponse(lines(), media_type="application/x-ndjson", headers=STREAM)
