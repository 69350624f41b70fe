"""From names to things that run: folders, weights, tokenizers, and a `Job` with everything checked."""

from __future__ import annotations

import platform
import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from . import __version__, cost, heads
from .adaptive import AdaptiveLength, FixedLength
from .catalogue import resolve
from .decode import Job, decode
from .errors import UserError
from .events import Start
from .layer_search import Found, Search, known
from .model.head import Head
from .model.head_load import load_head
from .model.load import load
from .proposers.auto import AutoProposer, Member
from .proposers.base import Proposer
from .proposers.draft_model import DraftModelProposer
from .proposers.eagle import EagleProposer
from .proposers.layer_skip import LayerSkipProposer
from .proposers.ngram import NgramProposer
from .proposers.none import NoProposer
from .proposers.recycle import RecycleProposer
from .proposers.suffix import Memory, SuffixProposer
from .settings import PROPOSERS, RunSettings, Sampling
from .text import load_tokenizer
from .text.stream import TextStream
from .text.vocab import check_shared_vocabulary

Say = Callable[..., None]  # (phase, message, fraction=None)
KEEP = 4  # loaded models; the one unused for longest goes first


@dataclass
class Loaded:
    """A model in memory. `name` is what it was asked for by."""

    name: str
    decoder: Any
    tokenizer: Any
    verify: dict[int, float] = field(default_factory=dict)  # v(n), measured on first need
    pass_seconds: float = 0.0
    skip_cost: dict[tuple[int, ...], float] = field(default_factory=dict)
    head: Any = None  # a trained head, beside its target
    memory: Memory = field(default_factory=Memory)  # outputs of earlier runs on this target


