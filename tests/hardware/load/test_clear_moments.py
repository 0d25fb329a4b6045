"""Test which rounds are clear, by the probe's readings and the kernel's counters."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pytest_anubis.hardware.load import clear_moments
from pytest_anubis.hardware.load.clear_moments import (
    EXCUSED_WAIT,
    FAR,
    NEAR,
    OTHERS,
    HostMonitor,
    MonitoredRounds,
    Probe,
)
from pytest_anubis.hardware.load.kernel_counters import Counts, KernelCounters
from pytest_anubis.hardware.text_files import Files

ROUND = 0.02
QUIET = Counts()


class Scene:
    """A host whose clock advances only in rounds, with prepared readings of probe and kernel.

    Args:
        readings: Readings of the probe in order; the last one repeats.
    """

    def __init__(self, *readings: float) -> None:
        self._now = 0.0
        self._readings = list(readings)
        self._seen = QUIET
        self.asked = self.renewed = 0
        self.clock = SimpleNamespace(monotonic=lambda: self._now, perf_counter=lambda: self._now)

    def probe(self) -> float:
        self.asked += 1
        return self._readings.pop(0) if len(self._readings) > 1 else self._readings[0]

    def read(self) -> Counts:
        return self._seen

    def renew(self) -> None:
        self.renewed += 1

    def round(self, more: Counts) -> Callable[[], list[float]]:
        """Return a round during which so much happens, by its length; `stolen` in seconds."""

        def take() -> list[float]:
            self._now += ROUND
            seen = self._seen
            self._seen = Counts(
                others=seen.others + more.others * ROUND,
                waited=seen.waited + more.waited * ROUND,
                stolen=seen.stolen + more.stolen,
                unseen=seen.unseen + more.unseen * ROUND,
            )
            return [1.0]

        return take

    def rest(self, seconds: float) -> None:
        self._now += seconds

    def host(self, best: float = 0.0, *, shared: bool = True, **more: Any) -> HostMonitor:
        counters = cast(KernelCounters, self)
        return HostMonitor(list, best, probe=self.probe, counters=counters, shared=shared, **more)


def taken(
    monkeypatch: pytest.MonkeyPatch,
    readings: Sequence[float] = (1.0,),
    seen: Sequence[Counts] = (QUIET,) * 8,
    best: float = 0.0,
    *,
    shared: bool = True,
) -> list[bool]:
    """Take rounds; return which are clear."""
    scene = Scene(*readings)
    monkeypatch.setattr(clear_moments, "time", scene.clock)
    rounds = MonitoredRounds(scene.host(best, shared=shared))
    for one in seen:
        rounds.take(scene.round(one))
    return rounds.clear()


def unclear(clear: Sequence[bool]) -> list[int]:
    return [number for number, one in enumerate(clear) if not one]


def test_rounds_with_readings_near_the_best_are_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = (1.0, 1.02, 1.05, 1.0, 0.99 * NEAR, 1.0, 1.03, 1.0, 1.01)
    assert taken(monkeypatch, readings) == [True] * 8


def test_rounds_next_to_a_slow_reading_are_unclear(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = (1.0, 1.0, 1.0, 1.02 * NEAR, 1.0, 1.0, 1.0, 1.0, 1.0)
    assert unclear(taken(monkeypatch, readings)) == [2, 3]


@pytest.mark.parametrize(
    "seen", [Counts(others=2 * OTHERS), Counts(waited=2 * EXCUSED_WAIT), Counts(stolen=0.01)]
)
def test_round_during_work_of_others_is_unclear(
    monkeypatch: pytest.MonkeyPatch, seen: Counts
) -> None:
    """Other processes' CPU time, waiting for a CPU, time that the hypervisor stole."""
    assert unclear(taken(monkeypatch, seen=[*[QUIET] * 5, seen, QUIET, QUIET])) == [5]


def test_daemons_of_a_quiet_host_are_excused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert unclear(taken(monkeypatch, seen=[Counts(0.5 * OTHERS, 0.5 * EXCUSED_WAIT)] * 8)) == []


def test_only_waiting_above_the_usual_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """With more threads than cores, threads wait in every round, which is not due to others."""
    own = Counts(waited=1.5)
    more = Counts(waited=1.5 * NEAR + 2 * EXCUSED_WAIT)
    assert unclear(taken(monkeypatch, seen=[own] * 8)) == []
    assert unclear(taken(monkeypatch, seen=[own, own, more, own, more, own, own, own])) == [2, 4]


