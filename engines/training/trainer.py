"""The training itself: loss against the target's own law, held-out acceptance by depth, stop and resume.

The state that is saved (weights, optimisers, where in which epoch) is all that decides what follows, so a run that was
stopped and resumed ends with the same weights as one that was not.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

from ..errors import UserError
from .batches import Batch, Batches
from .muon import Muon
from .net import HeadNet


@dataclass(frozen=True)
class Recipe:
    """How long and how fast. `steps_ahead`: how deep the head is unrolled (1 for a draft)."""

    steps: int = 1000
    tokens: int = 2048  # a batch
    rate: float = 1e-3  # of the vocabulary layer and the norms
    matrix_rate: float = 2e-3  # of all other matrices
    warm_up: int = 50
    decay: float = 0.3  # the last share of the steps, over which the rate falls to nothing
    steps_ahead: int = 3
    fade: float = 0.8  # weight of each step ahead relative to the one before
    weight_decay: float = 0.0
    seed: int = 0

    def factor(self, step: int) -> float:
        """The rate's factor at a step: up, flat, down."""
        tail = max(1, int(self.steps * self.decay))
        return min(1.0, (step + 1) / max(1, self.warm_up), (self.steps - step) / tail)


@dataclass
class Report:
    """Where training is. `accepted` [depth]: share of held-out answer tokens whose first choice is foretold, by depth;
    `seconds_left` at the pace so far."""

    step: int
    steps: int
    loss: float
    accepted: list[float] | None
    seconds_left: float | None


