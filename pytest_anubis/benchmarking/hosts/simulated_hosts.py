"""Simulate hosts as network namespaces on one bridge, with the port of each shaped in both directions.

Tests of benchmarks between nodes use it, as it lets them choose which node, direction or link is slow. It
needs root and iproute2. The bridge has its own namespace, so the machine's network is never changed. The
next process removes what a killed one left behind.
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_anubis.benchmarking.hosts.pair_group import PORT, Place
from pytest_anubis.benchmarking.shaped_link import (
    BURST_SECONDS,
    INTERFACE,
    MIN_BURST,
    QUEUE,
    Namespaces,
    run,
    shaper,
)

NETWORK = "10.213.1."
"""Prefix of the hosts' private addresses, in namespaces without any other network."""

MAX_HOSTS = 250
"""Maximum number of hosts on one bridge, limited by the last number of an address."""

UNSHAPED = 12.5e9
"""Rate of a shaper that only contains others: 100 Gbit/s, more than namespaces can forward."""

BUCKET = 80 << 10
"""Minimum bytes of a shaper's bucket: the largest packet that offloading makes. A smaller bucket splits it
into packets of the wire, and those of eight hosts overloaded the processors of one machine."""

QUANTUM = 60_000
"""Bytes that one class of ``htb`` may send in its turn: a packet as large as offloading makes them."""

SECONDS = 60.0
"""Maximum seconds to make or shape all hosts, each of which takes some milliseconds."""


class SimulatedHosts(Namespaces):
    """Connected hosts made by `simulated_hosts`; a context manager that leaves nothing behind.

    Attributes:
        names: Their names: ``host-0``, ``host-1``, ...
        addresses: Their IPv4 addresses.
        interface: Name of the network interface in each, for ``GLOO_SOCKET_IFNAME``.
    """

    interface = INTERFACE

    def __init__(self, count: int, rate: float | None) -> None:
        if not 1 <= count <= MAX_HOSTS:
            raise ValueError(f"{count} simulated hosts: 1 to {MAX_HOSTS} can be made")
        self.names = tuple(f"host-{host}" for host in range(count))
        self.addresses = tuple(f"{NETWORK}{host + 1}" for host in range(count))
        self._rate = rate
        self._send: dict[int, float | None] = {}
        self._receive: dict[int, float | None] = {}
        self._queues: dict[int, int] = {}
        self._ways: dict[int, dict[int, float]] = {}
        super().__init__(["hub", *(f"h{host}" for host in range(count))])

    def __len__(self) -> int:
        return len(self.names)

    def reset(self) -> None:
        """Give every port the common rate again in both directions, and every link the rate of its ports.

        Raises:
            NotPossible: The kernel refused.
        """
        self._send, self._receive, self._queues, self._ways = {}, {}, {}, {}
        for host in range(len(self)):
            self._apply(host)

    def shape(
        self,
        host: int,
        *,
        send: float | None = None,
        receive: float | None = None,
        queue: int | None = None,
    ) -> None:
        """Give one host's port other rates, in bytes per second including headers.

        Args:
            host: Its number.
            send: From the host to the bridge; None: the common rate.
            receive: From the bridge to the host, likewise.
            queue: Maximum bytes that wait at the bridge for this host, beyond which packets are dropped;
                None: more than TCP ever sends. A port without a rate has none.

        Raises:
            NotPossible: The kernel refused.
        """
        self._send[host] = self._rate if send is None else send
        self._receive[host] = self._rate if receive is None else receive
        self._queues[host] = QUEUE if queue is None else queue
        self._apply(host)

    def shape_way(self, sender: int, receiver: int, rate: float | None) -> None:
        """Give one direction between two hosts its own rate, below that of the ports.

        For a slow link, call this for both directions.

        Args:
            sender: Number of the host that sends.
            receiver: Number of the host that receives.
            rate: Bytes per second; None removes the rate.

        Raises:
            NotPossible: The kernel refused.
            ValueError: A host has no way to itself.
        """
        if sender == receiver:
            raise ValueError(f"host {sender}: no way to itself")
        ways = dict(self._ways.get(sender, {}))
        ways.pop(receiver, None)
        if rate is not None:
            ways[receiver] = rate
        self._ways[sender] = ways
        self._apply(sender)

    def places(self) -> tuple[Place, ...]:
        """Return the places of the processes on all hosts, with the variables by which they connect."""
        common = {
            "WORLD_SIZE": str(len(self)),
            "MASTER_ADDR": self.addresses[0],
            "MASTER_PORT": str(PORT),  # free, since the namespace has no other programs
            "GLOO_SOCKET_IFNAME": INTERFACE,
            "TORCHELASTIC_USE_AGENT_STORE": "",  # unset a torchrun's that may have started this program
        }
        return tuple(
            Place(
                number=host,
                name=name,
                environment={**common, "RANK": str(host)},
                within=tuple(self.command(host)),
            )
            for host, name in enumerate(self.names)
        )

    def command(self, host: int, argv: Sequence[str] = ()) -> list[str]:
        """Return the arguments that run a program on a host; without `argv` only their prefix."""
        return self._within(host + 1, argv)

    def _make(self) -> None:
        hub, *spaces = self.spaces
        lines = ["link add bridge type bridge", "link set bridge up"]
        for host, name in enumerate(spaces):
            lines += [
                f"link add port{host} type veth peer name {INTERFACE} netns {name}",
                f"link set port{host} master bridge",
                f"link set port{host} up",
            ]
        self._batch(self._ip, hub, lines)
        for name, address in zip(spaces, self.addresses, strict=True):
            lines = [f"addr add {address}/24 dev {INTERFACE}"]
            lines += [f"link set {interface} up" for interface in ("lo", INTERFACE)]
            self._batch(self._ip, name, lines)
        self.reset()

    def _apply(self, host: int) -> None:
        """Shape one host's port anew; packets in its queues are dropped."""
        own = sorted(self._ways.get(host, {}).items())
        ways = [(self.addresses[receiver], rate) for receiver, rate in own]
        sending = _shaped(INTERFACE, self._send.get(host, self._rate), ways)
        self._batch(self._tc, self.spaces[host + 1], sending)
        queue = self._queues.get(host, QUEUE)
        receiving = _shaped(f"port{host}", self._receive.get(host, self._rate), queue=queue)
        self._batch(self._tc, self.spaces[0], receiving)

    def _batch(self, program: str, namespace: str, lines: Sequence[str]) -> None:
        run([program, "-n", namespace, "-batch", "-"], given="\n".join(lines), seconds=SECONDS)


