"""Measure one card: burst and plateau, memory, arithmetic, copies, latencies and the cost of telemetry.

Times are measured with the card's events, except for latencies of the host. No setting is changed.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from functools import partial

import torch

from benchmarks.accelerators.first_hour.rows import Findings
from benchmarks.accelerators.first_hour.sensors import Course
from pytest_anubis.hardware.numa import cores_of
from pytest_anubis.hardware.telemetry.host_sensors import POWER, SM_CLOCK
from pytest_anubis.hardware.telemetry.telemetry_sampler import Telemetry, default_sources
from pytest_anubis.hardware.text_files import Files

MINUTE = 60.0
ROUND = 0.02
"""Seconds of one round, short enough to see a clock fall within tenths of a second."""

BURST = 1.0
"""Seconds from idle that count as burst: power management averages over about one second."""

PLATEAU = 20.0
"""Seconds at the end of the minute in which temperature and clock have settled as far as they do."""

SIDE = 8192
"""Side of the square matrices: large enough for every card's best rate."""

LAUNCHES = 2000
"""Launches in a row: more than the driver queues before it blocks."""

Work = Callable[[], object]


def device() -> torch.device:
    """Return the only card that this process sees."""
    return torch.device("cuda", 0)


def seconds_of(work: Work, calls: int) -> float:
    """Return the card's seconds for some calls."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    begin.record()
    for _ in range(calls):
        work()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3


def calls_for(work: Work, seconds: float) -> int:
    """Return the number of calls that take `seconds`."""
    work()
    torch.cuda.synchronize()
    return max(1, int(seconds / max(seconds_of(work, 3) / 3, 1e-7)))


def best(work: Work, seconds: float = 2.0) -> tuple[float, float]:
    """Return the median seconds of one call, and the relative spread of the rounds, over `seconds`."""
    calls = calls_for(work, ROUND)
    rounds = [seconds_of(work, calls) / calls for _ in range(max(5, int(seconds / ROUND)))]
    middle = statistics.median(rounds)
    low, _, high = statistics.quantiles(rounds[len(rounds) // 5 :], n=4)
    return middle, (high - low) / middle


def product(dtype: torch.dtype, side: int = 0, *, zeros: bool = False) -> tuple[Work, float]:
    """Return a matrix product and the operations of one call; `side` 0 means `SIDE`."""
    side = side or SIDE
    make = torch.zeros if zeros else torch.randn
    a, b = (make(side, side, device=device()).to(dtype) for _ in range(2))
    out = torch.empty(side, side, dtype=dtype, device=device())
    return partial(torch.matmul, a, b, out=out), 2.0 * side**3


def minute_of_load(findings: Findings, card: int) -> None:
    """Run bf16 products for a minute from idle; record rate, clock and power over time."""
    work, operations = product(torch.bfloat16)
    calls = calls_for(work, ROUND)
    time.sleep(5)  # back to idle clocks
    points: list[tuple[float, float]] = []
    with Course(findings, card) as course:
        begin = time.monotonic()
        while (now := time.monotonic() - begin) < MINUTE:
            points.append((round(now, 3), calls * operations / seconds_of(work, calls) / 1e12))
    findings.series("bf16 rate", "TFLOP/s", points)
    burst = statistics.median(rate for when, rate in points if when < BURST)
    held = statistics.median(
        [rate for when, rate in points if when >= MINUTE - PLATEAU] or [points[-1][1]]
    )
    findings.figure("bf16", burst)
    findings.row(
        "bf16 after a minute",
        f"{held:.4g} TFLOP/s, {held / burst:.3f} of the burst",
        value=held / burst,
        expected="0.8 of the burst or more",
        source="an estimate",
        end="as expected" if held >= 0.8 * burst else "off",
    )
    settled = next((when for when, rate in points if rate <= 1.02 * held), MINUTE)
    findings.row("until the rate is within 2 % of the end's", f"{settled:.1f} s", value=settled)
    for name in (SM_CLOCK, POWER):
        first, last = course.middle(name, 0.2, BURST), course.middle(name, MINUTE - PLATEAU, MINUTE)
        if first is not None and last is not None:
            findings.row(name, f"{first:.0f} at first, {last:.0f} at the end", value=last)


def memory(findings: Findings, _card: int) -> None:
    """Copy within the card's memory at several sizes."""
    for size in (64 << 20, 256 << 20, 1 << 30, 4 << 30, 8 << 30):
        if 2 * size > torch.cuda.mem_get_info()[0]:
            findings.row(f"copy of {size >> 20} MiB", "the memory does not suffice")
            continue
        source = torch.ones(size // 4, device=device())
        target = torch.empty_like(source)
        seconds, spread = best(partial(target.copy_, source), 1.0)
        rate = 2 * size / seconds / 1e12
        name, note = f"copy of {size >> 20} MiB", f"rounds spread by {spread:.2%}"
        if size >= 1 << 30:  # smaller ones may lie in the caches
            findings.figure("copy", rate, what=name, note=note)
        else:
            findings.row(name, f"{rate:.4g} TB/s", value=rate, note=note)
        del source, target


def arithmetic(findings: Findings, _card: int) -> None:
    """Run products in other types, and with zeros, which draw less power."""
    torch.set_float32_matmul_precision("highest")
    for key, dtype in (("fp32", torch.float32), ("fp64", torch.float64)):
        work, operations = product(dtype)
        seconds, spread = best(work)
        findings.figure(key, operations / seconds / 1e12, note=f"rounds spread by {spread:.2%}")
    for name, dtype in (("fp16", torch.float16), ("bf16", torch.bfloat16)):
        rates = []
        for zeros in (False, True):
            work, operations = product(dtype, zeros=zeros)
            rates.append(operations / best(work, 5.0)[0] / 1e12)
        note = f"with zeros {rates[1] / rates[0]:.3f} of that"
        findings.row(
            f"{name} products for 5 s", f"{rates[0]:.4g} TFLOP/s", value=rates[0], note=note
        )


def copies(findings: Findings, _card: int, size: int = 1 << 30) -> None:
    """Copy from and to the host, page-locked memory of every NUMA node."""
    here = torch.empty(size, dtype=torch.uint8, device=device())
    allowed = os.sched_getaffinity(0)
    nodes: dict[int | None, set[int]] = {}
    for core in cores_of(Files(), allowed):
        nodes.setdefault(core.node, set()).update(core.cpus)
    figures: dict[str, dict[str, float]] = {}
    for node, cpus in nodes.items():
        os.sched_setaffinity(0, cpus)
        host = torch.ones(size, dtype=torch.uint8).pin_memory()  # touched and locked from here
        name = f"NUMA node {'unknown' if node is None else node}"
        for key, work in (
            ("h2d", partial(here.copy_, host, non_blocking=True)),
            ("d2h", partial(host.copy_, here, non_blocking=True)),
        ):
            figures.setdefault(key, {})[name] = size / best(work, 1.0)[0] / 1e9
        del host
    os.sched_setaffinity(0, allowed)
    for key, by_node in figures.items():
        near = max(by_node, key=lambda name: by_node[name])
        findings.figure(key, by_node[near], note=f"{near}; all: {_list(by_node)}")


def _list(figures: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in figures.items())


def latencies(findings: Findings, _card: int) -> None:
    """Time launches by the host, and the cost of telemetry: without it, with it, and without it again."""
    one = torch.zeros(1, device=device())
    work = partial(one.add_, 1.0)

    def launches() -> float:
        work()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(LAUNCHES):
            work()
        torch.cuda.synchronize()
        return (time.perf_counter() - begin) / LAUNCHES * 1e6

    def round_trip() -> float:
        begin = time.perf_counter()
        work()
        torch.cuda.synchronize()
        return (time.perf_counter() - begin) * 1e6

    findings.figure("dispatch", statistics.median(launches() for _ in range(50)))
    findings.figure("round_trip", statistics.median(round_trip() for _ in range(2000)))
    heavy, operations = product(torch.bfloat16)
    heavy()

    def rates(seconds: float) -> tuple[float, float]:
        rate = operations / best(heavy, seconds)[0]
        return 1 / rate, statistics.median(launches() for _ in range(50))

    before = rates(10.0)
    with Telemetry(default_sources()) as telemetry, telemetry.around():
        during = rates(10.0)
    after = rates(10.0)
    for number, name in enumerate(("bf16 products", "launches")):
        alone = (before[number] + after[number]) / 2
        cost = abs(during[number] / alone - 1) * 100
        findings.within(
            f"telemetry on against off: {name}", cost, 0.5, "%", "the project's own limit"
        )


def burn(findings: Findings, card: int, seconds: float = 300.0) -> None:
    """Run large products; compare the last result of every second with the first one, bit by bit."""
    work, operations = product(torch.bfloat16, 2 * SIDE)
    out = work.keywords["out"]  # type: ignore[attr-defined]  # a partial
    work()
    first = out.clone()
    calls = calls_for(work, 1.0)
    wrong, rates = 0, []
    with Course(findings, card):
        begin = time.monotonic()
        while time.monotonic() - begin < seconds:
            rates.append(calls * operations / seconds_of(work, calls) / 1e12)
            wrong += int(not torch.equal(out, first))
    words = f"{len(rates)} comparisons, {wrong} differ; {statistics.median(rates):.4g} TFLOP/s"
    findings.row(
        "burn",
        words,
        value=statistics.median(rates),
        expected="no difference",
        source="the same operations on the same numbers",
        end="off" if wrong else "as expected",
    )
