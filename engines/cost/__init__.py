"""The arithmetic of speculation: what a pass yields, what it costs, and when it pays.

`arithmetic` has the formulas, `costs` what they are fed with, `measure` takes the costs of bare passes, and
`calibration` those of whole rounds of the loop, at several context lengths, kept per machine.
"""

from .arithmetic import best_k, break_even, expected_tokens, expected_tokens_by_position, predicted_speedup
from .calibration import Calibration, RoundCost
from .costs import Costs
from .measure import measure_step, measure_verify

__all__ = [
    "Calibration",
    "Costs",
    "RoundCost",
    "best_k",
    "break_even",
    "expected_tokens",
    "expected_tokens_by_position",
    "measure_step",
    "measure_verify",
    "predicted_speedup",
]
