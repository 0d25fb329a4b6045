"""What marks and code say of each benchmark: component, scope, metrics, what changes with the profile."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import FunctionType, ModuleType
from typing import Any

from benchmarks import ROOT

PROFILES = ("smoke", "standard", "soak")
RECORDING = {"measure": 0, "collect": 0, "record": 0, "collect_with": 1}
"""Methods of `anubis_metric` and a function of the suites, with the place of the metric's name."""

NOTHING = "0.1s"
"""What marks declare for nodes that a benchmark does not apply to."""

SIZE = 1 << 20
"""Whole multiples of a mebibyte are sizes: no count in the suites is one."""

Metric = tuple[str, str]
"""Unit and direction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One benchmark as its mark and its code tell it.

    Attributes:
        name: Its id without parameters, ``suites/compute/test_gemm.py::test_gemm``.
        component: Part of the node.
        scope: ``device``, ``pair`` or ``node``.
        profiles: Profiles that it belongs to.
        cost: What it takes in smoke.
        metrics: Name -> unit and direction; a name with ``*`` stands for several.
        parameters: What changes with the profile, in words.
        by_rounds: It takes as many rounds as the profile plans for any metric.
    """

    name: str
    component: str
    scope: str
    profiles: tuple[str, ...]
    cost: str
    metrics: Mapping[str, Metric]
    parameters: str
    by_rounds: bool


