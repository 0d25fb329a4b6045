"""Matrix products that no order of summation rounds: every device and thread count gives the same bits.

The operands are whole numbers made from their places alone, so small that all partial sums are exact in
the type that hardware sums in. A result is then right or wrong to the last bit, and compared on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import torch

from pytest_anubis.benchmarking.placement import checking_device
from pytest_anubis.benchmarking.verification import fingerprint, flip_bit, hashed
from suites.compute import fixed_point

Multiply = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]

ROWS = 1024
"""Rows that are made and checked at a time: 128 MiB of a matrix of size 16,384 in double precision."""

FLOAT8_ERROR = 0.1
"""Largest error of an element of a product of 8-bit floats, apart from rounding, over the root mean square of
all: Hopper's units keep some 14 bits of a sum, which errs by 0.02. A turned sign errs by 1 or so."""


HOPPER = 9
"""First figure of its compute capability. Later generations sum in single precision as it is."""


def whole_numbers(begin: int, count: int, bound: int, device: torch.device) -> torch.Tensor:
    """Return the numbers, from -`bound` to `bound` (int64), of `count` places from `begin` on."""
    words = hashed(torch.arange(begin, begin + count, device=device))
    return torch.remainder(words, 2 * bound + 1) - bound


@contextmanager
def whole_sums() -> Iterator[None]:
    """Let products of halves be summed in single precision to their end, not partly in halves.

    Where a product is split among units, torch may sum the parts in the operands' own type, which rounds.
    """
    settings = torch.backends.cuda.matmul
    names = ("allow_bf16_reduced_precision_reduction", "allow_fp16_reduced_precision_reduction")
    before = {name: getattr(settings, name) for name in names}
    for name in names:
        setattr(settings, name, False)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(settings, name, value)


class Kind(NamedTuple):
    """How products of an element type are made exact.

    Attributes:
        operand: Torch's name of the factors' type.
        result: That of the result's.
        bits: The integer type of the result's width.
        bound: Largest factor. Sums of 16,384 random products are twenty times smaller than what the sum's
            type holds without rounding: 2^24 in single precision, 65,504 in the result of float16.
        exact: Whether hardware is bound to sum without rounding.
    """

    operand: str
    result: str
    bits: torch.dtype
    bound: int
    exact: bool = True


KINDS = {
    "float64": Kind("float64", "float64", torch.int64, 1 << 18),
    "float32": Kind("float32", "float32", torch.int32, 127),
    "tf32": Kind("float32", "float32", torch.int32, 127),
    "bfloat16": Kind("bfloat16", "bfloat16", torch.int16, 127),
    "float16": Kind("float16", "float16", torch.int16, 7),
    "int8": Kind("int8", "int32", torch.int32, 127),
    "int16": Kind("int16", "int64", torch.int64, fixed_point.BOUND),
    "float8_e4m3fn": Kind("float8_e4m3fn", "bfloat16", torch.int16, 15, exact=False),
    "float8_e4m3fnuz": Kind("float8_e4m3fnuz", "bfloat16", torch.int16, 15, exact=False),
}


@dataclass(frozen=True, slots=True)
class Shape:
    """A product of (rows, inner) and (inner, columns), `batch` times.

    Attributes:
        rows: Rows of the first factor and of the result.
        inner: Terms of a sum.
        columns: Columns of the second factor and of the result.
        batch: Products at once; more than one for floats of at least 16 bits only.
    """

    rows: int
    inner: int
    columns: int
    batch: int = 1

    @classmethod
    def square(cls, size: int) -> Shape:
        """Return the shape of a product of square matrices."""
        return cls(size, size, size)

    @property
    def work(self) -> float:
        """Operations: a multiplication and an addition per term."""
        return 2.0 * self.batch * self.rows * self.inner * self.columns


