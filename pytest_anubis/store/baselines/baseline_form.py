"""Convert a baseline to and from the JSON data of its file, check all of it, and compute its digest.

`baseline_files` reads and writes the files.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from pytest_anubis.codec import CodecError, found, from_plain, to_plain
from pytest_anubis.core.baseline import Baseline, Criterion, cannot_fail
from pytest_anubis.core.metric import Metric

FORMAT = "anubis-baseline"
SCHEMA = 1

_ROUND = "%.8g"  # significant digits; far below what any benchmark repeats to
_MAX_MEDIANS = 101
_MAX_DEPTH = 32


class BaselineError(ValueError):
    """A baseline cannot be used or written; the message is one line for people."""


def baseline_to_plain(baseline: Baseline) -> dict[str, Any]:
    """Return a baseline as plain data, with numbers except exact results rounded to 8 significant digits.

    Raises:
        BaselineError: A number is NaN or infinite, or the inventory is nested without end.
    """
    criteria = sorted(map(_without_endless_loss, baseline.criteria), key=_key)
    try:
        together = sorted(baseline.together, key=_key)
        plain = to_plain(
            replace(baseline, criteria=tuple(criteria), together=tuple(together)), full=True
        )
    except CodecError as error:
        raise BaselineError(f"{error}; no baseline can hold that") from None
    # Optional fields are left out where they are empty: a short file, and no change of its digest.
    for criterion in plain["criteria"]:
        _leave_out(criterion, "devices", "second", "change_rate")
        if criterion["version"] == 1:
            del criterion["version"]
    for check in plain["checks"]:
        _leave_out(check, "component")
    if plain["self_check"]:
        for one in plain["self_check"]["unlike"]:
            _leave_out(one, "failure")
        _leave_out(plain["self_check"], "unlike")
    _leave_out(plain, "checks", "unjudged", "self_check", "promises", "machine")
    rounded: dict[str, Any] = _rounded(
        {"format": FORMAT, "schema": SCHEMA, **plain}, _MAX_DEPTH + 1
    )
    for short, criterion in zip(rounded["criteria"], plain["criteria"], strict=True):
        if criterion["better"] == "equal":  # a fingerprint is compared to the last digit
            short["centre"] = criterion["centre"]
    return rounded


def baseline_from_plain(data: object) -> Baseline:
    """Check plain data completely and return its baseline; the digest is not compared with the content.

    Raises:
        BaselineError: Anything is wrong; the message names the place, e.g. ``criteria[3].centre[0]``.
    """
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise BaselineError(f'this is not a baseline: expected an object with "format": "{FORMAT}"')
    schema = data.get("schema")
    if type(schema) is not int or schema != SCHEMA:
        raise BaselineError(
            f"schema: version {found(schema)}, this version of pytest-anubis reads {SCHEMA}; "
            "learn the baseline again or use the version that wrote it"
        )
    try:
        fields = {name: item for name, item in data.items() if name not in ("format", "schema")}
        baseline = from_plain(Baseline, fields)
    except CodecError as error:
        raise BaselineError(str(error)) from None
    _check(baseline)
    return baseline


def digest_of(baseline: Baseline) -> str:
    """Return ``sha256:`` and 12 hexadecimal digits over the content, whatever the layout of the file."""
    plain = baseline_to_plain(baseline)
    del plain["digest"]
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return "sha256:" + hashlib.sha256(text.encode("ascii")).hexdigest()[:12]


def _key(criterion: Criterion) -> tuple[str, str, str, str]:
    return criterion.benchmark, criterion.metric.name, criterion.group, criterion.scope


def _without_endless_loss(criterion: Criterion) -> Criterion:
    """Remove an infinite loss, which no sample of this length could show: it is unknown."""
    return replace(criterion, detectable=None) if criterion.detectable == math.inf else criterion


def _leave_out(plain: dict[str, Any], *names: str) -> None:
    """Remove the named fields that are empty."""
    for name in names:
        if not plain[name]:
            del plain[name]


def _rounded(value: Any, depth: int) -> Any:
    if type(value) is float:
        return float(_ROUND % value)
    if type(value) is not dict and type(value) is not list:
        return value
    if depth < 0:
        raise BaselineError(f"nested more than {_MAX_DEPTH} levels deep")
    if type(value) is dict:
        return {name: _rounded(item, depth - 1) for name, item in value.items()}
    if set(map(type, value)) == {float}:  # the common long lists, without a call per number
        return [float(_ROUND % item) for item in value]
    return [_rounded(item, depth - 1) for item in value]


def _check(baseline: Baseline) -> None:
    """Check the rules that span several fields.

    Raises:
        BaselineError: One is broken; the message names the place.
    """
    _check_name("hardware_class", baseline.hardware_class)
    try:
        datetime.fromisoformat(baseline.created)
    except ValueError:
        raise BaselineError(
            f"created: {found(baseline.created)} is not a date such as 2026-01-31T12:00:00Z"
        ) from None
    _rounded(baseline.inventory, _MAX_DEPTH)
    for i, check in enumerate(baseline.checks):
        _check_name(f"checks[{i}].test", check.test)
    seen: dict[tuple[str, str, str, str], str] = {}
    metrics: dict[tuple[str, str], Metric] = {}
    places = [(f"criteria[{i}]", one) for i, one in enumerate(baseline.criteria)]
    places += [(f"together[{i}]", one) for i, one in enumerate(baseline.together)]
    for place, criterion in places:
        key = _key(criterion)
        _check_name(f"{place}.benchmark", criterion.benchmark)
        _check_ascending(f"{place}.centre", criterion.centre)
        _check_ascending(f"{place}.medians", criterion.medians)
        if not criterion.centre:
            raise BaselineError(f"{place}.centre: is empty; a criterion needs at least one value")
        if len(criterion.medians) > _MAX_MEDIANS:
            count = len(criterion.medians)
            raise BaselineError(f"{place}.medians: {count} values, at most {_MAX_MEDIANS} allowed")
        if why := cannot_fail(criterion):
            raise BaselineError(
                f"{place}: {found(criterion.benchmark)} {found(criterion.metric.name)} can never fail: "
                f"{why}; learn it again or remove it"
            )
        if key in seen:
            raise BaselineError(
                f"{place}: the same benchmark, metric, group and scope as {seen[key]}; "
                "remove one of them"
            )
        seen[key] = place
        metric = metrics.setdefault(key[:2], criterion.metric)
        if metric.variant != criterion.metric.variant:
            here, there = (
                f"{unit} ({better}, version {version})"
                for unit, better, version in (criterion.metric.variant, metric.variant)
            )
            raise BaselineError(
                f"{place}.unit: {here} here, {there} in another criterion of the same metric; "
                "one metric has one unit, one direction and one version"
            )


def _check_name(place: str, text: str) -> None:
    if not text.strip() or not text.isprintable():
        raise BaselineError(f"{place}: is empty or unprintable")


def _check_ascending(place: str, values: Sequence[float]) -> None:
    if list(values) != sorted(values):
        i = next(i for i in range(1, len(values)) if values[i] < values[i - 1])
        raise BaselineError(f"{place}[{i}]: smaller than the value before; sort them ascending")
