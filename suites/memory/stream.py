"""Streaming kernels: copy, scale, add, triad and reading alone, over arrays far larger than every cache.

The operations and the way of counting bytes are those of McCalpin's STREAM (1995): every array that is
read or written counts once, a write does not count as the read that a cache may do before it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import torch

from suites.memory.numa import on_cpus

Operation = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]

SCALAR = 3.0
OPERATIONS: dict[str, tuple[int, Operation]] = {
    "copy": (2, lambda x, y, out: out.copy_(x)),
    "scale": (2, lambda x, y, out: torch.mul(x, SCALAR, out=out)),
    "add": (3, lambda x, y, out: torch.add(x, y, out=out)),
    "triad": (3, lambda x, y, out: torch.add(x, y, alpha=SCALAR, out=out)),
    "read": (1, lambda x, y, out: torch.sum(x, dim=0, keepdim=True, out=out)),
}
"""Name -> (arrays that move, the operation). STREAM has the first four; reading alone is what weights are."""

PERIODS = (1021, 509)
"""Periods of the two sources, without a common factor: a value from the wrong place is a wrong value."""

_CHUNK = {"cpu": 1 << 20, "accelerator": 1 << 24}
"""Elements that are made and checked at a time: for a core's caches, and large enough to fill a card."""


class Stream:
    """One streaming operation over fixed arrays of numbers that double precision holds exactly.

    They are made and checked piece by piece where they lie: whole copies on the host would take its memory
    and, for a card, ten times as long as the measurement.

    Args:
        operation: A key of `OPERATIONS`.
        elements: Length of each array.
        dtype: Torch's name of the element type.
        apply: Does the work instead; one that makes a fault shows that it is noticed.
        pieces: Calls of `run` that make one pass. A short call meets a clear moment more often.
    """

    def __init__(
        self,
        operation: str,
        elements: int,
        device: torch.device,
        *,
        dtype: str = "float64",
        apply: Operation | None = None,
        pieces: int = 1,
    ) -> None:
        elements -= elements % pieces
        self._arrays, self._expected = OPERATIONS[operation]
        self._apply = apply or self._expected
        kind = getattr(torch, dtype)
        self._chunk = _CHUNK["cpu" if device.type == "cpu" else "accelerator"]
        self._ramps = [
            torch.arange(period, dtype=kind).repeat(-(-self._chunk // period) + 1).to(device)
            for period in PERIODS
        ]
        self._sums = operation == "read"
        sources = [torch.empty(elements, dtype=kind, device=device)]
        if self._arrays > 2:
            sources.append(torch.empty_like(sources[0]))
        for number, source in enumerate(sources):
            for begin in range(0, elements, self._chunk):
                part = source[begin : begin + self._chunk]
                part.copy_(self._known(number, begin, len(part)))
        self._x, self._y, self._sources = sources[0], sources[-1], len(sources)
        self._out = torch.full((1 if self._sums else elements,), -1.0, dtype=kind, device=device)
        x, y = self._x.chunk(pieces), self._y.chunk(pieces)
        out = [self._out] * pieces if self._sums else self._out.chunk(pieces)
        self._pieces = list(zip(x, y, out, strict=True))
        self._runs = 0

    @property
    def bytes(self) -> float:
        """Bytes that one call of `run` moves, counted as STREAM does."""
        whole = float(self._arrays * self._x.numel() * self._x.element_size())
        return whole / len(self._pieces)

    def run(self) -> None:
        """Make the next piece of a pass over the arrays."""
        self._apply(*self._pieces[self._runs % len(self._pieces)])
        self._runs += 1

    def wrong_elements(self) -> int:
        """Return how many elements of the last pass's result are not exactly right.

        All values are small whole numbers, so every operation is exact. What is expected is made from
        numbers that were not streamed, so a source that changed in memory shows as well. The device
        checks itself, so at the end it is shown an error; one that does not notice that is not believed,
        and everything counts as wrong.
        """
        for _ in range(self._runs, len(self._pieces)):
            self.run()
        if self._sums and len(self._pieces) > 1:  # the last sum is that of the last piece
            self._apply(self._x, self._y, self._out)
        wrong = sum(self._wrong(begin) for begin in range(0, self._x.numel(), self._chunk))
        before = self._wrong_result(0)
        self._out[0] += 1
        return wrong if self._wrong_result(0) != before or before else self._x.numel()

    def _wrong(self, begin: int) -> int:
        """Return how many elements of a chunk are wrong, in what was written or in a source.

        Rounding can hide a source's wrong bit from a sum of two, so sources are looked at, too.
        """
        broken = torch.zeros_like(self._x[begin : begin + self._chunk], dtype=torch.bool)
        for number, source in enumerate((self._x, self._y)[: self._sources]):
            part = source[begin : begin + self._chunk]
            broken |= part != self._known(number, begin, len(part))
        if not self._sums:
            return int(torch.count_nonzero(broken | self._wrong_places(begin)))
        return int(torch.count_nonzero(broken)) + (self._wrong_result(begin) if begin == 0 else 0)

    def _wrong_result(self, begin: int) -> int:
        if self._sums:
            return int(self._out.item() != _sum_of_ramp(self._x.numel(), PERIODS[0]))
        return int(torch.count_nonzero(self._wrong_places(begin)))

    def _wrong_places(self, begin: int) -> torch.Tensor:
        out = self._out[begin : begin + self._chunk]
        x, y = (self._known(number, begin, len(out)) for number in range(2))
        expected = torch.empty_like(out)
        self._expected(x, y, expected)
        return out != expected

    def _known(self, number: int, begin: int, length: int) -> torch.Tensor:
        """Return what belongs at a place of a source."""
        phase = begin % PERIODS[number]
        return self._ramps[number][phase : phase + length]


class CoreStreams:
    """The same operation by one core after another, all others idle, each over arrays of its own.

    What all cores get together depends on where they are, too: two behind one cache share its way to the
    memory, and a hypervisor moves the CPUs of its guests about. What one core gets alone does not.

    Args:
        operation: A key of `OPERATIONS`.
        elements: Length of each array; a core's arrays lie near it, as it touches them first.
        passes: Over the arrays, for one value of one core.

    Attributes:
        rates: CPU -> what each turn gave, in bytes a second.
    """

    def __init__(
        self, operation: str, elements: int, cpus: Sequence[int], *, passes: int = 1
    ) -> None:
        self._passes = passes
        self._streams: dict[int, Stream] = {}
        self.rates: dict[int, list[float]] = {}
        for cpu in cpus:
            with _alone_on(cpu):
                self._streams[cpu] = Stream(operation, elements, torch.device("cpu"))
                self._streams[cpu].run()

    def turn(self) -> float:
        """Let every core make its passes; return the rate of the slowest, in bytes a second."""
        for cpu, stream in self._streams.items():
            with _alone_on(cpu):
                begin = time.perf_counter()
                for _ in range(self._passes):
                    stream.run()
                took = time.perf_counter() - begin
            self.rates.setdefault(cpu, []).append(self._passes * stream.bytes / took)
        return min(rates[-1] for rates in self.rates.values())

    def wrong_elements(self) -> dict[int, int]:
        """Return the CPUs whose last pass was not exactly right, with the number of wrong elements."""
        wrong = {cpu: stream.wrong_elements() for cpu, stream in self._streams.items()}
        return {cpu: count for cpu, count in wrong.items() if count}


class NodeStreams:
    """The same operation by several cores at once, over arrays that lie where this process takes memory now.

    Args:
        operation: A key of `OPERATIONS`.
        elements: Length of each array.
        count: Cores at most; each has arrays of its own.
    """

    def __init__(self, operation: str, elements: int, count: int) -> None:
        with _one_thread():
            self._streams = [Stream(operation, elements, torch.device("cpu")) for _ in range(count)]
            for stream in self._streams:
                stream.run()

    def rate(self, cpus: Sequence[int]) -> float:
        """Return the bytes a second of one pass by each of these CPUs at once, until the last one is done."""
        ready = threading.Barrier(len(cpus) + 1)
        failures: list[BaseException] = []

        def run(cpu: int, stream: Stream) -> None:
            try:
                os.sched_setaffinity(0, {cpu})  # of this thread alone
                ready.wait()
                stream.run()
            except BaseException as error:
                ready.abort()
                failures.append(error)

        threads = [
            threading.Thread(target=run, args=pair)
            for pair in zip(cpus, self._streams, strict=False)
        ]
        with _one_thread():
            for thread in threads:
                thread.start()
            with suppress(threading.BrokenBarrierError):
                ready.wait()
            begin = time.perf_counter()
            for thread in threads:
                thread.join()
            took = time.perf_counter() - begin
        if failures:
            raise failures[0]
        return sum(stream.bytes for stream in self._streams[: len(cpus)]) / took

    def wrong_elements(self) -> int:
        """Return how many elements of the last passes are not exactly right."""
        return sum(stream.wrong_elements() for stream in self._streams)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let torch compute with one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _alone_on(cpu: int) -> Iterator[None]:
    """Compute on one CPU, with one thread."""
    with _one_thread(), on_cpus({cpu}):
        yield


def _sum_of_ramp(length: int, period: int) -> int:
    """Return the sum of ``i % period`` for all i below `length`."""
    whole, rest = divmod(length, period)
    return whole * period * (period - 1) // 2 + rest * (rest - 1) // 2


def elements_for(last_level_bytes: int, memory_bytes: int, arrays: int = 1) -> int:
    """Return an array length with which `arrays` arrays are four times the last-level cache together.

    An element is wanted again when all others have been, so a cache that pushes lines out at random answers
    two in a hundred loads, one that pushes out the oldest none. STREAM's own rule, four times for each array,
    is that of one array. At least 64 MiB each, so that a pass is long enough to time, and at most a sixteenth
    of the memory.

    Args:
        last_level_bytes: Of all last-level caches.
        memory_bytes: Of the machine.
        arrays: Over how many arrays of numbers in double precision a pass goes.
    """
    wanted = max(-(-4 * last_level_bytes // arrays), 64 << 20)
    return min(wanted, memory_bytes // 16) // 8
