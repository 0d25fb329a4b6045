"""Blocks of HTML about verdicts, measurements and blamed parts, for all pages that show a run or a node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from markupsafe import Markup

from pytest_anubis.core.asking.next_step import next_step, next_steps
from pytest_anubis.core.baseline import Baseline, Criterion
from pytest_anubis.core.end_to_end import EndToEndLoss, MetricPlace, place_of_metric
from pytest_anubis.core.history import Defect, precedents_of
from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.node_map import card_number
from pytest_anubis.core.shown_loss import ALL_DEVICES
from pytest_anubis.core.verdict import HOST, MetricVerdict, Outcome, Reason
from pytest_anubis.report.pages.rendering import as_markup, block
from pytest_anubis.report.plots.distribution_plots import cdf_plot
from pytest_anubis.report.plots.time_strip import series_text, spark, strip_plot
from pytest_anubis.report.text.explanation_text import evidence_lines, whole_text
from pytest_anubis.report.text.numbers import (
    certainty_text,
    count_text,
    lost_text,
    similarity_text,
    value_text,
)
from pytest_anubis.report.text.safe_text import plain_line
from pytest_anubis.report.text.since_text import SINCE, since_text
from pytest_anubis.report.text.text_table import clip

MAX_SERIES = 12
"""Telemetry series shown of one measurement; the journal has all."""

MAX_LINES = 20
"""Lines of one kind in the box of a part."""

MAX_NOTE = 160
"""Columns of an operator's note."""

_UNLEARNED = (Reason.NO_BASELINE, Reason.NO_CRITERION)

_VERDICT_HEADS = (
    "metric", "verdict", "value", "expected", "limit", "loss", "certainty", "similarity", "threshold",
    "fleet percentile",
)  # fmt: skip

_CARD = {
    "name": "model", "pci": "slot", "serial": "serial number", "part": "part number", "uuid": "UUID",
    "vbios": "VBIOS", "firmware": "firmware",
}  # fmt: skip
_PROCESSOR = {"model": "model", "microcode": "microcode", "sockets": "sockets"}
_SYSTEM = {"product": "product", "serial": "serial number", "bios": "BIOS"}
"""Reading of the inventory -> label, the most important first."""

CriterionKey = tuple[str, str, str]


def criteria_by_key(baseline: Baseline | None) -> dict[CriterionKey, Criterion]:
    """Return the criteria for single units by (benchmark, metric, group)."""
    criteria = baseline.criteria if baseline is not None else ()
    return {(c.benchmark, c.metric.name, c.group): c for c in criteria if c.scope == "unit"}


def criterion_of(
    measurement: Measurement, known: dict[CriterionKey, Criterion]
) -> Criterion | None:
    """Return the criterion of a measurement, None without one or when units or versions differ."""
    found = known.get((measurement.benchmark, measurement.metric.name, measurement.group))
    same = found is not None and found.metric.variant == measurement.metric.variant
    return found if same else None


def verdict_rows(verdicts: Iterable[MetricVerdict]) -> Markup:
    """Return a table with one row a verdict, the worst first."""
    rows = [
        (
            (verdict.metric or "(none)")
            + (f" of {ALL_DEVICES}" if verdict.scope == "node" else ""),
            block("triaged_badge", verdict),
            value_text(verdict.value, verdict.unit),
            value_text(verdict.expected, verdict.unit),
            value_text(verdict.limit, verdict.unit),
            lost_text(verdict),
            certainty_text(verdict.certainty),
            similarity_text(verdict.similarity),
            similarity_text(verdict.threshold),
            "-" if verdict.percentile is None else f"{verdict.percentile:.0f}",
        )
        for verdict in sorted(verdicts, key=lambda verdict: verdict.severity)
    ]
    return block("table", _VERDICT_HEADS, rows, numbers=range(2, len(_VERDICT_HEADS)))


def explanation(verdict: MetricVerdict) -> Markup:
    """Return why a verdict is what it is, with disturbance, evidence, origin and next step."""
    lines = [("", verdict.text)]
    lines += [("disturbed: ", text) for text in verdict.disturbance]
    lines += [("evidence: ", text) for text in evidence_lines(verdict)]
    lines.append((f"{SINCE}: ", since_text(verdict)))
    if verdict.population:
        lines.append(("learned from: ", f"{verdict.population}, baseline {verdict.baseline}"))
    # Without a baseline nothing speaks against the part.
    learned = verdict.reason not in _UNLEARNED
    if verdict.action and learned and verdict.outcome not in (Outcome.PASS, Outcome.NOT_TESTED):
        lines.append(("next step: ", next_step(verdict)))
    return block("explanation", lines)


