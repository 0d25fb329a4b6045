"""``anubis report``: show a run, a node or a fleet again, as text, JSON, HTML pages, gauges or OCP lines.

A single run is rebuilt from its journal; imports and folders of runs are judged as ``anubis judge`` does.
"""

from __future__ import annotations

import argparse
import dataclasses
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_anubis.cli.shared.arguments import (
    add_baseline,
    add_nodes_file,
    add_require,
    add_split,
    add_store,
    add_strictness,
    add_verbose,
    baseline_place,
    explain,
)
from pytest_anubis.cli.shared.class_split import split_classes
from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.printing import edge, say, write_file
from pytest_anubis.cli.shared.run_lookup import (
    collected_path,
    completed,
    is_collection,
    read_run,
)
from pytest_anubis.cli.shared.run_sources import (
    add_sources,
    histories_of,
    read_history,
    read_history_run,
    registered_without_run,
    wanted_of,
    without_run_text,
)
from pytest_anubis.cli.site.import_judging import baselines_in_force
from pytest_anubis.core.asking.open_questions import asked_questions
from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.metric import first_of
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import Triage
from pytest_anubis.passwords import shown_place
from pytest_anubis.report.export.ocp_export import ocp_text
from pytest_anubis.report.export.prometheus_export import prometheus_text
from pytest_anubis.report.export.run_json import run_json
from pytest_anubis.report.pages.choice_report import chosen_lines
from pytest_anubis.report.pages.dossier import run_page
from pytest_anubis.report.text.duty_text import duty_lines
from pytest_anubis.report.text.next_command import next_of
from pytest_anubis.report.text.node_row import counted_words
from pytest_anubis.report.text.numbers import count_text
from pytest_anubis.report.text.shared_lines import resume_hint
from pytest_anubis.report.text.summary_text import summary_lines
from pytest_anubis.store.baselines.baseline_files import BaselineError, find_baseline, load_baseline
from pytest_anubis.store.history.closed_defects import closed_defects
from pytest_anubis.store.run_filter import RunFilter

if TYPE_CHECKING:
    from pytest_anubis.store.collected_runs import RunSet

