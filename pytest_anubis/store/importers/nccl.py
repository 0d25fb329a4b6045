"""Output of nccl-tests and rccl-tests: one line per message size, out of place and in place."""

from __future__ import annotations

import re
from collections.abc import Sequence
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

COLLECTIVES = (
    "all_reduce", "all_gather", "alltoall", "broadcast", "reduce_scatter", "reduce", "sendrecv",
    "gather", "scatter", "hypercube",
)  # fmt: skip

# From here on the bandwidth is printed with enough digits; below it the time says more.
_BANDWIDTH_FROM = 1 << 20  # bytes

_WORD = re.compile(r"\w+")
_PROGRAM = "_perf"
_STARTING = "# Collective test starting:"


@dataclass(slots=True)
class _Log:
    """What one log said so far."""

    collective: str = ""
    samples: dict[Metric, list[float]] = field(default_factory=dict)
    wrong_results: dict[Metric, Problem] = field(default_factory=dict)
    failure: str = ""
    counts_wrong: bool = False
    rows: int = 0


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
    program says so at its end.

    Args:
        path: The log.
        node: The node that it comes from; the log does not say it.
        hardware_class: The node's class.
        run: The run's id; default: the file's name.
        collective: Name such as ``all_reduce``; default: as the log or the file's name tells.

    Raises:
        ImportFileError: The file cannot be read or holds no result line.
    """
    log = _Log(collective=collective)
    wrong = WrongLines()
    number = 0
    try:
        for number, line in enumerate(read_lines(path), start=1):
            complaint = _take(log, line)
            if complaint:
                wrong.add(number, complaint)
    except ImportFileError as error:
        raise ImportFileError(f"{path}: {error}") from None
    if not log.rows:
        raise ImportFileError(f"{path}: no line of results, so it is no output of nccl-tests")
    name = log.collective or _from_file(path)
    failed = log.wrong_results
    if log.failure:
        failed = dict.fromkeys(log.samples, Problem(kind="failed", text=log.failure))
    return import_samples(
        path,
        {(f"nccl-tests/{name}", m, "node"): values for m, values in log.samples.items()},
        {(f"nccl-tests/{name}", m, "node"): problem for m, problem in failed.items()},
        node=node,
        hardware_class=hardware_class,
        run=run,
        component="network.collective",
        lines=number,
        wrong=wrong,
        notes=(log.failure,) if log.failure else (),
    )


def _take(log: _Log, line: str) -> str:
    """Take one line; return what is wrong with it, or nothing."""
    if line.lstrip().startswith("#"):
        # The newer programs count wrong results; the older print the largest difference, which is
        # seldom 0 for floating point.
        log.counts_wrong = log.counts_wrong or "#wrong" in line
        log.collective = log.collective or _named(line)
        if "Out of bounds values" in line and "OK" not in line:
            log.failure = "the program reports wrong results (out of bounds values)"
        return ""
    if "Test NCCL failure" in line or "Test CUDA failure" in line:
        log.failure = f"the program failed: {line.strip()[:100]}"
        return ""
    words = line.split()
    if len(words) < 3 or not (words[0].isdecimal() and words[1].isdecimal()):
        return ""
    if len(words) < 11:
        return f"{len(words)} columns, at least 11 expected"
    size = int(words[0][:18])
    try:
        halves = [_half(words[-8:-4]), _half(words[-4:])]
    except ValueError as error:
        return str(error)
    log.rows += 1
    if size:  # nothing was sent otherwise
        for suffix, half in zip(("", "_in_place"), halves, strict=True):
            _note(log, size, suffix, half)
    return ""


def _named(line: str) -> str:
    """Return the collective that a line of the head names, empty if it names none."""
    if _STARTING in line:
        words = line.partition(_STARTING)[2].split()
        return words[0].removesuffix(_PROGRAM) if len(words) == 1 else ""
    programs = (word for word in _WORD.findall(line) if word.endswith(_PROGRAM))
    return next(programs, "").removesuffix(_PROGRAM)


def _half(words: Sequence[str]) -> tuple[float, float, bool]:
    """Return (time in us, bus bandwidth in GB/s, whether results were wrong)."""
    time, _, busbw, errors = words
    if any(float(number) < 0 for number in (time, busbw)):
        raise ValueError("a time or bandwidth is negative")
    bad = errors not in ("N/A", "n/a") and float(errors) != 0
    return float(time), float(busbw), bad


def _note(log: _Log, size: int, suffix: str, half: tuple[float, float, bool]) -> None:
    time, busbw, bad = half
    if size >= _BANDWIDTH_FROM:
        metric = Metric(name=f"busbw_{size}{suffix}", unit="GB/s", better="higher")
        value = busbw
    else:
        metric = Metric(name=f"time_{size}{suffix}", unit="us", better="lower")
        value = time
    log.samples.setdefault(metric, []).append(value)
    if bad and log.counts_wrong:
        log.wrong_results[metric] = Problem(kind="failed", text="wrong results")


def _from_file(path: Path) -> str:
    flat = re.sub(r"[^a-z]", "", path.name.lower())
    return next((name for name in COLLECTIVES if name.replace("_", "") in flat), "collective")
