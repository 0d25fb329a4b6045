"""Ports of RDMA adapters, and two ends of one of perftest's programs on one of them."""

from __future__ import annotations

import fcntl
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_anubis.benchmarking.tools import RunningTool, ToolFailed, ToolRefused, run_tool
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

LEAVE = 5.0
"""Seconds that the end that waits may take to say why, after the other one failed: it frees memory first."""

BIND, LOOPBACK = "--bind_source_ip", "127.0.0.1"

CONNECTED = "reliable connections"
IWARP = "iWARP"
_TRANSPORTS = {"1": CONNECTED, "4": IWARP}
"""By the number in ``node_type``, the kernel's ``enum rdma_node_type``: 1 is an adapter of InfiniBand or
RoCE, 4 one of iWARP. AWS's EFA (7: unspecified) and Cisco's usNIC (5, 6) have datagrams only."""

_LINKS = ("InfiniBand", "Ethernet")
"""What ``link_layer`` says of ports that perftest's reliable connections are for; EFA's is ``Unknown``."""

_ASK_ADDRESS = 0x8915
"""``SIOCGIFADDR`` of ``linux/sockios.h``: the IPv4 address of a network interface."""
_INTERFACE_NAME = 15
"""Bytes of an interface's name: ``IFNAMSIZ`` less the zero at its end."""


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


def transport(port: Port, root: Path = ROOT) -> str:
    """Return ``CONNECTED``, ``IWARP``, or nothing for an adapter without reliable connections.

    Where the kernel does not say, they are tried: a benchmark that is tried says more than one left out.
    """
    adapter = root / "sys/class/infiniband" / port.device
    number = _read(adapter / "node_type").partition(":")[0].strip() or "1"
    link = _read(adapter / "ports" / str(port.number) / "link_layer") or _LINKS[0]
    return _TRANSPORTS.get(number, "") if link in _LINKS else ""


def why_not(port: Port, root: Path = ROOT) -> str:
    """Return why perftest cannot loop a port back, for a report; empty where it can."""
    kind = transport(port, root)
    if not kind:
        return f"{port} has no reliable connections (AWS's EFA has none): fi_pingpong of libfabric tests it"
    if kind == IWARP and not own_address(port, root):
        return f"{port} is iWARP, which is connected by IPv4, and its interface has no address"
    return ""


def own_address(port: Port, root: Path = ROOT) -> str:
    """Return the IPv4 address of the network interface that a port belongs to; empty without one."""
    adapter = root / "sys/class/infiniband" / port.device
    name = _read(adapter / "ports" / str(port.number) / "gid_attrs/ndevs/0")
    if not name:
        return ""
    asked = struct.pack("256s", name.encode()[:_INTERFACE_NAME])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            reply = fcntl.ioctl(any_socket.fileno(), _ASK_ADDRESS, asked)
        except OSError:  # it has none
            return ""
    return socket.inet_ntoa(
        reply[20:24]
    )  # struct ifreq: 16 of the name, family, port, then the address


def help_of(tool: str) -> str:
    """Return what a program of perftest prints of its options, which depend on how it was built.

    Raises:
        ToolFailed: It cannot be started; ``ToolHung``, a subclass: it did not end in time.
    """
    ran = run_tool([tool, "--help"], timeout=HELP, accept=None)
    return ran.output + ran.errors


def only_here(help_text: str) -> list[str]:
    """Return the options by which a program of perftest waits on the loopback alone; none in old versions.

    Without them the first end takes any first connection, from any interface, for the second end's.
    """
    return [BIND, LOOPBACK] if BIND in help_text else []


def card_options(help_text: str, *, amd: bool, root: Path = ROOT) -> tuple[list[str], str]:
    """Return the options by which both ends put their memory on card 0, and why there are none if so.

    An adapter reads a card's memory by a module that registers the cards with it (``nvidia-peermem``, or
    AMD's driver where its kernel modules brought that), or by the kernel's DMA-BUF.

    Args:
        help_text: The program's `help_of`.
        amd: The cards are AMD's.
        root: Where to look for the modules.
    """
    option = "--use_rocm" if amd else "--use_cuda"
    if option not in help_text:
        how = "--enable-rocm" if amd else "CUDA_H_PATH"
        return [], f"is built without {option}: build github.com/linux-rdma/perftest with {how}"
    places = ("sys/kernel/mm/memory_peers/amdkfd",) if amd else _PEER_MODULES
    if any((root / place).exists() for place in places):
        return [f"{option}=0"], ""
    if f"{option}_dmabuf" in help_text:
        return [f"{option}=0", f"{option}_dmabuf"], ""
    missing = "AMD's driver without peer memory" if amd else "nvidia-peermem is not loaded"
    return [], f"cannot reach a card: {missing}, and it has no {option}_dmabuf"


_PEER_MODULES = ("sys/module/nvidia_peermem", "sys/module/nv_peer_mem")
"""Of NVIDIA's driver, and its forerunner from Mellanox."""


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def both_ends(
    tool: str, version: str, port: Port, options: Sequence[str], waits: Sequence[str] = ()
) -> Line:
    """Run a program of perftest with itself through a port; return the last line that the asking end printed.

    Args:
        tool: Its path.
        version: Of perftest.
        port: Where both ends are.
        options: What both ends are given besides.
        waits: What the end that waits is given besides (`only_here`); an iWARP port is connected by its own
            address instead.

    Raises:
        ToolFailed: One of them failed; ``ToolHung``, a subclass: it did not end in time; ``ToolRefused``,
            another: one did not begin.
        UnreadableOutput: It printed something else.
    """
    number = _free_port()
    command = [
        tool, "--ib-dev", port.device, "--ib-port", str(port.number), "--port", str(number),
        "--CPU-freq", *options,
    ]  # fmt: skip
    # "localhost" may be IPv6, which an end that is bound does not hear.
    address = LOOPBACK if waits else "localhost"
    if transport(port) == IWARP:
        # The kernel finds the adapter by the address: the loopback's is none of its own.
        address = own_address(port)
        command.append("--rdma_cm")
        waits = [BIND, address] if waits else []
    with RunningTool([*command, *waits], version=version) as server:
        _wait_for(server, number)
        with RunningTool([*command, address], version=version) as client:
            try:
                done = client.wait(ONCE)
            except ToolFailed:
                _tell_refusal(server)
                raise
        server.wait(ONCE)
    return done.read(read_perftest)[-1]


def _tell_refusal(server: RunningTool) -> None:
    """Raise why the first end did not begin, of which the second one only says that the other is gone.

    It is given a while: the second end often ends before it, as soon as their connection is closed.
    """
    try:
        server.wait(LEAVE)
    except ToolRefused:
        raise
    except ToolFailed:  # it failed otherwise, or still waits: the other end's failure says more
        return


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
