"""Llama (Touvron et al. 2023, arXiv 2307.09288): turned queries and keys, heads that share keys, SwiGLU.

With several experts in place of the one feed-forward part it is Mixtral (Jiang et al. 2024, arXiv
2401.04088).
"""

from __future__ import annotations

from typing import cast

import torch
from torch import nn
from torch.nn import functional

from suites.workload.models.experts import Experts
from suites.workload.models.language import Kept, LanguageModel, attend, draw_normal

TURNS = 10000.0
"""The slowest pair of numbers turns once in 2 pi times so many tokens."""

EPSILON = 1e-5


class _Feed(nn.Module):
    """SwiGLU: one half of the inner numbers opens and closes the other."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, inner, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, n, width) to the same shape."""
        return cast(torch.Tensor, self.down(functional.silu(self.gate(x)) * self.up(x)))


class _Block(nn.Module):
    """Causal attention, then the feed-forward part, each normalised first and added."""

    def __init__(self, width: int, heads: int, kept: int, feed: nn.Module) -> None:
        super().__init__()
        self.head = width // heads
        self.before_attention = nn.RMSNorm(width, EPSILON)
        self.queries = nn.Linear(width, width, bias=False)
        self.keys = nn.Linear(width, kept * self.head, bias=False)
        self.values = nn.Linear(width, kept * self.head, bias=False)
        self.join = nn.Linear(width, width, bias=False)
        self.before_feed = nn.RMSNorm(width, EPSILON)
        self.feed = feed

    def forward(
        self, x: torch.Tensor, turns: torch.Tensor, kept: Kept | None, place: int
    ) -> torch.Tensor:
        """Map (batch, n, width) to the same shape."""
        normal = self.before_attention(x)
        q, k, v = (
            part(normal).unflatten(2, (-1, self.head)).transpose(1, 2)
            for part in (self.queries, self.keys, self.values)
        )
        x = x + self.join(attend(_turned(q, turns), _turned(k, turns), v, kept, place))
        return cast(torch.Tensor, x + self.feed(self.before_feed(x)))


class Llama(LanguageModel):
    """The network.

    Args:
        width: Length of a token's vector.
        heads: Heads of the queries; divides `width`.
        kept: Heads of keys and values; divides `heads`.
        inner: Numbers inside of a feed-forward part.
        vocabulary: Different tokens.
        experts: Feed-forward parts that each token has the choice of; 0 for one that all take.
        chosen: How many experts a token takes.
    """

    def __init__(
        self,
        *,
        width: int,
        layers: int,
        heads: int,
        kept: int,
        inner: int,
        vocabulary: int = 32000,
        experts: int = 0,
        chosen: int = 2,
    ) -> None:
        super().__init__()
        self.heads_kept, self.head = kept, width // heads
        self.tokens = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(
            _Block(
                width,
                heads,
                kept,
                Experts(width, inner, experts, chosen) if experts else _Feed(width, inner),
            )
            for _ in range(layers)
        )
        self.norm = nn.RMSNorm(width, EPSILON)
        self.output = nn.Linear(width, vocabulary, bias=False)
        draw_normal(self)

    def _begin(self, tokens: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        return cast(torch.Tensor, self.tokens(tokens))

    def _turns(self, places: torch.Tensor) -> torch.Tensor:
        # In single precision whatever the weights are: places have more digits than a half holds.
        numbers = torch.arange(0, self.head, 2, device=places.device, dtype=torch.float32)
        angles = places[:, None] * TURNS ** (-numbers / self.head)
        return torch.stack([angles.cos(), angles.sin()])

    def _scores(self, x: torch.Tensor) -> torch.Tensor:
        return cast(torch.Tensor, self.output(x))


def _turned(x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    """Turn the pairs (i, i + width / 2) of (batch, heads, n, width) by the angles of their places."""
    cos, sin = turns.to(x.dtype)
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


def build(**shape: int) -> nn.Module:
    """Return the network: tokens (batch, n) to scores (batch, n, vocabulary)."""
    return Llama(**shape)