@pytest.mark.parametrize(
    ("unseen", "waited", "clear"), [(1.0, 0.9, False), (1.0, 0.0, True), (0.1, 0.9, True)]
)
def test_waiting_due_to_unlisted_processes_is_unclear(
    monkeypatch: pytest.MonkeyPatch, unseen: float, waited: float, clear: bool
) -> None:
    """A compiler's processes live too briefly to be listed; all rounds wait for them alike."""
    seen = Counts(waited=waited, unseen=unseen * 25)  # of half a second within the 8 rounds
    quiet = Counts(waited=waited)
    assert taken(monkeypatch, seen=[seen, *[quiet] * 7]) == [clear] * 8


def test_constantly_slow_host_has_no_clear_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A measurement at half the clock looks steady, but earlier readings of the host were faster."""
    assert taken(monkeypatch, (1.5,), best=1.0) == [False] * 8
    assert taken(monkeypatch, (0.99 * FAR,), best=1.0) == [True] * 8
    assert taken(monkeypatch, (1.5,)) == [True] * 8  # nothing better is known


def test_bare_metal_is_not_probed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A low clock there is a finding; whom the kernel shows disturbs as elsewhere."""
    seen = [QUIET, Counts(others=2 * OTHERS), QUIET]
    assert taken(monkeypatch, (1.0, 1.5, 1.0), seen, best=1.0, shared=False) == [True, False, True]
    scene = Scene(1.0)
    scene.host(shared=False).around(scene.round(QUIET))
    assert scene.asked == 0


@pytest.mark.parametrize(
    ("name", "slowdown"), [("known", 1.2), ("new", 1.5 / FAR), ("slower", 1.0)]
)
def test_slowdown_is_relative_to_earlier_measurements(
    monkeypatch: pytest.MonkeyPatch, name: str, slowdown: float
) -> None:
    scene = Scene(1.5)
    monkeypatch.setattr(clear_moments, "time", scene.clock)
    host = scene.host(1.0, quickest={"known": [1.25] * 4, "slower": [1.6] * 4})
    rounds = MonitoredRounds(host, name)
    assert rounds.slowdown == 1.0
    rounds.take(scene.round(QUIET))
    assert rounds.slowdown == pytest.approx(slowdown)


@pytest.mark.parametrize(
    ("path", "text", "hide"),
    [
        ("proc/cpuinfo", "processor : 0\nflags : fpu hypervisor sse\n", True),
        ("proc/cpuinfo", "processor : 0\nflags : fpu sse\n", False),
        ("proc/cpuinfo", "processor : 0\nFeatures : fp asimd\n", False),
        ("sys/hypervisor/type", "xen\n", True),
        ("sys/class/dmi/id/sys_vendor", "Amazon EC2\n", True),
        ("sys/class/dmi/id/sys_vendor", "Dell Inc.\n", False),
        ("proc/2/comm", "bash\n", True),
    ],
)
def test_virtual_machine_or_container_may_hide_others(
    tmp_path: Path, path: str, text: str, hide: bool
) -> None:
    """Processor, hypervisor or firmware show a virtual machine; a container sees no kernel threads."""
    for name, words in {"proc/2/comm": "kthreadd\n", path: text}.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(words)
    assert clear_moments.others_may_hide(Files(tmp_path)) is hide


def probing() -> set[int | None]:
    return {one.native_id for one in threading.enumerate() if one.name == "anubis-probe"}


def test_probe_runs_a_bound_thread_on_every_core() -> None:
    before = probing()
    probe = Probe()
    assert 0 < probe.read() < 10
    threads = probing() - before
    usable = os.sched_getaffinity(0)
    bound = [os.sched_getaffinity(thread) for thread in threads if thread is not None]
    assert all(len(cpus) == 1 for cpus in bound)
    assert len(bound) == min(len(usable), clear_moments.MAX_PROBED_CORES)
    assert set().union(*bound) <= usable
    assert probe.read() > 0


def test_probe_is_limited_and_survives_a_lost_core(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = probing()
    monkeypatch.setattr(clear_moments, "MAX_PROBED_CORES", 2)
    assert Probe(range(10_000, 10_005)).read() > 0
    assert len(probing() - before) == 2
