"""What the hardware reports while tests pass: in the journal with card and tests, and in the decision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pytest_anubis.cli.commands.sealing.sealed_evidence import inventories_of, unstated_fault
from pytest_anubis.cli.main import main as anubis
from pytest_anubis.core.events import (
    Event,
    HardwareFound,
    InventoryChanged,
    TestsPlanned,
    TestStarted,
)
from pytest_anubis.core.measurement import PlannedTest
from pytest_anubis.core.node_map import ModuleErrors
from pytest_anubis.core.run_state import RunState
from pytest_anubis.hardware.inventory.inventory_reading import read_inventory
from pytest_anubis.hardware.telemetry.card_facts import Fact
from pytest_anubis.hardware.telemetry.card_watch import CardWatch
from pytest_anubis.hardware.telemetry.kernel_log import KernelLog
from pytest_anubis.hardware.telemetry.telemetry_sampler import Telemetry
from pytest_anubis.session.context import RunContext, cards_of
from pytest_anubis.session.running import hardware_watch
from pytest_anubis.session.running.gate_plugin import Gate
from pytest_anubis.session.running.hardware_watch import HardwareWatch
from pytest_anubis.settings import Settings
from pytest_anubis.store.baselines.baseline_files import load_baseline, save_baseline
from tests.hardware.nvml_stand_in import Node
from tests.hardware.nvml_stand_in import nvml_node as nvml_node
from tests.run_journals import events_of, record_of
from tests.session.conftest import baseline_of_copies, set_default

ADDRESSES = ("0000:18:00.0", "0000:5d:00.0")
INVENTORY: dict[str, Any] = {
    "accelerators": [
        {"index": number, "vendor": "nvidia", "pci": address}
        for number, address in enumerate(ADDRESSES)
    ]
}


class RecordedWatch:
    """A watch whose events are collected; nothing of this machine is looked at."""

    def __init__(self, tmp_path: Path, devices: tuple[str, ...] = ("cuda:0", "cuda:1")) -> None:
        self.events: list[Event] = []
        self.state = RunState()
        tests = (("t[cuda:0]", "cuda:0"), ("t[cuda:1]", "cuda:1"), ("t_node", "node"))
        self.state.apply(
            TestsPlanned(tests=tuple(PlannedTest(test=t, device=device) for t, device in tests))
        )
        self.idle = idle = cast(
            Any,
            SimpleNamespace(
                start=lambda: None, look=lambda: None, finish=lambda: None, without_events={}
            ),
        )
        context = RunContext(settings=Settings(), inventory=INVENTORY, devices=devices)
        self.watch = HardwareWatch(
            context,
            self.state,
            self.events.append,
            log=KernelLog(tmp_path / "absent"),
            watch=idle,
        )

    def record(self, *facts: Fact, complete: bool = False) -> Sequence[HardwareFound]:
        self.events.clear()
        self.watch.record(facts, complete)
        return [event for event in self.events if isinstance(event, HardwareFound)]

    def ended(self, test: str) -> None:
        report: Any = SimpleNamespace(nodeid=test, when="teardown")
        self.watch.pytest_runtest_logreport(report)


ECC = Fact(sort="uncorrected-memory-error", name="ECC", text="1 error", part="GPU 1")


def test_finding_belongs_to_its_card_and_tests(tmp_path: Path) -> None:
    watched = RecordedWatch(tmp_path)
    watched.state.apply(TestStarted(test="t[cuda:0]"))
    watched.ended("t[cuda:1]")
    (event,) = watched.record(ECC, complete=True)
    assert (event.part, event.device) == ("GPU 1 (0000:5d:00.0)", "cuda:1")
    assert event.tests == ("t[cuda:1]",)
    # A complete look is behind it: what comes now came later.
    (event,) = watched.record(ECC)
    assert event.tests == ()


def test_late_driver_message_names_its_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = RecordedWatch(tmp_path)
    late = Fact(sort="xid-fault", name="XID 74", text="x", part="GPU 1", source="NVML event")
    watched.ended("t[cuda:1]")
    watched.record(complete=True)  # the counters are behind it, the driver's message is not yet out
    assert watched.record(ECC)[0].tests == ()
    assert watched.record(late)[0].tests == ("t[cuda:1]",)
    monkeypatch.setattr(hardware_watch, "LATE", -1.0)
    monkeypatch.setattr(hardware_watch, "EARLY", 0.0)
    assert watched.record(late)[0].tests == ()


def test_early_driver_message_waits_for_its_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = RecordedWatch(tmp_path)
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        watched.state.apply(TestStarted(test="t[cuda:1]"))

    monkeypatch.setattr(hardware_watch, "time", SimpleNamespace(sleep=sleep, monotonic=lambda: 0.0))
    early = Fact(sort="xid-fault", name="XID 74", text="x", part="GPU 1", source="NVML event")
    assert watched.record(early)[0].tests == ("t[cuda:1]",)
    assert watched.record(early)[0].tests == ("t[cuda:1]",)
    assert len(waits) == 1


def test_a_message_without_a_test_waits_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = RecordedWatch(tmp_path)
    waits: list[float] = []
    times = iter(range(1000))
    clock = SimpleNamespace(sleep=waits.append, monotonic=lambda: float(next(times)))
    monkeypatch.setattr(hardware_watch, "time", clock)
    alone = Fact(sort="xid-fault", name="XID 74", text="x", part="GPU 1", source="NVML event")
    for _ in range(5):
        assert watched.record(alone)[0].tests == ()
    assert len(waits) == 1


def test_a_card_whose_xids_nobody_hears_is_named(tmp_path: Path) -> None:
    watched = RecordedWatch(tmp_path)
    lines: list[str] = []
    terminal: Any = SimpleNamespace(write_line=lambda line, **_: lines.append(line))
    watched.watch.pytest_terminal_summary(terminal)
    assert lines == []
    watched.idle.without_events["GPU 1"] = "Not Supported (NVML error 3)"
    watched.watch.pytest_terminal_summary(terminal)
    (line,) = lines
    assert line.startswith("anubis: XIDs of GPU 1 (0000:5d:00.0) were not received")
    assert "Not Supported (NVML error 3)" in line


def test_a_test_of_the_whole_node_used_every_card(tmp_path: Path) -> None:
    watched = RecordedWatch(tmp_path)
    watched.state.apply(TestStarted(test="t_node"))
    assert watched.record(ECC)[0].tests == ("t_node",)


MODULE = ModuleErrors(module="DIMM_A1", errors=12, spread="row")


@pytest.mark.parametrize(
    ("place", "module", "device", "part"),
    [
        ("0000:5d:00", None, "cuda:1", "GPU 1 (0000:5d:00.0)"),
        ("00000000:5D:00.0", None, "cuda:1", "GPU 1 (0000:5d:00.0)"),
        ("0000:5d:00.0", None, "cuda:1", "GPU 1 (0000:5d:00.0)"),
        ("0000:05:00.0", None, "", "0000:05:00.0"),  # a switch
        ("DIMM_A1", MODULE, "", "DIMM_A1"),
    ],
)
def test_a_line_of_the_kernel_is_mapped_by_its_place(
    tmp_path: Path, place: str, module: ModuleErrors | None, device: str, part: str
) -> None:
    fact = Fact(sort="xid-fault", name="XID 79", text="x", place=place, module=module)
    (event,) = RecordedWatch(tmp_path).record(fact)
    assert (event.device, event.part, event.module) == (device, part, module)


def test_hidden_card_is_not_watched(tmp_path: Path) -> None:
    watched = RecordedWatch(tmp_path, devices=("cuda:0",))
    hidden = Fact(sort="xid-fault", name="XID 79", text="off the bus", place="0000:5d:00")
    assert watched.record(ECC, hidden) == []


def test_silent_library_matters_only_with_cards(tmp_path: Path) -> None:
    silent = Fact(sort="card-silent", name="error counters", text="no answer")
    assert len(RecordedWatch(tmp_path).record(silent)) == 1
    assert RecordedWatch(tmp_path, devices=("cpu",)).record(silent) == []


def test_amd_cards_are_known_by_address() -> None:
    cards = [
        {"index": 0, "vendor": "amd", "pci": "0000:c3:00.0"},
        {"index": 1, "vendor": "amd", "pci": "0000:0c:00.0"},
    ]
    context = RunContext(
        settings=Settings(), inventory={"accelerators": cards}, devices=("cuda:0", "cuda:1")
    )
    assert [(c.part, c.device, c.address) for c in cards_of(context)] == [
        ("GPU 1", "cuda:0", "0000:c3:00.0"),
        ("GPU 0", "cuda:1", "0000:0c:00.0"),
    ]


def test_unreadable_kernel_log_is_reported(tmp_path: Path) -> None:
    (line,) = RecordedWatch(tmp_path).watch.pytest_report_header()
    assert "No such file or directory: XIDs are taken from NVML's events" in line
    assert RecordedWatch(tmp_path, devices=("cpu",)).watch.pytest_report_header() == []


SUITE = """
import os, pathlib, time, pytest

