"""``anubis import``: turn results of other tools into runs, so that a fleet has a baseline the same day."""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import platform
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_anubis.cli.commands.import_report import (
    CELLS,
    FoldedLines,
    counts_line,
    date_lines,
    in_other_classes,
    other_class_lines,
    unknown_units,
)
from pytest_anubis.cli.shared.arguments import (
    DEFAULT_BASELINE,
    add_json,
    add_store,
    add_verbose,
    explain,
)
from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.printing import few, say, write_json
from pytest_anubis.cli.shared.progress import Progress
from pytest_anubis.cli.shared.run_sources import since
from pytest_anubis.codec.regular_files import open_regular
from pytest_anubis.core.metric import first_of
from pytest_anubis.report.text.numbers import count_text
from pytest_anubis.store.baselines.baseline_files import find_baseline

if TYPE_CHECKING:
    from pytest_anubis.store.importers.import_folder import ImportFolder
    from pytest_anubis.store.importers.import_result import Imported

KINDS = {
    "table": "CSV or Parquet, one row a value: node, device, benchmark, metric, unit, better, value",
    "superbench": "SuperBench results-summary.jsonl",
    "nccl": "output of nccl-tests",
    "nvbandwidth": "output of nvbandwidth, as JSON (-j) or text",
    "fio": "JSON output of fio",
    "dcgm": "JSON output of dcgmi diag -j, of DCGM 2 to 4",
}
FILES = {
    "table": "*.csv",
    "superbench": "results-summary.jsonl",
    "nccl": "all_reduce.log",
    "nvbandwidth": "nvbandwidth.json",
    "fio": "fio.json",
    "dcgm": "diag.json",
}
"""File names that the help shows."""
OF_ONE_NODE = ("nccl", "nvbandwidth", "fio", "dcgm")
"""Kinds whose files do not name their node."""
MODULES = {"nvbandwidth": "nvbandwidth_matrices"}
"""Importers whose module is not named like their kind."""
CODES = (
    "Exit codes: 0 all of it was imported; 1 some of it was left out, is in another or an unknown unit or no "
    "possible value, which is counted by cause with an example (0 with --lenient); 2 wrong usage or a file "
    "of which nothing could be imported, after the others were."
)
MAX_NAMES_LISTED = 3
"""Nodes in one line, or files in a suggested command, which otherwise names their folder."""
MAX_WRONG_LINES = 20
MIN_WRONG_LINES = 3
"""Wrong lines of a file that are shown, at most and at least; all are counted."""
FILES_PER_REPORT = 500
"""Files between two lines of progress: some seconds."""


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
            "files", nargs="*", type=Path, metavar="FILE", help="results of one node or of many"
        )
        sub.add_argument(
            "--node-pattern",
            metavar="PATTERN",
            help="many nodes in one call: where the node's name is in the path, such as "
            f"'results/{{node}}/{FILES[kind]}', quoted; * any characters, ** any folders, {{run}} the run's "
            "id. Without FILE all files that match are taken",
        )
        sub.add_argument("--class", dest="hardware_class", default="", metavar="KEY",
                         help="hardware class of runs without one")  # fmt: skip
        sub.add_argument("--run", default="", metavar="ID", help="default: the file's name")
        sub.add_argument(
            "--date",
            type=since,
            metavar="WHEN",
            help="when it was measured: a date (2026-11-01), or how long ago (30d); default: what "
            f"{'the column time says, else ' if kind == 'table' else ''}when the file was written",
        )
        sub.add_argument(
            "--lenient", action="store_true", help="exit code 0 also where something was left out"
        )
        if kind in ("table", "superbench"):
            sub.add_argument(
                "--map",
                type=Path,
                metavar="FILE.csv",
                help="what metrics are: columns benchmark, metric (both with * for anything), unit, better, "
                "component; it outranks the built-in one",
            )
        if kind in OF_ONE_NODE:
            sub.add_argument(
                "--node", help=f"node that it comes from; default: this one ({platform.node()})"
            )
        if kind == "superbench":
            sub.add_argument("--node", help="node of an object that names none")
        if kind == "nccl":
            sub.add_argument(
                "--collective", default="", metavar="NAME",
                help="what was measured, such as all_reduce; default: what the log or the file's name says",
            )  # fmt: skip
        add_store(sub)
        add_json(sub, "what was taken and what was left out")
        add_verbose(sub, "every line of every file, also where many say the same")


