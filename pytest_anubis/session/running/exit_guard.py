"""The exit status: 0 leaves a run with ``--anubis`` only behind a closed journal that accepts the node.

A test, a library or a plugin can end the process at any moment with a status of its own choice
(``os._exit(0)``, C's ``exit``, ``execv``). Nothing inside that process can prevent it. So the process that
was started forks before anything of the user's is loaded: the child runs pytest, and the parent does nothing
but wait for its end and hold it against what the run itself has vouched for.

Imports the standard library and pytest only: every run in this environment loads it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
import time
import warnings
from collections.abc import Generator
from types import FrameType
from typing import Any, NoReturn

import pytest

UNDECIDED = 20
"""What a status of 0 becomes where no verdict accepts the node: neither accepted nor rejected."""

vouched_key = pytest.StashKey[bool]()
"""Set where a run has closed its journal and its own status is 0."""

_SAME = 0.5
"""Seconds within which a second SIGINT is the first one again: signals to a group meet parent and child."""

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_FORWARDED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)


class ExitGuard:
    """Takes back a status of 0 that no accepting verdict stands behind, and tells the parent the true one."""

    def __init__(self, channel: int | None) -> None:
        self._channel = channel

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_cmdline_main(
        self, config: pytest.Config
    ) -> Generator[None, int | pytest.ExitCode | None, int | pytest.ExitCode | None]:
        """Around everything: what any plugin made of the status is seen here."""
        status = yield
        if hasattr(config, "workerinput"):
            return status  # the controller answers for its workers
        if status == 0 and not config.stash.get(vouched_key, False):
            sys.stderr.write(
                "anubis: nothing was judged and accepted, so the exit status is 20 (undecided)\n"
            )
            status = UNDECIDED
        if self._channel is not None and status is not None:
            os.write(self._channel, b"%d\n" % int(status))
        return status


def guard_exit(config: pytest.Config) -> None:
    """Watch over the exit status of this run; to be called before anything of the user's is loaded.

    Where pytest was started as a command, a child goes on and this process waits for its end. A program that
    calls ``pytest.main`` keeps its one process: there only ``os._exit`` and its like go unnoticed.
    """
    channel = _forked() if hasattr(os, "fork") and _is_command() else None
    config.pluginmanager.register(ExitGuard(channel), "anubis-exit")


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


def _forked() -> int | None:
    """Let a child go on, and return what it vouches through; the parent does not return.

    Where no process can be made, this one goes on unwatched.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    # Until the parent listens, whatever comes is kept for it.
    signal.pthread_sigmask(signal.SIG_BLOCK, (*_FORWARDED, signal.SIGCHLD))
    parent = os.getpid()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads of others stay behind
            child = os.fork()
    except OSError:
        child = -1
    if child > 0:
        os.close(writing)
        _watch(child, reading)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (*_FORWARDED, signal.SIGCHLD))
    os.close(reading)
    if child < 0:
        os.close(writing)
        return None
    _die_with(parent)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _once())
    return writing


def _once() -> Any:
    """Return a handler that takes signals in quick succession for one."""
    last = float("-inf")

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal last
        now, before = time.monotonic(), last
        last = now
        if now - before > _SAME:
            signal.default_int_handler(number, frame)

    return interrupt


def _die_with(parent: int) -> None:
    """Let the kernel end this process with its parent, where it can."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def _watch(child: int, reading: int) -> NoReturn:
    """Wait for the child, pass signals on, and end as it ended; a 0 must have been vouched for."""
    while True:
        info = signal.sigwaitinfo((*_FORWARDED, signal.SIGCHLD))
        if info.si_signo != signal.SIGCHLD:
            if info.si_code <= 0:  # sent to this process; a terminal's goes to the child by itself
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, info.si_signo)
            continue
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended == child:
            _end(os.waitstatus_to_exitcode(status), reading)


def _end(code: int, reading: int) -> NoReturn:
    if code < 0:
        _end_by_signal(-code)
    os.set_blocking(reading, False)
    said = b""
    with contextlib.suppress(BlockingIOError):  # somebody else still holds the other end
        said = os.read(reading, 64)
    if code == 0:
        if said.strip().isdigit():
            code = int(said)
        else:
            sys.stderr.write(
                "anubis: something ended the process with exit status 0 before the run had a verdict, so "
                "nothing is accepted (exit status 20)\n"
            )
            sys.stderr.flush()
            code = UNDECIDED
    os._exit(code)


def _end_by_signal(number: int) -> NoReturn:
    """End as the child ended; its core dump is enough."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (number,))
    os.kill(os.getpid(), number)
    os._exit(128 + number)  # the shell's word for it, should the signal not have ended us