@pytest.mark.anubis(component="accelerator.memory", scope="device")
def test_copy(anubis_metric, anubis_device):
    line = os.environ.get("FAULT_AT_" + anubis_device.name.replace(":", "_"))
    if line:
        with pathlib.Path(os.environ["ANUBIS_NVML_STATE"]).open("a") as state:
            state.write(line + "\\n")
    time.sleep(float(os.environ.get("LASTING_" + anubis_device.name.replace(":", "_"), "0")))
    anubis_metric.record("rate", [100.0] * 5, unit="GB/s", better="higher")
"""


@pytest.fixture
def node(
    pytester: pytest.Pytester, nvml_node: Node, monkeypatch: pytest.MonkeyPatch
) -> pytest.Pytester:
    """A suite, and the baseline of the stand-in node's class."""
    set_default(monkeypatch, CardWatch, "wait", 20)  # milliseconds until a watch can end
    pytester.makepyfile(test_suite=SUITE)
    baseline = baseline_of_copies(read_inventory())
    save_baseline(baseline, pytester.path / "baselines")
    return pytester


def run(pytester: pytest.Pytester, *more: str) -> pytest.RunResult:
    return pytester.runpytest("--anubis", "-p", "no:xdist", *more)


def reported(pytester: pytest.Pytester) -> list[dict[str, Any]]:
    return events_of(pytester, "hardware")


