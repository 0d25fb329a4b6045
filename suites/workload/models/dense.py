"""Densely connected networks (DenseNet: Huang et al. 2016, arXiv 1608.06993)."""

from __future__ import annotations

import torch
from torch import nn

from suites.workload.models.plain import draw_like_he

BLOCKS = {169: (6, 12, 32, 32), 201: (6, 12, 48, 32)}
"""Layers of the four blocks, by the number of layers with weights."""

GROWTH = 32
"""Channels that a layer adds."""

WIDTH = 64
"""Channels after the first convolution."""

NECK = 4
"""Channels between a layer's two convolutions, over those that it adds."""


class _Layer(nn.Module):
    """Two convolutions, each of what was normalised before; the result is appended to the input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        neck = NECK * GROWTH
        self.added = nn.Sequential(
            *_before(channels),
            nn.Conv2d(channels, neck, 1, bias=False),
            *_before(neck),
            nn.Conv2d(neck, GROWTH, 3, padding=1, bias=False),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, channels, h, w) to (batch, channels + 32, h, w)."""
        return torch.cat([x, self.added(x)], 1)


def build(*, layers: int, classes: int = 1000) -> nn.Module:
    """Return the network: pictures (batch, 3, h, w) to scores (batch, classes)."""
    first = nn.Conv2d(3, WIDTH, 7, 2, 3, bias=False)
    parts: list[nn.Module] = [first, *_before(WIDTH), nn.MaxPool2d(3, 2, 1)]
    channels = WIDTH
    for number, count in enumerate(BLOCKS[layers]):
        if number:  # between two blocks: half the channels, half the picture
            parts += [*_before(channels), nn.Conv2d(channels, channels // 2, 1, bias=False)]
            parts.append(nn.AvgPool2d(2))
            channels //= 2
        for _ in range(count):
            parts.append(_Layer(channels))
            channels += GROWTH
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))
    return draw_like_he(nn.Sequential(*parts, *_before(channels), *head))


def _before(channels: int) -> tuple[nn.Module, ...]:
    return nn.BatchNorm2d(channels), nn.ReLU()
