"""Find the part of one node that its slow devices share: a PCIe switch, a socket, or what all of them use.

The level of a device in a component is the mean over the component's metrics of log(value / expected), each
weighted by one over the metric's healthy spread; less is worse. A hypothesis names a device, the devices
below one bridge, those of one NUMA node, or all; it is scored as `core.part_odds` says, with one value for
each device, since the metrics of one device are not independent. Several faults are found one after the
other: the loss of each is given back to its devices first. The loss of all devices is compared with what the
baseline expects, that of a part with the other devices.

A part is a hypothesis from one run of one node. It explains verdicts and changes none. `collected_judging`
and `run_decision` use it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.node_map import PartKind, Place, SharedPart, places_of
from pytest_anubis.core.part_odds import ALPHA, log_odds, posterior
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.sample import Population
from pytest_anubis.core.verdict import MetricVerdict, Outcome
from pytest_anubis.validator.similarity.component_means import MIN_SPREAD
from pytest_anubis.validator.surveying.trait_shifts import MIN_CHANGE

KINDS = 4
"""Kinds of hypotheses, each with the same share of the prior: device, switch, socket, all."""
MIN_DEVICES = 3
"""Fewest devices among which one can be distinguished from the others."""
MIN_LOSS_OF_ALL = 0.05
"""Relative loss of all devices that matters, as for the Validator's least similarity of 0.95: nodes of a
class differ by more than the devices of a node do."""
_MIN_LOG_ODDS = math.log(1 / ALPHA)  # from which a hypothesis is accepted
_MIN_SHIFT = math.log1p(-MIN_CHANGE)  # logarithm of the rate from which a loss counts; below 0

Unit = tuple[str, str]
"""Node and hardware class."""
Levels = Mapping[str, float]
"""Device -> its mean log(value / expected) over the metrics of one component."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A device's value of one metric, relative to what is expected."""

    component: str  # the part of the node that the metric measures
    metric: tuple[str, ...]  # key of the metric
    device: str  # the device
    level: float  # log(value / expected), with the opposite sign if lower is better
    spread: float = 0.0  # healthy spread of the metric; 0 if unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A hypothesis: the part, and the devices that it would slow down."""

    kind: PartKind | Literal["device"]  # ``device`` or the kind of a shared part
    name: str  # the device, the bridge, or the NUMA node
    devices: tuple[str, ...]  # its devices, in order
    prior: float  # its share of the prior
    alike: int  # how many hypotheses of its kind there are
    socket: int | None = None  # NUMA node with the same devices as a bridge


@dataclass(frozen=True, slots=True, kw_only=True)
class Accused:
    """A hypothesis that explains the losses of one component, with its relative loss and its posterior."""

    suspect: Suspect
    loss: float
    confidence: float


def shared_parts(
    run: RunRecord, baseline: Baseline | None, verdicts: Iterable[MetricVerdict]
) -> tuple[SharedPart, ...]:
    """Return the shared parts that explain why devices of a run are slow, the most certain first.

    There are none without a map in the run's inventory. Values are compared with the baseline, or without a
    criterion with the node's median. A part is named only if one of its devices is FAIL or MARGINAL in the
    verdicts as they count.
    """
    places = places_of(run.inventory, [one.device for one in run.measurements])
    bad = _bad_devices(verdicts, places)
    wanted = [one for one in run.measurements if one.component in bad and one.device in places]
    found: list[SharedPart] = []
    for component, levels in _levels(readings(wanted, baseline), places):
        own = {device: places[device] for device in levels}
        found += parts_of(component, accused(levels, suspects(own)), bad[component])
    return merged(found)


def _bad_devices(
    verdicts: Iterable[MetricVerdict], places: Mapping[str, Place]
) -> dict[str, set[str]]:
    """Return component -> the devices with a place that are FAIL or MARGINAL in it."""
    found: dict[str, set[str]] = {}
    for verdict in verdicts:
        if verdict.outcome in (Outcome.FAIL, Outcome.MARGINAL) and verdict.device in places:
            found.setdefault(verdict.component, set()).add(verdict.device)
    return found


