"""Plain convolutional networks (VGG: Simonyan and Zisserman 2014, arXiv 1409.1556, without normalisation)."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

STAGES = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
"""Convolutions of the five stages, by the number of layers with weights."""

CHANNELS = (64, 128, 256, 512, 512)
GRID = 7
"""Height and width of what the first of the three full layers sees: a 32nd of a picture of 224."""

HIDDEN = 4096
FULL = 0.01
"""Standard deviation of the first weights of a full layer, as in the paper: the first scores are near 0."""


class _Grid(nn.Module):
    """Bring what is left of a picture to the size that the full layers want; nothing to do for one of 224."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, channels, h, w) to (batch, channels, 7, 7)."""
        return x if x.shape[-2:] == (GRID, GRID) else functional.adaptive_avg_pool2d(x, GRID)


def build(*, layers: int, classes: int = 1000) -> nn.Module:
    """Return the network: pictures (batch, 3, h, w) to scores (batch, classes)."""
    parts: list[nn.Module] = []
    channels = 3
    for out, convolutions in zip(CHANNELS, STAGES[layers], strict=True):
        for _ in range(convolutions):
            parts += [nn.Conv2d(channels, out, 3, padding=1), nn.ReLU()]
            channels = out
        parts.append(nn.MaxPool2d(2))
    parts += [_Grid(), nn.Flatten()]
    width = channels * GRID * GRID
    for out in (HIDDEN, HIDDEN):
        parts += [nn.Linear(width, out), nn.ReLU()]
        width = out
    return draw_like_he(nn.Sequential(*parts, nn.Linear(width, classes)))


def draw_like_he(model: nn.Module) -> nn.Module:
    """Draw convolutions' weights so that signals keep their size through ReLUs, those of full layers small.

    Torch's own choice shrinks signals by each layer: after nineteen nothing is left that could be learned
    from.
    """
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=FULL)
        if isinstance(module, nn.Conv2d | nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
    return model
