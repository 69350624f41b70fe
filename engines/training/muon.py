"""Muon: gradient steps whose matrices are made nearly orthogonal (Jordan et al. 2024, github.com/KellerJordan/Muon).

`torch.optim.Muon` does the same with products in bfloat16, which a CPU without instructions for it computes some twenty
times slower than in float32; the training here is meant for such CPUs, too.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

_A, _B, _C = 3.4445, -4.7750, 2.0315  # the published coefficients of the Newton-Schulz step


def orthogonal(matrix: torch.Tensor, steps: int = 5) -> torch.Tensor:
    """[m, n] -> about the nearest matrix of which all singular values are 1 (they come out between 0.7 and 1.2)."""
    x = matrix.float()
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = x / (x.norm() + 1e-7)
    for _ in range(steps):
        square = x @ x.T
        x = torch.addmm(x, torch.addmm(square, square, square, beta=_B, alpha=_C), x, beta=_A)
    return x.T if tall else x


class Muon(torch.optim.Optimizer):
    """For matrices alone. Steps are scaled to the root mean square of AdamW's, so that its rates serve here, too

    (Liu et al. 2025, arXiv 2502.16982).
    """

    def __init__(self, matrices: Iterable[torch.Tensor], lr: float, momentum: float = 0.95) -> None:
        super().__init__(matrices, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                state = self.state[weight]
                if "mean" not in state:
                    state["mean"] = torch.zeros_like(weight)
                mean = state["mean"].lerp_(weight.grad, 1 - group["momentum"])
                ahead = weight.grad.lerp(mean, group["momentum"])  # Nesterov's
                weight.add_(orthogonal(ahead), alpha=-0.2 * max(weight.shape) ** 0.5 * group["lr"])
