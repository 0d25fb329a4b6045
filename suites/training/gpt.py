"""A small decoder-only transformer (after GPT-2: Radford et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from suites.training.optimizers import AdamW
from suites.training.step import TrainingStep
from suites.workload.models.decoder import Block


@dataclass(frozen=True, slots=True, kw_only=True)
class GptShape:
    """Size of the network and of its batch.

    Attributes:
        width: Length of a token's vector.
        heads: Attention heads; divides `width`.
        context: Tokens in a sequence.
        batch: Sequences in a batch.
    """

    layers: int
    width: int
    heads: int
    context: int
    batch: int
    vocabulary: int

    @property
    def tokens(self) -> int:
        """Tokens that one step learns from."""
        return self.batch * self.context


class Gpt(nn.Module):
    """The network; the token table is also the output layer."""

    def __init__(self, shape: GptShape) -> None:
        super().__init__()
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.places = nn.Embedding(shape.context, shape.width)
        self.blocks = nn.ModuleList(Block(shape.width, shape.heads) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        for table in (self.tokens, self.places):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Map token numbers (batch, context) to scores (batch, context, vocabulary)."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.places(places)
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.norm(x), self.tokens.weight)


def gpt_step(shape: GptShape, device: torch.device, *, half: bool = False) -> TrainingStep:
    """Return a step on random tokens; the same weights and tokens on every device of a kind."""
    with torch.random.fork_rng(devices=[]), torch.device(device):
        torch.manual_seed(20240224)
        model = Gpt(shape)
        text = torch.randint(0, shape.vocabulary, (shape.batch, shape.context + 1))
    return TrainingStep(
        model,
        text[:, :-1],
        text[:, 1:],
        loss=_next_token_loss,
        optimizer=lambda parameters: AdamW(parameters, 3e-4),
        device=device,
        half=half,
    )


def _next_token_loss(scores: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(scores.flatten(0, 1), tokens.flatten())
