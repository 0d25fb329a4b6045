"""History, collected journals and the file of health checks agree on every node's standing."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.standing.recorded_run import judged_of
from pytest_anubis.core.standing.standing_of import standing_of
from pytest_anubis.core.verdict import Decision, Outcome, Reason, Waiver
from pytest_anubis.core.waiving import holds_on
from pytest_anubis.fleet.fleet_status import Status, drain_lines, statuses_of
from pytest_anubis.fleet.launching.fleet_verdict import fleet_verdict
from pytest_anubis.fleet.launching.health_check import health_of
from pytest_anubis.selector.choice.choice_inputs import exposing_open
from pytest_anubis.store.fleet.last_runs import last_of_history, last_of_runs
from pytest_anubis.store.history.database import History
from pytest_anubis.store.history.defect_records import close_defect, defects
from pytest_anubis.store.history.fleet_history import last_verdicts, read_fleet
from pytest_anubis.store.history.retention import retain
from pytest_anubis.store.history.run_filing import record_run
from pytest_anubis.store.node_standing import (
    answered_runs,
    keep_answered,
    keep_ended,
    read_standing,
)
from pytest_anubis.store.run_set import RunSet
from tests.store.written_runs import decided, verdict

BEGIN = 1_700_000_000.0
DAY = 86400.0
WAIVERS = {
    name: Waiver(owner="j.doe", reason="ordered", expires=day, metric="rate")
    for name, day in (("ended", "2020-01-01"), ("holds", "2999-01-01"))
} | {"mark": None}
RATE = Metric(name="rate", unit="GB/s", better="higher")


def record(node: str, number: int, began: float, decision: str, **outcomes: str) -> RunRecord:
    when = datetime.fromtimestamp(BEGIN + began * DAY, UTC).isoformat()
    return RunRecord(
        run=f"r{number}",
        node=node,
        hardware_class="c",
        started=when,
        ended=when,
        exit_status=0,
        measurements=tuple(
            Measurement(
                test=f"t.py::test_{part[0]}", benchmark=f"t.py::test_{part[0]}", component=f"part.{part}",
                metric=RATE, device="cpu", values=(1.0,),
            )
            for part in outcomes
        ),
        verdicts=tuple(
            verdict(
                Outcome.NOT_TESTED if outcome in WAIVERS else Outcome(outcome),
                reason=Reason.WAIVED if outcome in WAIVERS else Reason.BEYOND,
                waiver=WAIVERS.get(outcome), node=node, metric="rate",
                benchmark=f"t.py::test_{part[0]}", component=f"part.{part}", group=part[1:],
            )
            for part, outcome in outcomes.items()
        ),
        node_verdict=decided(node, Decision(decision), decision).verdict if decision else None,
    )  # fmt: skip


def drawn(seed: int, node: str) -> list[RunRecord]:
    draw, found = random.Random(seed), []
    for number in range(draw.randint(1, 6)):
        outcomes = {
            part: draw.choice(
                ["PASS", "PASS", "FAIL", "INCONCLUSIVE", "MARGINAL", "ended", "holds", "mark"]
            )
            for part in draw.sample(["a", "b", "c", "cx", "cy"], draw.randint(0, 3))
        }
        other = draw.choice(["ACCEPTED", "UNDECIDED", "UNDECIDED", ""])
        rejects = draw.choice(["UNDECIDED", "", *["REJECTED"] * 6])  # broken off, killed
        strict = draw.random() < 0.5 and "MARGINAL" in outcomes.values()
        decision = rejects if strict or "FAIL" in outcomes.values() else other
        one = record(node, number, draw.randint(0, 4), decision, **outcomes)
        recorded = {"inventory": "node.json"} if draw.random() < 0.2 else {}
        soak = draw.choice("st") if draw.random() < 0.5 else ""
        found.append(replace(one, settings=recorded, campaign=soak))
    return found


def test_defect_passed_by_a_later_run_is_not_open(tmp_path: Path) -> None:
    """Else the choice for a node would measure it for ever, whatever its standing is."""
    runs = [
        (("REJECTED", {"a": "FAIL"}), ["t.py::test_a"]),
        (("ACCEPTED", {"b": "PASS"}), ["t.py::test_a"]),  # not measured again
        (("ACCEPTED", {"a": "PASS"}), []),
        (("REJECTED", {"a": "FAIL"}), ["t.py::test_a"]),  # the same defect once more
    ]
    with History(tmp_path) as history:
        record_run(history, record("n2", 0, 9, "REJECTED", a="FAIL"))  # of a run of the same name
        for number, ((decision, outcomes), still) in enumerate(runs):
            record_run(history, record("n1", number, number, decision, **outcomes))
            known = read_fleet(history).defects
            assert sorted(exposing_open(known, ["n1"])) == still
            assert {one.state for one in known} == {"open"}  # that is for somebody to say


def test_all_sources_agree_on_the_standing(tmp_path: Path) -> None:
    of_node = {f"n{seed}": drawn(seed, f"n{seed}") for seed in range(60)}
    everything = [one for runs in of_node.values() for one in runs]
    random.Random(1).shuffle(everything)
    with History(tmp_path) as history:
        for one in everything:
            record_run(history, one)
            keep_ended(tmp_path, one, ended=BEGIN + 5 * DAY, reason="")

        def standings() -> dict[str, str]:
            nodes = last_of_history(history, tmp_path)
            now = BEGIN + 6 * DAY
            statuses = statuses_of(nodes, now=now, risks={}, accepted_risk=1.0)
            drained = {line.split()[0] for line in drain_lines(statuses, scontrol=False)[0]}
            assert drained == {one.node for one in statuses if one.status is Status.QUARANTINED}
            filed = {name: found[0] for name, found in last_verdicts(history).items()}
            shown = {one.node.name: one.standing.decision for one in nodes}
            assert filed == {name: one.value for name, one in shown.items() if one}
            return filed

        expected = {}
        for node, runs in of_node.items():
            began = {one.run: BEGIN + DAY * drawn_day(one) for one in runs}
            found = standing_of(
                (judged_of(one, began=began[one.run]) for one in runs), holds_on("2026-01-01")
            )
            if found.decision:
                expected[node] = found.decision.value
            kept = read_standing(tmp_path, node)
            health = health_of(kept, node, now=BEGIN + 6 * DAY, max_age=None, boot="")
            assert health.decision.value == expected.get(node, "UNDECIDED"), node
            row = fleet_verdict(RunSet(journals=tuple(runs)), now=BEGIN + 6 * DAY).rows[0]
            rejected = expected.get(node) == "REJECTED"
            assert (row.verdict.decision is Decision.REJECTED) == rejected, node
            (last,) = last_of_runs(runs)
            assert last.standing.decision == found.decision
        assert standings() == expected
        assert len({*expected.values()}) == 3
        retain(history, runs_before=BEGIN + 9 * DAY)
        assert standings() == expected


def drawn_day(one: RunRecord) -> float:
    return (datetime.fromisoformat(one.started).timestamp() - BEGIN) / DAY


def test_a_closed_defect_is_answered_for(tmp_path: Path) -> None:
    bad = record("n1", 1, 1, "REJECTED", a="FAIL")
    with History(tmp_path) as history:
        record_run(history, bad)
        keep_ended(tmp_path, bad, ended=BEGIN + DAY, reason="")
        (one,) = defects(history)
        close_defect(history, one.number, "confirmed")
        assert keep_answered(str(tmp_path), one.node, one.runs) == ""
        (place,) = statuses_of(
            last_of_history(history, tmp_path), now=BEGIN, risks={}, accepted_risk=1.0
        )
    health = health_of(read_standing(tmp_path, "n1"), "n1", now=BEGIN, max_age=None, boot="")
    assert (place.status, health.decision) == (Status.DUE, Decision.UNDECIDED)
    assert keep_answered(str(tmp_path), "n1", one.runs, answered=False) == ""
    health = health_of(read_standing(tmp_path, "n1"), "n1", now=BEGIN, max_age=None, boot="")
    assert health.decision is Decision.REJECTED


def test_all_runs_of_a_closed_defect_are_answered_for(tmp_path: Path) -> None:
    """The first is kept no more once the second has found the same."""
    runs = [record("n1", number, number, "REJECTED", a="FAIL") for number in (1, 2)]
    for one in runs:
        keep_ended(tmp_path, one, ended=drawn_day(one) * DAY + BEGIN, reason="")
    assert keep_answered(str(tmp_path), "n1", [one.run for one in runs]) == ""
    answered = answered_runs([tmp_path], ["n1"])
    assert answered == {(one.run, "n1") for one in runs}
    (row,) = fleet_verdict(RunSet(journals=tuple(runs)), answered=answered).rows
    assert row.verdict.decision is Decision.UNDECIDED
