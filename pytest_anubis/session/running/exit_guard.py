"""Guards the exit status: a run with ``--anubis`` ends with 0 only if its closed journal accepts the node.

A test, a library or a plugin can end the process at any moment with any status (``os._exit(0)``, C's
``exit``, ``execv``), and nothing inside the process can prevent it. So this module forks before pytest loads
any code of the user's. The child runs pytest and sends its true status through a pipe; the parent only waits,
and compares the child's status with the one in the pipe.

It imports little, because the waiting parent keeps all of it in memory. It also lets the standard streams
survive their reader (``| head``, ``| less``): a measurement takes hours, and pytest would stop it at the
first dot that it cannot print.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import resource
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Generator
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import pytest

from pytest_anubis.core.verdict import Decision
from pytest_anubis.session.context import add_part

_PR_SET_PDEATHSIG = 1  # linux/prctl.h

vouched_key = pytest.StashKey[bool]()
"""True once the run has closed its journal with the status 0."""

decided_key = pytest.StashKey[int]()
"""The run's own status, once its journal is closed."""

late_key = pytest.StashKey[Callable[[BaseException], None]]()
"""Takes an error that ends the run after its verdict."""

_STATUSES = (*map(int, pytest.ExitCode), Decision.UNDECIDED.exit_code)
"""The statuses with a meaning: pytest's, and ours for an undecided node."""

_SAME_INTERRUPT = 0.5
"""Seconds within which a second SIGINT is a copy of the first: a group's signal reaches parent and child."""

_LOOK = 5.0
"""Seconds between two checks of the child's state."""

_STUCK = 60.0
"""Seconds after which a thread that keeps an ended process alive counts as hung; a driver without persistence
needs some of them to release all cards."""

_FORWARDED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)

_SENT = range(-60, 1)
"""``si_code`` of signals that another process has sent; the kernel's own have other codes."""


class ExitGuard:
    """Plugin that replaces a status of 0 without an accepting verdict, and sends the status to the parent."""

    def __init__(self, channel: int | None) -> None:
        self._channel = channel

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_cmdline_main(
        self, config: pytest.Config
    ) -> Generator[None, int | pytest.ExitCode | None, int | pytest.ExitCode | None]:
        """Check the status outermost, after every plugin has changed it."""
        try:
            status = yield
        except BaseException as error:
            status = _status_after_verdict(config, error)
        if hasattr(config, "workerinput"):
            return status  # only the controller's status counts
        decided = config.stash.get(decided_key, None)
        if decided and status not in _STATUSES:  # such as syrupy's, which adds pytest's 1 to our 20
            status = decided
        if decided is not None and decided != status == pytest.ExitCode.TESTS_FAILED:
            status = _status_instead_of_1(config, decided)
        if status == 0 and not config.stash.get(vouched_key, False):
            status = decided or Decision.UNDECIDED.exit_code
            sys.stderr.write(
                f"anubis: nothing was judged and accepted, so the exit status is {status}\n"
            )
        if self._channel is not None and status is not None:
            os.write(self._channel, b"%d\n" % int(status))
        return status


def _status_instead_of_1(config: pytest.Config, decided: int) -> int:
    """Return the status in place of a 1 that a plugin set: 1 would mean that the node was rejected.

    An acceptance is taken back, because to the plugin the run has failed.
    """
    error = RuntimeError(f"a plugin of pytest changed the exit status from {decided} to 1")
    if take_error := config.stash.get(late_key, None):
        take_error(error)
    status = decided or Decision.UNDECIDED.exit_code
    sys.stderr.write(f"anubis: {error}; 1 means a rejected node, so it is {status}\n")
    return status


def _status_after_verdict(config: pytest.Config, error: BaseException) -> int:
    """Return the status of a run that an error ended after its verdict; Python's own 1 would mean rejected.

    Raises:
        BaseException: `error` itself, if there is no verdict yet, or the user interrupts.
    """
    take_error = config.stash.get(late_key, None)
    decided = config.stash.get(decided_key, None)
    if take_error is not None and not isinstance(error, pytest.UsageError):
        take_error(error)
    if decided is None or isinstance(error, (pytest.UsageError, KeyboardInterrupt, SystemExit)):
        raise error
    if isinstance(error, pytest.exit.Exception):
        sys.stderr.write(f"anubis: pytest.exit: {error}\n")
        return decided or int(pytest.ExitCode.INTERRUPTED)
    traceback.print_exception(error)
    return decided or int(pytest.ExitCode.INTERNAL_ERROR)


def guard_exit(config: pytest.Config) -> None:
    """Guard the exit status of this run; call it before pytest loads any code of the user's.

    If pytest was started as a command, a child continues and this process waits for it. A program that calls
    ``pytest.main`` is not forked; there, ``os._exit`` and the like are not noticed.

    Raises:
        pytest.UsageError: No process can be made, or ``-p no:`` blocks this part.
    """
    command = _is_command()
    if command:  # before the fork, since both processes print
        ignore_broken_pipes()
    channel = _forked() if hasattr(os, "fork") and command else None
    add_part(config, ExitGuard(channel), "anubis-exit")


def _is_command() -> bool:
    """Return whether pytest's own command runs here: no other program that calls it, no nested run."""
    names = []
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == "_pytest.config":
            names.append(frame.f_code.co_name)
        frame = frame.f_back
    console = any(name in ("console_main", "_console_main") for name in names)
    return console and sum(name in ("main", "_main") for name in names) == 1


