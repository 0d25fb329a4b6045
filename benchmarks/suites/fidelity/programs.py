"""Disk, TCP and links beside fio, iperf3 and the rate that a link was given."""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.suites.faults import links
from benchmarks.suites.fidelity.pair import NotHere, Pair, Take
from pytest_anubis.benchmarking.shaped_link import NotPossible, ShapedLink

HIDDEN = (20e6, 80e6)  # bytes a second, the ends between which the link's rate is drawn


@contextmanager
def disk() -> Iterator[list[Pair]]:
    """The disk through the benchmark beside one call of fio as a person types it, on the same file.

    Two files lie at two places of the disk, of which one may be the quicker; and one that fio has not written
    to yet is written for the first time in the first turn. And the mean of the windows that the benchmark
    takes beside what fio itself prints of the very run that they are of, which no neighbour can change.
    """
    from suites.storage.fio import (
        DEPTH,
        RANDOM_BLOCK,
        SEQUENTIAL_BLOCK,
        Direction,
        DiskFile,
    )

    class Told(DiskFile):
        """Keeps what fio printed of the last run."""

        job: Mapping[str, Any]

        def _run(self, *given: Any, **more: Any) -> dict[str, Any]:
            self.job = found = super()._run(*given, **more)
            return found

        def random(self, direction: Direction, seconds: float) -> list[float]:
            return self.random_windows(direction, seconds, 0.0).rates

    program = shutil.which("fio")
    if program is None:
        raise NotHere("fio not found")
    size, seconds = 512 << 20, 0.5
    folder = Path(tempfile.gettempdir())
    with Told(folder, size, program) as ours:

        def by_hand(mode: str, block: int, field: str) -> Take:
            command = [
                program,
                "--name=hand",
                f"--filename={ours.path.name}",
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
                done = subprocess.run(
                    command, check=True, capture_output=True, text=True, cwd=ours.path.parent
                )
                side = "read" if "read" in mode else "write"
                return float(
                    json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0][side][field]
                )

            return take

        def through(kind: Callable[[Direction, float], list[float]], way: Direction) -> Take:
            return lambda: statistics.fmean(kind(way, seconds))

        def same_run(
            kind: Callable[[Direction, float], list[float]], way: Direction, field: str
        ) -> tuple[float, float]:
            values = kind(way, 2 * seconds)
            return statistics.fmean(values), float(ours.job[way][field])

        ways: tuple[Direction, ...] = ("write", "read")
        kinds = (("", ours.sequential, "bw_bytes"), ("random ", ours.random, "iops"))

        yield [
            *(
                Pair(
                    f"disk {kind}{d}, {'IOPS' if kind else 'bytes/s'}",
                    "fio of the same run",
                    partial(float, 0),
                    partial(float, 0),
                    0.95,
                    1.05,
                    both=partial(same_run, taken, d, field),
                )
                for kind, taken, field in kinds
                for d in ways
            ),
            *(
                Pair(
                    f"disk {d}, bytes/s",
                    "fio by hand",
                    through(ours.sequential, d),
                    by_hand(d, SEQUENTIAL_BLOCK, "bw_bytes"),
                    0.95,
                    1.05,
                )
                for d in ways
            ),
            *(
                Pair(
                    f"disk random {d}, IOPS",
                    "fio by hand",
                    through(ours.random, d),
                    by_hand(f"rand{d}", RANDOM_BLOCK, "iops"),
                    0.95,
                    1.05,
                )
                for d in ways
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
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
    command = [program, "-s", "-B", "127.0.0.1", "-p", port, "-A", cpu]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
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


@contextmanager
def link() -> Iterator[list[Pair]]:
    """A transfer and an all-reduce across a link whose rate was drawn, beside that rate without headers."""
    rate = random.SystemRandom().uniform(*HIDDEN)
    data = rate * links.HEADERS
    with ExitStack() as stack:
        try:
            made = stack.enter_context(ShapedLink(rate))
        except NotPossible as reason:
            raise NotHere(str(reason)) from reason
        transfer, reduction = links.Transfer(made, stack), links.Reduction(made, stack)
        yield [
            Pair(
                "TCP across a link, bytes/s",
                "its hidden rate",
                transfer.rate,
                lambda: data,
                0.94,
                1.05,
            ),
            Pair(
                "all-reduce, bus bytes/s",
                "its hidden rate",
                reduction.rate,
                lambda: data,
                0.94,
                1.05,
            ),
        ]
