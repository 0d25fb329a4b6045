"""Verification on the device: fingerprints, counts of wrong elements, patterns that need no second buffer.

Everything is computed piece by piece where the data lie, so that nearly all of a memory can be checked, and a
device that checks itself is shown an error that it has to notice (`believed`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch

PIECE = 1 << 24
"""Elements that are checked at a time: a few pieces of 128 MiB are all that is needed next to the data."""

# The odd constants of SplitMix64 (Steele, Lea and Flood 2014), which spreads every bit over all others.
_STEP = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB

Kind = Literal["address", "moving", "random"]


@dataclass(frozen=True, slots=True)
class Pattern:
    """Words of 64 bits that depend on nothing but a seed and where they lie: any part can be made again.

    Attributes:
        kind: ``address``: every word holds its own number; ``moving``: one bit of 64 is set, the next one in
            the next word; ``random``: a random number.
        seed: Another seed gives other words: an address is counted from it, the bit begins there.
        inverted: Every bit is turned round.
    """

    kind: Kind
    seed: int = 0
    inverted: bool = False

    def words(self, begin: int, count: int, device: torch.device) -> torch.Tensor:
        """Return the words number `begin` to `begin + count`, (count,) of int64, made on the device."""
        import torch

        first = begin + self.seed
        numbers = torch.arange(first, first + count, dtype=torch.int64, device=device)
        if self.kind == "moving":
            numbers &= 63
            one = torch.ones((), dtype=torch.int64, device=device)
            numbers = torch.bitwise_left_shift(one, numbers)
        elif self.kind == "random":
            # A shorter hash than `hashed`: an H200 makes words at a tenth of the rate of its memory.
            numbers *= _signed(_STEP)
            numbers ^= _shifted(numbers, 32)
            numbers *= _signed(_SECOND)
            numbers ^= _shifted(numbers, 29)
        return numbers.bitwise_not_() if self.inverted else numbers


def fill(tensor: torch.Tensor, pattern: Pattern) -> None:
    """Write a pattern into a contiguous tensor, whatever its element type; its bytes are a multiple of 8."""
    words = _words(tensor)
    for begin in range(0, len(words), PIECE):
        part = words[begin : begin + PIECE]
        part.copy_(pattern.words(begin, len(part), part.device))


def wrong_elements(tensor: torch.Tensor, expected: torch.Tensor | Pattern) -> int:
    """Return how many elements differ in any bit; NaN equals the same NaN, and 0 is not -0.

    Args:
        tensor: What was computed, moved or stored; contiguous.
        expected: The same element type and shape, on the same device; or the pattern that was filled in, of
            which words of 64 bits are counted.

    Raises:
        ValueError: The two cannot be compared.
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


def fingerprint(tensor: torch.Tensor) -> int:
    """Return 64 bits, 0 to 2^64 - 1, that change with every bit of a tensor and every exchange of elements.

    Whole-number arithmetic modulo 2^64: the same on every device, in any order and for any size of the
    pieces. Equal for tensors of one element type and shape that are equal bit for bit.
    """
    import torch

    bits = _bits(tensor)
    total = 0
    for begin in range(0, len(bits), PIECE):
        part = bits[begin : begin + PIECE].to(torch.int64)
        numbers = torch.arange(begin + 1, begin + 1 + len(part), device=part.device)
        total += int(_mixed(hashed(numbers) ^ part).sum())
    return total % (1 << 64)


def believed(check: Callable[[], int], corrupt: Callable[[], object]) -> int:
    """Return what a check counts as wrong, after it has noticed an error that it was shown.

    Args:
        check: Counts what is wrong, on the device.
        corrupt: Makes one error in what is checked; it stays there.

    Raises:
        AssertionError: The check finds nothing wrong, and still nothing after the error was made.
    """
    wrong = check()
    corrupt()
    if not wrong and not check():
        raise AssertionError(
            "the device does not notice an error that it was shown: nothing that it checks is believed"
        )
    return wrong


def flip_bit(tensor: torch.Tensor, element: int = 0, bit: int = 0) -> None:
    """Turn one bit of one element round, in place: the smallest error there is, for `believed` and tests."""
    bits = _bits(tensor)
    is_sign = bit == 8 * bits.element_size() - 1 and bits.element_size() > 1
    bits[element] ^= -(1 << bit) if is_sign else 1 << bit


def hashed(numbers: torch.Tensor) -> torch.Tensor:
    """Return the 64-bit hash of each number (int64, any shape): SplitMix64, the same on every device."""
    return _mixed(numbers * _signed(_STEP))


def _mixed(words: torch.Tensor) -> torch.Tensor:
    """Return 64-bit words with every bit spread over all others: a permutation of all words."""
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
