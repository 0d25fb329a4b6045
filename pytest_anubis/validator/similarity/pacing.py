"""Values at the host's reference pace: what they would have been had the probes taken their usual time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from pytest_anubis.core.baseline import HOST_PACE, Criterion, PacedForm, PaceSlope
from pytest_anubis.core.gather import Gather
from pytest_anubis.core.metric import Direction, Metric
from pytest_anubis.core.sample import FloatArray, Population, Problem

GROUP = 6
"""Successive values that share one pace, the mean of what was read beside them: a burst of `smoke`. A single
reading of a millisecond is noisier than what it is to explain."""

FEW = 3
"""Groups of a sample of fewer values: one alone cannot tell whether it follows the pace within a run."""


def group_logs(seconds: FloatArray) -> FloatArray:
    """Return the logs of the means of successive groups of about `GROUP` durations, shape (groups, ...).

    The mean comes first: of time that was lost now and then, a probe of a millisecond sees all or nothing.

    Args:
        seconds: Shape (n, ...), in time order, n >= 1, above 0.
    """
    parts = max(min(FEW, len(seconds)), round(len(seconds) / GROUP))
    return np.log([part.mean(axis=0) for part in np.array_split(seconds, parts)])


def spread_out(means: FloatArray, count: int) -> FloatArray:
    """Return the mean of its group for each of `count` values: the inverse of `group_logs`."""
    sizes = [len(part) for part in np.array_split(np.empty(count), len(means))]
    return np.repeat(means, sizes, axis=0)


def correction(pace: Mapping[str, npt.ArrayLike], form: PacedForm, count: int) -> FloatArray | None:
    """Return the log of how much worse each value is for the host's pace.

    Args:
        pace: Kind -> seconds of its probe beside each value.
        form: How the metric follows the pace.
        count: How many values.

    Returns:
        Shape (count,); None where the pace is unknown, or beyond what was learned: there nobody knows how
        the metric follows it.
    """
    total = np.zeros(count)
    for one in form.slopes:
        seconds = np.asarray(pace.get(one.kind, ()), dtype=np.float64)
        if len(seconds) != count or not count or not np.all(seconds > 0):
            return None
        logs = group_logs(seconds / one.reference)
        if not np.log(one.least) <= logs.mean() <= np.log(one.most):
            return None
        total += one.slope * spread_out(logs, count)
    return total


def at_reference(values: FloatArray, worse_by: FloatArray, better: Direction) -> FloatArray:
    """Return the values of the reference pace.

    Args:
        values: Shape (n,), in the metric's unit.
        worse_by: Shape (n,), the log of how much worse they are for the pace (`correction`).
        better: Direction of the metric.
    """
    return values * np.exp(worse_by if better == "higher" else -worse_by)


def paced_values(
    values: FloatArray, pace: Mapping[str, npt.ArrayLike], criterion: Criterion
) -> FloatArray | None:
    """Return a sample's values at the reference pace, shape (n,).

    None where the criterion has no such form, or the pace is unknown or beyond what was learned.
    """
    if criterion.paced is None:
        return None
    worse_by = correction(pace, criterion.paced, len(values))
    return None if worse_by is None else at_reference(values, worse_by, criterion.metric.better)


def paced_criterion(criterion: Criterion) -> Criterion:
    """Return what the values at the reference pace are held against.

    Raises:
        ValueError: The criterion has no paced form.
    """
    form = criterion.paced
    if form is None:
        raise ValueError(f"{criterion.metric.name} has no paced form")
    return replace(
        criterion,
        centre=form.centre,
        learned=form.learned,
        unconfirmed=form.unconfirmed,
        spread=form.spread,
        detectable=form.detectable,
        medians=form.medians,
        paced=None,
    )


COMPONENTS = {"memory": "host.memory", "network": "host.network", "disk": "host.disk"}
"""Kind of a probe -> part of the host that it exercises; of all others it is the processor."""

ACTION = (
    "Compare the clock, power settings, CPU quota and neighbours of this host with those of a healthy one: "
    "all that ran on it was slower"
)


def pace_name(slope: PaceSlope) -> str:
    """Return the name of the pace that a metric follows."""
    return f"{slope.kind}_pace"


def pace_metric(kind: str) -> Metric:
    """Return the metric of one kind of probe: its reference time over its time, 1 at the reference pace."""
    return Metric(name=f"{kind}_pace", unit="ratio", better="higher", action=ACTION)


def pace_values(pace: Mapping[str, npt.ArrayLike], form: PacedForm) -> dict[str, FloatArray]:
    """Return the paces beside one sample: kind -> one ratio to the reference for each group of values."""
    found = {}
    for one in form.slopes:
        seconds = np.asarray(pace.get(one.kind, ()), dtype=np.float64)
        if len(seconds) and np.all(seconds > 0):
            found[one.kind] = np.exp(-group_logs(seconds / one.reference))
    return found


def paced_forms_of(criteria: Iterable[Criterion]) -> dict[tuple[str, str, str], PacedForm]:
    """Return the paced forms of a baseline's criteria by (benchmark, metric, group)."""
    return {(c.benchmark, c.metric.name, c.group): c.paced for c in criteria if c.paced is not None}


def pace_populations(
    populations: Iterable[Population], forms: Mapping[tuple[str, str, str], PacedForm]
) -> tuple[Population, ...]:
    """Return the pace of the host in every run, one population for each kind of probe.

    What stood beside all metrics of a run is one sample, since a whole run tells the pace far better than
    one of its measurements. What others disturbed counts only where nothing else is known.

    Args:
        populations: All metrics of some runs.
        forms: (Benchmark, metric, group) -> how it follows the pace, with the references.
    """
    gather = Gather()
    found: dict[tuple[str, str, str, str], list[tuple[FloatArray, Problem | None]]] = {}
    for population in populations:
        form = forms.get((population.benchmark, population.metric.name, population.group))
        if form is None or not population.paces:
            continue
        for row in range(len(population)):
            problem = population.problems.get(row)
            if problem is not None and problem.kind != "disturbed":
                continue
            run = (population.hardware_class, population.nodes[row], population.runs[row])
            for kind, ratios in pace_values(population.pace(row), form).items():
                found.setdefault((*run, kind), []).append((ratios, problem))
    for (hardware_class, node, run_id, kind), parts in found.items():
        quiet = [part for part in parts if part[1] is None]
        values = np.concatenate([ratios for ratios, _ in quiet or parts])
        gather.add(
            hardware_class=hardware_class,
            benchmark=HOST_PACE,
            metric=pace_metric(kind),
            component=COMPONENTS.get(kind, "host.cpu"),
            group="",
            node=node,
            device="node",
            run=run_id,
            values=values.tolist(),
            problem=None if quiet else parts[0][1],
            looks=len(values),
        )
    return gather.populations()
