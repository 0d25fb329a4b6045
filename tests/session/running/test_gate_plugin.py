"""The inventory gate as a user meets it, on a recorded node."""

from __future__ import annotations

import dataclasses
import json
import xml.etree.ElementTree as ET  # reads what pytest wrote a moment ago

import pytest

from pytest_anubis.core.verdict import Outcome
from pytest_anubis.hardware.inventory.golden_inventory import golden_inventory
from pytest_anubis.hardware.inventory.inventory_reading import inventory_to_plain
from pytest_anubis.hardware.telemetry.recorded_node import replay
from pytest_anubis.report.pages.dossier import run_page
from pytest_anubis.store.baselines.baseline_files import load_baseline, save_baseline
from tests.places import RECORDED
from tests.run_journals import events_of, journal_of, record_of
from tests.session.conftest import COPIES, baseline_of_copies


@pytest.fixture
def eight(pytester: pytest.Pytester) -> pytest.Pytester:
    """A suite, a recorded 8-GPU node, and its class's baseline with a golden inventory."""
    pytester.makepyfile(test_suite=COPIES)
    inventory = replay(RECORDED).inventory
    baseline = baseline_of_copies(inventory)
    golden = inventory_to_plain(golden_inventory([inventory] * 3))
    save_baseline(dataclasses.replace(baseline, inventory=golden), pytester.path / "baselines")
    (pytester.path / "node.json").write_text(RECORDED.read_text())
    return pytester


def change(pytester: pytest.Pytester, edit: object) -> None:
    path = pytester.path / "node.json"
    data = json.loads(path.read_text())
    assert callable(edit)
    edit(data["inventory"])
    path.write_text(json.dumps(data))


def run(pytester: pytest.Pytester, *more: str) -> pytest.RunResult:
    arguments = ("--anubis", "--anubis-inventory=node.json", "-p", "no:xdist", *more)
    return pytester.runpytest(*arguments)


@pytest.mark.parametrize("arguments", [(), ("-v",)])
def test_that_the_gate_stopped_the_run_is_one_line(
    eight: pytest.Pytester, arguments: tuple[str, ...]
) -> None:
    change(eight, lambda inventory: inventory["accelerators"].pop(3))
    result = run(eight, "--html=page.html", "--self-contained-html", *arguments)
    said = "the gate stopped the run before anything was measured; 7 tests never ran"
    result.stdout.fnmatch_lines([f"*{said}"])
    page = (eight.path / "page.html").read_text(encoding="utf-8")
    record = record_of(eight)
    assert record.node_verdict is not None
    assert [one.cause for one in record.node_verdict.blocking if "gate" in one.cause] == [said]
    assert [v.outcome for v in record.verdicts if not v.metric] == [Outcome.NOT_TESTED] * 7
    for text in (
        result.stdout.str(),
        page,
        run_page(record),
        *map(str, record.node_verdict.blocking),
    ):
        assert "never reported" not in text
        assert "NOT_TESTED test_" not in text


def test_the_gate_can_let_the_run_continue(eight: pytest.Pytester) -> None:
    change(eight, lambda inventory: inventory["accelerators"][2].update(link_width=8))
    result = run(eight, "--anubis-gate=continue")
    result.assert_outcomes(passed=8)
    assert result.ret == 1


def test_an_unreadable_sensor_is_never_fine(eight: pytest.Pytester) -> None:
    def edit(inventory: dict[str, list[dict[str, object]]]) -> None:
        inventory["accelerators"][1].update(
            ecc_uncorrected=None, unreadable=["ecc_uncorrected: timeout"]
        )

    change(eight, edit)
    result = run(eight)
    assert result.ret == 20
    result.stdout.fnmatch_lines(
        ["anubis gate: INCONCLUSIVE: *: sensor ecc_uncorrected is unreadable: timeout, *"]
    )


def test_needed_reset_rejects_nothing(eight: pytest.Pytester) -> None:
    change(eight, lambda inventory: inventory["accelerators"][2].update(remap_pending=True))
    result = run(eight)
    result.assert_outcomes(passed=8)
    assert result.ret == 20
    result.stdout.fnmatch_lines(
        [
            "anubis gate: INCONCLUSIVE: GPU 2 *: row remapping is waiting for a reset, *; next step: "
            "reset the card *serial number *",
            "UNDECIDED: *",
            "*row remapping is waiting for a reset, *reset the card *test again*",
        ]
    )