class Trainer:
    """`embedding` [V, H]: the target's, float32 or float16, scaled as the target scales it. `net` is moved to `device`;

    on a GPU products are taken in bfloat16.
    """

    def __init__(
        self,
        net: HeadNet,
        batches: Batches,
        embedding: torch.Tensor,
        recipe: Recipe,
        device: str | torch.device = "cpu",
    ) -> None:
        self.device = torch.device(device)
        self.net, self.embedding = net.to(self.device), embedding.to(self.device)
        self.batches, self.recipe = batches, recipe
        self.depth = recipe.steps_ahead if net.shape.taps else 1
        self.step, self.epoch, self.at = 0, 0, 0
        self.loss = math.nan
        named = dict(net.named_parameters())
        matrices = [p for name, p in named.items() if p.ndim == 2 and not name.startswith("out.")]
        others = [p for name, p in named.items() if p.ndim != 2 or name.startswith("out.")]
        # The same loss in fewer steps than AdamW alone. A vocabulary's rows are not one map, and stay with AdamW.
        self.optimizers: list[tuple[torch.optim.Optimizer, float]] = [
            (Muon(matrices, recipe.matrix_rate), recipe.matrix_rate),
            (torch.optim.AdamW(others, recipe.rate, betas=(0.9, 0.95), weight_decay=recipe.weight_decay), recipe.rate),
        ]

    def run(
        self,
        report: Callable[[Report], None],
        stopped: Callable[[], bool] = lambda: False,
        save: Callable[[], None] = lambda: None,
        report_every: float = 10.0,
        measure_every: int = 200,
        save_every: float = 300.0,
    ) -> bool:
        """Train to the recipe's end; False when `stopped` said so before. `save` is called now and then and at last."""
        begun, first, told, saved = time.monotonic(), self.step, 0.0, time.monotonic()
        smooth = None
        for spans in self._spans():
            if self.step >= self.recipe.steps or stopped():
                break
            loss = self._learn(self._read(spans))
            smooth = loss if smooth is None else 0.95 * smooth + 0.05 * loss
            self.loss = smooth
            self.step += 1
            self.at += 1
            now = time.monotonic()
            measure = self.step % measure_every == 0 or self.step == self.recipe.steps
            if measure or now - told > report_every:
                left = (now - begun) / (self.step - first) * (self.recipe.steps - self.step)
                report(Report(self.step, self.recipe.steps, smooth, self.measure() if measure else None, left))
                told = now
            if now - saved > save_every:
                save()
                saved = now
        save()
        return self.step >= self.recipe.steps

    def _spans(self) -> Iterator[list[tuple[int, int]]]:
        while True:
            for i, spans in enumerate(self.batches.epoch(self.recipe.seed, self.epoch)):
                if i >= self.at:
                    yield spans
            self.epoch, self.at = self.epoch + 1, 0

    def _read(self, spans: list[tuple[int, int]]) -> Batch:
        return self.batches.read(spans).to(self.device)

    def _reduced(self) -> contextlib.AbstractContextManager:
        cuda = self.device.type == "cuda"
        return torch.autocast("cuda", torch.bfloat16) if cuda else contextlib.nullcontext()

    def _embed(self, batch: Batch) -> torch.Tensor:
        return self.embedding[batch.ids].float()

    def _learn(self, batch: Batch) -> float:
        self.net.train()
        with self._reduced():
            loss = self._loss(batch)
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        for optimizer, rate in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate * self.recipe.factor(self.step)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return float(loss.detach())

    def _loss(self, batch: Batch) -> torch.Tensor:
        """Cross entropy against the target's likeliest tokens, as far as the small vocabulary has them."""
        states = self.net.unroll(self._embed(batch), batch.features, self.depth)
        total, weights = torch.zeros((), device=self.device), 0.0
        for j, state in enumerate(states):
            chosen = batch.ahead(j)
            if not chosen.any():
                continue
            log_q = self.net.logits(state[chosen]).float().log_softmax(-1)
            ids, p = batch.top_ids[chosen], batch.top_p[chosen]
            p = torch.where(ids >= 0, p, 0.0)
            share = self.recipe.fade**j
            total = total - share * (p * log_q.gather(-1, ids.clamp(min=0))).sum(-1).mean()
            weights += share
        return total / max(weights, 1e-9)

    @torch.no_grad()
    def measure(self, depth: int | None = None) -> list[float]:
        """Held-out answers: how often the first choice is the target's, by depth (a token outside counts as missed)."""
        self.net.eval()
        depth = depth or (max(self.depth, 5) if self.net.shape.taps else 1)
        good, all_ = [0] * depth, [0] * depth
        for spans in self.batches.held():
            batch = self._read(spans)
            with self._reduced():
                self._count(batch, depth, good, all_)
        return [g / max(1, a) for g, a in zip(good, all_, strict=True)]

    def _count(self, batch: Batch, depth: int, good: list[int], all_: list[int]) -> None:
        for j, state in enumerate(self.net.unroll(self._embed(batch), batch.features, depth)):
            answer = batch.ahead(j)
            if not answer.any():
                continue
            first = self.net.logits(state[answer]).argmax(-1)
            good[j] += int((first == batch.best[answer]).sum())
            all_[j] += int(answer.sum())

    # -- stop and resume ---------------------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        """Weights, optimiser and place, as safetensors; whole or not at all."""
        tensors = {f"net.{k}": v for k, v in self.net.state_dict().items()}
        for o, (optimizer, _) in enumerate(self.optimizers):
            for i, own in optimizer.state_dict()["state"].items():
                tensors |= {f"optimizer.{o}.{i}.{k}": v for k, v in own.items()}
        place = {"step": self.step, "epoch": self.epoch, "at": self.at}
        part = path.with_name(path.name + ".part")
        save_file({k: v.cpu().contiguous() for k, v in tensors.items()}, part, {"place": json.dumps(place)})
        part.replace(path)

    def restore(self, path: Path) -> None:
        """Go on from what `save` wrote. Raises UserError when it does not belong to this net."""
        try:
            with safe_open(path, "pt") as file:
                place = json.loads(file.metadata()["place"])
                tensors = {k: file.get_tensor(k) for k in file.keys()}  # noqa: SIM118 - not a dict
            net = {k.removeprefix("net."): v for k, v in tensors.items() if k.startswith("net.")}
            self.net.load_state_dict(net)
            states: list[dict[int, dict]] = [{} for _ in self.optimizers]
            for k, v in tensors.items():
                if k.startswith("optimizer."):
                    _, o, i, name = k.split(".")
                    states[int(o)].setdefault(int(i), {})[name] = v
            for (optimizer, _), state in zip(self.optimizers, states, strict=True):
                optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
            self.step, self.epoch, self.at = place["step"], place["epoch"], place["at"]
        except (OSError, ValueError, LookupError, TypeError, RuntimeError, SafetensorError) as error:
            raise UserError(f"{path} cannot be gone on from ({str(error).splitlines()[0]}): begin anew.") from None
