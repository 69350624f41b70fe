"""What the page asks of the program: refused from elsewhere, refused in a sentence, and streamed line by line."""

from __future__ import annotations

import json
import time

import pytest
from replay import ReplayEngine
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from app.kept_assets import KeptAssets
from app.lessons import LESSONS
from app.routes import routes
from app.run_page import FRAME_SECONDS, SHARED_FRAME_SECONDS, PageRun
from engines.events import from_json, to_json
from engines.fold import fold
from engines.presets import PRESETS
from engines.settings import RunSettings

OURS = {"x-specplay": "1"}
WORDS = [f" word{i}" for i in range(40)]
FORM = {
    "proposer": "ngram", "draft": None, "k": 4, "temperature": 0, "adaptive": False, "verify": "token", "top_k": 0,
    "top_p": 1, "min_p": 0, "repetition_penalty": 1, "ngram_min": 1, "ngram_max": 4, "skip_layers": "", "branch": 0,
}  # fmt: skip
ASKED = {"name": "one", "prompt": "p", "max_tokens": 64, "seed": 0, "panels": {"A": FORM}}


@pytest.fixture
def engine():
    return ReplayEngine(lambda run: run.play(WORDS, 4000, "eos"))


@pytest.fixture
def page(engine):
    with TestClient(Starlette(routes=routes(engine, "smollm2-135m-instruct"))) as client:
        yield client


def lines(text):
    """(view, JSON) of each line."""
    split = (line.partition("\t") for line in text.splitlines())
    return [(view, json.loads(data)) for view, _, data in split]


def test_a_run_comes_as_lines_for_its_views(page, engine):
    answer = page.post("/specplay/run", json=ASKED, headers=OURS)
    assert answer.status_code == 200
    sent = lines(answer.text)
    assert {view for view, _ in sent} == {"baseline 1", "A"}
    events = [from_json(json.dumps(data)) for view, data in sent if view == "A" and data["type"] != "page"]
    assert fold(events).text() == "".join(WORDS)
    assert [r.settings.candidates for r in engine.runs] == [5, 5]


@pytest.mark.parametrize(
    ("browser", "headers", "expected"),
    [
        ("127.0.0.1", {}, SHARED_FRAME_SECONDS),
        ("::1", {}, SHARED_FRAME_SECONDS),
        ("192.168.1.7", {}, FRAME_SECONDS),
        ("127.0.0.1", {"x-forwarded-for": "203.0.113.9"}, FRAME_SECONDS),  # a proxy on this machine, such as a Space's
    ],
)
def test_a_browser_elsewhere_takes_nothing_from_the_engine(engine, monkeypatch, browser, headers, expected):
    begun = []

    class Noted(PageRun):
        def __init__(self, *own):
            super().__init__(*own)
            begun.append(self.frame_seconds)

    monkeypatch.setattr("app.routes.PageRun", Noted)
    app = Starlette(routes=routes(engine, "smollm2-135m-instruct"))
    with TestClient(app, client=(browser, 50000)) as client:
        assert client.post("/specplay/run", json=ASKED, headers=OURS | headers).status_code == 200
    assert begun == [expected]


def test_the_lessons_come_with_their_figures(page):
    told = page.get("/specplay/lessons").json()
    assert [lesson["name"] for lesson in told] == [lesson.name for lesson in LESSONS]
    assert all(part and "{" not in part for lesson in told for part in lesson["text"])


def test_gradios_own_files_are_kept_and_nothing_else():
    def there(request):
        return PlainTextResponse("x", headers={"cache-control": "no-cache"})

    app = Starlette(
        routes=[Route("/assets/index-abc.js", there), Route("/theme.css", there)], middleware=[Middleware(KeptAssets)]
    )
    with TestClient(app) as client:
        kept = client.get("/assets/index-abc.js").headers
        assert kept.get_list("cache-control") == ["public, max-age=31536000, immutable"]
        assert client.get("/theme.css").headers["cache-control"] == "no-cache"
        assert "immutable" not in client.get("/assets/none.js").headers.get("cache-control", "")


