"""``anubis report RUN``: a run's summary, JSON, HTML page and gauges, rebuilt from its journal."""

from __future__ import annotations

import argparse
import dataclasses
import shutil
import sys
from pathlib import Path

from pytest_anubis.cli.shared.arguments import add_baseline, add_store, baseline_place, explain
from pytest_anubis.cli.shared.printing import say, write_file
from pytest_anubis.cli.shared.run_lookup import read_run
from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.events import DamageFound
from pytest_anubis.core.run import RunRecord
from pytest_anubis.report.export.prometheus_export import prometheus_text
from pytest_anubis.report.export.run_json import run_json
from pytest_anubis.report.pages.choice_report import chosen_lines
from pytest_anubis.report.pages.dossier import run_page
from pytest_anubis.report.text.duty_text import duty_lines
from pytest_anubis.report.text.summary_text import summary_lines
from pytest_anubis.store.baselines.baseline_files import BaselineError, find_baseline, load_baseline


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    explain(
        parser,
        "Rebuild what a run said from its journal: the summary, or its JSON form, HTML page and gauges. The "
        "run may have been cut short.",
        "Exit codes: 0 done, whatever the run's verdict; 2 wrong usage or input.",
    )
    parser.add_argument(
        "name",
        nargs="?",
        default="latest",
        metavar="RUN",
        help="folder, journal or id of the run; default: the latest",
    )
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the HTML page")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the JSON form; - prints it"
    )
    parser.add_argument(
        "--prometheus",
        type=Path,
        metavar="FILE",
        help="write gauges for the textfile collector of the node_exporter; - prints them",
    )
    parser.add_argument("-v", "--verbose", action="count", default=0, help="every metric")
    add_baseline(parser, more="; used for the plots, and to judge a run that was cut short")
    add_store(parser)


def run(options: argparse.Namespace) -> int:
    """Rebuild what was asked for."""
    place = baseline_place(options)
    record = read_run(options.name, options.store)
    baseline = _baseline(place, record)
    record = completed(record, baseline)
    if options.json is not None:
        write_file(options.json, run_json(record) + "\n")
    if options.html is not None:
        write_file(options.html, run_page(record, baseline))
    if options.prometheus is not None:
        write_file(options.prometheus, prometheus_text(record.node_verdict, record.told, record))
    if "-" not in (str(options.json), str(options.prometheus)):
        _show(record, options.verbose)
    return 0


def completed(record: RunRecord, baseline: Baseline | None = None) -> RunRecord:
    """Give a run that was cut short the verdicts that its missing tests deserve.

    Args:
        record: The run.
        baseline: That of its class today; it is used if the run was judged against the very same.
    """
    damaged = any(isinstance(event, DamageFound) for event in record.events)
    settled = record.node_verdict is not None and not record.broken_off and not damaged
    if settled or record.settings.get("mode") != "judge":
        return record
    same = baseline is not None and baseline.digest == record.baseline
    from pytest_anubis.validator.deciding.run_decision import decide_run

    decision = decide_run(
        record,
        baseline if same else None,
        fail_on="marginal" if record.settings.get("fail_on") == "marginal" else "fail",
        require_all=record.settings.get("require_all") is True,
        broken_off=f"the run {record.broken_off}" if record.broken_off else "",
    )
    return dataclasses.replace(
        record,
        verdicts=(*record.verdicts, *decision.added),
        node_verdict=decision.node_verdict,
    )


def _show(record: RunRecord, verbosity: int) -> None:
    say(f"run {record.run} of {record.node}, {record.started}, class {record.hardware_class}")
    for warning in record.warnings:
        say(f"note: {warning}")
    for line in chosen_lines(record.choice):
        say(line)
    if record.node_verdict is None:
        say(f"{len(record.measurements)} measurements recorded, nothing was judged")
        return
    width = shutil.get_terminal_size().columns
    for text, _ in summary_lines(
        record.node_verdict, record.told, verbosity=verbosity, width=width
    ):
        say(text)
    for line in duty_lines(record.results, record.planned, verbosity=verbosity):
        say(line)


def _baseline(place: Path, record: RunRecord) -> Baseline | None:
    try:
        path = find_baseline(place, record.hardware_class)
        if path is None:
            return None
        return load_baseline(path, hardware_class=record.hardware_class)
    except (OSError, BaselineError) as error:
        say(f"plots without criteria: {error}", file=sys.stderr)
        return None
