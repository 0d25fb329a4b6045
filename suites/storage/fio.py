"""Running `fio` on a file and reading what it measured."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

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

_START = 60.0
_ENGINES = (("libaio", True), ("psync", True), ("libaio", False), ("psync", False))
"""Ways of doing I/O, best first: engine, and whether the page cache is passed by."""


class FioError(RuntimeError):
    """fio failed, or found that data changed on the disk."""


@dataclass(frozen=True, slots=True)
class Way:
    """How I/O is done.

    Attributes:
        engine: fio's I/O engine.
        direct: The page cache is passed by.
    """

    engine: str
    direct: bool

    def __str__(self) -> str:
        through = "O_DIRECT" if self.direct else "through the page cache, O_DIRECT was refused"
        return f"{self.engine}, {through}"


class DiskFile:
    """A file that is read and written; a context manager, as it is removed at the end.

    Args:
        folder: Where the file lies: the file system to measure.
        size: Bytes of the file.
        program: Path of fio.

    Raises:
        FioError: No way of doing I/O works there; the message is fio's own.
    """

    def __init__(self, folder: Path, size: int, program: str) -> None:
        self._program = program
        self._folder = tempfile.TemporaryDirectory(prefix="anubis-fio-", dir=folder)
        self.path = Path(self._folder.name) / "data"
        try:
            self.way = self._find_way()
            # Laid out once, by writing it: reading a sparse file would measure no disk.
            self._run("layout", "write", SEQUENTIAL_BLOCK, size, ["--end_fsync=1"])
        except BaseException:
            self._folder.cleanup()
            raise
        self._size = size

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._folder.cleanup()

    def sequential(self, direction: Direction, seconds: float) -> list[float]:
        """Read or write the file from end to end, again and again; return bytes a second per window."""
        return self._windows(direction, SEQUENTIAL_BLOCK, seconds, "bw", 1024.0)

    def random(self, direction: Direction, seconds: float) -> list[float]:
        """Read or write blocks of 4 KiB at random places; return operations a second per window."""
        return self._windows(f"rand{direction}", RANDOM_BLOCK, seconds, "iops", 1.0)

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
        self, mode: str, block: int, seconds: float, log: str, scale: float
    ) -> list[float]:
        prefix = self.path.with_name("log")
        extra = [
            "--time_based",
            f"--runtime={round(1000 * (seconds + LEAD))}ms",
            f"--ramp_time={RAMP}ms",
            f"--write_{log}_log={prefix}",
            f"--log_avg_msec={WINDOW}",
        ]
        self._run("windows", mode, block, self._size, extra, timeout=_START + seconds)
        text = Path(f"{prefix}_{log}.1.log").read_text(encoding="ascii")
        values = [scale * value for value in read_log(text)]
        if not values:
            raise FioError(f"fio logged nothing within {seconds:g} s")
        return values

    def _find_way(self) -> Way:
        problem = FioError("no engine")
        for engine, direct in _ENGINES:
            self.way = Way(engine, direct)
            try:
                self._run("probe", "write", RANDOM_BLOCK, RANDOM_BLOCK, [])
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
        command = [
            self._program,
            f"--name={name}",
            f"--filename={self.path}",
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


def find_fio() -> str | None:
    """Return the path of fio, or None."""
    return shutil.which("fio")


def read_result(name: str, code: int, output: str, errors: str) -> dict[str, Any]:
    """Return the first job of fio's JSON.

    Raises:
        FioError: fio ended with an error, its job had one, or its output is not JSON.
    """
    if code:
        said = errors.strip() or output.strip()
        raise FioError(f"fio {name} ended with {code}: {said[:500]}")
    begin = output.find("{")  # warnings may stand before it
    try:
        job: dict[str, Any] = json.loads(output[begin:])["jobs"][0]
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise FioError(f"fio {name} printed something else than JSON: {output[:200]!r}") from error
    if job.get("error"):
        raise FioError(f"fio {name}: error {job['error']}")
    return job


def read_log(text: str) -> list[float]:
    """Return the values of one of fio's logs: lines of time, value, direction, block size, ...

    Windows without a finished request are zero: the disk stood still, which is a result.
    """
    return [float(line.split(",")[1]) for line in text.splitlines() if line.strip()]
