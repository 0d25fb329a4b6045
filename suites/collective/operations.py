"""The collective operations: what each rank sends, what is due to it, and how much of it every link carries.

Sizes and bandwidths are those of the NCCL tests: the size is that of the larger of a rank's two buffers, the
algorithm bandwidth is size over time, and the bus bandwidth is that times a factor of the operation and the
number of ranks, so that it can be held against the rate of a link.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
import torch.distributed as dist

from pytest_anubis.benchmarking.placement import synchronize
from pytest_anubis.benchmarking.verification import count_errors, flip_bit

Perform = Callable[[str, torch.Tensor, torch.Tensor], None]
"""Does an operation, named first, from the rank's first tensor into its second."""

PERIOD = 1021
"""After so many elements the numbers repeat: a prime, so that what goes astray shows."""

CHUNK = 1 << 24
"""Elements that are made and checked at a time."""

ELEMENT = 4
"""Bytes of a number in single precision."""


def _share(world: int) -> float:
    """Return the factor of what every rank sends to all others but not to itself."""
    return (world - 1) / world


BUS: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda world: 2 * _share(world),
    "all_gather": _share,
    "reduce_scatter": _share,
    "all_to_all": _share,
    "broadcast": lambda world: 1.0,
    "reduce": lambda world: 1.0,
}
"""Operation -> bus bandwidth over algorithm bandwidth, for a number of ranks."""

_CALLS: dict[str, Callable[[torch.Tensor, torch.Tensor], object]] = {
    "all_reduce": lambda sent, due: dist.all_reduce(due),
    "all_gather": lambda sent, due: dist.all_gather_into_tensor(due, sent),
    "reduce_scatter": lambda sent, due: dist.reduce_scatter_tensor(due, sent),
    "all_to_all": lambda sent, due: dist.all_to_all_single(due, sent),
    "broadcast": lambda sent, due: dist.broadcast(due, 0),
    "reduce": lambda sent, due: dist.reduce(due, 0),
}
IN_PLACE = frozenset({"all_reduce", "broadcast", "reduce"})
"""Operations whose two buffers are one."""


def perform(operation: str, sent: torch.Tensor, due: torch.Tensor) -> None:
    """Do an operation with all other ranks."""
    _CALLS[operation](sent, due)


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a buffer and what it holds: whole numbers that single precision has exactly.

    Attributes:
        begin: Its first element.
        number: The number, in the whole exchange, of the first: what is in the wrong place is wrong.
        factor: Which rank it is from, or the sum over all.
    """

    begin: int
    length: int
    number: int
    factor: int


def spans(operation: str, rank: int, world: int, part: int) -> tuple[list[Span], list[Span]]:
    """Return what a rank sends, and what is due to it; nothing is where its buffer may hold anything.

    Args:
        operation: A key of `BUS`.
        rank: The rank.
        world: How many ranks.
        part: Elements of one rank's part; the larger buffer has `world` of them.
    """
    whole, total = world * part, world * (world + 1) // 2  # 1 + 2 + ... + world
    own = [Span(0, whole, 0, rank + 1)]
    if operation == "all_reduce":
        return own, [Span(0, whole, 0, total)]
    if operation == "reduce":
        return own, [Span(0, whole, 0, total)] if rank == 0 else []
    if operation == "broadcast":
        return [Span(0, whole, 0, 1)] if rank == 0 else [], [Span(0, whole, 0, 1)]
    if operation == "reduce_scatter":
        return own, [Span(0, part, rank * part, total)]
    each = range(world)
    if operation == "all_gather":
        mine = Span(0, part, rank * part, rank + 1)
        return [mine], [Span(one * part, part, one * part, one + 1) for one in each]
    return own, [Span(one * part, part, rank * part, one + 1) for one in each]


def pieces(buffer: torch.Tensor, of: Iterable[Span]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Give the pieces of some spans of a buffer, each with what belongs there: 1 to `PERIOD`, and so on."""
    # None of them is 0, which equals itself with the sign turned round.
    ramp = torch.arange(1, PERIOD + 1, dtype=torch.float32, device=buffer.device)
    ramp = ramp.repeat(min(CHUNK, len(buffer)) // PERIOD + 2)
    for span in of:
        for begin in range(0, span.length, CHUNK):
            length = min(CHUNK, span.length - begin)
            phase = (span.number + begin) % PERIOD
            known = ramp[phase : phase + length] * span.factor
            yield buffer[span.begin + begin :][:length], known


def differing(buffer: torch.Tensor, of: Iterable[Span]) -> int:
    """Return how many elements of some spans of a buffer are not what belongs there."""
    return sum(int(torch.count_nonzero(part != known)) for part, known in pieces(buffer, of))


def wrong_sums(buffer: torch.Tensor, rank: int, world: int, reduce: Callable[[], object]) -> int:
    """Sum a buffer of known numbers over all ranks, in place; return how many sums are wrong.

    The device checks itself, so it is shown an error that it has to notice.

    Raises:
        AssertionError: It did not notice it.
    """
    for part, known in pieces(buffer, [Span(0, len(buffer), 0, rank + 1)]):
        part.copy_(known)
    synchronize(buffer.device)
    reduce()
    synchronize(buffer.device)
    due = [Span(0, len(buffer), 0, world * (world + 1) // 2)]  # 1 + 2 + ... + world
    return count_errors(lambda: differing(buffer, due), lambda: flip_bit(buffer))


class Exchange:
    """One rank's buffers for one operation.

    Args:
        operation: A key of `BUS`.
        size: Bytes of the larger buffer; rounded down to a whole number for each rank.
        perform: Does the operation; a faulty one can be put in to see that it is noticed.
    """

    def __init__(
        self,
        operation: str,
        size: int,
        rank: int,
        world: int,
        device: torch.device,
        perform: Perform = perform,
    ) -> None:
        self._operation = operation
        self._perform = perform
        part = max(1, size // (ELEMENT * world))
        self.bytes = part * world * ELEMENT
        self._sends, self._due = spans(operation, rank, world, part)
        whole = part * world
        lengths = {"all_gather": (part, whole), "reduce_scatter": (whole, part)}
        sent, due = lengths.get(operation, (whole, whole))
        self._arrives = torch.zeros(due, device=device)
        in_place = operation in IN_PLACE
        self._leaves = self._arrives if in_place else torch.zeros(sent, device=device)

    def run(self, times: int) -> None:
        """Do the operation so many times; what the buffers hold stays finite, as they hold zeros."""
        for _ in range(times):
            self._perform(self._operation, self._leaves, self._arrives)

    def wrong_elements(self) -> int:
        """Do the operation once on known numbers; return how many that arrived are wrong.

        The device checks itself, so it is shown an error that it has to notice, where anything is due to it.

        Raises:
            AssertionError: It did not notice it.
        """
        self._arrives.fill_(-1.0)
        for part, known in pieces(self._leaves, self._sends):
            part.copy_(known)
        self.run(1)
        check = partial(differing, self._arrives, self._due)
        wrong = count_errors(check, lambda: flip_bit(self._arrives)) if self._due else 0
        self._arrives.zero_()
        self._leaves.zero_()
        return wrong
