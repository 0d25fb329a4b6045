"""The table of fidelity: the command's options, what it runs, what it prints."""

from __future__ import annotations

import argparse
import ctypes
import ctypes.util
import mmap
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from benchmarks.suites.fidelity.pair import NotHere, Pair, Take, median_interval, rate
from benchmarks.suites.fidelity.programs import disk, link, tcp

SOURCE = Path(__file__).with_name("peers.c")
THREADS = len(os.sched_getaffinity(0))
OPENBLAS_CALLS = tuple(
    f"{prefix}openblas_set_num_threads{suffix}"
    for prefix in ("", "scipy_")
    for suffix in ("", "64_")
)
"""What it is called in builds with numbers of 32 and of 64 bits, and in numpy's own wheels."""
SETTLE = (
    0.1  # seconds between turns: the threads of a library spin for some 30 ms after its last call
)

SLICE = {"l2": 400_000, "llc": 100_000, "dram": 40_000}
"""Loads of a slice: some five milliseconds, in which nobody comes or goes."""

TIMED_SIZE, TIMED_SECONDS = 1024, 1.0
"""Rows and columns of the product that torch's timer times too, as in smoke, and seconds of a turn."""

LAPS = 4
"""Times round the whole chain before a slice, as in the benchmark: a cache does not keep every line at once.
In memory, where nothing is kept, as many loads as a slice has."""

SMALL = 64 << 20
"""Bytes of a room that is kept until the end: of that of a last-level cache at most 16 MiB, thirty times."""
SLICES = 15  # of each chain in a round
OPEN, MISSED = "open", "MISSED"


def main(about: str) -> int:
    """Measure, print the table."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--only", nargs="+", choices=tuple(KINDS), default=list(KINDS))
    arguments = parser.parse_args()
    torch.set_num_threads(THREADS)
    print(
        f"{THREADS} threads, {arguments.rounds} rounds in turns; ratio = ours / theirs, of rounds"
    )
    print(
        f"{'quantity':<34}{'beside':<28}{'ours':>12}{'theirs':>12}{'median':>9}{'95 % interval':>18}"
        f"{'quartiles':>18}{'spread of ours':>16}{'of theirs':>11}  wanted"
    )
    said: list[str] = []
    for kind in arguments.only:
        with ExitStack() as stack:
            try:
                pairs = stack.enter_context(KINDS[kind]())
            except NotHere as reason:
                print(f"{kind:<34}not compared: {reason}")
                continue
            for pair in pairs:
                try:
                    said.append(show(pair, arguments.rounds))
                except NotHere as reason:
                    print(f"{pair.name:<34}{pair.peer} not compared: {reason}")
    if OPEN in said:
        print(f"{said.count(OPEN)} open: the rounds spread too far to tell; take more (--rounds)")
    return int(MISSED in said)


def show(pair: Pair, rounds: int) -> str:
    """Take turns, print a line, and return whether the median ratio is where it is wanted.

    Returns:
        Empty where its whole interval is, `MISSED` where none of it is, else `OPEN`.
    """
    ours, theirs = turns(pair, rounds)
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    least, most = median_interval(ratios)
    held = "" if pair.low <= least and most <= pair.high else OPEN
    held = MISSED if most < pair.low or least > pair.high else held
    held = held if pair.low else ""
    wanted = f">= {pair.low:g}" if pair.high == float("inf") else f"{pair.low:g} to {pair.high:g}"
    wanted = wanted if pair.low else "-"
    own, other = spread(ours), spread(theirs)
    spans = [f"{a:.3g} to {b:.3g}" for a, b in ((least, most), (low, high))]
    ratio = f"{middle:>9.3g}" + "".join(f"{span:>18}" for span in spans)
    print(
        f"{pair.name:<34}{pair.peer:<28}{statistics.median(ours):>12.4g}{statistics.median(theirs):>12.4g}"
        f"{ratio}{own:>16.1%}{other:>11.1%}"
        f"  {wanted}  {held}".rstrip(),
        flush=True,
    )
    return held


def turns(pair: Pair, rounds: int) -> tuple[list[float], list[float]]:
    """Return our values and theirs, one of each a round.

    A round is one, the other, the other, the one, and its values are the means of two: what drifts evenly
    from its first turn to its last changes neither. The first is each in turn.
    """
    ours: list[float] = []
    theirs: list[float] = []
    if pair.both is not None:
        for _ in range(rounds):
            one, other = pair.both()
            ours.append(one)
            theirs.append(other)
        return ours, theirs
    pair.ours(), pair.theirs()  # warm
    for number in range(rounds):
        taken: dict[bool, list[float]] = {True: [], False: []}
        for first in (True, False, False, True):
            time.sleep(SETTLE)
            mine = first is bool(number % 2)
            taken[mine].append(pair.ours() if mine else pair.theirs())
        ours.append(statistics.fmean(taken[True]))
        theirs.append(statistics.fmean(taken[False]))
    return ours, theirs


def spread(values: list[float]) -> float:
    """Return the distance between the quartiles over the median."""
    low, middle, high = statistics.quantiles(values, n=4)
    return (high - low) / middle


@contextmanager
def library() -> Iterator[ctypes.CDLL]:
    """Compile the peers, load them."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise NotHere("no C compiler")
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "peers.so"
        command = [
            compiler,
            "-O3",
            "-march=native",
            "-fopenmp",
            "-shared",
            "-fPIC",
            str(SOURCE),
            "-o",
            str(built),
        ]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise NotHere(f"the compiler failed: {done.stderr.strip()[:200]}")
        loaded = ctypes.CDLL(str(built))
    for name in ("triad", "chase"):
        getattr(loaded, name).restype = ctypes.c_double
    yield loaded


