"""A folder taken apart and put together again."""

from __future__ import annotations

import json

import pytest

from engines.errors import UserError
from engines.training.parts import LIST, cut, join, main


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "model"
    made.mkdir()
    (made / "weights").write_bytes(bytes(range(256)) * 10)
    (made / "config.json").write_text('{"é": 1}', encoding="utf-8")
    (made / "empty").write_bytes(b"")
    return made


def test_the_same_files_come_back(folder, tmp_path):
    parts = cut(folder, tmp_path / "parts", most=1000)
    assert len(parts) == 4 and max(p.stat().st_size for p in parts) <= 1000
    join(tmp_path / "parts", tmp_path / "again")
    assert {p.name: p.read_bytes() for p in (tmp_path / "again").iterdir()} == {
        p.name: p.read_bytes() for p in folder.iterdir()
    }


def test_a_damaged_or_missing_part_is_named(folder, tmp_path):
    parts = cut(folder, tmp_path / "parts", most=1000)
    kept = parts[-1].read_bytes()
    parts[-1].write_bytes(kept[:-1] + b"!")
    with pytest.raises(UserError, match=r"0003\.part is damaged"):
        join(tmp_path / "parts", tmp_path / "again")
    parts[-1].unlink()
    with pytest.raises(UserError, match=r"0003\.part cannot be read"):
        join(tmp_path / "parts", tmp_path / "again")


def test_nothing_is_written_outside(folder, tmp_path):
    cut(folder, tmp_path / "parts")
    listed = json.loads((tmp_path / "parts" / LIST).read_text())
    listed["../escaped"] = listed.pop("weights")
    (tmp_path / "parts" / LIST).write_text(json.dumps(listed))
    with pytest.raises(UserError, match="outside its folder"):
        join(tmp_path / "parts", tmp_path / "again")
    assert not (tmp_path / "escaped").exists()


def test_what_is_no_folder_is_said(folder, tmp_path, capsys):
    assert main(["cut", str(tmp_path / "none"), str(tmp_path / "p")]) == 2
    assert main(["join", str(folder), str(tmp_path / "p")]) == 2
    assert main(["cut", str(folder), str(folder)]) == 2
    assert main([]) == 2
    said = capsys.readouterr().err
    assert "is no folder with files" in said and "does not hold parts" in said and "is not empty" in said
