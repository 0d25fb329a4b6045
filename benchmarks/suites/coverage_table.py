"""What the benchmark set covers: prints `docs/coverage.md` from the suites' own marks and code.

Run: ``python benchmarks/suites/coverage_table.py [--write]``. What the marks and the code say (component,
scope, metrics with unit and direction, what changes with profiles) is read; what only people know (which
fault is caught, which probes must pass, what answers another's test) is in `coverage_rows.toml`.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

from benchmarks import ROOT
from benchmarks.suites.coverage_marks import PROFILES, Benchmark, Metric, benchmarks
from pytest_anubis.hardware.round_plans import PLANS

PAGE = ROOT / "docs" / "coverage.md"
ROWS, PROOFS = (Path(__file__).with_name(f"coverage_{of}.toml") for of in ("rows", "proofs"))
DIRECTIONS = {"higher": "↑", "lower": "↓", "equal": "="}
MANY = 4
"""Metrics of one unit that a cell names one by one."""
PROBES = ("work", "link", "core", "bit")
FEW = 8
"""Benchmarks that the table of probes names one by one."""


def rows() -> dict[str, Any]:
    """Return what people have written down."""
    return tomllib.loads(ROWS.read_text(encoding="utf-8"))


def proofs() -> list[dict[str, Any]]:
    """Return which test plays which probe of which benchmarks."""
    return list(tomllib.loads(PROOFS.read_text(encoding="utf-8"))["proofs"])


def page() -> str:
    """Return the page."""
    known = rows()
    ours = benchmarks(known.get("units", {}))
    about = HEAD.strip().replace("PLANS", "\n".join(_plans()))
    for probe in PROBES:
        about = about.replace(f"ASKED {probe}", _asked(probe, known["catches"]))
    lines = [*about.splitlines(), *_our_table(ours, known["catches"])]
    for source in known["sources"]:
        head = ("", f"## {source['title']}", "", source["about"], "")
        lines += [*head, *_their_table(source["rows"])]
    return "\n".join(lines) + "\n"


def _our_table(ours: list[Benchmark], catches: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for one in ours:
        row = catches.get(one.name, {})
        cells = (
            f"`{one.name.removeprefix('suites/')}`",
            f"{one.component}, {one.scope}",
            "; ".join(_alike(one.metrics)),
            _profiles(one.profiles) + f": {one.cost}",
            one.parameters.replace(" / ", "/"),
            row.get("catches", "?"),
        )
        yield _row(cells)


def _asked(probe: str, catches: Mapping[str, Mapping[str, Any]]) -> str:
    """Name the benchmarks that a probe is asked of, or the others, or give their number."""
    asked = {
        name.rpartition("::")[2]: probe in row["probes"]
        for name, row in catches.items()
        if row["probes"]
    }
    yes, no = (
        [f"`{name}`" for name, one in asked.items() if one is wanted] for wanted in (True, False)
    )
    if len(yes) <= FEW:
        return ", ".join(yes)
    if len(no) <= FEW:
        return " but ".join(filter(None, ("all", ", ".join(no))))
    return f"{len(yes)} of {len(asked)}"


def _profiles(some: tuple[str, ...]) -> str:
    """Give a benchmark's profiles in words: `standard` and `soak` are the longer ones."""
    return {PROFILES: "all", PROFILES[1:]: "longer"}.get(some, ", ".join(some))


def lengths(one: Benchmark, row: Mapping[str, Any]) -> str:
    """Return what changes with the profile: as the code says, else the work, which is the same in each."""
    parts = [one.parameters, row.get("always", "")]
    return "; ".join([*filter(None, parts), *(["rounds"] if one.by_rounds else [])])


def _plans() -> Iterator[str]:
    """Give the rounds of each profile in words, on a host and on accelerators."""
    for kind in ("host", "accelerators"):
        plans = [PLANS[profile] for profile in PROFILES]
        load = ""
        if kind != "host":
            plans = [PLANS[profile].on_accelerator(profile) for profile in PROFILES]
            settled = (
                _each(getattr(plan, f"{of}_seconds") for plan in plans)
                for of in ("settle", "warmup")
            )
            load = f", after load of {' to '.join(settled)} s"
        rounds = _each(plan.rounds for plan in plans)
        seconds = _each(plan.round_seconds for plan in plans)
        budget = _each(plan.budget_seconds for plan in plans)
        yield f"- {kind}: {rounds} of {seconds} s in at most {budget} s{load}"


def _each(of: Iterable[float]) -> str:
    """Give the values of the profiles, once if they are the same."""
    values = [f"{value:g}" for value in of]
    return "/".join(values if len(set(values)) > 1 else values[:1])


def _alike(metrics: Mapping[str, Metric]) -> Iterator[str]:
    """Give the metrics in words, those of one unit and direction together."""
    for (unit, better), some in groupby(metrics, key=metrics.__getitem__):
        yield f"{_series([f'`{name}`' for name in some])} {unit} {DIRECTIONS.get(better, better)}"


def _series(names: list[str]) -> str:
    """Give a few names, or the first and the last of many."""
    return ", ".join(names) if len(names) <= MANY else f"{names[0]} … {names[-1]}"


def _their_table(their: list[dict[str, Any]]) -> Iterator[str]:
    yield "| theirs | answered by | how, or why not |"
    yield "|---|---|---|"
    for row in their:
        by = dict.fromkeys([*row.get("ours", ()), *row.get("adapter", ())])
        names = ", ".join(row.get("shown") or [f"`{name}`" for name in row["names"]])
        tests = ", ".join(f"`{name.rpartition('::')[2]}`" for name in by)
        yield _row((names, tests or "not answered", row.get("how", "?")))


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


HEAD = """
# What the benchmark set covers

After a change of a mark, a benchmark or `benchmarks/suites/coverage_rows.toml` run
`python benchmarks/suites/coverage_table.py --write`; a test compares this page with the code.

↑ higher is better, ↓ lower is better, = an exact result. Costs are those of `smoke`; "longer" are `standard` and
`soak`. Work that differs is written "smoke/standard/soak" ([else](benchmarks.md)). Most benchmarks take the profile's
rounds:

PLANS

These probes prove the benchmarks (`benchmarks/suites/coverage_proofs.toml` names the tests). Adapters have none: tests
read recorded outputs.

| probe | the benchmark | asked of |
|---|---|---|
| work | reports the same rate, or twice the time, for twice the work | ASKED work |
| link | reports the rate of a shaped network link | ASKED link |
| core | names a busy core and rejects nothing for it | ASKED core |
| bit | fails if one bit of its data flips | ASKED bit |

## Our benchmarks

| benchmark in `suites/` | component, scope | metrics, unit, better | profiles: cost | work by profile | catches |
|---|---|---|---|---|---|
"""  # noqa: E501


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
