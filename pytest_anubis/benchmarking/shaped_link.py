"""A link of a known rate: two ends in network namespaces of their own, shaped each way by ``tc tbf``.

For benchmarks of links, and for tests that show what a slow link does to them: what is measured must be what
the link was given. Needs root and iproute2. Names carry the process id of whoever made them: what a killed
process left behind is removed by the next one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

PREFIX = "anubis-"
INTERFACE = "shaped"
"""Name of the interface at both ends."""

NAMESPACES = Path("/run/netns")
"""Where ``ip netns`` keeps what it made."""

ADDRESSES = ("10.213.0.1", "10.213.0.2")
"""Of the two ends: private, and inside namespaces that know no other network."""

BURST_SECONDS = 0.002
"""Bucket of the shaper in seconds at its rate: long against the kernel's timers, which count microseconds,
and short against any round."""

LEAST_BURST = 16 << 10
"""Bytes of the bucket at least: a packet, and what the card's offloading makes of several."""

QUEUE = 64 << 20
"""Bytes that may wait in the shaper's queue: more than TCP ever has under way, so that nothing is dropped.
With a queue of 50 ms TCP lost packets and reached a half of the rate."""

_NAME = re.compile(rf"{PREFIX}(\d+)-(\d+)-([ab])")
_SECONDS = 20.0
"""What one call of ``ip`` or ``tc`` may take: they take milliseconds."""

_made = 0


class NotPossible(RuntimeError):
    """The link cannot be made here; the message says why."""


class ShapedLink:
    """Two connected network namespaces; a context manager that leaves nothing behind.

    Args:
        rate: Bytes a second that the link carries each way, its headers included; None leaves it unshaped.
        back: The rate from the second end to the first, where it is another.

    Attributes:
        names: The namespaces.
        addresses: IPv4 addresses of the ends.

    Raises:
        NotPossible: No root, no iproute2, or a kernel or container that forbids it.
    """

    addresses = ADDRESSES

    def __init__(self, rate: float | None, *, back: float | None = None) -> None:
        global _made
        if os.geteuid() != 0:
            raise NotPossible("network namespaces need root")
        for tool in ("ip", "tc"):
            if shutil.which(tool) is None:
                raise NotPossible(f"{tool} not found: apt install iproute2")
        sweep()
        _made += 1
        self.names = tuple(f"{PREFIX}{os.getpid()}-{_made}-{end}" for end in "ab")
        try:
            self._make()
            self.shape(rate, back=back)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def shape(self, rate: float | None, *, back: float | None = None) -> None:
        """Give the link another rate, also while data flows.

        Raises:
            NotPossible: The kernel refused.
        """
        for name, one in zip(self.names, (rate, rate if back is None else back), strict=True):
            tc = ["tc", "-n", name, "qdisc"]
            if one is None:
                _run([*tc, "del", "dev", INTERFACE, "root"], may_fail=True)
                continue
            burst = max(LEAST_BURST, int(one * BURST_SECONDS))
            shaper = ["tbf", "rate", f"{int(one * 8)}bit", "burst", f"{burst}b"]
            _run([*tc, "replace", "dev", INTERFACE, "root", *shaper, "limit", f"{QUEUE}b"])

    def command(self, end: int, argv: Sequence[str] = ()) -> list[str]:
        """Return the arguments that run a program at one end, 0 or 1; without one what stands before it.

        Gloo's ranks want to be told the interface there: ``GLOO_SOCKET_IFNAME``, `INTERFACE`.
        """
        return ["ip", "netns", "exec", self.names[end], *argv]

    def close(self) -> None:
        """Remove both ends; what still runs there loses its network."""
        for name in self.names:
            _run(["ip", "netns", "del", name], may_fail=True)

    def _make(self) -> None:
        first, second = self.names
        for name in self.names:
            _run(["ip", "netns", "add", name])
        peer = ["peer", "name", INTERFACE, "netns", second]
        _run(["ip", "-n", first, "link", "add", INTERFACE, "type", "veth", *peer])
        for name, address in zip(self.names, self.addresses, strict=True):
            _run(["ip", "-n", name, "addr", "add", f"{address}/30", "dev", INTERFACE])
            _run(["ip", "-n", name, "link", "set", "lo", "up"])
            _run(["ip", "-n", name, "link", "set", INTERFACE, "up"])


def sweep() -> None:
    """Remove what processes that are gone have left behind."""
    try:
        found = [place.name for place in NAMESPACES.iterdir()]
    except OSError:  # nobody ever made one
        return
    for name in found:
        match = _NAME.fullmatch(name)
        if match and not Path(f"/proc/{match[1]}").exists():
            _run(["ip", "netns", "del", name], may_fail=True)


def _run(argv: list[str], *, may_fail: bool = False) -> None:
    done = subprocess.run(
        argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=_SECONDS
    )
    if done.returncode and not may_fail:
        said = " ".join(done.stderr.split()) or f"status {done.returncode}"
        raise NotPossible(f"{' '.join(argv)}: {said}")
