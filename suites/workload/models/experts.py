"""A mixture of experts: each token goes through few of many feed-forward parts (Shazeer et al. 2017).

Every expert has room for so many tokens (GShard, arXiv 2006.16668) and is always computed full, so that a
step is the same work whatever the router says, is captured as a graph, and waits for no count on the host.
"""

from __future__ import annotations

import math
from contextlib import nullcontext

import torch
from torch import nn
from torch.nn import functional

SPARE = 1.25
"""Room of an expert over its equal share of the tokens; one that finds none goes past the experts."""

FEW = 64
"""With so few tokens at most each expert has room for all of them: none is left out in a decode step."""

SPREAD = 0.02


class Experts(nn.Module):
    """The router and the experts, whose weights lie together.

    Args:
        width: Length of a token's vector.
        inner: Numbers inside of an expert.
        count: How many experts.
        chosen: How many of them a token takes.
    """

    def __init__(self, width: int, inner: int, count: int, chosen: int) -> None:
        super().__init__()
        self.count, self.chosen = count, chosen
        self.by_place = False
        self.router = nn.Linear(width, count, bias=False)
        self.gate = nn.Parameter(torch.empty(count, width, inner))
        self.up = nn.Parameter(torch.empty(count, width, inner))
        self.down = nn.Parameter(torch.empty(count, inner, width))
        for weights in (self.gate, self.up, self.down):
            nn.init.normal_(weights, std=SPREAD)

    def smooth(self) -> None:
        """Choose experts by the tokens' places from now on: a choice between nearly equal numbers is luck."""
        self.by_place = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, n, width) to the same shape."""
        tokens = x.flatten(0, 1)
        shares, experts = self._choose(tokens)
        room = self._room(len(tokens))
        rows = self._rows(experts, room)
        spread = tokens.repeat_interleave(self.chosen, 0)
        full = spread.new_zeros(self.count * room + 1, x.shape[-1]).index_copy(0, rows, spread)
        found = self.compute(full[:-1].view(self.count, room, -1)).flatten(0, 1)
        found = torch.cat([found, found.new_zeros(1, x.shape[-1])])  # what found no room
        taken = found.index_select(0, rows).view(-1, self.chosen, x.shape[-1])
        return (taken * shares[..., None].to(taken.dtype)).sum(1).view_as(x)

    def compute(self, rows: torch.Tensor) -> torch.Tensor:
        """Map the rows of every expert, (experts, rows, width), to the same shape."""
        gate, up, down = (w.to(rows.dtype) for w in (self.gate, self.up, self.down))
        opened = functional.silu(torch.bmm(rows, gate)) * torch.bmm(rows, up)
        return torch.bmm(opened, down)

    def _choose(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the shares (tokens, chosen), which add up to 1, and the numbers of the experts."""
        # Eight digits tell more than three. Without numbers there is nothing to round.
        with nullcontext() if tokens.is_meta else torch.autocast(tokens.device.type, enabled=False):
            kind = torch.promote_types(tokens.dtype, torch.float32)
            scores = functional.linear(tokens.to(kind), self.router.weight.to(kind))
        if self.by_place:
            numbers = torch.arange(len(tokens) * self.chosen, device=tokens.device)
            experts = (numbers % self.count).view(-1, self.chosen)
        else:
            experts = scores.sort(dim=-1, descending=True, stable=True).indices[:, : self.chosen]
        return scores.gather(1, experts).softmax(-1), experts

    def _room(self, tokens: int) -> int:
        if tokens <= FEW:
            return tokens
        return min(tokens, math.ceil(SPARE * tokens * self.chosen / self.count))

    def _rows(self, experts: torch.Tensor, room: int) -> torch.Tensor:
        """Return each choice's row among those of the experts, (tokens * chosen,); the last for the rest."""
        flat = experts.flatten()
        ours = (flat[:, None] == torch.arange(self.count, device=flat.device)).long()
        place = (ours.cumsum(0) * ours).sum(1) - 1
        return torch.where(place < room, flat * room + place, self.count * room)
