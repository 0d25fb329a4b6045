"""Lines about shared parts and memory modules, whatever a journal says of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_anubis.core.node_map import ModuleErrors, SharedPart
from pytest_anubis.core.verdict import Decision, NodeVerdict
from pytest_anubis.report.text.part_lines import MAX_NAMED, part_lines, shared_part_line

PART = SharedPart(
    kind="switch", name="0000:58:00.0", devices=("cuda:2", "cuda:3"), components=("memory.transfer",),
    loss=0.2, confidence=0.98, alone=True, alike=4,
)  # fmt: skip


@pytest.mark.parametrize("count", [0, 1, 2, MAX_NAMED, MAX_NAMED + 1])
def test_devices_are_named_up_to_a_number(count: int) -> None:
    devices = tuple(f"cuda:{number}" for number in range(count))
    line = shared_part_line(replace(PART, devices=devices))
    assert sum(name in line for name in devices) == min(count, MAX_NAMED)


def test_no_hypothesis_is_certain() -> None:
    assert "(99 % likely)" in shared_part_line(replace(PART, confidence=1.0))
    assert "(50 % likely)" in shared_part_line(replace(PART, confidence=0.5))


def test_a_bridge_of_a_damaged_journal_stays_one_line() -> None:
    assert shared_part_line(replace(PART, name="a\nb\x1b[31m")).isprintable()


def test_each_part_and_each_module_has_a_line() -> None:
    row = ModuleErrors(module="DIMM_A1\n\x1b[31m", errors=12, spread="row")
    node = NodeVerdict(
        node="n",
        decision=Decision.ACCEPTED,
        headline="",
        shared=(PART,),
        modules=(row, replace(row, spread="scattered")),
    )
    shared, one_row, scattered = part_lines(node)
    assert shared == shared_part_line(PART)
    assert one_row != scattered
    assert all(line.isprintable() and line.startswith("DIMM_A1") for line in (one_row, scattered))
    assert part_lines(None) == []
