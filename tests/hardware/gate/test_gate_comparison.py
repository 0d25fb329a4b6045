"""The gate at the end of a run: what happened to the cards in between is found and named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_anubis.core.inventory import Inventory
from pytest_anubis.hardware.gate.gate_comparison import check_again, compare, since
from pytest_anubis.hardware.inventory.golden_inventory import golden_inventory
from pytest_anubis.hardware.inventory.inventory_reading import redact
from tests.hardware.gate.test_inventory_gate import card
from tests.hardware.make_recorded_8gpu import node

# A quarter of an hour, with cards whose counters are not at zero when the run begins.
WELL: dict[str, Any] = {
    "nvlink_speed": 26562,
    "nvlink_errors": 4,
    "pcie_replays": 30,
    "ecc_uncorrected": 0,
    "ecc_uncorrected_lifetime": 5,
    "remapped_corrected": 2,
    "remapped_uncorrected": 1,
    "retired_pages": 0,
    "remap_failed": False,
    "remap_pending": False,
    "sram_threshold": False,
    "compute_mode": "default",
    "clock_limited": False,
    "block_errors": {
        "uncorrected gfx errors": 1,
        "deferred ECC errors": 0,
        "corrected ECC errors": 12,
        "xGMI uncorrected errors": 0,
    },
}
SLOT = "GPU 3 (0000:5d:00.0)"


def at(time: str, **changes: Any) -> Inventory:
    """Return the node at a time; the changes are those of its fourth card."""
    cards = tuple(replace(one, **WELL) for one in node().accelerators)
    inventory = replace(node(), accelerators=cards, taken=f"2026-05-02T{time}+00:00")
    return card(**changes)(inventory) if changes else inventory


BEFORE = at("10:00:00")
GOLDEN = golden_inventory([BEFORE])

# What happened to the fourth card -> how bad it is, and the sentence.
HAPPENED: dict[str, tuple[dict[str, Any], str, str]] = {
    "uncorrected error": ({"ecc_uncorrected": 1, "ecc_uncorrected_lifetime": 6}, "FAIL",
     "number of uncorrected ECC errors is 1 more than at the start, expected no new one"),
    "uncorrected error, and the driver was loaded anew": (
     {"ecc_uncorrected": 0, "ecc_uncorrected_lifetime": 7}, "FAIL",
     "number of uncorrected ECC errors is 2 more than at the start, expected no new one"),
    "remapping failed": ({"remap_failed": True}, "FAIL",
     "row remapping is failed during the run: the spare rows are used up, expected working"),
    "SRAM": ({"sram_threshold": True}, "FAIL",
     "the vendor's limit of SRAM errors is exceeded during the run, expected kept"),
    "remapping pending": ({"remap_pending": True}, "INCONCLUSIVE",
     "row remapping is waiting for a reset since this run, expected complete"),
    "row remapped": ({"remapped_uncorrected": 2}, "FAIL",
     "number of rows remapped after uncorrected errors is 1 more than at the start, "
     "expected no new one"),
    "row remapped in time": ({"remapped_corrected": 3}, "NOTE",
     "number of rows remapped after corrected errors is 1 more than at the start, "
     "expected no new one"),
    "page retired": ({"retired_pages": 1}, "INCONCLUSIVE",
     "number of retired pages is 1 more than at the start, expected no new one"),
    "lanes lost": ({"link_width": 8}, "FAIL", "PCIe link width is 8, expected 16"),
    "NVLink lost": ({"nvlinks_active": 17}, "FAIL", "number of NVLinks that are up is 17, expected 18"),
    "NVLink slow": ({"nvlink_speed": 13281}, "FAIL",
     "speed of the slowest NVLink (MB/s) is 13281, expected 26562"),
    "NVLink recovered": ({"nvlink_errors": 6}, "INCONCLUSIVE",
     "number of NVLink recoveries is 2 more than at the start, expected no new one"),
    "many replays": ({"pcie_replays": 30 + 15 * 8 + 15}, "INCONCLUSIVE",
     "PCIe replays is 9 a minute, expected at most 8 a minute"),
    # The sum over all blocks has grown too, and is not reported again.
    "error of a block": ({"block_errors": {"uncorrected gfx errors": 3}, "ecc_uncorrected": 2}, "FAIL",
     "number of uncorrected gfx errors is 2 more than at the start, expected no new one"),
    "deferred error": ({"block_errors": {"deferred ECC errors": 1}}, "INCONCLUSIVE",
     "number of deferred ECC errors is 1 more than at the start, expected no new one"),
    "errors of a link of AMD's": ({"block_errors": {"xGMI uncorrected errors": 4}}, "FAIL",
     "number of xGMI uncorrected errors is 4 more than at the start, expected no new one"),
    "corrected errors": ({"block_errors": {"corrected ECC errors": 20}}, "NOTE",
     "number of corrected ECC errors is 8 more than at the start, expected no new one"),
    "partitioned by somebody": ({"mig": True}, "INCONCLUSIVE", "partitioning (MIG) is on, expected off"),
    "power limit by somebody": ({"power_limit": 600.0}, "INCONCLUSIVE",
     "power limit (W) is 600, expected 700"),
}  # fmt: skip


@pytest.mark.parametrize("name", list(HAPPENED))
def test_what_happened_is_found_and_named(name: str) -> None:
    changes, severity, text = HAPPENED[name]
    (finding,) = compare(BEFORE, at("10:15:00", **changes))
    assert (finding.severity, finding.text) == (severity, f"{SLOT}: {text}")
    assert finding.text.isprintable()
    if finding.severity != "NOTE":
        assert finding.action


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"pcie_replays": 30 + 15 * 8},
        {"pcie_replays": 0, "nvlink_errors": 0},  # a driver that was loaded anew
        {"performance_state": 8, "link_generation": 1, "memory_free": 1},
        {"nvlink_errors": None, "link_width": None},
        {"block_errors": {"uncorrected gfx errors": 0}},
        {"block_errors": {"uncorrected sdma errors": 5}},
    ],
    ids=[
        "nothing",
        "few replays",
        "reloaded",
        "idle",
        "no reading",
        "reloaded blocks",
        "new block",
    ],
)
def test_what_is_normal_is_no_finding(changes: dict[str, Any]) -> None:
    assert compare(BEFORE, at("10:15:00", **changes)) == []


def test_block_that_erred_is_the_component_to_blame() -> None:
    blamed = {
        "uncorrected gfx errors": "accelerator",
        "deferred ECC errors": "accelerator.memory",
        "xGMI uncorrected errors": "accelerator.link",
    }
    for name, component in blamed.items():
        (finding,) = compare(BEFORE, at("10:15:00", block_errors={name: 9}))
        assert finding.component == component


def test_replays_of_a_short_run_count_for_a_minute() -> None:
    # One packet in five seconds of a smoke test is no rate of twelve a minute.
    assert compare(BEFORE, at("10:00:05", pcie_replays=38)) == []
    assert len(compare(BEFORE, at("10:00:05", pcie_replays=39))) == 1


def test_lost_card_is_named_with_its_serial_number() -> None:
    after = at("10:15:00")
    after = replace(after, accelerators=(*after.accelerators[:3], *after.accelerators[4:]))
    (finding,) = compare(BEFORE, after)
    assert (finding.severity, finding.text) == (
        "FAIL",
        f"{SLOT}: card is lost, expected as at the start of the run",
    )
    assert f"serial number {BEFORE.accelerators[3].serial}" in finding.action


@pytest.mark.parametrize(
    "note", ["nvml: did not answer within 15 s", "accelerators: Unknown Error (NVML error 999)"]
)
@pytest.mark.parametrize("left", [0, 3])
def test_library_that_fails_at_the_end_loses_no_card(note: str, left: int) -> None:
    after = at("10:15:00")
    after = replace(after, accelerators=after.accelerators[:left], unreadable=(note,))
    found = check_again(BEFORE, after, GOLDEN)
    assert {finding.severity for finding in found} == {"INCONCLUSIVE"}
    assert any(note.partition(": ")[2] in finding.text for finding in found)
    # What the bus does not show any more is gone, whatever the library does.
    on_bus = tuple(slot for slot in after.on_bus or () if slot != "0000:5d:00.0")
    (lost,) = compare(BEFORE, replace(after, on_bus=on_bus))
    assert (lost.severity, lost.slot) == ("FAIL", SLOT)


def test_renumbered_cards_are_matched() -> None:
    after = at("10:15:00")
    first, *rest = after.accelerators
    moved = [replace(one, index=one.index - 1) for one in rest]
    after = replace(after, accelerators=(*moved, replace(first, index=7)))
    assert compare(BEFORE, after) == []


def test_failures_come_first() -> None:
    first, *rest = at("10:15:00", ecc_uncorrected=1).accelerators
    after = replace(BEFORE, accelerators=(replace(first, remap_pending=True), *rest))
    assert [finding.severity for finding in compare(BEFORE, after)] == ["FAIL", "INCONCLUSIVE"]


def test_second_gate_reports_only_new_facts_and_once() -> None:
    def known(time: str) -> Inventory:
        return card(vbios="old")(at(time))

    assert check_again(known("10:00:00"), known("10:15:00"), GOLDEN) == []
    worse = card(link_width=8, unreadable=("ecc: GPU is lost (NVML error 15)",))(known("10:15:00"))
    assert [finding.text for finding in check_again(known("10:00:00"), worse, GOLDEN)] == [
        f"{SLOT}: PCIe link width is 8, expected 16",
        f"{SLOT}: sensor ecc is unreadable: GPU is lost (NVML error 15), expected readable",
    ]
    assert check_again(BEFORE, at("10:15:00", clock_limited=True), GOLDEN) == []  # still busy
    assert [f.severity for f in check_again(BEFORE, at("10:15:00", ecc_uncorrected=1), GOLDEN)] == [
        "FAIL"
    ]


def test_errors_between_two_runs_are_notes() -> None:
    now = at("10:15:00", ecc_uncorrected_lifetime=8, remapped_uncorrected=2)
    assert [(f.severity, f.text) for f in since(BEFORE, now)] == [
        (
            "NOTE",
            f"{SLOT}: number of uncorrected ECC errors of its life is 3 more than on 2026-05-02, "
            "expected no new one",
        ),
        (
            "NOTE",
            f"{SLOT}: number of rows remapped after uncorrected errors is 1 more than on 2026-05-02, "
            "expected no new one",
        ),
    ]
    assert since(now, BEFORE) == []
    assert since(BEFORE, at("10:15:00", ecc_uncorrected_lifetime=8, serial="of another card")) == []
    assert len(since(redact(BEFORE), at("10:15:00", ecc_uncorrected_lifetime=8))) == 1
