"""Import logs of nccl-tests and rccl-tests: bandwidth or time per message size, out of place and in place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from pytest_anubis.core.machine_marks import are_of_one_host
from pytest_anubis.core.metric import first_of
from pytest_anubis.store.importers.import_result import (
    Imported,
    ImportFileError,
    OfNode,
    Samples,
    Unit,
    import_samples,
    read_output,
)
from pytest_anubis.tool_outputs.nccl_tests import COLLECTIVES, END, NcclLog, NcclRun

_UNKNOWN = "collective"
_MAX_NAMES_LISTED = 4
"""Hosts and collectives that a note names."""


def import_nccl(path: Path, *, collective: str = "", **of_node: Unpack[OfNode]) -> Imported:
    """Read the output of one or several runs of nccl-tests programs on one node.

    Each collective is a benchmark. A size gives the metric ``busbw_<bytes>`` in GB/s from 1 MiB on, and
    ``time_<bytes>`` in us below. Names of metrics end with unusual types, reductions and roots (other than
    ``float``, ``sum`` and 0), and with ``_in_place``. The group has the number of ranks. Repeated sizes are
    values of one sample, in their order. Lines with wrong results (``#wrong`` above 0) have the problem
    ``failed``, as has everything of a run that reports a failure, also if it measured nothing. A run without
    its end was cut off, which counts as a wrong line. Rows of 0 bytes, in which nothing was sent, are only
    counted in a note.

    Args:
        path: The log.
        collective: Name such as ``all_reduce``; default: from the log or the file's name.
        **of_node: Node, class and run.

    Raises:
        ImportFileError: The file cannot be read, has no line of results, or has several runs of unknown
            collectives.
    """
    log = read_output(path, NcclLog)
    samples = Samples()
    for number, what in log.wrong.items():
        samples.wrong.add(number, what)
    measured = [one for one in log.runs if one.rows or one.failure]
    if not measured:
        raise ImportFileError(f"{path}: {_why_nothing(log)}")
    named = collective or _from_file(path)
    for one in log.runs:
        one.collective = collective or one.collective or named or _UNKNOWN
        if not one.ended and not one.failure:
            samples.wrong.add(
                log.lines,
                f"the run that begins on line {one.place} ends before the line '{END}': what came after it "
                "is lost",
            )
    if len([one for one in measured if one.collective == _UNKNOWN]) > 1:
        raise ImportFileError(
            f"{path}: {len(measured)} runs, and not which collective they measured; name it with --collective"
        )
    for one in measured:
        _take(samples, one)
    samples.notes.extend(_notes(measured, of_node["node"]))
    imported = import_samples(path, samples, "network.collective", **of_node)
    node = of_node["node"]
    alike = (one for one in _elsewhere(measured, node) if _form(one) == _form(node))
    return replace(imported, elsewhere=tuple(alike))


def _take(samples: Samples, run: NcclRun) -> None:
    benchmark = f"nccl-tests/{run.collective}"
    for row in run.rows:
        for metric, value, half in row.metrics() if row.size else ():
            unit = Unit(benchmark, metric, "node", run.group)
            samples.add(unit, value)
            if run.failure:
                samples.problem(unit, "failed", run.failure)
            elif half.errors and run.counts_wrong:
                samples.problem(unit, "failed", "wrong results")
    if run.failure and not any(row.size for row in run.rows):
        samples.fail(benchmark, "node", run.failure)


def _notes(runs: list[NcclRun], node: str) -> Iterator[str]:
    yield from (run.failure for run in runs if run.failure)
    if empty := sum(not row.size for run in runs for row in run.rows):
        yield f"rows of 0 bytes left out, since nothing was sent: {empty}"
    names = list(dict.fromkeys(run.collective for run in runs))
    if len(names) > 1:
        listed = ", ".join(names[:_MAX_NAMES_LISTED])
        yield f"{len(runs)} runs of different collectives, each a benchmark: {listed}"
    if _UNKNOWN in names:
        yield (
            f"the log does not say which collective it is: kept as nccl-tests/{_UNKNOWN}; name it with "
            "--collective"
        )
    for run in runs:
        if run.slow:
            yield (
                f"line {run.place}: the program calls the average bus bandwidth of {run.slow} GB/s failed "
                "(NCCL_TESTS_MIN_BW); it is judged by the baseline"
            )
    hosts = list(dict.fromkeys(host for run in runs for host in run.hosts if host != "localhost"))
    if len(hosts) > 1 or _elsewhere(runs, node):
        named = first_of(hosts, _MAX_NAMES_LISTED)
        yield f"kept for node {node}; the log is of {named} (--node names another)"


def _elsewhere(runs: list[NcclRun], node: str) -> list[str]:
    """Return the hosts of runs on other hosts alone."""
    found: dict[str, None] = {}
    for run in runs:
        hosts = [host for host in run.hosts if host != "localhost"]
        if not any(are_of_one_host(host, node) for host in hosts):
            found |= dict.fromkeys(hosts)
    return list(found)


def _form(name: str) -> str:
    """Return a short name without its numbers: hosts of one form differ, other names may be aliases."""
    return re.sub(r"\d+", "#", name.partition(".")[0].lower())


def _why_nothing(log: NcclLog) -> str:
    """Return why a log has no result, in one line."""
    if log.wrong:
        number, what = next(iter(log.wrong.items()))
        return f"no line of results of nccl-tests that is known; line {number}: {what}"
    if log.text.lstrip().startswith("{"):
        return "JSON, which is not read of nccl-tests; import what the program prints"
    if log.runs:
        begin = f"nccl-tests began on line {log.runs[0].place}"
        return f"{begin} and has no line of results: it was cut off or hung"
    return "no line of results, so it is no output of nccl-tests"


def _from_file(path: Path) -> str:
    flat = re.sub(r"[^a-z]", "", path.name.lower())
    return next((name for name in COLLECTIVES if name.replace("_", "") in flat), "")
