"""Which tests without a metric a baseline expects of every node."""

from __future__ import annotations

from dataclasses import replace

from pytest_anubis.core.baseline import PlainCheck
from pytest_anubis.core.measurement import PlannedTest, TestResult
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import Waiver
from pytest_anubis.core.waiving import WaiversRead
from pytest_anubis.validator.deciding.plain_checks import parted_benchmarks, plain_checks
from pytest_anubis.validator.deciding.run_decision import failed_checks


def run_of(
    node: str, passed: tuple[str, ...], run: str = "r", failed: tuple[str, ...] = ()
) -> RunRecord:
    """Return a run with plain tests, and one benchmark that measured something."""
    plans = [PlannedTest(test=test, device="node") for test in (*passed, *failed)]
    measured = PlannedTest(test="bench[cpu]", benchmark="bench", device="cpu")
    return RunRecord(
        run=run,
        node=node,
        planned=(*plans, measured),
        results=(
            *(TestResult(test=test, benchmark="", outcome="passed") for test in passed),
            *(TestResult(test=test, benchmark="", outcome="failed") for test in failed),
            TestResult(test="bench[cpu]", benchmark="bench", outcome="passed", metrics=2),
        ),
    )


def test_a_check_belongs_to_the_baseline_where_most_nodes_passed_it() -> None:
    runs = [run_of("a", ("x", "y")), run_of("b", ("x",)), run_of("c", ("x",), failed=("y",))]
    assert plain_checks(runs) == (PlainCheck(test="x", devices=("node",)),)


def test_a_check_keeps_its_component() -> None:
    run = run_of("a", ("x", "y"))
    plans = tuple(replace(one, component="gpu" if one.test == "x" else "") for one in run.planned)
    found = plain_checks([replace(run, planned=plans, node=node) for node in "ab"])
    assert [(check.test, check.component) for check in found] == [("x", "gpu"), ("y", "")]


def test_many_runs_of_one_node_among_others_count_once() -> None:
    runs = [run_of("a", ("x",), run=str(i)) for i in range(9)]
    assert plain_checks([*runs, run_of("b", ()), run_of("c", ())]) == ()
    assert plain_checks(runs) == (PlainCheck(test="x", devices=("node",)),)


def test_a_device_counts_where_most_of_the_nodes_that_passed_have_it() -> None:
    def on(node: str, devices: tuple[str, ...]) -> RunRecord:
        plans = tuple(PlannedTest(test=f"b[{d}]", benchmark="b", device=d) for d in devices)
        good = (TestResult(test=plan.test, benchmark="b", outcome="passed") for plan in plans)
        return RunRecord(run="r", node=node, planned=plans, results=tuple(good))

    runs = [on("a", ("cuda:0", "cuda:1")), on("b", ("cuda:0", "cuda:1")), on("c", ("cuda:0",))]
    assert plain_checks(runs) == (PlainCheck(test="b", devices=("cuda:0", "cuda:1")),)
    assert plain_checks(runs[1:]) == (PlainCheck(test="b", devices=("cuda:0",)),)
    assert plain_checks([]) == ()


def test_what_most_runs_leave_out_is_known() -> None:
    def leaving_out(run: RunRecord) -> RunRecord:
        results = (replace(one, left_out="no switch") for one in run.results)
        return replace(run, results=tuple(results))

    runs = [run_of(name, ("x",)) for name in "abc"]
    assert parted_benchmarks([leaving_out(runs[0]), *runs[1:]]) == ()
    assert parted_benchmarks([*map(leaving_out, runs[:2]), runs[2]]) == ("bench", "x")


def test_a_failure_that_no_sample_tells_of_is_found_unless_waived_or_broken_off() -> None:
    waiver = Waiver(owner="ada", reason="known", expires="2099-01-01", test="y", metric="check")
    broken_off = run_of("d", ("x",), failed=("y",))
    bad = replace(broken_off, node="b", ended="2026-01-01T01:00:00+00:00", exit_status=1)
    runs = [
        replace(run_of("a", ("x", "y")), ended=bad.ended, exit_status=0),
        bad,
        replace(bad, node="c", events=(WaiversRead(waivers=(waiver,)),)),
        broken_off,
    ]
    unmeasured = {("r", node): ("y",) for node in "bcd"}
    found = failed_checks(runs, unmeasured)
    assert [(place, verdict.benchmark) for place, verdict in found.items()] == [(("b", "r"), "y")]
