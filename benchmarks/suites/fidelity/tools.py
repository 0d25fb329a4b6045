"""The tools with which teams time and load machines, each beside ours for the same quantity.

No ratio is wanted of them: what they call the same is often another thing
(`benchmarks/figures/benchmarks.md` says why).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import torch

from benchmarks import ROOT
from benchmarks.suites.fidelity.pair import NotHere, Pair, Take, rate

THREADS = len(os.sched_getaffinity(0))
SIZE = 1024  # of the products, as in smoke
TURN = 1  # seconds of a tool's turn: some take whole ones only
PASSES = 5  # seconds for stress-ng's stream, which tells no rate of fewer than a few passes
STARTING = 60.0  # seconds for a tool to begin and end
FILE = 512 << 20  # bytes of the file that both disk benchmarks read: more than a drive's own cache
MIB, MEGA = 1 << 20, 1e6

PRODUCT = f"""
import torch
from suites.compute.kernels import Gemm

def test_product(benchmark):
    torch.set_num_threads({THREADS})
    benchmark(Gemm({SIZE}, "float32", torch.device("cpu")).run)
"""
"""What pytest-benchmark runs."""


def told(command: Sequence[str], pattern: str, folder: Path | None = None) -> list[float]:
    """Run a tool; return what all groups of all places say where a pattern matches what it printed.

    Raises:
        NotHere: It failed, or says nothing of the kind.
    """
    try:
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, cwd=folder, timeout=STARTING
        )
    except subprocess.TimeoutExpired as error:
        raise NotHere(f"{command[0]} did not end within {STARTING:g} s") from error
    said = done.stdout + done.stderr
    found = [float(text) for match in re.finditer(pattern, said) for text in match.groups()]
    if done.returncode or not found:
        last = said.strip().splitlines()[-1:] or ["nothing printed"]
        raise NotHere(f"{Path(command[0]).name} ended with {done.returncode}: {last[0][:160]}")
    return found


def program(name: str, package: str = "") -> str:
    """Return where a program is.

    Raises:
        NotHere: It is not installed.
    """
    found = shutil.which(name)
    if found is None:
        raise NotHere(f"{name} not found: apt install {package or name}")
    return found


@contextmanager
def timers() -> Iterator[list[Pair]]:
    """A matrix product by our rounds, by torch.utils.benchmark and by pytest-benchmark."""
    from torch.utils.benchmark import Timer

    from pytest_anubis.hardware.round_plans import PLANS
    from pytest_anubis.hardware.timing import HostClock, rounds, warm_up
    from suites.compute.kernels import Gemm

    gemm = Gemm(SIZE, "float32", torch.device("cpu"))
    # As long as theirs.
    plan = replace(PLANS["smoke"], budget_seconds=float(TURN))
    clock = HostClock(lambda: None)

    def ours() -> float:
        times = rounds(gemm.run, clock, plan, warm_up(gemm.run, clock, plan))
        return gemm.work / statistics.median(times)

    def timer(threads: int) -> Take:
        made = Timer("run()", globals={"run": gemm.run}, num_threads=threads)
        return lambda: gemm.work / made.blocked_autorange(min_run_time=TURN).median

    name = f"GEMM float32 {SIZE}, FLOP/s"
    pairs = [
        Pair(name, f"torch Timer, {THREADS} threads", ours, timer(THREADS)),
        Pair(name, "torch Timer by default", ours, timer(1)),
    ]
    with tempfile.TemporaryDirectory(prefix="anubis-fidelity-") as folder:
        if find_spec("pytest_benchmark") is None:
            print(f"{name:<34}pytest-benchmark not compared: not installed")
        else:
            pairs.append(
                Pair(name, "pytest-benchmark", ours, pytest_benchmark(Path(folder), gemm.work))
            )
        yield pairs


def pytest_benchmark(folder: Path, work: float) -> Take:
    """Return what runs the product by pytest-benchmark, in a process of its own, and gives its rate."""
    (folder / "test_product.py").write_text(PRODUCT, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    report = folder / "told.json"
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_product.py"),
        *("--benchmark-only", f"--benchmark-json={report}"),
        *(f"--benchmark-max-time={TURN}", "--benchmark-warmup=on"),
    ]
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}

    def take() -> float:
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, cwd=folder, env=variables,
            timeout=STARTING,
        )  # fmt: skip
        if done.returncode:
            raise NotHere(f"pytest-benchmark ended with {done.returncode}: {done.stdout[-160:]}")
        [row] = json.loads(report.read_text(encoding="utf-8"))["benchmarks"]
        return work / float(row["stats"]["median"])

    return take


@contextmanager
def sysbench() -> Iterator[list[Pair]]:
    """Reading memory, computing and random reads of a disk beside sysbench's memory, cpu and fileio."""
    from suites.memory.caches import memory_size, read_caches
    from suites.memory.stream import Stream, elements_for

    tool = program("sysbench")
    common = [f"--threads={THREADS}", f"--time={TURN}"]
    read = Stream(
        "read", elements_for(read_caches().last_total, memory_size()), torch.device("cpu")
    )

    def memory() -> float:
        # Blocks larger than any cache: with its own size of 1 KiB it reads the first-level cache.
        options = ["--memory-block-size=256M", "--memory-total-size=1024T", "--memory-oper=read"]
        return told([tool, "memory", *options, *common, "run"], r"\((\d[\d.]*) MiB/sec\)")[0] * MIB

    def primes() -> float:
        return told([tool, "cpu", *common, "run"], r"events per second: +(\d[\d.]*)")[0]

    pairs = [
        Pair("reading memory, bytes/s", "sysbench memory", rate(read.run, read.bytes), memory),
        Pair(
            "whole numbers, each in its own", "sysbench cpu", whole_numbers(), primes, alike=False
        ),
    ]
    with (
        tempfile.TemporaryDirectory(prefix="anubis-fidelity-") as name,
        disk(tool, Path(name)) as pair,
    ):
        yield [*pairs, *pair]


