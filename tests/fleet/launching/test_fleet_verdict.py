"""What a fleet's journals decide where imports lie next to them."""

from __future__ import annotations

from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import Decision, NodeVerdict
from pytest_anubis.fleet.launching.fleet_verdict import fleet_verdict
from pytest_anubis.store.run_set import RunSet

ACCEPTED, REJECTED, UNDECIDED = Decision.ACCEPTED, Decision.REJECTED, Decision.UNDECIDED


def judged(node: str, decision: Decision) -> RunRecord:
    return RunRecord(
        run=f"r-{node}",
        node=node,
        started="2026-01-01T00:00:00+00:00",
        ended="2026-01-01T01:00:00+00:00",
        exit_status=decision.exit_code,
        node_verdict=NodeVerdict(node=node, decision=decision, headline="judged"),
    )


def test_no_journal_accepts_a_node_that_has_imports_as_well() -> None:
    journals = (judged("n1", ACCEPTED), judged("n2", REJECTED), judged("n3", ACCEPTED))
    imports = tuple(RunRecord(run="table", node=node) for node in ("n1", "n2", "n4"))
    runs = RunSet(journals=journals, runs=(*journals, *imports))
    found = {row.verdict.node: row.verdict for row in fleet_verdict(runs, ["n4", "n5"]).rows}
    assert {node: one.decision for node, one in found.items()} == {
        "n1": UNDECIDED,
        "n2": REJECTED,
        "n3": ACCEPTED,
        "n4": UNDECIDED,
        "n5": UNDECIDED,
    }
    said = "1 imported run of it here without a verdict. Next step: 'anubis judge' judges them"
    assert [said in one.headline for one in found.values()].count(True) == 2
    assert (
        fleet_verdict(RunSet(journals=journals[:1], runs=(*journals[:1], imports[2]))).exit_code
        == 20
    )
