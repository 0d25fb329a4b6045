"""For `anubis baseline backtest`: judge earlier runs by an old and a new baseline, and compare the verdicts.

The runs that only the new baseline rejects bound its rate of false rejections from above.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.sample import Population
from pytest_anubis.core.verdict import Outcome
from pytest_anubis.validator.judging.column_judging import judge_populations
from pytest_anubis.validator.judging.verdict_table import OUTCOMES

Key = tuple[str, str, str, str]
"""Scope, node, device, run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictChange:
    """One unit whose verdict on one metric changes."""

    node: str
    device: str
    run: str
    benchmark: str
    metric: str
    scope: str
    before: Outcome
    after: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Backtest:
    """The verdicts of a new baseline on earlier runs, compared with those of the old one."""

    changes: tuple[VerdictChange, ...]  # to FAIL first, then from FAIL
    nodes: int  # how many nodes were judged, each once as `anubis judge` counts them
    runs: int  # how many runs of nodes they are
    rejected_before: int  # nodes with a FAIL in any of their runs under the old baseline
    rejected_after: int  # nodes with a FAIL in any of their runs under the new one
    newly_rejected: tuple[str, ...]  # names of the nodes that only the new one rejects
    newly_passed: tuple[str, ...]  # names of the nodes that only the old one rejects
    sound: int  # runs of nodes that the old baseline did not reject
    sound_rejected: int  # how many of these the new one rejects: at most so many are false
    per_thousand: float | None  # the same in a thousand; None without such runs
    stated: float | None  # the new baseline's own; None if only alpha decides


def backtest(
    populations: Sequence[Population],
    old: Baseline,
    new: Baseline,
    failed: Collection[tuple[str, str]] = (),
) -> Backtest:
    """Judge earlier runs by two baselines of one class, in force and new, and compare.

    `failed` are node and run of failed tests without a sample, which every baseline rejects.
    """
    changes: list[VerdictChange] = []
    before, after, everyone = set(failed), set(failed), set(failed)
    for population in populations:
        everyone.update(zip(population.nodes, population.runs, strict=True))
        was = dict(_outcomes(population, old))
        now = dict(_outcomes(population, new))
        before.update((node, run) for (_, node, _, run), o in was.items() if o is Outcome.FAIL)
        after.update((node, run) for (_, node, _, run), o in now.items() if o is Outcome.FAIL)
        changes.extend(_changes(population, was, now))
    sound = everyone - before
    return Backtest(
        changes=tuple(sorted(changes, key=_worst_first)),
        nodes=len(_nodes(everyone)),
        runs=len(everyone),
        rejected_before=len(_nodes(before)),
        rejected_after=len(_nodes(after)),
        newly_rejected=tuple(sorted(_nodes(after) - _nodes(before))),
        newly_passed=tuple(sorted(_nodes(before) - _nodes(after))),
        sound=len(sound),
        sound_rejected=len(after & sound),
        per_thousand=1000 * len(after & sound) / len(sound) if sound else None,
        stated=1000 * new.error_rate
        if new.error_rate is not None and new.factor is not None
        else None,
    )


def _worst_first(change: VerdictChange) -> tuple[object, ...]:
    """Sort key of a change: first new rejections, then rejections that are gone, then all others."""
    does = (change.after is not Outcome.FAIL, change.before is not Outcome.FAIL)
    place = (change.benchmark, change.metric, change.node, change.device, change.run, change.scope)
    return *does, *place


def _nodes(runs: Iterable[tuple[str, str]]) -> set[str]:
    return {node for node, _ in runs}


def _changes(
    population: Population, was: Mapping[Key, Outcome], now: Mapping[Key, Outcome]
) -> Iterator[VerdictChange]:
    for key in sorted(was.keys() | now.keys()):
        old, new = was.get(key, Outcome.NOT_TESTED), now.get(key, Outcome.NOT_TESTED)
        if old is not new:
            scope, node, device, run = key
            yield VerdictChange(
                node=node,
                device=device,
                run=run,
                benchmark=population.benchmark,
                metric=population.metric.name,
                scope=scope,
                before=old,
                after=new,
            )


def _outcomes(population: Population, baseline: Baseline) -> Iterator[tuple[Key, Outcome]]:
    for judged in judge_populations([population], baseline):
        scope = judged.criterion.scope if judged.criterion is not None else "unit"
        for unit, code in zip(judged.population.units(), judged.outcome.tolist(), strict=True):
            yield (scope, *unit), OUTCOMES[code]
