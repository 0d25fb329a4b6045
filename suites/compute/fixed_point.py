"""Products of sixteen-bit whole numbers by units that multiply eight bits, with one exponent for a matrix.

A number is 256 times a high byte and a low byte, both with a sign, so a product is four products of bytes.
Dynamic fixed point: Das et al., Mixed precision training of convolutional neural networks using integer
operations, 2018.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

BOUND = 127 * 256 + 127
"""Largest magnitude of a number: 32,639, of which high and low byte are 127."""

CHAIN = (2**31 - 1) // 128**2 // 16 * 16
"""Terms of a sum of products of bytes, none beyond 128 * 128, that 32 bits always hold: 131,071, of which
matrix units take multiples of 16 best."""


def bytes_of(numbers: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return high and low bytes (int8) of whole numbers (int16) up to `BOUND`: number = 256 * high + low."""
    low = numbers.to(torch.int8)  # the last 8 bits
    return ((numbers + 128) >> 8).to(torch.int8), low


def multiply(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """Multiply two matrices of whole numbers up to `BOUND`, by four products of their bytes.

    Units add up `CHAIN` terms in 32 bits; such sums are then added in the type of the result. 64 bits hold
    every sum, and 32 bits keep it modulo 2^32.

    Args:
        a: (rows, inner) of int16; NVIDIA's units take at least 17 rows.
        b: (inner, columns) of int16; NVIDIA's units take multiples of eight of both.
        out: (rows, columns) of int64 or int32.
    """
    (high_a, low_a), (high_b, low_b) = bytes_of(a), bytes_of(b)
    pairs = ((high_a, high_b, 16), (high_a, low_b, 8), (low_a, high_b, 8), (low_a, low_b, 0))
    out.zero_()
    for begin in range(0, a.shape[-1], CHAIN):
        terms = slice(begin, begin + CHAIN)
        for one, other, shift in pairs:
            out.add_(torch._int_mm(one[:, terms], other[terms]), alpha=1 << shift)


class FixedPoint(NamedTuple):
    """A matrix of whole numbers with a shared exponent.

    Attributes:
        numbers: int16, up to `BOUND`.
        exponent: An element is its number times two to the power of this.
    """

    numbers: torch.Tensor
    exponent: int

    @classmethod
    def of(cls, values: torch.Tensor) -> FixedPoint:
        """Return finite floats rounded to fixed point, with the least exponent that holds the largest one."""
        largest = float(values.abs().max())
        exponent = math.frexp(largest)[1] - 15
        exponent += round(math.ldexp(largest, -exponent)) > BOUND
        return cls(torch.round(values.double() * 2.0**-exponent).to(torch.int16), exponent)

    def times(self, other: FixedPoint) -> torch.Tensor:
        """Return the product with another matrix in double precision, exact up to 8 million terms."""
        size = (len(self.numbers), other.numbers.shape[-1])
        out = torch.empty(size, dtype=torch.int64, device=self.numbers.device)
        multiply(self.numbers, other.numbers, out)
        return out.double() * 2.0 ** (self.exponent + other.exponent)
