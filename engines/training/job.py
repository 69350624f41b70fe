"""One training from end to end: the target's text, the net, the training, the folder that comes out."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .. import __version__
from ..catalogue import resolve
from ..errors import UserError
from ..model.decoder import Decoder
from ..model.load import choose_device, load
from ..text import load_tokenizer
from .answers import answer_prompts
from .batches import Batches, frequent_tokens
from .save import save_head, saved_net
from .selftalk import SelfTalk
from .start import Target, begin, default_taps, shape_for
from .store import Store
from .texts import read_files, read_texts
from .trainer import Recipe, Report, Trainer

Say = Callable[[str], None]
TOP = 16  # how many of the target's likeliest next tokens are kept
FEWEST = 40  # texts to learn from; one in so many is held out


@dataclass(frozen=True)
class Order:
    """What is to be made. `kind` is "head" or "draft"; `own_tokens` how many the target writes by itself."""

    kind: str
    target: str
    out: Path
    files: tuple[str, ...] = ()
    own_tokens: int = 200_000
    store: Path | None = None  # None: out/data
    begin: Path | None = None  # a folder that an earlier training wrote: its net is trained further
    layers: int = 0  # 0: one for a head, two for a draft
    vocab: int = 8192
    recipe: Recipe = dataclasses.field(default_factory=Recipe)
    epochs: float = 4.0  # how often the data is read, where the recipe has no steps of its own
    rows: int = 64
    seed: int = 0
    device: str = "auto"
    resume: bool = False


class Job:
    """`say` is told in words what happens, `report` how training goes; `stopped` ends either part within seconds."""

    def __init__(self, order: Order, say: Say, report: Callable[[Report], None], stopped: Callable[[], bool]) -> None:
        self.order, self.say, self.report, self.stopped = order, say, report, stopped

    def run(self) -> bool:
        """True when done, False when stopped before; then the same order with `resume` goes on."""
        o = self.order
        checkpoint = o.out / "checkpoint.safetensors"
        if not o.resume and (checkpoint.exists() or (o.out / "model.safetensors").exists()):
            raise UserError(f"{o.out} holds a training already: go on with it by --resume, or name another folder.")
        device = choose_device(o.device)
        folder = resolve(o.target, lambda fraction, message: self.say(message))
        self.target = Target(folder)
        self.earlier = None if o.begin is None else saved_net(o.begin, self.target.config, o.kind)
        store = self._data(folder)
        if store is None:
            return False
        o.out.mkdir(parents=True, exist_ok=True)
        plan = self._plan(store)
        net, batches, vocabulary = self._net(store, plan)
        recipe = o.recipe
        if not recipe.steps:
            an_epoch = sum(1 for _ in batches.epoch(recipe.seed, 0))
            recipe = dataclasses.replace(recipe, steps=max(1, round(o.epochs * an_epoch)))
        trainer = Trainer(net, batches, self.target.embedding(), recipe, device)
        self.say(f"Training on {device}.")
        if o.resume and checkpoint.exists():
            trainer.restore(checkpoint)
            self.say(f"Going on from step {trainer.step}.")
        begun, before = time.monotonic(), plan.get("seconds", 0.0)

        def save() -> None:
            trainer.save(checkpoint)
            plan["seconds"] = before + time.monotonic() - begun
            self._write_plan(plan)

        done = trainer.run(self.report, self.stopped, save)
        self._finish(trainer, net, vocabulary, store, plan, done)
        return done

    # -- data ----------------------------------------------------------------------------------------------------

    def _data(self, folder: Path) -> Store | None:
        """The store, filled as far as was ordered; None when stopped on the way."""
        o = self.order
        taps = default_taps(self.target.config.layers)
        meta = {"target": o.target, "taps": list(taps), "features": len(taps) * self.target.config.hidden, "top": TOP}
        store = Store(o.store or o.out / "data", meta)
        prompts, texts = read_files(o.files) if o.files else ([], [])
        if store.tokens >= o.own_tokens or (o.resume and (o.out / "plan.json").exists()):
            self.say(f"Training data: {store.tokens:,} tokens are there.")
            return self._enough(store)
        self.say(f"Loading {o.target}.")
        decoder = load(folder, "auto", o.device)
        if not isinstance(decoder, Decoder):
            raise UserError(
                f"{o.target} is run by transformers, and heads are trained for the compact decoder's families."
            )
        tokenizer = load_tokenizer(folder)
        begun, there = time.monotonic(), store.tokens
        told = [0.0]

        def progress(tokens: int) -> None:
            now = time.monotonic()
            if now - told[0] > 5:
                told[0] = now
                rate = (tokens - there) / max(1e-9, now - begun)
                left = max(0.0, (o.own_tokens - tokens) / rate) if rate > 0 else 0
                self.say(
                    f"Training data: {tokens:,} of {o.own_tokens:,} tokens, {rate:.0f} a second, {span(left)} left."
                )

        if texts:
            read_texts(decoder, tokenizer, store, texts, o.own_tokens, progress, self.stopped)
        if prompts:
            left = answer_prompts(
                decoder, tokenizer, store, prompts, o.own_tokens, progress, self.stopped, rows=o.rows, seed=o.seed
            )
            if left:
                self.say(f"{left} of {len(prompts)} prompts are left out: they are too long to be learnt from.")
        elif not texts:
            SelfTalk(decoder, tokenizer, store, rows=o.rows, seed=o.seed).run(o.own_tokens, progress, self.stopped)
        self.say(f"Training data: {store.tokens:,} tokens.")
        return None if self.stopped() else self._enough(store)

    def _enough(self, store: Store) -> Store:
        if len(store) < FEWEST:
            more = "give more of it, or leave --data out" if self.order.files else "raise --self"
            raise UserError(f"{len(store)} texts are too few to learn from ({FEWEST} at least): {more}.")
        return store

    # -- net -----------------------------------------------------------------------------------------------------

    def _plan(self, store: Store) -> dict[str, Any]:
        """What must stay the same when training is gone on with: the data's extent and the vocabulary."""
        path = self.order.out / "plan.json"
        if self.order.resume and path.exists():
            return json.loads(path.read_text(encoding="utf-8"))
        if self.earlier is not None:
            vocabulary = self.earlier[1]
        else:
            count = min(self.order.vocab, self.target.config.vocab)
            vocabulary = frequent_tokens(store, count, self.target.config.vocab, self.target.config.eos)
        plan = {"sequences": len(store), "tokens": store.tokens, "vocabulary": vocabulary.tolist(), "seconds": 0.0}
        self._write_plan(plan)
        return plan

    def _write_plan(self, plan: dict[str, Any]) -> None:
        (self.order.out / "plan.json").write_text(json.dumps(plan), encoding="utf-8")

    def _net(self, store: Store, plan: dict[str, Any]):
        o = self.order
        vocabulary = np.array(plan["vocabulary"], np.int64)
        taps = tuple(store.meta["taps"]) if o.kind == "head" else ()
        if self.earlier is not None:
            net, _ = self.earlier
            if net.shape.taps != taps:
                raise UserError(
                    f"{o.begin} reads the target behind layers {list(net.shape.taps)}, and the training data was "
                    f"taken behind {list(taps)}: leave --begin out."
                )
        else:
            layers = o.layers or (1 if o.kind == "head" else 2)
            net = begin(self.target, shape_for(self.target.config, layers, len(vocabulary), taps), vocabulary, o.seed)
        size = self.target.config.vocab
        batches = Batches(store, vocabulary, size, plan["sequences"], o.recipe.tokens, with_features=bool(taps))
        return net, batches, vocabulary

    def _finish(
        self, trainer: Trainer, net: Any, vocabulary: np.ndarray, store: Store, plan: dict[str, Any], done: bool
    ) -> None:
        o = self.order
        accepted = trainer.measure()
        about = {
            "target_name": o.target,
            "made_by": f"specplay {__version__}, torch {torch.__version__}",
            **({"begun_from": o.begin.name} if o.begin is not None else {}),
            "data": "the target's own text" if not o.files else ", ".join(Path(f).name for f in o.files),
            "data_tokens": plan["tokens"],
            "steps": trainer.step,
            "recipe": dataclasses.asdict(trainer.recipe),
            "hours": round(plan["seconds"] / 3600, 2),
            "threads": torch.get_num_threads(),
            "held_out_acceptance_by_depth": [round(a, 4) for a in accepted],
            "finished": done,
        }
        save_head(net, vocabulary, self.target, o.out, about)
        shown = ", ".join(f"{a:.2f}" for a in accepted)
        self.say(f"Held-out acceptance by depth: {shown}. Written to {o.out}.")


def span(seconds: float) -> str:
    return (
        f"{seconds / 3600:.1f} h"
        if seconds > 5400
        else f"{seconds / 60:.0f} min"
        if seconds > 90
        else f"{seconds:.0f} s"
    )


def answered(prompts: Sequence[str], store: Store, tokenizer: Any, size: int = 24) -> list[int]:
    """Which of `prompts` share a run of `size` tokens with the store: those were trained on."""
    ids = np.asarray(store.arrays()["ids"])
    runs = {ids[i : i + size].tobytes() for i in range(0, max(0, len(ids) - size + 1))}
    found = []
    for number, prompt in enumerate(prompts):
        own = np.array(tokenizer.encode(prompt, add_bos=False, specials=False), ids.dtype)
        if any(own[i : i + size].tobytes() in runs for i in range(0, max(1, len(own) - size + 1))):
            found.append(number)
    return found
