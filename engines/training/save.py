"""What training leaves: a folder with the weights in float16 and their card; and back from there to a net."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from ..errors import UserError
from ..model.config import ModelConfig
from ..model.head_load import KIND, VERSION, card_of
from ..model.weights import Weights
from .net import HeadNet, Shape
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
    tensors = {k: v.detach().to(torch.float16).cpu().contiguous() for k, v in net.state_dict().items()}
    tensors["vocabulary"] = torch.from_numpy(vocabulary.astype(np.int32))
    part = folder / "model.safetensors.part"
    save_file(tensors, part)
    part.replace(folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")


def saved_net(folder: Path, target: ModelConfig, kind: str) -> tuple[HeadNet, np.ndarray]:
    """The net in such a folder, to be trained further, and its vocabulary [V']: the target's ids, ascending.

    Raises UserError when it is damaged, of another target's measures, or not a `kind` ("head" or "draft").
    """
    card = card_of(folder)
    made = card["target"]
    if any(made.get(k) != getattr(target, k) for k in ("hidden", "layers", "vocab")):
        raise UserError(f"{folder} was made for {made.get('name', 'another target')}: leave --begin out.")
    try:
        shape = Shape(**{**card["shape"], "taps": tuple(card["shape"]["taps"])})
    except (KeyError, TypeError) as error:
        raise UserError(f"{folder / 'config.json'} is incomplete ({error!r}); get the folder again.") from None
    if bool(shape.taps) != (kind == "head"):
        raise UserError(f"{folder} holds a {'head' if shape.taps else 'draft'}, not a {kind}: leave --begin out.")
    net, weights = HeadNet(shape), Weights(folder)
    net.load_state_dict({k: weights.read(k, tuple(v.shape)).float() for k, v in net.state_dict().items()})
    return net, weights.read("vocabulary", (shape.vocab,), whole=True).numpy().astype(np.int64)