@contextmanager
def triad() -> Iterator[list[Pair]]:
    """Memory: our triad beside that of C with OpenMP, over arrays of the same length."""
    from suites.memory.caches import memory_size, read_caches
    from suites.memory.stream import Stream, elements_for

    elements = elements_for(read_caches().last_total, memory_size())
    with library() as peers:
        peers.triad_make(ctypes.c_size_t(elements))
        stream = Stream("triad", elements, torch.device("cpu"))

        def theirs() -> float:
            return float(stream.bytes / peers.triad(1, THREADS))

        yield [
            Pair(
                "STREAM triad, bytes/s",
                "C and OpenMP, -O3",
                rate(stream.run, stream.bytes),
                theirs,
                0.95,
            )
        ]


@contextmanager
def gemm() -> Iterator[list[Pair]]:
    """Matrix products beside numpy's library and oneDNN, on one thread and on all.

    On one thread the libraries' own speed is compared. On all of them each waits for its slowest thread:
    where a host gives some of the CPUs' time to others, what differs is how they share out the work.
    """
    from suites.compute.kernels import Gemm

    pairs = []
    for size in (1024, 2048):
        for dtype, kind in (("float32", np.float32), ("float64", np.float64)):
            ours = Gemm(size, dtype, torch.device("cpu"))
            a, b = (
                np.random.default_rng(i).standard_normal((size, size)).astype(kind) for i in (0, 1)
            )
            out = np.empty_like(a)
            theirs = partial(np.matmul, a, b, out=out)
            name = f"GEMM {dtype} {size}, FLOP/s"
            for threads in dict.fromkeys((1, THREADS)):
                one, other = (
                    on_threads(threads, rate(run, ours.work)) for run in (ours.run, theirs)
                )
                pairs.append(Pair(name, f"numpy (OpenBLAS), {threads} thr.", one, other, 0.95))
            if dtype == "float32" and (found := onednn(a, b, out)) is not None:
                one, other = (
                    on_threads(THREADS, rate(run, ours.work)) for run in (ours.run, found)
                )
                pairs.append(Pair(name, "oneDNN", one, other, 0.95))
    if not any(pair.peer == "oneDNN" for pair in pairs):
        print(f"{'GEMM':<34}oneDNN not compared: libdnnl not found")
    yield pairs


def on_threads(threads: int, take: Take) -> Take:
    """Return the same measurement with torch and numpy's library on so many threads.

    Raises:
        NotHere: numpy's library is none that can be told.
    """
    tell = openblas()
    if tell is None:
        raise NotHere("numpy's library is no OpenBLAS")

    def run() -> float:
        torch.set_num_threads(threads)
        tell(threads)
        return take()

    return run


def openblas() -> Callable[[int], object] | None:
    """Return what tells numpy's OpenBLAS its number of threads; None where numpy has another library.

    Of two in the process numpy's own is told: scipy's wheel brings one of its own, and telling that one left
    numpy on all threads in rows that say one.
    """
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    paths = dict.fromkeys(line.split()[-1] for line in lines if "openblas" in line)
    for path in sorted(paths, key=lambda path: "numpy" not in path):
        for name in OPENBLAS_CALLS:
            found = getattr(ctypes.CDLL(path), name, None)
            if found is not None:
                return partial(_called, found)
    return None


def _called(function: Callable[..., object], number: int) -> object:
    return function(ctypes.c_int(number))


