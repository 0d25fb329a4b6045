"""What language models share: tokens in, scores of the next token out, keys and values that are kept."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import nn
from torch.nn import functional

SPREAD = 0.02
"""Standard deviation of the first weights, as GPT-2 and Llama begin."""

Kept = tuple[torch.Tensor, torch.Tensor]
"""A layer's keys and values of all tokens so far, each (batch, heads, places, width of a head)."""


class LanguageModel(nn.Module, ABC):
    """Embedding, blocks, a last normalisation, scores.

    Subclasses set `tokens`, `blocks` and `norm`, say in `_begin` and `_turns` how places enter and in
    `_scores` what is made of the last vectors.

    Attributes:
        tokens: Table of the tokens' vectors.
        blocks: Each maps (x, turns, kept, place) to x.
        norm: Before the scores.
        heads_kept: How many heads' keys and values a layer keeps.
        head: Width of a head.
    """

    tokens: nn.Embedding
    blocks: nn.ModuleList
    norm: nn.Module
    heads_kept: int
    head: int

    def forward(
        self, tokens: torch.Tensor, kept: list[Kept] | None = None, place: int = 0
    ) -> torch.Tensor:
        """Map token numbers (batch, n) to scores of the next ones, (batch, n, vocabulary).

        Args:
            tokens: Several tokens from the beginning of their sequences on, or one later token of each.
            kept: What `room_for` returned: keys and values are written there from `place` on, and read back.
                Then only the last token's scores are computed, (batch, 1, vocabulary).
            place: Place of the first token in its sequence.
        """
        places = torch.arange(place, place + tokens.shape[1], device=tokens.device)
        x, turns = self._begin(tokens, places), self._turns(places)
        for number, block in enumerate(self.blocks):
            x = block(x, turns, None if kept is None else kept[number], place)
        if kept is not None:
            x = x[:, -1:]
        return self._scores(self.norm(x))

    def layers(self, x: torch.Tensor, first: int, last: int) -> torch.Tensor:
        """Compute layers `first` to `last` - 1 of a text: 0 embeds, then come the blocks, then the scores.

        Args:
            x: Token numbers (batch, n) for layer 0, else vectors (batch, n, width).
            first: The first layer.
            last: One more than the last layer; `blocks` has two layers less than there are.
        """
        places = torch.arange(x.shape[1], device=x.device)
        turns = self._turns(places)
        for number in range(first, last):
            if number == 0:
                x = self._begin(x, places)
            elif number <= len(self.blocks):
                x = self.blocks[number - 1](x, turns, None, 0)
            else:
                x = self._scores(self.norm(x))
        return x

    def room_for(self, batch: int, places: int, like: torch.Tensor) -> list[Kept]:
        """Return empty keys and values for every layer, of the element type and device of `like`."""
        shape = (batch, self.heads_kept, places, self.head)
        return [(like.new_zeros(shape), like.new_zeros(shape)) for _ in self.blocks]

    @abstractmethod
    def _begin(self, tokens: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """Return the vectors of the tokens."""

    def _turns(self, places: torch.Tensor) -> torch.Tensor | None:
        """Return by how much each place turns queries and keys; None if it does not."""
        return None

    @abstractmethod
    def _scores(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores of all tokens, (batch, n, vocabulary), of the last vectors (batch, n, width)."""


def attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, kept: Kept | None, place: int
) -> torch.Tensor:
    """Return what every token sees of those before it and of itself, (batch, n, heads * width).

    Args:
        q: Queries (batch, heads, n, width).
        k: Keys (batch, heads or fewer, n, width).
        v: Values, as `k`.
        kept: Where keys and values are kept and read from.
        place: Place of the first of the n tokens; 0 if they are several.
    """
    count = q.shape[2]
    if kept is not None:
        for new, old in zip((k, v), kept, strict=True):
            old[:, :, place : place + count] = new
        k, v = (old[:, :, : place + count] for old in kept)
    seen = functional.scaled_dot_product_attention(
        q, k, v, is_causal=count > 1, enable_gqa=q.shape[1] != k.shape[1]
    )
    return seen.transpose(1, 2).flatten(2)


def draw_normal(model: nn.Module) -> None:
    """Draw the weights of all layers and tables from a narrow normal distribution; biases begin at 0."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=SPREAD)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
