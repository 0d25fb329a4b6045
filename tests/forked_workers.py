"""Workers of runs inside tests, forked from a process that has loaded everything, as children of the run.

`tests.forked` cannot start them: a worker asks who its parent is and ends with it, and the controller looks
at how its children died. So they are forked from a child of the controller's own process, and left to it.
PYTEST_DONT_REWRITE: it holds no assertion.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import random
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from execnet.gateway_base import Popen2IO
from execnet.gateway_io import Popen2IOMaster, popen_bootstrapline

from tests import forked, forking

COMMAND = ["-u", "-c", popen_bootstrapline]
"""How execnet starts Python for a worker."""

LIMITS = (resource.RLIMIT_AS, resource.RLIMIT_CORE, resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC)
"""What a process inherits and a test may have set."""

SET_SUBREAPER, GET_SUBREAPER = 36, 37  # linux/prctl.h

_servers: dict[int, tuple[socket.socket, subprocess.Popen[bytes]]] = {}
"""A process's id -> where its server listens, and the server; a fork of that process has none."""

_start = Popen2IOMaster.__init__


class Worker:
    """A worker's process, a child of this one, as execnet uses a process; its pipes are open."""

    def __init__(self) -> None:
        """Have it forked with this process's environment, folder, CPUs and limits."""
        request = {
            "parent": os.getpid(),
            "cwd": str(Path.cwd()),
            "environment": dict(os.environ),
            "cpus": sorted(os.sched_getaffinity(0)),
            "limits": [resource.getrlimit(limit) for limit in LIMITS],
        }
        server = _server()
        reading, writing = os.pipe()
        told, telling = os.pipe()
        self.stdin, self.stdout = os.fdopen(writing, "wb"), os.fdopen(told, "rb")
        try:
            with _adopting():
                socket.send_fds(server, [json.dumps(request).encode()], [reading, telling, 2])
                self.pid = int(server.recv(forked.LENGTH))
        finally:
            os.close(reading)
            os.close(telling)
        self._ended = False

    def wait(self) -> None:
        """Wait for its end."""
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        self._ended = True

    def kill(self) -> None:
        """End it, unless somebody has waited for its end."""
        if not self._ended:
            os.kill(self.pid, signal.SIGKILL)


def begin(io: Any, args: list[str], execmodel: Any) -> None:
    """Start a process for execnet, in the place of ``Popen2IOMaster.__init__``."""
    if args != [sys.executable, *COMMAND] or not forked.as_at_start(os.environ):
        _start(io, args, execmodel)
        return
    io.popen = worker = Worker()
    Popen2IO.__init__(io, worker.stdin, worker.stdout, execmodel=execmodel)


@contextlib.contextmanager
def _adopting() -> Iterator[None]:
    """Let children of children that end become children of this process."""
    prctl = ctypes.CDLL(None).prctl
    before = ctypes.c_int()
    prctl(GET_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    prctl(SET_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(SET_SUBREAPER, before.value, 0, 0, 0)


def _server() -> socket.socket:
    """Return where the server of this process listens, which ends with this process."""
    if os.getpid() not in _servers:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = forked.POPEN(
                [sys.executable, "-P", "-m", "tests.forked_workers", str(theirs.fileno())],
                cwd=forked.ROOT,
                env={**os.environ, "PYTHONPATH": str(forked.ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        _servers[os.getpid()] = ours, process
    return _servers[os.getpid()][0]


def end() -> None:
    """End the server of this process, if it has one."""
    for listening, process in filter(None, [_servers.pop(os.getpid(), None)]):
        listening.close()
        process.wait()


# In the server.


def _serve(listening: socket.socket) -> dict[str, Any]:
    """Fork for every request; returns in the worker, with the request."""
    forking.load_pytest()
    forking.ready()
    while True:
        data, descriptors, _, _ = socket.recv_fds(listening, forked.REQUEST, 3)
        if not data:
            os._exit(0)  # whose server this is has gone
        told, telling = os.pipe()
        orphaned, left = os.pipe()
        between = os.fork()
        if between == 0:
            worker = os.fork()
            if worker > 0:
                os.write(telling, b"%8d" % worker)
                os._exit(0)
            os.close(left)
            os.read(orphaned, 1)  # ends once its parent has gone
            for descriptor in (told, telling, orphaned, listening.detach()):
                os.close(descriptor)
            return {**json.loads(data), "descriptors": descriptors}
        os.waitpid(between, 0)
        listening.send(os.read(told, forked.LENGTH))
        for descriptor in (told, telling, orphaned, left, *descriptors):
            os.close(descriptor)


def _become(request: dict[str, Any]) -> None:
    """Be what the controller would have started.

    Raises:
        RuntimeError: Its parent is another one.
    """
    if os.getppid() != request["parent"]:
        raise RuntimeError(f"a child of {os.getppid()}, not of {request['parent']}")
    for number, descriptor in enumerate(request["descriptors"]):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.sched_setaffinity(0, request["cpus"])
    for limit, values in zip(LIMITS, request["limits"], strict=True):
        resource.setrlimit(limit, tuple(values))
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = ["", *paths, *sys.path]
    sys.argv[:] = ["-c"]
    random.seed()


def _run(request: dict[str, Any]) -> None:
    _become(request)
    main = sys.modules["__main__"] = ModuleType("__main__")
    exec(popen_bootstrapline, vars(main))  # noqa: S102


if __name__ == "__main__":
    request = _serve(socket.socket(fileno=int(sys.argv[1])))
    forking.ended_early(lambda: _run(request))
