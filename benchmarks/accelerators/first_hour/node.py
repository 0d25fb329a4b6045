"""Measure all cards together: pairs, all-reduce, copies alone and at once, and a simultaneous burn."""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))  # this checkout's packages

import torch
from torch import distributed as dist
from torch import multiprocessing as processes

from benchmarks.accelerators.first_hour.card import best, burn, calls_for, seconds_of
from benchmarks.accelerators.first_hour.rows import GOOD, OFF, Findings, read_findings

PAIR = 1 << 30
"""Bytes of a copy between two cards: far more than any buffer between them."""

BURN = 600.0
"""Seconds of the burn: temperatures of a whole node settle within minutes."""

ALIKE = 0.97
"""Minimum share of the median for every card in the burn, as in the vendors' own tools."""

SHARE = 0.95
"""Minimum share of the median of all pairs for every pair."""


def pairs(findings: Findings, _card: int) -> None:
    """Copy between all ordered pairs of cards, one at a time."""
    count = torch.cuda.device_count()
    rates: dict[tuple[int, int], float] = {}
    buffers = [torch.ones(PAIR, dtype=torch.uint8, device=f"cuda:{n}") for n in range(count)]
    for a in range(count):
        for b in range(count):
            if a != b:
                with torch.cuda.device(a):
                    seconds, _ = best(partial(buffers[b].copy_, buffers[a], non_blocking=True), 0.3)
                rates[a, b] = PAIR / seconds / 1e9
    middle = statistics.median(rates.values())
    findings.figure("peer", middle, what=f"copy between two cards, median of {len(rates)} pairs")
    for (a, b), rate in sorted(rates.items(), key=lambda item: item[1]):
        if rate < SHARE * middle:
            words = f"{rate:.4g} GB/s, {rate / middle:.3f} of the median"
            findings.row(f"cuda:{a} to cuda:{b}", words, value=rate, end=OFF)
    slowest = min(rates.values())
    end = GOOD if slowest >= SHARE * middle else OFF
    expected = f"{SHARE:g} of the median or more"
    findings.row("slowest pair", f"{slowest:.4g} GB/s", value=slowest, expected=expected, end=end)


def all_reduce(findings: Findings, _card: int) -> None:
    """Reduce 1, 8 and 16 GiB over all cards, by the library's choice and by rings alone."""
    for way, variables in (("the library's choice", {}), ("rings", {"NCCL_ALGO": "Ring"})):
        for gib in (1, 8, 16):
            command = [sys.executable, __file__, "--ranks", str(gib << 30)]
            environment = {**os.environ, **variables}
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=120, env=environment
            )
            name = f"{gib} GiB, {way}"
            try:
                rate = float(done.stdout.split()[-1])
            except (IndexError, ValueError):
                words = (done.stderr.strip().splitlines() or ["it said nothing"])[-1][:200]
                findings.row(name, words, end=OFF)
                continue
            if gib == 16 and not variables:
                findings.figure("busbw", rate, what=f"all-reduce of {name}, bus bandwidth")
            else:
                findings.row(f"all-reduce of {name}", f"{rate:.4g} GB/s bus bandwidth", value=rate)


def _rank(rank: int, world: int, size: int, port: int) -> None:
    torch.cuda.set_device(rank)
    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("nccl", init_method=address, rank=rank, world_size=world)
    data = torch.ones(size // 2, dtype=torch.bfloat16, device="cuda")
    work = partial(dist.all_reduce, data)
    for _ in range(5):
        work()
    rates = [10 * size / seconds_of(work, 10) / 1e9 * 2 * (world - 1) / world for _ in range(5)]
    if rank == 0:
        print(statistics.median(rates))
    dist.destroy_process_group()


def copies_together(findings: Findings, _card: int, size: int = 1 << 30) -> None:
    """Copy to every card alone, then to all at once."""
    count = torch.cuda.device_count()
    hosts = [torch.ones(size, dtype=torch.uint8).pin_memory() for _ in range(count)]
    cards = [torch.empty(size, dtype=torch.uint8, device=f"cuda:{n}") for n in range(count)]
    alone = []
    for number in range(count):
        with torch.cuda.device(number):
            work = partial(cards[number].copy_, hosts[number], non_blocking=True)
            alone.append(size / best(work, 0.5)[0] / 1e9)
    calls = calls_for(partial(cards[0].copy_, hosts[0], non_blocking=True), 1.0)
    for number in range(count):
        torch.cuda.synchronize(number)
    begin = time.perf_counter()
    for _ in range(calls):
        for number in range(count):
            cards[number].copy_(hosts[number], non_blocking=True)
    for number in range(count):
        torch.cuda.synchronize(number)
    together = calls * count * size / (time.perf_counter() - begin) / 1e9
    for number, rate in enumerate(alone):
        findings.figure("h2d", rate, what=f"host to cuda:{number}, alone")
    share = together / sum(alone)
    findings.row(
        "host to all cards at once", f"{together:.4g} GB/s, {share:.3f} of the sum", value=together
    )


def burn_together(findings: Findings, _card: int) -> None:
    """Burn all cards at the same time, each in its own process, and compare them."""
    context = processes.get_context("spawn")
    path = findings.path
    count = torch.cuda.device_count()
    running = [context.Process(target=_burn, args=(number, str(path))) for number in range(count)]
    for one in running:
        one.start()
    for one in running:
        one.join(BURN + 120)
    rates: dict[int, float] = {}
    for number in range(count):
        rows, courses = read_findings(Path(f"{path}.{number}"))
        for row in rows:
            findings.row(f"cuda:{number}", row.found, value=row.value, end=row.end)
            rates[number] = row.value or 0.0
        for course in courses:
            findings.series(f"cuda:{number} {course['name']}", course["unit"], course["points"])
    middle = statistics.median(rates.values()) if rates else 0.0
    low = [f"cuda:{number}" for number in range(count) if rates.get(number, 0.0) < ALIKE * middle]
    findings.row(
        "alike",
        f"below {ALIKE:g} of the median: {', '.join(low) or 'none'}",
        expected="every card",
        end=OFF if low or len(rates) < count else GOOD,
    )


def _burn(number: int, path: str) -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = str(number)
    burn(Findings("burn", Path(f"{path}.{number}")), number, BURN)


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        chosen = free.getsockname()[1]
    ranks = torch.cuda.device_count()
    processes.spawn(  # type: ignore[attr-defined, no-untyped-call]
        _rank, args=(ranks, int(sys.argv[2]), chosen), nprocs=ranks
    )
