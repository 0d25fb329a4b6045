"""Plugin that prepares each lane's workers: it gives them their visible cards and their CPUs.

In one process, where the whole node is the only lane, it finds the cards' CPUs as well.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest

from pytest_anubis.core.events import LanesPlaced
from pytest_anubis.core.measurement import LaneCores
from pytest_anubis.distributed.dispatch.lane_cores import (
    LanePlacement,
    kept_apart,
    lane_core_events,
    place_lanes,
)
from pytest_anubis.distributed.dispatch.tasks import CPU, NODE, Lane
from pytest_anubis.distributed.workers.device_binding import binding
from pytest_anubis.distributed.workers.process_cores import CPUS, THREADS
from pytest_anubis.hardware.cgroup import QUOTA_SHARE, ControlGroup, threads_within
from pytest_anubis.hardware.numa import Core, cores_of, cpu_text, numa_node_of
from pytest_anubis.hardware.text_files import Files
from pytest_anubis.report.text.safe_text import printable
from pytest_anubis.report.text.shared_lines import lane_texts
from pytest_anubis.session.context import RunContext, Sink

TRIES = 3
"""How often a worker's process is started before the run gives up."""


class LanePlaces:
    """Plugin that gives each lane's workers their lane, visible cards and CPUs, and reports the CPUs.

    Without accelerators it neither binds nor reports CPUs.

    Args:
        addresses: Card -> its PCI address, None if unknown.
        files: Root of sysfs.
        allowed: CPUs that the run may use; default those of this process.
        quota: CPU time that the run may use, in CPUs; default that of its control group, 0 for none.
    """

    def __init__(
        self,
        context: RunContext,
        lanes: Sequence[Lane],
        addresses: Mapping[str, str | None],
        *,
        sink: Sink,
        files: Files | None = None,
        allowed: Collection[int] | None = None,
        quota: float | None = None,
    ) -> None:
        self._sink = sink
        self._places: dict[str, LanePlacement] = {}
        self._reported: tuple[LaneCores, ...] = ()
        self._several = False
        self._context = context
        self._lanes = tuple(lanes)
        cards = [name for name in context.devices if name != CPU]
        if not cards:
            return
        files = files or Files()
        cores: tuple[Core, ...] = ()
        if allowed is not None or _may_bind():
            cores = cores_of(files, os.sched_getaffinity(0) if allowed is None else allowed)
        homes = {name: numa_node_of(files, addresses.get(name)) for name in cards}
        self._several = sum(any(one != CPU for one in lane.devices) for lane in lanes) > 1
        if not self._several and all(home is None for home in homes.values()):
            return  # a single lane, and no card with a known NUMA node
        quota = ControlGroup(Files()).quota() if quota is None else quota or None
        self._places = {place.lane: place for place in place_lanes(lanes, cores, homes, quota)}
        used = [lane for lane in lanes if lane.devices or lane.name == NODE]  # no spare ones
        self._reported = lane_core_events([self._places[lane.name] for lane in used], used)

    @property
    def apart(self) -> bool:
        """True when every lane of accelerators has cores of its own."""
        return kept_apart(list(self._places.values()))

    @pytest.hookimpl(optionalhook=True)  # without xdist there are no workers
    def pytest_xdist_setupnodes(self, config: pytest.Config, specs: Sequence[Any]) -> None:
        """Bind every spec to a lane; a dead worker's replacement uses the same spec."""
        dsession: Any = config.pluginmanager.get_plugin("dsession")
        retry_worker_start(dsession.nodemanager.group)
        context = self._context
        for spec, lane in zip(specs, self._lanes, strict=True):
            some = bool(context.hidden)
            spec.env.update(binding(lane, context.devices, context.bindings, some=some))
            spec.env.update(self.variables(lane.name))

    def variables(self, lane: str) -> dict[str, str]:
        """Return the variables that bind a lane's workers to their CPUs; empty if they are not bound."""
        place = self._places.get(lane)
        if place is None or not self._several:
            return {}
        found = {CPUS: cpu_text(place.cpus)} if place.cpus else {}
        if any(one.name == lane and one.devices for one in self._lanes):
            if place.cpus:
                threads = threads_within(len(place.cpus), place.quota)
                found |= dict.fromkeys(THREADS, str(threads))
            if place.quota is not None:
                found[QUOTA_SHARE] = f"{place.quota:g}"
        return found

    def near(self, lane: str) -> dict[str, str]:
        """Return the CPUs near each card whose tests a lane's worker may run."""
        place = self._places.get(lane)
        return {} if place is None else {card: cpu_text(cpus) for card, cpus in place.near.items()}

    def pytest_report_header(self) -> list[str]:
        """Print the CPUs of each lane."""
        lines = [printable(f"anubis: {line}") for line in lane_texts(self._reported)]
        shares = [place.quota for place in self._places.values() if place.quota is not None]
        if shares and self._several:
            share = f"{min(shares):g} CPUs' time"
            lines.append(
                f"anubis: by the CPU quota of its container, each lane of cards has {share}"
            )
        return lines

    # After the run has opened the journal.
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Write the CPUs of each lane to the journal."""
        if self._reported and not session.config.option.collectonly:
            self._sink(LanesPlaced(lanes=self._reported))


def _may_bind() -> bool:
    """Return whether the kernel lets this process choose its CPUs; some sandboxes do not."""
    try:
        os.sched_setaffinity(0, os.sched_getaffinity(0))
    except OSError:
        return False
    return True


def retry_worker_start(group: Any) -> None:
    """Start a process again if it dies before it becomes a worker, because xdist would end the whole run.

    If `TRIES` processes die in a row, ``makegateway`` raises `pytest.exit.Exception`.
    """
    make = group.makegateway

    def started(spec: Any) -> Any:
        last: Exception | None = None
        for _ in range(TRIES):
            try:
                return make(spec)
            except (EOFError, OSError) as error:  # its pipe ended, or a limit was reached
                last = error
        raise pytest.exit.Exception(
            f"anubis: {TRIES} processes in a row died before they were workers ({last}); look for what kills "
            "them (limits of processes and memory, the kernel's log), then start again",
            3,  # as an internal error ends: nothing is decided
        )

    group.makegateway = started