def benchmarks(units: Mapping[str, Mapping[str, str]]) -> list[Benchmark]:
    """Return all benchmarks of the suites, in the order of their names.

    Args:
        units: Benchmark -> metric -> "unit direction", for names and units that only a run knows.
    """
    found = []
    for path in sorted((ROOT / "suites").rglob("test_*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        module = importlib.import_module(name)
        for function in vars(module).values():
            if isinstance(function, FunctionType) and function.__module__ == name:
                marks = list(_anubis_marks(module, function))
                if function.__name__.startswith("test_") and marks:
                    node = f"{path.relative_to(ROOT).as_posix()}::{function.__name__}"
                    found.append(_benchmark(node, module, function, marks, units.get(node, {})))
    return found


def _anubis_marks(module: ModuleType, function: FunctionType) -> Iterator[dict[str, Any]]:
    """Give the keys of every ``anubis`` mark of a test, those of its parameters last."""
    of_module = getattr(module, "pytestmark", [])
    of_module = of_module if isinstance(of_module, list) else [of_module]
    for mark in (*of_module, *getattr(function, "pytestmark", [])):
        if mark.name == "anubis":
            yield dict(mark.kwargs)
        if mark.name == "parametrize":
            cases = [_of_case(case) for case in mark.args[1]]
            yield from ({"of_parameter": True, **case} for case in cases if any(cases))


def _of_case(case: Any) -> dict[str, Any]:
    """Return the keys of the ``anubis`` marks of one parameter."""
    marks = [one.mark for one in getattr(case, "marks", ()) if hasattr(one, "mark")]
    return {key: mark.kwargs[key] for mark in marks if mark.name == "anubis" for key in mark.kwargs}


def _benchmark(
    node: str,
    module: ModuleType,
    function: FunctionType,
    marks: list[dict[str, Any]],
    units: Mapping[str, str],
) -> Benchmark:
    own: dict[str, Any] = {}
    of_parameters = [mark for mark in marks if mark.get("of_parameter")]
    for mark in marks:
        if mark not in of_parameters:
            own |= mark
    profiles = {p for mark in of_parameters or (own,) for p in _profiles(own | mark)}
    costs = [_cost(mark["cost"]) for mark in of_parameters if "cost" in mark]
    bodies = list(_with_helpers(module, function))
    return Benchmark(
        name=node,
        component=own.get("component", ""),
        scope=own.get("scope", "node"),
        profiles=tuple(p for p in PROFILES if p in profiles),
        cost=_span(costs[0], costs[-1]) if costs else _cost(own.get("cost", "")),
        metrics=_metrics(own.get("metrics", ()), bodies, module, units),
        parameters="; ".join(_parameters(bodies, module)),
        by_rounds=_by_rounds(bodies),
    )


def _profiles(keys: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the profiles that a mark names, for any kind of device; all where it names none."""
    named = keys.get("profiles", ())
    of_kinds = named.values() if isinstance(named, dict) else (named,)
    return tuple(p for one in of_kinds for p in one) or PROFILES


def _cost(cost: Any) -> str:
    """Return a mark's cost in words, where it applies; by kind of device with that of accelerators last."""
    if not isinstance(cost, dict):
        return str(cost)
    on_cards = cost["accelerator"]
    if not isinstance(on_cards, dict) or set(on_cards) == set(PROFILES):
        on_cards = {1: on_cards}
    few, many = (_in_smoke(on_cards[number]) for number in (min(on_cards), max(on_cards)))
    on_cards = (
        f"accelerator {many}" if few in (many, NOTHING) else f"accelerator {few} (one) to {many}"
    )
    return on_cards if cost["cpu"] == NOTHING else f"{cost['cpu']}, {on_cards}"


def _span(least: str, most: str) -> str:
    """Return two costs as one range, without what both begin with."""
    same = "accelerator " if least.startswith("accelerator ") else ""
    return least if least == most else f"{least} to {most.removeprefix(same)}"


def _in_smoke(cost: Any) -> str:
    return str(cost["smoke"] if isinstance(cost, dict) else cost)


def _with_helpers(module: ModuleType, function: FunctionType) -> Iterator[ast.AST]:
    """Give the code of a test and of the functions of its module, and folder, that it calls by name."""
    seen: set[str] = set()
    waiting = [function]
    while waiting:
        here = waiting.pop()
        if here.__qualname__ in seen:
            continue
        seen.add(here.__qualname__)
        tree = ast.parse(textwrap.dedent(inspect.getsource(here)))
        yield tree
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                called = here.__globals__.get(node.func.id)
                if isinstance(called, FunctionType) and called.__module__.startswith("suites."):
                    waiting.append(called)


def _metrics(
    declared: Any, bodies: list[ast.AST], module: ModuleType, units: Mapping[str, str]
) -> dict[str, Metric]:
    """Return unit and direction of every metric: as written down, else as the code records them."""
    found: dict[str, Metric] = {}
    loose: set[Metric] = set()  # of names that only a run knows
    for name, told in _recorded(bodies, module):
        if told is None:
            continue
        if name == "*":
            loose.add(told)
        elif not any(fnmatchcase(other, name) for other in declared if other != name):
            found.setdefault(name, told)
        else:
            found |= {other: told for other in declared if fnmatchcase(other, name)}
    for name in declared:
        if name not in found and len(loose) == 1:
            found[name] = next(iter(loose))
    for name, text in units.items():
        unit, _, better = text.rpartition(" ")
        missing = [other for other in declared if other not in found and fnmatchcase(other, name)]
        found |= dict.fromkeys(missing or [name], (unit, better))
    for name in declared:
        found.setdefault(name, ("?", "?"))
    order = [*declared, *(name for name in found if name not in declared)]
    return {name: found[name] for name in order}


def _recorded(bodies: list[ast.AST], module: ModuleType) -> Iterator[tuple[str, Metric | None]]:
    for body in bodies:
        for node in ast.walk(body):
            if not isinstance(node, ast.Call) or _called(node) not in RECORDING or not node.args:
                continue
            given = {keyword.arg: _constant(keyword.value, module) for keyword in node.keywords}
            unit, better = given.get("unit"), given.get("better")
            name = _name(node.args[RECORDING[_called(node)]], module)
            told = (unit, better) if isinstance(unit, str) and isinstance(better, str) else None
            if "unit" in given:
                yield name, told


def _called(node: ast.Call) -> str:
    """Return the name of a called method or function, empty if it has none."""
    return str(getattr(node.func, "attr", getattr(node.func, "id", "")))


def _name(node: ast.expr, module: ModuleType) -> str:
    """Return a metric's name; what only a run knows of it is ``*``."""
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else "*" for part in node.values)
        return "".join(map(str, parts))
    name = _constant(node, module)
    return name if isinstance(name, str) else "*"


def _constant(node: ast.expr, module: ModuleType) -> Any:
    """Return the value of a constant or of a module's name for one, None for what only a run knows."""
    if isinstance(node, ast.Name):
        return getattr(module, node.id, None)
    if isinstance(node, ast.IfExp):  # a unit of whole numbers, and one of the others
        either = [_constant(one, module) for one in (node.orelse, node.body)]
        return " or ".join(either) if all(isinstance(one, str) for one in either) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):  # 512 * MIB
        factors = [_constant(one, module) for one in (node.left, node.right)]
        return factors[0] * factors[1] if all(isinstance(one, int) for one in factors) else None
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def _parameters(bodies: list[ast.AST], module: ModuleType) -> list[str]:
    """Return what changes with the profile: tables of the module that its code names, and literal picks."""
    found: dict[str, str] = {}
    for body in bodies:
        names = dict(_named_picks(body))
        for node in ast.walk(body):
            if isinstance(node, ast.Name):
                for label, table in _tables(node.id, getattr(module, node.id, None)):
                    found[label] = _by_profile(table)
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "pick":
                given = {
                    keyword.arg or "": _constant(keyword.value, module) for keyword in node.keywords
                }
                if set(given) == set(PROFILES) and all(v is not None for v in given.values()):
                    found.setdefault(names.get(node, "times"), _by_profile(given))
    return [f"{label} {text}".strip() for label, text in sorted(found.items())]


def _named_picks(body: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Give the picks of a body with what they are called there: a variable, one of several, a keyword."""
    for node in ast.walk(body):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.value, _words(node.targets[0].id)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
            targets = getattr(node.targets[0], "elts", ())
            yield from (
                (value, _words(target.id))
                for target, value in zip(targets, node.value.elts, strict=False)
                if isinstance(target, ast.Name)
            )
        elif isinstance(node, ast.keyword) and node.arg:
            yield node.value, _words(node.arg)


def _by_rounds(bodies: list[ast.AST]) -> bool:
    """Say whether a metric is measured or collected without a number of rounds of its own."""
    return any(
        isinstance(node, ast.Call)
        and _called(node) in ("measure", "collect", "collect_with")
        and any(keyword.arg == "unit" for keyword in node.keywords)
        and not any(keyword.arg == "rounds" for keyword in node.keywords)
        for body in bodies
        for node in ast.walk(body)
    )


def _tables(name: str, value: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(value, Mapping) and set(value) == set(PROFILES):
        yield _words(name), value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if isinstance(inner, Mapping) and set(inner) == set(PROFILES):
                yield f"{_words(name)} {key}", inner


def _words(name: str) -> str:
    return name.strip("_").replace("_", " ").lower()


def _by_profile(table: Mapping[str, Any]) -> str:
    shown = [_value(table[profile]) for profile in PROFILES]
    return shown[0] if len(set(shown)) == 1 else " / ".join(shown)


def _value(value: Any) -> str:
    if value is None:
        return "by the profile"
    if isinstance(value, int) and value >= SIZE and value % SIZE == 0:
        whole = value >> 20
        return f"{whole >> 10} GiB" if whole % 1024 == 0 else f"{whole} MiB"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:,g}" if abs(value) < SIZE else f"{value:,}"
    if isinstance(value, tuple | list):
        return "(" + ", ".join(map(_value, value)) + ")"
    return re.sub(r"\s+", " ", str(value)).strip()