@pytest.mark.parametrize("path", ["run", "stop", "law", "show", "recorded/round"])
def test_only_the_pages_own_requests_are_taken(page, engine, path):
    answer = page.post(f"/specplay/{path}", json=ASKED)
    assert answer.status_code == 403 and engine.runs == []
    assert page.get(f"/specplay/{path}", headers=OURS).status_code == 405


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"3", b"{", b"[" * 100_000, json.dumps({**ASKED, "prompt": 3}).encode(), b'{"name": "x"}'],
)
def test_what_no_page_sends_is_a_sentence(page, engine, body):
    answer = page.post("/specplay/run", content=body, headers=OURS)
    assert answer.status_code == 400 and "reload" in answer.json()["message"]
    assert engine.runs == []


def test_a_request_has_a_limit(page):
    answer = page.post("/specplay/run", content=b"x" * 1_100_000, headers=OURS)
    assert answer.status_code == 400 and "longer than the page takes" in answer.json()["message"]


def test_a_stopped_run_ends_its_stream(engine, page):
    engine.script = lambda run: run.play(WORDS * 100, 100, "eos")
    import threading

    got = []
    reader = threading.Thread(target=lambda: got.append(page.post("/specplay/run", json=ASKED, headers=OURS).text))
    reader.start()
    deadline = time.monotonic() + 10
    while not (engine.runs and len(engine.runs[0].events) > 5) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert page.post("/specplay/stop", json={"name": "another"}, headers=OURS).status_code == 204
    assert reader.is_alive()
    assert page.post("/specplay/stop", json={"name": "one"}, headers=OURS).status_code == 204
    reader.join(10)
    assert not reader.is_alive()
    assert [data["reason"] for _, data in lines(got[0]) if data["type"] == "done"] == ["stopped"]


def test_the_first_look_begins_the_loading(page, engine):
    seen = []
    engine.preload = seen.append
    engine.state = lambda: {"phase": "idle", "message": "", "fraction": None}
    assert page.get("/specplay/state").json()["target"] == "smollm2-135m-instruct"
    assert seen == [RunSettings(target="smollm2-135m-instruct")]


def trace(engine):
    return "".join(to_json(event) + "\n" for run in engine.runs for event in run.events)


def test_saved_runs_come_back_as_they_were(page, engine):
    first = page.post("/specplay/run", json={**ASKED, "panels": {"A": FORM, "C": {**FORM, "k": 2}}}, headers=OURS).text
    answer = page.post("/specplay/show", content=trace(engine).encode(), headers=OURS)
    assert answer.status_code == 200
    (view, layout), *rest = lines(answer.text)
    assert view == "page" and [p["k"] for p in layout["panels"]] == [4, 2]
    for old, new in (("baseline 1", "baseline 1"), ("A", "A"), ("C", "B")):
        before = [data for name, data in lines(first) if name == old]
        after = [data for name, data in rest if name == new]
        assert [d for d in before if d["type"] != "page"] == [d for d in after if d["type"] != "page"] != []
        assert [d for d in before if "sentence" in d] == [d for d in after if "sentence" in d]


def test_a_run_without_its_baseline_gets_no_number(page, engine):
    page.post("/specplay/run", json=ASKED, headers=OURS)
    alone = "".join(to_json(event) + "\n" for event in engine.runs[1].events)
    sent = lines(page.post("/specplay/show", content=alone.encode(), headers=OURS).text)
    assert [d["instead"] for _, d in sent if d.get("type") == "page" and "instead" in d] == ["not known"]


@pytest.mark.parametrize("content", [b"", b"hello", b"\xff\xfe", b'{"type":"start"}', b"[" * 50_000])
def test_a_file_that_holds_no_runs_is_a_sentence(page, content):
    answer = page.post("/specplay/show", content=content, headers=OURS)
    assert answer.status_code == 400 and len(answer.json()["message"]) > 20


@pytest.mark.parametrize("name", PRESETS)
def test_every_recorded_run_can_be_shown(page, name):
    answer = page.post(f"/specplay/recorded/{name}", headers=OURS)
    assert answer.status_code == 200
    (_, layout), *rest = lines(answer.text)
    assert len(layout["panels"]) == len(PRESETS[name].panels)
    assert sum("speedup" in d for _, d in rest) == len(layout["panels"])


@pytest.mark.parametrize("name", ["nothing", "..%2F..%2FREADME", "%2e%2e"])
def test_no_other_file_can_be_read(page, name):
    assert page.post(f"/specplay/recorded/{name}", headers=OURS).status_code in (400, 404)


def test_plotlys_library_is_served(page):
    answer = page.get("/plotly.min.js")
    assert answer.status_code == 200 and "javascript" in answer.headers["content-type"] and len(answer.content) > 1e6
