"""A group of ranks on this machine that reduce, and compute meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_anubis.benchmarking.ranks import START, NodeRanks
from suites.shared_ranks import times_within

MODULE = "suites.collective.rank"

LOADED = 0.3
"""Seconds of load in a round on accelerators, at least, so that the cards work for most of the time."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """Seconds of a step's three forms, each that of the slowest rank.

    Attributes:
        compute: The matrix products alone.
        communicate: The all-reduce alone.
        together: Both, the products while the all-reduce runs.
    """

    compute: float
    communicate: float
    together: float

    @property
    def stretch(self) -> float:
        """Time of both over that of the longer part: 1 hides the shorter part completely.

        Not the ratio to the sum, which is bad for a node whose link is *faster* than the others'
        (there is less to hide), and not the exposed time, a difference that can be negative.
        """
        return self.together / max(self.compute, self.communicate)


class RankGroup(NodeRanks):
    """Ranks that reduce, and compute meanwhile; a request raises `ChildError` where one failed or is late."""

    module = MODULE

    def fitting(self, size: int) -> int:
        """Return the bytes that every rank's device has room for: `size`, or a half of it, or a quarter..."""
        return min(
            int(answer["bytes"]) for answer in self.ask_all("fit", timeout=START, bytes=size)
        )

    def prepare(self, size: int, *, products: int = 0, order: int = 0, dtype: str = "") -> None:
        """Make every rank's buffer of `size` bytes, and its `products` of matrices of an `order`."""
        request = {"bytes": size, "products": products, "size": order, "dtype": dtype}
        self.ask_all("prepare", timeout=START, **request)

    def bus_bandwidth(self, size: int, times: int = 1) -> float:
        """Reduce a buffer of `size` bytes; return the bytes a second that every link has to carry.

        That is size / time * 2 (n - 1) / n for n ranks, the form of the NCCL tests: independent of the
        number of ranks for an algorithm that uses its links fully. The slowest rank's time counts.
        """
        seconds = max(answer["seconds"] for answer in self.ask_all("reduce", times=times))
        return float(size / seconds * self._on_the_bus)

    def times_within(self, seconds: float, size: int, rate: float) -> int:
        """Return how many all-reduces of `size` bytes fill so many seconds at a bus bandwidth of `rate`."""
        return times_within(seconds, size * self._on_the_bus / rate)

    @property
    def _on_the_bus(self) -> float:
        """How often every link carries the buffer in an all-reduce."""
        return 2 * (self.world - 1) / self.world

    def overlap(self, steps: int = 1) -> Overlap:
        """Run one round: `steps` of computing alone, of communicating alone, and of both."""
        answers = self.ask_all("overlap", steps=steps)
        slowest = {key: max(a[key] for a in answers) for key in answers[0]}
        return Overlap(**slowest)

    def prepare_exchange(self, operation: str, size: int) -> int:
        """Make every rank's buffers for an operation; return the bytes of the larger one."""
        request: dict[str, object] = {"operation": operation, "bytes": size}
        answers = self.ask_all("prepare_exchange", timeout=START, **request)
        return int(answers[0]["bytes"])

    def exchange(self, times: int = 1) -> float:
        """Do the prepared operation so many times; return the seconds of one, the slowest rank's."""
        return max(float(one["seconds"]) for one in self.ask_all("exchange", times=times))

    def wrong_in_exchange(self) -> int:
        """Return how many elements of the prepared operation's result on known numbers are wrong anywhere."""
        return sum(answer["wrong"] for answer in self.ask_all("check_exchange"))

    def wrong_elements(self) -> int:
        """Return how many elements of a known sum, and rows of an exact product, are wrong anywhere."""
        answers = self.ask_all("check")
        return sum(answer["wrong"] + answer["wrong_rows"] for answer in answers)
