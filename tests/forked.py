"""Commands of Python in processes of their own, forked from one that has loaded everything.

A start costs more than what most tests run in it. Whoever tests the start itself uses ``subprocess``.
PYTEST_DONT_REWRITE: it holds no assertion.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Self

ROOT = Path(__file__).parents[1]

FOLDER = "TESTS_FORKED_IN"
"""The variable that tells the workers of these tests where the servers of their controller listen."""

ANUBIS = "pytest_anubis.cli.main"

LOADED = ("pytest", "torch")
"""The servers, by what they have loaded: for runs of pytest and ``anubis``; for children of benchmarks."""

CHILDREN = (
    *("suites.", "tests.suites.", "tests.benchmarking.", "pytest_anubis.benchmarking."),
    "tests.fuzz.",
    "test_own_ranks",  # of docs/writing-benchmarks.md
)
"""How the names of such children's modules begin."""

COLD = "suites.compute.cold"
"""The one whose start is what is measured."""

AT_START = ("LD_", "OMP_", "GOMP_", "MKL_", "KMP_", "OPENBLAS_", "TORCH_", "CUDA_", "PYTHON")
"""Variables that count at the start of a process, so that a fork is none where they differ."""

SPACE = ("netns", "exec")
"""What stands behind ``ip`` where a command runs in a network namespace (`ShapedLink.command`). The fork
goes there by itself; it leaves /sys as it is, which no rank reads for its network."""

LENGTH = 8
"""Bytes in which a process id and an exit status are told."""

REQUEST = 1 << 20
"""Bytes that one request may have: environments are some kilobytes."""

POPEN = subprocess.Popen


class Quick(subprocess.Popen):  # type: ignore[type-arg]
    """In the place of ``Popen``, also in what it forks: forks what can be forked, starts all else."""

    def __new__(cls, command: Any, *more: Any, **options: Any) -> Any:
        """Return the process."""
        if not more and can_be_forked(command, options.get("env")):
            return Forked(command, **options)
        return POPEN(command, *more, **options)