def _shaped(
    interface: str,
    rate: float | None,
    ways: Sequence[tuple[str, float]] = (),
    *,
    queue: int = QUEUE,
) -> list[str]:
    """Return the ``tc`` lines that shape an interface's outgoing traffic, replacing earlier ones.

    Args:
        interface: Its name.
        rate: Bytes per second of all traffic.
        ways: Addresses with their own rates.
        queue: Maximum bytes that wait, without such addresses.
    """
    lines = [f"qdisc replace dev {interface} root handle 9: pfifo"]
    if not ways:
        if rate is not None:
            lines.append(
                f"qdisc replace dev {interface} root handle 1: {shaper(rate, BUCKET, queue)}"
            )
        return lines
    whole = UNSHAPED if rate is None else rate
    lines.append(f"qdisc replace dev {interface} root handle 1: htb default 2")
    lines += _htb_class(interface, "1:", "1:1", whole)
    lines += _htb_class(interface, "1:1", "1:2", whole)
    for number, (address, own) in enumerate(ways, 3):
        lines += _htb_class(interface, "1:1", f"1:{number:x}", own)
        match = f"match ip dst {address}/32 flowid 1:{number:x}"
        lines.append(f"filter add dev {interface} parent 1: protocol ip prio 1 u32 {match}")
    return lines


def _htb_class(interface: str, parent: str, name: str, rate: float) -> list[str]:
    burst = max(MIN_BURST, int(rate * BURST_SECONDS))  # htb may exceed this by one packet
    shape = f"htb rate {int(rate * 8)}bit burst {burst}b cburst {burst}b quantum {QUANTUM}"
    lines = [f"class add dev {interface} parent {parent} classid {name} {shape}"]
    if parent != "1:":
        lines.append(f"qdisc add dev {interface} parent {name} bfifo limit {QUEUE}")
    return lines


def simulated_hosts(count: int, *, rate: float | None = None) -> SimulatedHosts:
    """Return `count` hosts on one bridge, as a context manager that removes them.

    Args:
        count: Number of hosts.
        rate: Bytes per second of every port in each direction, including headers; None: unshaped.

    Raises:
        NotPossible: No root, no iproute2, or a kernel or container that forbids it; a test that skips for
            this reason is NOT_TESTED.
        ValueError: Fewer than 1 or more than 250 hosts.
    """
    return SimulatedHosts(count, rate)
