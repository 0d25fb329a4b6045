"""Is a host's noise that of where memory came to lie, which changes between processes, or that of the moment?

Two probes of each kind take turns: one keeps its memory throughout, the other has new memory for each burst.
If placing were what makes runs differ, bursts in new memory would differ more among themselves.

Run: ``python benchmarks/suites/fresh_memory.py [--bursts 25]``. The machine should do nothing else meanwhile.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

from suites.memory import chase, native
from suites.memory.caches import memory_size, read_caches
from suites.memory.stream import OPERATIONS, Stream, elements_for
from suites.memory.test_latency import LOADS, WARM

SIDE = 1024  # of the matrices, as in the smoke set
LATENCIES, PASSES, PRODUCTS = 4, 8, 12  # of a burst: some tenths of a second of each kind

Burst = Callable[[], float]
"""Measures for a moment; returns the mean of the logs of the seconds."""


def main() -> None:
    """Measure, print one line a kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bursts", type=int, default=25)
    bursts = max(2, parser.parse_args().bursts)
    print(f"standard deviation between {bursts} bursts")
    print(f"{'':14}{'same memory':>14}{'new memory':>14}{'new is longer by':>18}")
    with ExitStack() as kept:
        same = {name: make(kept) for name, make in KINDS.items()}
        found: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in KINDS}
        for _ in range(bursts):
            for name, make in KINDS.items():
                found[name][0].append(same[name]())
                with ExitStack() as once:
                    found[name][1].append(make(once)())
        for name, (old, new) in found.items():
            longer = math.expm1(statistics.fmean(new) - statistics.fmean(old))
            print(
                f"{name:14}{statistics.stdev(old):14.1%}{statistics.stdev(new):14.1%}{longer:18.1%}"
            )


def latency(level: str) -> Callable[[ExitStack], Burst]:
    """Return what makes a chain of dependent loads through a level."""

    def make(stack: ExitStack) -> Burst:
        size = min(chase.footprint(level, read_caches()), memory_size() // 8)
        chain = stack.enter_context(chase.Chase(native.compiled(chase.SOURCE), size))
        chain.run(min(chain.lines, WARM * LOADS[level]))
        return lambda: logs([chain.latency(LOADS[level]) for _ in range(LATENCIES)])

    return make


def stream(operation: str) -> Callable[[ExitStack], Burst]:
    """Return what makes arrays for an operation of STREAM."""

    def make(_: ExitStack) -> Burst:
        import torch

        caches = read_caches()
        elements = elements_for(caches.last_total, memory_size(), OPERATIONS[operation][0])
        arrays = Stream(operation, elements, torch.device("cpu"), dtype="float64")
        arrays.run()
        return lambda: logs([seconds(arrays.run) for _ in range(PASSES)])

    return make


def product(_: ExitStack) -> Burst:
    """Make matrices for a product."""
    import torch

    left, right = torch.randn(SIDE, SIDE), torch.randn(SIDE, SIDE)
    out = torch.empty(SIDE, SIDE)
    torch.mm(left, right, out=out)
    return lambda: logs([seconds(lambda: torch.mm(left, right, out=out)) for _ in range(PRODUCTS)])


def seconds(work: Callable[[], object]) -> float:
    """Return how long the work takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def logs(times: Sequence[float]) -> float:
    """Return the mean of their logs."""
    return statistics.fmean(map(math.log, times))


KINDS: dict[str, Callable[[ExitStack], Burst]] = {
    "latency l2": latency("l2"),
    "latency llc": latency("llc"),
    "stream triad": stream("triad"),
    "stream copy": stream("copy"),
    "product": product,
}

if __name__ == "__main__":
    main()
