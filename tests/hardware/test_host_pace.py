"""Probes run in turns with the rounds, never within one, and what they took stands beside every value."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from pytest_anubis.hardware import host_pace
from pytest_anubis.hardware.host_pace import PROBES, SHARE, STALE, WAITING, Pacer, kinds_for
from pytest_anubis.hardware.round_plans import RoundPlan
from pytest_anubis.hardware.text_files import Files
from pytest_anubis.hardware.timing import rounds

PLAN = RoundPlan(rounds=6, round_seconds=0.02, warmup_seconds=0, budget_seconds=9, bursts=2)


class Scene:
    """A clock that work and probes move, and the order in which they ran."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, probe: float = 0.001) -> None:
        self.now, self.order, self.probe = 0.0, "", probe
        monkeypatch.setattr(host_pace, "PROBES", {"compute": self._made, "disk": self._no})
        monkeypatch.setattr(host_pace, "READINGS", 1)

    def _made(self, *_: object) -> Callable[[], None]:
        return self._probe

    def _probe(self) -> None:
        self.now += self.probe
        self.order += "p"

    def _no(self, *_: object) -> Callable[[], None]:
        raise OSError("no disk here")

    def work(self) -> list[float]:
        self.now += 0.02
        self.order += "w"
        return [1.0]

    def clock(self) -> float:
        return self.now


def test_probes_stand_between_the_rounds_and_their_mean_beside_the_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(monkeypatch)
    pacer = Pacer(["compute", "disk"], scene.clock)  # a kind that this host has not is left out
    take = pacer.between(scene.work)
    scene.order = ""
    take()
    scene.probe = 0.003
    take()
    assert dict(pacer.taken(2)) == {"compute": pytest.approx((0.001, 0.002))}
    assert scene.order == "pwppwp"  # 8 % of 20 ms: two probes of 1 ms, then one of 3 ms
    assert pacer.taken(0) == ()


def test_what_was_read_before_a_pause_says_nothing_about_what_follows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(monkeypatch)
    pacer = Pacer(["compute"], scene.clock)
    take = pacer.between(scene.work)
    take()
    scene.now += 2 * STALE
    scene.probe, scene.order = 0.004, ""
    take()
    assert scene.order == "pwp"
    assert dict(pacer.taken(2)) == {"compute": pytest.approx((0.001, 0.004))}
    take()
    assert pacer.taken(3) == ()  # of another number of values: they belong to none


def test_every_gap_has_several_readings_and_their_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, probe=0.004)
    monkeypatch.setattr(host_pace, "READINGS", 4)
    pacer = Pacer(["compute"], scene.clock)
    take = pacer.between(scene.work)
    scene.order = ""
    take()
    take()
    assert scene.order == "ppppwppppwpppp"


@pytest.mark.parametrize(("probe", "order"), [(0.5, "pwp"), (0.011, "ppwpp")])
def test_readings_that_others_hold_up_take_no_longer_than_a_short_round(
    monkeypatch: pytest.MonkeyPatch, probe: float, order: str
) -> None:
    scene = Scene(monkeypatch, probe)
    monkeypatch.setattr(host_pace, "READINGS", 4)
    pacer = Pacer(["compute"], scene.clock)
    take = pacer.between(scene.work)
    scene.order = ""
    take()
    assert scene.order == order
    assert dict(pacer.taken(1)) == {"compute": pytest.approx((probe,))}


def test_probe_of_the_network_stays_on_one_cpu_and_gives_it_back() -> None:
    before = os.sched_getaffinity(0)
    with ExitStack() as opened:
        PROBES["network"](opened, None)()
    assert os.sched_getaffinity(0) == before
    with host_pace._on_the_last_cpu():
        assert os.sched_getaffinity(0) == {max(before)}


def test_probe_that_fails_on_the_way_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch)
    probes, fails = dict(host_pace.PROBES), [False]

    def full() -> None:
        if fails[0]:
            raise OSError("no space left on device")

    monkeypatch.setattr(host_pace, "PROBES", {**probes, "disk": lambda *_: full})
    pacer = Pacer(["compute", "disk"], scene.clock)
    take = pacer.between(scene.work)
    take()
    fails[0] = True
    assert take() == [1.0]  # the measurement goes on
    assert [kind for kind, _ in pacer.taken(2)] == ["compute"]
    fails[0] = False
    pacer.between(scene.work)()
    assert [kind for kind, _ in pacer.taken(1)] == ["compute"]  # and nobody tries again


def test_probe_of_the_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    with ExitStack() as opened:
        reach = PROBES["disk"](opened, tmp_path)
        assert list(tmp_path.iterdir()) == []  # nothing is left behind, whoever is killed
        for _ in range(host_pace.ON_DISK // host_pace.BLOCK + 1):
            reach()
    assert list(tmp_path.iterdir()) == []
    assert "disk" in kinds_for(["disk"])
    assert "disk" not in kinds_for(["cpu"])


def test_probes_beside_long_rounds_cost_less_than_a_tenth(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, probe=0.0002)
    pacer = Pacer(["compute"], scene.clock)
    take = pacer.between(scene.work)
    begin = scene.now
    for _ in range(50):
        take()
    assert scene.now - begin < 50 * 0.02 * 1.1
    assert SHARE < 0.1


def test_timed_rounds_hold_no_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch)
    inside = []

    def clock(fn: object, calls: int) -> float:
        before = scene.order
        scene.work()
        inside.append(scene.order[len(before) :])
        return 0.02 * calls

    pacer = Pacer(["compute"], scene.clock)
    values = rounds(lambda: None, clock, PLAN, 1, pacer)
    assert len(values) == 6
    assert set(inside) == {"w"}
    [(kind, seconds)] = pacer.taken(6)
    assert (kind, len(seconds)) == ("compute", 6)


def schedstat(root: Path, thread: str, ran: float, waited: float) -> None:
    folder = root / "proc/self/task" / thread
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "schedstat").write_text(f"{int(ran * 1e9)} {int(waited * 1e9)} 7\n")
    (folder / "children").write_text("")


def test_waiting_is_what_the_kernel_says_that_threads_waited_and_others_stole(
    tmp_path: Path,
) -> None:
    schedstat(tmp_path, "1", 1.0, 0.5)
    schedstat(tmp_path, "2", 1.0, 0.0)
    (tmp_path / "proc/stat").write_text("cpu  1 2 3 4 5 6 7 0 0 0\n")

    def busy() -> list[float]:
        schedstat(tmp_path, "1", 2.0, 1.0)
        (tmp_path / "proc/stat").write_text(f"cpu  1 2 3 4 5 6 7 {int(0.5 / host_pace.TICK)} 0 0\n")
        return [1.0, 2.0]

    pacer = Pacer([WAITING], files=Files(tmp_path))
    assert pacer.between(busy)() == [1.0, 2.0]
    assert pacer.taken(2) == ((WAITING, (2.0, 2.0)),)  # one second ran, one was lost


def test_without_the_kernels_account_nothing_is_said(tmp_path: Path) -> None:
    pacer = Pacer([WAITING], files=Files(tmp_path))
    assert pacer.between(lambda: [1.0])() == [1.0]
    assert pacer.taken(1) == ()


def test_every_probe_runs_here() -> None:
    pacer = Pacer(kinds_for(["network"]))
    pacer.between(lambda: [1.0])()
    found = dict(pacer.taken(1))
    assert {"compute", "memory", "network"} <= found.keys() <= {*PROBES, WAITING}
    assert all(seconds[0] > 0 for seconds in found.values())
    pacer.close()
    assert "network" not in kinds_for(())