def product_of(dtype: str, device: torch.device) -> Multiply:
    """Return a function that multiplies matrices of an element type into a buffer.

    Only that of ``int16`` takes further memory. On NVIDIA's Hopper the matrix units alone sum products of
    8-bit floats, which is its full rate: else other units add up every few terms in single precision.
    """
    if dtype == "int8":
        return lambda a, b, out: torch._int_mm(a, b, out=out)
    if dtype == "int16":
        return fixed_point.multiply
    if dtype.startswith("float8"):
        one = torch.ones((), dtype=torch.float32, device=device)
        fast = device.type == "cuda" and torch.version.hip is None
        fast = fast and torch.cuda.get_device_capability(device)[0] == HOPPER

        def scaled(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
            torch._scaled_mm(a, b, one, one, out_dtype=out.dtype, use_fast_accum=fast, out=out)

        return scaled
    return lambda a, b, out: torch.matmul(a, b, out=out)


class ExactProduct:
    """A product of whole numbers with fixed buffers, whose results are compared bit for bit on the device.

    The second factor is stored by columns, as the weights of a linear layer are: the only form in which
    matrix units take eight bits.

    Args:
        shape: Of the factors.
        dtype: A key of `KINDS`; for ``tf32`` torch has to be set accordingly.
        product: Does the work; another one can be put in to see that a fault is noticed.
    """

    def __init__(
        self, shape: Shape, dtype: str, device: torch.device, *, product: Multiply | None = None
    ) -> None:
        self.shape, self.kind, self._device = shape, KINDS[dtype], device
        self._product = product or product_of(dtype, device)
        factors = ((shape.rows, 1), (shape.columns, 2))
        a, weights = (self._factor(rows, number) for rows, number in factors)
        self._a, self._b = a, weights.transpose(-1, -2)
        result = getattr(torch, self.kind.result)
        size = (*a.shape[:-1], shape.columns)
        self._out, self._first = (torch.zeros(size, dtype=result, device=device) for _ in range(2))
        self._unequal = torch.empty(size, dtype=torch.bool, device=device)
        self._wrong = torch.zeros(size[:-1], dtype=torch.int64, device=device)

    def _factor(self, rows: int, number: int) -> torch.Tensor:
        """Return the whole numbers of one of the factors, (batch,) rows, inner."""
        inner, lines = self.shape.inner, self.shape.batch * rows
        dtype = getattr(torch, self.kind.operand)
        made = torch.empty(lines, inner, dtype=dtype, device=self._device)
        for begin in range(0, lines, ROWS):
            part = made[begin : begin + ROWS]
            places = (number << 48) + begin * inner  # factors have no place in common
            numbers = whole_numbers(places, part.numel(), self.kind.bound, self._device)
            part.copy_(numbers.view(part.shape))
        return made if self.shape.batch == 1 else made.view(self.shape.batch, rows, inner)

    @property
    def work(self) -> float:
        """Operations of one product."""
        return self.shape.work

    def run(self) -> None:
        """Compute the product once."""
        self._product(self._a, self._b, self._out)

    def keep(self) -> None:
        """Compute the product once more; later ones are compared with this one. Forgets what was counted."""
        self.run()
        self._first.copy_(self._out)
        self._wrong.zero_()

    def run_compared(self) -> None:
        """Compute the product, and count on the device what differs from the first one; waits for nothing."""
        self.run()
        self.compare()

    def compare(self) -> None:
        """Count how many elements of the last product differ in any bit from the first one's."""
        bits = self.kind.bits
        torch.ne(self._out.view(bits), self._first.view(bits), out=self._unequal)
        self._wrong += self._unequal.sum(dim=-1)

    def wrong_elements(self) -> int:
        """Return how many elements were counted since `keep`; waits for the device."""
        return int(self._wrong.sum())

    def wrong_rows(self) -> list[int]:
        """Return the rows in which elements were counted: which units work on them is up to the library."""
        return [int(row) for row in self._wrong.reshape(-1).nonzero().flatten()]

    def notices(self) -> bool:
        """Flip a bit of the last result; return whether the device counts exactly that element."""
        before = self.wrong_elements()
        self.run_compared()
        sane = self.wrong_elements()
        flip_bit(self._out, self._out.numel() // 2)
        self.compare()
        return self.wrong_elements() - sane == 1 + (sane - before)

    def verify(self) -> None:
        """Assert that the first result is right, that no later one differed, and that a flipped bit shows.

        Raises:
            AssertionError: Something is wrong, or the device cannot see that it is.
        """
        dtype, wrong, rows = self.kind.operand, self.wrong_elements(), self.wrong_rows()
        assert wrong == 0, (
            f"{wrong} elements of {dtype} products differ from the first one, in {len(rows)} rows: {rows[:8]}"
        )
        wrong = self.unlike_double()
        assert wrong == 0, f"{wrong} elements of the first {dtype} product are wrong"
        assert self.notices(), (
            f"a flipped bit of a {dtype} product is not noticed, so no result is believed"
        )

    def unlike_double(self) -> int:
        """Return how many elements of the first result are not those of double precision, rounded once.

        Of a type that hardware may round inside of a sum: how many err by more than that explains.
        """
        wrong = 0
        for first, expected in self._beside_double():
            if self.kind.exact:
                rounded = expected.to(first.dtype)
                wrong += int(torch.count_nonzero(first.double() != rounded.double()))
                continue
            spread = expected.square().mean().sqrt()
            allowed = FLOAT8_ERROR * spread + expected.abs() * torch.finfo(first.dtype).eps
            # Not "above": what became NaN is neither above nor below.
            wrong += int(torch.count_nonzero(~((first.double() - expected).abs() <= allowed)))
        return wrong

    def _beside_double(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Give pieces of the first result, each with what double precision makes of the same numbers."""
        exact = checking_device(self._device)
        inner, columns = self._a.shape[-1], self._first.shape[-1]
        a = self._a.reshape(self.shape.batch, -1, inner)
        first = self._first.view(self.shape.batch, -1, columns)
        b = self._b.reshape(self.shape.batch, inner, columns)
        for number in range(self.shape.batch):
            factor = b[number].to(exact).double()
            for begin in range(0, self.shape.rows, ROWS):
                rows = slice(begin, begin + ROWS)
                yield first[number, rows].to(exact), a[number, rows].to(exact).double() @ factor

    def fingerprint(self) -> int:
        """Return 64 bits that depend on value and place of each element of the first result.

        Of the numbers in double precision, so that types of the same factors that do not round give the same.
        """
        exact = checking_device(self._device)
        return fingerprint(self._first.to(exact).double() + 0.0)  # 0 and -0 are one number
