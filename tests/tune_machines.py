"""Simulated machines and workloads whose truth is known: what the tuner's choices and intervals are held against.

A workload is kinds of text; in each, tokens come in easy and hard stretches, so acceptance is anything but independent.
Whether a proposer is right at a place is drawn once per text: as with greedy decoding, each run meets the same text. A
head ("eagle") is right less often the deeper in its round. A machine has costs by number of rows and context, noise in
each round, each run, and a drift that slows it down for seconds to minutes. The clock is simulated.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from engines.cost import Calibration, RoundCost
from engines.tune.candidates import Candidate, ladder
from engines.tune.prompts import Prompt, Prompts
from engines.tune.sample import Pass, Sample

LIMIT = 64
COUNTS = (0, 1, 2, 3, 4, 6, 8, 12, 16)


@dataclass
class Texts:
    """Texts [P, LIMIT]: `right[who]` is whether the proposer knows the token there (for "eagle" a number that the decay

    with depth is held against), `offers` whether the lookup has something to say there; `kinds` [P], `lengths` [P].
    """

    kinds: np.ndarray
    lengths: np.ndarray
    right: dict[str, np.ndarray]
    offers: np.ndarray
    prompt_tokens: np.ndarray


@dataclass
class Machine:
    """Seconds by number of proposed tokens; see `world`."""

    seed: int
    unit: float
    slope: float
    jump: float
    context_slope: float
    rest: float
    rest_row: float
    draft: dict[str, float]
    noise: float
    run_noise: float
    drift: float
    drift_seconds: float

    def cost(self, who: str, n: int, context: float) -> tuple[float, float, float]:
        longer = 1 + self.context_slope * context / 1000
        verify = self.unit * longer * (1 + self.slope * n + (self.jump if n else 0.0))
        return self.unit * self.draft.get(who, 0.0) * n, verify, self.unit * (self.rest + self.rest_row * n)


@dataclass
class World:
    machine: Machine
    texts: Texts  # those the tuner gets
    everybody: Texts  # many more of the same kinds: the truth
    decay: float
    candidates: list[Candidate] = field(default_factory=list)
    _rounds: dict[Candidate, list[list[Pass]]] = field(default_factory=dict)

    def accepted(self, c: Candidate, texts: Texts, rows: np.ndarray, at: np.ndarray, room: np.ndarray) -> np.ndarray:
        """(proposed, accepted) of rounds that begin at `at` of the texts `rows`: int [2, len(rows)]."""
        n = np.minimum(c.k, room)
        if c.proposer == "none":
            return np.zeros((2, len(rows)), dtype=int)
        if c.proposer == "ngram":
            n = np.where(texts.offers[rows, at], np.minimum(n, 6 if c.adaptive else c.k), 0)
        # Recycling makes a tree: k tokens reach less deep than k.
        depth = np.minimum(n, 2 + c.k // 4) if c.proposer == "recycle" else n
        good, going = np.zeros_like(n), n > 0
        for d in range(int(depth.max(initial=0))):
            hit = texts.right[c.proposer][rows, np.minimum(at + d, LIMIT - 1)]
            hit = hit < self.decay**d if c.proposer == "eagle" else hit
            going = going & (d < depth) & hit & (at + d < texts.lengths[rows])
            if not going.any():
                break
            good += going
        return np.stack([n, good])

    def rounds(self, c: Candidate, row: int) -> list[Pass]:
        """The rounds of one of the tuner's texts, without times."""
        if c not in self._rounds:
            self._rounds[c] = self._all_rounds(c)
        return self._rounds[c][row]

    def _all_rounds(self, c: Candidate) -> list[list[Pass]]:
        texts = self.texts
        out: list[list[Pass]] = [[] for _ in texts.kinds]
        at = np.zeros(len(texts.kinds), dtype=int)
        while (rows := np.flatnonzero(at < texts.lengths)).size:
            n, good = self.accepted(c, texts, rows, at[rows], LIMIT - at[rows] - 1)
            ended = at[rows] + good >= texts.lengths[rows]
            for row, k, a, over in zip(rows.tolist(), n.tolist(), good.tolist(), ended.tolist(), strict=True):
                out[row].append(Pass(k, a, int(a < k and not over), a + (not over)))
            at[rows] += good + ~ended
        return out

    def truth(self, c: Candidate, texts: Texts | None = None) -> float:
        """The true speed-up over these texts (default: the tuner's), noise left out."""
        texts = texts or self.texts
        return self._seconds(Candidate("none"), texts) / self._seconds(c, texts)

    def _seconds(self, c: Candidate, texts: Texts) -> float:
        m, who, total = self.machine, who_of(c), 0.0
        longer = 1 + m.context_slope * (texts.prompt_tokens + texts.lengths / 2) / 1000
        costs = np.array([m.cost(who, k, 0.0) for k in range(LIMIT + 1)])
        at = np.zeros(len(texts.kinds), dtype=int)
        while (rows := np.flatnonzero(at < texts.lengths)).size:
            n, good = self.accepted(c, texts, rows, at[rows], LIMIT - at[rows] - 1)
            total += float((costs[n, 0] + costs[n, 1] * longer[rows] + costs[n, 2]).sum())
            at[rows] += good + 1
        return total


