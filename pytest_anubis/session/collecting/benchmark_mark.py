"""The mark ``anubis(...)``, by which a benchmark describes itself; checked at collection."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NoReturn

import pytest

from pytest_anubis.core.measurement import ASKING
from pytest_anubis.durations import seconds
from pytest_anubis.hardware.round_plans import PROFILE_FACTOR
from pytest_anubis.options import PROFILES
from pytest_anubis.session.collecting.device_parameters import (
    HOST,
    NODE,
    device_names,
    device_of,
    lacks_pair,
)
from pytest_anubis.session.context import context_key

MARKER_LINE = (
    "anubis(*, component, scope='node', cost=None, goal='', question='', action='', metrics=(), "
    "resources=(), cards=0, host=False, timing='device', deadline=None, profiles=(), version=1): this test "
    "is a benchmark of `component`; scope is device, pair or node; cost is its expected duration such as "
    "'20s' in the shortest profile that it belongs to, or {'cpu': '3s', 'accelerator': '10s'}, where a "
    "value may be {1: '5s', 8: '20s'}, by how many accelerators there are at least, and each of these "
    "{'smoke': '5s', 'standard': '1min', 'soak': '1h'}; goal, question and action say why it is measured "
    "and what to do when it is bad; metrics are names that it must record; resources are what it "
    "occupies; host=True, or the profiles in which, runs a test with anubis_device on the CPU too where "
    "there are accelerators; timing='host' says that a test of an accelerator is timed on the host or "
    "moves the host's data, so that two of them never run at once; deadline such as '300s' "
    "is what it may always take, however cheap it is; profiles such as ('standard', 'soak') are those "
    "that it belongs to, all if empty, or of each kind of device as for cost; version counts up when it "
    "comes to measure something else, or for another time: values of another version are never compared"
)

SCOPES = ("device", "pair", "node")
TIMINGS = ("device", "host")
KINDS = (HOST, "accelerator")
"""Kinds of devices that costs and profiles may differ by; a test of the node has the kind of its devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkMark:
    """The values of a test's mark for its device and the run's profile; `MARKER_LINE` explains the keys."""

    component: str = ""
    scope: str = "node"
    cost: float | None = None  # expected duration in seconds; None when not declared
    goal: str = ""
    question: str = ""
    action: str = ""
    metrics: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    cards: int = 0
    host: bool = False
    deadline: float | None = None  # seconds that the test may always take; None when not declared
    timing: str = "device"
    profiles: tuple[str, ...] = ()
    version: int = 1


NO_MARK = BenchmarkMark()
mark_key = pytest.StashKey[BenchmarkMark]()

_KEYS = tuple(field.name for field in fields(BenchmarkMark))
COMPONENT = re.compile(r"[a-z0-9][a-z0-9_-]*(\.[a-z0-9][a-z0-9_-]*)*")
"""Names of components, such as ``accelerator.compute``."""


def benchmark_mark(item: pytest.Item) -> BenchmarkMark:
    """Return the test's checked mark; of several marks, the one nearest to the test wins key by key.

    Raises:
        pytest.UsageError: A key is unknown or a value is wrong; the message names test, key and fix.
    """
    cached = item.stash.get(mark_key, None)
    if cached is not None:
        return cached
    merged: dict[str, Any] = {}
    outer_profiles: Any = ()
    cost_profiles: Any = ()  # profiles for which the cost is declared
    for node, mark in reversed(list(item.iter_markers_with_node("anubis"))):
        if mark.args:
            _reject(item, f"takes keywords only, found {mark.args[0]!r}")
        merged.update(mark.kwargs)
        if node is not item:
            outer_profiles = mark.kwargs.get("profiles", outer_profiles)
        if "cost" in mark.kwargs:  # a case for longer profiles keeps the cost of its whole test
            cost_profiles = mark.kwargs.get("profiles", outer_profiles)
    result = _checked(item, merged, cost_profiles) if merged else NO_MARK
    item.stash[mark_key] = result
    return result


def takes_metrics(item: pytest.Item) -> bool:
    """Return whether the test or one of its fixtures requests ``anubis_metric``."""
    return "anubis_metric" in getattr(item, "fixturenames", ())


def is_benchmark(item: pytest.Item) -> bool:
    """Return whether a test records metrics, or has a mark with a goal, question or the like.

    The mark alone suffices, because a test may first look for its tool, and request the fixture only then.

    Raises:
        pytest.UsageError: As `benchmark_mark` does.
    """
    if takes_metrics(item):
        return True
    mark = benchmark_mark(item)
    return any(getattr(mark, key) for key in ASKING)


def not_applicable(item: pytest.Item) -> str:
    """Return that the node has too few accelerators for the test; empty if the test applies."""
    return _not_applicable(item, benchmark_mark(item).cards)


def missing_goals(item: pytest.Item, folders: Sequence[Path]) -> str | None:
    """Return which of goal, question and action a benchmark in one of the folders leaves out."""
    if not any(item.path.is_relative_to(folder) for folder in folders):
        return None
    if not is_benchmark(item):
        return None
    mark = benchmark_mark(item)
    absent = [key for key in ("component", "goal", "question", "action") if not getattr(mark, key)]
    return ", ".join(absent) or None


