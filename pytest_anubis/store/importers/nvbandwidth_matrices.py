"""Output of NVIDIA's nvbandwidth, JSON (``-j``) or text: a matrix of rates or latencies a test case."""

from __future__ import annotations

from pathlib import Path

from pytest_anubis.core.metric import Metric
from pytest_anubis.store.importers.import_result import (
    UNCLASSIFIED,
    Imported,
    ImportFileError,
    Samples,
    Unit,
    import_samples,
    read_text,
)
from pytest_anubis.store.importers.metric_map import known_metrics
from pytest_anubis.tool_outputs.nvbandwidth import Case, parts_of, scan_nvbandwidth
from pytest_anubis.tool_outputs.unreadable import UnreadableOutput


def import_nvbandwidth(
    path: Path, *, node: str, hardware_class: str = UNCLASSIFIED, run: str = ""
) -> Imported:
    """Read the output of one run of nvbandwidth on one node.

    Each test case is a benchmark ``nvbandwidth/<case>`` with ``bandwidth`` in GB/s or ``latency`` in ns. A
    copy between two cards in both directions has ``bandwidth_read1``, ``bandwidth_read2`` (``write``
    likewise) and ``bandwidth_total``. Each cell of a matrix is a device of its own: a card, or a pair. A case
    that failed has the problem ``failed`` on its node, be it that all did; one that was cut off is a wrong
    line; one that does not apply there is nothing.

    Args:
        path: The file.
        node: The node that it comes from.
        hardware_class: The node's class.
        run: The run's id; default: the file's name.

    Raises:
        ImportFileError: The file cannot be read, is no such output, or no case of it is whole.
    """
    try:
        found = scan_nvbandwidth(read_text(path))
    except UnreadableOutput as error:
        raise ImportFileError(f"{path}: {error}; write it with nvbandwidth -j") from None
    samples = Samples()
    for case in found.cases:
        short = case.name.removesuffix(f"_{case.part}") if case.part else case.name
        benchmark, metric = _named(samples, short, case.part, latency=case.unit == "ns")
        for place, value in zip(case.places, case.cells, strict=True):
            samples.add(Unit(benchmark, metric, device_of(case, *place)), value)
    for name, text in found.failures:
        part = "total" if parts_of(name) else ""
        benchmark, metric = _named(samples, name or "run", part, latency="latency" in name)
        samples.fail(benchmark, "node", text, metric)
    for what in found.unread:
        samples.wrong.add(0, what)
    return import_samples(
        path,
        samples,
        node=node,
        hardware_class=hardware_class,
        run=run,
        component="memory.transfer",
        lines=len(found.cases) + len(found.failures) + len(found.unread),
    )


def _named(samples: Samples, case: str, part: str, *, latency: bool) -> tuple[str, Metric]:
    """Return a case's benchmark and metric, and note which part of the node it exercises."""
    benchmark, word = f"nvbandwidth/{case}", "latency" if latency else "bandwidth"
    metric = Metric(
        name=f"{word}_{part}" if part else word,
        unit="ns" if latency else "GB/s",
        better="lower" if latency else "higher",
    )
    known = known_metrics().find(benchmark, metric.name)
    samples.components[benchmark] = known.component if known is not None else "memory.transfer"
    return benchmark, metric


def device_of(case: Case, row: int, column: int) -> str:
    """Return what a cell is about: a card, or a pair as ``sender>receiver``.

    A row is the card that copies: what reads gets the data from the column, what writes sends it there. The
    arrows in the tool's own descriptions differ from version to version. Of hosts there is mostly one row.
    """
    card = f"cuda:{column}"
    if "device_to_device" in case.name:
        return f"{card}>cuda:{row}" if "_read_" in case.name else f"cuda:{row}>{card}"
    return card if case.rows == 1 else f"cpu:{row}>{card}"