def parts_of_collected(
    populations: Iterable[Population],
    runs: Mapping[Unit, RunRecord],
    verdicts: Mapping[Unit, Sequence[MetricVerdict]],
    baselines: Mapping[str, Baseline],
    began: Mapping[tuple[str, str], str],
) -> dict[Unit, tuple[SharedPart, ...]]:
    """Return the shared parts of collected nodes with bad devices, as `shared_parts` of one run.

    The latest sample of each device counts: `began` maps run and node to its begin, ISO 8601. `runs` have the
    inventory of each node, and baselines are by hardware class.
    """
    bad: dict[Unit, dict[str, set[str]]] = {}
    for unit, run in runs.items():
        own = verdicts.get(unit, ())
        found = _bad_devices(own, places_of(run.inventory, [one.device for one in own]))
        if found:
            bad[unit] = found
    samples: dict[Unit, list[tuple[str, Population, int]]] = {unit: [] for unit in bad}
    for one in populations if bad else ():
        key = one.hardware_class
        nodes = {node for (node, of), slow in bad.items() if of == key and one.component in slow}
        for row, node in enumerate(one.nodes if nodes else ()):
            if node in nodes:
                when = began.get((one.runs[row], node), "")
                samples[node, key].append((when, one, row))
    parts = {}
    for unit, those in samples.items():
        those.sort(key=lambda sample: sample[0])
        run = replace(runs[unit], measurements=tuple(one.measurement(row) for _, one, row in those))
        parts[unit] = shared_parts(run, baselines.get(unit[1]), verdicts[unit])
    return parts


def readings(measurements: Sequence[Measurement], baseline: Baseline | None) -> list[Reading]:
    """Return the value of every device relative to its criterion's centre, else to the node's median.

    Exact metrics, values that are not positive and values of a disturbed machine are left out.
    """
    criteria = {
        (c.benchmark, c.metric.name, c.group): c
        for c in (baseline.criteria if baseline is not None else ())
        if c.scope == "unit" and c.typical > 0
    }
    by_metric: dict[tuple[str, str, str], dict[str, tuple[Measurement, float]]] = {}
    for one in measurements:
        middle = median(one.values) if one.values else 0.0
        if one.metric.better != "equal" and not one.disturbance and 0 < middle < math.inf:
            key = (one.benchmark, one.metric.name, one.group)
            by_metric.setdefault(key, {})[one.device] = one, middle
    found = []
    for key, devices in by_metric.items():
        criterion = criteria.get(key)
        usual = (
            criterion.typical
            if criterion is not None
            else median(middle for _, middle in devices.values())
        )
        for device, (one, middle) in devices.items():
            level = math.log(middle) - math.log(usual)  # a quotient may be 0 or infinite
            found.append(
                Reading(
                    component=one.component,
                    metric=key,
                    device=device,
                    level=level if one.metric.better == "higher" else -level,
                    spread=0.0 if criterion is None else criterion.spread,
                )
            )
    return found


def _levels(
    found: Iterable[Reading], places: Mapping[str, Place]
) -> list[tuple[str, dict[str, float]]]:
    """Return each component with its levels, apart for each sort of device."""
    groups: dict[tuple[str, str], list[Reading]] = {}
    for one in found:
        groups.setdefault((one.component, places[one.device].sort), []).append(one)
    return [(component, levels_of(those)) for (component, _), those in groups.items()]


def levels_of(found: Iterable[Reading]) -> dict[str, float]:
    """Return device -> its weighted mean level over all metrics of one component."""
    metrics: dict[tuple[str, ...], list[Reading]] = {}
    for one in found:
        metrics.setdefault(one.metric, []).append(one)
    sums: dict[str, list[float]] = {}
    for those in metrics.values():
        weight = 1 / max(_spread(those), MIN_SPREAD)
        for one in those:
            total = sums.setdefault(one.device, [0.0, 0.0])
            total[0] += weight * one.level
            total[1] += weight
    return {device: total / weight for device, (total, weight) in sums.items()}


def _spread(those: Sequence[Reading]) -> float:
    """Return the healthy spread of a metric; if it is unknown, the typical deviation on this node."""
    if those[0].spread > 0:
        return those[0].spread
    middle = median(one.level for one in those)
    return median(abs(one.level - middle) for one in those)


def suspects(places: Mapping[str, Place]) -> list[Suspect]:
    """Return all hypotheses about some devices.

    The nearest of several bridges with the same devices below them is named. A NUMA node with the devices of
    one bridge is the same hypothesis, which has the prior of both.
    """
    order = {device: number for number, device in enumerate(sorted(places, key=_in_order))}
    below: dict[str, set[str]] = {}
    height: dict[str, int] = {}  # fewest bridges between a bridge and a device below it
    sockets: dict[int, set[str]] = {}
    for device, place in places.items():
        for number, bridge in enumerate(place.bridges):
            below.setdefault(bridge, set()).add(device)
            height[bridge] = min(number, height.get(bridge, number))
        if place.numa_node is not None:
            sockets.setdefault(place.numa_node, set()).add(device)

    def shared(groups: Mapping[str, Collection[str]]) -> dict[tuple[str, ...], str]:
        found: dict[tuple[str, ...], str] = {}
        for name, devices in groups.items():  # the nearest bridges come first
            if 1 < len(devices) < len(places):
                found.setdefault(tuple(sorted(devices, key=order.__getitem__)), name)
        return found

    switches = shared(dict(sorted(below.items(), key=lambda one: height[one[0]])))
    nodes = shared({str(number): devices for number, devices in sorted(sockets.items())})
    found = [
        Suspect(kind="device", name=one, devices=(one,), prior=1 / len(order), alike=len(order))
        for one in order
    ]
    for devices, name in switches.items():
        twin = nodes.get(devices)
        found.append(
            Suspect(
                kind="switch",
                name=name,
                devices=devices,
                prior=1 / len(switches) + (0.0 if twin is None else 1 / len(nodes)),
                alike=len(switches),
                socket=None if twin is None else int(twin),
            )
        )
    found += [
        Suspect(kind="socket", name=name, devices=devices, prior=1 / len(nodes), alike=len(nodes))
        for devices, name in nodes.items()
        if devices not in switches
    ]
    found.append(Suspect(kind="all", name="", devices=tuple(order), prior=1.0, alike=1))
    return [replace(one, prior=one.prior / KINDS) for one in found]


