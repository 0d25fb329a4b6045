"""Learning a fleet end to end, here and on a Dask cluster of one and two workers: time, memory, bytes.

Each learning is a process ``anubis learn`` of its own; scheduler and workers are started here and on this
machine only. Peak memory is what the kernel says of each process when it has ended (mapped files count).
Where memory cgroups can be written, ``--limit`` holds ``anubis learn`` to that many MiB, the cache of the
files that it reads included. Prints rows for benchmarks/figures/scale.md; exit code 1 if baselines differ.

Run: ``python benchmarks/fleet/learning_engine.py fleet [--metrics 100] [--nodes 10000] [--workers 1 2]``
or ``python benchmarks/fleet/learning_engine.py one [--nodes 125000] [--devices 8] [--limit 2048]``;
``--keep DIR`` makes the data there, once.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

import numpy as np

from benchmarks import ROOT
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.sample import Population
from pytest_anubis.store.history.contents.content_rows import columns_content
from pytest_anubis.store.history.database import History
from pytest_anubis.store.history.run_filing import record_run
from pytest_anubis.store.samples.columnar_files import Columns, columns_bytes

STEP = 0.2
"""Seconds between two looks whether a scheduler answers."""


def main() -> int:
    """Make the data, learn it in every way, and print a row for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", choices=("fleet", "one"))
    parser.add_argument("--metrics", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=0, help="default: 10000, one: 125000")
    parser.add_argument("--devices", type=int, default=8, help="of a node, for one")
    parser.add_argument("--values", type=int, default=256, help="of each unit")
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--limit", type=int, default=0, help="MiB for `anubis learn`")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--make", action="store_true", help="make the data and end")
    options = parser.parse_args()
    options.nodes = options.nodes or (10_000 if options.what == "fleet" else 125_000)
    with contextlib.ExitStack() as stack:
        temporary = tempfile.TemporaryDirectory(prefix="learning-")
        folder = options.keep or Path(stack.enter_context(temporary))
        folder.mkdir(exist_ok=True, parents=True)
        source = (make_fleet if options.what == "fleet" else make_one)(folder, options)
        if options.make:
            return 0
        print(
            "| learned by | seconds | of CPU | peak of anubis learn | peak of each worker | baseline |"
        )
        print("|---|---|---|---|---|---|", flush=True)
        digests = {learned(source, folder, 0, options)}
        for count in options.workers if options.what == "fleet" else ():
            digests.add(learned(source, folder, count, options))
    return int(len(digests) != 1)


def make_fleet(folder: Path, options: argparse.Namespace) -> list[str]:
    """Make a history with a run of every node, and return the words that name it."""
    place = folder / "fleet"
    if place.exists():
        return ["--history", str(place)]
    metrics = [Metric(name=f"m{i:03d}", unit="ms", better="lower") for i in range(options.metrics)]
    with History(place) as history:
        for number in range(options.nodes):
            rng = np.random.default_rng(number)
            node, run = f"n{number:05d}", f"r{number:05d}"
            own = []
            for metric in metrics:
                noise = rng.normal(rng.normal(0, 0.003), 0.01, options.values)
                own.append(
                    Population(
                        hardware_class="c",
                        benchmark="bench",
                        metric=metric,
                        component="network",
                        nodes=(node,),
                        devices=("node",),
                        runs=(run,),
                        # One node in fifty is 10 to 50 % slower.
                        values=np.exp(noise)
                        * (1.1 + 0.4 * rng.random() if number % 50 == 7 else 1),
                        offsets=np.array([0, options.values]),
                    )
                )
            record = RunRecord(
                run=run, node=node, hardware_class="c", started="2026-11-01T00:00:00+00:00"
            )
            data = columns_bytes(Columns(populations=tuple(own), runs=(record,)), compress=False)
            record_run(history, record, columns_content(data, len(own)))
    return ["--history", str(place)]


