"""How close to the limit do the benchmarks measure? Each beside another program that does the same work.

STREAM triad beside C with OpenMP, matrix products beside numpy's OpenBLAS and oneDNN, load latency beside
pointers in C, disk beside fio by hand, TCP beside iperf3, all-reduce and copies over TCP beside the rate
that a link was given. Ours and theirs take turns, the first of a round being each in turn, in one process
where that is possible; the ratio is taken round by round. What is wanted stands beside it. A peer that is
not installed is named.

Run: ``python benchmarks/fidelity.py [--rounds 30] [--only triad gemm latency disk tcp link]``. Needs a C
compiler with OpenMP; uses fio, iperf3, oneDNN (``libdnnl``) and, for the link, root and iproute2.
"""

from __future__ import annotations

import argparse
import ctypes
import ctypes.util
import json
import mmap
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

SOURCE = Path(__file__).with_name("fidelity_peers") / "peers.c"
THREADS = len(os.sched_getaffinity(0))
SECONDS = 0.15  # of a turn: long beside the clock and short beside what a neighbour does
HUGE = 2 << 20
HIDDEN = (0.4e9, 1.0e9)  # bits a second, the ends between which the link's rate is drawn

Take = Callable[[], float]


@dataclass(frozen=True)
class Pair:
    """Two ways to the same quantity.

    Attributes:
        name: What is measured.
        peer: What it is held against.
        ours: Returns our value of one turn, larger is better unless the ratio is to be near one.
        theirs: Returns theirs.
        low: Least median ratio that is wanted.
        high: Largest one.
    """

    name: str
    peer: str
    ours: Take
    theirs: Take
    low: float
    high: float = float("inf")


def main() -> None:
    """Measure, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--only", nargs="+", choices=tuple(KINDS), default=list(KINDS))
    arguments = parser.parse_args()
    torch.set_num_threads(THREADS)
    print(
        f"{THREADS} threads, {arguments.rounds} rounds in turns; ratio = ours / theirs, of rounds"
    )
    print(
        f"{'quantity':<34}{'beside':<28}{'ours':>12}{'theirs':>12}{'median':>9}{'quartiles':>16}  wanted"
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
                missed += not show(pair, arguments.rounds)
    sys.exit(1 if missed else 0)


class NotHere(RuntimeError):
    """A peer is not installed, or this machine cannot do it."""


def show(pair: Pair, rounds: int) -> bool:
    """Take turns, print a line, and return whether the median ratio is where it is wanted."""
    pair.ours(), pair.theirs()  # warm
    ours, theirs = [], []
    for number in range(rounds):
        for mine in (True, False) if number % 2 else (False, True):
            (ours if mine else theirs).append(pair.ours() if mine else pair.theirs())
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    held = pair.low <= middle <= pair.high
    wanted = f">= {pair.low:g}" if pair.high == float("inf") else f"{pair.low:g} to {pair.high:g}"
    print(
        f"{pair.name:<34}{pair.peer:<28}{statistics.median(ours):>12.4g}{statistics.median(theirs):>12.4g}"
        f"{middle:>9.3f}{f'{low:.3f} to {high:.3f}':>16}  {wanted}{'' if held else '  MISSED'}",
        flush=True,
    )
    return held


def rate(run: Callable[[], object], work: float) -> Take:
    """Return what repeats a callable for a turn and gives work per second."""
    run()
    begin = time.perf_counter()
    run()
    calls = max(1, round(SECONDS / (time.perf_counter() - begin)))

    def take() -> float:
        begin = time.perf_counter()
        for _ in range(calls):
            run()
        return calls * work / (time.perf_counter() - begin)

    return take


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
            theirs = rate(lambda a=a, b=b, out=out: np.matmul(a, b, out=out), ours.work)
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
                    lambda o=ours, n=loads: o.latency(n),
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
            self._made = mmap.mmap(-1, self._size + HUGE)
            self._made.madvise(mmap.MADV_HUGEPAGE)
            start = ctypes.addressof(ctypes.c_char.from_buffer(self._made))
            self._peers.chase_make(
                ctypes.c_void_p(start + -start % HUGE),
                ctypes.c_size_t(self._size),
                ctypes.c_uint64(1),
            )
        return float(self._peers.chase(ctypes.c_size_t(self._loads)))


@contextmanager
def disk() -> Iterator[list[Pair]]:
    """The disk through the benchmark beside one call of fio as a person types it."""
    from suites.storage.fio import DEPTH, RANDOM_BLOCK, SEQUENTIAL_BLOCK, DiskFile, find_fio

    program = find_fio()
    if program is None:
        raise NotHere("fio not found")
    size, seconds = 512 << 20, 1.0
    folder = Path(tempfile.gettempdir())
    with DiskFile(folder, size, program) as ours, tempfile.TemporaryDirectory(dir=folder) as theirs:

        def by_hand(mode: str, block: int, field: str) -> Take:
            command = [
                program,
                "--name=hand",
                f"--filename={theirs}/data",
                f"--rw={mode}",
                f"--bs={block}",
                f"--size={size}",
                f"--ioengine={ours.way.engine}",
                f"--direct={int(ours.way.direct)}",
                f"--iodepth={DEPTH}",
                "--time_based",
                f"--runtime={seconds:g}",
                "--output-format=json",
            ]

            def take() -> float:
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                side = "read" if "read" in mode else "write"
                return float(
                    json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0][side][field]
                )

            return take

        def mean(values: list[float]) -> float:
            return statistics.fmean(values)

        yield [
            *(
                Pair(
                    f"disk {d}, bytes/s",
                    "fio by hand",
                    lambda d=d: mean(ours.sequential(d, seconds)),
                    by_hand(d, SEQUENTIAL_BLOCK, "bw_bytes"),
                    0.95,
                    1.05,
                )
                for d in ("write", "read")
            ),
            *(
                Pair(
                    f"disk random {d}, IOPS",
                    "fio by hand",
                    lambda d=d: mean(ours.random(d, seconds)),
                    by_hand(f"rand{d}", RANDOM_BLOCK, "iops"),
                    0.95,
                    1.05,
                )
                for d in ("write", "read")
            ),
        ]


@contextmanager
def tcp() -> Iterator[list[Pair]]:
    """One connection over loopback beside iperf3, both ends of both on one CPU with the same buffers."""
    from suites.network import peer
    from suites.network.loopback import Loopback

    program = shutil.which("iperf3")
    if program is None:
        raise NotHere("iperf3 not found")
    cpu = str(max(os.sched_getaffinity(0)))
    port = "5299"
    server = subprocess.Popen([program, "-s", "-p", port, "-A", cpu], stdout=subprocess.DEVNULL)
    try:
        time.sleep(0.5)
        size = 256 << 20

        def theirs() -> float:
            done = subprocess.run(
                [
                    program,
                    "-c",
                    "127.0.0.1",
                    "-p",
                    port,
                    "-A",
                    cpu,
                    "-n",
                    str(size),
                    "-J",
                    "-w",
                    str(peer.BUFFER),
                ],
                check=True,
                capture_output=True,
                text=True,
            )
            return float(json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"]) / 8

        with Loopback() as link:
            yield [
                Pair(
                    "TCP over loopback, bytes/s",
                    "iperf3 -w, same CPU",
                    lambda: link.rate(size),
                    theirs,
                    0.9,
                )
            ]
    finally:
        server.kill()
        server.wait()


KINDS = {"triad": triad, "gemm": gemm, "latency": latency, "disk": disk, "tcp": tcp}

if __name__ == "__main__":
    main()
