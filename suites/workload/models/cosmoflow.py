"""Parameters of a universe from its matter in space (CosmoFlow: Mathuriya et al. 2018, arXiv 1808.04728).

Layers and widths are those of MLPerf HPC, without its dropout: every device draws other random numbers, and
its gradient could not be compared.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import nn
from torch.nn import functional

STAGES = 5
"""Convolutions; each has twice the channels of the one before, and halves every axis after it."""

GRID = 4
"""Length of each axis that the full layers see: a 32nd of a cube of 128."""

FULL = (128, 64)
"""Widths of the full layers."""

SCALE = 1.2
"""Factor of the last tanh: parameters lie in -1 to 1, and a tanh never reaches its ends."""


class CosmoFlow(nn.Module):
    """The network.

    Args:
        channels: Numbers at a place of space.
        width: Channels after the first convolution.
        outputs: Parameters.
    """

    def __init__(self, *, channels: int, width: int, outputs: int) -> None:
        super().__init__()
        parts: list[nn.Module] = []
        for stage in range(STAGES):
            parts += [nn.Conv3d(channels, width << stage, 3, padding=1), nn.LeakyReLU(0.3)]
            parts.append(nn.MaxPool3d(2))
            channels = width << stage
        self.space = nn.Sequential(*parts)
        last = channels * GRID**3
        full: list[nn.Module] = []
        for out in FULL:
            full += [nn.Linear(last, out), nn.LeakyReLU(0.3)]
            last = out
        self.full = nn.Sequential(*full, nn.Linear(last, outputs), nn.Tanh())

    def forward(self, cubes: torch.Tensor) -> torch.Tensor:
        """Map (batch, channels, n, n, n) to parameters (batch, outputs) in -1.2 to 1.2."""
        seen = self.space(cubes)
        if seen.shape[2:] != (GRID,) * 3:
            seen = functional.adaptive_avg_pool3d(seen, GRID)
        return SCALE * cast(torch.Tensor, self.full(seen.flatten(1)))


def build(**shape: int) -> nn.Module:
    """Return the network: cubes (batch, channels, n, n, n) to parameters (batch, outputs)."""
    return CosmoFlow(**shape)
