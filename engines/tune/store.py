"""What a tuning has measured, on disk line by line, so that it can be gone on with after an interruption."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..cost import Calibration
from ..errors import UserError
from ..weights.places import disk_errors
from .sample import Sample

FILE = "runs.jsonl"
VERSION = 1


class Store:
    """`order` is what two tunings must have in common for one to go on with the other's runs; without a folder nothing

    is kept. Raises UserError when the folder holds a tuning of another order.
    """

    def __init__(self, folder: Path | None, order: dict[str, Any]) -> None:
        self.path = folder / FILE if folder else None
        self.order = {"v": VERSION, **order}
        self.samples: list[Sample] = []
        self.calibration: Calibration | None = None
        self.finalists: tuple[int, list[str]] | None = None  # blocks before the confirming, and the names
        self.dropped: list[tuple[str, str]] = []
        self.skipped: list[int] = []
        self.spent = 0.0
        if self.path is None:
            return
        with disk_errors():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.exists() and self.path.stat().st_size:
                self._read(self.path.read_text(encoding="utf-8"))
            else:
                self._write({"order": self.order})

    @property
    def resumed(self) -> bool:
        return bool(self.samples)

    def _read(self, content: str) -> None:
        lines = content.split("\n")
        whole = lines[:-1]  # a line that an interruption cut in two has no end
        try:
            rows = [json.loads(line) for line in whole]
            if rows and rows[0]["order"] != json.loads(json.dumps(self.order)):
                was, now = rows[0]["order"], self.order
                differing = ", ".join(
                    sorted(k for k in {*was, *now} if was.get(k) != json.loads(json.dumps(now.get(k))))
                )
                raise UserError(
                    f"{self.path.parent} holds a tuning of another kind (it differs in: {differing}). Name another "
                    "folder with --out, or remove that one."
                )
            for row in rows[1:]:
                self._take(row)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError):
            raise UserError(f"{self.path} is damaged: remove it, or name another folder with --out.") from None
        if not whole:
            self.path.write_text("", encoding="utf-8")
            self._write({"order": self.order})
        elif lines[-1]:
            self.path.write_text("\n".join(whole) + "\n", encoding="utf-8")

    def _take(self, row: dict[str, Any]) -> None:
        self.spent = row.get("spent", self.spent)
        if "samples" in row:
            self.samples += [Sample.from_json(s) for s in row["samples"]]
        elif "calibration" in row:
            self.calibration = Calibration.from_json(row["calibration"])
        elif "finalists" in row:
            self.finalists = row["blocks"], row["finalists"]
        elif "dropped" in row:
            self.dropped.append((row["dropped"], row["why"]))
        elif "skipped" in row:
            self.skipped.append(row["skipped"])

    def _write(self, row: dict[str, Any]) -> None:
        if self.path is not None:
            with disk_errors(), self.path.open("a", encoding="utf-8", newline="\n") as file:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")

    def block(self, samples: list[Sample], spent: float) -> None:
        """A whole block: of one that was interrupted nothing is kept, as its runs would not have been neighbours."""
        self.samples += samples
        self.spent = spent
        self._write({"samples": [s.to_json() for s in samples], "spent": round(spent, 3)})

    def calibrated(self, calibration: Calibration, spent: float) -> None:
        self.calibration, self.spent = calibration, spent
        self._write({"calibration": calibration.to_json(), "spent": round(spent, 3)})

    def chosen(self, blocks: int, finalists: list[str]) -> None:
        self.finalists = blocks, finalists
        self._write({"finalists": finalists, "blocks": blocks})

    def drop(self, name: str, why: str) -> None:
        self.dropped.append((name, why))
        self._write({"dropped": name, "why": why})

    def skip(self, prompt: int) -> None:
        self.skipped.append(prompt)
        self._write({"skipped": prompt})
