"""Certificates: measured proof that two benchmarks may run together without harm to either; and their files.

`anubis certify` measures pairs of benchmarks alternately alone and together. A pair is certified if for
every metric of either the one-sided similarity, together against alone, is at least alpha. This must hold
over several runs and with any one of them left out, because some of many pairs look harmless once by chance.
A certificate is valid for one hardware class, because on another one disk and card may share a resource.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_anubis.codec import CodecError, from_plain, read_json, shown, to_plain
from pytest_anubis.core.events import TestRan
from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.run import RunRecord
from pytest_anubis.distributed.dispatch.tasks import Certificates
from pytest_anubis.store.atomic import write_atomically

FORMAT = "anubis-certificates"
SCHEMA = 2
ALPHA = 0.95
MIN_VALUES = 3
"""Least number of values of a metric, both alone and together."""

MIN_MEETINGS = 3
"""Least number of runs in which two benchmarks must have overlapped."""

MIN_OVERLAP = 0.5
"""Least part of the shorter test's time that must overlap with the other test."""

_MAX_BYTES = 16 << 20


class CertificateError(ValueError):
    """A certificate file cannot be used; the message is one line for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """The result for one pair of benchmarks, whose ids are sorted."""

    first: str
    second: str
    # Worst one-sided similarity of any metric of either, together against alone
    similarity: float = 0.0
    metric: str = ""  # the metric with that similarity
    granted: bool = False  # they may overlap
    reason: str = ""  # why they may not, one phrase; empty when granted
    met: int = 0  # number of runs in which they overlapped
    open: bool = False  # only more runs or values are needed for a result


def certify(
    alone: Sequence[RunRecord], together: Sequence[RunRecord], *, alpha: float = ALPHA
) -> tuple[Certificate, ...]:
    """Compare runs in which benchmarks overlapped with runs in which none did.

    Each pair is judged by the runs in which it overlapped for half of the shorter test. Pairs that overlap
    without a certificate anyway (tests of different accelerators) need none. Disturbed measurements count,
    because overlapping is such a disturbance.

    Args:
        alone: Runs without certificates, taken alternately with the others.
        together: Runs with overlapping.
        alpha: The similarity that every metric must reach.
    """
    serial = _values(alone)
    meetings: dict[tuple[str, str], list[RunRecord]] = defaultdict(list)
    anyway = {pair for record in alone for pair in overlaps(record)}
    for record in together:
        for pair in overlaps(record, MIN_OVERLAP) - anyway:
            meetings[pair].append(record)
    return tuple(_certificate(pair, serial, meetings[pair], alpha) for pair in sorted(meetings))


def overlaps(record: RunRecord, share: float = 0.0) -> set[tuple[str, str]]:
    """Return the pairs of benchmarks, sorted, that overlapped for `share` of the shorter test at least."""
    spans: list[tuple[float, float, str]] = []
    benchmark = {plan.test: plan.benchmark for plan in record.planned if plan.benchmark}
    for event in record.events:
        if isinstance(event, TestRan) and event.test in benchmark:
            spans.append((event.start, event.end, benchmark[event.test]))
    return {
        (min(a, b), max(a, b))
        for number, (start, end, a) in enumerate(spans)
        for other_start, other_end, b in spans[:number]
        if a != b and _overlap((start, end), (other_start, other_end), share)
    }


def _overlap(one: tuple[float, float], other: tuple[float, float], share: float) -> bool:
    common = min(one[1], other[1]) - max(one[0], other[0])
    return common > 0 and common >= share * min(one[1] - one[0], other[1] - other[0])


def granted(certificates: Iterable[Certificate]) -> Certificates:
    """Return the pairs that may overlap."""
    return frozenset(frozenset({c.first, c.second}) for c in certificates if c.granted)


def merged(
    known: Iterable[Certificate], measured: Iterable[Certificate]
) -> tuple[Certificate, ...]:
    """Return all certificates, sorted; a new one replaces the old one of its pair unless it is open."""
    by_pair = {(c.first, c.second): c for c in known}
    for one in measured:
        if not one.open or (one.first, one.second) not in by_pair:
            by_pair[one.first, one.second] = one
    return tuple(by_pair[pair] for pair in sorted(by_pair))


def certificate_path(baselines: Path, hardware_class: str) -> Path:
    """Return the file of a hardware class's certificates, in a folder next to the baselines."""
    folder = baselines.parent if baselines.suffix == ".json" else baselines
    return folder / "certificates" / f"{hardware_class}.json"


