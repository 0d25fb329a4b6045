"""A group of ranks on this machine that reduce, and compute meanwhile."""

from __future__ import annotations

import math
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from suites.children import Child, receive_all

MODULE = "suites.collective.rank"
START = 120.0
"""Seconds that the ranks have to import torch and find each other."""

ROUND = 90.0
"""Seconds that one round may take: longer than a rank waits for the others (`rank.TIMEOUT`), so that a rank
can say who is missing. With `START` it stays below the deadline in the marks of the tests."""

LOADED = 0.3
"""Seconds of load in a round on accelerators, at least: ten of them last twice as long as the pauses between
their bursts in `smoke`, so that the cards work for most of the time."""

SETTLE = 2.0
"""Seconds for which the other ranks are listened to when one has failed: the first to complain of a dead rank
may be a neighbour that was waiting for it."""


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

    def steps_within(self, seconds: float) -> int:
        """Return how many steps fill so many seconds."""
        return max(1, math.ceil(seconds / (self.compute + self.communicate + self.together)))

    @property
    def stretch(self) -> float:
        """Time of both over that of the longer part: 1 hides the shorter part completely.

        Not the ratio to the sum, which is bad for a node whose link is *faster* than the others'
        (there is less to hide), and not the exposed time, a difference that can be negative.
        """
        return self.together / max(self.compute, self.communicate)


class RankGroup:
    """Ranks, connected; a context manager that ends all of them.

    Args:
        accelerators: How many accelerators this machine has. With two or more there is one rank on
            each, and NCCL; else there are two ranks on the CPU, and gloo over the loopback interface.
        cores: CPUs that this process may use, shared among the ranks.
        module: What a rank runs; tests put in one that is slow or faulty.

    Attributes:
        on_accelerators: There is one rank on each accelerator.
        world: How many ranks there are.
        processes: The ranks.
    """

    def __init__(self, accelerators: int, cores: int, *, module: str = MODULE) -> None:
        self.on_accelerators = accelerators >= 2
        self.world = accelerators if self.on_accelerators else 2
        self._stack = ExitStack()
        try:
            folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="anubis-ranks-"))
            common = [
                str(self.world),
                "nccl" if self.on_accelerators else "gloo",
                str(Path(folder) / "store"),
                str(max(1, cores // self.world)),
            ]
            self.processes = [
                self._stack.enter_context(
                    Child(
                        module,
                        [str(number), *common],
                        name=f"rank {number}",
                        environment={"GLOO_SOCKET_IFNAME": "lo"},
                    )
                )
                for number in range(self.world)
            ]
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for rank in self.processes:
            rank.dismiss()
        self._stack.close()

    def join(self) -> None:
        """Wait until every rank has loaded torch and is connected to the others.

        Raises:
            ChildError: A rank failed or took too long.
        """
        self._all("join", START)

    def fitting(self, size: int) -> int:
        """Return the bytes that every rank's device has room for: `size`, or a half of it, or a quarter...

        Raises:
            ChildError: A rank failed or took too long.
        """
        return min(int(answer["bytes"]) for answer in self._all("fit", START, bytes=size))

    def prepare(self, size: int, *, products: int = 0, order: int = 0, dtype: str = "") -> None:
        """Make every rank's buffer of `size` bytes, and its `products` of matrices of an `order`.

        Raises:
            ChildError: A rank failed or took too long.
        """
        request = {"bytes": size, "products": products, "size": order, "dtype": dtype}
        self._all("prepare", START, **request)

    def bus_bandwidth(self, size: int, times: int = 1) -> float:
        """Reduce a buffer of `size` bytes; return the bytes a second that every link has to carry.

        That is size / time * 2 (n - 1) / n for n ranks, the form of the NCCL tests: independent of the
        number of ranks for an algorithm that uses its links fully. The slowest rank's time counts.

        Raises:
            ChildError: A rank failed or took too long.
        """
        seconds = max(answer["seconds"] for answer in self._all("reduce", ROUND, times=times))
        return float(size / seconds * self._on_the_bus)

    def times_within(self, seconds: float, size: int, rate: float) -> int:
        """Return how many all-reduces of `size` bytes fill so many seconds at a bus bandwidth of `rate`."""
        return max(1, math.ceil(seconds * rate / (size * self._on_the_bus)))

    @property
    def _on_the_bus(self) -> float:
        """How often every link carries the buffer in an all-reduce."""
        return 2 * (self.world - 1) / self.world

    def overlap(self, steps: int = 1) -> Overlap:
        """Run one round: `steps` of computing alone, of communicating alone, and of both.

        Raises:
            ChildError: A rank failed or took too long.
        """
        answers = self._all("overlap", ROUND, steps=steps)
        slowest = {key: max(a[key] for a in answers) for key in answers[0]}
        return Overlap(**slowest)

    def wrong_elements(self) -> int:
        """Return how many elements of a known sum, and rows of an exact product, are wrong anywhere."""
        answers = self._all("check", ROUND)
        return sum(answer["wrong"] + answer["wrong_rows"] for answer in answers)

    def _all(self, do: str, timeout: float, **arguments: Any) -> list[dict[str, Any]]:
        """Ask all ranks and listen to all at once: who is gone is heard of before those that wait."""
        for rank in self.processes:
            rank.send({"do": do, **arguments})
        return receive_all(self.processes, timeout=timeout, settle=SETTLE)
