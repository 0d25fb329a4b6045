"""A node to be accepted in two seconds: five benchmarks and a plain check, or eight recorded accelerators.

Each test is made of text, so that a fault can stand in any of them. The baseline is learned once and copied.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks import ROOT
from pytest_anubis.cli.main import main as anubis
from pytest_anubis.core.run import RunRecord
from pytest_anubis.store.journal.journal_reading import read_journal

EIGHT = ROOT / "tests" / "data" / "recorded_8gpu.json"
_LEARNING = threading.Lock()
_ONE = threading.Lock()  # the streams belong to all threads
LONGEST = 120.0
"""Seconds that a run of two may take before it counts as one without an end."""

INI = "[pytest]\naddopts = -p no:hypothesispytest -p no:benchmark\n"  # a second of imports each

CONFTEST = (
    (ROOT / "tests" / "quiet.py").read_text(encoding="utf-8")
    + """
import atexit, builtins, json, math, os, random, resource, signal, sys, threading, time, warnings
"""
)
"""What else this machine does is no disturbance: it would be evidence for the node."""

HEAD = """\
import atexit, ctypes, os, shutil, signal, subprocess, sys, threading, time, warnings
import pytest

VALUES = [100 + 0.1 * (i % 5) for i in range(30)]

def record(metric, name, factor=1.0, unit="GB/s", better="higher"):
    metric.record(name, [factor * value for value in VALUES], unit=unit, better=better)
"""

METRIC = """
{marks}@pytest.mark.anubis(component="cpu.{name}", cost="1s")
def test_{name}(anubis_metric, request):
{body}
"""

DEVICE = """
{marks}@pytest.mark.anubis(component="gpu.{name}", scope="device", cost="1s")
def test_{name}(anubis_metric, anubis_device, request):
{body}
"""

PLAIN = """
{marks}def test_{name}(request, record_property):
{body}
"""

KINDS = {
    "host": {"a": METRIC, "b": METRIC, "c": METRIC, "p": PLAIN, "d": METRIC, "e": METRIC},
    "eight": {"a": METRIC, "g": DEVICE, "p": PLAIN, "h": DEVICE},
}
"""Kind of node -> its tests in their order."""

_HEALTHY = {METRIC: "record(anubis_metric, 'NAME')", PLAIN: "pass"}
_HEALTHY[DEVICE] = _HEALTHY[METRIC]


@dataclasses.dataclass(frozen=True)
class Ran:
    """What became of one run.

    Attributes:
        status: Exit status; None if it had to be killed.
        said: Both streams.
        records: The record of every journal in the folder, as far as it can be read.
        unread: What journals could not be read, and why.
    """

    status: int | None
    said: str
    records: tuple[RunRecord, ...]
    unread: tuple[str, ...]

    @property
    def accepted(self) -> bool:
        """Return whether anything says that the node is accepted."""
        decided = [one.node_verdict for one in self.records if one.node_verdict is not None]
        return any(one.decision.name == "ACCEPTED" for one in decided)


@dataclasses.dataclass(frozen=True)
class Area:
    """One row of the table; a defect begins with its number, a note is no defect."""

    name: str
    tried: int
    defects: list[str]
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Campaign:
    """What every area is given.

    Attributes:
        home: Folder for what is learned once.
        place: Folder for copies.
        seed: Of everything that is drawn.
        quick: A sample only.
        count: How many to try; None: as many as the area thinks right.
        numbers: Only these; empty: all.
        keep: Leave the folders of defects.
        until: `time.monotonic` after which nothing more is begun; what was tried is counted.
        pool: Runs as many at a time as wanted.
    """

    home: Path
    place: Path
    seed: int
    quick: bool
    count: int | None
    numbers: tuple[int, ...]
    keep: bool
    until: float
    pool: ThreadPoolExecutor

    def template(self, kind: str) -> Path:
        """Return the folder with the healthy project and baseline of a kind of node."""
        with _LEARNING:
            folder = self.home / kind
            return folder if folder.exists() else learned(kind, folder)

    def size(self, full: int, quick: int) -> int:
        """Return how many to try."""
        return self.count or (quick if self.quick else full)

    def each(
        self, name: str, total: int, attempt: Callable[[int, Path], str]
    ) -> tuple[int, list[str]]:
        """Call `attempt` with numbers and folders to be made; return how many, and what was wrong."""
        chosen = [n for n in range(total) if not self.numbers or n in self.numbers]
        tried: list[int] = []

        def one(number: int) -> str:
            if time.monotonic() > self.until:
                return ""
            tried.append(number)
            folder = self.place / f"{name}{number}"
            try:
                wrong = attempt(number, folder)
            except Exception as error:  # a campaign goes on
                wrong = f"cannot be tried: {type(error).__name__}: {error}"
            if not (self.keep and (wrong or self.numbers)):
                shutil.rmtree(folder, ignore_errors=True)
            if wrong:
                print(f"  {name} {number}: {wrong}", file=sys.stderr, flush=True)
            return f"{number}: {wrong}" if wrong else ""

        found = [line for line in self.pool.map(one, chosen) if line]
        return len(tried), found


def suite(kind: str, bodies: Mapping[str, str], marks: Mapping[str, str], top: str = "") -> str:
    """Return the text of the test file; `bodies` and `marks` name the tests that differ."""
    parts = [HEAD, top]
    for name, template in KINDS[kind].items():
        body = bodies.get(name, _HEALTHY[template]).replace("NAME", name)
        text = "\n".join("    " + line for line in body.splitlines())
        mark = "".join(f"{line}\n" for line in marks.get(name, "").splitlines())
        parts.append(template.format(name=name, marks=mark, body=text))
    return "\n".join(parts)


def kind_options(kind: str) -> list[str]:
    """Return what a run on this kind of node needs on the command line."""
    return [f"--anubis-inventory={EIGHT}"] if kind == "eight" else []


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a run: this one, without what belongs to pytest, and `more`."""
    # Compiled modules are kept between runs, as by default.
    ours = ("PYTEST", "COV", "PYTHONDONTWRITEBYTECODE")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    path = os.pathsep.join(filter(None, (str(ROOT), kept.get("PYTHONPATH", ""))))
    return {**kept, "PYTHONPATH": path, "CHAOS": str(os.getpid()), **(more or {})}


