"""A small residual network for images (after He et al. 2015, arXiv 1512.03385)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import nn

from suites.training.optimizers import Sgd
from suites.training.step import TrainingStep


@dataclass(frozen=True, slots=True, kw_only=True)
class ResNetShape:
    """Size of the network and of its batch.

    Attributes:
        width: Channels of the first stage; every further one has twice as many.
        stages: How many stages; all but the first halve the picture.
        blocks: Residual blocks in a stage.
        picture: Height and width of a picture.
        batch: Pictures in a batch.
        classes: Kinds of pictures.
    """

    width: int
    stages: int
    blocks: int
    picture: int
    batch: int
    classes: int = 10


class _Block(nn.Module):
    """Two convolutions with a short cut."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            _convolution(channels, out, stride), nn.ReLU(), _convolution(out, out, 1)
        )
        self.end = nn.ReLU()
        same = channels == out and stride == 1
        self.short = nn.Identity() if same else _convolution(channels, out, stride, kernel=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, channels, h, w) to (batch, out, h / stride, w / stride)."""
        return cast(torch.Tensor, self.end(self.body(x) + self.short(x)))


class ResNet(nn.Module):
    """The network."""

    def __init__(self, shape: ResNetShape) -> None:
        super().__init__()
        layers: list[nn.Module] = [_convolution(3, shape.width, 1), nn.ReLU()]
        channels = shape.width
        for stage in range(shape.stages):
            out = shape.width * 2**stage
            for block in range(shape.blocks):
                layers.append(_Block(channels, out, 2 if stage and not block else 1))
                channels = out
        head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, shape.classes)]
        self.layers = nn.Sequential(*layers, *head)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Map (batch, 3, h, w) to scores of shape (batch, classes)."""
        return cast(torch.Tensor, self.layers(pictures))


def _convolution(channels: int, out: int, stride: int, kernel: int = 3) -> nn.Sequential:
    convolution = nn.Conv2d(channels, out, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(out))


def resnet_step(shape: ResNetShape, device: torch.device, *, half: bool = False) -> TrainingStep:
    """Return a step on random pictures; the same weights and pictures on every device of a kind."""
    with torch.random.fork_rng(devices=[]), torch.device(device):
        torch.manual_seed(20240224)
        model = ResNet(shape)
        pictures = torch.randn(shape.batch, 3, shape.picture, shape.picture)
        kinds = torch.randint(0, shape.classes, (shape.batch,))
    return TrainingStep(
        model,
        pictures,
        kinds,
        loss=nn.functional.cross_entropy,
        optimizer=lambda parameters: Sgd(parameters, 0.01, momentum=0.9),
        device=device,
        half=half,
    )
