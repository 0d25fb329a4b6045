"""Print judged nodes for `anubis judge` and `report`: findings, shared causes, the nodes, next commands.

Values that tables lack are listed in a file.
"""

from __future__ import annotations

import argparse
import csv
import io
import itertools
import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from pytest_anubis.cli.shared.printing import few, say, terminal_width
from pytest_anubis.cli.site.fleet_source import FleetSource
from pytest_anubis.codec.input_limits import LARGEST_JSON
from pytest_anubis.codec.json_files import read_bytes
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import Decision, Outcome, Reason, Triage
from pytest_anubis.report.text.node_row import NodeRow
from pytest_anubis.report.text.node_text import fleet_lines
from pytest_anubis.report.text.numbers import count_text
from pytest_anubis.report.text.text_table import clip_but_end
from pytest_anubis.store.atomic import write_atomically
from pytest_anubis.store.history import HISTORY_NAME
from pytest_anubis.store.importers.import_result import IMPORTS_FOLDER
from pytest_anubis.store.journal.journal_file import RUNS_FOLDER
from pytest_anubis.validator.deciding.fleet_judging import JudgedFleet

MISSING = "missing.csv"
"""Name of the list of values that tables lack, in the store of what was judged, unless the user names another
file or it holds another list."""
_LISTS = "missing*.csv"
STORE = Path(".anubis")
_KEPT = (IMPORTS_FOLDER, RUNS_FOLDER)
_Row = tuple[str, ...]
_HEAD: _Row = ("node", "benchmark", "metric", "device")
MAX_LINE_LENGTH = 400
"""Characters of a finding or a note without ``-v``."""
MIN_SHARING = 3
"""Rejected nodes from which on a shared cause is likely."""
MAX_RETESTS = 40
"""Nodes that a command to measure again names."""
MAX_CHANGED = 12
"""Nodes named that are newly rejected, or have recovered."""
MAX_TESTS = 12
"""Tests that a command to measure again names; with more, it runs all."""


def say_fleet(options: argparse.Namespace, source: FleetSource) -> None:
    """Print what was found on many nodes.

    The command has the options ``verbose``, ``allow_missing``, and perhaps ``missing``.
    """
    judged, rows, verbosity = source.judged, source.rows, options.verbose
    cells = _missing_cells(judged, rows)
    removed = _without_stale(options, {verdict.node for verdict in judged.nodes}, set(cells))
    missing = _missing_lines(options, cells, rows)
    lines = fleet_lines(
        rows,
        source.shifts,
        besides=missing[:1],
        out=source.out,
        width=terminal_width(),
        verbosity=verbosity,
    )
    # The first lines are those to act on, but for a class that moved as a whole a single node says little.
    findings = [f"finding: {finding.text}" for finding in judged.findings]
    notes = [f"note: {note}" for note in judged.notes]
    if verbosity > 0:
        notes += [f"note: {note}" for note in judged.asides]
    else:
        findings = [clip_but_end(one, MAX_LINE_LENGTH) for one in findings]
        notes = [clip_but_end(one, MAX_LINE_LENGTH) for one in notes]
    known = any(source.traits.get(row.verdict.node) for row in rows)
    shared = [] if known else _sharing_lines(rows)
    changes = _change_lines(source)
    say(*findings, *lines, *changes, *_retest_lines(rows), *missing[1:], *removed)
    say(*shared, *notes)


def _missing_cells(judged: JudgedFleet, rows: Sequence[NodeRow]) -> list[_Row]:
    """Return the values that tables lack of the shown nodes."""
    shown = {row.unit for row in rows if row.missing}
    return [
        (verdict.node, *cell)
        for verdict, detail in zip(judged.nodes, judged.details, strict=True)
        for cell in detail.missing
        if (verdict.node, detail.hardware_class) in shown
    ]


