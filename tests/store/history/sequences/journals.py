"""Write journals of drawn statements as a session does, with the product's own decision."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from pytest_anubis.codec.moments import moment
from pytest_anubis.core.events import (
    INVENTORY,
    Event,
    Judged,
    Measured,
    NodeDecided,
    RunFinished,
    RunStarted,
    TestFinished,
    TestsPlanned,
    TestStarted,
)
from pytest_anubis.core.measurement import Measurement, PlannedTest, TestResult
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.run_state import RunState
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason, Reference, Waiver
from pytest_anubis.core.waiving import WaiversRead
from pytest_anubis.store.journal import journal_file
from pytest_anubis.store.journal.journal_file import Journal
from pytest_anubis.validator import judge_sample
from pytest_anubis.validator.deciding.run_decision import decide_run
from tests.store.history.sequences.statements import (
    CLASS,
    METRICS,
    Statement,
    baseline,
    metric,
    values,
    when,
)

BENCHMARKS = sorted({benchmark for benchmark, _ in METRICS})


def write_journal(store: Path, node: str, one: Statement, after: str = "") -> RunRecord:
    """Write the journal of a run of one node into a store and return the run."""
    state = RunState()
    now = patch.object(journal_file, "_now", return_value=moment(when(one.day)))
    with now, Journal.create(store, one.run) as written:
        for event in _events(node, one, after):
            state.apply(event)
            written.write(event)
        if one.broken != "killed":
            broken_off = "interrupted" if one.broken else ""
            decision = decide_run(
                state.record(),
                baseline(),
                broken_off=f"the run was broken off: {broken_off}" if broken_off else "",
            )
            code = 2 if broken_off else decision.node_verdict.decision.exit_code
            ends: list[Event] = [
                *(Judged(verdict=verdict) for verdict in decision.added),
                NodeDecided(verdict=decision.node_verdict),
                RunFinished(exit_status=code, ended=when(one.day + 0.01), broken_off=broken_off),
            ]
            for event in ends:
                state.apply(event)
                written.write(event)
    return state.record()


def _events(node: str, one: Statement, after: str) -> list[Event]:
    known = baseline()
    places = sorted({(cell[0], cell[2]) for cell in (*one.said, *one.empty)})
    found: list[Event] = [
        RunStarted(
            run=one.run, node=node, started=when(one.day), hardware_class=CLASS, profile="standard",
            purpose="acceptance", baseline=known.digest, looked_at=(INVENTORY,), after=after,
        ),
        TestsPlanned(
            tests=tuple(
                PlannedTest(
                    test=f"{benchmark}[{device}]", benchmark=benchmark, device=device,
                    component="accelerator",
                    metrics=tuple(name for of, name in METRICS if of == benchmark),
                )
                for benchmark, device in places
            )
        ),
    ]  # fmt: skip
    waivers = tuple(
        Waiver(
            owner="j.doe", reason="ordered", expires=day, metric=name, expired=day < when(one.day)
        )
        for name, day in one.waived.items()
    )
    if waivers:
        found.append(WaiversRead(waivers=waivers))
    for device in sorted(one.absent):
        lost = MetricVerdict(
            outcome=Outcome.FAIL, reason=Reason.HARDWARE, text=f"{device} is not there",
            benchmark="inventory", metric="accelerators", node=node, reference=Reference.FLEET,
        )  # fmt: skip
        found.append(Judged(verdict=lost))
    for benchmark, device in places:
        test = f"{benchmark}[{device}]"
        found.append(TestStarted(test=test))
        mine = [c for c in sorted(one.said) if (c[0], c[2]) == (benchmark, device)]
        for cell in mine:
            measured = Measurement(
                test=test, benchmark=benchmark, component="accelerator", metric=metric(cell[1]),
                device=device, values=values(cell, one.said[cell], f"{node} {one.run}"), seconds=1.0,
            )  # fmt: skip
            verdict = judge_sample(
                measured.values, known.find(benchmark, cell[1]), baseline=known, node=node, device=device,
                benchmark=benchmark, metric=measured.metric, component="accelerator",
            )  # fmt: skip
            found += [Measured(measurement=measured), Judged(verdict=replace(verdict, test=test))]
        lacking = any((c[0], c[2]) == (benchmark, device) for c in one.empty)
        result = TestResult(
            test=test, benchmark=benchmark, component="accelerator", metrics=len(mine), seconds=1.0,
            outcome="skipped" if lacking else "passed", text="no tool" if lacking else "",
        )  # fmt: skip
        if not (lacking and one.broken):
            found.append(TestFinished(result=result))
    return found
