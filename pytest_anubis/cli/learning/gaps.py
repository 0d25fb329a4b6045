"""Find what learning lacks: tests that every run skipped, and declared metrics that no run recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.core.asking.open_questions import inapplicable
from pytest_anubis.core.metric import first_of, metric_name
from pytest_anubis.report.text.numbers import count_text
from pytest_anubis.report.text.summary_text import untested_text

if TYPE_CHECKING:
    from pytest_anubis.store.run_set import RunSet

MAX_METRICS = 6
"""Metrics that are named without ``-v``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    """What nothing is learned of because it was not measured."""

    # Each test (with its device) that every run skipped, and why
    skipped: tuple[tuple[str, str], ...] = ()
    # How many more tests do not apply to the machines, so that nothing can be mended
    not_applicable: int = 0
    # Benchmark and name of the declared metrics that no run of a passed test recorded; no run is
    # accepted without them
    unset: tuple[tuple[str, str], ...] = ()

    def lines(self, *, verbose: bool = False) -> list[str]:
        """Return the gaps for people; if verbose, each skipped test has its own line."""
        lines = []
        if self.skipped:
            reasons = [reason for _, reason in self.skipped]
            lines.append(f"skipped in every run: {untested_text(reasons)}")
            if verbose:
                lines += [f"  NOT_TESTED {test}: {reason}" for test, reason in self.skipped]
        if self.not_applicable:
            lines.append(f"not applicable here: {count_text(self.not_applicable, 'test')}")
        if self.unset:
            named = [metric_name(test.rpartition("::")[2], name) for test, name in self.unset]
            first = first_of(named, len(named) if verbose else MAX_METRICS)
            lines.append(
                f"nothing is accepted while {count_text(len(named), 'declared metric')} "
                f"{'is' if len(named) == 1 else 'are'} recorded in no run: {first}; record what a mark "
                "declares, or take it out of its metrics"
            )
        return lines


def gaps_of(runs: RunSet, key: str | None = None, *, partly: bool = False) -> Gaps:
    """Return what none of some runs measured, of one hardware class or all.

    With `partly` only some metrics were read, so it is unknown which were never recorded.
    """
    recorded = {
        (one.benchmark, one.metric.name)
        for one in runs.populations
        if key is None or one.hardware_class == key
    }
    reasons: dict[str, str] = {}
    ran: set[str] = set()
    unset: dict[tuple[str, str], None] = {}
    for run in runs.runs:
        if key is not None and run.hardware_class != key:
            continue
        plans = {plan.test: plan for plan in run.planned}
        for result in run.results:
            plan = plans.get(result.test)
            if plan is None:
                continue
            name = " ".join(filter(None, plan.place))
            if result.outcome == "skipped" and not result.metrics:
                reasons.setdefault(name, result.text)
            else:
                ran.add(name)
            if result.outcome == "passed":
                declared = [(plan.benchmark or plan.test, metric) for metric in plan.metrics]
                unset.update(dict.fromkeys(one for one in declared if one not in recorded))
    skipped = {test: why for test, why in reasons.items() if test not in ran}
    applicable = {test: why for test, why in skipped.items() if not inapplicable(why)}
    return Gaps(
        skipped=tuple(applicable.items()),
        not_applicable=len(skipped) - len(applicable),
        unset=() if partly else tuple(unset),
    )


def nothing_measured(gaps: Gaps, *, refused: bool) -> CommandError:
    """Return the error for runs that recorded no metric.

    The lines about gaps, and about refused runs and files, are printed already.
    """
    if refused:
        why = (
            "the lines above say why (if others disturbed this machine: stop them, and learn again)"
        )
    elif gaps.skipped:
        why = "the tests were skipped, as said above; mend why, and learn again"
    elif gaps.not_applicable:
        why = "no test applies here; name others"
    else:
        why = "no test recorded a metric (with anubis_metric, see docs/writing-benchmarks.md)"
    return CommandError(f"the runs hold nothing to learn from{';' if refused else ':'} {why}")
