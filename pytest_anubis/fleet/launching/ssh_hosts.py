"""Run the tests on many hosts by ssh, one process for each, and copy their journals (`anubis fleet run`).

A host that does not answer costs only its own time. Words for a host's shell are quoted one by one; here
there is no shell.
"""

from __future__ import annotations

import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

from pytest_anubis.fleet.launching.host_list import Host

SSH = (
    "ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=10",
    "-o", "ServerAliveCountMax=3",
)  # fmt: skip
"""Never asks for a password, and notices within half a minute that a host is gone."""

FETCH_SECONDS = 300.0
"""Seconds to copy one journal; a soak's has some hundred MiB."""
GRACE = 60.0
"""Seconds beyond a host's own time limit in which pytest ends there and its output arrives."""
_MAX_TAIL = 4096  # bytes at the end of a host's output in which its last line is
_SSH_FAILED = 255  # ssh's own exit code, whatever the remote program's
_TIMED_OUT = (124, 137)  # of timeout(1): ended, killed
_VERDICTS = {0: "accepted", 1: "rejected", 20: "undecided"}

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class HostEnd:
    """How the run on one host ended."""

    host: Host
    code: int | None  # exit code of pytest there; None where it is not known
    seconds: float  # how long it took
    trouble: str  # why there is no journal, or no end, in one line; empty if there is no trouble
    journal: Path | None  # its journal here; None if none arrived

    @property
    def text(self) -> str:
        """The end in one line."""
        if self.trouble:
            left = "; what there is stays on the host" if self.journal is None else ""
            return f"{self.host.name}: {self.trouble}{left}"
        said = _VERDICTS.get(self.code or 0, f"exit code {self.code}")
        return f"{self.host.name}: {said}, {self.seconds:.0f} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One run of the tests on a set of hosts."""

    hosts: Sequence[Host]  # each once
    folder: str  # folder on the hosts in which pytest starts
    arguments: Sequence[str]  # arguments after ``pytest --anubis``
    name: str  # name of the launch, with which the runs' ids begin
    results: Path  # folder here for journals and the hosts' output
    python: str = "python3"  # Python on the hosts
    seconds: float | None = None  # time limit of a host; None: none
    parallel: int = 64  # number of hosts at a time
    store: str = ".anubis"  # the hosts' store, relative to their folder
    ssh: Sequence[str] = SSH  # the program and its options
    _open: set[subprocess.Popen[bytes]] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, say: Say) -> list[HostEnd]:
        """Run on all hosts, and report each end as it comes.

        Raises:
            OSError: The folder of the results cannot be written.
        """
        (self.results / "logs").mkdir(parents=True, exist_ok=True)
        ends: list[HostEnd] = []
        with ThreadPoolExecutor(max_workers=min(self.parallel, len(self.hosts))) as pool:
            waiting = [pool.submit(self._host, host) for host in self.hosts]
            try:
                for done in as_completed(waiting):
                    ends.append(done.result())
                    say(f"{len(ends)} of {len(self.hosts)}  {ends[-1].text}")
            except BaseException:
                for one in waiting:
                    one.cancel()
                with self._lock:
                    for process in self._open:
                        process.terminate()
                raise
        return ends

    def run_id(self, host: Host) -> str:
        """Return the id of the run on a host."""
        return f"{self.name}-{host.name}"[:128]

    def _host(self, host: Host) -> HostEnd:
        began = time.monotonic()
        log = self.results / "logs" / f"{host.name}.log"
        limit = None if self.seconds is None else self.seconds + GRACE
        try:
            with log.open("wb") as out:
                code, trouble = self._ssh(host, self._command(host), out.fileno(), limit)
            if code == _SSH_FAILED:
                trouble = f"ssh: {_last_line(log) or 'failed'}"
            elif code in _TIMED_OUT and self.seconds is not None:
                trouble = f"was ended after {self.seconds:.0f} s, its time limit"
            elif code is not None and code not in _VERDICTS:
                trouble = f"pytest ended with {code}: {_last_line(log)}"
            journal, lost = self._fetch(host)
        except OSError as error:  # of this machine: the disk is full, or ssh is not installed
            trouble = f"{error.filename or 'ssh'}: {error.strerror}"
            return HostEnd(host, None, time.monotonic() - began, trouble, None)
        if lost and not trouble:
            trouble = f"no journal ({lost}); it said: {_last_line(log) or 'nothing'}"
        return HostEnd(host, code, time.monotonic() - began, trouble, journal)

    def _command(self, host: Host) -> str:
        words = ["env", f"PYTEST_ANUBIS_NODE={host.name}", self.python, "-m", "pytest", "--anubis"]
        words += [f"--anubis-store={self.store}", f"--anubis-run-id={self.run_id(host)}"]
        words += self.arguments
        if self.seconds is not None:  # set there, since a remote program outlives its connection
            words = ["timeout", f"--kill-after={GRACE / 2:g}", f"{self.seconds:g}", *words]
        return f"cd {shlex.quote(self.folder)} && exec {shlex.join(words)}"

    def _fetch(self, host: Host) -> tuple[Path | None, str]:
        """Copy a host's journal here; return it, and what went wrong in one line."""
        there = f"{self.store}/runs/{self.run_id(host)}/journal.jsonl"
        here = self.results / "runs" / self.run_id(host) / "journal.jsonl"
        here.parent.mkdir(parents=True, exist_ok=True)
        part = here.with_suffix(".part")
        command = f"cd {shlex.quote(self.folder)} && exec cat {shlex.quote(there)}"
        log = self.results / "logs" / f"{host.name}.fetch.log"
        with part.open("wb") as out, log.open("wb") as errors:
            code, trouble = self._ssh(host, command, out.fileno(), FETCH_SECONDS, errors.fileno())
        if code == 0:
            part.replace(here)
            log.unlink()
            return here, ""
        part.unlink()
        here.parent.rmdir()
        return None, trouble or _last_line(log) or f"exit code {code}"

    def _ssh(
        self,
        host: Host,
        command: str,
        out: int,
        limit: float | None,
        errors: int = subprocess.STDOUT,
    ) -> tuple[int | None, str]:
        process = subprocess.Popen(
            [*self.ssh, "--", host.destination, command],
            stdin=subprocess.DEVNULL, stdout=out, stderr=errors,
        )  # fmt: skip
        with self._lock:
            self._open.add(process)
        try:
            return process.wait(limit), ""
        except subprocess.TimeoutExpired:
            return None, f"did not end within {limit:.0f} s"
        finally:
            process.kill()
            process.wait()
            with self._lock:
                self._open.discard(process)


def _last_line(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _MAX_TAIL))
        end = file.read(_MAX_TAIL).decode("utf-8", "replace")
    lines = [line.strip() for line in end.splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""
