"""Runs of a small fleet whose figures about validation are counted by hand."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

from pytest_anubis.core.events import (
    Judged,
    Measured,
    NodeDecided,
    RunFinished,
    RunStarted,
    TestFinished,
    TestsPlanned,
)
from pytest_anubis.core.measurement import Measurement, PlannedTest, TestResult
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.verdict import Decision, MetricVerdict, NodeVerdict, Outcome, Reason
from pytest_anubis.store.journal.journal_file import Journal
from tests.cli.command_line import anubis

BEGIN = datetime.datetime(2025, 3, 1, 12, tzinfo=datetime.UTC)
COPY, STREAM = "t.py::test_copy", "t.py::test_stream"
PLANNED = {COPY: 10.0, STREAM: 100.0}
"""Benchmark -> declared seconds of its test."""

ALL = (
    ("r1", "n1", 0, "", 12.0, 60.0),
    ("r2", "n2", 0, COPY, 8.0, 110.0),
    ("r3", "n3", 1, "", 12.0, 100.0),
    ("r4", "n2", 3, "", 20.0, 100.0),
    ("r5", "n4", 3, STREAM, 12.0, 100.0),
    ("r6", "n5", 3, COPY, 12.0, 100.0),
    ("r7", "n1", 3, "", 10.0, 100.0),
    ("r8", "n1", 3, "", 10.0, 100.0),
)
"""Run, node, day, what failed, and seconds of both benchmarks. Four node-days of four are accepted; n2 is
found to be broken, n4 is a false alarm, n5 is open."""


def figures_of_all(*, defects: bool = True) -> dict[str, Any]:
    """Return the figures of all runs, counted by hand; without defects those of journals alone."""
    low, high = 0.0125791, 0.9874209  # Clopper and Pearson, 1 of 2
    closed = {"confirmed": 1, "false_alarms": 1, "share": 0.5, "interval": [low, high]}
    each = {"runs": 8, "compared": 8}
    copy = each | {"benchmark": COPY, "hours": 96 / 3600, "ratio": 1.2, "error": 2.5}
    stream = each | {"benchmark": STREAM, "hours": 770 / 3600, "ratio": 1.0, "error": 6.25}
    unknown = {"confirmed": None, "per_hour": None}
    found = [
        copy | {"confirmed": 1, "per_hour": None},
        stream | {"confirmed": 0, "per_hour": 0.0},
    ]
    return {
        "runs": 8,
        "older": 0,
        "timed": 8,
        "days": 4,
        "accepted": 4,
        "accepted_per_day": 1.0,
        "rejections": {"open": 1, **closed} if defects else None,
        "benchmarks": found if defects else [stream | unknown, copy | unknown],
    }


def write_journals(folder: Path) -> None:
    """Write all runs."""
    for run, node, day, failed, *seconds in ALL:
        began = BEGIN + datetime.timedelta(days=day, minutes=int(run[1:]))
        _write(folder, run, node, began, failed, dict(zip(PLANNED, seconds, strict=True)))


def file_and_close(folder: Path, history: Path) -> None:
    """File all runs; confirm the defect of n2, and close that of n4 as a false alarm."""
    pushed = anubis("push", str(folder), "--history", str(history))
    assert pushed.returncode == 0, pushed.stderr
    given = ("--history", str(history))
    listed = json.loads(anubis("history", "defect", "list", *given, "--json", "-").stdout)
    numbers = {one["node"]: str(one["number"]) for one in listed["defects"]}
    for node, state in (("n2", "confirmed"), ("n4", "false-alarm")):
        done = anubis("history", "defect", "close", numbers[node], "--as", state, *given)
        assert done.returncode == 0, done.stderr


def _write(
    folder: Path, run: str, node: str, began: datetime.datetime, failed: str, took: dict[str, float]
) -> None:
    with Journal.create(folder, run) as file:
        file.write(RunStarted(run=run, node=node, started=began.isoformat(), hardware_class="c"))
        plans = tuple(PlannedTest(test=f"{b}[cpu]", benchmark=b, cost=PLANNED[b]) for b in took)
        file.write(TestsPlanned(tests=plans))
        for benchmark, seconds in took.items():
            bad = benchmark == failed
            test, value = f"{benchmark}[cpu]", 50.0 if bad else 100.0
            metric = Metric(name="rate", unit="GB/s", better="higher")
            file.write(
                Measured(
                    measurement=Measurement(
                        test=test,
                        benchmark=benchmark,
                        component="memory",
                        metric=metric,
                        device="cpu",
                        values=(value,) * 4,
                    )
                )
            )
            verdict = MetricVerdict(
                outcome=Outcome.FAIL if bad else Outcome.PASS,
                reason=Reason.BEYOND if bad else Reason.WITHIN,
                text="slow" if bad else "fine",
                benchmark=benchmark,
                metric="rate",
                unit="GB/s",
                better="higher",
                component=f"memory.{benchmark[-4:]}",
                node=node,
                device="cpu",
                test=test,
                value=value,
            )
            file.write(Judged(verdict=verdict))
            outcome = "failed" if bad else "passed"
            result = TestResult(
                test=test, benchmark=benchmark, outcome=outcome, seconds=seconds, metrics=1
            )
            file.write(TestFinished(result=result))
        decision = Decision.REJECTED if failed else Decision.ACCEPTED
        node_verdict = NodeVerdict(node=node, decision=decision, headline=decision.value)
        file.write(NodeDecided(verdict=node_verdict))
        ended = (began + datetime.timedelta(seconds=sum(took.values()))).isoformat()
        file.write(RunFinished(exit_status=decision.exit_code, ended=ended))