def make_one(folder: Path, options: argparse.Namespace) -> list[str]:
    """Make the Parquet file of one metric of many units, and return the words that name it."""
    import duckdb

    place = folder / "samples"
    path = place / "step.parquet"
    if not path.exists():
        place.mkdir()
        units = options.nodes * options.devices
        node = f"(u // {options.devices})"
        # Three uniform numbers are nearly normal; a unit has an offset, one node in fifty is slow.
        level = f"(100 + 0.0006 * (hash(u) % 1000)) * CASE WHEN {node} % 50 = 7 THEN 1.2 ELSE 1 END"
        query = (
            "SELECT node, device, 'r' AS run, '' AS problem, 'c' AS class, 'bench' AS benchmark, "  # noqa: S608
            "'step' AS metric, 'ms' AS unit, 'lower' AS better, 'network' AS component, '' AS \"group\", "
            "1::BIGINT AS version, number, "
            "level * (1 + 0.01 * (random() + random() + random() - 1.5)) AS value FROM ("
            f"SELECT 'n' || {node} AS node, 'd' || (u % {options.devices}) AS device, ({level})::DOUBLE AS "
            f"level, unnest(range({options.values})) AS number FROM range({units}) t(u))"
        )
        with duckdb.connect(":memory:", config={"memory_limit": "1GB", "threads": 1}) as connection:
            connection.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet, COMPRESSION lz4)")
    return [str(place)]


def learned(source: list[str], folder: Path, workers: int, options: argparse.Namespace) -> str:
    """Learn once, print the row, and return the digest of the baseline's bytes."""
    out = folder / f"baseline-{workers}.json"
    out.unlink(missing_ok=True)
    words = [sys.executable, "-m", "pytest_anubis", "learn", *source, "-o", str(out)]
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "SOURCE_DATE_EPOCH": "1793491200",  # any time: the baseline contains it
    }
    with contextlib.ExitStack() as stack:
        started: list[subprocess.Popen[bytes]] = []
        if workers:
            address, started = stack.enter_context(cluster(folder, workers, environment))
            words += ["--engine", "dask", "--scheduler", address]
        group = stack.enter_context(limited(options.limit))
        begin = time.perf_counter()
        with (folder / "learn.log").open("wb") as log:
            process = subprocess.Popen(
                words, env=environment, stdout=log, stderr=log, preexec_fn=group
            )
            peak, spent = ended(process)
        took = time.perf_counter() - begin
        for one in started[1:]:
            one.terminate()
        theirs = [ended(one) for one in started[1:]]
    if not out.exists():
        print((folder / "learn.log").read_text()[-2000:], file=sys.stderr)
        raise SystemExit(2)
    digest = hashlib.sha256(out.read_bytes()).hexdigest()[:16]
    name = f"Dask, {workers} worker{'s' if workers > 1 else ''}" if workers else "local"
    spent += sum(cpu for _, cpu in theirs)
    each = ", ".join(f"{most:,.0f} MiB" for most, _ in theirs)
    print(
        f"| {name} | {took:.0f} | {spent:.0f} | {peak:,.0f} MiB | {each} | `{digest}` |", flush=True
    )
    return digest


def ended(process: subprocess.Popen[bytes]) -> tuple[float, float]:
    """Wait for a process and return its peak memory in MiB, and its seconds of CPU."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime


@contextlib.contextmanager
def cluster(
    folder: Path, workers: int, environment: dict[str, str]
) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """Start a scheduler and workers, and yield its address and all of them, the scheduler first."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    with contextlib.ExitStack() as stack, (folder / "dask.log").open("ab") as log:
        found: list[subprocess.Popen[bytes]] = []

        def start(module: str, *words: str) -> None:
            line = [sys.executable, "-m", f"distributed.cli.{module}", *words]
            process = subprocess.Popen(line, env=environment, stdout=log, stderr=log, cwd=folder)
            found.append(process)
            stack.callback(stop, process)

        start("dask_scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard")
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(STEP)
        for _ in range(workers):
            start("dask_worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard")
        import distributed

        connect: Any = distributed.Client  # Dask has no types
        with connect(address, timeout=30, set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=60)
        yield address, found


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process that was started here."""
    if process.returncode is None:
        process.kill()
        process.wait()


@contextlib.contextmanager
def limited(limit: int) -> Iterator[Callable[[], object] | None]:
    """Yield what a child calls to be held to a number of MiB; None where there is no limit."""
    if not limit:
        yield None
        return
    own = next(
        line.rstrip().rpartition(":")[2]
        for line in Path("/proc/self/cgroup").read_text().splitlines()
        if ":memory:" in line
    )
    group = Path(f"/sys/fs/cgroup/memory{own}/learning-{os.getpid()}")
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text(str(limit << 20))
    yield lambda: (group / "cgroup.procs").write_text(str(os.getpid()))
    peak = int((group / "memory.max_usage_in_bytes").read_text()) >> 20
    failed = (group / "memory.failcnt").read_text().strip()
    print(f"cgroup: at most {peak:,} of {limit:,} MiB, reclaimed {failed} times", file=sys.stderr)
    group.rmdir()


if __name__ == "__main__":
    raise SystemExit(main())
