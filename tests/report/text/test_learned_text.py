"""Learning names who is sick, counts what was left out, and has the rest with -v."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_anubis.core.baseline import Baseline, Exclusion, Finding, SelfCheck, UnlikeNode
from pytest_anubis.report.text.learned_text import (
    ACCEPTED_UNLIKE,
    MAX_UNLIKE,
    accepted_unlike,
    criteria_lines,
    learned_lines,
    unlike_node,
    unlike_text,
)
from tests.report import sample_run

SEE = (("anubis", "judge", "runs/"), ("anubis", "report", "runs/", "--node", "NODE"))


CHECK = SelfCheck(nodes=96, rejected=4, sick=4, rate=0.0, upper=0.04, holds=True)
BASELINE = Baseline(hardware_class="c", criteria=(), created="2026-01-01", self_check=CHECK)


def unlike(*nodes: UnlikeNode) -> Baseline:
    return replace(BASELINE, self_check=replace(CHECK, unlike=nodes))


def shown(*nodes: UnlikeNode, verbose: bool = False, **more: object) -> list[str]:
    return learned_lines(replace(unlike(*nodes), **more), verbose=verbose, see=SEE)  # type: ignore[arg-type]


def sick(name: str, device: str = "2", similarity: float = 0.85, **more: object) -> UnlikeNode:
    return UnlikeNode(
        **{  # type: ignore[arg-type]
            "node": name,
            "benchmark": "s/t.py::test_gemm",
            "metric": "rate",
            "device": device,
            "component": "gpu",
            "similarity": similarity,
            "unit": "TFLOP/s",
            "better": "higher",
            **more,
        }
    )


@pytest.mark.parametrize("width", [70, 80, 200])
def test_the_table_of_criteria_fits_the_terminal(width: int) -> None:
    some = sample_run.baseline(5)
    rows = criteria_lines(some, whole=False, width=width)
    assert len(rows) == 1 + len(some.criteria)
    assert max(map(len, rows)) <= width
    assert rows[0].endswith("smallest detectable loss")
    assert ("repeatability" in rows[0]) is (width == 200)
    assert criteria_lines(some, width=width, whole=True) == criteria_lines(some, whole=True)


def test_sick_nodes_have_their_worst_metric() -> None:
    lines = shown(sick("n5"), sick("n7", device="node", similarity=0.9, rejected=False))
    assert lines[-6:] == [
        "these nodes are sick or unlike the others in one of their runs or more, worst first ('anubis judge' "
        "decides):",
        "  n5: t.py::test_gemm rate on 2 15 % slower [gpu]",
        "  n7: t.py::test_gemm rate 10 % slower [gpu]; not enough to reject it",
        f"not enough to reject it: {ACCEPTED_UNLIKE}",
        "see more: anubis judge runs/",
        "see more: anubis report runs/ --node n5",
    ]


def test_accepted_sick_nodes_are_explained() -> None:
    baseline = unlike(sick("n5"), sick("n7", device="node", similarity=0.9, rejected=False))
    one = unlike_node("n7", baseline)
    assert one is not None
    found = {"n7": unlike_text(one)}
    line = accepted_unlike(found)
    assert line == (
        f"1 accepted node is sick or unlike the others: {ACCEPTED_UNLIKE} "
        "(n7: t.py::test_gemm rate 10 % slower)"
    )
    assert accepted_unlike({}) == ""
    assert unlike_node("n1", baseline) is unlike_node("n7", None) is None


def test_only_verbose_names_all_sick_nodes() -> None:
    many = [sick(f"n{i}") for i in range(MAX_UNLIKE + 3)]
    assert "  ... and 3 more (-v names all)" in shown(*many)
    assert sum(line.startswith("  n") for line in shown(*many)) == MAX_UNLIKE
    assert sum(line.startswith("  n") for line in shown(*many, verbose=True)) == MAX_UNLIKE + 3


def test_only_verbose_names_exclusions() -> None:
    given = [
        Exclusion(node=f"n{i}", device="node", benchmark="b", metric="m", reason="missing: gone")
        for i in range(30)
    ]
    assert "0 criteria from 0 nodes, 0 runs, 30 samples left out (-v says why)" in shown(
        exclusions=given
    )
    every = shown(exclusions=given, verbose=True)
    assert "left out: n3 node b m: missing: gone" in every
    assert sum(line.startswith("left out") for line in every) == len(given)


def test_only_verbose_shows_all_findings() -> None:
    some = [Finding(kind="promise", text=f"text {i}", benchmark="s/t.py::test_x") for i in range(3)]
    blind = Finding(kind="no-criterion", text="too few")
    rate = sample_run.baseline(5).criteria[:1]
    lines = shown(findings=(*some, blind), criteria=rate)
    assert [line for line in lines if line.startswith("finding")] == [
        "finding: t.py::test_x: text 0 (and 2 more of this kind, see -v)"
    ]
    assert "finding: too few" in shown(findings=(blind,))  # why there is no criterion at all
    assert sum(line.startswith("finding") for line in shown(findings=some, verbose=True)) == 3


def test_one_node_is_not_judged_without_itself() -> None:
    lines = shown(self_check=replace(CHECK, nodes=1, rejected=0, upper=1.0), nodes=("n1",))
    assert lines[-1] == "0 criteria from 1 node, 0 runs"


@pytest.mark.parametrize(
    ("count", "check"),
    [(1, "1 of its 96 nodes is rejected"), (2, "2 of its 96 nodes are rejected")],
)
def test_the_verb_agrees_with_the_count(count: int, check: str) -> None:
    alike = shown(self_check=replace(CHECK, rejected=count))
    assert f"judged each without itself, {check}" in "\n".join(alike)
