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
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from pytest_anubis.benchmarking.trusted_paths import refusal_of

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

_NAME = re.compile(rf"{PREFIX}(\d+)-(\d+)-(\d+)-(\d+)-(a|b|hub|h\d+)")
"""Namespace of process ids, process id, its start, number of the link, its end, or a simulated host."""
_SECONDS = 20.0
"""What one call of ``ip`` or ``tc`` may take: they take milliseconds."""

_made = 0


class NotPossible(RuntimeError):
    """The link cannot be made here; the message says why."""


class Namespaces(ABC):
    """Network namespaces; a context manager that leaves nothing behind. For subclasses, which connect them.

    Args:
        ends: How the name of each ends.

    Attributes:
        spaces: The namespaces.

    Raises:
        NotPossible: No root, no iproute2, or a kernel or container that forbids it.
    """

    def __init__(self, ends: Sequence[str]) -> None:
        if os.geteuid() != 0:
            raise NotPossible("network namespaces need root")
        self._ip, self._tc = trusted("ip"), trusted("tc")
        sweep(self._ip)
        common = new_name()
        self.spaces = tuple(f"{common}-{end}" for end in ends)
        try:
            for name in self.spaces:
                run([self._ip, "netns", "add", name])
            self._make()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove all of them; what still runs there loses its network."""
        with ExitStack() as stack:  # the rest also when an interrupt arrives while one goes
            for name in self.spaces:
                stack.callback(run, [self._ip, "netns", "del", name], may_fail=True)

    @abstractmethod
    def _make(self) -> None:
        """Connect the namespaces, which are there."""

    def _within(self, place: int, argv: Sequence[str]) -> list[str]:
        return [self._ip, "netns", "exec", self.spaces[place], *argv]


class ShapedLink(Namespaces):
    """Two connected network namespaces; a context manager that leaves nothing behind.

    Args:
        rate: Bytes a second that the link carries each way, its headers included; None leaves it unshaped.
        back: The rate from the second end to the first, where it is another.

    Attributes:
        addresses: IPv4 addresses of the ends.

    Raises:
        NotPossible: No root, no iproute2, or a kernel or container that forbids it.
    """

    addresses = ADDRESSES

    def __init__(self, rate: float | None, *, back: float | None = None) -> None:
        self._rates = rate, back
        super().__init__("ab")

    def shape(self, rate: float | None, *, back: float | None = None) -> None:
        """Give the link another rate, also while data flows.

        Raises:
            NotPossible: The kernel refused.
        """
        for name, one in zip(self.spaces, (rate, rate if back is None else back), strict=True):
            tc = [self._tc, "-n", name, "qdisc"]
            if one is None:
                run([*tc, "del", "dev", INTERFACE, "root"], may_fail=True)
                continue
            run([*tc, "replace", "dev", INTERFACE, "root", *shaper(one).split()])

    def command(self, end: int, argv: Sequence[str] = ()) -> list[str]:
        """Return the arguments that run a program at one end, 0 or 1; without one what stands before it.

        Gloo's ranks want to be told the interface there: ``GLOO_SOCKET_IFNAME``, `INTERFACE`.
        """
        return self._within(end, argv)

    def _make(self) -> None:
        first, second = self.spaces
        peer = ["peer", "name", INTERFACE, "netns", second]
        run([self._ip, "-n", first, "link", "add", INTERFACE, "type", "veth", *peer])
        for name, address in zip(self.spaces, self.addresses, strict=True):
            run([self._ip, "-n", name, "addr", "add", f"{address}/30", "dev", INTERFACE])
            run([self._ip, "-n", name, "link", "set", "lo", "up"])
            run([self._ip, "-n", name, "link", "set", INTERFACE, "up"])
        rate, back = self._rates
        self.shape(rate, back=back)


def new_name() -> str:
    """Return how the namespaces of one more link begin: by the process that makes it, and when it began."""
    global _made
    _made += 1
    pid = os.getpid()
    return f"{PREFIX}{_namespace()}-{pid}-{_started(pid)}-{_made}"


def shaper(rate: float, least: int = LEAST_BURST) -> str:
    """Return the words of ``tc`` for a rate in bytes a second, headers included."""
    burst = max(least, int(rate * BURST_SECONDS))
    return f"tbf rate {int(rate * 8)}bit burst {burst}b limit {QUEUE}b"


def sweep(ip: str = "") -> None:
    """Remove what processes that are gone have left behind.

    Args:
        ip: Path of the program; default: it is looked for.

    Raises:
        NotPossible: Something is to be removed, and there is no such program that root may run.
    """
    try:
        found = [place.name for place in NAMESPACES.iterdir()]
    except OSError:  # nobody ever made one
        return
    here = _namespace()
    for name in found:
        match = _NAME.fullmatch(name)
        # Of processes that another container counts nothing is known here.
        if match and match[1] == here and _started(int(match[2])) != match[3]:
            run([ip or trusted("ip"), "netns", "del", name], may_fail=True)


def trusted(tool: str) -> str:
    """Return the path of a program that root may run."""
    found = shutil.which(tool)
    if found is None:
        raise NotPossible(f"{tool} not found: apt install iproute2")
    path = Path(found).absolute()
    refusal = refusal_of(path)
    if refusal:
        raise NotPossible(f"{tool} is not run: {refusal}")
    return str(path)


def _namespace() -> str:
    """Return the number of this process's namespace of process ids; 0 where the kernel does not tell."""
    try:
        return re.sub(r"\D", "", str(Path("/proc/self/ns/pid").readlink())) or "0"
    except OSError:
        return "0"


def _started(pid: int) -> str:
    """Return when a process started, in ticks since the machine did; empty where there is none."""
    try:
        # The name in brackets may hold spaces and brackets; proc(5): field 22, the state being the third.
        words = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return words.rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def run(
    argv: list[str], *, given: str = "", may_fail: bool = False, seconds: float = _SECONDS
) -> None:
    """Run ``ip`` or ``tc``, with what it is to read.

    Raises:
        NotPossible: It failed or did not end; not with `may_fail`.
    """
    try:
        done = subprocess.run(argv, capture_output=True, text=True, input=given, timeout=seconds)
        said = " ".join(done.stderr.split()) or f"status {done.returncode}"
        failed = done.returncode != 0
    except subprocess.TimeoutExpired:
        failed, said = True, f"did not end within {seconds:g} s"
    except OSError as error:
        failed, said = True, error.strerror or str(error)
    if failed and not may_fail:
        raise NotPossible(f"{' '.join(argv)}: {said}")
