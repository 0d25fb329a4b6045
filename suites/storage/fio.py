"""Running `fio` on a file and reading what it measured."""

from __future__ import annotations

import stat
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from pytest_anubis.benchmarking.tools import UnreadableOutput
from pytest_anubis.tool_outputs.plain_lines import json_objects
from suites.storage.latency_log import percentiles, read_histograms

Direction = Literal["read", "write"]

WINDOW = 50
"""Milliseconds that one value covers."""

RAMP = 100
"""Milliseconds before fio begins to count, so that queues are full."""

LEAD = 0.2
"""Seconds at the beginning of its logs that fio leaves out, to be measured in addition."""

SEQUENTIAL_BLOCK = 1 << 20
RANDOM_BLOCK = 4096
DEPTH = 16
"""Requests in flight."""

CHECKED = 8 << 20
"""Bytes that the check writes and reads back."""

READS = 70
"""Percent of reads in the mixed load: what databases and training with checkpoints are taken to do."""

PERCENTILES = {"50": "p50", "99": "p99", "99.9": "p999"}
"""Percentiles of the latency as fio is asked for them -> what they are called in metrics."""

DEVICES = Path("/dev")
MEMORY = Path("/dev/shm")  # noqa: S108 - a file system of files, the only one among the devices
"""Where nothing is ever written, and what there is an exception."""

_START = 60.0
_ENGINES = (("libaio", True), ("psync", True), ("libaio", False), ("psync", False))
"""Ways of doing I/O, best first: engine, and whether the page cache is passed by."""


class FioError(RuntimeError):
    """fio failed, or found that data changed on the disk."""


@dataclass(frozen=True, slots=True)
class Way:
    """How I/O is done.

    Attributes:
        direct: The page cache is passed by.
    """

    engine: str
    direct: bool

    def __str__(self) -> str:
        through = "O_DIRECT" if self.direct else "through the page cache, O_DIRECT was refused"
        return f"{self.engine}, {through}"


@dataclass(frozen=True, slots=True)
class Mixed:
    """One window of mixed reads and writes.

    Attributes:
        rate: Operations a second, both kinds together.
        latencies: ``read_p99`` and so on -> microseconds from handing a request over to its completion.
    """

    rate: float
    latencies: dict[str, float]


@dataclass(frozen=True, slots=True)
class Windows:
    """One run of random reads or writes, in windows of time.

    Attributes:
        rates: Operations a second of each.
        latencies: ``p99`` and so on -> microseconds from handing a request over to its completion, for each
            of the windows of latencies; empty where none were asked for.
    """

    rates: list[float]
    latencies: dict[str, list[float]]


