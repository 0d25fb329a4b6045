"""A language model of the catalogue as a chain of layers: what each costs, and its weights drawn alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from suites.workload.catalogue import Sizes, Workload
from suites.workload.models.language import SPREAD
from suites.workload.models.llama import Llama
from suites.workload.running import SEED, draw, network

META = torch.device("meta")
Kind = Literal["embedding", "block", "scores"]


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of a chain.

    Attributes:
        kind: What it is; all layers of a kind cost the same.
        work: Operations (FLOP) of its products for one micro-batch.
        takes: Bytes of one micro-batch that it takes.
        gives: Bytes that it makes of them.
        weights: Bytes of its weights.
    """

    kind: Kind
    work: int
    takes: int
    gives: int
    weights: int


class Chain:
    """A network whose layers hold weights only where and while they are wanted.

    Args:
        workload: A Llama of the catalogue, whose scores have weights of their own.
        dtype: Type of its weights, by torch's name.

    Attributes:
        model: The network.
        dtype: Type of its weights.
    """

    def __init__(self, workload: Workload, dtype: str) -> None:
        self._workload = workload
        self.dtype = cast(torch.dtype, getattr(torch, dtype))
        model = network(workload, META, self.dtype)
        self.model = cast(Llama, model).eval().requires_grad_(False)
        self._held = range(0)

    def __len__(self) -> int:
        """Return the number of layers: the embedding, the blocks, the scores."""
        return len(self.model.blocks) + 2

    def hold(self, layers: range, device: torch.device) -> None:
        """Draw the weights of these layers on a device, each from a seed of its own, and drop all others.

        Every device of a kind draws the same bits, whatever other layers it holds.
        """
        for number in self._held:
            for module in self.modules(number):
                module.to_empty(device=META)
        self._held = layers
        for number in layers:
            chance = torch.Generator(device).manual_seed(SEED + number)
            for module in self.modules(number):
                module.to_empty(device=device)
                for weights in module.parameters():
                    if weights.ndim > 1:
                        weights.normal_(std=SPREAD, generator=chance)
                    else:  # of a normalisation
                        weights.fill_(1.0)

    def modules(self, number: int) -> list[nn.Module]:
        """Return what holds the weights of a layer."""
        if number == 0:
            return [self.model.tokens]
        if number < len(self) - 1:
            return [self.model.blocks[number - 1]]
        return [self.model.norm, self.model.output]

    def weights(self, number: int) -> int:
        """Return the bytes of a layer's weights, held or not."""
        return sum(one.nbytes for part in self.modules(number) for one in part.parameters())

    def run(self, x: torch.Tensor, layers: range) -> torch.Tensor:
        """Compute layers that are held, as `LanguageModel.layers` does."""
        with torch.no_grad():
            return self.model.layers(x, layers.start, layers.stop)

    def kind(self, number: int) -> Kind:
        """Return what a layer is."""
        return "block" if 0 < number < len(self) - 1 else "scores" if number else "embedding"

    def costs(self, sizes: Sizes) -> list[Layer]:
        """Return what each layer costs with a micro-batch, counted on ``meta``: nothing is computed."""
        x, found = draw(self._workload, sizes, META)[0], []
        for number in (0, 1, len(self) - 1):
            takes = x.nbytes
            with FlopCounterMode(display=False) as counter:
                x = self.run(x, range(number, number + 1))
            work = int(counter.get_total_flops())
            found.append(Layer(self.kind(number), work, takes, x.nbytes, self.weights(number)))
        return [found[0], *[found[1]] * len(self.model.blocks), found[2]]


def micro_batch(workload: Workload, *, on_accelerators: bool) -> Sizes:
    """Return the texts and tokens that pass through the stages at a time."""
    sizes = workload.cards if on_accelerators else workload.cpu
    assert sizes is not None, f"{workload.name} is not cut on this kind of device"
    return sizes


def named(layers: range, count: int) -> str:
    """Return layers of a chain of `count` in words, such as ``embedding to block 5``."""
    ends = [layers.start, layers.stop - 1]
    names = [
        "embedding" if one == 0 else "scores" if one == count - 1 else f"block {one}"
        for one in ends
    ]
    return " to ".join(dict.fromkeys(names))
