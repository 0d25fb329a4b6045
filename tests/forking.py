"""The servers of `tests.forked`: processes that have loaded everything and are forked.

Its client's side stands in `tests.forked`; `tests.forked_workers` forks the workers of runs in the same way.
PYTEST_DONT_REWRITE: it holds no assertion.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import random
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from tests import forked, installed
from tests.quiet import FEW_COLLECTIONS

NAMESPACES = Path("/run/netns")  # ip-netns(8)
NETWORK = 0x40000000  # CLONE_NEWNET of linux/sched.h


def load_pytest() -> None:
    """Load what runs need, in a server; the plugin as pytest itself loads it."""
    import pytest

    installed.keep()
    with (
        tempfile.TemporaryDirectory() as folder,
        Path(os.devnull).open("w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.delenv("PYTEST_ADDOPTS", raising=False)
        options = ["--collect-only", "-q", "-p", "no:cacheprovider", f"--rootdir={folder}"]
        pytest.main([*options, folder])
    import pytest_anubis

    for module in pkgutil.walk_packages(pytest_anubis.__path__, "pytest_anubis."):
        importlib.import_module(module.name)
    for name in ("numpy", "sqlalchemy.dialects.sqlite", "sqlite3", "_pytest.stepwise"):
        importlib.import_module(name)


def ready() -> None:
    """Leave to the forks of this process what is safe and cheap for them.

    Raises:
        RuntimeError: A thread runs: a fork would wait for ever for what it holds or does.
    """
    threads = os.listdir("/proc/self/task")  # noqa: PTH208
    if len(threads) > 1:
        raise RuntimeError(f"{len(threads)} threads run in a process that others are forked from")
    gc.collect()
    gc.freeze()  # nothing that children need to look through
    gc.set_threshold(*FEW_COLLECTIONS)


def _load_torch() -> None:
    # The last one with sympy and 900 modules: the first DistributedDataParallel of a rank asks for it.
    for name in (
        "numpy",
        "torch",
        "torch.distributed",
        "pytest_anubis.benchmarking",
        "torch._dynamo",
    ):
        importlib.import_module(name)


def _serve(listening: socket.socket, name: str) -> list[str]:
    """Fork for every request; returns in the child, with the words of its command line.

    The child's parent waits for its end and says so.
    """
    loaded = False
    while True:
        readable, _, _ = select.select([listening.fileno(), 0], [], [])
        with contextlib.suppress(
            ChildProcessError
        ):  # those who waited; what they used is ours then
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        if 0 in readable:
            os._exit(0)  # whoever has started us has gone
        if not loaded:
            loaded = True
            load_pytest() if name == "pytest" else _load_torch()
            ready()
        with listening.accept()[0] as connection:
            data, descriptors, _, _ = socket.recv_fds(connection, forked.REQUEST, 16)
        if os.fork() == 0:
            break
        for descriptor in descriptors:
            os.close(descriptor)
    listening.close()
    status, *given = descriptors
    request = json.loads(data)
    child = os.fork()
    if child > 0:
        _wait_for(child, status, given)
    os.close(status)
    # First out of the way of the numbers that they will have.
    wanted = [0, 1, 2, *request["passed"]]
    high = [os.dup2(descriptor, 500 + place) for place, descriptor in enumerate(given)]
    for descriptor in given:
        os.close(descriptor)
    for descriptor, to in zip(high, wanted, strict=True):
        os.dup2(descriptor, to)
        os.close(descriptor)
    if request["session"]:
        os.setsid()
    elif request["group"] is not None:
        os.setpgid(0, request["group"])
    if request["space"]:
        _enter(request["space"])
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = [request["cwd"], *paths, *sys.path]
    random.seed()
    if request["quick"]:
        subprocess.Popen = forked.Quick  # type: ignore[misc, assignment]
    return list(request["words"])


def _enter(space: str) -> None:
    """Go into a network namespace that ``ip netns`` has made.

    Raises:
        OSError: The kernel forbids it.
    """
    with (NAMESPACES / space).open("rb") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), NETWORK) != 0:
            raise OSError(ctypes.get_errno(), f"the network namespace {space} cannot be entered")


def _wait_for(child: int, status: int, given: Sequence[int]) -> None:
    """Say the child's number, and how it has ended; does not return."""
    # Of a group or a terminal: meant for the child.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    os.write(status, b"%8d" % child)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    for descriptor in given:
        os.close(descriptor)
    _, ended = os.waitpid(child, 0)
    os.write(status, b"%8d" % os.waitstatus_to_exitcode(ended))
    os._exit(0)


def _run(words: list[str]) -> None:
    sys.argv[1:] = words[1:]
    if words[0] == forked.ANUBIS:
        sys.argv[0] = "anubis"
        sys.exit(importlib.import_module(forked.ANUBIS).main())
    runpy.run_module(words[0], run_name="__main__", alter_sys=True)


def ended_early(run: Callable[[], None]) -> None:
    """Run, and end this process as Python does, except that it does not take apart all that is loaded.

    That costs a third of a second: the memory is shared with the server until it is touched.
    """
    try:
        run()
        status = 0
    except SystemExit as end:
        code = end.code or 0
        if not isinstance(code, int):
            raise  # Python prints it
        status = code
    threading._shutdown()  # type: ignore[attr-defined]  # it waits for threads
    atexit._run_exitfuncs()
    for file in (sys.stdout, sys.stderr):
        if file is not None and not file.closed:
            file.flush()
    os._exit(status & 0xFF)


if __name__ == "__main__":
    given = _serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])
    ended_early(lambda: _run(given))
