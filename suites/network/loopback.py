"""A connection between two processes of this machine, by TCP or without it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from pytest_anubis.benchmarking.children import Child, Group

MODULE = "suites.network.peer"
ADDRESS = "127.0.0.1"
START = 30.0
"""Seconds that a process has to start and connect."""

ROUND = 120.0
"""Seconds that one transfer may take."""


class Loopback(Group):
    """Sender and receiver, connected; a context manager that ends both.

    A request raises `ChildError` where an end failed or took too long.

    Both run on one CPU, the last that this process may use. What is measured is then what the network
    stack costs a byte or a message. On two CPUs it is mostly how quickly the second one wakes up, which
    on a virtual machine is the hypervisor's affair: round trips took four times as long there, and rates
    varied by a third.

    Args:
        way: ``tcp``, ``socket`` for a socket of the kernel without TCP (Unix), or ``ring`` for memory that
            both have.
        through: Takes the receiver's port and returns the port to connect to: a place for a relay
            that is slow or faulty.
        within: Command that runs both processes elsewhere, such as in a network namespace.

    Attributes:
        way: As above.
    """

    def __init__(
        self,
        way: str = "tcp",
        *,
        through: Callable[[int], int] = lambda port: port,
        within: Sequence[str] = (),
    ) -> None:
        super().__init__(timeout=ROUND)
        self.way = way
        cpu = str(max(os.sched_getaffinity(0)))
        with self._starting():
            receiver, self._sender = (
                self._start(
                    Child(
                        MODULE,
                        [role, cpu, way, ADDRESS],
                        name=f"{way} {role} process",
                        within=within,
                    )
                )
                for role in ("receive", "send")
            )
            port = through(receiver.receive(timeout=START)["port"])
            self._sender.ask({"do": "connect", "address": ADDRESS, "port": port}, timeout=START)

    def rate(self, size: int) -> float:
        """Send `size` bytes and return bytes a second until the receiver had counted them all.

        Raises:
            RuntimeError: The receiver counted another number of bytes.
        """
        answer = self._ask(do="bulk", bytes=size)
        if answer["received"] != size:
            raise RuntimeError(f"sent {size} bytes, {answer['received']} arrived")
        return float(size / answer["seconds"])

    def round_trip(self, count: int) -> float:
        """Send a short message there and back `count` times and return the seconds of one time.

        Raises:
            RuntimeError: A message came back changed.
        """
        answer = self._ask(do="ping", count=count)
        if answer["wrong"]:
            raise RuntimeError(f"{answer['wrong']} of {count} messages came back changed")
        return float(answer["seconds"] / count)

    def intact(self, size: int) -> bool:
        """Send `size` random bytes and return whether what arrived has the same checksum."""
        answer = self._ask(do="check", bytes=size)
        return bool(answer["received"] == size and answer["sent"] == answer["arrived"])

    def _ask(self, **request: Any) -> dict[str, Any]:
        return self._sender.ask(request, timeout=ROUND)
