"""What training leaves: a folder with the weights in float16, their card for programs, and one for people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from ..model.head_load import KIND, VERSION
from .net import HeadNet
from .start import Target


def save_head(net: HeadNet, vocabulary: np.ndarray, target: Target, folder: Path, about: dict[str, Any]) -> None:
    """Write `folder`, whole or not at all. `about` goes into config.json: `target_name`, what it was trained on, ..."""
    c = target.config
    card = {
        "model_type": KIND,
        "version": VERSION,
        "target": {"name": about["target_name"], "hidden": c.hidden, "layers": c.layers, "vocab": c.vocab},
        "shape": net.shape.to_json(),
        "training": about,
    }
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {k: v.detach().to(torch.float16).contiguous() for k, v in net.state_dict().items()}
    tensors["vocabulary"] = torch.from_numpy(vocabulary.astype(np.int32))
    part = folder / "model.safetensors.part"
    save_file(tensors, part)
    part.replace(folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
