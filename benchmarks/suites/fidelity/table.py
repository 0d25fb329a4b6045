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
from functools import partial
from pathlib import Path

import numpy as np
import torch

from benchmarks.suites.fidelity.pair import NotHere, Pair, rate
from benchmarks.suites.fidelity.programs import disk, link, tcp
from benchmarks.suites.fidelity.tools import stress_ng, sysbench, timers

SOURCE = Path(__file__).with_name("peers.c")
THREADS = len(os.sched_getaffinity(0))
HUGE = 2 << 20
SETTLE = (
    0.1  # seconds between turns: the threads of a library spin for some 30 ms after its last call
)


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
        f"{'quantity':<34}{'beside':<28}{'ours':>12}{'theirs':>12}{'median':>9}{'quartiles':>18}"
        f"{'spread of ours':>16}{'of theirs':>11}  wanted"
    )
    missed = 0
    for kind in arguments.only:
        with ExitStack() as stack:
            try:
                pairs = stack.enter_context(KINDS[kind]())
            except NotHere as reason:
                print(f"{kind:<34}not compared: {reason}")
                continue
            for pair in pairs:
                try:
                    missed += not show(pair, arguments.rounds)
                except NotHere as reason:
                    print(f"{pair.name:<34}{pair.peer} not compared: {reason}")
    return int(missed > 0)


def show(pair: Pair, rounds: int) -> bool:
    """Take turns, print a line, and return whether the median ratio is where it is wanted."""
    pair.ours(), pair.theirs()  # warm
    ours: list[float] = []
    theirs: list[float] = []
    for number in range(rounds):
        for mine in (True, False) if number % 2 else (False, True):
            time.sleep(SETTLE)
            (ours if mine else theirs).append(pair.ours() if mine else pair.theirs())
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    held = bool(pair.low <= middle <= pair.high)
    wanted = f">= {pair.low:g}" if pair.high == float("inf") else f"{pair.low:g} to {pair.high:g}"
    wanted = wanted if pair.low else "-"
    own, other = spread(ours), spread(theirs)
    ratio = (
        f"{middle:>9.3g}{f'{low:.3g} to {high:.3g}':>18}" if pair.alike else f"{'-':>9}{'-':>18}"
    )
    print(
        f"{pair.name:<34}{pair.peer:<28}{statistics.median(ours):>12.4g}{statistics.median(theirs):>12.4g}"
        f"{ratio}{own:>16.1%}{other:>11.1%}"
        f"  {wanted}{'' if held else '  MISSED'}",
        flush=True,
    )
    return held


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
    """Matrix products beside numpy's library and oneDNN."""
    from suites.compute.kernels import Gemm

    pairs = []
    for size in (1024, 2048):
        for dtype, kind in (("float32", np.float32), ("float64", np.float64)):
            ours = Gemm(size, dtype, torch.device("cpu"))
            a, b = (
                np.random.default_rng(i).standard_normal((size, size)).astype(kind) for i in (0, 1)
            )
            out = np.empty_like(a)
            theirs = rate(partial(np.matmul, a, b, out=out), ours.work)
            name = f"GEMM {dtype} {size}, FLOP/s"
            pairs.append(Pair(name, "numpy (OpenBLAS)", rate(ours.run, ours.work), theirs, 0.95))
            if dtype == "float32" and (found := onednn(a, b, out)) is not None:
                pairs.append(
                    Pair(name, "oneDNN", rate(ours.run, ours.work), rate(found, ours.work), 0.95)
                )
    if len(pairs) == 4:
        print(f"{'GEMM':<34}oneDNN not compared: libdnnl not found")
    yield pairs


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
    from suites.memory.chase import Chase, footprint
    from suites.memory.native import find_compiler, load

    compiler = find_compiler()
    if compiler is None:
        raise NotHere("no C compiler")
    walk = load(OURS, compiler, None)
    for_loads = {"l2": 2_000_000, "llc": 1_000_000, "dram": 500_000}
    with ExitStack() as stack:
        peers = stack.enter_context(library())
        pairs = []
        for level, loads in for_loads.items():
            size = footprint(level, read_caches())
            ours = stack.enter_context(Chase(walk, size))
            pairs.append(
                Pair(
                    f"load latency {level}, ns",
                    "pointers in C",
                    partial(ours.latency, loads),
                    Pointers(peers, size, loads),
                    0.95,
                    1.05,
                )
            )
        yield pairs


class Pointers:
    """A chain of pointers over as many bytes, in huge pages as ours; a call returns its latency in ns."""

    def __init__(self, peers: ctypes.CDLL, size: int, loads: int) -> None:
        self._peers, self._size, self._loads = peers, size, loads
        self._made: mmap.mmap | None = None

    def __call__(self) -> float:
        """Make the chain at the first call: the library holds one at a time."""
        if self._made is None:
            self._made = mmap.mmap(-1, self._size + -self._size % HUGE + HUGE)
            self._made.madvise(mmap.MADV_HUGEPAGE)
            start = ctypes.addressof(ctypes.c_char.from_buffer(self._made))
            self._peers.chase_make(
                ctypes.c_void_p(start + -start % HUGE),
                ctypes.c_size_t(self._size),
                ctypes.c_uint64(1),
            )
        return float(self._peers.chase(ctypes.c_size_t(self._loads)))


KINDS = {
    "triad": triad, "gemm": gemm, "latency": latency, "disk": disk, "tcp": tcp, "link": link,
    "timers": timers, "sysbench": sysbench, "stress-ng": stress_ng,
}  # fmt: skip
