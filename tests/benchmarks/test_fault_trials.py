"""Trials of faults that take time: one baseline, in turns, kept in a file and gone on with."""

from __future__ import annotations

import json
import platform
import random
import re
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.suites.faults import speed, table
from benchmarks.suites.faults.kernels import Kernel
from pytest_anubis.benchmarking.shaped_link import NotPossible
from pytest_anubis.hardware.load.clear_moments import HostMonitor
from pytest_anubis.hardware.load.kernel_counters import Counts, KernelCounters
from pytest_anubis.hardware.round_plans import PLANS
from pytest_anubis.session.measuring import attempts
from pytest_anubis.session.measuring.recorder import Recorder


class Still(KernelCounters):
    """A kernel that sees nobody."""

    def __init__(self) -> None:
        super().__init__(list)

    def read(self) -> Counts:
        return Counts()

    def renew(self) -> None:
        pass


class Machine:
    """Two kernels, one of which a fault makes slower; every measurement and every fault is noted."""

    def __init__(self) -> None:
        self.slow: dict[str, float] = {}
        self.done: list[str] = []
        self.taken = 0
        self.draw = random.Random("trials")
        self.noise = 0.0  # between the runs of gemm: evenly up to this much longer
        self.pace = 1.0
        self.probe = 1e-3

    def host(
        self, best: float = 0.0, quickest: Mapping[str, Sequence[float]] | None = None
    ) -> HostMonitor:
        return HostMonitor(
            list, best, probe=lambda: self.probe, counters=Still(), shared=True, quickest=quickest
        )

    def kernel(self, name: str) -> Kernel:
        def value() -> float:
            slow = self.slow.get(name, 1.0) * (self.pace if name == "gemm" else 1.0)
            return self.draw.gauss(1.0, 0.01) / slow

        class Noted(Kernel):
            def measure(kernel, recorder: Recorder) -> None:  # noqa: N805 - this one is the machine
                self.taken += 1
                self.pace = self.draw.uniform(1.0, 1.0 + self.noise)
                super().measure(recorder)

        return Noted(value, timed=False)

    def kernels(
        self, wanted: Collection[str], stack: ExitStack
    ) -> tuple[dict[str, Kernel], list[str]]:
        return {name: self.kernel(name) for name in ("gemm", "link") if name in wanted}, []

    def fault(self, name: str, slow: str = "", times: float = 1.0) -> Callable[[], Any]:
        @contextmanager
        def there() -> Iterator[None]:
            self.done.append(name)
            if name == "no disk":
                raise NotPossible("no control group")
            self.slow = {slow: times}
            try:
                yield
            finally:
                self.slow = {}

        return there


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    rows = {
        "nothing": speed.Slowdown(made.fault("nothing"), (), ("gemm", "link")),
        "busy": speed.Slowdown(made.fault("busy", "gemm", 2.0), ("gemm",), ("link",)),
        "blamed": speed.Slowdown(made.fault("blamed", "link", 2.0), ("gemm",), ("link",)),
        "no disk": speed.Slowdown(made.fault("no disk"), ("gemm",), ()),
    }
    for place in (speed, table):
        monkeypatch.setattr(place, "SLOWDOWNS", rows)
    monkeypatch.setattr(table, "ALL", tuple(rows))
    monkeypatch.setattr(speed, "ALL_KERNELS", ("gemm", "link"))
    monkeypatch.setattr(speed, "kernels", made.kernels)
    monkeypatch.setattr(speed, "this_host", made.host)
    monkeypatch.setattr(attempts, "LOOK_PAUSE", 0.0)
    monkeypatch.setitem(PLANS, "smoke", replace(PLANS["smoke"], budget_seconds=0.05))
    for place in (speed, table):
        clock = SimpleNamespace(sleep=lambda _: None, monotonic=lambda: 0.0)
        monkeypatch.setattr(place, "time", clock)
    return made


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = table.main("", [*arguments])
    said = capsys.readouterr()
    sys.stdout.write(said.out + said.err)
    return status, " ".join(said.out.split())


