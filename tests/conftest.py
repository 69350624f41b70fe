"""What the tests share: the default model, loaded once."""

from __future__ import annotations

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
def model_folder() -> Path:
    from engines import catalogue

    return catalogue.resolve("smollm2-135m-instruct")
