"""Make a link of a known rate between two network namespaces, shaped in each direction by ``tc tbf``.

Tests and the scripts in `benchmarks/` use it, to compare a measured rate with the given one; the tests in
`suites/` never do. It needs root and iproute2. The names contain the id of the process that made them, so
that the next process can remove what a killed one left behind. `hosts.simulated_hosts` builds on it.
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
"""Folder in which ``ip netns`` keeps the namespaces."""

ADDRESSES = ("10.213.0.1", "10.213.0.2")
"""Private addresses of the two ends, in namespaces without any other network."""

BURST_SECONDS = 0.002
"""Bucket of the shaper in seconds at its rate: long compared with the kernel's timers, which count
microseconds, and short compared with any round."""

MIN_BURST = 16 << 10
"""Minimum bytes of the bucket: a packet, or several that offloading has merged."""

QUEUE = 64 << 20
"""Maximum bytes in the shaper's queue: larger than TCP's window, so that nothing is dropped. A queue of 50 ms
dropped packets, which halved the rate."""

_NAME = re.compile(rf"{PREFIX}(\d+)-(\d+)-(\d+)-(\d+)-(a|b|hub|h\d+)")
"""PID namespace, process id, start of the process, number of the link, and its end or a simulated host."""
_SECONDS = 20.0
"""Maximum seconds of one call of ``ip`` or ``tc``, which usually takes milliseconds."""

_made = 0


class NotPossible(RuntimeError):
    """A link that cannot be made here; the message says why."""


class Namespaces(ABC):
    """Base class for connected network namespaces; a context manager that leaves nothing behind.

    Args:
        ends: Suffix of the name of each.

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
        """Remove all namespaces; programs that still run there lose their network."""
        with ExitStack() as stack:  # removes the others even if an interrupt arrives meanwhile
            for name in self.spaces:
                stack.callback(run, [self._ip, "netns", "del", name], may_fail=True)

    @abstractmethod
    def _make(self) -> None:
        """Connect the namespaces, which exist."""

    def _within(self, place: int, argv: Sequence[str]) -> list[str]:
        return [self._ip, "netns", "exec", self.spaces[place], *argv]


class ShapedLink(Namespaces):
    """Two connected network namespaces; a context manager that leaves nothing behind.

    Args:
        rate: Bytes per second in each direction, including headers; None leaves the link unshaped.
        back: The rate from the second end to the first, if it differs.

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
        """Give the link another rate, even during a transfer.

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
        """Return the arguments that run a program at one end, 0 or 1; without `argv` only their prefix.

        Ranks with gloo need the interface there: set ``GLOO_SOCKET_IFNAME`` to `INTERFACE`.
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
    """Return the prefix for the namespaces of one more link, with this process's id and start."""
    global _made
    _made += 1
    pid = os.getpid()
    return f"{PREFIX}{_namespace()}-{pid}-{_started(pid)}-{_made}"


def shaper(rate: float, min_burst: int = MIN_BURST, queue: int = QUEUE) -> str:
    """Return the arguments of ``tc`` for a rate in bytes per second, including headers.

    Args:
        rate: The rate.
        min_burst: Minimum bytes of the bucket.
        queue: Maximum bytes that wait; more are dropped.
    """
    burst = max(min_burst, int(rate * BURST_SECONDS))
    return f"tbf rate {int(rate * 8)}bit burst {burst}b limit {queue}b"


def sweep(ip: str = "") -> None:
    """Remove the namespaces of processes that no longer exist.

    Args:
        ip: Path of the program; default: the one on the PATH.

    Raises:
        NotPossible: There are such namespaces, and no ``ip`` that root may run.
    """
    try:
        found = [place.name for place in NAMESPACES.iterdir()]
    except OSError:  # no namespace was ever made
        return
    here = _namespace()
    for name in found:
        match = _NAME.fullmatch(name)
        # Processes of another PID namespace are unknown here.
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
    """Return the number of this process's PID namespace; 0 if unknown."""
    try:
        return re.sub(r"\D", "", str(Path("/proc/self/ns/pid").readlink())) or "0"
    except OSError:
        return "0"


def _started(pid: int) -> str:
    """Return a process's start in ticks since boot; empty if it does not exist."""
    try:
        # Field 22 in proc(5); the state, field 3, follows the name, which may contain spaces and brackets.
        words = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return words.rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def run(
    argv: list[str], *, given: str = "", may_fail: bool = False, seconds: float = _SECONDS
) -> None:
    """Run ``ip`` or ``tc`` with `given` as its input.

    Raises:
        NotPossible: It failed or did not end, and `may_fail` is not set.
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
