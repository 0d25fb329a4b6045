"""A card's memory and second-level cache: writing alone, reading what the cache holds, dependent loads."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from pytest_anubis.benchmarking.verification import count_errors

PIECE = 1 << 24
"""Elements that are checked at a time."""


class Write:
    """Writing alone: every element of an array becomes the number of the pass.

    Args:
        elements: Of 8 bytes.
        apply: Does the work instead; one that makes a fault shows that it is noticed.
    """

    def __init__(
        self,
        elements: int,
        device: torch.device,
        *,
        apply: Callable[[torch.Tensor, int], object] = torch.Tensor.fill_,
    ) -> None:
        self._array = torch.zeros(elements, dtype=torch.int64, device=device)
        self._apply = apply
        self._passes = 0

    @property
    def bytes(self) -> float:
        """Bytes that one pass writes."""
        return 8.0 * len(self._array)

    def run(self) -> None:
        """Write once, another number than the last time."""
        self._passes += 1
        self._apply(self._array, self._passes)

    def wrong_elements(self) -> int:
        """Return how many elements do not hold the number of the last pass; the device is shown an error."""
        return count_errors(self._wrong, lambda: self._array[-1:].add_(1))

    def _wrong(self) -> int:
        parts = torch.split(self._array, PIECE)
        return sum(int(torch.count_nonzero(part != self._passes)) for part in parts)


class CacheRead:
    """Reading an array that fits into the second-level cache, many times in one launch.

    Each sum goes through the whole array, so it comes from the cache that all units share, not their own.

    Args:
        footprint: Bytes of the array.
        sums: How many sums one launch makes.
        apply: Does the work instead; one that makes a fault shows that it is noticed.
    """

    def __init__(
        self,
        footprint: int,
        sums: int,
        device: torch.device,
        *,
        apply: Callable[..., object] = torch.sum,
    ) -> None:
        # 0, 1 and 2: the sum of 64 MiB of them is exact in single precision, in any order.
        self._array = (torch.arange(footprint // 4, device=device) % 3).float()
        self._view = self._array.expand(sums, -1)
        self._out = torch.zeros(sums, device=device)
        self._apply = apply

    @property
    def bytes(self) -> float:
        """Bytes that one launch reads."""
        return 4.0 * self._view.numel()

    def run(self) -> None:
        """Read the array as often as there are sums."""
        self._apply(self._view, dim=1, out=self._out)

    def wrong_sums(self) -> int:
        """Return how many sums of the last launch are wrong; the device is shown an error."""
        whole, rest = divmod(len(self._array), 3)
        expected = 3 * whole + (rest == 2)

        def wrong() -> int:
            return int(torch.count_nonzero(self._out != expected))

        return count_errors(wrong, lambda: self._out[-1:].add_(1))


class CardChase:
    """Loads of which each needs the one before: every launch looks up where the next one looks.

    The places form one cycle, x -> a x + c modulo their number, which jumps about like random numbers.

    Args:
        footprint: Bytes, rounded down to a power of two.
    """

    FACTOR, STEP = (
        6364136223846793005,
        1442695040888963407,
    )  # Knuth's MMIX: full period modulo powers of two

    def __init__(self, footprint: int, device: torch.device) -> None:
        self._places = 1 << ((footprint // 8).bit_length() - 1)
        self._table = torch.empty(self._places, dtype=torch.int64, device=device)
        for begin in range(0, self._places, PIECE):
            part = self._table[begin : begin + PIECE]
            part.copy_(self._next(torch.arange(begin, begin + len(part), device=device)))
        self._here, self._there = (
            torch.zeros(1, dtype=torch.int64, device=device) for _ in range(2)
        )

    def _next(self, places: torch.Tensor) -> torch.Tensor:
        # Modulo 2^64 first, with a sign; the low bits are those of the number without one.
        return (places * self.FACTOR + self.STEP) & (self._places - 1)

    def run(self, steps: int) -> None:
        """Make so many pairs of steps: two launches each, the second needs what the first brought."""
        for _ in range(steps):
            torch.index_select(self._table, 0, self._here, out=self._there)
            torch.index_select(self._table, 0, self._there, out=self._here)

    def begin(self) -> None:
        """Go back to the first place."""
        self._here.zero_()

    def arrived(self, steps: int) -> bool:
        """Return whether so many pairs of steps from the first place led where they should."""
        place = 0
        for _ in range(2 * steps):
            place = (place * self.FACTOR + self.STEP) % self._places
        return int(self._here) == place

    def wrong_links(self) -> int:
        """Return how many places do not lead where they should; the device is shown an error."""

        def wrong() -> int:
            return sum(
                int(torch.count_nonzero(part != self._next(places)))
                for begin in range(0, self._places, PIECE)
                for part in (self._table[begin : begin + PIECE],)
                for places in (torch.arange(begin, begin + len(part), device=part.device),)
            )

        return count_errors(wrong, lambda: self._table[-1:].add_(1))


def load_times(
    walks: Sequence[Callable[[], object]], loads: int, calls: int, device: torch.device
) -> list[float]:
    """Return the nanoseconds of one load of each walk by the device's own clock, launch included.

    Args:
        walks: What makes `loads` loads each, one walk after the other.
        loads: Of one walk.
        calls: How often each is walked.
        device: Where.
    """
    torch.accelerator.set_device_index(device)
    found = []
    for walk in walks:
        begin, end = (torch.Event(device, enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(calls):
            walk()
        end.record()
        end.synchronize()
        found.append(begin.elapsed_time(end) * 1e6 / (calls * loads))
    return found