def whole_numbers() -> Take:
    """Return what gives the rate of all cores' units for whole numbers of 64 bits."""
    from suites.compute.units import SOURCE, Cores, cpus_for
    from suites.memory.native import find_compiler, load

    compiler = find_compiler()
    if compiler is None:
        raise NotHere("no C compiler")
    cores = Cores(load(SOURCE, compiler, None), cpus_for(THREADS), ["int64"])
    return lambda: sum(core.rate for core in cores.load(float(TURN)))


@contextmanager
def disk(tool: str, folder: Path) -> Iterator[list[Pair]]:
    """Random reads of 4 KiB through fio, as our benchmark does them, beside sysbench's."""
    from suites.storage.fio import DEPTH, DiskFile

    fio = shutil.which("fio")
    if fio is None:
        print(f"{'disk random read, IOPS':<34}not compared: fio not found")
        yield []
        return
    options = [
        *(tool, "fileio", f"--file-total-size={FILE}", "--file-num=1", "--file-test-mode=rndrd"),
        *("--file-block-size=4096", f"--threads={DEPTH}", f"--time={TURN}"),
    ]
    told([*options, "prepare"], r"(\d+) bytes written", folder)
    with DiskFile(Path(tempfile.gettempdir()), FILE, fio) as ours:
        direct = ["--file-extra-flags=direct"] if ours.way.direct else []

        def theirs(*more: str) -> Take:
            return lambda: told([*options, *more, "run"], r"reads/s: +(\d[\d.]*)", folder)[0]

        def through() -> float:
            return statistics.fmean(ours.random_windows("read", float(TURN), 0.0).rates)

        name = "disk random read, IOPS"
        yield [
            Pair(
                name,
                f"sysbench fileio, {'direct' if direct else 'buffered'}",
                through,
                theirs(*direct),
            ),
            Pair(name, "sysbench fileio by default", through, theirs()),
        ]


@contextmanager
def stress_ng() -> Iterator[list[Pair]]:
    """Triad and products beside stress-ng's stream and matrix."""
    from suites.compute.kernels import Gemm
    from suites.memory.caches import memory_size, read_caches
    from suites.memory.stream import Stream, elements_for

    tool = program("stress-ng")
    elements = elements_for(read_caches().last_total, memory_size())
    triad = Stream("triad", elements, torch.device("cpu"))
    gemm = Gemm(SIZE, "float32", torch.device("cpu"))
    side = 256  # of its matrices: those of three fit into a second-level cache

    def stressor(seconds: int, *options: str) -> list[str]:
        return [tool, *options, "--timeout", f"{seconds}s", "--metrics"]

    def stream() -> float:
        # Arrays of four times the cache, of which each instance has its part; it says what it read and wrote.
        part = str(read_caches().last_total // THREADS)
        command = stressor(PASSES, "--stream", str(THREADS), "--stream-l3-size", part)
        pattern = r"memory rate: (\d[\d.]*) MB read/sec, (\d[\d.]*) MB write/sec"
        return sum(told(command, pattern)) * MEGA

    def matrix() -> float:
        command = stressor(
            TURN, "--matrix", str(THREADS), "--matrix-method", "prod", "--matrix-size", str(side)
        )
        # The table's columns: operations, three times, and operations a second of real time.
        operations = told(command, r"matrix +\d+ +[\d.]+ +[\d.]+ +[\d.]+ +(\d[\d.]*)")[0]
        return operations * 2 * side**3

    yield [
        Pair("STREAM, bytes/s", "stress-ng stream", rate(triad.run, triad.bytes), stream),
        Pair("GEMM float32, FLOP/s", "stress-ng matrix prod", rate(gemm.run, gemm.work), matrix),
    ]
