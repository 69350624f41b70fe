"""The fields of the roofline, and what is calculated from them."""

from __future__ import annotations

from typing import Any

import gradio as gr

from engines.batch import roofline
from engines.errors import UserError
from engines.settings import RunSettings

from .batching_view import Drawn, told
from .fields import whole
from .words import by_label

OTHER = "figures typed in"
LARGEST = 4096  # sequences that the curves go up to
QUIET = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}


def build_calculator(k: gr.Number) -> gr.Slider:
    """The fields of the roofline and its drawing; the acceptance rate's field comes back, for a measurement to set."""
    start_gpu, start_size = roofline.find_gpu("H100"), roofline.find_size("Llama-3.1-8B")
    with gr.Row(elem_classes=["sp-batch-fields"]):
        gpu = gr.Dropdown([g.name for g in roofline.GPUS] + [OTHER], value=start_gpu.name, label="GPU", min_width=200)
        bandwidth = gr.Number(start_gpu.bandwidth / 1e9, label="memory (GB/s)", min_width=105)
        flops = gr.Number(start_gpu.flops / 1e12, label="dense bf16 (TFLOP/s)", min_width=105)
        rate = gr.Slider(0, 1, value=0.7, step=0.01, label="acceptance rate", min_width=170, buttons=[])
    with gr.Row(elem_classes=["sp-batch-fields"]):
        size = gr.Dropdown([s.name for s in roofline.SIZES], value=start_size.name, label="model", min_width=200)
        weights = gr.Number(_billions(start_size), label="weights (billions)", min_width=105)
        width = gr.Number(2, label="bytes per weight", minimum=0, min_width=105)
        cache = gr.Number(_kilobytes(start_size), label="KV cache per token (kB)", minimum=0, min_width=105)
        context = gr.Number(512, label="tokens of context", minimum=0, precision=0, min_width=105)
    fields = [gpu, bandwidth, flops, rate, k, size, weights, width, cache, context]
    calculated = Drawn(calculate(*(f.value for f in fields)), "calculated")

    def figures(name: str) -> tuple[Any, Any]:
        found = next((g for g in roofline.GPUS if g.name == name), None)
        return (found.bandwidth / 1e9, found.flops / 1e12) if found else (gr.skip(), gr.skip())

    def numbers(name: str) -> tuple[float, float]:
        found = roofline.find_size(name)
        return _billions(found), _kilobytes(found)

    gpu.input(figures, gpu, [bandwidth, flops], **QUIET)
    size.input(numbers, size, [weights, cache], **QUIET)
    for field in (bandwidth, flops):  # the name stands for its own figures only
        field.input(lambda: OTHER, None, gpu, **QUIET)
    gr.on([f.change for f in fields], calculate, fields, calculated, trigger_mode="always_last", **QUIET)
    return rate


def calculate(
    gpu: str,
    bandwidth: Any,
    flops: Any,
    rate: Any,
    k: Any,
    size: str,
    weights: Any,
    width: Any,
    cache: Any,
    context: Any,
) -> str:
    """The roofline for what the fields hold, or what is wrong with them, as JSON."""
    numbers = {
        "memory": bandwidth, "dense bf16": flops, "acceptance rate": rate, "k": k, "weights": weights,
        "bytes per weight": width, "KV cache": cache, "context": context,
    }  # fmt: skip
    empty = [name for name, x in numbers.items() if isinstance(x, bool) or not isinstance(x, (int, float))]
    try:
        if empty:
            raise UserError(f"Fill in a number for {empty[0]}.")
        k = RunSettings(k=whole("k", k)).k
        if not 0 <= rate <= 1 or context < 0:
            raise UserError("The acceptance rate must lie in 0 to 1, and the context must not be below 0.")
        known = next((g for g in roofline.GPUS if g.name == gpu), None)
        named = known and (known.bandwidth, known.flops) == (bandwidth * 1e9, flops * 1e12)
        card = known if named else roofline.Gpu("this GPU", bandwidth * 1e9, flops * 1e12, "as typed in")
        base = roofline.find_size(size)
        own = (weights, width, cache) != (_billions(base), base.weight_bytes, _kilobytes(base))
        name = "this model" if own else base.name
        model = roofline.Size(name, weights * 1e9, cache * 1e3 / base.cache_bytes, base.width, width)
    except UserError as error:
        return told(state="error", message=by_label(str(error)))
    sizes = sorted({round(2 ** (i / 4)) for i in range(4 * LARGEST.bit_length() - 3)})
    ends = roofline.gain_ends(card, model, rate, k, context)
    return told(
        state="done",
        message=_sentence(card, model, rate, k, context, ends),
        source=card.source,
        k=k,
        ends=ends,
        points=[
            {
                "batch": n,
                "one": roofline.pass_seconds(card, model, n, 1, context),
                "many": roofline.pass_seconds(card, model, n, k + 1, context),
                "speedup": roofline.speedup(card, model, n, rate, k, context),
            }
            for n in sizes
        ],
    )


def _sentence(card: roofline.Gpu, model: roofline.Size, rate: float, k: int, context: int, ends: int | None) -> str:
    single = roofline.speedup(card, model, 1, rate, k, context)
    begin = f"Calculated, not measured: {model.name} on {card.name} gains {single:.2f}× with one sequence"
    if ends == 1:
        return f"{begin}: nothing to lose."
    if ends is None:
        return (
            f"{begin}, and some of it with any number: at this context reading each sequence's keys and values takes "
            "longer than computing."
        )
    number = f"{ends:,}".replace(",", " ")
    return f"{begin}; from {number} sequences on the gain is gone."


def _billions(size: roofline.Size) -> float:
    return round(size.weights / 1e9, 3)


def _kilobytes(size: roofline.Size) -> float:
    return round(size.cache_total / 1e3, 1)
