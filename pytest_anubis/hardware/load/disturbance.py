"""Find what disturbed the machine during a measurement.

A disturbance comes from others: neighbours on the hypervisor (steal), other processes, or a quota that stops
us. The load of the measurement itself, with its threads, children and ranks, is none, even if it
oversubscribes the CPUs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from pytest_anubis.core.metric import percent_text
from pytest_anubis.core.waiving import LIMITS
from pytest_anubis.hardware.inventory.host_inventory import usable_cpus
from pytest_anubis.hardware.load.host_load import TICK, Load, LoadReader, share_of_time
from pytest_anubis.hardware.load.process_load import (
    OtherProcess,
    is_allowed,
    named,
    other_processes,
)

OTHERS_TRAFFIC = 0.20
"""Minimum share of the disk traffic that others must have before I/O pressure is attributed to them."""

SOME_TRAFFIC = 1 << 20
"""Minimum bytes of our own disk traffic before we can have waited for disks."""

QUOTA_USE = 0.80
"""Share of the quota that must be used before a quota without a throttled period counts: the kernel counts
throttling at the end of a period of 0.1 s, which may be after the end of a measurement."""

_NAME = re.compile(r"(?:: |, )([^,]+?) \(pid \d+\) \d")
_UNTYPABLE = re.compile(r"[^\w.:/@+-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class OthersActivity:
    """The activity of others between two readings; None for what cannot be known."""

    seconds: float  # wall time between the readings
    cpus: int  # CPUs that this process may use
    steal: float | None = None  # share of the wanted CPU time that the hypervisor gave to others
    # CPUs' worth of time that other processes used, without the allowed ones
    others: float | None = None
    own: float | None = None  # CPUs' worth of time that we used
    # ``cpu some``, ``memory full``, ... -> share of the wall time in which tasks stalled
    pressure: dict[str, float]
    others_traffic: float | None = None  # share of the disk traffic that was not ours
    own_traffic: int | None = None  # bytes of our own disk traffic
    quota: float | None = None  # CPU quota of the control group in cores
    throttled: int | None = None  # number of periods in which the quota stopped us
    # The other processes that are visible, busiest first
    busiest: tuple[OtherProcess, ...] | None = None


def compare(
    begin: Load,
    end: Load,
    *,
    cpus: int | None = None,
    quota: float | None = None,
    allowed: Sequence[str] = (),
) -> OthersActivity:
    """Compare two readings and return what others did between them.

    Args:
        begin: Reading before the measurement.
        end: Reading after it.
        cpus: CPUs that this process may use; None asks the kernel.
        quota: CPU quota of the control group in cores.
        allowed: Names of commands, as shell patterns, that may run on a quiet machine.
    """
    cpus = cpus or usable_cpus() or os.cpu_count() or 1
    seconds = max(end.when - begin.when, 1e-9)
    busy = _difference(begin.busy, end.busy)
    own = _difference(begin.own, end.own)
    stolen = _difference(begin.steal, end.steal)
    traffic = _difference(begin.disk, end.disk)
    own_traffic = _difference(begin.own_disk, end.own_disk)
    kernel = _difference(begin.kernel, end.kernel) or 0.0
    stalled = (end.stalls_when or end.when) - (begin.stalls_when or begin.when)
    found = None
    if begin.processes is not None and end.processes is not None:
        found = other_processes(begin.processes, end.processes)
    exempt = sum(one.cpus for one in found or () if is_allowed(one.name, allowed))
    others = None
    if busy is not None and own is not None:
        # The kernel charges a whole tick to the task that runs at its end: one tick per CPU is no evidence.
        others = max(0.0, (busy - own - kernel - TICK * cpus) / seconds - exempt)
    return OthersActivity(
        seconds=seconds,
        cpus=cpus,
        steal=_stolen_share(stolen, busy),
        others=others,
        own=own / seconds if own is not None else None,
        pressure={
            what: share_of_time(total - begin.stalls[what], stalled)
            for what, total in end.stalls.items()
            if what in begin.stalls
        },
        others_traffic=max(0.0, traffic - (own_traffic or 0)) / traffic if traffic else None,
        own_traffic=int(own_traffic) if own_traffic is not None else None,
        quota=quota,
        throttled=_throttled_periods(begin, end),
        busiest=None
        if found is None
        else tuple(one for one in found if not is_allowed(one.name, allowed)),
    )


def disturbances(found: OthersActivity, limits: Mapping[str, float] = LIMITS) -> tuple[str, ...]:
    """Describe in short phrases what disturbed the machine more than its threshold allows.

    Args:
        found: The activity of others.
        limits: Thresholds by name that replace those of `LIMITS`.
    """
    phrases = []
    limits = {**LIMITS, **limits}
    if found.steal is not None and found.steal > limits["steal"]:
        phrases.append(f"{percent_text(found.steal, 0)} steal")
    quota = _quota_phrase(found)
    if quota:
        phrases.append(quota)
    who = "" if found.busiest is None else named(found.busiest, found.others or 0.0)
    who = f": {who}" if who else ""
    if found.others is not None and found.others > limits["others"] * found.cpus:
        phrases.append(f"other processes used {found.others:.1f} of {_cores(found.cpus)}{who}")
        who = ""
    waited = found.pressure.get("cpu some", 0.0)
    if min(waited, found.others or 0.0) > limits["cpu"]:
        phrases.append(f"CPU pressure {percent_text(waited, 0)}{who}")
    if found.pressure.get("memory some", 0.0) > limits["memory"]:
        phrases.append(f"memory pressure {percent_text(found.pressure['memory some'], 0)}")
    if (
        found.pressure.get("io some", 0.0) > limits["io"]
        and (found.own_traffic or 0) >= SOME_TRAFFIC
        and (found.others_traffic or 0.0) > OTHERS_TRAFFIC
    ):
        phrases.append(
            f"I/O pressure {percent_text(found.pressure['io some'], 0)}, "
            f"{percent_text(found.others_traffic or 0.0, 0)} of the disk traffic from others"
        )
    return tuple(phrases)


def processes_named(phrases: Iterable[str]) -> tuple[str, ...]:
    """Return the commands named in such phrases, each once, as patterns that can be typed."""
    names = (name.strip() for phrase in phrases for name in _NAME.findall(phrase))
    return tuple(dict.fromkeys(_UNTYPABLE.sub("?", name) for name in names))


class HostWatch:
    """Context manager that watches the host around a measurement.

    ::

        with HostWatch() as watch:
            measure()
        print(watch.disturbance)  # ("12 % steal", "other processes used 0.9 of 2 cores")

    Args:
        root: Process whose tree counts as our own; default this process. Under xdist it is the controller, so
            that the other workers count as ours.
        reader: Reads the counters; default those of this machine.
        limits: Thresholds by name that replace those of `LIMITS`.
        allowed: Names of commands, as shell patterns, that may run on a quiet machine.

    Attributes:
        found: The activity of others; set at the end.
    """

    def __init__(
        self,
        root: int | None = None,
        *,
        reader: LoadReader | None = None,
        limits: Mapping[str, float] = LIMITS,
        allowed: Sequence[str] = (),
    ) -> None:
        self._reader = reader or LoadReader(root=root)
        self._limits = limits
        self._allowed = allowed
        self._begin: Load | None = None
        self.found: OthersActivity | None = None

    @property
    def disturbance(self) -> tuple[str, ...]:
        """What disturbed the machine, one phrase each; empty if it was quiet."""
        return disturbances(self.found, self._limits) if self.found else ()

    def __enter__(self) -> Self:
        self._begin = self._reader.read()
        return self

    def __exit__(self, *_: object) -> None:
        end = self._reader.read()
        if self._begin is not None:
            self.found = compare(self._begin, end, quota=self._reader.quota, allowed=self._allowed)


def _quota_phrase(found: OthersActivity) -> str:
    quota = found.quota
    if quota is None or quota >= found.cpus:
        return ""
    used_up = (found.own or 0.0) >= QUOTA_USE * quota
    if found.throttled:
        times = "once" if found.throttled == 1 else f"{found.throttled} times"
        return f"CPU quota of {quota:g} cores, stopped {times}"
    return f"CPU quota of {quota:g} cores" if used_up or found.throttled is None else ""


def _stolen_share(stolen: float | None, busy: float | None) -> float | None:
    if stolen is None or busy is None:
        return None
    # Below three ticks the share on a nearly idle machine is chance.
    return stolen / (stolen + busy) if stolen >= 3 * TICK else 0.0


def _throttled_periods(begin: Load, end: Load) -> int | None:
    if begin.throttling is None or end.throttling is None:
        return None
    return end.throttling.times - begin.throttling.times


def _difference(begin: float | None, end: float | None) -> float | None:
    return None if begin is None or end is None else max(0.0, end - begin)


def _cores(count: int) -> str:
    return f"{count} core{'' if count == 1 else 's'}"