def onednn(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Callable[[], object] | None:
    """Return oneDNN's own product of two square matrices in single precision, None where it is not."""
    name = ctypes.util.find_library("dnnl")
    if name is None:
        return None
    product = ctypes.CDLL(name).dnnl_sgemm
    n = ctypes.c_int64(len(a))
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    letter = ctypes.c_char(b"N")
    left, right, into = (m.ctypes.data_as(ctypes.c_void_p) for m in (a, b, out))
    return lambda: product(letter, letter, n, n, n, one, left, n, right, n, zero, into, n)


@contextmanager
def latency() -> Iterator[list[Pair]]:
    """Dependent loads beside pointers that are followed in C."""
    from suites.memory.caches import read_caches
    from suites.memory.chase import SOURCE as OURS
    from suites.memory.chase import footprint
    from suites.memory.native import find_compiler, load

    compiler = find_compiler()
    if compiler is None:
        raise NotHere("no C compiler")
    walk = load(OURS, compiler, None)
    kept: list[mmap.mmap] = []
    with library() as peers:
        yield [
            Pair(
                f"load latency {level}, ns",
                "pointers in C",
                lambda: 0.0,
                lambda: 0.0,
                0.95,
                1.05,
                both=partial(chains, walk, peers, footprint(level, read_caches()), loads, kept),
            )
            for level, loads in SLICE.items()
        ]


def chains(
    walk: ctypes.CDLL, peers: ctypes.CDLL, size: int, loads: int, kept: list[mmap.mmap]
) -> tuple[float, float]:
    """Return the latency of our chain and of theirs in ns: medians of short slices, in turns on one CPU.

    Buffers of their own for each round: which lines of one share a set of a cache depends on where its pages
    lie in the machine's memory, which on a virtual machine nobody in it decides. Two buffers for all rounds
    would hold one place against another; so would new ones whose pages the kernel takes from those that the
    last round gave back, so theirs are kept. What takes the core, its clock or the cache away for
    tenths of a second meets slices of both alike.

    Args:
        walk: Our chain.
        peers: Theirs.
        size: Bytes to chase through.
        loads: Loads of a slice.
        kept: Rooms of earlier rounds, to which this one's is added if it is small.
    """
    from suites.memory.chase import Chase
    from suites.memory.huge_pages import room

    made, begin = room(size)
    if size < SMALL:
        kept.append(made)
    place = ctypes.addressof(ctypes.c_char.from_buffer(made)) + begin
    peers.chase_make(ctypes.c_void_p(place), ctypes.c_size_t(size), ctypes.c_uint64(1))
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        with Chase(walk, size) as chain:
            lap = min(LAPS * chain.lines, loads)

            def ours() -> float:
                chain.run(lap)
                return chain.latency(loads)

            def theirs() -> float:
                peers.chase(ctypes.c_size_t(lap))
                return float(peers.chase(ctypes.c_size_t(loads)))

            taken: dict[bool, list[float]] = {True: [], False: []}
            for number in range(SLICES):
                for mine in (True, False) if number % 2 else (False, True):
                    taken[mine].append(ours() if mine else theirs())
    finally:
        os.sched_setaffinity(0, before)
    return statistics.median(taken[True]), statistics.median(taken[False])


@contextmanager
def timer() -> Iterator[list[Pair]]:
    """A matrix product by our rounds and by torch.utils.benchmark."""
    from torch.utils.benchmark import Timer

    from pytest_anubis.hardware.round_plans import PLANS
    from pytest_anubis.hardware.timing import HostClock, rounds, warm_up
    from suites.compute.kernels import Gemm

    gemm = Gemm(TIMED_SIZE, "float32", torch.device("cpu"))
    plan = replace(PLANS["smoke"], budget_seconds=TIMED_SECONDS)
    clock = HostClock(lambda: None)
    peer = Timer("run()", globals={"run": gemm.run}, num_threads=THREADS)

    def ours() -> float:
        times = rounds(gemm.run, clock, plan, warm_up(gemm.run, clock, plan))
        return gemm.work / statistics.median(times)

    def theirs() -> float:
        return float(gemm.work / peer.blocked_autorange(min_run_time=TIMED_SECONDS).median)

    yield [Pair(f"GEMM float32 {TIMED_SIZE}, FLOP/s", "torch's own timer", ours, theirs)]


KINDS = {
    "triad": triad, "gemm": gemm, "timer": timer, "latency": latency, "disk": disk, "tcp": tcp, "link": link,
}  # fmt: skip
