"""Output of nccl-tests and rccl-tests: one line per message size, out of place and in place."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import Problem
from pytest_anubis.store.importers.import_result import (
    UNCLASSIFIED,
    Imported,
    ImportFileError,
    WrongLines,
    import_samples,
    read_lines,
)
from pytest_anubis.tool_outputs.nccl_tests import COLLECTIVES, END, NcclLog, Row
from pytest_anubis.tool_outputs.unreadable import UnreadableOutput


@dataclass(slots=True)
class _Found:
    """What one log said so far."""

    samples: dict[Metric, list[float]] = field(default_factory=dict)
    wrong_results: dict[Metric, Problem] = field(default_factory=dict)
    rows: int = 0
    empty: int = 0


def import_nccl(
    path: Path,
    *,
    node: str,
    hardware_class: str = UNCLASSIFIED,
    run: str = "",
    collective: str = "",
) -> Imported:
    """Read the output of one or several runs of one nccl-tests program on one node.

    From 1 MiB on a size gives the metric ``busbw_<bytes>`` in GB/s, below it ``time_<bytes>`` in us; in
    place the names end in ``_in_place``. Repeated sizes are values of one sample, in their order. Lines
    with wrong results (``#wrong`` above 0) have the problem ``failed``; so has all when the
    program says so at its end. A log without that end was cut: that counts as a wrong line. Rows of no bytes
    are left out, since nothing was sent, and counted in a note.

    Args:
        path: The log.
        node: The node that it comes from; the log does not say it.
        hardware_class: The node's class.
        run: The run's id; default: the file's name.
        collective: Name such as ``all_reduce``; default: as the log or the file's name tells.

    Raises:
        ImportFileError: The file cannot be read or holds no result line.
    """
    log = NcclLog()
    found = _Found()
    wrong = WrongLines()
    number = 0
    try:
        for number, line in enumerate(read_lines(path), start=1):
            try:
                row = log.take(line)
            except UnreadableOutput as error:
                wrong.add(number, error.what)
                continue
            if row is not None:
                _note(found, row, log.counts_wrong)
    except ImportFileError as error:
        raise ImportFileError(f"{path}: {error}") from None
    if not found.rows:
        raise ImportFileError(f"{path}: no line of results, so it is no output of nccl-tests")
    if not log.ended and not log.failure:
        wrong.add(number, f"the log ends before the line '{END}': what came after it is lost")
    notes = [log.failure] if log.failure else []
    if found.empty:
        notes.append(f"rows of 0 bytes left out, since nothing was sent: {found.empty}")
    name = collective or log.collective or _from_file(path)
    failed = found.wrong_results
    if log.failure:
        failed = dict.fromkeys(found.samples, Problem(kind="failed", text=log.failure))
    return import_samples(
        path,
        {(f"nccl-tests/{name}", m, "node"): values for m, values in found.samples.items()},
        {(f"nccl-tests/{name}", m, "node"): problem for m, problem in failed.items()},
        node=node,
        hardware_class=hardware_class,
        run=run,
        component="network.collective",
        lines=number,
        wrong=wrong,
        notes=tuple(notes),
    )


def _note(found: _Found, row: Row, counts_wrong: bool) -> None:
    found.rows += 1
    found.empty += not row.size
    for metric, value, half in row.metrics() if row.size else ():
        found.samples.setdefault(metric, []).append(value)
        if half.errors and counts_wrong:
            found.wrong_results[metric] = Problem(kind="failed", text="wrong results")


def _from_file(path: Path) -> str:
    flat = re.sub(r"[^a-z]", "", path.name.lower())
    return next((name for name in COLLECTIVES if name.replace("_", "") in flat), "collective")
