"""A transformer that reads both ways (BERT: Devlin et al. 2018, arXiv 1810.04805), with a classifier."""

from __future__ import annotations

from typing import cast

import torch
from torch import nn
from torch.nn import functional

VOCABULARY, PLACES, KINDS = 30522, 512, 2
"""Of BERT's English models: tokens, places in a sequence, sentences of a pair."""

EPSILON = 1e-12
SPREAD = 0.02
"""Standard deviation of the first weights, as in the paper."""


class _Block(nn.Module):
    """Attention and a feed-forward part, each added to its input and normalised after."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.join = nn.Linear(width, width)
        self.after_attention = nn.LayerNorm(width, EPSILON)
        self.feed = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.after_feed = nn.LayerNorm(width, EPSILON)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, length, width) to the same shape."""
        batch, length, width = x.shape
        shape = (batch, length, 3, self.heads, width // self.heads)
        q, k, v = self.queries_keys_values(x).view(shape).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(q, k, v)
        x = self.after_attention(x + self.join(seen.transpose(1, 2).reshape(x.shape)))
        return cast(torch.Tensor, self.after_feed(x + self.feed(x)))


class Encoder(nn.Module):
    """The network.

    Args:
        width: Length of a token's vector.
        heads: Attention heads; divides `width`.
        classes: Kinds of texts.
        vocabulary: Different tokens.
    """

    def __init__(
        self, *, width: int, layers: int, heads: int, classes: int, vocabulary: int = VOCABULARY
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(PLACES, width)
        self.kinds = nn.Embedding(KINDS, width)
        self.norm = nn.LayerNorm(width, EPSILON)
        self.blocks = nn.Sequential(*(_Block(width, heads) for _ in range(layers)))
        self.pooler = nn.Sequential(nn.Linear(width, width), nn.Tanh())
        self.head = nn.Linear(width, classes)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=SPREAD)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Map token numbers (batch, length) to scores (batch, classes), from the first token's vector."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        kinds = torch.zeros_like(places)
        x = self.norm(self.tokens(tokens) + self.places(places) + self.kinds(kinds))
        return cast(torch.Tensor, self.head(self.pooler(self.blocks(x)[:, 0])))


def build(**shape: int) -> nn.Module:
    """Return the network: tokens (batch, length) to scores (batch, classes)."""
    return Encoder(**shape)
