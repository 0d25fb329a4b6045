"""A transformer that continues a text (GPT-2: Radford et al. 2019)."""

from __future__ import annotations

from typing import cast

import torch
from torch import nn
from torch.nn import functional

from suites.workload.models.language import Kept, LanguageModel, attend, draw_normal

VOCABULARY, PLACES = 50257, 1024
"""Of GPT-2: tokens, and places in a sequence."""


class Block(nn.Module):
    """Causal self-attention and a feed-forward part, each normalised first and added."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention = nn.LayerNorm(width)
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.join = nn.Linear(width, width)
        self.feed = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, 4 * width),
            nn.GELU(approximate="tanh"),
            nn.Linear(4 * width, width),
        )

    def forward(
        self,
        x: torch.Tensor,
        _turns: torch.Tensor | None = None,
        kept: Kept | None = None,
        place: int = 0,
    ) -> torch.Tensor:
        """Map (batch, n, width) to the same shape."""
        mixed = self.queries_keys_values(self.before_attention(x))
        shape = (*x.shape[:2], 3, self.heads, x.shape[2] // self.heads)
        q, k, v = mixed.view(shape).permute(2, 0, 3, 1, 4)
        x = x + self.join(attend(q, k, v, kept, place))
        return cast(torch.Tensor, x + self.feed(x))


class Decoder(LanguageModel):
    """The network; the token table is also the output layer.

    Args:
        width: Length of a token's vector.
        heads: Attention heads; divides `width`.
        vocabulary: Different tokens.
    """

    def __init__(
        self, *, width: int, layers: int, heads: int, vocabulary: int = VOCABULARY
    ) -> None:
        super().__init__()
        self.heads_kept, self.head = heads, width // heads
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(PLACES, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        draw_normal(self)

    def _begin(self, tokens: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        return cast(torch.Tensor, self.tokens(tokens) + self.places(places))

    def _scores(self, x: torch.Tensor) -> torch.Tensor:
        # The table's own forward would look tokens up; its weights follow it into double precision.
        return functional.linear(x, self.tokens.weight.to(x.dtype))


def build(**shape: int) -> nn.Module:
    """Return the network: tokens (batch, n) to scores (batch, n, vocabulary)."""
    return Decoder(**shape)