def who_of(c: Candidate) -> str:
    return c.proposer if c.proposer in ("draft", "eagle") else ""


def texts_of(rng: np.random.Generator, kinds: list[dict], each: int, spread: float) -> Texts:
    count = len(kinds) * each
    kind = np.repeat(np.arange(len(kinds)), each)
    lengths = np.where(rng.random(count) < 0.7, LIMIT, rng.integers(20, LIMIT, count))
    right: dict[str, np.ndarray] = {}
    stretches = _stretches(rng, kinds, kind)
    for who in ("draft", "eagle", "recycle"):
        easy = np.array([k[who][0] for k in kinds])[kind][:, None] + rng.normal(0, spread, (count, 1))
        hard = np.array([k[who][1] for k in kinds])[kind][:, None] + rng.normal(0, spread, (count, 1))
        chance = np.clip(np.where(stretches, easy, hard), 0.02, 0.98)
        u = rng.random((count, LIMIT))
        right[who] = u / chance if who == "eagle" else u < chance
    copies = _stretches(rng, kinds, kind)
    right["ngram"] = np.where(copies, rng.random((count, LIMIT)) < 0.95, rng.random((count, LIMIT)) < 0.1)
    offers = copies | (rng.random((count, LIMIT)) < 0.3)
    tokens = rng.integers(20, 400, count)
    return Texts(kind, lengths, right, offers, tokens)


def _stretches(rng: np.random.Generator, kinds: list[dict], kind: np.ndarray) -> np.ndarray:
    """Easy (true) and hard places in stretches of some ten tokens: bool [P, LIMIT]."""
    share = np.array([k["easy"] for k in kinds])[kind]
    stay = np.array([k["stay"] for k in kinds])[kind]
    out = np.empty((len(kind), LIMIT), dtype=bool)
    out[:, 0] = rng.random(len(kind)) < share
    for t in range(1, LIMIT):
        again = rng.random(len(kind)) < stay
        out[:, t] = np.where(again, out[:, t - 1], rng.random(len(kind)) < share)
    return out