def test_faults_take_turns_and_each_row_says_who_found_it(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    status, said = told(capsys, "--trials", "3", "--learn", "8")
    assert machine.done == [
        "nothing",
        "busy",
        "blamed",
        "no disk",
        *["nothing", "busy", "blamed"] * 2,
    ]
    assert "nothing - - all of them 0/3" in said
    assert "busy gemm 3 3/3 link 0/3" in said
    assert "blamed gemm 0 0/3 link 3 3/3" in said
    assert "no disk not possible here: no control group" in said
    assert status == 1, "one was missed and an innocent blamed"


def test_trials_are_gone_on_with_and_nothing_is_learned_twice(
    machine: Machine, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    state = tmp_path / "trials"
    given = ["--state", str(state), "--learn", "8", "--only"]
    assert told(capsys, "--trials", "1", *given, "busy")[0] == 0
    with state.open("a", encoding="utf-8") as file:
        file.write('{"fault": "busy", "fai')  # cut off in the middle
    machine.taken = 0
    status, said = told(capsys, "--trials", "2", *given, "busy", "nothing")
    assert status == 0
    assert machine.done == ["busy", "nothing", "nothing", "busy"], "the first was not repeated"
    assert "busy gemm 2 2/2" in said
    assert "nothing - - all of them 0/2" in said, (
        "the link was learned, too, though busy alone was asked for"
    )
    assert machine.taken < 8 * 2, "less than learning takes"
    kept = [json.loads(line) for line in state.read_text(encoding="utf-8").splitlines()]
    assert [one.get("fault") for one in kept] == [None, "busy", "nothing", "nothing", "busy"]


def test_end_of_the_time_leaves_trials_and_says_how_to_go_on(
    machine: Machine, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    status, said = told(
        capsys, "--for", "0s", "--state", str(tmp_path / "trials"), "--trials", "2", "--learn", "8"
    )
    assert status == table.LEFT
    assert "the same command with the same --state goes on" in said
    assert machine.done == []


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("no JSON", "no trials of this script"),
        ('{"fault": "unavailable_vendors of", "failed": []}', "no trials of this script"),
        ('{"machine": "elsewhere", "baseline": {}}', "of machine elsewhere, this is another one"),
        (
            json.dumps({"machine": platform.node(), "baseline": {}, "runs": []}),
            "of an earlier version",
        ),
    ],
)
def test_file_of_something_else_is_refused(
    machine: Machine, capsys: pytest.CaptureFixture[str], tmp_path: Path, line: str, why: str
) -> None:
    state = tmp_path / "trials"
    state.write_text(line + "\n", encoding="utf-8")
    with pytest.raises(SystemExit):
        table.main("", ["--state", str(state)])
    assert why in capsys.readouterr().err
    assert state.read_text(encoding="utf-8") == line + "\n"


def test_somebody_on_the_cores_is_found_where_it_is_said_and_nothing_is_judged(
    machine: Machine, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    @contextmanager
    def stranger() -> Iterator[None]:
        machine.slow, machine.probe = {"gemm": 2.0}, 2e-3
        yield
        machine.slow, machine.probe = {}, 1e-3

    row = speed.Slowdown(stranger, ("gemm", "disk"), ("link",), disturbs=True)
    speed.SLOWDOWNS["busy"] = row
    given = ["--learn", "8", "--only", "busy", "--state", str(tmp_path / "trials")]
    status, said = told(capsys, "--trials", "1", *given)
    assert "busy gemm 0 (1 not clear), disk - 1/1 link (1 not clear) 0/1" in said
    assert status == 0
    speed.SLOWDOWNS["busy"] = replace(row, disturbs=False)
    status, said = told(capsys, "--trials", "2", *given)  # by what the file keeps of the first one
    assert "busy gemm 0 (2 not clear), disk - 0/2 link (2 not clear) 0/2" in said
    assert status == 1


def test_machine_that_others_have_all_the_time_teaches_nothing(
    machine: Machine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Still, "read", lambda _: Counts(others=time.perf_counter()))
    status, said = told(capsys, "--trials", "1", "--learn", "2")
    assert status == table.LEFT
    assert "nothing to learn from" in said
    assert machine.done == []


def test_what_would_fail_is_visited_again_and_passes_where_it_is_quick_then(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = machine.kernels(("gemm", "link"), ExitStack())[0]
    judge = speed.Judge(there, speed._learned(there, machine.host(), 8), machine.host())
    machine.slow, machine.taken = {"gemm": 2.0}, 0
    assert judge.trial(["gemm", "link"]).failed == {"gemm"}
    assert machine.taken == 3, "gemm twice"
    kernel = there["gemm"]
    visits: list[Recorder] = []

    def quick_then(recorder: Recorder) -> None:
        machine.slow = {"gemm": 1.0 if visits else 1.3}
        visits.append(recorder)
        Kernel.measure(kernel, recorder)

    monkeypatch.setattr(type(kernel), "measure", lambda _, recorder: quick_then(recorder))
    trial = judge.trial(["gemm"])
    assert len(visits) == 2
    assert trial == speed.Trial(frozenset(), frozenset())


def test_what_is_too_noisy_to_show_a_half_is_judged_by_its_coarse_criterion(
    machine: Machine, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    machine.noise = 3.0
    rows = speed.SLOWDOWNS
    rows["busy"] = speed.Slowdown(machine.fault("busy", "gemm", 30.0), ("gemm",), ("link",))
    given = ["--state", str(tmp_path / "trials"), "--learn", "8", "--only", "busy", "nothing"]
    for trials in ("1", "2"):  # the second time by what the file keeps
        status, said = told(capsys, "--trials", trials, *given)
        assert re.search(r"the loss that each finds: gemm [5-9]\d%, link \d%", said)
        assert f"busy gemm {trials} {trials}/{trials} link 0/{trials}" in said
        assert f"nothing - - all of them 0/{trials}" in said
        assert status == 0
