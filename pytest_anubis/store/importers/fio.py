"""Import the output of ``fio --output-format=json``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Unpack

from pytest_anubis.codec import CodecError, from_plain
from pytest_anubis.core.field_types import Alias, Count, NotNegative
from pytest_anubis.core.metric import Metric
from pytest_anubis.store.importers.import_result import (
    Imported,
    ImportFileError,
    OfNode,
    Samples,
    Unit,
    import_samples,
    read_output,
)
from pytest_anubis.tool_outputs.plain_lines import json_objects
from pytest_anubis.tool_outputs.unreadable import UnreadableOutput

_PERCENTILES = {50.0: "p50", 99.0: "p99"}
_LATENCIES = {"lat_ns": 1000, "clat_ns": 1000, "lat": 1, "clat": 1}
"""Fields of latencies, the best first -> units in a microsecond; fio 2 counts in us."""
_GROUP_OPTIONS = {"rw": ("rw", "readwrite"), "bs": ("bs", "blocksize"), "iodepth": ("iodepth",),
         "numjobs": ("numjobs",), "ioengine": ("ioengine",), "direct": ("direct",),
         "lat_percentiles": ("lat_percentiles",),
         **{name: (name,) for name in ("rwmixread", "rwmixwrite", "bssplit", "bsrange", "rate", "rate_iops",
         "fsync", "fdatasync", "sync", "random_distribution", "buffer_compress_percentage")}}  # fmt: skip
"""Options that make jobs comparable, with their names."""
_UNKNOWN_ETA = 2**31 - 1
"""Seconds to go that fio prints where it cannot tell, also of jobs that have ended."""


def import_fio(path: Path, **of_node: Unpack[OfNode]) -> Imported:
    """Read one or several JSON outputs of fio in one file.

    Every job gives, for reading and writing, ``bandwidth`` in MB/s, ``iops`` in op/s and the 50th and 99th
    percentile of the total latency in us. Its group consists of options (``rw``, ``bs``, ``iodepth``, ...).
    Its device is the last part of the job's file name, the whole path if others end alike, or ``disk``. A job
    that ended with an error has the problem ``failed``, also if it moved nothing. Snapshots of running jobs
    (``--status-interval``) are left out.

    Raises:
        ImportFileError: The file cannot be read, holds no output of fio, or no job of it came to its end.
    """
    samples = Samples()
    outputs = read_output(
        path,
        lambda text: _whole(list(_outputs(text)), samples),
        "run fio with --output-format=json",
    )
    jobs = [job for place, output in outputs for job in _jobs(samples, place, output)]
    disks = _disks({used for *_, used in jobs})
    for place, job, group, used in jobs:
        _take_job(samples, place, job, group, disks[used])
    return import_samples(path, samples, "storage.disk", **of_node)


@dataclass(frozen=True, slots=True)
class _Latency:
    percentile: Mapping[str, NotNegative] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _DataDirection:
    """The numbers of one data direction of a job: its reading, writing or trimming."""

    total_ios: Count = 0
    io_bytes: NotNegative = 0.0
    bw_bytes: NotNegative = 0.0
    bw: NotNegative | None = None
    iops: NotNegative | None = None
    lat_ns: _Latency | None = None
    clat_ns: _Latency | None = None
    lat: _Latency | None = None
    clat: _Latency | None = None


@dataclass(frozen=True, slots=True)
class _Job:
    jobname: str
    error: int = 0  # negative ones are an engine's own
    total_err: Count = 0  # errors that did not end it (--continue_on_error)
    options: Annotated[Mapping[str, Any], Alias("job options")] = field(default_factory=dict)
    read: _DataDirection | None = None
    write: _DataDirection | None = None
    trim: _DataDirection | None = None
    mixed: _DataDirection | None = None  # reads and writes together (unified_rw_reporting)


@dataclass(frozen=True, slots=True)
class _State:
    """A job's progress: seconds to go, 0 at its end."""

    jobname: str = ""
    eta: NotNegative = 0.0
    job_start: NotNegative = 0.0


@dataclass(frozen=True, slots=True)
class _Output:
    jobs: tuple[Any, ...]  # a wrong one among them leaves the others as they are
    options: Annotated[Mapping[str, Any], Alias("global options")] = field(default_factory=dict)


def _outputs(text: str) -> Iterator[tuple[int, _Output]]:
    """Yield every output with its first line; warnings before and between are skipped."""
    found = False
    for place, data in json_objects(text, "fio", frozenset(("jobs", "client_stats"))):
        if "client_stats" in data:
            raise UnreadableOutput(
                "fio",
                f"line {place}: of --client, for several nodes at once: run it on each node by itself",
            )
        try:
            output = from_plain(_Output, data, unknown="ignore")
        except CodecError as error:
            raise UnreadableOutput("fio", f"line {place}: {str(error)[:80]}") from None
        found = found or bool(output.jobs)
        yield place, output
    if not found:
        raise UnreadableOutput("fio", "no JSON object with jobs")


