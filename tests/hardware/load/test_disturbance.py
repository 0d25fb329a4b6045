"""Test what counts as a disturbance: the load of others, never our own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_anubis.core.waiving import LIMITS
from pytest_anubis.hardware.cgroup import Throttling
from pytest_anubis.hardware.load.disturbance import (
    HostWatch,
    OthersActivity,
    compare,
    disturbances,
    processes_named,
)
from pytest_anubis.hardware.load.host_load import TICK, Load, LoadReader
from pytest_anubis.hardware.load.process_load import ProcessTime, Snapshot
from pytest_anubis.hardware.text_files import Files
from pytest_anubis.options import QUIET_LIMITS
from tests.hardware.fake_files import lay_out

BEGIN = Load(
    when=100.0,
    busy=50.0,
    steal=5.0,
    own=10.0,
    kernel=1.0,
    stalls={"cpu some": 3.0, "memory some": 0.0, "io some": 1.0},
    throttling=Throttling(4, 2.0),
    disk=1 << 30,
    own_disk=1 << 20,
)
QUIET = OthersActivity(seconds=1.0, cpus=2, pressure={})


def after(seconds: float = 1.0, **grown: float) -> Load:
    """The reading `seconds` later with some counters grown."""
    stalls = {k: v + grown.pop(k.replace(" ", "_"), 0.0) for k, v in BEGIN.stalls.items()}
    times = int(grown.pop("throttled", 0))
    changed = {name: getattr(BEGIN, name) + by for name, by in grown.items()}
    return replace(
        BEGIN,
        when=BEGIN.when + seconds,
        stalls=stalls,
        throttling=Throttling(4 + times, 2.0 + times / 10),
        **changed,
    )


def phrases(end: Load, quota: float | None = None) -> tuple[str, ...]:
    return disturbances(compare(BEGIN, end, cpus=2, quota=quota))


def test_nothing_happened_is_quiet() -> None:
    assert phrases(after()) == ()


@given(
    own=st.floats(0, 64),
    stalls=st.floats(0, 1),
    kernel=st.floats(0, 2),
    bytes_=st.integers(0, 1 << 40),
    seconds=st.floats(0.05, 3600),
)
def test_own_load_is_never_a_disturbance(
    own: float, stalls: float, kernel: float, bytes_: int, seconds: float
) -> None:
    end = after(
        seconds,
        own=own * seconds,
        busy=(own + kernel) * seconds,
        kernel=kernel * seconds,
        cpu_some=stalls * seconds,
        io_some=stalls * seconds,
        disk=bytes_,
        own_disk=bytes_,
    )
    assert phrases(end) == ()


def test_busy_strangers_are_named_with_their_share() -> None:
    end = after(2.0, busy=3.0, own=1.2)
    assert phrases(end) == ("other processes used 0.9 of 2 cores",)


def test_waiting_because_of_strangers_is_pressure() -> None:
    end = after(10.0, busy=8.0, own=6.5, cpu_some=3.4)
    assert phrases(end) == ("CPU pressure 34 %",)


def test_pressure_uses_the_times_of_stall_readings() -> None:
    # The second reading took half a second to get from the clock to the stalls.
    late = replace(after(1.0, busy=1.5, cpu_some=1.5), stalls_when=BEGIN.when + 1.5)
    assert compare(BEGIN, late, cpus=2).pressure["cpu some"] == pytest.approx(1.0)
    # And the kernel's own sum is by other clocks than ours.
    assert phrases(after(1.0, busy=1.5, cpu_some=1.02, memory_some=1.4))[1:] == (
        "CPU pressure 100 %",
        "memory pressure 100 %",
    )


def with_processes(load: Load, seconds: float, **used: float) -> Load:
    found = {
        number: ProcessTime(name, 1, 1.0, total, 0.0)
        for number, (name, total) in enumerate(used.items(), start=11)
    }
    return replace(load, processes=Snapshot(100.0 + seconds, found))


@pytest.mark.parametrize(
    ("allowed", "limits", "expected"),
    [
        ((), {}, ("other processes used 1.3 of 2 cores: burn (pid 12) 0.9, kubelet (pid 11) 0.4",)),
        (("kube*",), {}, ("other processes used 0.9 of 2 cores: burn (pid 12) 0.9",)),
        (("burn", "kubelet"), {}, ()),
        ((), {"others": 0.7}, ()),
    ],
)
def test_disturbances_name_processes_unless_allowed(
    allowed: tuple[str, ...], limits: dict[str, float], expected: tuple[str, ...]
) -> None:
    begin = with_processes(BEGIN, 0.0, kubelet=3.0, burn=5.0)
    end = with_processes(after(2.0, busy=2.62), 2.0, kubelet=3.8, burn=6.8)
    assert disturbances(compare(begin, end, cpus=2, allowed=allowed), limits) == expected


def test_processes_that_phrases_name_can_be_typed() -> None:
    phrases = [
        "12 % steal",
        "other processes used 0.9 of 2 cores: a b (pid 7) 0.5, stress (pid 8) 0.4",
    ]
    assert processes_named([*phrases, "CPU pressure 23 %: stress (pid 9) 0.4"]) == ("a?b", "stress")


def test_every_limit_can_be_set() -> None:
    assert tuple(LIMITS) == QUIET_LIMITS


def test_one_tick_per_cpu_is_no_evidence() -> None:
    assert phrases(after(0.02, busy=2 * TICK, cpu_some=0.01)) == ()


def test_steal_is_a_share_of_the_time_that_was_wanted() -> None:
    assert phrases(after(10.0, busy=0.88, own=0.88, steal=0.12)) == ("12 % steal",)
    assert phrases(after(10.0, busy=10.0, own=10.0, steal=0.12)) == ()


def test_one_stolen_tick_when_idle_is_ignored() -> None:
    assert phrases(after(10.0, busy=0.01, own=0.01, steal=0.02)) == ()


@pytest.mark.parametrize(
    ("grown", "expected"),
    [
        ({"throttled": 7}, ("CPU quota of 0.5 cores, stopped 7 times",)),
        ({"throttled": 1}, ("CPU quota of 0.5 cores, stopped once",)),
        # The period's end, at which the kernel counts, may lie behind the measurement's end.
        ({"own": 0.45, "busy": 0.45}, ("CPU quota of 0.5 cores",)),
        ({"own": 0.1, "busy": 0.1}, ()),
    ],
)
def test_quota_counts_when_it_stopped_us_or_may_have(
    grown: dict[str, float], expected: tuple[str, ...]
) -> None:
    assert phrases(after(1.0, **grown), quota=0.5) == expected


def test_quota_above_the_usable_cores_is_no_limit() -> None:
    assert phrases(after(1.0, own=2.0, busy=2.0), quota=2.0) == ()


def test_quota_without_throttling_counts_is_named() -> None:
    begin = replace(BEGIN, throttling=None)
    found = compare(begin, replace(begin, when=101.0), cpus=2, quota=0.5)
    assert disturbances(found) == ("CPU quota of 0.5 cores",)


def test_memory_pressure_counts_whoever_causes_it() -> None:
    assert phrases(after(1.0, memory_some=0.2)) == ("memory pressure 20 %",)


def test_disk_traffic_of_others_counts_with_our_own() -> None:
    both = after(1.0, io_some=0.5, disk=100 << 20, own_disk=40 << 20)
    assert phrases(both) == ("I/O pressure 50 %, 60 % of the disk traffic from others",)
    assert phrases(after(1.0, io_some=0.5, disk=100 << 20)) == ()


def test_absent_counters_are_absent_data() -> None:
    nothing = Load(when=0.0, stalls={})
    found = compare(nothing, replace(nothing, when=1.0), cpus=2)
    assert (found.steal, found.others, found.own, found.throttled) == (None, None, None, None)
    assert disturbances(found) == ()


@given(
    steal=st.none() | st.floats(0, 1),
    others=st.none() | st.floats(0, 99),
    some=st.floats(0, 1),
    throttled=st.none() | st.integers(0, 99),
    quota=st.none() | st.floats(0.01, 99),
)
def test_more_load_never_removes_a_disturbance(
    steal: float | None,
    others: float | None,
    some: float,
    throttled: int | None,
    quota: float | None,
) -> None:
    found = replace(
        QUIET,
        steal=steal,
        others=others,
        pressure={"cpu some": some},
        throttled=throttled,
        quota=quota,
    )
    worse = replace(
        found,
        steal=min(1.0, (steal or 0) + 0.1),
        others=(others or 0) + 1.0,
        pressure={"cpu some": min(1.0, some + 0.2)},
    )
    assert len(disturbances(worse)) >= len(disturbances(found))


STAT = "cpu  {user} 0 100 9000 0 50 60 {steal} 0 0\ncpu0 1 2 3\n"


def process(pid: int, times: tuple[int, int, int, int], children: str = "") -> dict[str, str]:
    before = "S 1 1 1 0 -1 4194560 1 1 1 1"
    base = f"/proc/{pid}"
    return {
        f"{base}/stat": f"{pid} (a (strange) name) {before} {' '.join(map(str, times))} 20 0 1 0 7 0 0",
        f"{base}/task/{pid}/children": children,
        f"{base}/io": "read_bytes: 10\nwrite_bytes: 5\ncancelled_write_bytes: 99\n",
    }


def test_counters_are_read_from_proc(tmp_path: Path) -> None:
    root = 4_000_001  # no process of this machine
    files = {
        "/proc/stat": STAT.format(user=400, steal=7),
        "/proc/loadavg": "0.10 0.20 0.30 3/94 5583\n",
        "/proc/pressure/cpu": "some avg10=5.22 avg60=4.41 avg300=1.48 total=2500000\n",
        "/proc/pressure/io": "some avg10=0 total=10\nfull avg10=0 total=4\n",
        "/proc/2/comm": "kthreadd\n",
        "/proc/2/task/2/children": "77 78 79 ",
        "/proc/diskstats": (
            " 254 0 vda 1 0 100 0 1 0 20 0 0\n 254 1 vda1 1 0 100 0 1 0 20 0 0\n"
            " 253 0 dm-0 1 0 100 0 1 0 20 0 0\n   7 0 loop0 1 0 100 0 1 0 20 0 0\n"
        ),
        "/sys/block/vda/size": "1",
        "/sys/block/dm-0/size": "1",
        "/sys/block/loop0/size": "1",
        **process(root, (100, 50, 30, 20), children=f"{root + 1} "),
        **process(root + 1, (7, 3, 0, 0), children=f"{root + 2} {root + 9}"),
        **process(root + 2, (1, 1, 0, 0)),
        **process(77, (40, 2, 0, 0)),
        **process(78, (0, 8, 0, 0)),
        "/proc/79/stat": "79 (ksoftirqd/1) S 2 0 0 0 -1 1 1 1 1 1 500 500 0 0",
    }
    load = LoadReader(Files(lay_out(tmp_path, files)), root=root).read()
    assert load.busy == pytest.approx(500 * TICK)
    assert load.steal == pytest.approx(7 * TICK)
    assert load.own == pytest.approx((200 + 10 + 2) * TICK)
    assert load.kernel == pytest.approx(50 * TICK)
    assert load.stalls == pytest.approx({"cpu some": 2.5, "io some": 1e-5, "io full": 4e-6})
    assert load.disk == 120 * 512
    assert load.own_disk == 45


def test_machine_without_proc_has_only_a_clock(tmp_path: Path) -> None:
    load = LoadReader(Files(tmp_path), root=4_000_001).read()
    assert load == Load(when=load.when, stalls={})


def test_process_2_of_a_container_is_not_the_kernel(tmp_path: Path) -> None:
    files = {"/proc/2/comm": "sleep", "/proc/2/task/2/children": "77", **process(77, (9, 9, 0, 0))}
    assert LoadReader(Files(lay_out(tmp_path, files)), root=4_000_001).read().kernel is None


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux's /proc")
def test_children_and_their_children_are_our_own() -> None:
    code = (
        "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', 'input()']);"
        "print(p.pid, flush=True); p.wait()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout
        grandchild = child.stdout.readline().strip()
        tree = LoadReader().tree()
        child.communicate("\n")
    assert {str(os.getpid()), str(child.pid), grandchild} <= set(tree)
    assert str(os.getppid()) not in tree


class Script(LoadReader):
    """Answers with prepared readings."""

    def __init__(self, *loads: Load, quota: float | None = None) -> None:
        self.loads = list(loads)
        self.quota = quota

    def read(self) -> Load:
        return self.loads.pop(0)


def test_watch_compares_first_and_last_reading() -> None:
    watch = HostWatch(reader=Script(BEGIN, after(1.0, throttled=2), quota=0.01))
    before = watch.disturbance
    with watch:
        pass
    assert (before, watch.disturbance) == ((), ("CPU quota of 0.01 cores, stopped 2 times",))


def test_failed_measurement_is_compared_too() -> None:
    watch = HostWatch(reader=Script(BEGIN, after()))
    with pytest.raises(RuntimeError, match="broken"), watch:
        raise RuntimeError("broken")
    assert watch.found is not None


def test_real_machine_can_be_watched() -> None:
    with HostWatch() as watch:
        sum(range(1000))
    assert watch.found
    assert watch.found.cpus >= 1
    assert all(isinstance(phrase, str) for phrase in watch.disturbance)
