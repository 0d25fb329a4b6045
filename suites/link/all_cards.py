"""Copies between the host and all cards at the same time: a process for each card, on the CPUs near it.

In one process all page-locked memory would lie on one NUMA node, and half of the cards would be measured
through the link between the sockets.
"""

from __future__ import annotations

import statistics
import time

from pytest_anubis.benchmarking.children import Child, Group
from suites.shared_ranks import times_within

MODULE = "suites.link.copier"

START = 120.0
"""Seconds that the processes have to load torch and make their buffers."""

ROUND = 60.0
"""Seconds that one round may take: thousands of times what it does."""

TOGETHER = 0.01
"""Seconds from asking to beginning: the last of sixteen processes has received the request by then."""

WAYS = {"to_device": 1, "to_host": 1, "both_ways": 2}
"""What a round may be, and how many copies go on at once in it."""


class AllCards(Group):
    """One process for each card; a context manager that ends all of them.

    Args:
        kind: ``cuda`` or ``xpu``.
        count: How many cards this process sees.
        size: Bytes of a copy, less if some card has no room for it.
        module: What a process runs; tests put in one that is slow or faulty.

    Attributes:
        size: Bytes of a copy, the same on all cards.

    Raises:
        ChildError: A process failed or took too long.
    """

    def __init__(self, kind: str, count: int, size: int, *, module: str = MODULE) -> None:
        super().__init__(timeout=ROUND)
        self.kind = kind
        with self._starting():
            for number in range(count):
                self._start(Child(module, [kind, str(number)], name=f"copies of {kind}:{number}"))
            self.size = min(self._prepared(size))
            if set(self._prepared(self.size)) != {self.size}:
                raise RuntimeError("the cards have no room for buffers of one size")

    def rates(self, way: str, times: int) -> list[float]:
        """Copy on all cards at once; return the bytes a second of each, both ways together counted twice.

        Args:
            way: A key of `WAYS`.
            times: How often.
        """
        at = time.monotonic() + TOGETHER
        answers = self.ask_all("copy", way=way, times=times, at=at)
        return [WAYS[way] * self.size * times / one["seconds"] for one in answers]

    def times_within(self, way: str, seconds: float) -> int:
        """Return how many copies fill so many seconds, after one round to warm up."""
        self.rates(way, 1)
        slowest = min(self.rates(way, 2))
        return times_within(seconds, WAYS[way] * self.size / slowest)

    def wrong_bytes(self) -> list[int]:
        """Return how many bytes arrived changed, of each card, when all copied both ways at once."""
        return [one["wrong"] for one in self.ask_all("check")]

    def _prepared(self, size: int) -> list[int]:
        """Let every card make its buffers of `size` bytes, or of less; return how large they are."""
        return [one["bytes"] for one in self.ask_all("prepare", timeout=START, bytes=size)]


class Slowest:
    """Rounds of all cards, of which the slowest card's rate counts.

    Args:
        way: A key of `WAYS`.
        times: Copies a round.
    """

    def __init__(self, cards: AllCards, way: str, times: int) -> None:
        self._cards, self._way, self._times = cards, way, times
        self._found: list[int] = []
        self._rounds: list[list[float]] = []

    def __call__(self) -> float:
        """Do one round and return the slowest card's rate in GB/s."""
        rates = self._cards.rates(self._way, self._times)
        self._rounds.append(rates)
        self._found.append(rates.index(min(rates)))
        return min(rates) / 1e9

    @property
    def text(self) -> str:
        """Which card was the slowest most often, and the median rates of it and of all, in words."""
        card = max(set(self._found), key=self._found.count)
        own = statistics.median(rates[card] for rates in self._rounds) / 1e9
        all_ = statistics.median(rate for rates in self._rounds for rate in rates) / 1e9
        rounds = f"in {self._found.count(card)} of {len(self._found)} rounds"
        return f"{self._cards.kind}:{card}, {rounds}: {own:.3g} GB/s, median of all {all_:.3g} GB/s"
