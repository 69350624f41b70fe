"""Take a model, or training data, along to a machine that nothing can be fetched from: a folder in parts, and back.

    python -m engines.training.parts cut FOLDER PARTS      a folder -> files of at most 60 MB, and their checksums
    python -m engines.training.parts join PARTS FOLDER     the same folder again, each byte checked

on_gpu.sh, beside this file, trains a head from such parts.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

from ..errors import UserError

MOST = 60_000_000  # bytes of a part: what most ways of carrying a file allow
LIST = "parts.json"


def cut(folder: Path, out: Path, most: int = MOST) -> list[Path]:
    """Write the files of `folder` (none of its subfolders) as parts into `out`, and a list of them."""
    files = sorted(p for p in folder.iterdir() if p.is_file()) if folder.is_dir() else []
    if not files:
        raise UserError(f"{folder} is no folder with files.")
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()):
        raise UserError(f"{out} is not empty: name a new folder for the parts.")
    listed: dict[str, list[dict]] = {}
    written: list[Path] = []
    for path in files:
        listed[path.name] = []
        with path.open("rb") as file:
            while block := file.read(most):
                part = out / f"{len(written):04}.part"
                part.write_bytes(block)
                written.append(part)
                listed[path.name].append({"part": part.name, "sha256": hashlib.sha256(block).hexdigest()})
    (out / LIST).write_text(json.dumps(listed, indent=1), encoding="utf-8")
    return written


def join(parts: Path, folder: Path) -> None:
    """Put together what `cut` took apart. Raises UserError for a part that is missing or not what it was."""
    try:
        listed = json.loads((parts / LIST).read_text(encoding="utf-8"))
        plan = [(str(name), [(str(x["part"]), str(x["sha256"])) for x in rows]) for name, rows in listed.items()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise UserError(f"{parts} does not hold parts: it has no {LIST} that can be read.") from None
    names = [name for name, _ in plan] + [part for _, rows in plan for part, _ in rows]
    if any(Path(name).name != name or name in ("", ".", "..") for name in names):
        raise UserError(f"{parts / LIST} names files outside its folder.")
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in plan:
        whole = folder / (name + ".part")
        with whole.open("wb") as file:
            for part, wanted in rows:
                try:
                    block = (parts / part).read_bytes()
                except OSError as error:
                    raise UserError(f"The part {part} cannot be read ({error.strerror}): bring it again.") from None
                if hashlib.sha256(block).hexdigest() != wanted:
                    raise UserError(f"The part {part} is damaged: bring it again.")
                file.write(block)
        whole.replace(folder / name)


def main(args: list[str]) -> int:
    if len(args) != 3 or args[0] not in ("cut", "join"):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        if args[0] == "cut":
            written = cut(Path(args[1]), Path(args[2]))
            print(f"{len(written)} parts, {sum(p.stat().st_size for p in written):,} bytes, in {args[2]}.")
        else:
            join(Path(args[1]), Path(args[2]))
            print(f"{args[2]} is whole.")
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
