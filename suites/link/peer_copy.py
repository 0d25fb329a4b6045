"""Copies from accelerator to accelerator: one way, both ways, or all cards at once, and their check.

A copy engine moves contiguous memory. A kernel moves what is not contiguous: rows with a gap behind each are
read by the sending card's own units and written straight into the other's memory, where one may reach it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal

import torch

from pytest_anubis.benchmarking.verification import (
    Pattern,
    count_errors,
    fill,
    flip_bit,
    wrong_elements,
)

Way = tuple[torch.device, torch.device]
"""The sender and the receiver."""

By = Literal["engine", "kernel"]
Copy = Callable[[torch.Tensor, torch.Tensor], object]

ROW = 1 << 16
"""Words of 64 bits in a row, half a megabyte: a row is long against its gap."""

GAP = 16
"""Words between two rows that a kernel leaves out: 128 bytes, so that every row begins on its own line."""

WORD = 8
"""Bytes of a word."""

BUFFERS = 5
"""Buffers of a flow that one card may have to hold: it sends one and receives one, and for the check there
are what should have arrived and, of what has gaps, both without them."""

LEAD = 0.2
"""Seconds of copies before anything counts: the driver opens the way between two cards with the first copy,
and an idle card's memory clock has to rise."""

MOST_CALLS = 4096
"""Copies queued at once, at most: the queue of a driver is no longer than a few thousand."""


def copy(target: torch.Tensor, source: torch.Tensor) -> None:
    """Queue a copy without waiting for it."""
    target.copy_(source, non_blocking=True)


def shifted(devices: Sequence[torch.device], way: Way) -> list[Way]:
    """Return the permutation that a way is part of: every device sends as far on as its sender does.

    The N - 1 distances are the rounds of a round-robin schedule: in each every device sends to one and
    receives from one, so that all ports are busy both ways, and together they use every ordered pair once.

    Args:
        devices: All devices, in order.
        way: One of their ways; it comes first in what is returned.
    """
    first = devices.index(way[0])
    distance = devices.index(way[1]) - first
    count = len(devices)
    return [
        (devices[(first + step) % count], devices[(first + step + distance) % count])
        for step in range(count)
    ]


def named(way: Way) -> str:
    """Return a way as it is named: ``cuda:0>cuda:3``, as torch numbers the devices."""
    return f"{way[0]}>{way[1]}"


@dataclass(slots=True)
class _Flow:
    """One way with its buffers, and streams of its own: nothing waits for another flow's copies."""

    way: Way
    seed: int
    sent: torch.Tensor
    arrived: torch.Tensor
    streams: tuple[Any, Any]
    events: tuple[torch.Event, torch.Event]


