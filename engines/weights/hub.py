"""Model files from the model hub, through huggingface_hub and its own cache (shared with other programs)."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path

from ..errors import UserError
from .places import Progress, missing, need_space, shards
from .wheels import SourceFailed

ANSWER_SECONDS = 4.0  # an unreachable hub must not keep anybody waiting
SMALL = (".json", ".jinja")
TOKENIZERS = ("tokenizer.model", "merges.txt")


def disabled() -> bool:
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


def cached(repo: str) -> Path | None:
    """The whole model in the hub's cache on this machine, or None. Asks nobody."""
    from huggingface_hub import constants

    place = Path(constants.HF_HUB_CACHE) / ("models--" + repo.replace("/", "--"))
    try:
        folder = place / "snapshots" / (place / "refs" / "main").read_text("ascii").strip()
    except (OSError, ValueError):
        return None
    return folder if missing(folder) is None else None


def fetch(repo: str, tell: Progress) -> Path:
    """The folder of `repo` on this machine, fetched as far as it is not there.

    Only safetensors, JSON and tokenizer files: no pickles, no code. Raises SourceFailed when the hub is off, cannot
    be reached or will not give it; UserError when it can, but the model is of no use here.
    """
    here = cached(repo)
    if here is not None:
        return here
    if disabled():
        raise SourceFailed("switched off by HF_HUB_OFFLINE")
    tell(None, f"asking the model hub for {repo}")
    with _reasons(repo):
        files = _list(repo)
    wanted = _small(files)
    if "model.safetensors.index.json" not in files and "model.safetensors" not in files:
        raise UserError(f"{repo} has no safetensors; this program reads no other weights from the hub.")
    total = sum(files[f] for f in wanted)
    bar = _Bar(tell, repo, lambda: total)
    folder = None
    for name in wanted:  # the weights come last: a folder that has them has all of it
        folder = Path(_get(repo, name, bar)).parent
    weights = ["model.safetensors"]
    if "model.safetensors.index.json" in files:
        weights = shards(folder / "model.safetensors.index.json")
    total += sum(files.get(f, 0) for f in weights)
    need_space(folder, sum(files.get(f, 0) for f in weights if not (folder / f).exists()))
    for name in weights:
        folder = Path(_get(repo, name, bar)).parent
    lacks = missing(folder)
    if lacks is not None:
        raise UserError(f"{repo} lacks {lacks}; choose another model.")
    return folder


def _list(repo: str) -> dict[str, int]:
    """The repository's files and their sizes."""
    from huggingface_hub import HfApi

    info = HfApi().model_info(repo, files_metadata=True, timeout=ANSWER_SECONDS)
    return {f.rfilename: f.size or 0 for f in info.siblings or []}


def _small(files: dict[str, int]) -> list[str]:
    """All but the weights; nothing out of sub-folders, where other formats are kept."""
    return sorted(f for f in files if "/" not in f and (f.endswith(SMALL) or f in TOKENIZERS))


def _get(repo: str, name: str, bar: _Bar) -> str:
    from huggingface_hub import hf_hub_download

    with _reasons(repo):
        return hf_hub_download(repo, name, etag_timeout=ANSWER_SECONDS, tqdm_class=bar.tqdm())


class _reasons:
    """Turns the hub's errors into one sentence each. A full disk stays what it is."""

    def __init__(self, repo: str) -> None:
        self.repo = repo

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind, error, trace) -> None:
        from huggingface_hub import errors

        if error is None or not isinstance(error, Exception) or isinstance(error, (UserError, SourceFailed)):
            return
        if isinstance(error, errors.GatedRepoError):
            raise SourceFailed(
                f"it wants its licence accepted: do so at https://huggingface.co/{self.repo}, then run 'hf auth login'"
            ) from None
        if isinstance(error, errors.RepositoryNotFoundError):
            raise SourceFailed("it has no such model, or only for people who are logged in") from None
        if isinstance(error, errors.HFValidationError):
            raise UserError(f"{self.repo!r} is not a name that a model can have.") from None
        if isinstance(error, OSError) and getattr(error, "errno", None) and not isinstance(error, ConnectionError):
            return
        first = str(error).strip().splitlines()[:1]
        raise SourceFailed(f"it cannot be reached ({(first or [type(error).__name__])[0][:160]})") from None


class _Bar:
    """Sums what all downloads of one model have brought so far."""

    def __init__(self, tell: Progress, repo: str, total: Callable[[], int]) -> None:
        self.tell, self.repo, self.total, self.done = tell, repo, total, 0

    def add(self, n: float) -> None:
        self.done += n
        total = self.total()
        fraction = min(1.0, self.done / total) if total else None
        message = f"fetching {self.repo} from the model hub ({self.done / 1e6:,.0f} of {total / 1e6:,.0f} MB)"
        self.tell(fraction, message)

    def tqdm(self):
        """A class that huggingface_hub can use as its progress bar, and that prints nothing."""
        from tqdm import tqdm

        add = self.add

        class Quiet(tqdm):
            def __init__(self, *args, **kwargs):
                kwargs.pop("name", None)
                kwargs.update(file=io.StringIO(), disable=False)
                super().__init__(*args, **kwargs)
                if self.n:  # what an interrupted download had already brought
                    add(self.n)

            def update(self, n=1):
                if n:
                    add(n)
                return super().update(n)

        return Quiet
