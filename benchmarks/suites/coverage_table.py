"""What the benchmark set covers: prints `docs/coverage.md` from the suites' own marks and code.

Run: ``python benchmarks/suites/coverage_table.py [--write]``. What the marks and the code say (component,
scope, metrics with unit and direction, what changes with profiles) is read; what only people know (which
fault is caught, which probes must pass, what answers another's test) stands in `coverage_rows.toml`.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Iterator, Mapping
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
    lines = [*about.splitlines(), "", *_our_tables(ours, known["catches"])]
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
            lengths(one, told),
            told.get("catches", "?"),
            _probes(told),
        )
        yield _row(cells)


def lengths(one: Benchmark, told: Mapping[str, Any]) -> str:
    """Return what changes with the profile: as the code says, else the work, which is the same in each."""
    always = told.get("always", "")
    parts = [one.parameters, always and (always if "/" in always else f"{always}, always")]
    return "; ".join([*filter(None, parts), *(["rounds"] if one.by_rounds else [])])


def _plans() -> Iterator[str]:
    """Give the rounds of each profile in words, on a host and on accelerators."""
    for kind in ("host", "accelerators"):
        said = []
        for profile in PROFILES:
            plan = PLANS[profile]
            plan = plan if kind == "host" else plan.on_accelerator(profile)
            load = f" after {plan.settle_seconds:g} to {plan.warmup_seconds:g} s of load"
            said.append(
                f"{plan.rounds} of {plan.round_seconds:g} s in {plan.budget_seconds:g} s at most"
                + (load if kind == "accelerators" else "")
            )
        yield f"- on {'a host' if kind == 'host' else kind}: {' / '.join(said)}"


def _probes(told: Mapping[str, Any]) -> str:
    """Return the probes of a benchmark, and why a busy core is not asked of it."""
    why = f" (no core: {told['no_core']})" if "no_core" in told else ""
    return ", ".join(told.get("probes", ())) + why


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
What changes with the profile is named as the module names it: bytes, seconds or numbers; where the work is
the same in each it says what it is, and "always". "Rounds" are those that each profile plans for any metric:

PLANS

Four probes are asked of the set, and each benchmark must pass those that apply to it:

- **work**: given twice the work, it reports the same rate, or twice the time; what it counts is what is done.
- **link**: behind a link of a hidden rate it reports that rate; asked of what crosses a network, which can be
  shaped. Links between cards cannot: there one pair is held against its neighbours.
- **core**: with one core busy elsewhere, the run says so and rejects nobody; asked of all that the host
  computes or times. What a card times by its own clock does not see the host's cores ("its own clock": there
  a busy one is evidence only), and bits do not hang on time ("bits").
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
