"""A rejection stands until what had failed was judged again and passed, or somebody answered for it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.standing.recorded_run import passed_checks
from pytest_anubis.core.standing.standing_of import (
    GATE,
    GONE,
    JudgedRun,
    Key,
    judged_run,
    relevant_runs,
    standing_of,
)
from pytest_anubis.core.verdict import Decision, Outcome, Reason

PARTS = ("a", "b", "c")


def key(part: str) -> Key:
    return f"t.py::test_{part}", "rate", "cuda:0"


def run(name: str, began: float, decision: str, **outcomes: str) -> JudgedRun:
    found = [(key(part), Outcome(outcome), Reason.WITHIN) for part, outcome in outcomes.items()]
    return judged_run(
        found,
        run=name,
        began=began,
        ended=began + 0.5,
        decision=decision,
        benchmarks={one[0][0] for one in found},
    )


GOOD = run("good", 0, "ACCEPTED", a="PASS", b="PASS")
BAD = run("bad", 1, "REJECTED", a="PASS", b="FAIL")


@pytest.mark.parametrize(
    ("later", "decision"),
    [
        ([], Decision.REJECTED),
        ([run("setup plan", 2, "UNDECIDED")], Decision.REJECTED),
        ([run("interrupted", 2, "UNDECIDED", a="PASS")], Decision.REJECTED),
        ([run("another part", 2, "ACCEPTED", a="PASS")], Decision.REJECTED),
        ([run("unclear", 2, "UNDECIDED", b="INCONCLUSIVE")], Decision.REJECTED),
        ([run("killed", 2, "", b="PASS")], Decision.REJECTED),  # came to no verdict
        ([run("began before", 0.5, "ACCEPTED", a="PASS", b="PASS")], Decision.REJECTED),
        ([run("at the same moment", 1, "ACCEPTED", a="PASS", b="PASS")], Decision.REJECTED),
        ([run("that part", 2, "UNDECIDED", b="PASS")], Decision.UNDECIDED),
        ([run("mended", 2, "ACCEPTED", a="PASS", b="PASS")], Decision.ACCEPTED),
        ([run("unusual", 2, "ACCEPTED", a="PASS", b="MARGINAL")], Decision.ACCEPTED),
        (
            [run("that part", 2, "UNDECIDED", b="PASS"), run("rest", 3, "ACCEPTED", a="PASS")],
            Decision.ACCEPTED,
        ),
        (
            [run("mended", 2, "ACCEPTED", b="PASS"), run("again", 3, "REJECTED", b="FAIL")],
            Decision.REJECTED,
        ),
    ],
    ids=lambda one: one[-1].run if isinstance(one, list) and one else None,
)
def test_what_falls_and_what_does_not(later: list[JudgedRun], decision: Decision) -> None:
    assert standing_of([GOOD, BAD, *later]).decision is decision
    assert standing_of([*later, BAD, GOOD]).decision is decision


def test_another_device_or_metric_clears_nothing() -> None:
    for other in (("t.py::test_b", "rate", "cuda:1"), ("t.py::test_b", "lag", "cuda:0")):
        later = replace(run("later", 2, "ACCEPTED"), passed=(other,))
        assert standing_of([BAD, later]).decision is Decision.REJECTED


def test_peers_that_judge_without_a_baseline_clear_what_peers_found() -> None:
    said = [
        (key("b"), Outcome.INCONCLUSIVE, Reason.NO_BASELINE),
        (key("b"), Outcome.PASS, Reason.WITHIN),
    ]
    for outcomes, decision in ((said, Decision.UNDECIDED), (said[:1], Decision.REJECTED)):
        later = judged_run(
            outcomes, run="later", began=2, ended=2, decision="UNDECIDED", benchmarks=()
        )
        assert standing_of([BAD, later]).decision is decision


def test_a_waiver_answers_in_an_accepted_run_only() -> None:
    waived = [(key("b"), Outcome.NOT_TESTED, Reason.WAIVED)]
    for decision in (Decision.ACCEPTED, Decision.UNDECIDED):
        later = judged_run(waived, run="later", began=2, ended=2, decision=decision, benchmarks=())
        stands = standing_of([BAD, later]).decision
        assert (stands is Decision.ACCEPTED) == (decision is Decision.ACCEPTED)


def test_somebody_answers_by_name() -> None:
    closed = standing_of([replace(BAD, answered=True)])
    assert (closed.decision, closed.answered) == (Decision.UNDECIDED, True)
    again = run("again", 2, "REJECTED", b="FAIL")
    assert standing_of([replace(BAD, answered=True), again]).decision is Decision.REJECTED
    assert standing_of([BAD], in_service=2.0).answered
    assert standing_of([BAD, again], in_service=2.0).decision is Decision.REJECTED


def test_what_the_hardware_reports_falls_with_an_acceptance_as_wide() -> None:
    xid = [
        (("hardware", "xid-fault", "cuda:0"), Outcome.FAIL, Reason.HARDWARE),
        (key("a"), Outcome.PASS, Reason.WITHIN),
        (key("b"), Outcome.PASS, Reason.WITHIN),
    ]
    bad = judged_run(
        xid, run="x", began=1, ended=1, decision="REJECTED", benchmarks=[key("a")[0], key("b")[0]]
    )
    narrow = run("narrow", 2, "ACCEPTED", a="PASS")
    assert standing_of([bad, narrow]).decision is Decision.REJECTED
    assert standing_of([bad, run("u", 3, "UNDECIDED", a="PASS", b="PASS")]).failures
    wide = run("wide", 3, "ACCEPTED", a="PASS", b="PASS")
    assert standing_of([bad, narrow, wide]).decision is Decision.ACCEPTED


def test_a_missing_card_falls_when_the_inventory_was_compared_again() -> None:
    lost = [(("inventory", "number of accelerators", ""), Outcome.FAIL, Reason.BEYOND)]
    bad = judged_run(lost, run="x", began=1, ended=1, decision="REJECTED", benchmarks=[])
    narrow = run("without the gate", 2, "ACCEPTED", a="PASS")
    assert standing_of([bad, narrow]).decision is Decision.REJECTED
    compared = replace(narrow, passed=(*narrow.passed, GATE))
    assert standing_of([bad, compared]).decision is Decision.ACCEPTED


OUTCOMES = st.dictionaries(
    st.sampled_from(PARTS), st.sampled_from(["PASS", "FAIL", "INCONCLUSIVE", "MARGINAL"])
)


@st.composite
def histories(draw: st.DrawFn) -> list[JudgedRun]:
    runs = []
    for number, (began, outcomes) in enumerate(
        draw(st.lists(st.tuples(st.integers(0, 6), OUTCOMES), max_size=8))
    ):
        others = draw(st.sampled_from(["ACCEPTED", "UNDECIDED", ""]))
        decision = "REJECTED" if "FAIL" in outcomes.values() else others
        runs.append(run(f"r{number}", began, decision, **outcomes))
    return runs


def rejected(runs: list[JudgedRun]) -> bool:
    """Say in other words whether a failure stands: no passing run began after its latest one."""
    for part in PARTS:
        failed = [one.began for one in runs if key(part) in one.failed]
        passed = [one.began for one in runs if key(part) in one.passed and one.decision]
        if failed and not any(one > max(failed) for one in passed):
            return True
    return False


@given(histories(), st.randoms(use_true_random=False))
def test_runs_in_any_order_and_overlap(runs: list[JudgedRun], random: object) -> None:
    stands = standing_of(runs)
    assert (stands.decision is Decision.REJECTED) == rejected(runs)
    if stands.decision is Decision.ACCEPTED:  # never by another run than the latest
        assert stands.by is not None
        latest = max((one for one in runs if one.decision), key=lambda one: one.order)
        assert stands.by.run == latest.run
    mixed = list(runs)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert standing_of(mixed) == stands


@given(histories(), histories())
def test_what_is_kept_says_the_same_beside_runs_that_come_in_late(
    runs: list[JudgedRun], late: list[JudgedRun]
) -> None:
    late = [replace(one, run=f"late {one.run}") for one in late]
    kept, whole = standing_of([*relevant_runs(runs), *late]), standing_of([*runs, *late])
    assert kept.decision is whole.decision
    assert kept.failures.keys() == whole.failures.keys()
    needed = standing_of([one for one in runs if one.run in standing_of(runs).needed])
    assert needed.decision is standing_of(runs).decision


def test_what_more_than_one_run_found_is_confirmed_until_one_passes_it() -> None:
    again, mended = run("again", 2, "REJECTED", b="FAIL"), run("mended", 2, "ACCEPTED", b="PASS")
    later = run("later", 3, "REJECTED", b="FAIL")
    assert standing_of([BAD]).confirmed == frozenset()
    assert standing_of([BAD, again]).confirmed == {key("b")}
    assert standing_of([BAD, mended, later]).confirmed == frozenset()


def test_an_import_has_no_inventory_to_pass_and_says_which_devices_gave_values() -> None:
    metric = Metric(name="rate", unit="GB/s", better="higher")
    record = RunRecord(
        run="r",
        node="n",
        baseline="sha256:0",
        measurements=tuple(
            Measurement(
                test="t", benchmark="t", component="c", metric=metric, device=device, values=values
            )
            for device, values in (("cuda:0", (1.0,)), ("cuda:1", ()), ("node", (1.0,)))
        ),
    )
    assert set(passed_checks(record)) == {(GATE[0], GONE, "cuda:0")}
