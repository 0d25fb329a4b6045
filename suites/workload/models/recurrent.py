"""A stack of long short-term memories (Hochreiter and Schmidhuber 1997) with a classifier at its end."""

from __future__ import annotations

from typing import cast

import torch
from torch import nn


class Recurrent(nn.Module):
    """The network.

    Args:
        inputs: Numbers in one element of a sequence.
        width: Numbers in the state of a layer.
        classes: Kinds of sequences.
    """

    def __init__(self, *, inputs: int, width: int, layers: int, classes: int) -> None:
        super().__init__()
        self.memory = nn.LSTM(inputs, width, layers, batch_first=True)
        self.scores = nn.Linear(width, classes)

    def forward(self, sequences: torch.Tensor) -> torch.Tensor:
        """Map (batch, length, inputs) to scores (batch, classes), from the last element's state."""
        states, _ = self.memory(sequences)
        return cast(torch.Tensor, self.scores(states[:, -1]))


def build(**shape: int) -> nn.Module:
    """Return the network: sequences (batch, length, inputs) to scores (batch, classes)."""
    return Recurrent(**shape)