def run(options: argparse.Namespace) -> int:
    """Import every file: keep what is good, list what is wrong; return 1 if something was left out."""
    done = _Done(FoldedLines(all_of_them=options.verbose > 0))
    try:
        return _import_all(options, done)
    finally:
        done.lines.flush()
        if options.json is not None and (done.written or done.again):
            write_json(options.json, _document(done))


def _document(done: _Done) -> dict[str, Any]:
    return {
        "schema": 1,
        "written": [str(path) for path in done.written],
        "there_already": done.again,
        "refused": done.refused,
        "nodes": sorted(done.nodes),
        "other_class": done.elsewhere,
        "values": done.values,
        "lost": done.lost,
        "wrong_lines": done.wrong_lines,
        # No verdict rests on these: failed and missing cells are results, the others are lost.
        "cells": dict(done.cells),
        "unknown_units": done.unknown_units,
    }


def _import_all(options: argparse.Namespace, done: _Done) -> int:
    from pytest_anubis.store.importers.import_folder import ImportFolder
    from pytest_anubis.store.importers.import_result import UNCLASSIFIED, ImportFileError

    sources = list(_sources(options))
    folder = ImportFolder(options.store)
    runs: set[tuple[str, str]] = set()
    for number, source in enumerate(sources, start=1):
        imported = None
        try:
            if source.error:
                raise CommandError(source.error)
            known = (source.node, source.run or options.run or source.path.name)
            if source.node and options.kind in OF_ONE_NODE and known in runs:
                raise CommandError(
                    f"{source.path}: a second file of node {source.node} for the run {known[1]}; import "
                    "it by itself with --run ID, or let the pattern say the run ({run})"
                )
            runs.add(known)
            imported = _import(options, source)
            _check_hosts(imported, source)
            _keep(imported, source, options, folder, done)
        except (CommandError, ImportFileError) as error:
            done.refused.append(str(error))
            _note_refused(imported, source, options, folder, done)
            if len(sources) == 1:
                raise
            done.lines.add(source.path, f"left out: {error}")
        if number % FILES_PER_REPORT == 0:
            say(f"{number:,} of {count_text(len(sources), 'file')}")
    done.lines.flush()
    if len(sources) > 1:
        say(
            f"{count_text(len(sources), 'file')}: {count_text(len(done.written), 'import')} of "
            f"{count_text(len(done.nodes), 'node')} with {done.values:,} values written"
            + (f", {done.again} there already" if done.again else "")
            + (f", {len(done.refused)} left out" if done.refused else "")
        )
    if done.again == len(sources):
        raise CommandError("nothing was imported: all of it is there already, see above")
    if done.refused and not done.written:
        raise CommandError(f"nothing was imported: {done.refused[0]}")
    written = done.written
    named = shlex.join(
        map(str, written if len(written) <= MAX_NAMES_LISTED else [written[0].parent])
    )
    if written:
        place = written[0].parent
        earlier = [
            one
            for one in sorted(place.iterdir())
            if one.suffix == written[0].suffix and one not in written
        ]
        judged = shlex.quote(str(place)) if earlier else named
        say(f"next: {_learning(done.classes, named)}anubis judge {judged}{_register(options)}")
        if earlier:
            say(
                f"{count_text(len(earlier), 'earlier import')} there: each node is judged by all of its runs"
            )
            if options.hardware_class or UNCLASSIFIED in done.classes:
                done.elsewhere = in_other_classes(done.nodes, done.classes, earlier)
                say(*other_class_lines(done.elsewhere, done.classes))
    if done.refused:
        raise CommandError(
            f"{count_text(len(done.refused), 'file')} of {len(sources):,} left out, see above; the others "
            "are imported"
        )
    return 1 if (done.lost or done.unknown_units) and not options.lenient else 0


def _check_hosts(imported: Imported, source: _Source) -> None:
    """Refuse a log whose own lines name other hosts than its path."""
    if source.node and imported.elsewhere:
        hosts = first_of(imported.elsewhere, MAX_NAMES_LISTED)
        raise CommandError(
            f"{source.path}: its path says node {source.node}, the log {hosts}: import it by itself; "
            "--node NAME decides"
        )


