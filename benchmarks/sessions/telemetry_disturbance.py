"""How much does watching disturb what is watched?

Three workloads that suffer in different ways are timed in pairs, with and without sampling, the order
turned round from pair to pair: a loop in Python (competes for the interpreter's lock), tiny tensor
operations (latency) and matrix products on all cores (competes for CPUs). Printed is the ratio of the
times, with over without: its median, the middle half of the pairs, and how many pairs were thrown away
because strangers disturbed them. 1.000 means no disturbance.

On a machine that is not quite quiet a disturbance of a tenth of a percent drowns. So sampling runs
`--faster` times as often as in a session, and the last column is the excess divided by that: what a session
suffers, in percent. What is done once a measurement (the readings before and after) is not timed by it.

    python benchmarks/sessions/telemetry_disturbance.py [--pairs 16] [--seconds 0.25] [--faster 20]

On a machine with NVIDIA cards the telemetry includes them; the last lines say what one sample costs.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

from pytest_anubis.hardware.load.disturbance import INTERVAL as WATCH_INTERVAL
from pytest_anubis.hardware.load.disturbance import HostWatch
from pytest_anubis.hardware.telemetry.telemetry_sampler import INTERVAL, Telemetry, default_sources

Work = Callable[[], object]


def python_loop() -> Work:
    """Return pure interpreter work."""
    return lambda: sum(i * i for i in range(2000))


def tiny_operation() -> Work:
    """Return one tiny tensor operation: all dispatch, no work."""
    import torch

    value = torch.ones(8)
    return lambda: value.add_(1.0)


def matrix_product() -> Work:
    """Return a product of two 512 x 512 matrices on all cores."""
    import torch

    left, right = torch.randn(512, 512), torch.randn(512, 512)
    return lambda: left @ right


def time_of_one(work: Work, seconds: float) -> float:
    """Return the mean seconds of one call over about `seconds`."""
    calls, begin = 0, time.perf_counter()
    end = begin + seconds
    while True:
        for _ in range(20):
            work()
        calls += 20
        now = time.perf_counter()
        if now >= end:
            return (now - begin) / calls


def ratios(
    work: Work, watch: Callable[[], AbstractContextManager[object]], pairs: int, seconds: float
) -> tuple[list[float], int]:
    """Return time with / time without for every pair, and how many pairs strangers had spoiled.

    A pair is spoiled when other processes or the hypervisor disturbed one of its halves; that is read from
    counters before and after, without any thread. At most as many are thrown away as are wanted.
    """
    found: list[float] = []
    spoiled = 0
    while len(found) < pairs:
        times = {}
        with HostWatch(interval=None) as quiet:
            for watched in (False, True) if (len(found) + spoiled) % 2 else (True, False):
                with watch() if watched else nullcontext():
                    times[watched] = time_of_one(work, seconds)
        if quiet.disturbance and spoiled < pairs:
            spoiled += 1
        else:
            found.append(times[True] / times[False])
    return sorted(found), spoiled


def print_costs() -> None:
    """Print what one sample of every source costs the sampling thread."""
    for source in default_sources():
        source.open()
        for counters in (False, True):
            wall, used = time.perf_counter(), time.thread_time()
            for _ in range(20):
                source.read(counters)
            wall, used = (time.perf_counter() - wall) / 20, (time.thread_time() - used) / 20
            what = "with counters" if counters else "sensors only"
            name = type(source).__name__
            print(f"{name:14} {what:14} {wall * 1e3:7.3f} ms wall {used * 1e3:7.3f} ms CPU")
        source.close()


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--pairs", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=0.25)
    parser.add_argument("--faster", type=float, default=20.0)
    given = parser.parse_args()
    telemetry = Telemetry(interval=INTERVAL / given.faster)
    watches: dict[str, Callable[[], AbstractContextManager[object]]] = {
        "nothing (noise)": nullcontext,
        "host watch": lambda: HostWatch(interval=WATCH_INTERVAL / given.faster),
        "telemetry": telemetry.around,
    }
    head = f"{'workload':16} {'watched by':16} {'ratio':>7} {'middle half of the pairs':>26}"
    print(head, f"{'spoiled':>8} {'in a session':>13}")
    with telemetry:
        for make in (python_loop, tiny_operation, matrix_product):
            work = make()
            time_of_one(work, given.seconds)  # warm-up
            for name, watch in watches.items():
                found, spoiled = ratios(work, watch, given.pairs, given.seconds)
                low, median, high = statistics.quantiles(found, n=4)
                middle = f"{low:.4f} to {high:.4f}"
                share = 100 * (median - 1) / given.faster
                row = f"{make.__name__:16} {name:16} {median:7.4f} {middle:>26}"
                print(row, f"{spoiled:8} {share:11.3f} %", flush=True)
    print_costs()


if __name__ == "__main__":
    main()
