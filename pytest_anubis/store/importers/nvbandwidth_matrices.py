"""Import the output of NVIDIA's nvbandwidth, JSON (``-j``) or text: a matrix for each test case."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from pytest_anubis.core.metric import Metric
from pytest_anubis.store.importers.import_result import (
    Imported,
    OfNode,
    Samples,
    Unit,
    import_samples,
    read_output,
)
from pytest_anubis.store.importers.metric_map import known_metrics
from pytest_anubis.tool_outputs.nvbandwidth import Case, parts_of, scan_nvbandwidth


def import_nvbandwidth(path: Path, **of_node: Unpack[OfNode]) -> Imported:
    """Read the output of one run of nvbandwidth on one node.

    Each test case is a benchmark ``nvbandwidth/<case>`` with ``bandwidth`` in GB/s or ``latency`` in ns. A
    copy between two cards in both directions has ``bandwidth_read1``, ``bandwidth_read2`` (``write``
    likewise) and ``bandwidth_total``. Runs with buffers below the default size are a group. Each cell of a
    matrix is a device: a card, or a pair. A failed case has the problem ``failed`` on its node, an error of
    no case in ``nvbandwidth/run``; a truncated case is a wrong line, and one that does not apply to the
    machine is ignored.

    Raises:
        ImportFileError: The file cannot be read, is no such output, or no case of it is whole.
    """
    found = read_output(path, scan_nvbandwidth, "write it with nvbandwidth -j")
    samples = Samples()
    for case in found.cases:
        short = case.name.removesuffix(f"_{case.part}") if case.part else case.name
        benchmark, metric = _named(samples, short, case.part, latency=case.unit == "ns")
        for place, value in zip(case.places, case.cells, strict=True):
            samples.add(Unit(benchmark, metric, device_of(case, *place), case.group), value)
    for group in sorted({case.group for case in found.cases} - {""}):
        samples.notes.append(
            f"group '{group}': the output does not say of which size its buffers were"
        )
    for name, text in found.failures:
        part = "total" if parts_of(name) else ""
        benchmark, metric = _named(samples, name or "run", part, latency="latency" in name)
        samples.fail(benchmark, "node", text, metric)
    for what in found.unread:
        samples.wrong.add(0, what)
    return import_samples(path, samples, "memory.transfer", **of_node)


def _named(samples: Samples, case: str, part: str, *, latency: bool) -> tuple[str, Metric]:
    """Return a case's benchmark and metric, and add its component to the samples."""
    benchmark = f"nvbandwidth/{case}"
    word = "latency" if latency else "bandwidth"
    metric = Metric(
        name=f"{word}_{part}" if part else word,
        unit="ns" if latency else "GB/s",
        better="lower" if latency else "higher",
    )
    known = known_metrics().find(benchmark, metric.name)
    samples.components[benchmark] = known.component if known is not None else "memory.transfer"
    return benchmark, metric


def device_of(case: Case, row: int, column: int) -> str:
    """Return the device of a cell: a card, or a pair as ``sender>receiver``.

    The row is the card that copies: it reads from the column's card or writes to it. The arrows in the tool's
    own descriptions differ between versions. A matrix with a host mostly has one row.
    """
    card = f"cuda:{column}"
    if "device_to_device" in case.name or "_bisect_" in case.name:
        return f"{card}>cuda:{row}" if "_read_" in case.name else f"cuda:{row}>{card}"
    return card if case.rows == 1 else f"cpu:{row}>{card}"