def _note_refused(
    imported: Imported | None,
    source: _Source,
    options: argparse.Namespace,
    folder: ImportFolder,
    done: _Done,
) -> None:
    """File an unreadable file for its nodes, so that what they passed before does not count as all."""
    from pytest_anubis.store.importers.import_result import refused_file

    if imported is None or imported.populations or not imported.runs:  # the file names no node
        node = source.node or getattr(options, "node", "") or ""
        if not node or not source.path.is_file():
            return
        run = source.run or options.run
        key = options.hardware_class
        imported = refused_file(source.path, node=node, run=run, hardware_class=key)
    runs = tuple(replace(run, unread=max(run.unread, 1)) for run in imported.runs)
    imported = _dated(replace(imported, runs=runs), options)
    nodes = sorted({run.node for run in imported.runs})
    named = few(nodes, MAX_NAMES_LISTED)
    with contextlib.suppress(OSError, ValueError):
        kept = folder.save(imported, source.name, unreadable=True)
        is_not = "are not" if len(nodes) > 1 else "is not"
        text = f"kept, so that {named} {is_not} accepted without it: {kept}"
        done.lines.add(source.path, text, kind="kept")


def _dated(imported: Imported, options: argparse.Namespace) -> Imported:
    return imported if options.date is None else imported.dated(options.date)


def _learning(classes: Iterable[str], named: str) -> str:
    """Return the command that learns from the imports; empty if each class has a baseline to judge by."""
    known = all(find_baseline(DEFAULT_BASELINE, one) for one in classes)
    return "" if known else f"anubis learn {named}, then "


def _register(options: argparse.Namespace) -> str:
    """Return the option that names a register of nodes in the folder of the files."""
    tables = sorted({path.parent / "nodes.csv" for path in options.files if path.is_file()})
    found = next((path for path in tables if path.is_file() and path not in options.files), None)
    return "" if found is None else f" --nodes-file {shlex.quote(str(found))}"


@dataclass(frozen=True, slots=True)
class _Source:
    """A file, with the node and the run that a pattern finds in its path."""

    path: Path
    node: str = ""
    run: str = ""
    error: str = ""

    @property
    def name(self) -> str:
        """Name of its import; empty: the file's."""
        return ".".join(filter(None, (self.node, self.run, self.path.name))) if self.node else ""


@dataclass(slots=True)
class _Done:
    """Results of all files so far, and the lines about them."""

    lines: FoldedLines
    written: list[Path] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    nodes: set[str] = field(default_factory=set)
    values: int = 0
    again: int = 0
    lost: int = 0
    wrong_lines: int = 0
    cells: Counter[str] = field(default_factory=Counter)
    unknown_units: int = 0
    classes: set[str] = field(default_factory=set)
    elsewhere: Mapping[str, str] = field(default_factory=dict)


def _sources(options: argparse.Namespace) -> Iterator[_Source]:
    """Yield the files, each with the node in its path if a pattern is given."""
    from pytest_anubis.store.importers.import_result import ImportFileError
    from pytest_anubis.store.importers.node_paths import NodePattern

    if options.node_pattern is None:
        if not options.files:
            raise CommandError(f"anubis import {options.kind}: name a FILE, or --node-pattern")
        yield from map(_Source, options.files)
        return
    if getattr(options, "node", None) is not None:
        raise CommandError("--node and --node-pattern say the same thing twice; leave one out")
    pattern = NodePattern(options.node_pattern)
    paths = options.files or pattern.files()
    for path in paths:
        try:
            yield _Source(path, *pattern.names(path))
        except ImportFileError as error:
            yield _Source(path, error=str(error))


