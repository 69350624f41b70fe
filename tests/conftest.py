"""What the tests share: the default model, loaded once."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `fakes` and `prompts`
sys.path.insert(0, str(Path(__file__).parent.parent))  # for `engines` and `app`, wherever pytest was started
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")


@pytest.fixture(scope="session")
def models():
    """The real thing: fetches the default model on first use."""
    from engines.models import Models

    return Models()


@pytest.fixture(scope="session")
def plain_runs(models, tmp_path_factory, worker_id):
    """plain_runs(prompt, dtype, n=64, **settings) -> the events of that plain run, greedy unless told otherwise.

    Each is computed once, whichever process of the tests asks first: it takes most of their time.
    """
    from filelock import FileLock

    from engines.decode import decode
    from engines.events import from_json, to_json
    from engines.settings import RunSettings

    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "plain"
    folder.mkdir(exist_ok=True)
    known = {}

    def get(prompt, dtype, n=64, **settings):
        key = repr((prompt, dtype, n, sorted(settings.items())))
        if key not in known:
            path = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.jsonl"
            with FileLock(f"{path}.lock"):
                if not path.exists():
                    job = models.job(RunSettings(dtype=dtype, max_new_tokens=n, **settings), prompt, lambda *a: None)
                    path.write_text("".join(f"{to_json(event)}\n" for event in decode(job)), encoding="utf-8")
            known[key] = [from_json(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
        return known[key]

    return get


@pytest.fixture(scope="session")
def model_folder() -> Path:
    from engines import catalogue

    return catalogue.resolve("smollm2-135m-instruct")
