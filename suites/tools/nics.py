"""Ports of RDMA adapters, and two ends of one of perftest's programs on one of them."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_anubis.benchmarking.tools import RunningTool, ToolFailed, run_tool
from pytest_anubis.tool_outputs.perftest import Line, read_perftest

ROOT = Path("/")
LISTENING = "0A"
"""State of a socket in ``/proc/net/tcp`` that waits for connections."""

START = 20.0
"""Seconds that the first end has until it listens: with a card it loads CUDA before."""

ONCE = 60.0
"""Seconds that one run may take: five thousand messages of 8 MiB take 1.6 s at 200 Gbit/s."""

HELP = 30.0
"""Seconds to print the options: with CUDA its libraries are loaded before."""

BIND, LOOPBACK = "--bind_source_ip", "127.0.0.1"


@dataclass(frozen=True, slots=True, order=True)
class Port:
    """One port of an adapter.

    Attributes:
        device: Name such as ``mlx5_0``.
        number: From 1 on.
    """

    device: str
    number: int

    def __str__(self) -> str:
        return f"{self.device}_{self.number}"


def active_ports(root: Path = ROOT) -> list[Port]:
    """Return the ports whose link is up, sorted."""
    found = []
    for state in root.glob("sys/class/infiniband/*/ports/*/state"):
        try:
            active = "ACTIVE" in state.read_text(encoding="ascii", errors="replace")
        except OSError:
            continue
        if active and state.parent.name.isdecimal():
            found.append(Port(state.parents[2].name, int(state.parent.name)))
    return sorted(found)


def adapters(root: Path = ROOT) -> list[str]:
    """Return the names of the RDMA adapters, whatever the state of their links, sorted."""
    return sorted(place.name for place in root.glob("sys/class/infiniband/*"))


def only_here(tool: str) -> list[str]:
    """Return the options by which a program of perftest waits on the loopback alone; none in old versions.

    Without them the first end takes whoever connects first, from any interface, for the second one.
    """
    told = run_tool([tool, "--help"], timeout=HELP, accept=None)
    return [BIND, LOOPBACK] if BIND in told.output + told.errors else []


def both_ends(
    tool: str, version: str, port: Port, options: Sequence[str], waits: Sequence[str] = ()
) -> Line:
    """Run a program of perftest with itself through a port; return the last line that the asking end printed.

    Args:
        tool: Its path.
        version: Of perftest.
        port: Where both ends are.
        options: What both ends are given besides.
        waits: What the end that waits is given besides (`only_here`).

    Raises:
        ToolFailed: One of them failed; ``ToolHung``, a subclass: it did not end in time.
        UnreadableOutput: It printed something else.
    """
    number = _free_port()
    command = [
        tool, "--ib-dev", port.device, "--ib-port", str(port.number), "--port", str(number),
        "--CPU-freq", *options,
    ]  # fmt: skip
    with RunningTool([*command, *waits], version=version) as server:
        _wait_for(server, number)
        # "localhost" may be IPv6, which an end that is bound does not hear.
        with RunningTool([*command, LOOPBACK if waits else "localhost"], version=version) as client:
            done = client.wait(ONCE)
        server.wait(ONCE)
    return done.read(read_perftest)[-1]


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("", 0))
        return int(one.getsockname()[1])


def _wait_for(server: RunningTool, number: int) -> None:
    """Wait until somebody listens on a port, without connecting: the first to connect is the other end."""
    until = time.monotonic() + START
    while not listens(number):
        if server.ended:
            server.wait(1.0)
            raise ToolFailed(f"{server.name} ended before the other end was started")
        if time.monotonic() > until:
            server.kill()
            raise ToolFailed(f"{server.name} did not listen within {START:g} s")
        time.sleep(0.02)


def listens(number: int, root: Path = ROOT) -> bool:
    """Say whether some process waits for connections on a port of TCP."""
    for table in ("proc/net/tcp", "proc/net/tcp6"):
        try:
            lines = (root / table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:  # no IPv6 here
            continue
        for line in lines:
            words = line.split()
            if words[3] == LISTENING and int(words[1].rpartition(":")[2], 16) == number:
                return True
    return False
