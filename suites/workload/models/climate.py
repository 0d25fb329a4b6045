"""Storms in maps of weather, half of it learned without labels (Racah et al. 2017, arXiv 1612.02095).

Strided convolutions make a map small, transposed ones make it large again: once to what it was, once to the
kind of weather at every place. The widths are ours; Kurth et al. 2017 (arXiv 1708.05256) trained nine
convolutions and five transposed ones with 302 MiB of parameters.
"""

from __future__ import annotations

import torch
from torch import nn

KERNEL = 5
KINDS = 3
"""Of weather at a place: nothing, a tropical cyclone, an atmospheric river."""


class Climate(nn.Module):
    """The network.

    Args:
        channels: Numbers at a place of a map: winds, pressures, temperatures, water.
        width: Channels after the first convolution.
        stages: Strided convolutions, each with twice the channels of the one before.
    """

    def __init__(self, *, channels: int, width: int, stages: int) -> None:
        super().__init__()
        small: list[nn.Module] = []
        large: list[nn.Module] = []
        into = channels
        for stage in range(stages):
            out = width << stage
            small += [nn.Conv2d(into, out, KERNEL, 2, KERNEL // 2), nn.ReLU()]
            back = nn.ConvTranspose2d(out, into if stage else width, KERNEL, 2, KERNEL // 2, 1)
            large[:0] = [back, nn.ReLU()]
            into = out
        self.small, self.large = nn.Sequential(*small), nn.Sequential(*large)
        self.map = nn.Conv2d(width, channels, 3, padding=1)
        self.kinds = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, KINDS, 1)
        )

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        """Map (batch, channels, h, w) to (batch, channels + 3, h, w): the map again, and scores of kinds."""
        seen = self.large(self.small(maps))
        return torch.cat([self.map(seen), self.kinds(seen)], 1)


def build(**shape: int) -> nn.Module:
    """Return the network: maps (batch, channels, h, w) to maps and scores (batch, channels + 3, h, w)."""
    return Climate(**shape)