def learned(kind: str, folder: Path) -> Path:
    """Make the healthy project in a new folder, learn its baseline there, and return the folder."""
    folder.mkdir(parents=True)
    (folder / "pytest.ini").write_text(INI)
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_toy.py").write_text(suite(kind, {}, {}))
    extra = " ".join(("--anubis-in-process", *kind_options(kind)))
    command = [sys.executable, "-m", "pytest_anubis.cli.main", "learn", "test_toy.py", "--rounds=3"]
    command.append(f"--pytest-args={extra}")
    done = subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"the healthy node cannot be learned:\n{done.stdout}{done.stderr}")
    shutil.rmtree(folder / ".anubis")
    return folder


def copy_of(template: Path, folder: Path, text: str = "", conftest: str = "") -> Path:
    """Copy the learned project, with another test file and more in its conftest."""
    shutil.copytree(template, folder)
    if text:
        (folder / "test_toy.py").write_text(text)
    (folder / "conftest.py").write_text(CONFTEST + conftest)
    return folder


def start(
    folder: Path, options: Sequence[str], environ: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a run in a process group of its own; it writes to the file ``said`` in the folder."""
    with (folder / "said").open("ab") as said:
        return subprocess.Popen(
            [sys.executable, "-m", "pytest", "--anubis", *options],
            cwd=folder,
            env=environment(environ),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )


def end(process: subprocess.Popen[bytes], seconds: float = LONGEST) -> int | None:
    """Wait for a run's end; after `seconds` its whole group is killed, and None returned."""
    try:
        return process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        kill_group(process)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill whatever is left of a run."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def outcome(folder: Path, status: int | None) -> Ran:
    """Read what a run left behind."""
    said = (folder / "said").read_bytes().decode(errors="replace")
    records, unread = [], []
    for path in journals(folder):
        try:
            records.append(read_journal(path))
        except (ValueError, OSError) as error:
            unread.append(f"{path}: {error}")
    return Ran(status, said, tuple(records), tuple(unread))


def journals(folder: Path) -> Iterator[Path]:
    """Return every journal below a folder."""
    return iter(sorted(folder.rglob("journal.jsonl")))


def run(
    folder: Path,
    options: Sequence[str],
    environ: Mapping[str, str] | None = None,
    seconds: float = LONGEST,
) -> Ran:
    """Run the project once, from start to end."""
    return outcome(folder, end(start(folder, options, environ), seconds))


def command(*arguments: str) -> tuple[int, str]:
    """Call ``anubis`` in this process, and return its exit code and what it said."""
    said = io.StringIO()
    with _ONE, contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            code = anubis(arguments)
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
    return code, said.getvalue()
