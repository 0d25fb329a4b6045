"""Find the hosts on which torchrun or Slurm started this program, one process on each, for `anubis_pairs`.

`pair_fixtures` uses it.
"""

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
"""The first entry of Slurm's list of nodes, such as ``node[01-08],gpu3``: up to a comma outside brackets."""

_RANGE = re.compile(r"\[([^\],-]+)[^\]]*\]")
_LOOPBACK = "127."
_ELSEWHERE = "192.0.2.1"
"""An address that no host has (RFC 5737): the route to it is the route to other hosts."""

_SIOCGIFADDR = 0x8915
"""Request for the IPv4 address of an interface (netdevice(7))."""

_REQUEST = struct.Struct("16sH2x4s16x")
"""``struct ifreq`` with a ``sockaddr_in``: name, family, padding for the port, address."""


class HostsError(RuntimeError):
    """Incomplete variables of a launcher, or more than one process on a host; the message is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchedHosts:
    """The hosts of a launcher, seen from one of them."""

    count: int  # number of hosts
    number: int  # this host's number, from 0
    name: str  # this host's name
    master: str  # address of the first host
    port: int  # port on which the first host listens
    interface: str = ""  # network interface to use; empty: gloo chooses

    def __len__(self) -> int:
        return self.count

    def places(self) -> tuple[Place, ...]:
        """Return the place of this host's process."""
        environment = {
            "RANK": str(self.number),
            "WORLD_SIZE": str(self.count),
            "MASTER_ADDR": self.master,
            "MASTER_PORT": str(self.port),
        }
        if self.interface:
            environment[INTERFACE] = self.interface
        return (Place(number=self.number, name=self.name, environment=environment),)


def launched_hosts(environment: Mapping[str, str], name: str) -> LaunchedHosts | None:
    """Return the hosts that a launcher's variables name; None if there is only this one.

    torchrun and compatible launchers set ``RANK``, ``WORLD_SIZE``, ``MASTER_ADDR`` and ``MASTER_PORT``. In a
    step of Slurm (``srun``) its own variables are used. The master is then the step's first node, by its name
    or, if that cannot be resolved, by Slurm's address of it.

    Raises:
        HostsError: The variables are incomplete or not numbers, a host has several processes, or the address
            of Slurm's first node is unknown.
    """
    if "WORLD_SIZE" in environment:
        names = ("WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE")
        master = environment.get("MASTER_ADDR", "")
    elif (
        "SLURM_STEP_NUM_TASKS" in environment
    ):  # set only in a step, which has a process on each node
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
    interface = environment.get(INTERFACE) or interface_to(master, port)
    return LaunchedHosts(
        count=count, number=number, name=name, master=master, port=port, interface=interface
    )


def address_in_slurm(node: str) -> str:
    """Return the name of a Slurm node if it can be resolved, else Slurm's address of it.

    Slurm's names need not be known to a resolver (slurm.conf: ``NodeName``, ``NodeAddr``), and torch would
    retry an unknown name until its time-out.

    Raises:
        HostsError: Neither can be resolved.
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
    """Return the interface of the route to a host; empty if unknown.

    Otherwise gloo would resolve this host's own name, which fails in many containers and gives a loopback
    address on Debian. On the master itself, `master` may be such a name; then the route to any other host is
    used.
    """
    found = _interface_to(master, port)
    named = master != "localhost" and not master.startswith(_LOOPBACK)
    if named and _resolved(master).startswith(_LOOPBACK):
        return _interface_to(_ELSEWHERE, port) or found
    return found


def _interface_to(address: str, port: int) -> str:
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((address, port))  # selects a route without sending anything
            own = socket.inet_aton(probe.getsockname()[0])
            for _, interface in socket.if_nameindex():
                request = _REQUEST.pack(interface.encode(), socket.AF_INET, bytes(4))
                try:
                    answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
                except OSError:  # the interface has no IPv4 address
                    continue
                if answer[20:24] == own:
                    return interface
    except OSError:
        pass
    return ""


def _resolved(name: str) -> str:
    """Return an address of a host name, IPv4 first; empty if it has none."""
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