def _forked() -> int:
    """Fork; return the child's end of the pipe for its status. The parent does not return."""
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    # Blocked signals stay pending until the parent waits for them.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (*_FORWARDED, signal.SIGCHLD))
    # If our caller ignores SIGCHLD, the kernel would not report the child's end to us.
    children = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    parent = os.getpid()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # about other threads
            child = os.fork()
    except OSError as error:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        raise pytest.UsageError(
            f"--anubis: no process can be made to watch over the exit status ({error.strerror}); raise the "
            "limit of processes (ulimit -u, pids.max)"
        ) from error
    if child > 0:
        os.close(writing)
        _watch(child, reading)
    if children is not None:
        signal.signal(signal.SIGCHLD, children)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    os.close(reading)
    die_with_parent(parent)
    interrupt = _once()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    # With SIGTERM, as from a scheduler at its time limit, the run still gets a verdict.
    if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, interrupt)
    return writing


def die_with_parent(parent: int | None = None) -> None:
    """Let the kernel kill this process when its parent ends; Linux only.

    Otherwise a hanging test would survive a killed run, and keep its device.

    Args:
        parent: Process id of the parent if known, to notice that it has already ended.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if parent is not None and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def _once() -> Any:
    """Return a signal handler that treats signals in quick succession as one."""
    last = float("-inf")

    def interrupt(number: int, frame: FrameType | None) -> None:
        __tracebackhide__ = True  # so that pytest names the interrupted place
        nonlocal last
        before = last
        last = time.monotonic()
        if last - before > _SAME_INTERRUPT:
            raise KeyboardInterrupt(*(["SIGTERM"] if number == signal.SIGTERM else []))

    return interrupt


def _watch(child: int, reading: int) -> NoReturn:
    """Wait for the child, forward signals, and end as it ended; its 0 or 1 must be confirmed in the pipe."""
    since: float | None = None  # when the child was first seen with nothing but a stuck thread left
    while True:
        info = signal.sigtimedwait((*_FORWARDED, signal.SIGCHLD), _LOOK)
        # A terminal's signals reach the child directly. After this process was stopped (Ctrl-Z, a frozen
        # machine) beyond the time limit, Python returns arbitrary numbers.
        if info is not None and info.si_signo in _FORWARDED and info.si_code in _SENT:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, info.si_signo)
        try:
            ended, status = os.waitpid(child, os.WNOHANG)
        except ChildProcessError:  # other code has reaped it
            ended, status = child, 0
        if ended == child:
            _end(os.waitstatus_to_exitcode(status), reading)
        since = (since or time.monotonic()) if _cannot_end(child) else None
        if since is not None and time.monotonic() - since > _STUCK:
            sys.stderr.write(
                f"anubis: the run is over, but a thread of its process {child} hangs in the kernel, as in "
                "the driver of a card that does not answer, and cannot end; look at the kernel log\n"
            )
            _end(0, reading)


def _cannot_end(child: int) -> bool:
    """Return whether only a thread that the kernel cannot end keeps a process alive; Linux only."""
    try:
        status = Path(f"/proc/{child}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return status.rpartition(")")[2].split()[:1] == ["Z"]  # a zombie that waitpid does not report


def _end(code: int, reading: int) -> NoReturn:
    """End with the child's status; with 0 (accepted) or 1 (rejected) only if the pipe has a status.

    pytest-timeout's threads and Python itself end a process with 1 for any reason.
    """
    if code < 0:
        _end_by_signal(-code)
    os.set_blocking(reading, False)
    said = b""
    with contextlib.suppress(BlockingIOError):  # empty, and another process still has the other end
        said = os.read(reading, 64)  # one number and a line end
    if code in (Decision.ACCEPTED.exit_code, Decision.REJECTED.exit_code):
        if said.strip().isdigit():
            code = int(said)
        else:
            nothing = "accepted" if code == Decision.ACCEPTED.exit_code else "rejected"
            sys.stderr.write(
                f"anubis: something ended the process with exit status {code} before the run had a verdict, "
                f"so nothing is {nothing} (exit status 20)\n"
            )
            sys.stderr.flush()
            code = Decision.UNDECIDED.exit_code
    os._exit(code)


def _end_by_signal(number: int) -> NoReturn:
    """End by the child's signal, without a second core dump."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (number,))
    os.kill(os.getpid(), number)
    os._exit(128 + number)  # the shell's convention, in case the signal has not ended this process


class _Unread(io.FileIO):
    """A stream that drops its output once the other end of the pipe is closed."""

    def write(self, data: Any, /) -> int:
        """Write, and count dropped output as written."""
        try:
            return super().write(data) or 0
        except BrokenPipeError:
            return memoryview(data).nbytes


def ignore_broken_pipes() -> None:
    """Let standard output and standard error survive their reader, or a caller that closed them (``>&-``).

    Replaced streams are left alone.

    Call it before pytest captures output, since pytest later restores the streams that it found.
    """
    for name in ("stdout", "stderr"):
        found = getattr(sys, name)
        if found is None:  # no file, such as the journal, must get its number
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        if found is not getattr(sys, f"__{name}__") or not isinstance(found, io.TextIOWrapper):
            continue
        try:
            found.flush()
            raw = _Unread(found.fileno(), "w", closefd=False)
        except (OSError, ValueError):  # the stream is closed
            continue
        unread = io.TextIOWrapper(
            io.BufferedWriter(raw),
            encoding=found.encoding,
            errors=found.errors,
            line_buffering=found.line_buffering,
            write_through=found.write_through,
        )
        setattr(sys, name, unread)
