"""Signals in pictures of a detector (Kurth et al. 2017, arXiv 1708.05256): 2.3 MiB of parameters."""

from __future__ import annotations

from torch import nn

from suites.workload.models.plain import draw_like_he


def build(*, width: int, layers: int, classes: int) -> nn.Module:
    """Return the network: pictures (batch, 3, h, w) to scores (batch, classes).

    Args:
        width: Channels of every convolution.
        layers: Convolutions; after each but the last both axes are halved.
        classes: Kinds of pictures.
    """
    parts: list[nn.Module] = []
    channels = 3
    for layer in range(layers):
        parts += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
        parts.append(nn.MaxPool2d(2) if layer < layers - 1 else nn.AdaptiveAvgPool2d(1))
        channels = width
    return draw_like_he(nn.Sequential(*parts, nn.Flatten(), nn.Linear(width, classes)))
