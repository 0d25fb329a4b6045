"""A link of a known rate, and what is measured across it."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Any

from pytest_anubis.benchmarking.children import Child
from pytest_anubis.benchmarking.ranks import Ranks
from pytest_anubis.benchmarking.shaped_link import INTERFACE, ShapedLink
from suites.collective.group import MODULE, RankGroup
from suites.network.loopback import MODULE as PEER
from suites.network.loopback import ROUND, START, Loopback
from suites.network.peer import TIMEOUT

RATE = 40e6  # bytes a second: a core has time for more, so that the link and nothing else decides
HEADERS = 1448 / 1514  # bytes of data in a full Ethernet frame with IPv4, TCP and its time stamps
IDLE = (
    TIMEOUT / 2
)  # seconds after which the receiver may soon have given up: other kernels take that long
SIZE = 4 << 20  # bytes of a transfer: a tenth of a second at the rate
LOOPED = 64 << 20  # bytes of a transfer over loopback: some tens of milliseconds


class Transfer:
    """A TCP connection across the link, between two processes."""

    def __init__(self, link: ShapedLink, stack: ExitStack) -> None:
        self._link, self._ends = link, stack.enter_context(ExitStack())
        self._connect()

    def _connect(self) -> None:
        self._ends.close()
        address = self._link.addresses[1]
        receiver, self._sender = (
            self._ends.enter_context(
                Child(PEER, [role, "0", "tcp", address], name=role, within=self._link.command(end))
            )
            for role, end in (("receive", 1), ("send", 0))
        )
        port = receiver.receive(timeout=START)["port"]
        self._sender.ask({"do": "connect", "address": address, "port": port}, timeout=START)
        self._used = time.monotonic()

    def rate(self, size: int = SIZE) -> float:
        """Send so much, return bytes a second."""
        if time.monotonic() - self._used > IDLE:
            self._connect()
        said: dict[str, Any] = self._sender.ask({"do": "bulk", "bytes": size}, timeout=ROUND)
        self._used = time.monotonic()
        return float(size / said["seconds"])


class Looped:
    """A TCP connection over loopback, between two processes."""

    def __init__(self, stack: ExitStack) -> None:
        self._ends = stack.enter_context(ExitStack())
        self._connect()

    def _connect(self) -> None:
        self._ends.close()
        self._link = self._ends.enter_context(Loopback())
        self._used = time.monotonic()

    def rate(self) -> float:
        """Send some, return bytes a second."""
        if time.monotonic() - self._used > IDLE:
            self._connect()
        rate = self._link.rate(LOOPED)
        self._used = time.monotonic()
        return rate


class Reduction(RankGroup):
    """Two ranks, one at each end of the link."""

    def __init__(self, link: ShapedLink, stack: ExitStack) -> None:
        self.on_accelerators = False
        Ranks.__init__(
            self,
            MODULE,
            2,
            environment={"GLOO_SOCKET_IFNAME": INTERFACE},
            within=[link.command(0), link.command(1)],
        )
        stack.enter_context(self)
        self.join()
        self.prepare(SIZE)

    def rate(self) -> float:
        """Reduce once, return the bus bandwidth in bytes a second."""
        return self.bus_bandwidth(SIZE)
