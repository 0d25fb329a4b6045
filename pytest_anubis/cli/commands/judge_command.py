"""``anubis judge RUNS --baseline DIR``: judge collected runs against baselines, without pytest.

All runs of a node are judged anew, together; `anubis fleet verdict` only shows what journals decided.
`cli.main` imports it by its name.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_anubis.cli.shared.arguments import (
    add_baseline,
    add_nodes_file,
    add_require,
    add_split,
    add_strictness,
    add_verbose,
    baseline_place,
    explain,
    strictness_words,
)
from pytest_anubis.cli.shared.class_split import split_classes
from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.printing import say, show_answer, write_file
from pytest_anubis.cli.shared.progress import Progress
from pytest_anubis.cli.shared.run_sources import (
    add_sources,
    histories_of,
    read_sources,
    registered_without_run,
    source_words,
    wanted_of,
    without_run_text,
)
from pytest_anubis.cli.site.import_judging import baselines_in_force
from pytest_anubis.core.verdict import Decision
from pytest_anubis.report.text.node_row import NodeRow
from pytest_anubis.report.text.numbers import count_text

if TYPE_CHECKING:
    from pytest_anubis.core.baseline import Baseline
    from pytest_anubis.store.collected_runs import RunSet


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    explain(
        parser,
        "Judge runs that were collected from many nodes, or imported, without pytest: one decision for every "
        "node.",
        "Exit codes: 0 every node is accepted; 1 a node is rejected; 20 no node is rejected, but one is "
        "undecided or a file could not be read; 2 wrong usage or input.",
    )
    parser.add_argument(
        "runs", nargs="*", type=Path, metavar="RUN", help="folders, journals, imports"
    )
    add_sources(parser)
    add_baseline(
        parser,
        more="; without any baseline the devices of a node are compared with each other, and nothing is "
        "accepted",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write every verdict as JSON; - prints it"
    )
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="write the fleet's page in one file: all nodes and metrics, what sick nodes share, and what was "
        "found on each",
    )
    add_nodes_file(parser)
    parser.add_argument(
        "--missing",
        type=Path,
        metavar="FILE.csv",
        help="write the values that tables lack, if any, to this file: node, benchmark, metric, device "
        "(default: missing.csv in the store of these runs, else in .anubis; missing-2.csv and so on if that "
        "is another list)",
    )
    add_verbose(parser, "every node, and all that was found on it")
    add_strictness(parser)
    add_split(parser)
    add_require(parser)


def run(options: argparse.Namespace) -> int:
    """Judge; the exit code is 1 if a node is rejected, 20 if one is undecided or a file damaged, else 0."""
    from pytest_anubis.cli.shared.collected_judging import judge_collected, rows_of, strictness_of
    from pytest_anubis.cli.shared.judged_json import judged_inputs, judged_json, write_judged
    from pytest_anubis.cli.site.fleet_printing import say_fleet
    from pytest_anubis.cli.site.fleet_source import gather_fleet_source

    printed = str(options.json) == "-"
    baselines = _baselines(options)
    strictness = strictness_of(options, baselines)
    runs = split_classes(read_sources(options), options.split)
    if options.split and {run.hardware_class for run in runs.runs}.isdisjoint(baselines):
        apart = shlex.join(word for name in options.split for word in ("--split", name))
        say(
            f"note: no baseline is for these runs' classes split by {', '.join(options.split)}, so nothing "
            f"can be accepted: learn one with 'anubis learn RUNS {apart}'"
        )
    places = [Path(place) for place in options.runs]
    judged = judge_collected(runs, baselines, [*places, *histories_of(options)], **strictness)
    rows: Sequence[NodeRow] = rows_of(judged)
    unrun = _without_run(options, runs)
    named = [str(place) for place in options.runs]
    page = options.html is not None
    source = gather_fleet_source(
        options, runs, judged, rows, places=named, without_run=unrun, whole_page=page
    )
    judged, rows = source.judged, source.rows  # with shared causes: a node's word may be RETEST now
    written = options.json is not None or options.html is not None
    inputs = judged_inputs(options, places) if written else {}
    if printed:
        for text in judged_json(judged, lambda done, total: None, source.shifts, inputs):
            show_answer(text)
    elif options.json is not None:
        with Progress("writing") as progress:
            try:
                write_judged(judged, options.json, progress.count, source.shifts, inputs)
            except OSError as error:
                raise CommandError(
                    f"{options.json}: cannot be written ({error.strerror})"
                ) from error
    say_fleet(options, source)
    if text := without_run_text(source.without_run):
        say(text)
    worst = min(rows, key=lambda row: (row.verdict.severity, row.to_look_at is None), default=None)
    if worst is not None and worst.trouble:
        command = shlex.join(_dossier_command(options, worst, rows))
        say(f"evidence about the worst node, {worst.verdict.node}: {command}")
    if options.html is not None:
        from pytest_anubis.cli.site.site_writing import judged_document

        write_file(options.html, judged_document(source, inputs))
    if options.json is not None and not printed:
        say(f"written: {options.json}")
    damaged = sum(refused.damaged for refused in runs.refused)
    if damaged:
        say(
            f"not judged: {count_text(damaged, 'file')} that could not be read (see above); "
            "fix or remove them"
        )
    decisions = {verdict.decision for verdict in judged.nodes}
    if Decision.REJECTED in decisions:
        return Decision.REJECTED.exit_code
    if Decision.UNDECIDED in decisions or not decisions or damaged:
        return Decision.UNDECIDED.exit_code
    return 0


def _without_run(options: argparse.Namespace, runs: RunSet) -> set[str]:
    """Return the nodes of the history without a run, which are in no row and no count."""
    if not options.history:
        return set()
    names = set(registered_without_run(options.history, wanted_of(options)))
    return names - {run.node for run in runs.runs}


def _dossier_command(
    options: argparse.Namespace, row: NodeRow, rows: Sequence[NodeRow]
) -> list[str]:
    """Return the command line of a node's dossier, with the class if the node is in several."""
    node = row.verdict.node
    several = sum(one.verdict.node == node for one in rows) > 1
    named = [
        word
        for name, given in (("--baseline", options.baseline), ("--nodes-file", options.nodes_file))
        if given is not None
        for word in (name, str(given))
    ]
    words = ["anubis", "report", *map(str, options.runs), *source_words(options), *named]
    words += strictness_words(options)
    words += [word for name in options.split for word in ("--split", name)]
    words += ["--node", node, *(["--class", row.hardware_class] if several else [])]
    return [*words, "--html", "node.html"]


def _baselines(options: argparse.Namespace) -> dict[str, Baseline]:
    found = baselines_in_force(options)
    if not found and options.baseline is not None:
        raise CommandError(f"{options.baseline}: no baselines; learn one with 'anubis learn'")
    if not found:
        say(
            f"note: no baselines in {baseline_place(options)}: the devices of each node are compared with "
            "each other, or a node with its own earlier runs, and nothing can be accepted; learn a baseline "
            "with 'anubis learn', or name another folder with --baseline DIR"
        )
    return found