def save_certificates(
    baselines: Path,
    hardware_class: str,
    certificates: Sequence[Certificate],
    *,
    origin: Mapping[str, Any] | None = None,
) -> Path:
    """Write the certificates of a hardware class, and return their file.

    Raises:
        OSError: The disk refuses; an older file is unchanged.
    """
    path = certificate_path(baselines, hardware_class)
    data = {
        "format": FORMAT,
        "schema": SCHEMA,
        "hardware_class": hardware_class,
        "origin": to_plain(dict(origin or {})),
        "pairs": to_plain(list(certificates)),
    }
    write_atomically(path, json.dumps(data, indent=1) + "\n")
    return path


def load_certificates(baselines: Path, hardware_class: str) -> tuple[Certificate, ...]:
    """Read the certificates of a hardware class; none when there is no file.

    Raises:
        CertificateError: The file is invalid or damaged, or belongs to another class.
    """
    path = certificate_path(baselines, hardware_class)
    try:
        data = read_json(path, largest=_MAX_BYTES)
    except FileNotFoundError:
        return ()
    except (OSError, CodecError) as error:
        raise CertificateError(f"{path}: cannot be read ({error}); fix or delete it") from error
    if not isinstance(data, dict) or (data.get("format"), data.get("schema")) != (FORMAT, SCHEMA):
        raise CertificateError(
            f"{path}: no certificates of schema {SCHEMA}; delete it and certify again"
        )
    if data.get("hardware_class") != hardware_class:
        raise CertificateError(f"{path}: belongs to class '{shown(data.get('hardware_class'))}'")
    try:
        return from_plain(tuple[Certificate, ...], data.get("pairs"), where="pairs")
    except CodecError as error:
        raise CertificateError(f"{path}: {error}; fix it, or certify again") from error


_Values = dict[str, dict[tuple[str, str], list[Measurement]]]


def _values(records: Iterable[RunRecord]) -> _Values:
    """Return benchmark -> (device, metric) -> measurements."""
    found: _Values = defaultdict(lambda: defaultdict(list))
    for record in records:
        for one in record.measurements:
            found[one.benchmark][one.device, one.metric.name].append(one)
    return found


def _certificate(
    pair: tuple[str, str], alone: _Values, meetings: Sequence[RunRecord], alpha: float
) -> Certificate:
    """Judge a pair by all its meetings, and by all but each one of them; the worst result counts."""
    kept = [meetings]
    if len(meetings) >= MIN_MEETINGS:
        kept += [[*meetings[:out], *meetings[out + 1 :]] for out in range(len(meetings))]
    found = [
        _judge(pair, alone, _values(some), alpha, least=MIN_VALUES if some is meetings else 1)
        for some in kept
    ]
    worst = replace(min(found, key=lambda one: (one.granted, one.similarity)), met=len(meetings))
    if not worst.granted or len(meetings) >= MIN_MEETINGS:
        return worst
    times = "once" if len(meetings) == 1 else f"{len(meetings)} times"
    reason = f"fine so far, but met only {times}, {MIN_MEETINGS} times are needed: more rounds"
    return replace(worst, granted=False, open=True, reason=reason)


def _judge(
    pair: tuple[str, str], alone: _Values, together: _Values, alpha: float, *, least: int
) -> Certificate:
    from pytest_anubis.validator import one_sided

    first, second = pair
    worst, where = 1.0, ""
    few: tuple[str, str] | None = None
    for benchmark in pair:
        measured: Mapping[tuple[str, str], list[Measurement]] = together.get(benchmark, {})
        if not measured:
            return Certificate(first=first, second=second, reason=f"{benchmark} recorded nothing")
        for key, samples in measured.items():
            values = [value for one in samples for value in one.values]
            base = [v for one in alone.get(benchmark, {}).get(key, []) for v in one.values]
            if min(len(values), len(base)) < least:
                few = few or (key[1], f"too few values of {key[1]} on {key[0]}")
                continue
            similarity = one_sided(values, base, samples[0].metric.better)
            if similarity <= worst:
                worst, where = similarity, key[1]
    fine = worst >= alpha
    if fine and few:
        metric, reason = few
        return Certificate(first=first, second=second, metric=metric, reason=reason, open=True)
    reason = "" if fine else f"{where} is {worst:.3f} alike, {alpha:g} is needed"
    return Certificate(
        first=first,
        second=second,
        similarity=round(worst, 6),
        metric=where,
        granted=fine,
        reason=reason,
    )