class Models:
    """Loads each model once. Not for two threads at a time: the engine's one thread owns it."""

    def __init__(self) -> None:
        self._loaded: OrderedDict[tuple[str, ...], Loaded] = OrderedDict()

    def get(self, name: str, dtype: str, device: str, say: Say) -> Loaded:
        key = (name, dtype, device)
        if key not in self._loaded:
            folder = resolve(name, lambda fraction, message: say("fetching", message, fraction))
            say("loading", f"Loading {name}.")
            decoder = load(folder, dtype, device, progress=lambda fraction, message: say("loading", message, fraction))
            self._loaded[key] = Loaded(name, decoder, load_tokenizer(folder))
            _warm_up(decoder)
        return self._used(key)

    def _used(self, key: tuple[str, ...]) -> Loaded:
        """The model, marked as used last; those unused for longest make room."""
        self._loaded.move_to_end(key)
        while len(self._loaded) > KEEP:
            self._loaded.popitem(last=False)
        return self._loaded[key]

    def trained(self, settings: RunSettings, target: Loaded, kind: str, say: Say) -> Loaded:
        """A trained head ("eagle") or draft, loaded beside its target, whose embedding it shares."""
        folder = heads.resolve(settings.draft, target.name, kind)
        key = (str(folder), target.name, settings.dtype, settings.device)
        if key not in self._loaded:
            say("loading", f"Loading {folder.name}.")
            made = load_head(folder, target.decoder, folder.name)
            if isinstance(made, Head) != (kind == "eagle"):
                raise UserError(f"{folder.name} is not what --proposer {kind} needs: the other of a head and a draft.")
            decoder = made.layers if kind == "eagle" else made
            self._loaded[key] = Loaded(folder.name, decoder, target.tokenizer, head=made if kind == "eagle" else None)
        return self._used(key)

    def draft(self, settings: RunSettings, target: Loaded, say: Say) -> Loaded:
        """The draft model that `settings` name: a trained one, or any other model."""
        row = heads.find(settings.draft)
        if row is not None and row["kind"] == "draft":
            return self.trained(settings, target, "draft", say)
        return self.get(settings.draft, settings.dtype, settings.device, say)

    def prepare(self, settings: RunSettings, say: Say) -> None:
        """Load what `settings` names and measure what its passes cost here."""
        target = self.get(settings.target, settings.dtype, settings.device, say)
        self._calibrate(target, say)
        if settings.proposer == "draft":
            self._calibrate(self.draft(settings, target, say), say)
        elif settings.proposer == "eagle":
            self.trained(settings, target, "eagle", say)

    def _calibrate(self, model: Loaded, say: Say) -> None:
        """Measure v(n), once per loaded model."""
        if model.verify:
            return
        say("loading", f"Measuring how fast {model.name} is here.")
        session = model.decoder.session(min(64, model.decoder.context))
        model.verify, model.pass_seconds = cost.measure_verify(session, sync=_sync_of(model.decoder))

    def costs(self, settings: RunSettings, say: Say) -> cost.Costs:
        """What a round of these settings costs, in target passes over one token."""
        target = self.get(settings.target, settings.dtype, settings.device, say)
        self._calibrate(target, say)
        step = 0.0
        if settings.proposer == "draft":
            draft = self.draft(settings, target, say)
            self._calibrate(draft, say)
            step = draft.pass_seconds / target.pass_seconds
        elif settings.proposer == "eagle":
            step = self._head_cost(self.trained(settings, target, "eagle", say), target)
        elif settings.proposer == "layer-skip":
            step = self._skip_cost(target, settings)
        return cost.Costs(target.verify, step, target.pass_seconds)

    def _head_cost(self, loaded: Loaded, target: Loaded) -> float:
        """One step of a head's chain, with the choice of its token, in target passes."""
        if not loaded.pass_seconds:
            session = target.decoder.session(min(64, target.decoder.context), loaded.head.taps)
            session.forward([1] * 8)
            proposer = EagleProposer(loaded.head, session, Sampling())
            proposer.start([1] * 9)
            k = 4

            def steps() -> None:
                proposer.propose([1] * 9, k, lambda *_: True, None)
                _sync_of(target.decoder)()

            loaded.pass_seconds = cost.measure_step(steps) / k
        return loaded.pass_seconds / target.pass_seconds

    @staticmethod
    def _skip(settings: RunSettings, target: Loaded) -> tuple[int, ...]:
        """The layers named, else those that a search found on this machine, else none: the proposer's own choice."""
        best = None if settings.skip_layers else known(target.name)
        return best.skip if best is not None else settings.skip_layers

    def _skip_cost(self, target: Loaded, settings: RunSettings) -> float:
        session = target.decoder.session(min(64, target.decoder.context))
        layers = LayerSkipProposer(session, self._skip(settings, target), settings.sampling).layers
        if layers not in target.skip_cost:
            sync = _sync_of(target.decoder)

            def step() -> None:
                session.forward([1], layers=layers)
                sync()
                session.rollback(0)

            target.skip_cost[layers] = cost.measure_step(step) / target.pass_seconds
        return target.skip_cost[layers]

    def search_layers(
        self,
        settings: RunSettings,
        prompt: str,
        seconds: float,
        say: Say,
        progress: Callable[[Found], None] = lambda found: None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Found:
        """Search the layers to skip on the target's own greedy answer to `prompt` (see `layer_search`)."""
        target = self.get(settings.target, settings.dtype, settings.device, say)
        costs = self.costs(settings.plain(), say)
        say("searching", "Writing the text to search on.")
        job = self.job(settings.plain().replace(sampling=Sampling()), prompt, say, stopped)
        done = list(decode(job))[-1]
        ids = [*job.start.prompt_ids, *done.ids]
        if len(done.ids) < 16:
            raise UserError(f"The answer has only {len(done.ids)} tokens: too few to search on. Give another prompt.")
        session = target.decoder.session(min(target.decoder.context, 2 * len(ids)))
        return Search(session, ids, costs, _sync_of(target.decoder)).run(seconds, progress, stopped)

    def job(
        self,
        settings: RunSettings,
        prompt: str | list[dict[str, str]],
        say: Say,
        stopped: Callable[[], bool] = lambda: False,
        custom: Callable[[Any, Any], Proposer] | None = None,
    ) -> Job:
        """Everything a run needs. Raises UserError for what a person can mend: a name, a draft, a prompt too long.

        `prompt` is a user's turn, or a chat's messages. `custom(session, tokenizer)` makes a proposer of the caller's
        own, in place of the one that `settings` name.
        """
        target = self.get(settings.target, settings.dtype, settings.device, say)
        chat = not isinstance(prompt, str)
        ids = target.tokenizer.chat(prompt)[1] if chat else target.tokenizer.prompt_ids(prompt, raw=settings.raw)
        context = target.decoder.context
        if len(ids) >= context:
            raise UserError(
                f"The prompt has {len(ids)} tokens and {target.name} holds {context} in all: "
                "shorten it so that there is room for at least one new token."
            )
        capacity = min(context, len(ids) + settings.max_new_tokens)
        head = None
        if custom is None and self._wants_head(settings, target):
            head = self.trained(settings, target, "eagle", say)
        session = target.decoder.session(capacity, head.head.taps) if head else target.decoder.session(capacity)
        if custom is not None:
            draft, proposer = None, custom(session, target.tokenizer)
        else:
            draft, proposer = self._proposer(settings, target, session, capacity, say)
        # Measuring takes a second or more: a run that has no use for the costs only tells them if they are known.
        wanted = settings.adaptive or settings.proposer == "auto"
        costs = self.costs(settings, say) if wanted or target.verify else None
        stream = TextStream.after(target.tokenizer, ids)
        pieces = stream.prompt_pieces(ids)
        start = Start(
            settings=settings.to_json(),
            target=target.name,
            draft=draft.name if draft else None,
            proposer=proposer.name,
            engine="torch",
            device=str(target.decoder.device),
            dtype=target.decoder.dtype,
            versions={
                "playground": __version__,
                "torch": torch.__version__,
                "python": platform.python_version(),
                "machine": f"{sys.platform} {platform.machine()}, {_threads()}",
            },
            prompt_ids=ids,
            prompt_text="".join(pieces),
            prompt_tokens=pieces,
            context=context,
            prompt=prompt if isinstance(prompt, str) else None,
            costs=costs.to_json() if costs else None,
        )
        return Job(
            start=start,
            session=session,
            proposer=proposer,
            settings=settings,
            text=stream,
            eos_ids=frozenset() if settings.ignore_eos else frozenset(target.tokenizer.eos_ids),
            piece=_piece_of(target.tokenizer),
            length_policy=_policy(settings, proposer, costs),
            stopped=stopped,
            sync=_sync_of(target.decoder),
        )

    def _proposer(
        self, settings: RunSettings, target: Loaded, session: Any, capacity: int, say: Say
    ) -> tuple[Loaded | None, Proposer]:
        own = settings.draft_sampling or settings.sampling
        if settings.proposer == "none":
            return None, NoProposer()
        if settings.proposer == "ngram":
            return None, NgramProposer(settings.ngram_min, settings.ngram_max, target.tokenizer.marks)
        if settings.proposer == "layer-skip":
            return None, LayerSkipProposer(session, self._skip(settings, target), own)
        trees = session.trees
        if settings.proposer == "eagle":
            head = self.trained(settings, target, "eagle", say)
            return head, EagleProposer(head.head, session, own, settings.branch if trees else 1)
        if settings.proposer == "suffix":
            memory = target.memory if settings.remember else None
            return None, SuffixProposer(settings.branch, memory, trees, target.tokenizer.marks)
        if settings.proposer == "recycle":
            return None, RecycleProposer(settings.branch or 4, heads.recycling(target.name), trees)
        if settings.proposer == "auto":
            return self._auto(settings, target, session, own, say)
        if settings.proposer == "draft":
            try:
                draft = self.draft(settings, target, say)
            except UserError as error:
                raise UserError(f"The draft model {settings.draft!r} cannot be used: {error}") from error
            check_shared_vocabulary(target.tokenizer, draft.tokenizer, target.name, draft.name)
            vocabulary = min(target.tokenizer.size, draft.tokenizer.size)
            own_session = draft.decoder.session(min(draft.decoder.context, capacity))
            return draft, DraftModelProposer(own_session, own, vocabulary)
        raise UserError(f"Unknown proposer {settings.proposer!r}: choose one of {', '.join(PROPOSERS)}.")

    def _auto(
        self, settings: RunSettings, target: Loaded, session: Any, own: Sampling, say: Say
    ) -> tuple[Loaded | None, Proposer]:
        """Lookup, the target's recycled thoughts, and the trained head where there is one."""
        self._calibrate(target, say)
        free = cost.Costs(target.verify, 0.0, target.pass_seconds)
        memory = target.memory if settings.remember else None
        members = [
            Member(SuffixProposer(settings.branch, memory, session.trees, target.tokenizer.marks), free, free=True),
            Member(RecycleProposer(settings.branch or 4, heads.recycling(target.name), session.trees), free, free=True),
        ]
        head = None
        if self._wants_head(settings, target):
            head = self.trained(settings, target, "eagle", say)
            costs = cost.Costs(target.verify, self._head_cost(head, target), target.pass_seconds)
            branch = settings.branch if session.trees else 1
            members.append(Member(EagleProposer(head.head, session, own, branch), costs, free=False))
        return head, AutoProposer(members)

    @staticmethod
    def _wants_head(settings: RunSettings, target: Loaded) -> bool:
        """The proposer "auto" takes a head if there is one, "eagle" needs it."""
        if settings.proposer == "auto":
            return bool(settings.draft) or heads.for_target(target.name, "eagle") is not None
        return settings.proposer == "eagle"


def _policy(settings: RunSettings, proposer: Proposer, costs: cost.Costs | None) -> Any:
    if isinstance(proposer, AutoProposer):
        return proposer  # choosing whom to ask and for how much is one choice
    return AdaptiveLength(costs) if settings.adaptive else FixedLength()


def _warm_up(decoder: Any) -> None:
    """First passes pay for pages and kernels that later ones find ready (M3): one of each kind, thrown away."""
    session = decoder.session(min(64, decoder.context))
    for n in (8, 1, 5):
        session.forward([1] * min(n, session.capacity))
        session.rollback(0)


def _threads() -> str:
    count = torch.get_num_threads()
    return f"{count} thread{'' if count == 1 else 's'}"


def _piece_of(tokenizer: Any) -> Callable[[int], str]:
    return lambda token: tokenizer.token_bytes(token).decode("utf-8", "replace") or tokenizer.piece(token)


def _sync_of(decoder: Any) -> Callable[[], None]:
    kind = torch.device(decoder.device).type
    if kind == "cuda":
        return torch.cuda.synchronize
    if kind == "mps":
        return torch.mps.synchronize
    return lambda: None


__all__ = ["Loaded", "Models"]