class Forked:
    """A process as ``subprocess.Popen`` shows it, as far as these tests look at one.

    Its parent is a process that does nothing but wait for it.
    """

    def __init__(
        self,
        command: Sequence[str | os.PathLike[str]],
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        stdin: Any = None,
        stdout: Any = None,
        stderr: Any = None,
        text: bool = False,
        process_group: int | None = None,
        start_new_session: bool = False,
        pass_fds: Sequence[int] = (),
        close_fds: bool = True,
    ) -> None:
        """Run ``python -m MODULE ARGUMENTS`` (`can_be_forked`), with the arguments of ``Popen``."""
        self.args = [os.fspath(word) for word in command]
        self.stdin = None
        self.stdout: IO[Any] | None = None
        self._told: IO[Any] | None = (
            None  # what stands on stderr; a file, so that it can fill nothing
        )
        self.returncode: int | None = None
        space, command = _placed(self.args)
        words = _module(command)
        with contextlib.ExitStack() as ours:  # this process needs them no longer

            def opened(descriptor: int) -> int:
                ours.callback(os.close, descriptor)
                return descriptor

            def number(given: Any, inherited: int) -> int:
                if given is None:
                    return inherited
                if given == subprocess.DEVNULL:
                    return opened(os.open(os.devnull, os.O_RDWR))
                if given == subprocess.PIPE and inherited == 1:
                    reading, writing = os.pipe()
                    self.stdout = open(reading, "r" if text else "rb")  # noqa: PTH123, SIM115
                    return opened(writing)
                if given == subprocess.PIPE and inherited == 2:
                    self._told = tempfile.TemporaryFile("w+" if text else "w+b")  # noqa: SIM115
                    return self._told.fileno()
                return given if isinstance(given, int) else int(given.fileno())

            out = number(stdout, 1)
            error = out if stderr == subprocess.STDOUT else number(stderr, 2)
            reading, status = os.pipe()
            opened(status)
            request = {
                "words": words,
                "space": space,
                "cwd": str(Path.cwd() if cwd is None else Path(cwd).absolute()),
                "environment": dict(os.environ if env is None else env),
                "group": process_group,
                "session": start_new_session,
                "passed": list(pass_fds),
                "quick": subprocess.Popen is Quick,
            }
            server = ours.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            server.connect(f"{os.environ[FOLDER]}/{_loaded(words)}")
            socket.send_fds(
                server,
                [json.dumps(request).encode()],
                [status, number(stdin, 0), out, error, *pass_fds],
            )
            self._ends = os.fdopen(reading, "rb", buffering=0)
            self.pid = int(self._ends.read(LENGTH))
        os.set_blocking(self._ends.fileno(), False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        self.wait()

    def poll(self) -> int | None:
        """Return how it ended, as ``Popen.poll`` does, None while it runs."""
        if self.returncode is None and (said := self._ends.read(LENGTH)) is not None:
            self.returncode = int(said)
            self._ends.close()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end.

        Raises:
            subprocess.TimeoutExpired: It did not end in `timeout` seconds.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            left = None if until is None else max(0.0, until - time.monotonic())
            if timeout is not None and left == 0.0:
                raise subprocess.TimeoutExpired(self.args, timeout)
            select.select([self._ends], [], [], left)  # which a signal's handler may interrupt
        return code

    def communicate(self, _: None = None, timeout: float | None = None) -> tuple[Any, Any]:
        """Return all that it prints, once nobody holds the pipe, and wait for the end."""
        out = error = None
        if self.stdout is not None:
            out = self.stdout.read()
        self.wait(timeout)
        if self._told is not None:
            self._told.seek(0)
            error = self._told.read()
        self._close()
        return out, error

    def _close(self) -> None:
        for file in (self.stdout, self._told):
            if file is not None:
                file.close()

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended; also from the handler of a signal during `wait`."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)


def can_be_forked(command: Any, environment: Mapping[str, str] | None = None) -> bool:
    """Return whether a command is one that a server can run, and its start would change nothing else."""
    if isinstance(command, str):
        return False
    _, placed = _placed([str(word) for word in command])
    if len(placed) < 2 or placed[0] != sys.executable:
        return False
    words = _module(placed[:3])
    return bool(words and _loaded(words)) and as_at_start(
        os.environ if environment is None else environment
    )


def as_at_start(environment: Mapping[str, str]) -> bool:
    """Return whether what counts at the start of a process is as the servers have it."""
    started = json.loads(os.environ.get(f"{FOLDER}_STARTED", "null"))
    return bool(_at_start(environment) == started)


def _at_start(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of which the servers have those that these tests were started with."""
    kept = {name: environment[name] for name in environment if name.startswith(AT_START)}
    kept.pop("PYTHONPATH", None)  # that one a fork can follow
    return kept


def _placed(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return the network namespace that a command is run in, empty if in ours, and what runs there."""
    return (words[3], words[4:]) if tuple(words[1:3]) == SPACE else ("", words)


def _module(words: Sequence[str]) -> list[str]:
    """Return the module and its arguments out of ``python -m module ...``."""
    if words[1].startswith("-m") and words[1] != "-m":
        return [words[1][2:], *words[2:]]
    return list(words[2:]) if words[1] == "-m" else []


def _loaded(words: Sequence[str]) -> str:
    """Return the name of the server that a module belongs to, empty if it belongs to none."""
    if words[0] in ("pytest", ANUBIS):
        return "pytest"
    return "torch" if words[0].startswith(CHILDREN) and words[0] != COLD else ""


@contextlib.contextmanager
def servers() -> Iterator[None]:
    """Have servers for this process and the workers that it starts; they load when they are first asked."""
    with tempfile.TemporaryDirectory(prefix="forked-") as folder, contextlib.ExitStack() as stack:
        started = json.dumps(_at_start(os.environ))
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        os.environ.update({FOLDER: folder, f"{FOLDER}_STARTED": started})
        for name in LOADED:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
                listening.bind(f"{folder}/{name}")
                listening.listen(64)  # more than there are workers
                command = [
                    sys.executable,
                    "-P",
                    "-m",
                    "tests.forking",
                    str(listening.fileno()),
                    name,
                ]
                process = stack.enter_context(
                    POPEN(
                        command,
                        cwd=ROOT,
                        env=environment,
                        stdin=subprocess.PIPE,  # its end is the server's
                        pass_fds=[listening.fileno()],
                    )
                )
                stack.callback(process.stdin.close)  # type: ignore[union-attr]
        yield