def plots(
    measurement: Measurement,
    criterion: Criterion | None,
    verdict: MetricVerdict | None,
    *,
    points: int = 90,
) -> Markup:
    """Return the plots of one measurement: its distribution, and its values in time order."""
    metric = measurement.metric
    limit = verdict.limit if verdict else None
    distribution = cdf_plot(
        measurement.values,
        criterion.centre if criterion else (),
        unit=metric.unit,
        better=metric.better,
        limit=limit,
        label=f"{metric.name}: distribution of the measured values against the expected one",
        steps=points,
    )
    strip = strip_plot(
        measurement.values,
        unit=metric.unit,
        label="in time order",
        expected=verdict.expected if verdict else None,
        limit=limit,
        points=points,
    )
    return as_markup(f"<div class='plots'>{distribution}{strip}</div>")


def telemetry(
    measurement: Measurement, *, max_series: int = MAX_SERIES, points: int = 40
) -> Markup:
    """Return the series of the sensors during a measurement, those that moved first; empty without any."""
    series = sorted(measurement.telemetry, key=lambda s: len(set(s[1])) < 2)
    if not series:
        return Markup()
    rows = [
        (name, series_text(values), spark(values, label=name, points=points))
        for name, values in series[:max_series]
    ]
    return block("telemetry", len(series), rows, len(series) - max_series)


def blamed_parts(
    verdicts: Iterable[MetricVerdict],
    cards: Mapping[str, str],
    inventory: Mapping[str, Any] = MappingProxyType({}),
    *,
    heading: str = "h3",
    step: str = "",
    losses: Iterable[EndToEndLoss] = (),
    closed: Sequence[Defect] = (),
) -> list[Markup]:
    """Return one box for each card and each component of the host, with all that speaks against it.

    Findings about all devices have a box of their own, which comes first in its severity; the boxes of the
    devices do not repeat its lines. An end-to-end loss is below the micro benchmarks that explain it.

    Args:
        verdicts: Those that are FAIL or MARGINAL, in any order; the worst part comes first.
        cards: Device -> slot and serial number of its card in words.
        inventory: The node's, as plain data; it describes a card more fully than `cards`.
        heading: Element of a box's title.
        step: Next step that replaces the parts' own ones; empty for those.
        losses: The node's end-to-end losses.
        closed: Defects of the node's class that operators have closed.
    """
    verdicts = sorted(verdicts, key=lambda verdict: verdict.severity)
    devices: dict[tuple[str, str, str], set[str]] = {}
    for verdict in verdicts:
        if verdict.scope == "unit":
            devices.setdefault(_metric(verdict), set()).add(verdict.device)
    parts: dict[tuple[str, str], list[MetricVerdict]] = {}
    for verdict in verdicts:
        pooled = verdict.scope == "node"
        if pooled and len(devices.get(_metric(verdict), ())) == 1:
            continue  # one card makes the node's pooled values bad, and has a box
        blamed = verdict.component or verdict.benchmark
        many_parts = verdict.device in HOST or pooled
        place = ALL_DEVICES if pooled else _card(verdict.device, cards)
        parts.setdefault((place, blamed if many_parts else ""), []).append(verdict)
    wholes = {loss.whole: loss for loss in losses}
    boxes = _in_order(parts, wholes)
    shared = {
        line for (place, _), found in boxes if place == ALL_DEVICES for line in _about(found, step)
    }
    drawn = []
    for (place, _), found in boxes:
        about = _about(found, step)
        if place != ALL_DEVICES:
            about = [line for line in about if line not in shared]
        about += _before(found, closed)
        identity = identity_text(place, inventory) or cards.get(place, "")
        drawn.append(_part(place, found, identity, about, heading, wholes))
    return drawn


Wholes = Mapping[MetricPlace, EndToEndLoss]
"""End-to-end losses by their place."""

Box = tuple[tuple[str, str], list[MetricVerdict]]
"""The name of a part and what speaks against it, the worst first."""


def _in_order(parts: Mapping[tuple[str, str], list[MetricVerdict]], wholes: Wholes) -> list[Box]:
    """Return the parts, the worst first; one that others explain alone comes after these."""

    def key(part: tuple[str, str]) -> tuple[Any, ...]:
        return parts[part][0].severity[:2], part[0] != ALL_DEVICES

    part_of = {place_of_metric(v): part for part, found in parts.items() for v in found}
    order: dict[tuple[str, str], tuple[Any, ...]] = {}
    for part, found in parts.items():
        losses = [wholes.get(place_of_metric(verdict)) for verdict in found]
        others = [
            key(part_of[one])
            for loss in losses
            for one in (loss.explained_by if loss else ())
            if one in part_of and part_of[one] != part
        ]
        explained = bool(others) and all(loss and loss.explained_by for loss in losses)
        order[part] = (max(key(part), *others), True) if explained else (key(part), False)
    return sorted(parts.items(), key=lambda box: order[box[0]])