def _in_order(device: str) -> tuple[str, int, str]:
    kind, _, number = device.partition(":")
    return kind, int(number) if number.isdecimal() else 0, device


def accused(levels: Levels, hypotheses: Sequence[Suspect]) -> list[Accused]:
    """Return the hypotheses that explain the losses of one component, the greatest first; may be empty."""
    y = dict(levels)
    parts = [one for one in hypotheses if one.kind != "all"]
    found: list[Accused] = []
    while len(y) >= MIN_DEVICES and len(found) < len(y):
        ranking = ranked(y, parts)
        if not ranking or ranking[0][1] < _MIN_LOG_ODDS or ranking[0][2] > _MIN_SHIFT:
            break
        best, _, shift = ranking[0]
        shares = posterior([score for _, score, _ in ranking])
        found.append(Accused(suspect=best, loss=-math.expm1(shift), confidence=float(shares[0])))
        for device in best.devices:
            y[device] -= shift
    for one in hypotheses:
        if one.kind == "all" and (lost := _all_slow(y, one)) is not None:
            found.append(lost)
    return found


def ranked(levels: Levels, parts: Iterable[Suspect]) -> list[tuple[Suspect, float, float]]:
    """Return hypotheses about some of the devices with log odds and shift, the likeliest first."""
    count = len(levels)
    nothing = _deviations(levels.values())
    found = []
    for one in parts:
        own = [levels[device] for device in one.devices]
        others = [level for device, level in levels.items() if device not in one.devices]
        shift = median(own) - median(others)
        if shift >= 0:
            continue
        left = _deviations(own) + _deviations(others)
        score = log_odds(nothing, left, count, losses=1, prior=one.prior, floor=MIN_SPREAD)
        found.append((one, score, shift))
    return sorted(found, key=lambda one: -one[1])


def _all_slow(levels: Levels, every: Suspect) -> Accused | None:
    """Return that all devices are slower than expected; None if they are not."""
    y = list(levels.values())
    if len(y) < MIN_DEVICES or median(y) > math.log1p(-MIN_LOSS_OF_ALL):
        return None
    as_expected = sum(map(abs, y))
    left = _deviations(y)
    score = log_odds(as_expected, left, len(y), losses=1, prior=every.prior, floor=MIN_SPREAD)
    if score < _MIN_LOG_ODDS:
        return None
    return Accused(
        suspect=every, loss=-math.expm1(median(y)), confidence=float(posterior([score])[0])
    )


def _deviations(levels: Collection[float]) -> float:
    """Return the sum of absolute deviations from the median."""
    middle = median(levels)
    return sum(abs(level - middle) for level in levels)


def parts_of(component: str, those: Sequence[Accused], bad: Collection[str]) -> list[SharedPart]:
    """Return the accused hypotheses of one component that are shared parts of bad devices."""
    return [
        SharedPart(
            kind=one.suspect.kind,
            name=one.suspect.name,
            devices=one.suspect.devices,
            components=(component,),
            loss=one.loss,
            confidence=one.confidence,
            alone=len(those) == 1 and set(bad) <= set(one.suspect.devices),
            alike=one.suspect.alike,
            socket=one.suspect.socket,
        )
        for one in those
        if one.suspect.kind != "device" and not set(bad).isdisjoint(one.suspect.devices)
    ]


def merged(found: Iterable[SharedPart]) -> tuple[SharedPart, ...]:
    """Return each part once, with all components in which its devices are slow."""
    parts: dict[tuple[object, ...], SharedPart] = {}
    for one in sorted(found, key=lambda part: -part.confidence):
        key = (one.kind, one.name, one.devices)
        known = parts.setdefault(key, one)
        if known is not one:
            parts[key] = replace(
                known,
                components=(*known.components, *one.components),
                loss=max(known.loss, one.loss),
                alone=known.alone and one.alone,
            )
    return tuple(parts.values())
