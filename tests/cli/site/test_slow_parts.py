"""A part that is slow on many nodes is what they share; a part of few is shown and separates nothing."""

from __future__ import annotations

from pytest_anubis.cli.site.fleet_source import survey, telling_traits
from pytest_anubis.core.fleet_survey import SLOW_PART
from pytest_anubis.core.node_map import SharedPart
from pytest_anubis.core.verdict import Decision, NodeVerdict
from pytest_anubis.report.text.node_row import NodeRow
from pytest_anubis.report.text.node_text import fleet_lines
from pytest_anubis.report.text.shared_causes import with_shared
from pytest_anubis.store.run_set import RunSet

PART = SharedPart(
    kind="switch",
    name="0000:38:00.0",
    devices=("cuda:2", "cuda:3"),
    components=("memory.transfer",),
    loss=0.2,
    confidence=0.98,
    alone=True,
    alike=4,
)


def rows(slow: int) -> list[NodeRow]:
    """Return twenty nodes, so many of them rejected with the same slow switch."""
    return [
        NodeRow(
            verdict=NodeVerdict(
                node=f"n{n:02}",
                decision=Decision.REJECTED if n < slow else Decision.ACCEPTED,
                headline="",
                shared=(PART,) if n < slow else (),
            )
        )
        for n in range(20)
    ]


def test_part_of_many_nodes_is_what_they_share() -> None:
    _, (shift,) = survey(RunSet(), rows(6), {})
    assert (shift.trait, shift.value) == (SLOW_PART, "PCIe switch 0000:38:00.0")
    assert (len(shift.nodes), shift.rejected, shift.rejected_others) == (6, 6, 0)
    (line,) = (one for one in fleet_lines(rows(6), [shift]) if "0000:38:00.0" in one)
    assert "6 nodes" in line
    assert [one.verdict for one in with_shared(rows(6), [shift])] == [
        one.verdict for one in rows(6)
    ]


def test_part_of_few_nodes_is_not() -> None:
    assert survey(RunSet(), rows(4), {})[1] == []


def test_slow_parts_are_compared_as_no_other_trait() -> None:
    traits = {f"n{n:02}": {SLOW_PART: f"switch {n % 2}", "rack": f"r{n % 2}"} for n in range(20)}
    assert telling_traits(traits, rows(6)) == ("rack",)
