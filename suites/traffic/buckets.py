"""The gradients of networks of the catalogue as buckets, with the share of the products that makes each."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from suites.workload.catalogue import BY_NAME
from suites.workload.running import network

PICTURE = 224
"""Height and width of the pictures, which decides what layers cost."""

LEAST = 0.005
"""Least share of a network's gradients in one bucket: smaller layers share one with the layers behind."""


@dataclass(slots=True)
class Bucket:
    """Gradients of neighbouring layers, exchanged as one.

    Attributes:
        numbers: How many.
        work: Multiplications of a picture's forward pass through these layers.
    """

    numbers: int = 0
    work: int = 0


def layers_of(name: str) -> list[Bucket]:
    """Return each layer with weights of a network of pictures, in the order of the forward pass."""
    found: list[Bucket] = []

    def note(layer: nn.Module, _inputs: object, out: torch.Tensor) -> None:
        numbers = sum(one.numel() for one in layer.parameters(recurse=False))
        places = out.shape[2:].numel()  # 1 behind a full layer
        work = layer.weight.numel() * places if isinstance(layer, nn.Conv2d | nn.Linear) else 0
        found.append(Bucket(numbers, work))

    model = network(BY_NAME[name], torch.device("meta")).eval()
    for layer in model.modules():
        if any(True for _ in layer.parameters(recurse=False)):
            layer.register_forward_hook(note)
    with torch.no_grad():
        model(torch.empty(1, 3, PICTURE, PICTURE, device="meta"))
    return found


def buckets_of(name: str) -> list[Bucket]:
    """Return the buckets of a network of pictures, in the order of the forward pass."""
    layers = layers_of(name)
    least = LEAST * sum(layer.numbers for layer in layers)
    buckets = [Bucket()]
    for layer in layers:
        if buckets[-1].numbers >= least:
            buckets.append(Bucket())
        buckets[-1].numbers += layer.numbers
        buckets[-1].work += layer.work
    return buckets


def shared_out(work: list[int], products: int) -> list[int]:
    """Return so many products shared out by work, each share rounded such that their sum is kept."""
    done, found, before = 0, [], 0
    for part in work:
        done += part
        until = round(products * done / sum(work))
        found.append(until - before)
        before = until
    return found
