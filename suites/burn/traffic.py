"""Copies both ways and all-reduces of a card, which run on streams of their own beside what it computes."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist

from pytest_anubis.benchmarking.verification import Pattern, fill, wrong_elements

EXACT = 1 << 24
"""Whole numbers up to this are exact in single precision."""

TIMED = 3
"""Rounds by which one is timed, after a first one."""

FILLED = 0.9
"""Share of a batch that copies and reductions take by themselves: beside the products they take longer, and
the products should not wait for them."""


class Lane:
    """Rounds of one kind of work on a stream of its own, and for how long they took.

    Args:
        work: Queues one round.
        device: Where.
        now: The clock, on a device without streams.

    Attributes:
        rounds: How many there are in a batch.
    """

    def __init__(
        self, work: Callable[[], object], device: torch.device, now: Callable[[], float]
    ) -> None:
        self._work, self._device, self._now = work, device, now
        self._stream: Any = None
        if device.type == "cuda":
            self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._times: list[tuple[Any, Any]] = []
        self.rounds = 1
        self._done = 0

    def begin(self) -> None:
        """Forget what was done; what the default stream was asked for before is waited for."""
        self._times.clear()
        self._done = 0
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream(self._device))

    def queue(self, last: Callable[[], object] | None = None) -> None:
        """Queue a batch's rounds, and something after the last one that does not count for the time."""
        with nullcontext() if self._stream is None else torch.cuda.stream(self._stream):
            begin = self._mark()
            for _ in range(self.rounds):
                self._work()
            self._times.append((begin, self._mark()))
            if last is not None:
                last()
        self._done += self.rounds

    def seconds(self) -> float:
        """Return how long a round took, on the mean of all since `begin`; the device has to be waited for."""
        if self._stream is None:
            return float(sum(end - begin for begin, end in self._times) / self._done)
        return float(sum(begin.elapsed_time(end) for begin, end in self._times) / 1e3 / self._done)

    def _mark(self) -> Any:
        if self._stream is None:
            return self._now()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event


class Traffic:
    """A buffer that goes to the card, one that comes back, and one that all cards reduce, all at once.

    Args:
        size: Bytes of each; a multiple of 8.
        number: This rank.
        world: How many there are.
        device: The card.
        now: The clock, on a device without streams.
    """

    def __init__(
        self,
        size: int,
        number: int,
        world: int,
        device: torch.device,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        locked = device.type != "cpu"
        self._size, self._world, self._device = size, world, device
        self._pattern = Pattern("random", seed=number << 40)
        self._host, self._back = (
            torch.empty(size // 8, dtype=torch.int64, pin_memory=locked) for _ in range(2)
        )
        self._source, self._there = (
            torch.empty(size // 8, dtype=torch.int64, device=device) for _ in range(2)
        )
        fill(self._host, self._pattern)
        fill(self._source, self._pattern)
        words = Pattern("random").words(0, size // 4, device)
        self._known = torch.remainder(words, EXACT // world).float()
        self._sum, self._total = torch.empty_like(self._known), self._known * world
        self._wrong_sums = torch.zeros((), dtype=torch.int64, device=device)
        # A stream each: on a common one only one direction of one link would be at work at a time.
        self._to_device = Lane(
            lambda: self._there.copy_(self._host, non_blocking=True), device, now
        )
        self._to_host = Lane(lambda: self._back.copy_(self._source, non_blocking=True), device, now)
        self._reduced = Lane(self._reduce, device, now)
        self._lanes = (self._to_device, self._to_host, self._reduced)

    def fit(self, seconds: float, synchronize: Callable[[], object]) -> None:
        """Let each batch have as many rounds as fill it; all cards call this at once.

        Args:
            seconds: That a batch takes.
            synchronize: Waits for the device.
        """
        for rounds in (1, TIMED):
            self.begin()
            for lane in self._lanes:
                lane.rounds = rounds
            self.queue()
            synchronize()
        told = torch.tensor([seconds, self._reduced.seconds()], device=self._device)
        dist.all_reduce(told, op=dist.ReduceOp.MAX)  # as many reductions on all cards
        batch, reduction = told.tolist()
        each = {lane: lane.seconds() for lane in self._lanes} | {self._reduced: reduction}
        for lane, took in each.items():
            lane.rounds = max(1, int(FILLED * batch / max(took, 1e-9)))

    def begin(self) -> None:
        """Forget what was counted."""
        self._wrong_sums.zero_()
        for buffer in (self._there, self._back):
            buffer.zero_()
        for lane in self._lanes:
            lane.begin()

    def queue(self) -> None:
        """Queue a batch of copies each way and of all-reduces; count what is wrong in the last sum."""
        self._to_device.queue()
        self._to_host.queue()
        self._reduced.queue(self._compare)

    def rates(self) -> dict[str, float]:
        """Return bytes a second: ``to_device``, ``to_host``, ``reduced`` (over the bus of each card)."""
        over_the_bus = 2 * (self._world - 1) / self._world
        return {
            "to_device": self._size / self._to_device.seconds(),
            "to_host": self._size / self._to_host.seconds(),
            "reduced": over_the_bus * self._size / self._reduced.seconds(),
        }

    def wrong(self) -> int:
        """Return how many words of the last copies, and of each batch's last sum, are not right."""
        copied = sum(wrong_elements(buffer, self._pattern) for buffer in (self._there, self._back))
        return copied + int(self._wrong_sums)

    def _reduce(self) -> None:
        self._sum.copy_(self._known)
        dist.all_reduce(self._sum)

    def _compare(self) -> None:
        self._wrong_sums += (self._sum != self._total).sum()
