"""The exit status: 0 leaves a run with ``--anubis`` only behind a closed journal that accepts the node.

A test, a library or a plugin can end the process at any moment with a status of its own choice
(``os._exit(0)``, C's ``exit``, ``execv``). Nothing inside that process can prevent it. So the process that
was started forks before anything of the user's is loaded: the child runs pytest, and the parent does nothing
but wait for its end and hold it against what the run itself has vouched for.

Imports little: the process that waits has all of it too.
"""

from __future__ import annotations

import contextlib
import ctypes
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
from pytest_anubis.session.closed_output import ignore_broken_pipes
from pytest_anubis.session.context import add_part

_PR_SET_PDEATHSIG = 1  # linux/prctl.h

vouched_key = pytest.StashKey[bool]()
"""Set where a run has closed its journal and its own status is 0."""

decided_key = pytest.StashKey[int]()
"""The status that the run itself ended with, once its journal is closed."""

late_key = pytest.StashKey[Callable[[BaseException], None]]()
"""To be told of what ends the run after its verdict."""

_STATUSES = (*map(int, pytest.ExitCode), Decision.UNDECIDED.exit_code)
"""The statuses that have a meaning: pytest's own, two of which say accepted and rejected, and ours."""

_SAME_INTERRUPT = 0.5
"""Seconds within which a second SIGINT is the first one again: signals to a group meet parent and child."""

_LOOK = 5.0
"""Seconds between two looks at whether the child could end: a wake-up that costs nothing."""

_STUCK = 60.0
"""Seconds after which a thread that keeps an ended process is taken to hang: a driver without persistence may
need some for letting go of all cards."""

_FORWARDED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)

_SENT = range(-60, 1)
"""Codes of the kernel for signals that a process has sent; in others, they come from the kernel itself."""


class ExitGuard:
    """Takes back a status of 0 that no accepting verdict stands behind, and tells the parent the true one."""

    def __init__(self, channel: int | None) -> None:
        self._channel = channel

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_cmdline_main(
        self, config: pytest.Config
    ) -> Generator[None, int | pytest.ExitCode | None, int | pytest.ExitCode | None]:
        """Around everything: what any plugin made of the status is seen here."""
        try:
            status = yield
        except BaseException as error:
            status = _late(config, error)
        if hasattr(config, "workerinput"):
            return status  # the controller answers for its workers
        decided = config.stash.get(decided_key, 0)
        if decided and status not in _STATUSES:  # as syrupy's, which adds pytest's 1 to our 20
            status = decided
        if status == 0 and not config.stash.get(vouched_key, False):
            status = decided or Decision.UNDECIDED.exit_code
            sys.stderr.write(
                f"anubis: nothing was judged and accepted, so the exit status is {status}\n"
            )
        if self._channel is not None and status is not None:
            os.write(self._channel, b"%d\n" % int(status))
        return status


def _late(config: pytest.Config, error: BaseException) -> int:
    """Return the status of a run that something ended after its verdict; Python's own 1 would say rejected.

    Raises:
        BaseException: `error` itself, where there is no verdict yet, or somebody interrupts.
    """
    tell = config.stash.get(late_key, None)
    decided = config.stash.get(decided_key, None)
    if tell is not None and not isinstance(error, pytest.UsageError):
        tell(error)
    if decided is None or isinstance(error, (pytest.UsageError, KeyboardInterrupt, SystemExit)):
        raise error
    if isinstance(error, pytest.exit.Exception):
        sys.stderr.write(f"anubis: pytest.exit: {error}\n")
        return decided or int(pytest.ExitCode.INTERRUPTED)
    traceback.print_exception(error)
    return decided or int(pytest.ExitCode.INTERNAL_ERROR)


def guard_exit(config: pytest.Config) -> None:
    """Watch over the exit status of this run; to be called before anything of the user's is loaded.

    Where pytest was started as a command, a child goes on and this process waits for its end. A program that
    calls ``pytest.main`` keeps its one process: there only ``os._exit`` and its like go unnoticed.

    Raises:
        pytest.UsageError: No process can be made, or ``-p no:`` blocks this part.
    """
    command = _is_command()
    if command:  # before the fork, since both processes print
        ignore_broken_pipes()
    channel = _forked() if hasattr(os, "fork") and command else None
    add_part(config, ExitGuard(channel), "anubis-exit")


def _is_command() -> bool:
    """Return whether pytest's own command runs here, neither a program that calls it nor a nested run."""
    names = []
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == "_pytest.config":
            names.append(frame.f_code.co_name)
        frame = frame.f_back
    console = any(name in ("console_main", "_console_main") for name in names)
    return console and sum(name in ("main", "_main") for name in names) == 1


def _forked() -> int:
    """Let a child go on, and return what it vouches through; the parent does not return."""
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    # Until the parent listens, whatever comes is kept for it.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (*_FORWARDED, signal.SIGCHLD))
    # Where whoever started us ignores the end of children, the kernel would tell us nothing of it.
    children = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    parent = os.getpid()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads of others stay behind
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
    # A scheduler whose time limit is reached gets a verdict as well.
    if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, interrupt)
    return writing


def die_with_parent(parent: int | None = None) -> None:
    """Let the kernel end this process when the one that started it is gone; Linux only.

    Otherwise a test that hangs outlives a run that was killed, and keeps its device.

    Args:
        parent: Process id of the parent, where it is known: it may have gone before this could be said.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if parent is not None and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def _once() -> Any:
    """Return a handler that takes signals in quick succession for one."""
    last = float("-inf")

    def interrupt(number: int, frame: FrameType | None) -> None:
        __tracebackhide__ = (
            True  # pytest names the place that was interrupted, and that is not here
        )
        nonlocal last
        now, before = time.monotonic(), last
        last = now
        if now - before > _SAME_INTERRUPT:
            raise KeyboardInterrupt(*(["SIGTERM"] if number == signal.SIGTERM else []))

    return interrupt


def _watch(child: int, reading: int) -> NoReturn:
    """Wait for the child, pass signals on, and end as it ended; a 0 must have been vouched for."""
    since: float | None = None  # when the child was first seen to have ended, but for a thread
    while True:
        info = signal.sigtimedwait((*_FORWARDED, signal.SIGCHLD), _LOOK)
        # What is sent to this process alone; a terminal's signals go to the child by themselves. Where this
        # process was stopped (Ctrl-Z, a frozen machine) until the time was over, Python tells any numbers.
        if info is not None and info.si_signo in _FORWARDED and info.si_code in _SENT:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, info.si_signo)
        try:
            ended, status = os.waitpid(child, os.WNOHANG)
        except ChildProcessError:  # somebody else has taken its status
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
    """Return whether a process has ended but for a thread that the kernel cannot end; Linux only."""
    try:
        status = Path(f"/proc/{child}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return status.rpartition(")")[2].split()[:1] == ["Z"]  # and yet nobody was told of its end


def _end(code: int, reading: int) -> NoReturn:
    """End with the child's status; accepted or rejected only if the run has said so.

    pytest-timeout's threads and Python itself end a process with 1, whatever the reason.
    """
    if code < 0:
        _end_by_signal(-code)
    os.set_blocking(reading, False)
    said = b""
    with contextlib.suppress(BlockingIOError):  # somebody else still holds the other end
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
    """End as the child ended; its core dump is enough."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (number,))
    os.kill(os.getpid(), number)
    os._exit(128 + number)  # the shell's word for it, should the signal not have ended us
