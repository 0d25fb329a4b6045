"""What the benchmark set covers: prints `docs/coverage.md` from the suites' own marks and code.

Run: ``python benchmarks/suites/coverage_table.py [--write]``. What the marks and the code say (component,
scope, metrics with unit and direction, what changes with profiles) is read; what only people know (which
fault is caught, which probes must pass, what answers another's test) stands in `coverage_rows.toml`.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import re
import sys
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import groupby
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

from benchmarks import ROOT

PAGE = ROOT / "docs" / "coverage.md"
ROWS, PROOFS = (Path(__file__).with_name(f"coverage_{of}.toml") for of in ("rows", "proofs"))
PROFILES = ("smoke", "standard", "soak")
DIRECTIONS = {"higher": "↑", "lower": "↓", "equal": "="}
RECORDING = ("measure", "collect", "record")
"""Methods of `anubis_metric`: their first argument is the metric's name."""

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
    """

    name: str
    component: str
    scope: str
    profiles: tuple[str, ...]
    cost: str
    metrics: Mapping[str, Metric]
    parameters: str


def rows() -> dict[str, Any]:
    """Return what people have written down."""
    return tomllib.loads(ROWS.read_text(encoding="utf-8"))


def proofs() -> list[dict[str, Any]]:
    """Return which test plays which probe of which benchmarks."""
    return list(tomllib.loads(PROOFS.read_text(encoding="utf-8"))["proofs"])


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
        cost=" to ".join(dict.fromkeys((costs[0], costs[-1])))
        if costs
        else _cost(own.get("cost", "")),
        metrics=_metrics(own.get("metrics", ()), bodies, module, units),
        parameters="; ".join(_parameters(bodies, module)),
    )


def _profiles(keys: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the profiles that a mark names, for any kind of device; all where it names none."""
    named = keys.get("profiles", ())
    of_kinds = named.values() if isinstance(named, dict) else (named,)
    return tuple(p for one in of_kinds for p in one) or PROFILES


def _cost(cost: Any) -> str:
    """Return a mark's cost in words; one by kind of device with that of accelerators last."""
    if not isinstance(cost, dict):
        return str(cost)
    return f"{cost['cpu']}, accelerator {cost['accelerator']}"


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
        found[name] = (unit, better)
    for name in declared:
        found.setdefault(name, ("?", "?"))
    order = [*declared, *(name for name in found if name not in declared)]
    return {name: found[name] for name in order}


def _recorded(bodies: list[ast.AST], module: ModuleType) -> Iterator[tuple[str, Metric | None]]:
    for body in bodies:
        for node in ast.walk(body):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if node.func.attr not in RECORDING or not node.args:
                continue
            given = {keyword.arg: _constant(keyword.value, module) for keyword in node.keywords}
            unit, better = given.get("unit"), given.get("better")
            name = _name(node.args[0], module)
            told = (unit, better) if isinstance(unit, str) and isinstance(better, str) else None
            if "unit" in given:
                yield name, told


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
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def _parameters(bodies: list[ast.AST], module: ModuleType) -> list[str]:
    """Return what changes with the profile: tables of the module that its code names, and literal picks."""
    found: dict[str, str] = {}
    for body in bodies:
        for node in ast.walk(body):
            if isinstance(node, ast.Name):
                for label, table in _tables(node.id, getattr(module, node.id, None)):
                    found[label] = _by_profile(table)
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "pick":
                given = {
                    keyword.arg or "": _constant(keyword.value, module) for keyword in node.keywords
                }
                if set(given) == set(PROFILES) and all(v is not None for v in given.values()):
                    found.setdefault(_by_profile(given), "")
    return [f"{label} {text}".strip() for label, text in sorted(found.items())]


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


def page() -> str:
    """Return the page."""
    known = rows()
    ours = benchmarks(known.get("units", {}))
    lines = [*HEAD.strip().splitlines(), "", *_our_tables(ours, known["catches"])]
    for source in known["sources"]:
        head = ("", f"## {source['title']}", "", source["about"], "")
        lines += [*head, *_their_table(source["rows"])]
    lines += ["", *PLAYED.strip().splitlines(), *map(_proof, proofs())]
    return "\n".join(lines) + "\n"


