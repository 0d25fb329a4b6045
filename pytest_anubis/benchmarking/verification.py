"""Verify data on the device: fingerprints, counts of wrong elements, patterns that need no second buffer.

Everything is computed in pieces on the device that has the data, so nearly all of its memory can be checked.
A device that checks itself has to detect a deliberate error (`count_errors`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch

PIECE = 1 << 24
"""Elements that are checked at a time: besides the data only a few pieces of 128 MiB are needed."""

CPU_PIECE = 1 << 16
"""Elements that a CPU hashes at a time, few enough for its caches: several times as fast as with `PIECE`."""

# The odd constants of SplitMix64 (Steele, Lea and Flood 2014), which mixes every bit into all others.
_STEP = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB

Kind = Literal["address", "moving", "random"]


@dataclass(frozen=True, slots=True)
class Pattern:
    """64-bit words, each made from a seed and its position, so that any part can be had anew."""

    # ``address``: every word is its own number; ``moving``: one bit of 64 is set, the next one in
    # the next word; ``random``: every word is a hash of its number
    kind: Kind
    # Number of the first word. Seeds closer than the number of words give overlapping patterns;
    # ``moving`` repeats after 64.
    seed: int = 0
    inverted: bool = False  # every bit is inverted

    def words(self, begin: int, count: int, device: torch.device) -> torch.Tensor:
        """Return `count` words from number `begin` on, (count,) of int64, computed on the device."""
        import torch

        first = begin + self.seed
        numbers = torch.arange(first, first + count, dtype=torch.int64, device=device)
        if self.kind == "moving":
            numbers &= 63
            one = torch.ones((), dtype=torch.int64, device=device)
            numbers = torch.bitwise_left_shift(one, numbers)
        elif self.kind == "random":
            # A shorter hash than `hashed`: with it an H200 makes words at a tenth of its memory's rate.
            numbers *= _signed(_STEP)
            numbers ^= _shifted(numbers, 32)
            numbers *= _signed(_SECOND)
            numbers ^= _shifted(numbers, 29)
        return numbers.bitwise_not_() if self.inverted else numbers


def fill(tensor: torch.Tensor, pattern: Pattern) -> None:
    """Write a pattern into a contiguous tensor of any element type, whose bytes are a multiple of 8."""
    words = _words(tensor)
    for begin in range(0, len(words), PIECE):
        part = words[begin : begin + PIECE]
        part.copy_(pattern.words(begin, len(part), part.device))


def wrong_elements(tensor: torch.Tensor, expected: torch.Tensor | Pattern) -> int:
    """Return how many elements differ in any bit; NaN equals the same NaN, and 0 is not -0.

    Args:
        tensor: The computed, moved or stored data; contiguous. Of elements of 16 bytes, halves are counted.
        expected: A contiguous tensor of the same element type and shape on the same device, or the pattern
            with which the tensor was filled, in which case wrong 64-bit words are counted.

    Raises:
        ValueError: Type or shape differ, or a tensor is not contiguous.
    """
    if isinstance(expected, Pattern):
        words = _words(tensor)
        wrong = 0
        for begin in range(0, len(words), PIECE):
            part = words[begin : begin + PIECE]
            wrong += int((part != expected.words(begin, len(part), part.device)).sum())
        return wrong
    if (tensor.shape, tensor.dtype) != (expected.shape, expected.dtype):
        raise ValueError(
            f"{tuple(tensor.shape)} of {tensor.dtype} cannot be compared with "
            f"{tuple(expected.shape)} of {expected.dtype}"
        )
    ours, theirs = _bits(tensor), _bits(expected)
    return sum(
        int((ours[begin : begin + PIECE] != theirs[begin : begin + PIECE]).sum())
        for begin in range(0, len(ours), PIECE)
    )


def fingerprint(tensor: torch.Tensor, first: int = 0) -> int:
    """Return the 64-bit fingerprint of a contiguous tensor, the same on every device and in any pieces.

    Any change of one element of up to 8 bytes changes it. Other changes, such as a swap of elements, are
    missed with a chance of about 2^-64.

    Args:
        tensor: Elements of up to 8 bytes.
        first: The number of its first element where it is a part of something larger, whose fingerprint is
            the sum of those of its parts, modulo 2^64.
    """
    import torch

    bits = _bits(tensor)
    total = 0
    piece = CPU_PIECE if bits.device.type == "cpu" else PIECE
    for begin in range(0, len(bits), piece):
        part = bits[begin : begin + piece].to(torch.int64)
        number = first + begin + 1
        numbers = torch.arange(number, number + len(part), device=part.device)
        total += int(_mixed(hashed(numbers) ^ part).sum())
    return total % (1 << 64)


def count_errors(check: Callable[[], int], corrupt: Callable[[], object]) -> int:
    """Return the number of errors that a check finds; if it finds none, make sure that it can detect one.

    Args:
        check: Counts the errors, on the device.
        corrupt: Makes one error in the checked data, which remains there.

    Raises:
        AssertionError: The check finds no error, not even the one made by `corrupt`.
    """
    wrong = check()
    corrupt()
    if not wrong and not check():
        raise AssertionError(
            "the device does not notice an error that it was shown: nothing that it checks is believed"
        )
    return wrong


def flip_bit(tensor: torch.Tensor, element: int = 0, bit: int = 0) -> None:
    """Invert one bit of one element in place, the smallest possible error, for `count_errors` and tests."""
    bits = _bits(tensor)
    is_sign = bit == 8 * bits.element_size() - 1 and bits.element_size() > 1
    bits[element] ^= -(1 << bit) if is_sign else 1 << bit


def hashed(numbers: torch.Tensor) -> torch.Tensor:
    """Return the 64-bit hash of each number (int64, any shape): SplitMix64, the same on every device."""
    return _mixed(numbers * _signed(_STEP))


def _mixed(words: torch.Tensor) -> torch.Tensor:
    """Return 64-bit words with every bit mixed into all others; the mapping is a permutation of all words."""
    words = (words ^ _shifted(words, 30)) * _signed(_FIRST)
    words = (words ^ _shifted(words, 27)) * _signed(_SECOND)
    return words ^ _shifted(words, 31)


def _shifted(words: torch.Tensor, by: int) -> torch.Tensor:
    """Shift to the right and fill with zeros; torch's own shift repeats the sign."""
    return (words >> by).bitwise_and_((1 << (64 - by)) - 1)


def _signed(word: int) -> int:
    """Return 64 bits as torch has them: with a sign."""
    return word - (1 << 64) if word >> 63 else word


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return a contiguous tensor's elements as whole numbers of their size, flat; 16 bytes give two."""
    import torch

    if not tensor.is_contiguous():
        raise ValueError("only a contiguous tensor can be looked at bit by bit")
    kinds = {1: torch.uint8, 2: torch.int16, 4: torch.int32}
    return tensor.detach().view(-1).view(kinds.get(tensor.element_size(), torch.int64))


def _words(tensor: torch.Tensor) -> torch.Tensor:
    """Return a contiguous tensor's bytes as words of 64 bits, flat."""
    import torch

    if not tensor.is_contiguous() or tensor.numel() * tensor.element_size() % 8:
        raise ValueError("a pattern is for a contiguous tensor whose bytes are a multiple of 8")
    return tensor.detach().view(-1).view(torch.int64)
