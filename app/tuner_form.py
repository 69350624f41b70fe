"""What the Tuner's fields hold -> prompts and an order, or a sentence about what is wrong with them.

Knows nothing of gradio. What is wrong with the prompts is told apart from the rest, as each is shown beside its fields.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from engines.errors import UserError
from engines.settings import RunSettings, Sampling
from engines.tune.order import Order
from engines.tune.prompts import Prompts, pasted, read_prompts
from engines.tune.workloads import built_in

from .fields import whole
from .words import PROPOSER_NAMES, by_label

WORK_FIELDS = ("workload", "kinds", "each", "file", "column", "pasted")
FIELDS = (*WORK_FIELDS, "proposers", "draft", "temperature", "max_tokens", "budget")
BUILT_IN, FILE, LIST = "built-in texts", "a file of yours", "a pasted list"
MOST_BYTES = 20_000_000  # of a file
MOST_PASTED = 200_000  # characters
MOST_PROMPTS = 1000
LEAST_TOKENS, MOST_TOKENS = 16, 512  # of an answer: fewer time nothing but the clock's grain
MOST_SECONDS = 3600
MOST_EACH = 8  # prompts of a built-in kind


def prompts_from(form: Mapping[str, Any]) -> Prompts:
    """The prompts that the fields name. Raises UserError for what is wrong with them, a bad line by its number."""
    if form["workload"] == FILE:
        return _bounded(_from_file(form["file"], form["column"]))
    if form["workload"] == LIST:
        text = form["pasted"] or ""
        if not text.strip():
            raise UserError("Paste your prompts: one a line, or with blank lines between them, or as lines of JSON.")
        if len(text) > MOST_PASTED:
            raise UserError(f"That is more than {MOST_PASTED:,} characters: give a file instead.")
        return _bounded(pasted(text))
    if not form["kinds"]:
        raise UserError("Choose at least one kind of text.")
    each = whole("prompts of each kind", form["each"])
    if not 1 <= each <= MOST_EACH:
        raise UserError(f"There are {MOST_EACH} prompts of each kind: take 1 to {MOST_EACH}.")
    found: dict[str, list] = {}
    for prompt in built_in(list(form["kinds"])).prompts:
        found.setdefault(prompt.category, []).append(prompt)
    return Prompts(tuple(p for rows in found.values() for p in rows[:each]))


def _from_file(named: str | None, column: str | None) -> Prompts:
    if not named:
        raise UserError("Choose a file: JSON Lines with prompt, messages or turns, a CSV table, or plain text.")
    path = Path(named)
    _check_size(path)
    table = path.suffix.lower() in (".csv", ".tsv")
    try:
        return read_prompts(named, (column or None) if table else None)
    except UserError as error:  # in the page's names: the file's own, and the field's
        said = str(error).replace(named, path.name).replace("choose one with --column:", "choose one of its columns:")
        raise UserError(said) from None


def _check_size(path: Path) -> None:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise UserError(f"{path.name} cannot be read: {error.strerror or error}. Choose it again.") from None
    if size > MOST_BYTES:
        raise UserError(f"{path.name} is longer than {MOST_BYTES // 1_000_000} MB: give a part of it.")


def columns_of(named: str | None) -> list[str]:
    """The columns of a table; none of any other file, or of one that cannot be read."""
    path = Path(named or "")
    if path.suffix.lower() not in (".csv", ".tsv"):
        return []
    try:
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            head = file.read(100_000)
        row = next(csv.reader(io.StringIO(head), delimiter="\t" if path.suffix.lower() == ".tsv" else ","), [])
    except (OSError, csv.Error):
        return []
    return [name for name in dict.fromkeys(row) if name.strip()]


def _bounded(prompts: Prompts) -> Prompts:
    """At most MOST_PROMPTS of them, evenly spaced, with a note that says so."""
    count = len(prompts.prompts)
    if count <= MOST_PROMPTS:
        return prompts
    taken = tuple(prompts.prompts[i * count // MOST_PROMPTS] for i in range(MOST_PROMPTS))
    note = f"Of {count:,} prompts {MOST_PROMPTS:,} were taken, evenly spaced."
    return Prompts(taken, (*prompts.notes, note))


def told(prompts: Prompts) -> str:
    """ "24 prompts of 8 kinds." and what was done to them."""
    count, kinds = len(prompts.prompts), {p.category for p in prompts.prompts}
    of = f" of {len(kinds)} kinds" if len(kinds) > 1 else ""
    return " ".join([f"{count:,} prompt{'' if count == 1 else 's'}{of}.", *prompts.notes])


def check(target: str, form: Mapping[str, Any]) -> str:
    """What would be measured, in a sentence. Raises UserError for what is wrong with the fields below the prompts."""
    order = order_from(target, form, built_in(["chat"]))
    count, who = len(order.candidates()), len(set(form["proposers"]))
    return (
        f"{count} settings of {who} proposer{'' if who == 1 else 's'} to choose among, in about {order.budget:g} s of "
        "measuring once the models are there (longer where two rounds of runs take longer)."
    )


def order_from(target: str, form: Mapping[str, Any], prompts: Prompts) -> Order:
    """The order that the fields ask for, on these prompts. Raises UserError, in the page's own names."""
    chosen = form["proposers"] or ()
    who = [name for name in PROPOSER_NAMES if name in chosen]
    if not who:
        raise UserError("Choose at least one proposer: plain decoding is always measured beside it.")
    draft = str(form["draft"] or "").strip() if "draft" in who else None
    if draft == "":
        raise UserError("Choose a draft model, or type the name of one: it has to share the target's vocabulary.")
    tokens = whole("max tokens", form["max_tokens"])
    if not LEAST_TOKENS <= tokens <= MOST_TOKENS:
        raise UserError(f"max tokens must lie in {LEAST_TOKENS} to {MOST_TOKENS}, not {tokens}.")
    budget = form["budget"]
    if isinstance(budget, bool) or not isinstance(budget, (int, float)) or not 1 <= budget <= MOST_SECONDS:
        raise UserError(f"Fill in 1 to {MOST_SECONDS} seconds for the time budget.")
    temperature = form["temperature"]
    if isinstance(temperature, bool) or not isinstance(temperature, (int, float)):
        raise UserError("Fill in a number for temperature.")
    try:
        base = RunSettings(target=target, sampling=Sampling(temperature=temperature), max_new_tokens=tokens)
        return Order(prompts, base, tuple(who), (), draft, float(budget))
    except UserError as error:
        raise UserError(by_label(str(error))) from None


def same_work(a: Order, b: Order) -> bool:
    """They differ in their budgets alone, so that one can go on with the other's runs."""
    return replace(a, budget=1.0, out=None) == replace(b, budget=1.0, out=None)
