"""Runs: everything that one execution recorded, as its journal tells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from pytest_anubis.core.baseline import Finding
from pytest_anubis.core.measurement import Measurement, TestResult
from pytest_anubis.core.verdict import MetricVerdict, NodeVerdict

Purpose = Literal["measure", "learn", "acceptance"]
PURPOSES: tuple[str, ...] = get_args(Purpose)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTest:
    """One test that the run meant to execute.

    Attributes:
        test: Node id.
        benchmark: Node id without the device parameter.
        component: Component of the mark, empty without one.
        device: Device that the test is bound to, empty if none.
        metrics: Names of the metrics that the mark declares.
        cost: Expected duration in seconds, None when nothing is known.
    """

    test: str
    benchmark: str = ""
    component: str = ""
    device: str = ""
    metrics: tuple[str, ...] = ()
    cost: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Remarks:
    """What the runs of a node say about it besides its samples.

    Attributes:
        verdicts: On what has no sample: the inventory, tests that failed or did not run, what was pruned.
        obstacles: What prevents acceptance: a worker that died, a device that was hidden, a run that was
            broken off.
        notes: What is only told: attempts that failed and were repeated.
        residual_risk: Probability of an incident that pruned benchmarks leave; None if nothing was pruned.
    """

    verdicts: tuple[MetricVerdict, ...] = ()
    obstacles: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    residual_risk: float | None = None

    def with_more(self, more: Remarks) -> Remarks:
        """Return both; of two risks the larger one."""
        risks = [r for r in (self.residual_risk, more.residual_risk) if r is not None]
        return Remarks(
            verdicts=(*self.verdicts, *more.verdicts),
            obstacles=tuple(dict.fromkeys((*self.obstacles, *more.obstacles))),
            notes=tuple(dict.fromkeys((*self.notes, *more.notes))),
            residual_risk=max(risks, default=None),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One run, complete or cut short.

    Attributes:
        run: Id of the run.
        node: Name of the node that was measured.
        hardware_class: Key of the node's hardware class.
        attributes: What the key was made of.
        profile: ``smoke``, ``standard`` or ``soak``.
        started: ISO 8601, UTC.
        ended: ISO 8601, UTC; empty when the run never finished.
        purpose: ``measure`` only recorded, ``learn`` recorded for a baseline, ``acceptance`` judged.
        exit_status: pytest's exit status; None when the run never finished.
        inventory: The node's inventory as plain data; may be empty.
        settings: The settings of the run as plain data; may be empty.
        baseline: Digest of the baseline that the run was judged with; empty if none.
        planned: Every test that the run meant to execute.
        results: How every test ended; a planned test without an end is ``not reported``.
        measurements: In the order in which they were recorded.
        verdicts: In the order in which they were reached; of a test that was repeated, those of its last
            attempt.
        verdict_tests: The test of each verdict, in the same order; empty for what was concluded at the end.
        node_verdict: What was decided about the node; None when the run did not get that far.
        findings: What people should look at.
        events: All other events (telemetry, crashes, ...) as they stand in the journal.
        warnings: What was wrong with the journal itself, one line each.
    """

    run: str
    node: str
    hardware_class: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    profile: str = ""
    started: str = ""
    ended: str = ""
    purpose: Purpose = "measure"
    exit_status: int | None = None
    inventory: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    baseline: str = ""
    planned: tuple[PlannedTest, ...] = ()
    results: tuple[TestResult, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    verdicts: tuple[MetricVerdict, ...] = ()
    node_verdict: NodeVerdict | None = None
    findings: tuple[Finding, ...] = ()
    events: tuple[Mapping[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()
    verdict_tests: tuple[str, ...] = ()
