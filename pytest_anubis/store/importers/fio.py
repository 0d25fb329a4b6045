"""Output of ``fio --output-format=json``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import Problem
from pytest_anubis.store.fields import Fields
from pytest_anubis.store.importers.import_result import (
    UNCLASSIFIED,
    Imported,
    ImportFileError,
    Unit,
    WrongLines,
    import_samples,
    read_text,
)

_WAYS = ("read", "write", "trim")
_PERCENTILES = (("50.000000", "p50"), ("99.000000", "p99"))


def import_fio(
    path: Path,
    *,
    node: str,
    device: str = "",
    hardware_class: str = UNCLASSIFIED,
    run: str = "",
) -> Imported:
    """Read one or several JSON outputs of fio, one after the other in one file.

    Every job gives, for reading and writing, ``bandwidth`` in MB/s, ``iops`` in op/s and the total
    latency's 50th and 99th percentile in us. A job that ended with an error has the problem ``failed``.

    Args:
        path: The file.
        node: The node that it comes from.
        device: The disk; default: the last part of the job's file name, else ``disk``.
        hardware_class: The node's class.
        run: The run's id; default: the file's name.

    Raises:
        ImportFileError: The file cannot be read or holds no output of fio.
    """
    wrong = WrongLines()
    samples: dict[Unit, list[float]] = {}
    failed: dict[Unit, Problem] = {}
    jobs = 0
    for output in _outputs(read_text(path), path):
        for job in output.children("jobs"):
            jobs += 1
            try:
                _take_job(samples, failed, output, job, device)
            except ImportFileError as error:
                wrong.add(0, str(error))
    if not jobs:
        raise ImportFileError(f"{path}: no job in it, so it is no JSON output of fio")
    return import_samples(
        path,
        samples,
        failed,
        node=node,
        hardware_class=hardware_class,
        run=run,
        component="disk",
        lines=jobs,
        wrong=wrong,
    )


def _outputs(text: str, path: Path) -> Iterator[Fields]:
    """Yield every JSON object; what stands before the first and between them (warnings) is skipped."""
    decoder = json.JSONDecoder()
    at = text.find("{")
    while at >= 0:
        try:
            data, end = decoder.raw_decode(text, at)
            output = Fields(data, "", ImportFileError)
            output.items("jobs", needed=True)
        except (ValueError, RecursionError) as error:
            said = str(error)[:80]
            raise ImportFileError(
                f"{path} line {text.count(chr(10), 0, at) + 1}: not JSON output of fio ({said}); "
                "run fio with --output-format=json"
            ) from None
        yield output
        at = text.find("{", end)


def _take_job(
    samples: dict[Unit, list[float]],
    failed: dict[Unit, Problem],
    output: Fields,
    job: Fields,
    device: str,
) -> None:
    name = job.text("jobname")
    options = output.mapping("global options") | job.mapping("job options")
    error = job.integer("error", 0)
    disk = device or str(options.get("filename", "")).rstrip("/").split("/")[-1] or "disk"
    recorded = False
    for way in _WAYS:
        for metric, value in _metrics(job.child(way), way) if job.has(way) else ():
            unit = (f"fio/{name}", metric, disk)
            samples.setdefault(unit, []).append(value)
            recorded = True
            if error:
                failed[unit] = Problem(kind="failed", text=f"fio error {error}")
    if not recorded:
        raise ImportFileError(f"job {name!r}: nothing was read or written (fio error {error})")


def _metrics(part: Fields, way: str) -> Iterator[tuple[Metric, float]]:
    if part.integer("total_ios", 0) == 0:
        return
    bandwidth: Any = part.number("bw_bytes", 0.0, least=0.0) or part.number("bw", least=0.0) * 1024
    yield Metric(name=f"{way}_bandwidth", unit="MB/s", better="higher"), bandwidth / 1e6
    yield Metric(name=f"{way}_iops", unit="op/s", better="higher"), part.number("iops", least=0.0)
    for field in ("lat_ns", "clat_ns"):
        percentiles = part.child(field).mapping("percentile") if part.has(field) else {}
        if percentiles:
            found = Fields(percentiles, part.at(f"{field}.percentile"), ImportFileError)
            for key, label in _PERCENTILES:
                metric = Metric(name=f"{way}_latency_{label}", unit="us", better="lower")
                yield metric, found.number(key, least=0.0) / 1000
            return
