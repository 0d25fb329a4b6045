"""Samples: all values of one metric from one unit under test, and whole populations of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.metric import Metric

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


HIGH = 1e30
"""Upper limit of any quantity in any unit; sums of float32 values below it stay finite (up to 3.4e38)."""


def unusable_reason(
    values: npt.ArrayLike, *, least: int = 1, durations: bool = False, most: float = HIGH
) -> str | None:
    """Return why values (n,) cannot be a sample in one phrase, or None if they can, in constant memory.

    `least` values count as a sample; none may be larger than `most`; of durations none can be 0
    (`Metric.is_duration`).
    """
    array = np.asarray(values)
    if array.ndim != 1:
        return f"values have {array.ndim} dimensions, one is needed"
    if array.size:
        low, high = float(array.min()), float(array.max())
        if np.isnan(low):
            return f"value {int(np.isnan(array).argmax()) + 1} is NaN"
        if np.isinf(high) or np.isinf(low):
            return f"value {int(np.isinf(array).argmax()) + 1} is infinite"
        if high > most:
            return f"value {int(array.argmax()) + 1} is {high:g}, more than anything can be: unit?"
        if low < 0:
            where = int((array < 0).argmax())
            text = f"value {where + 1} is negative ({array[where]:g})"
            return f"{text}; metrics are on a ratio scale"
        if durations and low == 0:
            return f"value {int((array == 0).argmax()) + 1} is 0, so nothing was timed"
    if array.size == 0:
        return "no value was recorded"
    if array.size < max(least, 1):
        return (
            f"{array.size} value{'s' if array.size != 1 else ''}, at least {max(least, 1)} needed"
        )
    return None


NOTHING_DONE = "all values are 0, so nothing was measured"
"""Why a sample of a rate (`Metric.is_rate`) is unusable if all of its values are 0."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Population:
    """All samples of one metric of one benchmark, of comparable units of one hardware class.

    Row i is one unit under test (a device of a node, or a whole node, in one run). Its values are
    ``values[offsets[i]:offsets[i + 1]]``, in time order.
    """

    hardware_class: str  # key of the class that all units belong to
    benchmark: str  # benchmark id (node id of the test without the device parameter)
    metric: Metric  # what is measured
    # The part of the node that a bad value points to, e.g. ``network.loopback``.
    component: str = ""
    # Label of what makes units comparable (pipeline stage, slot kind); empty if there is none
    group: str = ""
    nodes: Sequence[str]  # length n, the node of each unit
    # Length n, the device of each unit within its node (``cpu``, ``cuda:3``, ``node``)
    devices: Sequence[str]
    runs: Sequence[str]  # length n, the run that each sample comes from
    values: FloatArray  # shape (total,), all values, in the metric's unit
    offsets: IntArray  # shape (n + 1,), where each unit's values begin and end
    # Row -> why that unit has no usable sample (failed test, missing, disturbed, ...). Such a row
    # takes no part in learning; judging gives it a verdict of its own.
    problems: Mapping[int, SampleProblem] = field(default_factory=dict)
    # Row -> how many looks its values come from, if more than one
    looks: Mapping[int, int] = field(default_factory=dict)
    # Some values were recorded by the test itself or imported: they cannot be measured again
    given: bool = False

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def series(self) -> tuple[str, str, str]:
        """Benchmark, metric and group: what names the same values in other runs and hardware classes."""
        return self.benchmark, self.metric.name, self.group

    def units(self) -> Iterator[tuple[str, str, str]]:
        """Yield node, device and run of each row."""
        return zip(self.nodes, self.devices, self.runs, strict=True)

    def sample(self, row: int) -> FloatArray:
        """Return the values of one unit, shape (n_row,), in time order."""
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    def measurement(self, row: int) -> Measurement:
        """Return the sample of one unit as a measurement, with the benchmark in place of a test."""
        problem = self.problems.get(row)
        return Measurement(
            test=self.benchmark,
            benchmark=self.benchmark,
            component=self.component,
            metric=self.metric,
            device=self.devices[row],
            group=self.group,
            values=tuple(self.sample(row).tolist()),
            disturbance=(problem.text,) if problem and problem.kind == "disturbed" else (),
            looks=self.looks.get(row, 1),
        )

    def only(self, rows: Sequence[int]) -> Population:
        """Return the population of some rows, in the given order."""
        order = np.asarray(rows, dtype=np.int64)
        sizes = np.diff(self.offsets)[order]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return replace(
            self,
            nodes=tuple(self.nodes[row] for row in rows),
            devices=tuple(self.devices[row] for row in rows),
            runs=tuple(self.runs[row] for row in rows),
            values=values_of(self.values, self.offsets[order], offsets),
            offsets=offsets,
            problems={i: self.problems[row] for i, row in enumerate(rows) if row in self.problems},
            looks={i: self.looks[row] for i, row in enumerate(rows) if row in self.looks},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleProblem:
    """The reason why a unit has no usable sample."""

    # ``failed`` (the test failed or returned an error), ``missing`` (nothing was recorded),
    # ``absent`` (missing in a table that has it for most nodes), ``refused`` (of an exported file
    # alone: nothing may be learned from its run), ``disturbed`` (the machine was not quiet),
    # ``waived`` (the test failed as its mark expects), ``invalid`` (NaN, negative, too few),
    # ``unit`` (another unit or direction than most others), ``version`` (an earlier version of the
    # benchmark than others)
    kind: str
    text: str  # the reason in one phrase

    @property
    def lacks(self) -> bool:
        """Whether there is no value at all."""
        return self.kind in ("missing", ABSENT)


ABSENT = "absent"
"""Kind of a value that a table has for most nodes but not for this one."""

REFUSED = "refused"
"""Kind of good samples in an exported file, from a run of which nothing may be learned."""


def values_of(flat: FloatArray, begins: IntArray, offsets: IntArray) -> FloatArray:
    """Return the values of rows that begin at some places (n,) of all values; offsets (n + 1,) cut them."""
    # Each value keeps its distance from the begin of its row.
    where = np.arange(offsets[-1]) + np.repeat(begins - offsets[:-1], np.diff(offsets))
    return np.asarray(flat[where])


def population_of(
    samples: Sequence[Sequence[float] | FloatArray],
    *,
    metric: Metric,
    benchmark: str,
    nodes: Sequence[str] | None = None,
    devices: Sequence[str] | None = None,
    runs: Sequence[str] | None = None,
    hardware_class: str = "",
    component: str = "",
    group: str = "",
    problems: Mapping[int, SampleProblem] | None = None,
) -> Population:
    """Build a population from one sequence of values per unit (nodes default to ``n0``, ``n1``, ...)."""
    sizes = [len(sample) for sample in samples]
    count = len(samples)
    flat = (
        np.concatenate([np.asarray(sample, dtype=np.float64) for sample in samples])
        if count
        else np.empty(0, dtype=np.float64)
    )
    return Population(
        hardware_class=hardware_class,
        benchmark=benchmark,
        metric=metric,
        component=component,
        group=group,
        nodes=tuple(nodes) if nodes is not None else tuple(f"n{i}" for i in range(count)),
        devices=tuple(devices) if devices is not None else ("node",) * count,
        runs=tuple(runs) if runs is not None else ("",) * count,
        values=flat,
        offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        problems=dict(problems or {}),
    )