def _our_tables(ours: list[Benchmark], catches: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    folder = ""
    for one in ours:
        here = one.name.rpartition("/")[0]
        if here != folder:
            folder = here
            yield from ("", f"## `{folder}`", "", *_OURS)
        told = catches.get(one.name, {})
        cells = (
            f"`{one.name.removeprefix(folder + '/')}`",
            one.component,
            one.scope,
            "; ".join(_alike(one.metrics)),
            ", ".join(one.profiles) if one.profiles != PROFILES else "all",
            one.cost,
            one.parameters,
            told.get("catches", "?"),
            ", ".join(told.get("probes", ())),
        )
        yield _row(cells)


def _alike(metrics: Mapping[str, Metric]) -> Iterator[str]:
    """Give the metrics in words, those of one unit and direction together."""
    for (unit, better), some in groupby(metrics, key=metrics.__getitem__):
        yield f"{', '.join(f'`{name}`' for name in some)} {unit} {DIRECTIONS.get(better, better)}"


_OURS = (
    "| benchmark | component | scope | metrics, unit, better | profiles | cost | smoke / standard / soak | "
    "gray failure that it catches | probes |",
    "|---|---|---|---|---|---|---|---|---|",
)


def _their_table(their: list[dict[str, Any]]) -> Iterator[str]:
    yield "| theirs | answered by | how, or why not |"
    yield "|---|---|---|"
    for row in their:
        by = [f"`{name.removeprefix('suites/')}`" for name in row.get("ours", ())]
        by += [f"adapter `{name.removeprefix('suites/')}`" for name in row.get("adapter", ())]
        names = ", ".join(f"`{name}`" for name in row["names"])
        yield _row((names, ", ".join(by) or "not answered", row.get("how", "?")))


def _proof(row: dict[str, Any]) -> str:
    of = [f"`{name.removeprefix('suites/')}`" for name in row["of"]]
    by = ", ".join(f"`{name}`" for name in row["by"])
    return _row((row["probe"], ", ".join(of) if of != ["`*`"] else "all that name it", by))


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


HEAD = """
# What the benchmark set covers

`benchmarks/suites/coverage_table.py` prints this page from the marks and the code of `suites/`, and from
`coverage_rows.toml` and `coverage_proofs.toml` beside it; write it anew with `--write` after a change of any.
A test compares them.

First ours, by folder; then, for each benchmark, test case and level of the tools that teams run today, what
answers it here. ↑ higher is better, ↓ lower is better, = an exact result. Costs are as declared, for `smoke`.
What changes with the profile is named as the module names it: bytes, seconds or numbers.

Four probes are asked of the set, and each benchmark must pass those that apply to it:

- **work**: given twice the work, it reports the same rate, or twice the time; what it counts is what is done.
- **link**: behind a link of a hidden rate it reports that rate; asked of what crosses a network, which can be
  shaped. Links between cards cannot: there one pair is held against its neighbours.
- **core**: with one core busy elsewhere, the run says so and rejects nobody, or the value shows it; asked of
  all that the host computes or times. What a card times by its own clock does not see the host's cores, and
  bits do not hang on time.
- **bit**: one bit flipped in what it computes, moves or stores makes it fail.

`benchmarks/suites/faults` plays a busy core, one half taken, a link at .5 and .9 of its rate, sick cards, and
a bit in each kind of buffer. [The last table](#what-plays-each-probe) says which test plays each.
Adapters have none: the other program checks itself; tests hold its recorded outputs, some with errors.
"""

PLAYED = """
## What plays each probe

A test compares this with the probes above, and wants each of these tests to be there.

| probe | of | played by |
|---|---|---|
"""


def main() -> None:
    """Print the page, or write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put it into docs/coverage.md")
    if parser.parse_args().write:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(page(), end="")


if __name__ == "__main__":
    main()
