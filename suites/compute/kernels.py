"""Kernels for arithmetic: a matrix product that checks itself, and the smallest possible launch."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

Multiply = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]

TOLERANCE = {"float64": 1e-12, "float32": 1e-5, "bfloat16": 1e-2, "float16": 2e-3}
"""Largest relative error (2-norm) of a product of normal variates, a few times its rounding error."""

PROBE_SPREAD = 36.0
"""Standard deviation of an element of the exact product; 256, the end of bfloat16's integers, is 7 of it."""


def multiply(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """Write the matrix product of `a` and `b` into `out`, without allocating."""
    torch.mm(a, b, out=out)


class Gemm:
    """A square matrix product with fixed buffers.

    Args:
        size: Rows and columns of all three matrices.
        dtype: Torch's name of the element type, a key of `TOLERANCE`.
        device: Where to compute.
        product: Does the work; another one can be put in to see that a fault is noticed.
    """

    def __init__(
        self, size: int, dtype: str, device: torch.device, *, product: Multiply = multiply
    ) -> None:
        self.size = size
        self.tolerance = TOLERANCE[dtype]
        self._product = product
        self._random = torch.Generator().manual_seed(20240224)
        kind = getattr(torch, dtype)
        self._a, self._b = (
            torch.randn(size, size, generator=self._random).to(device=device, dtype=kind)
            for _ in range(2)
        )
        self._c = torch.empty(size, size, device=device, dtype=kind)

    @property
    def work(self) -> float:
        """Floating-point operations of one product: a multiplication and an addition per term."""
        return 2.0 * self.size**3

    def run(self) -> None:
        """Compute the product once."""
        self._product(self._a, self._b, self._c)

    def relative_error(self) -> float:
        """Return |C v - A (B v)| / |A (B v)| in double precision on the host, v of random signs.

        This is Freivalds' check: one vector touches every element of C at the cost of three
        matrix-vector products instead of another matrix product.
        """
        residual, expected = self._project()
        return float(residual.norm() / expected.norm())

    def wrong_rows(self) -> int:
        """Return how many rows of a product of small whole numbers are not exactly right.

        With entries -1, 0 and 1, sparse enough that every sum stays inside the integers that the
        element type holds, no order of summation rounds: one flipped bit anywhere is an error, and
        it is never lost in a tolerance. Overwrites the matrices.
        """
        density = min(1.0, PROBE_SPREAD / math.sqrt(self.size))
        for matrix in (self._a, self._b):
            shape = (self.size, self.size)
            signs = torch.randint(0, 2, shape, generator=self._random) * 2 - 1
            kept = torch.rand(shape, generator=self._random) < density
            matrix.copy_(signs * kept)
        self.run()
        residual, _ = self._project()
        c = self._c.cpu()
        # The last bits of a wrong element can be lost in the projection; but they make it a fraction.
        # NaN is unequal to everything, so an element that became NaN counts as wrong.
        broken = (c != c.round()).any(dim=1) | (residual != 0).flatten()
        return int(torch.count_nonzero(broken))

    def _project(self) -> tuple[torch.Tensor, torch.Tensor]:
        signs = torch.randint(0, 2, (self.size, 1), generator=self._random) * 2 - 1
        v = signs.to(torch.float64)
        a, b, c = (m.cpu().to(torch.float64) for m in (self._a, self._b, self._c))
        expected = a @ (b @ v)
        return c @ v - expected, expected


class Launch:
    """The smallest piece of work that a device can be given: add 1 to one integer.

    Args:
        device: Where to launch.
        operation: What is launched; another one can be put in to see that a fault is noticed.
    """

    def __init__(
        self,
        device: torch.device,
        *,
        operation: Callable[[torch.Tensor], object] = lambda counter: counter.add_(1),
    ) -> None:
        self._counter = torch.zeros(1, dtype=torch.int64, device=device)
        self._operation = operation

    def run(self) -> None:
        """Launch once, without waiting for it."""
        self._operation(self._counter)

    def count(self, launches: int) -> int:
        """Launch so many times from zero and return what the device counted."""
        self._counter.zero_()
        for _ in range(launches):
            self.run()
        return int(self._counter.item())
