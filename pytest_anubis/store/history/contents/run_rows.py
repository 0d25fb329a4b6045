"""Turn a run's benchmarks, verdicts, marks and durations into rows of the history, for `run_filing`.

Its `findings` are marks of runs and verdicts of groups or with a waiver, not the findings of a baseline.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import sqlalchemy as sa

from pytest_anubis.codec.moments import moment
from pytest_anubis.core.events import TestRan
from pytest_anubis.core.metric import whole_of
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.standing.recorded_run import passed_checks
from pytest_anubis.core.standing.standing_of import XFAIL
from pytest_anubis.core.verdict import RETEST, MetricVerdict, Outcome, Reason
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.contents.judgements import judgement_row


def rows_of(run: int, record: RunRecord) -> Iterator[tuple[sa.Table, list[dict[str, Any]]]]:
    """Yield each table that a run may have rows in, with these rows."""
    judged = (verdict_row(run, one) for one in record.effective_verdicts)
    yield schema.benchmarks, list(benchmark_rows(run, record))
    yield schema.verdicts, [*judged, *check_rows(run, record)]
    yield schema.findings, list(finding_rows(run, record))
    yield schema.durations, list(duration_rows(run, record))
    yield schema.judgements, [judgement_row(run, record)]


def benchmark_rows(run: int, record: RunRecord) -> Iterator[dict[str, Any]]:
    """Yield a row for each benchmark that recorded anything and each component that it exercised."""
    known = dict.fromkeys((item.benchmark, item.component) for item in record.measurements)
    for benchmark, component in known:
        yield {"run_id": run, "benchmark": benchmark, "component": component}


def exposing_benchmarks(record: RunRecord, failed: Iterable[MetricVerdict]) -> list[str]:
    """Return the benchmarks that exposed failures; a component's failure counts for all its benchmarks."""
    parts: dict[str, set[str]] = {}
    for one in record.measurements:
        parts.setdefault(whole_of(one.component), set()).add(one.benchmark)
    return sorted({name for v in failed for name in parts.get(v.benchmark, {v.benchmark})})


def verdict_row(run: int, item: MetricVerdict) -> dict[str, Any]:
    """Return a metric's verdict as a row."""
    names = ("benchmark", "metric", "unit", "component", "device", "scope")
    numbers = ("value", "expected", "similarity", "threshold")
    return {
        "run_id": run,
        "outcome": item.outcome.value,
        "reason": item.reason.value,
        "reference": item.reference.value,
        **{name: getattr(item, name) for name in (*names, *numbers)},
    }


def finding_rows(run: int, record: RunRecord) -> Iterator[dict[str, Any]]:
    """Yield the rows that mark the run, and the verdicts on metrics with a group or a waiver.

    The marks are a recorded inventory, a machine that was allowed to be noisy, a rejection that is to be
    measured again first, the soak of which the run is a cycle, and how long a run went on that was killed.
    """
    names = [column.name for column in schema.findings.columns if column.name != "id"]
    empty = dict.fromkeys(names, "") | {"run_id": run}
    if record.replayed:
        yield empty | {"reason": schema.REPLAYED}
    if record.quiet_limits:
        yield empty | {"reason": schema.NOISY}
    if record.node_verdict is not None and record.node_verdict.word == RETEST:
        yield empty | {"reason": schema.AGAIN}
    if record.campaign:
        yield empty | {"reason": schema.CAMPAIGN, "why": record.campaign}
    if record.last:
        lasted = record.last - (moment(record.started) or record.last)
        yield empty | {"reason": schema.KILLED, "why": f"{lasted:.3f}"}
    places = {
        _place(one) for one in record.effective_verdicts if one.group or one.reason is Reason.WAIVED
    }
    for one in record.effective_verdicts:
        if _place(one) in places:
            waiver = (one.reason is Reason.WAIVED and one.waiver) or XFAIL
            row = verdict_row(run, one)
            shared = {name: row[name] for name in names if name in row}
            yield shared | {
                "units": one.group,
                "owner": waiver.owner,
                "why": waiver.reason,
                "expires": waiver.expires,
            }


def _place(verdict: MetricVerdict) -> tuple[str, str, str]:
    return verdict.benchmark, verdict.metric, verdict.device


def check_rows(run: int, record: RunRecord) -> Iterator[dict[str, Any]]:
    """Yield passed checks without a value as verdicts: tests' own checks, and that of the inventory."""
    for (benchmark, metric, device, group), reference in passed_checks(record):
        passed = MetricVerdict(
            outcome=Outcome.PASS,
            reason=Reason.WITHIN,
            text="",
            benchmark=benchmark,
            metric=metric,
            device=device,
            group=group,
            reference=reference,
        )
        yield verdict_row(run, passed)


def duration_rows(run: int, record: RunRecord) -> Iterator[dict[str, Any]]:
    """Yield the seconds that one test of each benchmark costs a node: setup, call and teardown.

    Waiting for a free lane does not count. Tests that run in parallel count once, and share a set-up that the
    worker does once: the duration is the busiest worker's time for the benchmark, divided by the largest
    number of its tests that one worker had.
    """
    for benchmark, seconds in record.took.items():
        yield {"run_id": run, "benchmark": benchmark, "seconds": seconds}
    workers = {event.test: event.worker for event in record.events if isinstance(event, TestRan)}
    spent: dict[str, dict[str, list[float]]] = {}
    for result in record.results:
        if (
            result.benchmark
            and result.outcome in ("passed", "failed", "skipped")
            and result.metrics
        ):
            took = result.seconds + result.around
            of_worker = spent.setdefault(result.benchmark, {})
            of_worker.setdefault(workers.get(result.test, ""), []).append(took)
    for benchmark, shares in spent.items():
        busiest = max(sum(share) for share in shares.values())
        seconds = busiest / max(len(share) for share in shares.values())
        yield {"run_id": run, "benchmark": benchmark, "seconds": seconds}