def world(seed: int) -> World:
    """A machine and a workload, anything from hopeless to very good for speculation."""
    rng = np.random.default_rng(seed)
    mood = rng.uniform(0.0, 0.5)  # how well texts can be foretold on the whole
    kinds = []
    for _ in range(int(rng.integers(1, 7))):
        kind = {"easy": rng.uniform(0.05, 0.7) * (0.4 + mood), "stay": rng.choice([0.0, 0.8, 0.93])}
        for who, handicap in (("draft", 0.0), ("eagle", 0.0), ("recycle", 0.3)):
            base = rng.uniform(0.15, 0.55) + mood * rng.uniform(0.3, 0.9) - handicap
            kind[who] = (base + 0.25, base - 0.1)
        kinds.append(kind)
    machine = Machine(
        seed,
        unit=rng.uniform(0.008, 0.06),
        slope=float(rng.choice([0.005, 0.03, 0.1, 0.25])),
        jump=float(rng.choice([0.0, 0.1, 0.5])),
        context_slope=rng.uniform(0.0, 0.5),
        rest=rng.uniform(0.02, 0.08),
        rest_row=rng.uniform(0.0, 0.01),
        draft={"draft": rng.uniform(0.05, 0.5), "eagle": rng.uniform(0.04, 0.25)},
        noise=rng.uniform(0.02, 0.1),
        run_noise=rng.uniform(0.0, 0.03),
        drift=rng.uniform(0.02, 0.15),
        drift_seconds=rng.uniform(5, 60),
    )
    each = int(rng.integers(24, 49)) // len(kinds)
    spread = rng.uniform(0.03, 0.12)
    out = World(
        machine, texts_of(rng, kinds, each, spread), texts_of(rng, kinds, 1500 // len(kinds), spread),
        decay=rng.uniform(0.8, 0.98),
    )  # fmt: skip
    out.candidates = ladder(["ngram", "draft", "eagle", "recycle"], draft="d")
    out.candidates = [c for c in out.candidates if c.branch == 0 and not (c.proposer == "draft" and c.adaptive)]
    return out


class SimulatedBench:
    """A `Bench` on a `World`; `seconds` is its clock."""

    def __init__(self, world: World, seed: int = 0) -> None:
        self.world, self.machine = world, world.machine
        self.seconds = 0.0
        self.rng = np.random.default_rng((world.machine.seed, seed))
        self._log_speed, self._at = 0.0, 0.0
        self.runs = 0

    def clock(self) -> float:
        return self.seconds

    def describe(self) -> dict:
        return {"target": f"machine {self.machine.seed}", "greedy": True}

    def who(self, candidate: Candidate) -> str:
        return who_of(candidate)

    def prompts(self) -> Prompts:
        kinds = self.world.texts.kinds
        return Prompts(tuple(Prompt(f"text {i}", f"kind {k}", i + 1) for i, k in enumerate(kinds)))

    def _slow(self) -> float:
        """How slow the machine is now: a log-speed that wanders and returns (Ornstein-Uhlenbeck)."""
        m = self.machine
        keep = np.exp(-(self.seconds - self._at) / m.drift_seconds)
        self._log_speed = keep * self._log_speed + m.drift * np.sqrt(1 - keep**2) * self.rng.normal()
        self._at = self.seconds
        return float(np.exp(self._log_speed))

    def _timed(self, who: str, counts: list[int], context: float) -> np.ndarray:
        """Seconds [rounds, 3] of rounds one after another, each with noise of its own; the clock goes on."""
        m, slow = self.machine, self._slow()
        noise = np.exp(m.noise * self.rng.normal(size=len(counts)) + m.run_noise * self.rng.normal()) * slow
        seconds = np.array([m.cost(who, n, context) for n in counts]) * noise[:, None]
        self.seconds += float(seconds.sum())
        return seconds

    def calibrate(self, candidates, prompts, seconds) -> tuple[Calibration, bool]:
        rounds: dict[str, dict[int, dict[int, RoundCost]]] = {}
        for who in dict.fromkeys(["", *(who_of(c) for c in candidates)]):
            for context in (64, 256, 512):
                counts = [n for n in COUNTS if not who or n <= 8]
                taken = np.median([self._timed(who, counts, context) for _ in range(8)], axis=0)
                costs = {n: RoundCost(*row) for n, row in zip(counts, taken.tolist(), strict=True)}
                rounds.setdefault(who, {})[context] = costs
        return Calibration({"machine": str(self.machine.seed)}, "", rounds), True

    def run(self, candidate: Candidate, prompt: Prompt, index: int, block: int) -> Sample:
        self.runs += 1
        texts = self.world.texts
        context = float(texts.prompt_tokens[index] + texts.lengths[index] / 2)
        told = self.world.rounds(candidate, index)
        times = self._timed(who_of(candidate), [p.proposed for p in told], context).tolist()
        rows = zip(told, times, strict=True)
        passes = [Pass(p.proposed, p.accepted, p.rejected, p.emitted, *seconds) for p, seconds in rows]
        ids = list(range(int(texts.lengths[index])))
        reason = "length" if len(ids) == LIMIT else "eos"
        return Sample(candidate.name, index, block, passes, ids, [0] * int(texts.prompt_tokens[index]), reason)

    def looked_up(self, candidate: Candidate, plain: Sample) -> list[Pass]:
        return self.world.rounds(candidate, plain.prompt)


def grid(bench: SimulatedBench) -> tuple[str, float]:
    """What the tuner is compared with: every setting, and plain, once on every prompt. (choice, simulated seconds)."""
    begin = bench.seconds
    totals = {}
    for c in [Candidate("none"), *bench.world.candidates]:
        prompts = bench.prompts().prompts
        totals[c.name] = sum(bench.run(c, p, i, 0).seconds() for i, p in enumerate(prompts))
    return min(totals, key=totals.get), bench.seconds - begin
