"""A report's files: report.html, report.json, runs.csv and what other engines are to be told; and reading one back."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..weights.places import disk_errors
from .exports import exports
from .html import page
from .report import VERSION

SUFFIX = {"shell": ".sh", "python": ".py"}


def write(report: dict[str, Any], folder: Path) -> list[Path]:
    """Writes the report's files into `folder` and names them. Raises UserError for a folder that cannot be written."""
    made = exports(report)
    files = {
        "report.html": page(report, made),
        "report.json": json.dumps(report, ensure_ascii=False, indent=1, allow_nan=False) + "\n",
        "runs.csv": runs_csv(report),
        **{f"exports/{_file(name)}{SUFFIX[e['kind']]}": export_text(e) for name, e in made.items()},
    }
    with disk_errors():
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_name(path.name + ".part")
            part.write_text(text, encoding="utf-8", newline="\n")
            part.replace(path)
    return [folder / name for name in files]


def _file(name: str) -> str:
    return name.lower().replace(" ", "-").replace(".", "-")


def export_text(e: dict[str, str]) -> str:
    """An export with its version and note as comments."""
    note = f"# Written for {e['version']}. {e['note']}\n"
    return note + e["text"] + ("" if e["text"].endswith("\n") else "\n")


def runs_csv(report: dict[str, Any]) -> str:
    """Every run that was measured, one a line, with a head."""
    rows = report["runs"]
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, list(rows[0]) if rows else ["block"], lineterminator="\n")
    writer.writeheader()
    writer.writerows([{k: round(v, 6) if isinstance(v, float) else v for k, v in row.items()} for row in rows])
    return out.getvalue()


def read(name: str) -> dict[str, Any]:
    """A report from its folder or its report.json. Raises UserError for anything else."""
    path = Path(name).expanduser()
    path = path / "report.json" if path.is_dir() else path
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from None
    except ValueError:
        raise UserError(
            f"{path} is not a tuning report: name a folder that `tune` wrote, or its report.json."
        ) from None
    if not isinstance(report, dict) or report.get("kind") != "tuning":
        raise UserError(f"{path} is not a tuning report: name a folder that `tune` wrote, or its report.json.")
    if report.get("v") != VERSION:
        raise UserError(f"{path} has report version {report.get('v')!r}; this program reads version {VERSION}.")
    return report
