"""``anubis export --parquet DIR``: write samples, one row a value, as Parquet for DuckDB and others."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_anubis.cli.shared.arguments import add_json, explain
from pytest_anubis.cli.shared.printing import answer
from pytest_anubis.cli.shared.progress import Progress
from pytest_anubis.cli.shared.run_sources import add_sources, read_sources
from pytest_anubis.report.text.numbers import count_text


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    explain(
        parser,
        "Write what was measured, one row a value, so that DuckDB and others can scan a fleet: a file for "
        "each metric of a hardware class, with the columns that 'anubis import table' reads. The files have "
        "samples only: no tests without values, no inventory, no reports of the hardware, no lost lines. So "
        "'anubis judge' rejects nodes by them and accepts none.",
        "Exit codes: 0 all of it is written; 1 what could be read is, and some could not, one line each; "
        "2 wrong usage, or nothing could be read.",
    )
    parser.add_argument(
        "runs", nargs="*", type=Path, metavar="RUN", help="folders, journals, imports"
    )
    parser.add_argument(
        "--parquet", type=Path, metavar="DIR", required=True, help="folder to write to; it is made"
    )
    add_json(parser, "which files were written and what was left out")
    add_sources(parser)


def run(options: argparse.Namespace) -> int:
    """Write the files."""
    from pytest_anubis.store.samples.parquet_files import save_parquet
    from pytest_anubis.store.samples.spilled_values import SpilledValues

    with SpilledValues() as storage, Progress("writing") as progress:
        runs = read_sources(options, storage=storage)
        files = save_parquet(
            runs.populations, options.parquet, unlearnable=runs.unlearnable, progress=progress.say
        )
    values = sum(len(population.values) for population in runs.populations)
    size = sum(path.stat().st_size for path in files)
    damaged = sum(one.damaged for one in runs.refused)
    lines = [
        f"written: {count_text(len(files), 'file')} with {count_text(values, 'value')} in {options.parquet} "
        f"({size / 1e6:,.1f} MB)"
    ]
    if damaged:
        lines.append(
            f"not exported: {count_text(damaged, 'source')} that could not be read (see above)"
        )
    plain = {
        "schema": 1,
        "files": [str(path) for path in files],
        "values": values,
        "bytes": size,
        "unreadable": damaged,
    }
    answer(options.json, plain, *lines)
    return 1 if damaged else 0