def _before(verdicts: Sequence[MetricVerdict], closed: Sequence[Defect]) -> list[tuple[str, str]]:
    """Return how often defects like this failed part were confirmed, if any was closed."""
    failed = {(v.benchmark, v.metric) for v in verdicts if v.outcome is Outcome.FAIL}
    before = precedents_of(closed, failed)
    count = before.confirmed + before.false_alarms
    if not count:
        return []
    text = f"{before.confirmed} of {count} like it {'was' if count == 1 else 'were'} confirmed"
    if before.false_alarms:
        text += f", {count_text(before.false_alarms, 'false alarm')}"
    note = clip(plain_line(before.note), MAX_NOTE)
    return [("before", f"{text}; last note: {note}" if note else text)]


def _metric(verdict: MetricVerdict) -> tuple[str, str, str]:
    return verdict.benchmark, verdict.metric, verdict.group


def _card(device: str, cards: Mapping[str, str]) -> str:
    """Return the run's name of a card that the gate names by its slot, else the name itself."""
    for name, words in cards.items():
        slot = words.partition(",")[0].removeprefix("slot ")
        if words.startswith("slot ") and slot in device:
            return name
    return device


def identity_text(device: str, inventory: Mapping[str, Any]) -> str:
    """Return slot, serial number and model of a device from the inventory; empty if nothing is known.

    Args:
        device: ``cuda:3``, ``cpu``, ``node``, ...; an accelerator has its number on the node, or its slot.
        inventory: A node's inventory as plain data; may be empty or of another shape.
    """
    number = card_number(device)
    listed = inventory.get("accelerators")
    cards = listed if isinstance(listed, list | tuple) else ()
    # The gate names a card by its slot: "GPU 2 (0000:3a:00.0)".
    slots = (
        c for c in cards if isinstance(c, Mapping) and c.get("pci") and str(c["pci"]) in device
    )
    part, labels = inventory.get("system"), _SYSTEM
    if number is not None and number < len(cards):
        part, labels = cards[number], _CARD
    elif device.partition(":")[0] == "cpu":
        part, labels = inventory.get("processor"), _PROCESSOR
    elif (card := next(slots, None)) is not None:
        part, labels = card, _CARD
    if not isinstance(part, Mapping):
        return ""
    return ", ".join(
        str(part[key]) if label == "model" else f"{label} {part[key]}"
        for key, label in labels.items()
        if part.get(key) not in (None, "")
    )


def _part(
    place: str,
    verdicts: Sequence[MetricVerdict],
    identity: str,
    about: Sequence[tuple[str, str]],
    heading: str,
    wholes: Wholes,
) -> Markup:
    """Return the box of one part; `place` is its device, or all devices."""
    outcome = verdicts[0].outcome.value
    verdicts = sorted(verdicts, key=lambda v: _is_explained(v, wholes))  # they come last
    blamed = dict.fromkeys(v.component or v.benchmark for v in verdicts)
    title = (f"{place}: " if place not in HOST else "") + ", ".join(blamed)
    reasons = [_reason(verdict, wholes) for verdict in verdicts[:MAX_LINES]]
    reasons += [f"and {len(verdicts) - MAX_LINES} more"] if len(verdicts) > MAX_LINES else []
    return block("part", outcome, title, identity, reasons, about, heading)


def _about(verdicts: Sequence[MetricVerdict], step: str) -> list[tuple[str, str]]:
    """Return evidence, disturbances and the next step of a part, each with its label."""
    steps = (
        [step] if step else list(next_steps(verdicts)) or [*filter(None, map(next_step, verdicts))]
    )
    texts = (
        ("evidence", [text for v in verdicts for text in evidence_lines(v)]),
        (SINCE, [*filter(None, map(since_text, verdicts))]),
        ("disturbed", [text for v in verdicts for text in v.disturbance]),
        ("next step", steps[:1]),
    )
    return [
        (label, text) for label, some in texts for text in list(dict.fromkeys(some))[:MAX_LINES]
    ]


def _is_explained(verdict: MetricVerdict, wholes: Wholes) -> bool:
    loss = wholes.get(place_of_metric(verdict))
    return loss is not None and bool(loss.explained_by)


def _reason(verdict: MetricVerdict, wholes: Wholes) -> str:
    """Return why a part is blamed, with the test where it has several cases or groups."""
    loss = wholes.get(place_of_metric(verdict))
    why = f"; {whole_text(loss)}" if loss is not None else ""
    name = verdict.metric or verdict.benchmark
    text = verdict.text.removeprefix(f"{verdict.device}: ")  # the box's title says it
    text = text if text.startswith(name) else f"{name}: {text}"
    test = verdict.benchmark.partition("::")[2]
    group = f" ({verdict.group})" if verdict.group and verdict.group not in test else ""
    several = verdict.metric and ("[" in test or group)
    return (f"{test}{group} {text}" if several else text) + why