def test_a_healthy_node_of_eight_is_accepted(node: pytest.Pytester) -> None:
    result = run(node)
    result.assert_outcomes(passed=8)
    assert result.ret == 0
    assert reported(node) == []


@pytest.mark.parametrize(
    ("line", "said", "code"),
    [
        ("gpu3.ecc.uncorrected.volatile 1", "1 uncorrected memory error", 1),
        ("event 3 0x8 79", "XID 79: the card has fallen off the bus", 1),
        ("gpu3.lost 1", "the card is lost", 1),
        ("gpu3.remapped.pending 1", "a row remapping waits for a reset", 20),
    ],
)
def test_fault_during_the_run_decides(
    node: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, line: str, said: str, code: int
) -> None:
    monkeypatch.setenv("FAULT_AT_cuda_3", line)
    result = run(node, "--anubis-gate=continue")
    result.assert_outcomes(passed=8)
    assert result.ret == code
    (event,) = reported(node)
    assert event["device"] == "cuda:3"
    assert "test_suite.py::test_copy[cuda:3]" in event["tests"]
    result.stdout.fnmatch_lines([f"*GPU 3 (0000:61:00.0): {said}*while *test_copy?cuda:3? ran*"])


@pytest.mark.parametrize(
    ("hot", "bits", "said", "code"),
    [
        ((3,), 0x40, "thermal slowdown", 1),
        (range(8), 0x20, "thermal slowdown 100 % of the time", 20),
        ((3,), 0x88, "power brake", 1),
    ],
)
def test_clock_slowdown_decides(
    node: pytest.Pytester,
    nvml_node: Node,
    monkeypatch: pytest.MonkeyPatch,
    hot: Sequence[int],
    bits: int,
    said: str,
    code: int,
) -> None:
    nvml_node.set({f"gpu{card}.reasons": bits for card in hot})
    set_default(monkeypatch, Telemetry, "interval", 0.02)
    for card in hot:
        monkeypatch.setenv(f"LASTING_cuda_{card}", "0.6")
    result = run(node)
    result.assert_outcomes(passed=8)
    assert result.ret == code
    assert {event["device"] for event in reported(node)} == {f"cuda:{card}" for card in hot}
    result.stdout.fnmatch_lines([f"*GPU * {said}*"] * len(hot))


