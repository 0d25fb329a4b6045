"""Copies both ways and all-reduces of a card, which run on streams of their own while it computes."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist

from pytest_anubis.benchmarking.verification import Pattern, fill

EXACT = 1 << 24
"""Whole numbers up to this are exact in single precision."""

TIMED = 3
"""Rounds by which one is timed, after a first one."""

SLICES = 31
"""Parts of a buffer that came back, of which the host compares one in each batch, while the card works: all
of it would take as long as a batch or longer, and the card would rest. An odd number, as batches fill two
buffers in turns: each part of both is looked at."""

FILLED = 0.9
"""Share of a batch that copies and reductions take by themselves: during the products they take longer, and
the products should not wait for them."""


class Lane:
    """Rounds of one kind of work on a stream of its own, and for how long they took.

    Args:
        work: Queues one round.
        now: The clock, on a device without streams.
        before: Queues what each round needs and what does not count for its time.

    Attributes:
        rounds: How many there are in a batch.
    """

    def __init__(
        self,
        work: Callable[[], object],
        device: torch.device,
        now: Callable[[], float],
        before: Callable[[], object] | None = None,
    ) -> None:
        self._work, self._device, self._now = work, device, now
        self._before = before
        self._stream: Any = None
        if device.type == "cuda":
            self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self.rounds = 1
        self._times: list[tuple[Any, Any]] = []
        self._whole: list[tuple[Any, Any]] = []
        self._took, self._done = 0.0, 0

    def begin(self) -> None:
        """Forget what was done; what the default stream was asked for before is waited for."""
        self._forget()
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream(self._device))

    def queue(self, last: Callable[[], object] | None = None) -> None:
        """Queue a batch's rounds, and something after the last one that does not count for the time.

        The batch before has to be over.
        """
        over, self._times = self._times, []
        with nullcontext() if self._stream is None else torch.cuda.stream(self._stream):
            begin = self._mark()
            if self._before is None:
                for _ in range(self.rounds):
                    self._work()
                self._times.append((begin, self._mark()))
            else:
                for _ in range(self.rounds):
                    self._before()
                    start = self._mark()
                    self._work()
                    self._times.append((start, self._mark()))
            self._whole.append((begin, self._times[-1][1]))
            if last is not None:
                last()
        self._done += self.rounds
        self._add(over)  # while the device works

    def seconds(self) -> float:
        """Return how long a round took, on the mean of all since `begin`; the device has to be waited for."""
        over, self._times = self._times, []
        self._add(over)
        return self._took / self._done

    def whole(self) -> float:
        """Return how long a round took with what came before it, as `seconds` does."""
        return sum(self._between(*marks) for marks in self._whole) / self._done

    def _forget(self) -> None:
        self._times, self._whole = [], []
        self._took, self._done = 0.0, 0

    def _add(self, times: list[tuple[Any, Any]]) -> None:
        self._took += sum(self._between(*marks) for marks in times)

    def _between(self, begin: Any, end: Any) -> float:
        return float(end - begin if self._stream is None else begin.elapsed_time(end) / 1e3)

    def _mark(self) -> Any:
        if self._stream is None:
            return self._now()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event


class Traffic:
    """A buffer that goes to the card, one that comes back, and one that all cards reduce, all at once.

    Every batch is verified while the card works: on the card what went there and what was reduced last, on
    the host a part of what came back.

    Args:
        size: Bytes of each; a multiple of 8.
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
        pattern = Pattern("random", seed=number << 40)
        self._host, *self._backs = (
            torch.zeros(size // 8, dtype=torch.int64, pin_memory=locked) for _ in range(3)
        )
        self._source, self._there = (
            torch.zeros(size // 8, dtype=torch.int64, device=device) for _ in range(2)
        )
        fill(self._host, pattern)
        fill(self._source, pattern)
        words = Pattern("random").words(0, size // 4, device)
        self._known = torch.remainder(words, EXACT // world).float()
        self._sum, self._total = torch.empty_like(self._known), self._known * world
        self._wrong = torch.zeros((), dtype=torch.int64, device=device)
        self._wrong_sums = torch.zeros_like(self._wrong)
        self._wrong_back = self._batches = 0
        # A stream each: on a common one only one direction of one link would be at work at a time.
        self._to_device = Lane(
            lambda: self._there.copy_(self._host, non_blocking=True), device, now
        )
        self._to_host = Lane(lambda: self._back.copy_(self._source, non_blocking=True), device, now)
        self._reduced = Lane(
            lambda: dist.all_reduce(self._sum),
            device,
            now,
            before=lambda: self._sum.copy_(self._known),
        )
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
        slowest = torch.tensor([seconds, self._reduced.whole()], device=self._device)
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)  # as many reductions on all cards
        batch, reduction = slowest.tolist()
        each = {lane: lane.whole() for lane in self._lanes} | {self._reduced: reduction}
        for lane, took in each.items():
            lane.rounds = max(1, int(FILLED * batch / max(took, 1e-9)))

    def begin(self) -> None:
        """Forget what was counted and timed; takes no time in which the card would rest."""
        self._wrong.zero_()
        self._wrong_sums.zero_()
        self._wrong_back = 0
        for lane in self._lanes:
            lane.begin()

    def queue(self) -> None:
        """Queue a batch of copies each way and of all-reduces; count what is wrong.

        The batch before has to be over: what it brought back is compared.
        """
        before = self._back
        self._batches += 1
        self._to_device.queue(self._compare_there)
        self._to_host.queue()
        self._reduced.queue(self._compare_sum)
        if self._batches > 1:
            self._compare_back(before, (self._batches - 2) % SLICES)

    def rates(self) -> dict[str, float]:
        """Return bytes a second: ``to_device``, ``to_host``, ``reduced`` (over the bus of each card)."""
        over_the_bus = 2 * (self._world - 1) / self._world
        return {
            "to_device": self._size / self._to_device.seconds(),
            "to_host": self._size / self._to_host.seconds(),
            "reduced": over_the_bus * self._size / self._reduced.seconds(),
        }

    def wrong(self) -> int:
        """Return how many words were wrong since `begin`: of what was compared; waits for the device.

        That is all of each batch's last copy to the card and last sum, and a part of what came back.
        """
        return int(self._wrong + self._wrong_sums) + self._wrong_back

    def wrong_at_last(self) -> int:
        """Return how many words of what came back last, all of it, are wrong; the device is waited for."""
        return _differing(self._back, self._host)

    @property
    def _back(self) -> torch.Tensor:
        """What the newest batch's copies fill on the host."""
        return self._backs[self._batches % 2]

    def _compare_there(self) -> None:
        self._wrong += (self._there != self._source).sum()
        self._there.zero_()  # a copy that does not arrive is wrong, too

    def _compare_sum(self) -> None:
        self._wrong_sums += (self._sum != self._total).sum()

    def _compare_back(self, back: torch.Tensor, number: int) -> None:
        """Compare a part of what came back in the batch before; no copy fills it meanwhile."""
        part = slice(*(len(back) * end // SLICES for end in (number, number + 1)))
        self._wrong_back += _differing(back[part], self._host[part])
        back[part].zero_()


def _differing(found: torch.Tensor, expected: torch.Tensor) -> int:
    """Return how many words differ."""
    if torch.equal(found, expected):  # several times quicker than to count
        return 0
    return int(torch.count_nonzero(found != expected))