class PeerCopies:
    """Copies that go on at the same time, each from one device to another.

    Args:
        ways: What sends to what; the first one is what is measured.
        size: Bytes of each copy, at least a row of half a megabyte.
        by: ``engine`` or ``kernel``.
        move: Does the copying; another one can be put in to see that a fault is noticed.

    Attributes:
        bytes: Bytes that one copy moves.
    """

    def __init__(
        self, ways: Sequence[Way], size: int, by: By = "engine", *, move: Copy = copy
    ) -> None:
        if any(source == target for source, target in ways):
            raise ValueError(f"a copy from {ways[0][0]} to itself is none between two devices")
        rows = max(1, size // (ROW * WORD))
        self.bytes = rows * ROW * WORD
        self.ways = list(ways)
        self._gap = GAP if by == "kernel" else 0
        self._move = move
        self._flows = [
            self._flow(way, rows, 1 + number * rows * (ROW + GAP))
            for number, way in enumerate(ways)
        ]
        self._synchronize()

    def seconds(self, calls: int) -> list[float]:
        """Copy along all ways at the same time, `calls` times each; return the seconds of one copy of each.

        Each way is timed by its sender's own clock. The copies of all ways are queued in turns, so that none
        begins before the others by more than it takes to queue one.
        """
        for flow in self._flows:
            flow.events[0].record(flow.streams[0])
        for _ in range(calls):
            for flow in self._flows:
                self._copy(flow)
        for flow in self._flows:
            flow.events[1].record(flow.streams[0])
        found = []
        for flow in self._flows:
            begin, end = flow.events
            end.synchronize()
            found.append(begin.elapsed_time(end) / 1e3 / calls)
        return found

    def calls_for(self, seconds: float) -> int:
        """Copy for `LEAD` seconds, and return how many copies the measured way makes in so many `seconds`."""
        calls, busy = 1, 0.0
        while True:
            took = max(self.seconds(calls)[0], 1e-9)
            busy += took * calls
            wanted = max(1, min(MOST_CALLS, round(seconds / took)))
            if busy >= LEAD:
                return wanted
            calls = wanted

    def wrong_words(self) -> dict[str, int]:
        """Copy once along every way into cleared memory; return how many words are not what was sent.

        Only the ways on which any are, such as ``cuda:0>cuda:3``, as torch numbers the devices.

        Each receiving device looks at all that it received, and is shown an error that it has to notice.

        Raises:
            AssertionError: A device did not notice it.
        """
        for flow in self._flows:
            flow.arrived.zero_()
        self._synchronize()
        for flow in self._flows:
            self._copy(flow)
        self._synchronize()
        found = {named(flow.way): self._wrong(flow) for flow in self._flows}
        return {way: wrong for way, wrong in found.items() if wrong}

    def _wrong(self, flow: _Flow) -> int:
        expected = torch.empty_like(flow.arrived)
        fill(expected, Pattern("random", flow.seed))
        if not self._gap:
            return count_errors(
                lambda: wrong_elements(flow.arrived, expected), lambda: flip_bit(flow.arrived)
            )
        rows = expected[:, :ROW].contiguous()
        arrived = flow.arrived[:, :ROW].contiguous()
        return count_errors(lambda: wrong_elements(arrived, rows), lambda: flip_bit(arrived))

    def _copy(self, flow: _Flow) -> None:
        source, target = flow.sent, flow.arrived
        if self._gap:
            source, target = source[:, :ROW], target[:, :ROW]
        with ExitStack() as stack:
            module = getattr(torch, flow.way[0].type)
            for stream in reversed(
                flow.streams
            ):  # the sender's last: it is the current device then
                stack.enter_context(module.stream(stream))
            self._move(target, source)

    def _flow(self, way: Way, rows: int, seed: int) -> _Flow:
        source, target = way
        width = ROW + self._gap
        sent = torch.empty((rows, width), dtype=torch.int64, device=source)
        fill(sent, Pattern("random", seed))
        arrived = torch.zeros((rows, width), dtype=torch.int64, device=target)
        module = getattr(torch, source.type)
        return _Flow(
            way=way,
            seed=seed,
            sent=sent,
            arrived=arrived,
            streams=(module.Stream(source), module.Stream(target)),
            events=(
                torch.Event(source, enable_timing=True),
                torch.Event(source, enable_timing=True),
            ),
        )

    def _synchronize(self) -> None:
        for device in {end for flow in self._flows for end in flow.way}:
            torch.accelerator.synchronize(device)


@dataclass(frozen=True, slots=True)
class Loaded:
    """What one way reached while all those of its permutation were in use.

    Attributes:
        rates: GB/s, round by round.
        wrong: Its name and how many words arrived changed, if any did.
    """

    rates: list[float]
    wrong: dict[str, int]


class Permutation:
    """Rounds of copies along all ways at the same time, in which the rate of each is kept.

    Args:
        seconds: That a round of the first way takes.
    """

    def __init__(self, copies: PeerCopies, seconds: float) -> None:
        self._copies, self._calls = copies, copies.calls_for(seconds)
        self._rounds: dict[float, list[float]] = {}

    def rate(self) -> float:
        """Do one round; return the rate of the first way in GB/s."""
        took = self._copies.seconds(self._calls)
        rates = [self._copies.bytes / seconds / 1e9 for seconds in took]
        self._rounds[rates[0]] = rates
        return rates[0]

    def others(self, kept: Sequence[float], wrong: dict[str, int]) -> dict[Way, Loaded]:
        """Return what the other ways reached.

        Args:
            kept: The rates of the first way that count: those of a lead-in do not.
            wrong: `PeerCopies.wrong_words`.
        """
        rounds = [self._rounds[rate] for rate in kept]
        return {
            way: Loaded(
                [rates[number] for rates in rounds],
                {name: count for name, count in wrong.items() if name == named(way)},
            )
            for number, way in enumerate(self._copies.ways)
            if number
        }
