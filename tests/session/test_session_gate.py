"""The inventory gate as a user meets it, on a recorded node."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import population_of
from pytest_anubis.hardware.classes import hardware_class
from pytest_anubis.hardware.golden import golden_inventory
from pytest_anubis.hardware.inventory import inventory_to_plain
from pytest_anubis.hardware.recorded import replay
from pytest_anubis.store.baselines import save_baseline
from pytest_anubis.validator import learn_baseline

RECORDED = Path(__file__).parents[1] / "data" / "recorded_8gpu.json"
SUITE = """
import pytest

@pytest.mark.anubis(component="accelerator.memory", scope="device")
def test_copy(anubis_metric, anubis_device):
    anubis_metric.record("rate", [100.0] * 5, unit="GB/s", better="higher")
"""


@pytest.fixture
def eight(pytester: pytest.Pytester) -> pytest.Pytester:
    """A suite, a recorded 8-GPU node, and its class's baseline with a golden inventory."""
    import dataclasses

    pytester.makeini("[pytest]\n")
    pytester.makepyfile(test_suite=SUITE)
    inventory = replay(RECORDED).inventory
    key, attributes = hardware_class(inventory, "smoke")
    population = population_of(
        [[100.0] * 5 for _ in range(12)],
        metric=Metric(name="rate", unit="GB/s", better="higher"),
        benchmark="test_suite.py::test_copy",
        devices=["cuda:0"] * 12,
        hardware_class=key,
        component="accelerator.memory",
    )
    baseline = learn_baseline(
        [population],
        hardware_class=key,
        attributes=attributes,
        created="2026-01-01T00:00:00+00:00",
        error_rate=None,
    )
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


def test_a_clean_node_passes_the_gate_and_every_device_is_tested(eight: pytest.Pytester) -> None:
    result = run(eight)
    result.assert_outcomes(passed=8)
    assert result.ret == 0


def test_seven_of_eight_is_said_before_any_benchmark(eight: pytest.Pytester) -> None:
    change(eight, lambda inventory: inventory["accelerators"].pop(3))
    result = run(eight)
    result.assert_outcomes()
    assert result.ret == 1
    result.stdout.fnmatch_lines(["anubis gate: FAIL:*is 7 *expected 8", "REJECTED*"])


def test_a_narrow_link_is_rejected_with_its_slot(eight: pytest.Pytester) -> None:
    change(eight, lambda inventory: inventory["accelerators"][2].update(link_width=8))
    result = run(eight)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*GPU 2*PCIe link width is*8*"])


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
    result.stdout.fnmatch_lines(["*ecc_uncorrected*"])


def test_redaction_leaves_serial_numbers_out(eight: pytest.Pytester) -> None:
    serials = [
        card.serial for card in replay(RECORDED).inventory.accelerators if card.serial is not None
    ]
    assert serials
    run(eight, "--anubis-redact")
    (journal,) = eight.path.glob(".anubis/runs/*/journal.jsonl")
    assert not [serial for serial in serials if serial in journal.read_text()]