def _keep(
    imported: Imported,
    source: _Source,
    options: argparse.Namespace,
    folder: ImportFolder,
    done: _Done,
) -> None:
    """Report what an import holds, and write it."""
    from pytest_anubis.store.importers.import_result import UNCLASSIFIED, DoubleImportError

    path = source.path
    imported = _dated(imported, options)
    done.lost += imported.lost
    done.wrong_lines += imported.wrong_count
    for one in imported.lost_cells:
        done.cells[one.kind] += one.count
    report = functools.partial(done.lines.add, path)
    report(
        f"{path}: {counts_line(imported)}",
        kind="all of it" if not imported.lost else "a part of it",
    )
    for one in imported.lost_cells:
        _, words, rule = CELLS[one.kind]
        report(f"{path}: {words}: {one.example}{rule}", kind=words)
    examples = sum(line.first for line in imported.wrong)  # one of each cause
    first = sorted(imported.wrong, key=lambda line: not line.first)
    first = first[: min(MAX_WRONG_LINES, max(MIN_WRONG_LINES, examples))]
    for line in first:
        report(f"{path}: {line}")
    if left := imported.wrong_count - len(first):
        report(f"{path}: ... and {count_text(left, 'more wrong line')}", kind="more")
    for note in (*imported.merged, *imported.notes):
        report(f"{path}: {note}")
    for text in unknown_units(imported, path, getattr(options, "map", None)):
        done.unknown_units += 1
        report(text)
    if not imported.populations:
        raise CommandError(f"{path}: nothing could be imported; the lines above say why")
    for text in date_lines(imported, table=options.kind == "table"):
        report(text, kind="dates")
    nodes = {node for population in imported.populations for node in population.nodes}
    if source.node and nodes != {source.node}:
        report(
            f"{path}: its path says node {source.node}, the file "
            f"{', '.join(sorted(nodes)[:MAX_NAMES_LISTED])}: the file counts",
            kind="path",
        )
    try:
        target = folder.save(imported, source.name)
        if folder.dated:
            (run, _), name = min(folder.dated.items())
            report(f"{path}: run {run} of another time is there already; this one is run {name}")
        if folder.lost:
            lost = first_of(folder.lost, MAX_NAMES_LISTED)
            report(f"{path}: replaces an earlier import of this file; its runs of {lost} are gone")
    except DoubleImportError as error:
        report(str(error), kind="again")
        done.again += 1
        return
    except OSError as error:
        raise CommandError(f"{options.store}: cannot be written ({error.strerror})") from error
    if folder.twice:
        (run, node), count = min(folder.twice.items())
        more = f" (and {len(folder.twice) - 1} more)" if len(folder.twice) > 1 else ""
        report(
            f"{path}: {count_text(count, 'value')} of node {node}, run {run}{more} are in an earlier file "
            "too: which count? It is not accepted so; give each run its --run ID, or {run} in the pattern",
            kind="twice",
        )
        done.lost += sum(folder.twice.values())
    report(f"written: {target}", kind="written")
    done.written.append(target)
    done.nodes |= nodes
    done.classes |= {population.hardware_class for population in imported.populations}
    done.values += imported.values
    if any(population.hardware_class == UNCLASSIFIED for population in imported.populations):
        report(
            f"{path}: hardware class '{UNCLASSIFIED}', for want of one: only nodes of one class are "
            "compared; to name it, import all files of these nodes again with --class KEY"
        )


def _import(options: argparse.Namespace, source: _Source) -> Imported:
    path = source.path
    kind = options.kind
    try:
        open_regular(path).close()
    except (FileNotFoundError, IsADirectoryError):
        pass  # the importer says what it takes
    except OSError as error:
        raise CommandError(f"{path}: cannot be read ({error.strerror})") from error
    # Tables and SuperBench name their nodes; this one is for lines without a node.
    here = platform.node() if kind in OF_ONE_NODE else ""
    given: dict[str, Any] = {
        "run": source.run or options.run,
        "node": source.node or getattr(options, "node", None) or here,
    }
    if options.hardware_class:
        given["hardware_class"] = options.hardware_class
    if kind == "nccl":
        given["collective"] = options.collective
    if getattr(options, "map", None) is not None:
        from pytest_anubis.store.importers.metric_map import known_metrics, read_metric_map

        given["known"] = read_metric_map(options.map).before(known_metrics())
    with Progress("importing") as progress:
        if kind not in OF_ONE_NODE:
            given["progress"] = progress.say
        module = importlib.import_module(f"pytest_anubis.store.importers.{MODULES.get(kind, kind)}")
        imported: Imported = getattr(module, f"import_{kind}")(path, **given)
    return imported