class DiskFile:
    """A file that is read and written; a context manager, as it is removed at the end.

    Nothing but this file, in a new folder of its own, is ever written: no device, and nothing of others.

    Args:
        folder: Where the file lies: the file system to measure; never a device, nor a folder of devices.
        size: Bytes of the file.

    Raises:
        FioError: The folder is none for files, or no way of doing I/O works there; the message is fio's own.
    """

    def __init__(self, folder: Path, size: int, program: str) -> None:
        self._program = program
        place = folder.resolve()
        if not place.is_dir() or (
            place.is_relative_to(DEVICES) and not place.is_relative_to(MEMORY)
        ):
            raise FioError(f"{folder} is no folder for files; choose one with --anubis-scratch")
        self._folder = tempfile.TemporaryDirectory(prefix="anubis-fio-", dir=folder)
        self.path = Path(self._folder.name) / "data"
        try:
            self.way = self._lay_out(size)
        except BaseException:
            self._folder.cleanup()
            raise
        self._size = size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def sequential(self, direction: Direction, seconds: float) -> list[float]:
        """Read or write the file from end to end, again and again; return bytes a second per window."""
        return self._windows(direction, SEQUENTIAL_BLOCK, seconds, "bw", 1024.0)

    def random_windows(self, direction: Direction, seconds: float, window: float) -> Windows:
        """Read or write blocks of 4 KiB at random places; return their rates, and their latencies if asked.

        Args:
            direction: Which of both.
            seconds: How long.
            window: Seconds of a window of latencies, a part of the whole; 0: none are taken.

        Raises:
            FioError: fio failed.
            UnreadableOutput: One of its logs is missing or another than is known.
        """
        milliseconds = round(1000 * window)
        extra = ["--write_hist_log=log", f"--log_hist_msec={milliseconds}"] if window else []
        rates = self._windows(f"rand{direction}", RANDOM_BLOCK, seconds, "iops", 1.0, extra)
        latencies: dict[str, list[float]] = {}
        for bins in read_histograms(self._log("clat_hist")) if window else ():
            for name, value in percentiles(bins, PERCENTILES).items():
                latencies.setdefault(name, []).append(value)
        return Windows(rates, latencies)

    def mixed(self, seconds: float) -> Mixed:
        """Read and write blocks of 4 KiB at random places at once, `READS` percent of them reads.

        Raises:
            FioError: fio failed.
            UnreadableOutput: It has no latencies, as no operation of the kind was finished.
        """
        extra = [
            *("--time_based", f"--runtime={round(1000 * seconds)}ms", f"--ramp_time={RAMP}ms"),
            *(f"--rwmixread={READS}", f"--percentile_list={':'.join(PERCENTILES)}"),
        ]
        job = self._run("mixed", "randrw", RANDOM_BLOCK, self._size, extra, _START + seconds)
        return read_mixed(job)

    def write_checked(self) -> None:
        """Write blocks with checksums in their headers, and read them back.

        Raises:
            FioError: A block did not come back as it was written.
        """
        self._run("check", "write", RANDOM_BLOCK, CHECKED, ["--verify=crc32c"])

    def read_checked(self) -> None:
        """Read what `write_checked` wrote once more.

        Raises:
            FioError: A block is not as it was written.
        """
        self._run("check", "write", RANDOM_BLOCK, CHECKED, ["--verify=crc32c", "--verify_only"])

    def _windows(
        self,
        mode: str,
        block: int,
        seconds: float,
        log: str,
        scale: float,
        more: Sequence[str] = (),
    ) -> list[float]:
        extra = [
            *more,
            "--time_based",
            f"--runtime={round(1000 * (seconds + LEAD))}ms",
            f"--ramp_time={RAMP}ms",
            f"--write_{log}_log=log",
            f"--log_avg_msec={WINDOW}",
        ]
        self._run("windows", mode, block, self._size, extra, timeout=_START + seconds)
        values = [scale * value for value in read_log(self._log(log))]
        if not values:
            raise FioError(f"fio logged nothing within {seconds:g} s")
        return values

    def _log(self, kind: str) -> str:
        """Return one of the logs of the last run."""
        name = f"log_{kind}.1.log"
        try:
            return self.path.with_name(name).read_text(encoding="ascii")
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise UnreadableOutput("fio", f"no {name}: {why}") from error

    def _lay_out(self, size: int) -> Way:
        """Write the whole file, as a sparse one would measure no disk; return the best way that works."""
        problem = FioError("no engine")
        for engine, direct in _ENGINES:
            self.way = Way(engine, direct)
            try:
                self._run("layout", "write", SEQUENTIAL_BLOCK, size, ["--end_fsync=1"])
            except FioError as error:
                problem = error
            else:
                return self.way
        raise problem

    def _run(
        self,
        name: str,
        mode: str,
        block: int,
        size: int,
        extra: Sequence[str],
        timeout: float = _START,
    ) -> dict[str, Any]:
        if self.path.is_symlink() or (
            self.path.exists() and not stat.S_ISREG(self.path.stat().st_mode)
        ):
            raise FioError(f"{self.path} is no plain file any more, and nothing else is written to")
        command = [
            self._program,
            f"--name={name}",
            # From its own folder: a colon in a path would be the end of one file's name and another's begin.
            f"--filename={self.path.name}",
            f"--rw={mode}",
            f"--bs={block}",
            f"--size={size}",
            f"--ioengine={self.way.engine}",
            f"--direct={int(self.way.direct)}",
            f"--iodepth={DEPTH}",
            "--randseed=20240224",
            "--thread",
            "--verify_state_save=0",
            "--output-format=json",
            *extra,
        ]
        try:
            done = subprocess.run(
                command,
                check=False,
                capture_output=True,
                text=True,
                timeout=timeout,
                cwd=self._folder.name,
            )
        except subprocess.TimeoutExpired as error:
            raise FioError(f"fio {name} did not end within {timeout:g} s") from error
        return read_result(name, done.returncode, done.stdout, done.stderr)


def read_result(name: str, code: int, output: str, errors: str) -> dict[str, Any]:
    """Return the first job of fio's JSON.

    Raises:
        FioError: fio ended with an error, or its job had one.
        UnreadableOutput: It printed something else than a job in JSON.
    """
    if code:
        said = errors.strip() or output.strip()
        raise FioError(f"fio {name} ended with {code}: {said[:500]}")
    try:
        printed = [data for _, data in json_objects(output, "fio", frozenset(("jobs",)))]
        job: dict[str, Any] = printed[-1]["jobs"][0]
        job.get("error")
    except (ValueError, AttributeError, KeyError, IndexError, TypeError) as error:
        raise UnreadableOutput("fio", output or "nothing") from error
    if job.get("error"):
        raise FioError(f"fio {name}: error {job['error']}")
    return job


def read_mixed(job: dict[str, Any]) -> Mixed:
    """Return what one of fio's jobs says of reads and writes at once.

    Raises:
        UnreadableOutput: A kind of request is missing, or its percentiles are.
    """
    rate, latencies = 0.0, {}
    for kind in ("read", "write"):
        try:
            rate += float(job[kind]["iops"])
            found = {float(at): value for at, value in job[kind]["clat_ns"]["percentile"].items()}
            for at, name in PERCENTILES.items():
                latencies[f"{kind}_{name}"] = float(found[float(at)]) / 1e3
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UnreadableOutput("fio", f"no latencies of {kind}s: {error!r}") from error
    return Mixed(rate, latencies)


def read_log(text: str) -> list[float]:
    """Return the values of one of fio's logs, one for each `WINDOW`: lines of time, value, direction, ...

    Where the disk stood still no request ends in a window, and fio writes one line for several: its value,
    the rate of all of them, is used for each. Counted once, a stall would be lost in the mean: on a busy host
    that was a fifth above what fio printed of the same run.

    Raises:
        UnreadableOutput: A line is none of these.
    """
    values: list[float] = []
    before = 0.0
    for line in filter(str.strip, text.splitlines()):
        try:
            when, value = map(float, line.split(",")[:2])
        except ValueError as error:
            raise UnreadableOutput("fio", line) from error
        values += [value] * max(1, round((when - before) / WINDOW))
        before = when
    return values
