"""Recommendation by tables (DLRM: Naumov et al. 2019, arXiv 1906.00091), as large as Criteo's Kaggle set.

Gradients are of whole tables, as ranks exchange them, so a step is mostly streams through memory;
`suites/recommendation` measures random access alone.
"""

from __future__ import annotations

from itertools import pairwise
from typing import cast

import torch
from torch import nn

COUNTS = 13
"""Numbers of an example that count something; the rest are rows, one of each table."""

ROWS = (
    1460, 583, 10_131_227, 2_202_608, 305, 24, 12_517, 633, 3, 93_145, 5683, 8_351_593, 3194, 27, 14_992,
    5_461_306, 10, 5652, 2173, 4, 7_046_547, 18, 15, 286_181, 105, 142_572,
)  # fmt: skip
"""Rows of the 26 tables: values of each category that occur in the set."""

BOTTOM, TOP = (512, 256, 64), (512, 256)
"""Widths of the layers between the counts and a vector, and between the products and the score."""


class _FromCounts(nn.Linear):
    """A layer that takes whole numbers, of which their logarithms are learned from, as in the reference."""

    def forward(self, counts: torch.Tensor) -> torch.Tensor:
        """Map (batch, counts) of whole numbers to (batch, width)."""
        return super().forward(torch.log1p(counts.to(self.weight.dtype)))


class Recommendation(nn.Module):
    """The network: vectors of a table's rows and of the counts, every product of two of them, a score.

    Args:
        width: Numbers of a vector.
        most_rows: Rows of a table at most; a larger one is cut.
    """

    def __init__(self, *, width: int, most_rows: int) -> None:
        super().__init__()
        bottom: list[nn.Module] = [_FromCounts(COUNTS, BOTTOM[0]), nn.ReLU()]
        bottom += _layers((*BOTTOM, width))
        self.bottom = nn.Sequential(*bottom)
        self.tables = nn.ModuleList(nn.Embedding(n, width) for n in rows_of(most_rows))
        for table in self.tables:
            bound = cast(nn.Embedding, table).num_embeddings ** -0.5
            nn.init.uniform_(cast(torch.Tensor, table.weight), -bound, bound)
        vectors = 1 + len(self.tables)
        pairs = torch.tril_indices(vectors, vectors, -1)
        self.register_buffer("_pairs", pairs[0] * vectors + pairs[1], persistent=False)
        top = _layers((width + pairs.shape[1], *TOP))
        self.top = nn.Sequential(*top, nn.Linear(TOP[-1], 1))

    def forward(self, examples: torch.Tensor) -> torch.Tensor:
        """Map counts and rows (batch, 39) to scores (batch, 2) of no click, always 0, and of a click."""
        counts, rows = examples[:, :COUNTS], examples[:, COUNTS:]
        own = self.bottom(counts)
        looked_up = [table(rows[:, number]) for number, table in enumerate(self.tables)]
        vectors = torch.stack([own, *(one.to(own.dtype) for one in looked_up)], 1)
        products = (vectors @ vectors.transpose(1, 2)).flatten(1)
        taken = products.index_select(1, cast(torch.Tensor, self._pairs))
        click = self.top(torch.cat([own, taken.to(own.dtype)], 1))
        return nn.functional.pad(click, (1, 0))


def rows_of(most_rows: int) -> list[int]:
    """Return the rows of each table."""
    return [min(rows, most_rows) for rows in ROWS]


def build(**shape: int) -> nn.Module:
    """Return the network: counts and rows (batch, 39), whole numbers, to scores (batch, 2)."""
    return Recommendation(**shape)


def _layers(widths: tuple[int, ...]) -> list[nn.Module]:
    parts: list[nn.Module] = []
    for into, out in pairwise(widths):
        parts += [nn.Linear(into, out), nn.ReLU()]
    return parts