def _missing_lines(
    options: argparse.Namespace, cells: Sequence[_Row], rows: Sequence[NodeRow]
) -> list[str]:
    """List the values that tables lack in a file; return lines on how to measure them."""
    if not cells:
        return []
    shown = [row for row in rows if row.missing]
    fine = sum(row.missing > 0 and row.verdict.decision is Decision.ACCEPTED for row in rows)
    verb = "is" if len(cells) == 1 else "are"
    line = (
        f"{count_text(len(cells), 'value')} {verb} missing on {count_text(len(shown), 'node')}, of which "
        f"{fine} {'is' if fine == 1 else 'are'} accepted all the same "
        f"(--allow-missing {100 * options.allow_missing:g}%)"
    )
    if "missing" not in options:
        return [f"{line}: 'anubis judge' lists them"]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([_HEAD, *cells])
    text = out.getvalue()
    place = options.missing or _unused(_store(options), text)
    try:
        write_atomically(place, text)
    except OSError as error:
        return [
            f"{line}: {place} cannot be written ({error.strerror}); name another --missing FILE"
        ]
    again = _again(str(place), (cell[1] for cell in cells), "the nodes of ")
    return [f"{line}: {place} lists them", f"measure what is missing{again}"]


def _without_stale(options: argparse.Namespace, nodes: set[str], cells: set[_Row]) -> list[str]:
    """Remove outdated lists of missing values, and return lines that say so.

    A list is outdated if all of its nodes were judged and one of its values exists now; the list that the
    user names is outdated if nothing is missing.
    """
    # Nothing is known of metrics that were not chosen.
    if "missing" not in options or options.metrics:
        return []
    places = [options.missing] if options.missing else sorted(_store(options).glob(_LISTS))
    lines = []
    removed = []
    for place in places:
        listed = _listed(place)
        judged = {node for node, *_ in listed} <= nodes and not listed <= cells
        if not listed or (cells if options.missing else not judged):
            continue
        try:
            place.unlink()
        except OSError as error:
            lines.append(f"{place} is out of date and cannot be removed ({error.strerror})")
        else:
            removed.append(str(place))
    if removed:
        lines.append(f"removed, as values that it listed are there now: {', '.join(removed)}")
    return lines


def _listed(place: Path) -> set[_Row]:
    """Return the values in a list of missing values; nothing if it is another kind of file."""
    try:
        head, *rows = csv.reader(io.StringIO(read_bytes(place, largest=LARGEST_JSON).decode()))
    except (OSError, ValueError, csv.Error):
        return set()
    ours = tuple(head) == _HEAD and all(len(row) == len(_HEAD) for row in rows)
    return set(map(tuple, rows)) if ours else set()


def _change_lines(source: FleetSource) -> list[str]:
    """Return a line on what the latest run of a node says by itself.

    It may reject the node for the first time, show that it has recovered, or be undecided, as of a few
    tests, where all runs together accept the node: health checks go by the latest.
    """
    runs: dict[str, list[RunRecord]] = {}
    for run in source.runs.runs:
        runs.setdefault(run.node, []).append(run)
    several = {node: own for node, own in runs.items() if len({run.started for run in own}) > 1}
    new, recovered, alone = list[str](), list[str](), list[str]()
    for row in source.rows:
        node = row.verdict.node
        if node not in several:
            continue
        last = max(several[node], key=lambda run: run.started)
        # Since when a device is gone is not known: it is said of the latest run that lacks it.
        bad = (one for one in row.verdicts if one.outcome is Outcome.FAIL)
        found = {"" if one.reason is Reason.GONE else one.run for one in bad}
        if row.verdict.decision is Decision.REJECTED and found == {last.run}:
            new.append(node)
        elif (
            row.word == Decision.ACCEPTED
            and not row.waived
            and any(v.recovered for v in row.verdicts)
        ):
            recovered.append(node)
        own = last.node_verdict
        if row.verdict.decision is Decision.ACCEPTED and own and own.decision is Decision.UNDECIDED:
            alone.append(node)
    parts = [
        f"{word}: {', '.join(names[:MAX_CHANGED])}"
        + (f", and {len(names) - MAX_CHANGED} more" if len(names) > MAX_CHANGED else "")
        for word, names in (
            ("rejected anew", new),
            ("recovered", recovered),
            ("undecided, and by 'anubis health'", alone),
        )
        if names
    ]
    return [f"by each node's latest run: {'; '.join(parts)}"] if parts else []


