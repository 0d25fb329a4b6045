"""Residual networks of 50 layers and more (He et al. 2015, arXiv 1512.03385)."""

from __future__ import annotations

from typing import cast

import torch
from torch import nn

from suites.workload.models.plain import draw_like_he

STAGES = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
"""Blocks of the four stages, by the number of layers with weights."""

WIDTH = 64
"""Channels after the first convolution; each stage has twice as many as the one before."""

EXPANSION = 4
"""Channels at the end of a block over those inside of it."""

BRANCH = 0.25
"""What a branch is multiplied by at first, by its last normalisation: with 1 the gradients of a hundred
layers are noise (Balduzzi et al. 2017), and so is what rounding does to them; with 0 the branch itself
would have none."""


class _Block(nn.Module):
    """Three convolutions, the middle one over neighbours, with a short cut."""

    def __init__(self, channels: int, inner: int, stride: int) -> None:
        super().__init__()
        out = EXPANSION * inner
        self.branch = nn.Sequential(
            *_normalised(channels, inner, 1),
            nn.ReLU(),
            *_normalised(inner, inner, 3, stride),
            nn.ReLU(),
            *_normalised(inner, out, 1),
        )
        nn.init.constant_(cast(nn.BatchNorm2d, self.branch[-1]).weight, BRANCH)
        same = stride == 1 and channels == out
        self.short = nn.Sequential(*(() if same else _normalised(channels, out, 1, stride)))
        self.end = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, channels, h, w) to (batch, 4 inner, h / stride, w / stride)."""
        return cast(torch.Tensor, self.end(self.branch(x) + self.short(x)))


def build(*, layers: int, classes: int = 1000) -> nn.Module:
    """Return the network: pictures (batch, 3, h, w) to scores (batch, classes)."""
    parts: list[nn.Module] = [*_normalised(3, WIDTH, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    channels = WIDTH
    for stage, blocks in enumerate(STAGES[layers]):
        inner = WIDTH << stage
        for block in range(blocks):
            parts.append(_Block(channels, inner, 2 if stage and not block else 1))
            channels = EXPANSION * inner
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))
    return draw_like_he(nn.Sequential(*parts, *head))


def _normalised(channels: int, out: int, kernel: int, stride: int = 1) -> tuple[nn.Module, ...]:
    convolution = nn.Conv2d(channels, out, kernel, stride, kernel // 2, bias=False)
    return convolution, nn.BatchNorm2d(out)
