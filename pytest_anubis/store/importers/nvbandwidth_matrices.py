"""Output of NVIDIA's nvbandwidth, JSON (``-j``) or text: a matrix of rates or latencies a test case."""

from __future__ import annotations

from pathlib import Path

from pytest_anubis.core.metric import Metric
from pytest_anubis.store.importers.import_result import (
    UNCLASSIFIED,
    Imported,
    ImportFileError,
    Unit,
    WrongLines,
    import_samples,
    read_text,
)
from pytest_anubis.store.importers.metric_map import known_metrics
from pytest_anubis.tool_outputs.nvbandwidth import Case, read_nvbandwidth
from pytest_anubis.tool_outputs.unreadable import UnreadableOutput


def import_nvbandwidth(
    path: Path, *, node: str, hardware_class: str = UNCLASSIFIED, run: str = ""
) -> Imported:
    """Read the output of one run of nvbandwidth on one node.

    Each test case is a benchmark ``nvbandwidth/<case>`` with ``bandwidth`` in GB/s or ``latency`` in ns. A
    copy between two cards in both directions has ``bandwidth_read1``, ``bandwidth_read2`` (``write``
    likewise) and ``bandwidth_total``. Each cell of a matrix is a device of its own: a card, or a pair. A case
    that failed is listed; one that does not apply there is not.

    Args:
        path: The file.
        node: The node that it comes from.
        hardware_class: The node's class.
        run: The run's id; default: the file's name.

    Raises:
        ImportFileError: The file cannot be read, is no such output, or no case ran to its end.
    """
    try:
        found = read_nvbandwidth(read_text(path))
    except UnreadableOutput as error:
        raise ImportFileError(f"{path}: {error}; write it with nvbandwidth -j") from None
    if not found.cases:
        raise ImportFileError(f"{path}: every test case failed: {found.failures[0][:200]}")
    samples: dict[Unit, list[float]] = {}
    components: dict[str, str] = {}
    for case in found.cases:
        short = case.name.removesuffix(f"_{case.part}") if case.part else case.name
        name, word = f"nvbandwidth/{short}", "latency" if case.unit == "ns" else "bandwidth"
        metric = Metric(
            name=f"{word}_{case.part}" if case.part else word,
            unit=case.unit,
            better="lower" if case.unit == "ns" else "higher",
        )
        known = known_metrics().find(name, metric.name)
        components[name] = known.component if known is not None else "memory.transfer"
        for place, value in zip(case.places, case.cells, strict=True):
            samples.setdefault((name, metric, device_of(case, *place)), []).append(value)
    wrong = WrongLines()
    for failure in found.failures:
        wrong.add(0, failure)
    return import_samples(
        path,
        samples,
        {},
        node=node,
        hardware_class=hardware_class,
        run=run,
        component=components,
        lines=len(found.cases) + len(found.failures),
        wrong=wrong,
    )


def device_of(case: Case, row: int, column: int) -> str:
    """Return what a cell is about: a card, or a pair as ``sender>receiver``.

    A row is the card that copies: what reads gets the data from the column, what writes sends it there. The
    arrows in the tool's own descriptions differ from version to version. Of hosts there is mostly one row.
    """
    card = f"cuda:{column}"
    if "device_to_device" in case.name:
        return f"{card}>cuda:{row}" if "_read_" in case.name else f"cuda:{row}>{card}"
    return card if case.rows == 1 else f"cpu:{row}>{card}"