MAX_NAMES_LISTED = 8
"""Nodes or classes named in place of one that does not exist."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    explain(
        parser,
        "Rebuild what a run said from its journal: the summary, or its JSON form, HTML page, gauges and OCP "
        "lines. The run may have been cut short. Imports, tables and folders of runs are judged as 'anubis "
        "judge' does: of one node its dossier, of several the page of all.",
        "Exit codes: 0 done, whatever the run's verdict; 2 wrong usage or input.",
    )
    parser.add_argument(
        "name",
        nargs="*",
        default=[],
        metavar="RUN",
        help="folder, journal or id of the run, or imports and folders of runs; default: the latest run",
    )
    parser.add_argument(
        "--fleet",
        nargs="*",
        metavar="SOURCE",
        help="write the pages of a whole fleet into the folder --html: imports and folders of runs, or a "
        "history (its database URL or folder; or --history), judged as 'anubis judge' does; the page to open "
        "is its index.html",
    )
    add_nodes_file(parser)
    add_sources(parser)
    parser.add_argument("--node", metavar="NAME", help="only this node of what was collected")
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="write the HTML page; with --fleet the folder"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the JSON form; - prints it"
    )
    parser.add_argument(
        "--prometheus",
        type=Path,
        metavar="FILE",
        help="write gauges for the textfile collector of the node_exporter; - prints them",
    )
    parser.add_argument(
        "--ocp",
        type=Path,
        metavar="FILE",
        help="write OCP Test & Validation JSON lines (schema 2.0); - prints them",
    )
    add_verbose(parser, "every metric")
    add_baseline(parser, more="; used for the plots, and to judge a run that was cut short")
    judged_here = "; of runs, imports and folders that are judged here"
    add_require(parser, more=judged_here)
    add_strictness(parser, more=judged_here)
    add_split(parser)
    add_store(parser)


def run(options: argparse.Namespace) -> int:
    """Show and write the report of a run, of a collected node, or of a fleet; return the exit code."""
    place = baseline_place(options)
    if options.fleet is not None:
        return _fleet(options)
    found = _named_run(options)
    record: RunRecord | None
    if isinstance(found, RunRecord):
        baseline = _baseline(place, found)
        record = completed(found, baseline)
    else:
        record, baseline = _collected(options, found)
        if record is None:
            return 0
    if not isinstance(found, RunRecord) or options.nodes_file is not None:
        from pytest_anubis.cli.site.fleet_source import register_of

        places = [options.history] if options.history else options.name
        known = register_of(places, options.nodes_file).get(record.node, {})
        record = dataclasses.replace(record, traits={**known, **record.traits})
    if options.json is not None:
        write_file(options.json, run_json(record) + "\n")
    if options.html is not None:
        closed = closed_defects(options.history or options.store, record)
        write_file(options.html, run_page(record, baseline, closed=closed))
    if options.prometheus is not None:
        write_file(options.prometheus, prometheus_text(record))
    if options.ocp is not None:
        write_file(options.ocp, ocp_text(record))
    if "-" not in (str(options.json), str(options.prometheus), str(options.ocp)):
        _show(record, options.verbose)
    return 0


def _fleet(options: argparse.Namespace) -> int:
    """Write the pages of a fleet."""
    from pytest_anubis.cli.shared.collected_judging import (
        judge_collected,
        read_collected,
        rows_of,
        strictness_of,
    )
    from pytest_anubis.cli.site.fleet_source import gather_fleet_source, is_history
    from pytest_anubis.cli.site.site_writing import write_site

    if options.html is None:
        raise CommandError("--fleet writes pages into a folder: add --html DIR")
    for name in ("node", "json", "prometheus", "ocp", "name"):
        if getattr(options, name) not in (None, []):
            flag = "RUN" if name == "name" else f"--{name}"
            raise CommandError(
                f"{flag} does not go with --fleet, which writes the pages of all nodes"
            )
    files: list[Path] = []
    stored = [name for name in options.fleet if is_history(name)]
    if not options.fleet and not options.history:
        raise CommandError("--fleet: name imports and folders of runs, or one history")
    if (options.history and options.fleet) or (stored and len(options.fleet) > 1):
        raise CommandError("--fleet takes either files and folders or one history: --fleet URL")
    if stored or options.history:
        options.history = options.history or stored[0]
        runs = read_history(options)
    else:
        files = [Path(name) for name in options.fleet]
        runs = read_collected(files, wanted_of(options))
    runs = split_classes(runs, options.split)
    places = [options.history] if options.history else options.fleet
    wanted = wanted_of(options)
    baselines = baselines_in_force(options)
    origins = [*files, *histories_of(options)]
    judged = judge_collected(runs, baselines, origins, **strictness_of(options, baselines))
    rows = rows_of(judged)
    if not rows:
        raise CommandError("no node has a sample in there; give other runs or imports")
    source = gather_fleet_source(
        options,
        runs,
        judged,
        rows,
        places=places,
        without_run={name for one in places for name in registered_without_run(one, wanted)},
        whole_page=True,
    )
    index = write_site(options.html, source, dict(source.judged.baselines))
    counted = ", ".join(f"{count} {word}" for word, count in counted_words(source.rows))
    say(f"{count_text(len(source.rows), 'node')}: {counted}")
    more = (without_run_text(source.without_run), source.no_baseline_text, source.filed_text)
    say(*filter(None, more), f"written: {index}")
    return 0


def _named_run(options: argparse.Namespace) -> RunRecord | RunSet | None:
    """Return the named run, or the set of runs to judge; None if the runs to judge are in files."""
    one_of_many = options.node is not None or options.hardware_class is not None
    chosen = one_of_many or wanted_of(options) != RunFilter()
    options.name = options.name or ([] if options.history and chosen else ["latest"])
    if not options.history:
        several = chosen or len(options.name) > 1 or is_collection(options.name[0])
        return None if several else read_run(options.name[0], options.store)
    if len(options.name) > 1:
        raise CommandError("--history: name one run, or none with --nodes, --class or --since")
    if options.node is not None:
        options.nodes = [*options.nodes, options.node]
    return read_history_run(options, options.name[0]) if options.name else None


def _collected(
    options: argparse.Namespace, runs: RunSet | None
) -> tuple[RunRecord | None, Baseline | None]:
    """Judge collected runs; return the record of the only node, or None once several were shown."""
    from pytest_anubis.cli.shared.collected_judging import (
        judge_collected,
        read_collected,
        rows_of,
        strictness_of,
    )
    from pytest_anubis.cli.shared.judged_json import judged_inputs, judged_json
    from pytest_anubis.cli.shared.node_runs import NodeRuns
    from pytest_anubis.cli.site.fleet_source import gather_fleet_source

    baselines = baselines_in_force(options)
    paths: list[Path] = []
    if runs is None and options.history:
        runs = read_history(options)
    elif runs is None:
        paths = [collected_path(name, options.store) for name in options.name]
        every_class = dataclasses.replace(wanted_of(options), hardware_class="")  # checked below
        runs = read_collected(paths, every_class)
    runs = split_classes(runs, options.split)
    origins = [*paths, *histories_of(options)]
    judged = judge_collected(runs, baselines, origins, **strictness_of(options, baselines))
    every = rows_of(judged)
    rows = [row for row in every if options.node in (None, row.verdict.node)]
    classes = sorted({row.hardware_class for row in rows})
    key = options.hardware_class
    if rows and key not in (None, *classes):
        raise CommandError(
            f"--class {key}: not among these; there is {first_of(classes, MAX_NAMES_LISTED)}"
        )
    rows = [row for row in rows if key in (None, row.hardware_class)]
    if not rows:
        known = sorted({v.node for v in judged.nodes})
        if options.node is None or not known:
            names = ", ".join(options.name) or shown_place(options.history)
            raise CommandError(
                f"{names}: no node has a sample in there; give other runs or imports"
            )
        raise CommandError(
            f"--node {options.node}: not among these; there is {first_of(known, MAX_NAMES_LISTED)}"
        )
    if len(rows) == 1:
        source = gather_fleet_source(options, runs, judged, every, places=options.name)
        (row,) = (one for one in source.rows if one.unit == rows[0].unit)
        if row.shared is not None and row.verdict.triage is not Triage.SHARED:
            say(f"{row.verdict.node}: {row.shared}")
        return NodeRuns(runs, judged).run_of(row), baselines.get(rows[0].hardware_class)
    for name, given in (("--prometheus", options.prometheus), ("--ocp", options.ocp)):
        if given is not None:
            raise CommandError(
                f"{name} writes one node, and these are {len(rows)}: {_narrower(options, classes)}"
            )
    page = options.html is not None
    source = gather_fleet_source(options, runs, judged, rows, places=options.name, whole_page=page)
    written = options.json is not None or options.html is not None
    inputs = judged_inputs(options, paths) if written else {}  # each file is read for its digest
    if options.json is not None:
        pieces = judged_json(source.judged, lambda done, total: None, source.shifts, inputs)
        write_file(options.json, "".join(pieces))
    from pytest_anubis.cli.site.fleet_printing import say_fleet

    say_fleet(options, source)
    if options.html is not None:
        from pytest_anubis.cli.site.site_writing import judged_document

        write_file(options.html, judged_document(source, inputs))
    say(f"one node's dossier: {_narrower(options, classes)} --html FILE")
    return None, None


def _narrower(options: argparse.Namespace, classes: list[str]) -> str:
    """Return the option that leaves one node: its name, or its class if the node is in several."""
    if options.node is None:
        return "add --node NAME"
    return f"it is in the classes {first_of(classes, MAX_NAMES_LISTED)}: add --class KEY"


def _show(record: RunRecord, verbosity: int) -> None:
    began = f", {record.started}" if record.started else ""
    say(f"run {record.run} of {record.node}{began}, class {record.hardware_class}")
    say(*(f"note: {warning}" for warning in record.warnings))
    if record.cut_short:
        say(f"it did not come to its end; {resume_hint(record.run)}")
    say(*chosen_lines(record.choice))
    if record.node_verdict is None:
        say(f"{len(record.measurements)} measurements recorded, nothing was judged")
        return
    lines = summary_lines(
        record.node_verdict,
        record.effective_verdicts,
        questions=asked_questions(record.planned, record.effective_verdicts, record.results),
        results=record.results,
        cards=record.cards,
        verbosity=verbosity,
        width=shutil.get_terminal_size().columns,
        wrapped=edge() is not None,
    )
    say(*(text for text, _ in lines))
    if verbosity > 0:
        say(*duty_lines(record.results, record.planned))
    if step := next_of(record):
        say(step)


def _baseline(place: Path, record: RunRecord) -> Baseline | None:
    key = record.hardware_class
    try:
        path = find_baseline(place, key)
        return None if path is None else load_baseline(path, hardware_class=key)
    except (OSError, BaselineError) as error:
        say(f"plots without criteria: {error}", file=sys.stderr)
        return None