def _checked(item: pytest.Item, given: dict[str, Any], cost_profiles: Any) -> BenchmarkMark:
    for key in given:
        if key not in _KEYS:
            _reject(item, f"has no key {key!r}; valid keys: {', '.join(_KEYS)}")
    texts = {key: given.get(key, "") for key in ("component", "goal", "question", "action")}
    for key, value in texts.items():
        if not isinstance(value, str):
            _reject(item, f"{key} must be text, found {value!r}")
    if texts["component"] and not COMPONENT.fullmatch(texts["component"]):
        _reject(item, f"component {texts['component']!r} must look like 'accelerator.compute'")
    scope = given.get("scope", "node")
    if scope not in SCOPES:
        _reject(item, f"scope {scope!r} is none of {', '.join(SCOPES)}")
    timing = given.get("timing", "device")
    if timing not in TIMINGS:
        _reject(item, f"timing {timing!r} is none of {', '.join(TIMINGS)}")
    declared, of_profile = _cost_here(item, given)
    cost = _seconds(item, "cost", declared)
    if not of_profile:
        cost = _in_profile(item, cost, _factors(item, given), _profiles(item, cost_profiles))
    cards = _cards(item, given.get("cards", 0))
    if _not_applicable(item, cards):
        cost = 0.0
    host = given.get("host", False)
    if not isinstance(host, bool | list | tuple):
        _reject(item, f"host must be True, False or a list of profiles, found {host!r}")
    if not isinstance(host, bool):
        host = item.config.stash[context_key].settings.profile in _profiles(item, host)
    version = _here(item, "version", given.get("version", 1))
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        _reject(item, f"version must be a whole number from 1 on, found {version!r}")
    return BenchmarkMark(
        **texts,
        profiles=_profiles(item, given.get("profiles", ())),
        host=host,
        version=version,
        timing=timing,
        scope=scope,
        cost=cost,
        deadline=_seconds(item, "deadline", given.get("deadline")),
        cards=cards,
        metrics=_names(item, "metrics", given.get("metrics", ())),
        resources=_names(item, "resources", given.get("resources", ())),
    )


def _not_applicable(item: pytest.Item, cards: int) -> str:
    # Most sessions have no test that asks for cards, and then need no inventory.
    few = cards > 0 and sum(name != HOST for name in device_names(item.config)) < cards
    if not few and not lacks_pair(item):
        return ""
    return f"not applicable: {'no accelerator' if cards == 1 else 'fewer than two accelerators'}"


def _cards(item: pytest.Item, value: Any) -> int:
    if value not in (0, 1, 2) or isinstance(value, bool):
        _reject(item, f"cards must be 0, 1 or 2, found {value!r}")
    return int(value)


def _cost_here(item: pytest.Item, given: dict[str, Any]) -> tuple[Any, bool]:
    """Return the cost on these devices, and whether it is declared for the run's profile."""
    value = _here(item, "cost", given.get("cost"))
    if isinstance(value, dict) and value and all(isinstance(number, int) for number in value):
        count = sum(name != HOST for name in device_names(item.config))
        value = value[max((one for one in value if one <= count), default=min(value))]
    if not isinstance(value, dict):
        return value, False
    if set(value) != set(PROFILES):
        _reject(item, f"cost: {value!r} must name {', '.join(PROFILES)}, and nothing else")
    return value[item.config.stash[context_key].settings.profile], True


def _seconds(item: pytest.Item, key: str, span: Any) -> float | None:
    try:
        return None if span is None else seconds(span)
    except ValueError as error:
        _reject(item, f"{key}: {error}")


def _profiles(item: pytest.Item, value: Any) -> tuple[str, ...]:
    names = _names(item, "profiles", _here(item, "profiles", value) or ())
    for name in names:
        if name not in PROFILES:
            _reject(item, f"profiles: {name!r} is none of {', '.join(PROFILES)}")
    return names


def _factors(item: pytest.Item, given: dict[str, Any]) -> dict[str, float]:
    """Return profile -> how many times as long as in ``smoke`` a test takes.

    A test of the node counts as a test of the host, unless its cost distinguishes kinds of devices.
    """
    by_kind = isinstance(given.get("cost"), dict) or device_of(item) != NODE
    return PROFILE_FACTOR[_kind(item) if by_kind else HOST]


def _in_profile(
    item: pytest.Item, cost: float | None, factors: dict[str, float], profiles: Sequence[str]
) -> float | None:
    """Return the cost in the run's profile; a mark declares it for its shortest profile."""
    if cost is None:
        return None
    shortest = min((factors[one] for one in PROFILES if one in profiles), default=1.0)
    # A test of longer profiles only does not run in this one, and keeps its declared cost.
    return cost * max(1.0, factors[item.config.stash[context_key].settings.profile] / shortest)


def _kind(item: pytest.Item) -> str:
    """Return the kind of device that the test runs on, one of `KINDS`."""
    unit = device_of(item)
    on_host = unit == HOST or (unit == NODE and device_names(item.config) == (HOST,))
    return HOST if on_host else KINDS[1]


def _here(item: pytest.Item, key: str, value: Any) -> Any:
    """Return a key's value for the kind of device that the test runs on."""
    if not isinstance(value, dict):
        return value
    if set(value) != set(KINDS):
        _reject(item, f"{key}: {value!r} must name {' and '.join(KINDS)}, and nothing else")
    return value[_kind(item)]


def _names(item: pytest.Item, key: str, value: Any) -> tuple[str, ...]:
    listed = isinstance(value, list | tuple | set | frozenset)
    if not listed or not all(isinstance(name, str) and name for name in value):
        _reject(item, f"{key} must be a list of names, found {value!r}")
    return tuple(value)


def _reject(item: pytest.Item, text: str) -> NoReturn:
    raise pytest.UsageError(f"{item.nodeid}: mark anubis {text}")


def timeout_mark(item: pytest.Item) -> float | None:
    """Return the seconds of a pytest-timeout mark; None without a numeric one."""
    mark = item.get_closest_marker("timeout")
    if mark is None:
        return None
    value = mark.args[0] if mark.args else mark.kwargs.get("timeout")
    return float(value) if isinstance(value, int | float) else None
