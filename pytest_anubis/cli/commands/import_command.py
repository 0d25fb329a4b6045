"""``anubis import``: results of other tools become runs, so that a fleet has a baseline the same day."""

from __future__ import annotations

import argparse
import platform
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_anubis.cli.shared.arguments import add_store, explain
from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.printing import say
from pytest_anubis.cli.shared.progress import Progress
from pytest_anubis.report.text.numbers import count_text

if TYPE_CHECKING:
    from pytest_anubis.store.importers.import_result import Imported

KINDS = {
    "table": "CSV or Parquet, one row a value: node, device, benchmark, metric, unit, better, value",
    "superbench": "SuperBench results-summary.jsonl",
    "nccl": "output of nccl-tests",
    "fio": "JSON output of fio",
}
CODES = (
    "Exit codes: 0 all of it was imported; 1 some of it was left out, which is listed (0 with --lenient); 2 "
    "wrong usage or a file of which nothing could be imported."
)
CELLS = {
    "failed": "failed",
    "missing": "missing",
    "invalid": "invalid",
}
"""Kinds of units under test without values, in words."""
NAMED = 3
"""Files of runs that a suggested command names; of more it names their folder."""
SHOWN = 20
"""Wrong lines that are named; all are counted."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    explain(
        parser,
        "Turn results of other tools into runs that 'anubis learn' and 'anubis judge' take like runs of "
        "their own.",
        CODES,
    )
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    for kind, text in KINDS.items():
        sub = kinds.add_parser(kind, help=text, description=f"Import {text}.", epilog=CODES)
        sub.add_argument(
            "files", nargs="+", type=Path, metavar="FILE", help="results of one node or of many"
        )
        sub.add_argument("--class", dest="hardware_class", default="", metavar="KEY",
                         help="hardware class of what names none")  # fmt: skip
        sub.add_argument("--run", default="", metavar="ID", help="default: the file's name")
        sub.add_argument(
            "--lenient", action="store_true", help="exit code 0 also where something was left out"
        )
        if kind in ("table", "superbench"):
            sub.add_argument(
                "--map",
                type=Path,
                metavar="FILE.csv",
                help="what metrics are: columns benchmark, metric (both with * for anything), unit, better, "
                "component; asked before the one that is built in",
            )
        if kind in ("nccl", "fio"):
            sub.add_argument("--node", default=platform.node(), help="node that it comes from")
        add_store(sub)


def run(options: argparse.Namespace) -> int:
    """Import every file; what is wrong is listed, what is good kept; 1 if something was left out."""
    from pytest_anubis.store.importers.import_result import (
        UNCLASSIFIED,
        DoubleImportError,
        save_import,
    )

    again = lost = 0
    written: list[Path] = []
    for path in options.files:
        imported = _import(options, path)
        lost += imported.lost
        say(f"{path}: {_counts(imported)}")
        for line in imported.wrong[:SHOWN]:
            say(f"{path}: {line}")
        if imported.wrong_count > SHOWN:
            say(f"{path}: ... and {imported.wrong_count - SHOWN} more wrong lines")
        for note in imported.notes:
            say(f"{path}: {note}")
        if not imported.populations:
            raise CommandError(f"{path}: nothing could be imported; the lines above say why")
        try:
            target = save_import(imported, options.store)
        except DoubleImportError as error:
            say(str(error))
            again += 1
            continue
        except OSError as error:
            raise CommandError(f"{options.store}: cannot be written ({error.strerror})") from error
        say(f"written: {target}")
        written.append(target)
        if any(population.hardware_class == UNCLASSIFIED for population in imported.populations):
            say(
                f"{path}: hardware class '{UNCLASSIFIED}', for want of one: only nodes of one class are "
                "compared; to name it, import the file again with --class KEY"
            )
    if again == len(options.files):
        raise CommandError("nothing was imported: all of it is there already, see above")
    named = shlex.join(map(str, written if len(written) <= NAMED else [written[0].parent]))
    say(f"next: anubis learn {named}, then anubis judge {named}")
    return 1 if lost and not options.lenient else 0


def _counts(imported: Imported) -> str:
    """Say in one line what was kept, what failed or is missing, and what was left out."""
    nodes = {node for p in imported.populations for node in p.nodes}
    cells = imported.cells
    parts = [
        f"{imported.values:,} value{'s' if imported.values != 1 else ''} of "
        f"{count_text(len(nodes), 'node')}",
        count_text(len(imported.populations), "metric"),
        *(
            f"{count_text(cells[kind], 'cell')} {words}"
            for kind, words in CELLS.items()
            if cells.get(kind)
        ),
        count_text(imported.wrong_count, "wrong line"),
    ]
    if imported.left_out:
        parts.append(f"{count_text(imported.left_out, 'value')} of unknown direction left out")
    return ", ".join(parts)


def _import(options: argparse.Namespace, path: Path) -> Imported:
    from pytest_anubis.store.importers.import_result import ImportFileError

    given: dict[str, Any] = {"run": options.run}
    if options.hardware_class:
        given["hardware_class"] = options.hardware_class
    try:
        if getattr(options, "map", None) is not None:
            from pytest_anubis.store.importers.metric_map import known_metrics, read_metric_map

            given["known"] = read_metric_map(options.map).before(known_metrics())
        with Progress("importing") as progress:
            if options.kind == "table":
                from pytest_anubis.store.importers.table import import_table

                return import_table(path, progress=progress.say, **given)
            if options.kind == "superbench":
                from pytest_anubis.store.importers.superbench import import_superbench

                return import_superbench(path, progress=progress.say, **given)
            if options.kind == "nccl":
                from pytest_anubis.store.importers.nccl import import_nccl

                return import_nccl(path, node=options.node, **given)
            if options.kind == "fio":
                from pytest_anubis.store.importers.fio import import_fio

                return import_fio(path, node=options.node, **given)
    except ImportFileError as error:
        raise CommandError(str(error)) from error
    raise CommandError(f"{options.kind}: no importer; known are {', '.join(KINDS)}")