def test_driver_hang_leaves_the_node_undecided(
    node: pytest.Pytester, nvml_node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in (CardWatch, Telemetry):
        set_default(monkeypatch, kind, "deadline", 0.3)
    monkeypatch.setattr("pytest_anubis.session.running.gate_plugin.END_DEADLINE", 0.3)
    monkeypatch.setenv("FAULT_AT_cuda_3", "gpu3.hang.nvmlDeviceGetFieldValues 60")
    result = run(node)
    result.assert_outcomes(passed=8)
    assert result.ret == 20
    result.stdout.fnmatch_lines(["*the driver's library did not answer within 0.3 s*"])


def test_measuring_run_prints_hardware_reports(
    node: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULT_AT_cuda_3", "gpu3.ecc.uncorrected.volatile 1")
    result = run(node, "--anubis-mode=measure")
    said = "GPU 3 (0000:61:00.0): 1 uncorrected memory error; nothing is learned from this run"
    result.stdout.fnmatch_lines([f"anubis: the hardware reported: {said}"])


def test_hardware_reports_are_in_the_journal(
    node: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FAULT_AT_cuda_3", "gpu3.ecc.uncorrected.volatile 1")
    run(node)
    capsys.readouterr()
    assert anubis(["report"]) == 0
    assert "GPU 3 (0000:61:00.0): 1 uncorrected memory error" in capsys.readouterr().out
    assert anubis(["judge", ".anubis/runs", "--baseline", "baselines"]) == 1
    assert "GPU 3 (0000:61:00.0): 1 uncorrected memory error" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "said", "code"),
    [
        ("gpu3.pcie.width 8", "PCIe link width", 1),
        ("gpu3.nvlink.7.state 0", "number of NVLinks that are up", 1),
        ("gpu3.mode 0", "", 0),
    ],
)
def test_the_gate_runs_again_at_the_end(
    node: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, line: str, said: str, code: int
) -> None:
    monkeypatch.setenv("FAULT_AT_cuda_3", line)
    result = run(node)
    result.assert_outcomes(passed=8)
    assert result.ret == code
    if said:
        result.stdout.fnmatch_lines([f"*at the end of the run: GPU 3 (0000:61:00.0): {said}*"])
    # Whoever decides anew finds the same.
    record = record_of(node)
    assert any(isinstance(event, InventoryChanged) for event in record.events) == bool(said)
    baseline = load_baseline(next(node.path.glob("baselines/*.json")))
    found = inventories_of(record)
    assert unstated_fault(record, found, baseline) == ""
    fault = unstated_fault(replace(record, verdicts=()), found, baseline)
    assert said in fault
    assert bool(fault) == bool(said)


def test_gate_checks_again_before_the_watch_ends(
    node: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []

    def noted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def inner(*arguments: Any, **named: Any) -> Any:
            order.append(name)
            return call(*arguments, **named)

        return inner

    monkeypatch.setattr(f"{Gate.__module__}.read_inventory", noted("gate", read_inventory))
    monkeypatch.setattr(CardWatch, "finish", noted("watch", CardWatch.finish))
    assert run(node).ret == 0
    assert order == ["gate", "watch"]


def test_a_gate_that_is_off_stays_off_at_the_end(
    node: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULT_AT_cuda_3", "gpu3.pcie.width 8")
    assert run(node, "--anubis-gate=off").ret == 0