_OTHER_TOOL = "with its own tool, then import that and judge again"
"""What to do about results of other programs."""


def _store(options: argparse.Namespace) -> Path:
    """Return the only store that holds everything judged, else `STORE`."""
    if "://" in (options.history or ""):
        return STORE
    places = [Path(options.history)] if options.history else options.runs
    stores = {one for place in places if (one := _store_of(place)) is not None}
    return stores.pop() if len(stores) == 1 else STORE


def _store_of(place: Path) -> Path | None:
    if any((place / name).is_dir() for name in _KEPT) or Path(place, HISTORY_NAME).is_file():
        return place
    return next((one.parent for one in (place, *place.parents) if one.name in _KEPT), None)


def _unused(folder: Path, text: str) -> Path:
    """Return the path for a list that replaces no other list, since commands on the terminal name it."""
    first = place = folder / MISSING
    numbers = itertools.count(2)
    while place.exists() and not (place.is_file() and place.read_bytes() == text.encode()):
        place = first.with_stem(f"{first.stem}-{next(numbers)}")
    return place


def _sharing_lines(rows: Sequence[NodeRow]) -> list[str]:
    """Return how to find what rejected nodes share, if no register of the nodes was given."""
    if sum(row.verdict.decision is Decision.REJECTED for row in rows) < MIN_SHARING:
        return []
    return ["what they share: --nodes-file FILE.csv with the columns node, rack, batch or the like"]


def _retest_lines(rows: Sequence[NodeRow]) -> list[str]:
    """Return the command that measures uncertain rejections again."""
    again = {
        row.verdict.node: sorted({one.benchmark for one in row.to_act_on})
        for row in rows
        if row.verdict.triage is Triage.RETEST and row.worst is not None
    }
    every = [benchmark for benchmarks in again.values() for benchmark in benchmarks]
    if not again:
        return []
    if len(again) > MAX_RETESTS:
        return [f"measure again first: {len(again)} nodes, which --json names as 'retest'"]
    if all("::" in one for one in every):
        return [f"measure again first{_again(','.join(sorted(again)), every)}"]
    by: dict[str, list[str]] = {}
    for node, benchmarks in sorted(again.items()):
        names = ", ".join(one.rpartition("::")[2] for one in benchmarks)
        by.setdefault(names, []).append(node)
    each = "; ".join(f"{names} on {','.join(nodes)}" for names, nodes in sorted(by.items()))
    return [f"measure again first, {_OTHER_TOOL}: {each}"]


def _again(hosts: str, benchmarks: Iterable[str], which: str = "") -> str:
    """Return the command that runs benchmarks on hosts; for another tool's benchmarks, what to do instead."""
    benchmarks = set(benchmarks)
    if not all("::" in one for one in benchmarks):
        names = few(sorted(one.rpartition("::")[2] for one in benchmarks), MAX_TESTS)
        return f", {_OTHER_TOOL}: {names} on {which}{hosts}"
    tests = sorted({re.sub(r"\[.*", "", one).rpartition("::")[2] for one in benchmarks})
    named = len(tests) <= MAX_TESTS and all(map(str.isidentifier, tests))
    chosen = shlex.join(["-k", " or ".join(tests)] if named else [])
    files = sorted({one.partition("::")[0] for one in benchmarks})
    typed = "suites/" if all(one.startswith("suites/") for one in files) else shlex.join(files)
    where = shlex.quote(str(Path.cwd()))
    return f": anubis fleet run --hosts {shlex.quote(hosts)} --chdir {where} -- {typed} {chosen}".rstrip()