def _whole(outputs: list[tuple[int, _Output]], samples: Samples) -> list[tuple[int, _Output]]:
    """Return the outputs of jobs that ended, without snapshots whose numbers a later output includes.

    Raises:
        UnreadableOutput: No job ended.
    """
    kept: list[tuple[int, _Output]] = []
    later: set[tuple[str, float]] = set()
    for place, output in reversed(outputs):
        states = _states(output)
        starts = {(state.jobname, state.job_start) for state in states if state.job_start}
        running = any(0 < state.eta < _UNKNOWN_ETA for state in states)
        if not running and not starts & later:
            kept.append((place, output))
        elif running and not starts & later and (starts or not kept):
            samples.wrong.add(
                place,
                "the job still ran when this was printed (eta above 0), and its end is missing",
            )
        later |= starts
    if not kept:
        raise UnreadableOutput("fio", str(samples.wrong.lines[0]))
    if left := len(outputs) - len(kept) - samples.wrong.count:
        samples.notes.append(
            f"{left} of {len(outputs)} outputs left out: snapshots of jobs that still ran (--status-interval)"
        )
    return kept[::-1]


def _states(output: _Output) -> list[_State]:
    try:
        return [from_plain(_State, job, unknown="ignore") for job in output.jobs]
    except CodecError:
        return []  # reported when the job is read


def _jobs(samples: Samples, place: int, output: _Output) -> Iterator[tuple[int, _Job, str, str]]:
    """Yield place, job, group and used path of the jobs of one output; malformed ones are wrong lines."""
    found: list[_Job] = []
    for data in output.jobs:
        try:
            found.append(from_plain(_Job, data, where="job", unknown="ignore"))
        except CodecError as error:
            samples.wrong.add(place, str(error))
    alike = Counter(job.jobname for job in found)
    seen = Counter[str]()
    for job in found:
        options = {**_with_direct(output.options), **_with_direct(job.options)}
        path = _path(options, seen[job.jobname], alike[job.jobname])
        seen[job.jobname] += 1
        yield place, job, _group(options), path


def _with_direct(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with ``direct``, of which ``buffered`` is the opposite."""
    if "buffered" not in options:
        return dict(options)
    return {**options, "direct": str(int(str(options["buffered"]) == "0"))}


def _path(options: Mapping[str, Any], number: int, alike: int) -> str:
    """Return the path that a job used: a device, a file, or a folder with a slash at its end.

    Args:
        options: Options of the job.
        number: Its number among the jobs of its name, to which fio assigns several folders in turn.
        alike: Number of jobs of its name.
    """
    name, folder = (str(options.get(key, "")).rstrip("/") for key in ("filename", "directory"))
    folders = [part for part in folder.split(":") if part]
    if not name and len(folders) > 1 and not alike % len(folders):
        folder = folders[number % len(folders)].rstrip("/")
    return f"{folder}/{name}" if folder else name


def _disks(paths: Collection[str]) -> dict[str, str]:
    """Return path -> name of the device: its last part, or the whole path if several end alike.

    All files of a job are named, since fio does not say which of them failed.
    """
    short = {}
    for path in paths:
        parts = [part.rsplit("/", 1)[-1] for part in re.split(r"(?<!\\):", path)]
        short[path] = "disk" if path.endswith("/") else "+".join(parts) or "disk"
    count = Counter(short.values())
    return {
        path: name if count[name] == 1 else path.rstrip("/") or name for path, name in short.items()
    }


def _take_job(samples: Samples, place: int, job: _Job, group: str, disk: str) -> None:
    benchmark = f"fio/{job.jobname}"
    text = f"fio error {job.error}"
    if job.total_err:
        text = f"{job.total_err} errors that fio went on in spite of"
    failed = job.error or job.total_err
    recorded = False
    for name in ("read", "write", "trim", "mixed"):
        way: _DataDirection | None = getattr(job, name)
        if way is None or not (way.total_ios or way.io_bytes):
            continue
        recorded = True
        try:
            for metric, value in _metrics(way, name):
                unit = Unit(benchmark, metric, disk, group)
                samples.add(unit, value)
                if failed:
                    samples.problem(unit, "failed", text)
        except ImportFileError as error:
            samples.wrong.add(place, f"job {job.jobname!r}, {error}")
    if not recorded and failed:
        samples.fail(benchmark, disk, text)
    elif not recorded:
        samples.wrong.add(place, f"job {job.jobname!r}: nothing was read or written")


def _group(options: Mapping[str, Any]) -> str:
    """Return the options that make jobs of one name comparable; empty if fio prints none."""
    given = {
        key: next((str(options[name]).lower() for name in names if name in options), "")
        for key, names in _GROUP_OPTIONS.items()
    }
    return ", ".join(f"{key}={value[:40]}" for key, value in given.items() if value)


def _metrics(way: _DataDirection, name: str) -> Iterator[tuple[Metric, float]]:
    bandwidth = way.bw_bytes or (None if way.bw is None else way.bw * 1024)
    if bandwidth is None or way.iops is None:
        raise ImportFileError(f"{name}: {'bw' if bandwidth is None else 'iops'} is missing")
    yield Metric(name=f"{name}_bandwidth", unit="MB/s", better="higher"), bandwidth / 1e6
    yield Metric(name=f"{name}_iops", unit="op/s", better="higher"), way.iops
    latencies = {key: getattr(way, key) for key in _LATENCIES}
    source = next((key for key, one in latencies.items() if one and one.percentile), "")
    if not source:
        return
    percentiles = {_number(key): value for key, value in latencies[source].percentile.items()}
    for wanted, label in _PERCENTILES.items():
        if wanted in percentiles:
            metric = Metric(name=f"{name}_latency_{label}", unit="us", better="lower")
            yield metric, percentiles[wanted] / _LATENCIES[source]
    if lacks := [f"{wanted:g}" for wanted in _PERCENTILES if wanted not in percentiles]:
        raise ImportFileError(f"{name}: no percentile {', '.join(lacks)} (--percentile_list)")


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return -1.0
