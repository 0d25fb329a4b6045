"""What collected runs did not measure: tests that were always skipped, metrics that are declared in vain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.core.asking.open_questions import inapplicable
from pytest_anubis.core.measurement import PlannedTest
from pytest_anubis.core.metric import first_of, metric_name
from pytest_anubis.report.text.numbers import count_text
from pytest_anubis.report.text.summary_text import untested_text

if TYPE_CHECKING:
    from pytest_anubis.store.run_set import RunSet

NAMED = 6
"""Metrics that are named without ``-v``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    """What nothing is learned of, as nothing was measured.

    Attributes:
        skipped: Test, with the device that it is bound to, and why it was skipped in every run that had it.
        apart: How many more do not apply to the machines: there is nothing to be mended.
        unset: Benchmark and name of the metrics that marks declare, of tests that passed, and no run
            recorded: no run is accepted while that is so.
    """

    skipped: tuple[tuple[str, str], ...] = ()
    apart: int = 0
    unset: tuple[tuple[str, str], ...] = ()

    def lines(self, *, verbose: bool = False) -> list[str]:
        """Return what is to be said of them; each test has a line of its own if it is verbose."""
        lines = []
        if self.skipped:
            reasons = [reason for _, reason in self.skipped]
            lines.append(f"skipped in every run: {untested_text(reasons)}")
            if verbose:
                lines += [f"  NOT_TESTED {test}: {reason}" for test, reason in self.skipped]
        if self.apart:
            lines.append(f"not applicable here: {count_text(self.apart, 'test')}")
        if self.unset:
            named = [metric_name(test.rpartition("::")[2], name) for test, name in self.unset]
            first = first_of(named, len(named) if verbose else NAMED)
            lines.append(
                f"nothing is accepted while {count_text(len(named), 'declared metric')} "
                f"{'is' if len(named) == 1 else 'are'} recorded in no run: {first}; record what a mark "
                "declares, or take it out of its metrics"
            )
        return lines


def gaps_of(runs: RunSet, key: str | None = None, *, partly: bool = False) -> Gaps:
    """Return what was not measured in any of some runs.

    Args:
        runs: What was read.
        key: The hardware class whose runs count; None: all.
        partly: Only some of their metrics were read, so that nobody knows which were never recorded.
    """
    mine = [run for run in runs.runs if key is None or run.hardware_class == key]
    recorded = {
        (one.benchmark, one.metric.name)
        for one in runs.populations
        if key is None or one.hardware_class == key
    }
    reasons: dict[str, str] = {}
    ran: set[str] = set()
    unset: dict[tuple[str, str], None] = {}
    for run in mine:
        plans = {plan.test: plan for plan in run.planned}
        for result in run.results:
            plan = plans.get(result.test)
            if plan is None:
                continue
            if result.outcome == "skipped" and not result.metrics:
                reasons.setdefault(_named(plan), result.text)
            else:
                ran.add(_named(plan))
            if result.outcome == "passed":
                declared = [(plan.benchmark or plan.test, name) for name in plan.metrics]
                unset.update(dict.fromkeys(one for one in declared if one not in recorded))
    skipped = {test: why for test, why in reasons.items() if test not in ran}
    apart = [test for test, why in skipped.items() if inapplicable(why)]
    return Gaps(
        skipped=tuple((test, why) for test, why in skipped.items() if test not in apart),
        apart=len(apart),
        unset=() if partly else tuple(unset),
    )


def nothing_measured(gaps: Gaps, *, refused: bool) -> CommandError:
    """Return the error of runs in which no metric was recorded.

    Args:
        gaps: What was not measured in them; its lines were said.
        refused: Some runs or files take no part, of which lines were said.
    """
    if refused:
        why = (
            "the lines above say why (if others disturbed this machine: stop them, and learn again)"
        )
    elif gaps.skipped:
        why = "the tests were skipped, as said above; mend why, and learn again"
    elif gaps.apart:
        why = "no test applies here; name others"
    else:
        why = "no test recorded a metric (with anubis_metric, see docs/writing-benchmarks.md)"
    return CommandError(f"the runs hold nothing to learn from{';' if refused else ':'} {why}")


def _named(plan: PlannedTest) -> str:
    """Return the test as a run's summary names it."""
    return " ".join(filter(None, plan.place))