@pytest.mark.usefixtures("in_workers")
@pytest.mark.parametrize("workers", ["-n0", "-pno:xdist"])
def test_a_note_is_told_once_and_stands_in_nobodys_way(
    eight: pytest.Pytester, workers: str
) -> None:
    change(eight, lambda inventory: inventory["accelerators"][2].update(persistence=False))
    result = eight.runpytest("--anubis", "--anubis-inventory=node.json", workers)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["anubis gate: NOTE: GPU 2 *: driver persistence is off*"])
    assert result.stdout.str().count("anubis gate:") == 1
    assert "driver persistence" not in journal_of(eight).read_text()


def test_redaction_leaves_serial_numbers_out(eight: pytest.Pytester) -> None:
    serials = [
        card.serial for card in replay(RECORDED).inventory.accelerators if card.serial is not None
    ]
    assert serials
    run(eight, "--anubis-redact")
    assert not [serial for serial in serials if serial in journal_of(eight).read_text()]


FAULTS = {
    "gone": (lambda i: i["accelerators"].pop(3), "number of accelerators is 7"),
    "x8": (lambda i: i["accelerators"][2].update(link_width=8), "PCIe link width is 8"),
    "VBIOS": (lambda i: i["accelerators"][5].update(vbios="96.0"), "VBIOS version is 96.0"),
    "memory": (lambda i: i["memory"].update(total=1 << 40), "main memory is 1024.0 GiB"),
    "SRAM": (
        lambda i: i["accelerators"][0].update(sram_threshold=True),
        "limit of SRAM errors is exceeded",
    ),
    "rows": (lambda i: i["accelerators"][1].update(remap_failed=True), "row remapping is failed"),
}


@pytest.mark.usefixtures("in_workers")
@pytest.mark.parametrize("fault", list(FAULTS))
@pytest.mark.parametrize("workers", [["-n0"], ["-nauto"], ["-p", "no:xdist"]])
def test_gate_fault_is_in_every_output(
    eight: pytest.Pytester, fault: str, workers: list[str]
) -> None:
    edit, words = FAULTS[fault]
    change(eight, edit)
    options = ("--anubis", "--anubis-inventory=node.json", "--anubis-run-id=r", "--junitxml=o.xml")
    result = eight.runpytest(*options, *workers)
    assert result.ret == 1
    result.stdout.fnmatch_lines([f"anubis gate: FAIL: *{words}*", "FAILED inventory::*"])
    result.stdout.no_fnmatch_line("*created: *")  # no worker is started for nothing
    events = events_of(eight)
    (verdict,) = [e for e in events if e["event"] == "node_verdict"]
    assert verdict["decision"] == "REJECTED"
    assert words in verdict["headline"]
    assert not [e for e in events if e["event"] == "test_started"]
    assert events[-1]["exit_status"] == 1
    (suite,) = ET.parse(eight.path / "o.xml").getroot().findall("testsuite")  # noqa: S314
    assert suite.get("failures") == "1"
    assert words in ET.tostring(suite, encoding="unicode")


@pytest.mark.usefixtures("in_workers")
@pytest.mark.parametrize("workers", ["-n2", "-pno:xdist"])
def test_a_clean_node_passes_the_gate(eight: pytest.Pytester, workers: str) -> None:
    result = eight.runpytest("--anubis", "--anubis-inventory=node.json", workers)
    result.assert_outcomes(passed=8)
    if workers == "-n2":
        result.stdout.fnmatch_lines(["*created: 2/2 workers"])  # which a fault forestalls
    assert result.ret == 0


@pytest.mark.usefixtures("in_workers")
def test_baseline_of_other_lanes_never_judges(eight: pytest.Pytester) -> None:
    arguments = ("--anubis", "--anubis-inventory=node.json", "--collect-only")
    eight.runpytest(*arguments, "-n0").stdout.fnmatch_lines(["anubis: baseline sha256:*"])
    line = (
        "anubis: no baseline for this way of running: that of 8x-* one at a time, * run without -n*"
    )
    eight.runpytest(*arguments, "-nauto").stdout.fnmatch_lines([line])
    eight.runpytest(*arguments, "-n2").stdout.fnmatch_lines(["anubis: baseline sha256:*"])
    (path,) = eight.path.glob("baselines/*.json")
    old = load_baseline(path)
    side_by_side = old.hardware_class.replace("_smoke", "_side-by-side_smoke")
    attributes = {**old.attributes, "lanes": "side by side"}
    path.unlink()
    save_baseline(
        dataclasses.replace(old, hardware_class=side_by_side, attributes=attributes), path.parent
    )
    eight.runpytest(*arguments, "-nauto").stdout.fnmatch_lines(
        ["anubis: * accelerators side by side"]
    )
    line = (
        "anubis: no baseline for this way of running: * side by side, and here * run with -n auto*"
    )
    result = run(eight)
    result.stdout.fnmatch_lines([line])
    assert result.ret == 20
