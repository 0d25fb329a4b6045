"""The hosts on which a launcher started this program: one process on each, as torchrun or Slurm tell it."""

from __future__ import annotations

import fcntl
import re
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_anubis.benchmarking.hosts.pair_group import PORT, Place
from pytest_anubis.fleet.launching.slurm_node import SlurmError, node_address

INTERFACE = "GLOO_SOCKET_IFNAME"

_FIRST = re.compile(r"(?:[^,\[]|\[[^\]]*\])+")
"""The first of a list of nodes as Slurm writes it, ``node[01-08],gpu3``: up to a comma outside brackets."""

_RANGE = re.compile(r"\[([^\],-]+)[^\]]*\]")
_LOOPBACK = "127."
_ELSEWHERE = "192.0.2.1"
"""An address that nobody has (RFC 5737): the way to it is the way to other hosts."""

_SIOCGIFADDR = 0x8915
"""netdevice(7): which IPv4 address an interface has."""

_REQUEST = struct.Struct("16sH2x4s16x")
"""``struct ifreq`` with a ``sockaddr_in``: name, family, the place of the port, address."""


class HostsError(RuntimeError):
    """A launcher's variables are incomplete, or start more than one process on a host; one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchedHosts:
    """Hosts of a launcher.

    Attributes:
        master: Address of the first one.
        port: Where it listens.
        interface: Network interface to go through; empty: gloo chooses.
    """

    count: int
    number: int
    name: str
    master: str
    port: int
    interface: str = ""

    def __len__(self) -> int:
        return self.count

    def places(self) -> tuple[Place, ...]:
        """Return where this host's process runs."""
        told = {
            "RANK": str(self.number),
            "WORLD_SIZE": str(self.count),
            "MASTER_ADDR": self.master,
            "MASTER_PORT": str(self.port),
        }
        if self.interface:
            told[INTERFACE] = self.interface
        return (Place(number=self.number, name=self.name, environment=told),)


def launched_hosts(environment: Mapping[str, str], name: str) -> LaunchedHosts | None:
    """Return the hosts that a launcher's variables speak of; None where there is but this one.

    torchrun, and whoever speaks its language, sets ``RANK``, ``WORLD_SIZE``, ``MASTER_ADDR`` and
    ``MASTER_PORT``; in a step of Slurm (``srun``) its own variables do, and the step's first node is the
    master, by its name or, where no resolver knows that, by the address under which Slurm reaches it.

    Raises:
        HostsError: The variables are incomplete or no numbers, a host has several processes, or nobody
            knows the address of Slurm's first node.
    """
    if "WORLD_SIZE" in environment:
        names = ("WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE")
        master = environment.get("MASTER_ADDR", "")
    elif "SLURM_STEP_NUM_TASKS" in environment:  # in a step only, where there is a process on each
        names = ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "")
        nodes = _FIRST.match(environment.get("SLURM_STEP_NODELIST", ""))
        master = environment.get("MASTER_ADDR") or (
            address_in_slurm(_RANGE.sub(r"\1", nodes.group())) if nodes else ""
        )
    else:
        return None
    count = _number(environment, names[0], 1)
    if count < 2:
        return None
    if not names[2]:
        here = 1 if _number(environment, "SLURM_STEP_NUM_NODES", count) >= count else 2
    else:
        here = _number(environment, names[2], 1)
    if here > 1:
        raise HostsError(
            f"{count} processes and not one on each host: start one process on each "
            "(torchrun --nproc-per-node 1, srun --ntasks-per-node 1)"
        )
    number = _number(environment, names[1], -1)
    if not 0 <= number < count or not master:
        raise HostsError(
            f"{names[0]} says {count} processes, but {names[1]} or MASTER_ADDR does not say which this is or "
            "where the first one is"
        )
    port = _number(environment, "MASTER_PORT", PORT)
    interface = "" if environment.get(INTERFACE) else interface_to(master, port)
    return LaunchedHosts(
        count=count, number=number, name=name, master=master, port=port, interface=interface
    )


def address_in_slurm(node: str) -> str:
    """Return how a node of Slurm is reached: its name, or the address that Slurm has of it.

    A name that nobody can resolve would be asked for again and again until the hosts' patience ends. Slurm's
    names need not be those of a resolver (slurm.conf: ``NodeName``, ``NodeAddr``).

    Raises:
        HostsError: There is neither.
    """
    if _resolved(node):
        return node
    try:
        address = node_address(node)
    except SlurmError as error:
        why = str(error)
    else:
        if _resolved(address):
            return address
        why = f"to Slurm it is {address}, which does not either"
    raise HostsError(
        f"the name of the step's first node, {node}, has no address here ({why}): set MASTER_ADDR"
    )


def interface_to(master: str, port: int) -> str:
    """Return the interface by which a host is reached; empty where that cannot be told.

    gloo would look up this host's own name, which many containers cannot, and Debian answers with an address
    of the loopback interface. It does so on the master, too: there it is the way to any other host.
    """
    found = _interface_to(master, port)
    named = master != "localhost" and not master.startswith(_LOOPBACK)
    if named and _resolved(master).startswith(_LOOPBACK):
        return _interface_to(_ELSEWHERE, port) or found
    return found


def _interface_to(address: str, port: int) -> str:
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((address, port))  # sends nothing: asks for the route only
            own = socket.inet_aton(probe.getsockname()[0])
            for _, interface in socket.if_nameindex():
                request = _REQUEST.pack(interface.encode(), socket.AF_INET, bytes(4))
                try:
                    answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
                except OSError:  # it has no such address
                    continue
                if answer[20:24] == own:
                    return interface
    except OSError:
        pass
    return ""


def _resolved(name: str) -> str:
    """Return an address of a name, IPv4 first; empty if it has none."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ""
    return min((str(one[4][0]) for one in found), key=lambda address: ":" in address, default="")


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, "")
    if not text:
        return default
    if not text.isascii() or not text.isdecimal():
        raise HostsError(f"{name} is no number: {text[:40]!r}")
    return int(text)
