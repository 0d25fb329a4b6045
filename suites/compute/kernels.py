"""Kernels for arithmetic: a matrix product that checks itself, and the smallest possible launch."""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable

import torch

from pytest_anubis.benchmarking.placement import checking_device
from pytest_anubis.benchmarking.precision import tolerance
from suites.memory.huge_pages import room

Multiply = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]

ROWS = 1024
"""Rows that are made and checked at a time: 128 MiB of a matrix of size 16,384 in double precision."""

PROBE_SPREAD = 36.0
"""Standard deviation of an element of the exact product; 256, the end of bfloat16's integers, is 7 of it."""


def matrix(rows: int, columns: int, kind: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return room for a matrix (rows, columns); on a host in huge pages, where the kernel gives them.

    Torch asks for pages of 4 KiB. There MKL's product of size 1,024 took 2 to 3 % longer on one CPU, and more
    or less of it as the pages happened to lie: what a page table costs is no property of arithmetic units.
    """
    if device.type != "cpu" or not hasattr(mmap, "MADV_HUGEPAGE"):
        return torch.empty(rows, columns, dtype=kind, device=device)
    found, begin = room(rows * columns * kind.itemsize)
    made = torch.frombuffer(found, dtype=kind, count=rows * columns, offset=begin)
    return made.view(rows, columns)


def multiply(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """Write the matrix product of `a` and `b` into `out`, without allocating."""
    torch.mm(a, b, out=out)


class Gemm:
    """A square matrix product with fixed buffers.

    It is made and checked on the device: on the host that takes ten times as long as the measurement.

    Args:
        size: Rows and columns of all three matrices.
        dtype: A name that `tolerance` knows; for ``tf32`` torch needs `single_precision` too.
        product: Does the work; another one can be put in to see that a fault is noticed.
    """

    def __init__(
        self, size: int, dtype: str, device: torch.device, *, product: Multiply = multiply
    ) -> None:
        self.size = size
        self.tolerance = tolerance(dtype, terms=size)
        self._product = product
        self._device = device
        self._exact = checking_device(device)
        self._random = torch.Generator(device).manual_seed(20240224)
        kind = torch.float32 if dtype == "tf32" else getattr(torch, dtype)
        self._a, self._b, self._c = (matrix(size, size, kind, device) for _ in range(3))
        self._fill(lambda shape: torch.randn(shape, generator=self._random, device=device))

    @property
    def work(self) -> float:
        """Floating-point operations of one product: a multiplication and an addition per term."""
        return 2.0 * self.size**3

    def run(self) -> None:
        """Compute the product once."""
        self._product(self._a, self._b, self._c)

    def relative_error(self) -> float:
        """Return |C v - A (B v)| / |A (B v)| in double precision, v of random signs.

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
        self.prepare_exact()
        self.run()
        return self.inexact_rows()

    def prepare_exact(self) -> None:
        """Fill A and B with the small whole numbers."""
        density = min(1.0, PROBE_SPREAD / math.sqrt(self.size))

        def sparse_signs(shape: tuple[int, int]) -> torch.Tensor:
            drawn = torch.rand(shape, generator=self._random, device=self._device)
            return (drawn < density / 2).float() - (drawn > 1 - density / 2).float()

        self._fill(sparse_signs)

    def inexact_rows(self) -> int:
        """Return how many rows of the product of whole numbers are wrong.

        The device checks itself, so at the end it is shown an error; one that does not notice that is
        not believed, and all rows count as wrong.
        """
        wrong = int(torch.count_nonzero(self._broken()))
        self._c[0, 0] += 1
        return wrong if bool(self._broken()[0]) else self.size

    def _fill(self, make: Callable[[tuple[int, int]], torch.Tensor]) -> None:
        for matrix in (self._a, self._b):
            for part in _parts(matrix):
                part.copy_(make((len(part), self.size)))

    def _broken(self) -> torch.Tensor:
        """Return which rows of C are not whole, or not those of A B."""
        residual, _ = self._project()
        # The last bits of a wrong element can be lost in the projection; but they make it a fraction.
        # NaN is unequal to everything, so an element that became NaN counts as wrong.
        fractions = [(c != c.round()).any(dim=1) for c in _parts(self._c)]
        return torch.cat(fractions).to(self._exact) | (residual != 0).flatten()

    def _project(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return C v - A (B v) and A (B v), both (size, 1), for a vector v of random signs."""
        drawn = torch.rand(self.size, 1, generator=self._random, device=self._device)
        v = torch.where(drawn < 0.5, -1.0, 1.0).to(self._exact).double()
        expected = self._times(self._a, self._times(self._b, v))
        return self._times(self._c, v) - expected, expected

    def _times(self, matrix: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
        parts = [part.to(self._exact).double() @ vector for part in _parts(matrix)]
        return torch.cat(parts)


def _parts(matrix: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.split(matrix, ROWS)


class Launch:
    """The smallest piece of work that a device can be given: add 1 to one integer.

    Args:
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

        def launch_all() -> None:
            for _ in range(launches):
                self.run()

        return self.counted(launch_all)

    def counted(self, work: Callable[[], object]) -> int:
        """Return what the device counted, from zero, in some work."""
        self._counter.zero_()
        work()
        return int(self._counter.item())
