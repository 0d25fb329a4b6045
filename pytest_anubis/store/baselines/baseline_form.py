"""The form of a baseline as plain data: what stands in the file, and the check of every field."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, cast

from pytest_anubis.core.baseline import (
    MOST_MEDIANS,
    Baseline,
    Criterion,
    Exclusion,
    Finding,
    Scope,
)
from pytest_anubis.core.metric import DIRECTIONS, Direction, Metric
from pytest_anubis.store.fields import Fields, one_line

FORMAT = "anubis-baseline"
SCHEMA = 1

_DIGITS = 8  # significant; far below what any benchmark repeats to
_DEPTH = 32


class BaselineError(ValueError):
    """A baseline cannot be used or written; the message is one line for people."""


def baseline_to_plain(baseline: Baseline) -> dict[str, Any]:
    """Return a baseline as JSON-ready data, numbers rounded to 8 significant digits.

    Raises:
        BaselineError: A number is NaN or infinite.
    """
    return {
        "format": FORMAT,
        "schema": SCHEMA,
        "digest": baseline.digest,
        "hardware_class": baseline.hardware_class,
        "attributes": dict(baseline.attributes),
        "created": baseline.created,
        "nodes": list(baseline.nodes),
        "runs": list(baseline.runs),
        "one_machine": baseline.one_machine,
        "error_rate": _maybe(baseline.error_rate, "error_rate"),
        "confidence": _maybe(baseline.confidence, "confidence"),
        "factor": _maybe(baseline.factor, "factor"),
        "method": baseline.method,
        "criteria": [_criterion_to_plain(c) for c in sorted(baseline.criteria, key=_key)],
        "exclusions": [
            {name: getattr(item, name) for name in _EXCLUSION} for item in baseline.exclusions
        ],
        "findings": [
            {name: getattr(item, name) for name in _FINDING} for item in baseline.findings
        ],
        "inventory": _plain_tree(baseline.inventory, "inventory", 0),
    }


def baseline_from_plain(data: object) -> Baseline:
    """Check plain data completely and return the baseline that it holds.

    The digest is taken as it stands; whether it fits the content is `digest_of`'s to say.

    Raises:
        BaselineError: Anything is wrong; the message names the place, e.g. ``criteria[3].centre[0]``.
    """
    fields = Fields(data, "", BaselineError)
    if fields.raw("format") != FORMAT:
        raise fields.fail("format", f"must be {FORMAT!r}; this is not a baseline")
    if fields.integer("schema") != SCHEMA:
        raise fields.fail(
            "schema",
            f"version {fields.integer('schema')}, this version of pytest-anubis reads {SCHEMA}; "
            "learn the baseline again or use the version that wrote it",
        )
    criteria = tuple(
        _criterion_from_plain(child) for child in fields.children("criteria", needed=True)
    )
    _check_together(criteria)
    baseline = Baseline(
        hardware_class=_named(fields, "hardware_class"),
        attributes=fields.text_mapping("attributes"),
        criteria=criteria,
        created=_date(fields, "created"),
        nodes=fields.texts("nodes"),
        runs=fields.texts("runs"),
        one_machine=fields.flag("one_machine", False),
        error_rate=fields.maybe_number("error_rate", least=0.0, most=1.0),
        confidence=fields.maybe_number("confidence", least=0.0, most=1.0),
        factor=fields.maybe_number("factor", least=0.0),
        method=fields.choice("method", ("median", "medoid"), "median"),
        exclusions=tuple(_exclusion(child) for child in fields.children("exclusions")),
        findings=tuple(_finding(child) for child in fields.children("findings")),
        inventory=_plain_tree(fields.mapping("inventory"), "inventory", 0),
        digest=fields.text("digest", ""),
    )
    fields.nothing_else()
    return baseline


def digest_of(baseline: Baseline) -> str:
    """Return ``sha256:`` and 12 hexadecimal digits over the content, whatever the layout of the file."""
    plain = baseline_to_plain(baseline)
    del plain["digest"]
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return "sha256:" + hashlib.sha256(text.encode("ascii")).hexdigest()[:12]


_EXCLUSION = ("node", "device", "benchmark", "metric", "reason")
_FINDING = ("kind", "text", "benchmark", "metric")


def _key(criterion: Criterion) -> tuple[str, str, str, str]:
    return criterion.benchmark, criterion.metric.name, criterion.group, criterion.scope


def _criterion_to_plain(criterion: Criterion) -> dict[str, Any]:
    place = f"criterion {criterion.benchmark} {criterion.metric.name}"
    metric = criterion.metric
    # A loss that no sample of this length could show is as good as unknown.
    detectable = criterion.detectable
    if detectable is not None and not math.isfinite(detectable):
        detectable = None
    return {
        "benchmark": criterion.benchmark,
        "metric": metric.name,
        "unit": metric.unit,
        "better": metric.better,
        "goal": metric.goal,
        "question": metric.question,
        "action": metric.action,
        "component": criterion.component,
        "group": criterion.group,
        "scope": criterion.scope,
        "centre": _numbers(criterion.centre, f"{place}: centre"),
        "alpha": _round(criterion.alpha, f"{place}: alpha"),
        "limit": _maybe(criterion.learned, f"{place}: limit"),
        "hasty": _maybe(criterion.unconfirmed, f"{place}: hasty"),
        "spread": _round(criterion.spread, f"{place}: spread"),
        "repeatability": _maybe(criterion.repeatability, f"{place}: repeatability"),
        "detectable": _maybe(detectable, f"{place}: detectable"),
        "medians": _numbers(criterion.medians, f"{place}: medians"),
        "nodes": criterion.nodes,
        "units": criterion.units,
        "least": criterion.least,
        "weak": criterion.weak,
        "window": None if criterion.window is None else list(criterion.window),
        "notes": list(criterion.notes),
    }


def _criterion_from_plain(fields: Fields) -> Criterion:
    criterion = Criterion(
        benchmark=_named(fields, "benchmark"),
        metric=_metric(fields),
        component=fields.text("component", ""),
        group=fields.text("group", ""),
        scope=cast("Scope", fields.choice("scope", ("unit", "node"), "unit")),
        centre=_ascending(fields, "centre"),
        alpha=fields.number("alpha", least=0.0, most=1.0),
        learned=fields.maybe_number("limit", least=0.0, most=1.0),
        unconfirmed=fields.maybe_number("hasty", least=0.0, most=1.0),
        spread=fields.number("spread", 0.0, least=0.0),
        repeatability=fields.maybe_number("repeatability", least=0.0, most=1.0),
        detectable=fields.maybe_number("detectable", least=0.0),
        medians=_ascending(fields, "medians", most=MOST_MEDIANS),
        nodes=fields.integer("nodes", 0),
        units=fields.integer("units", 0),
        least=fields.integer("least", 1, least=1),
        weak=fields.flag("weak", False),
        window=_window(fields),
        notes=fields.texts("notes"),
    )
    if not criterion.centre:
        raise fields.fail("centre", "is empty; a criterion needs at least one value")
    fields.nothing_else()
    return criterion


def _metric(fields: Fields) -> Metric:
    better = cast("Direction", fields.choice("better", DIRECTIONS))
    texts = {name: fields.text(name, "") for name in ("goal", "question", "action")}
    try:
        return Metric(name=fields.text("metric"), unit=fields.text("unit"), better=better, **texts)
    except BaselineError:
        raise
    except ValueError as error:
        raise fields.fail("metric", str(error)) from None


def _check_together(criteria: tuple[Criterion, ...]) -> None:
    seen: dict[tuple[str, str, str, str], int] = {}
    metrics: dict[tuple[str, str], Metric] = {}
    for i, criterion in enumerate(criteria):
        key = _key(criterion)
        if key in seen:
            raise BaselineError(
                f"criteria[{i}]: the same benchmark, metric, group and scope as criteria[{seen[key]}]; "
                "remove one of them"
            )
        seen[key] = i
        metric = metrics.setdefault(key[:2], criterion.metric)
        if (metric.unit, metric.better) != (criterion.metric.unit, criterion.metric.better):
            raise BaselineError(
                f"criteria[{i}].unit: {criterion.metric.unit} ({criterion.metric.better}) here, "
                f"{metric.unit} ({metric.better}) in another criterion of the same metric; "
                "one metric has one unit and one direction"
            )


def _ascending(fields: Fields, name: str, *, most: int | None = None) -> tuple[float, ...]:
    values = fields.numbers(name, needed=name == "centre")
    if most is not None and len(values) > most:
        raise fields.fail(name, f"{len(values)} values, at most {most} allowed")
    for i in range(1, len(values)):
        if values[i] < values[i - 1]:
            raise fields.fail(f"{name}[{i}]", "smaller than the value before; sort them ascending")
    return values


def _window(fields: Fields) -> tuple[int, int] | None:
    if not fields.has("window"):
        return None
    window = fields.items("window")
    if len(window) != 2:
        raise fields.fail("window", f"{len(window)} numbers, must be two: [warm-up, length]")
    pair = Fields({"[0]": window[0], "[1]": window[1]}, fields.at("window"), fields.error)
    return pair.integer("[0]"), pair.integer("[1]", least=1)


def _named(fields: Fields, name: str) -> str:
    text = fields.text(name)
    if not text.strip() or not text.isprintable():
        raise fields.fail(name, "is empty or unprintable")
    return text


def _date(fields: Fields, name: str) -> str:
    text = fields.text(name)
    try:
        datetime.fromisoformat(text)
    except ValueError:
        raise fields.fail(
            name, f"{text[:40]!r} is not a date such as 2026-01-31T12:00:00Z"
        ) from None
    return text


def _exclusion(fields: Fields) -> Exclusion:
    exclusion = Exclusion(**{name: fields.text(name) for name in _EXCLUSION})
    fields.nothing_else()
    return exclusion


def _finding(fields: Fields) -> Finding:
    finding = Finding(**{name: fields.text(name, "") for name in _FINDING})
    fields.nothing_else()
    return finding


def _round(value: float, place: str) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise BaselineError(f"{place} is {number}; a baseline holds finite numbers only")
    return float(f"{number:.{_DIGITS}g}")


def _maybe(value: float | None, place: str) -> float | None:
    return None if value is None else _round(value, place)


def _numbers(values: Iterable[float], place: str) -> list[float]:
    return [_round(value, place) for value in values]


def _plain_tree(value: Any, place: str, depth: int) -> Any:
    if depth > _DEPTH:
        raise BaselineError(f"{place[:80]}: nested more than {_DEPTH} levels deep")
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return _round(value, place)
    if isinstance(value, Mapping):
        return {
            str(k): _plain_tree(v, f"{place}.{one_line(str(k))}", depth + 1)
            for k, v in value.items()
        }
    if isinstance(value, list | tuple):
        return [_plain_tree(v, f"{place}[{i}]", depth + 1) for i, v in enumerate(value)]
    raise BaselineError(f"{place}: {type(value).__name__} is not plain data")
