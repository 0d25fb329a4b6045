"""Output of ``fio --output-format=json``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pytest_anubis.codec import CodecError, from_plain, leading_json
from pytest_anubis.core.field_types import Alias, Count, NotNegative
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import Problem
from pytest_anubis.store.importers.import_result import (
    UNCLASSIFIED,
    Imported,
    ImportFileError,
    Unit,
    WrongLines,
    import_samples,
    read_text,
)

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
        for job in output.jobs:
            jobs += 1
            try:
                _take_job(samples, failed, output, job, device)
            except (CodecError, ImportFileError) as error:
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
        component="storage.disk",
        lines=jobs,
        wrong=wrong,
    )


@dataclass(frozen=True, slots=True)
class _Latency:
    percentile: Mapping[str, NotNegative] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Way:
    """What a job read, wrote or trimmed."""

    total_ios: Count = 0
    bw_bytes: NotNegative = 0.0
    bw: NotNegative | None = None
    iops: NotNegative | None = None
    lat_ns: _Latency | None = None
    clat_ns: _Latency | None = None


@dataclass(frozen=True, slots=True)
class _Job:
    jobname: str
    error: Count = 0
    options: Annotated[Mapping[str, Any], Alias("job options")] = field(default_factory=dict)
    read: _Way | None = None
    write: _Way | None = None
    trim: _Way | None = None


@dataclass(frozen=True, slots=True)
class _Output:
    jobs: tuple[Any, ...]  # a wrong one among them leaves the others as they are
    options: Annotated[Mapping[str, Any], Alias("global options")] = field(default_factory=dict)


def _outputs(text: str, path: Path) -> Iterator[_Output]:
    """Yield every JSON object; what stands before the first and between them (warnings) is skipped."""
    at = text.find("{")
    while at >= 0:
        try:
            data, end = leading_json(text, at)
            output = from_plain(_Output, data, unknown="ignore")
        except CodecError as error:
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
    output: _Output,
    data: Any,
    device: str,
) -> None:
    job = from_plain(_Job, data, where="job", unknown="ignore")
    options = {**output.options, **job.options}
    disk = device or str(options.get("filename", "")).rstrip("/").split("/")[-1] or "disk"
    recorded = False
    for name, way in (("read", job.read), ("write", job.write), ("trim", job.trim)):
        for metric, value in _metrics(way, name) if way is not None and way.total_ios else ():
            unit = (f"fio/{job.jobname}", metric, disk)
            samples.setdefault(unit, []).append(value)
            recorded = True
            if job.error:
                failed[unit] = Problem(kind="failed", text=f"fio error {job.error}")
    if not recorded:
        raise ImportFileError(
            f"job {job.jobname!r}: nothing was read or written (fio error {job.error})"
        )


def _metrics(way: _Way, name: str) -> Iterator[tuple[Metric, float]]:
    bandwidth = way.bw_bytes or (None if way.bw is None else way.bw * 1024)
    if bandwidth is None or way.iops is None:
        raise ImportFileError(f"{name}: {'bw' if bandwidth is None else 'iops'} is missing")
    yield Metric(name=f"{name}_bandwidth", unit="MB/s", better="higher"), bandwidth / 1e6
    yield Metric(name=f"{name}_iops", unit="op/s", better="higher"), way.iops
    percentiles = next(
        (la.percentile for la in (way.lat_ns, way.clat_ns) if la and la.percentile), {}
    )
    for key, label in _PERCENTILES if percentiles else ():
        if key not in percentiles:
            raise ImportFileError(f"{name}: percentile {key} is missing")
        metric = Metric(name=f"{name}_latency_{label}", unit="us", better="lower")
        yield metric, percentiles[key] / 1000
