"""Turn readings, driver messages and events into facts that the hardware reported, by pure functions.

`validator.deciding.hardware_policy` decides what follows from each sort of fact.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_anubis.core.node_map import ModuleErrors
from pytest_anubis.core.run import EVIDENCE
from pytest_anubis.hardware.amd_errors import XGMI
from pytest_anubis.hardware.telemetry.host_sensors import (
    FAILED_REMAPPING,
    LIFETIME_ERRORS,
    PENDING_REMAPPING,
    RECOVERY_ACTION,
    Reading,
)
from pytest_anubis.hardware.telemetry.kernel_log import KernelEvent, xid_sort
from pytest_anubis.hardware.telemetry.xid_catalogue import xid

UNCORRECTED = "uncorrected ECC errors"
DEFERRED = "deferred ECC errors"
# Errors of an AMD card's block; those of its memory have their own rules.
_BLOCK_ERRORS = re.compile(r"(uncorrected|deferred) (\w+) errors")

CRC_RATE = 100.0
"""CRC errors of an NVLink per second that become a fact: the limit of NVIDIA's DCGM
(DCGM_LIMIT_MAX_NVLINK_CRC_ERROR). Fewer retries are normal operation of a link."""

RECOVERY_RATE = 1 / 3600
"""Recoveries or replays of an NVLink per second, from the second one on, that become a fault. DCGM's health
check warns of the first one; more than one an hour is not chance."""

# NVML's types of events (nvml.h) that may come without an XID.
EVENT_DOUBLE_BIT = 0x2
EVENT_XID = 0x8
EVENT_RETIREMENT_FAILED = 0x800
EVENT_POISON = 0x2000  # fatal; non-fatal poison is contained and reported as XID 94
EVENT_UNAVAILABLE = 0x4000
EVENTS = EVENT_DOUBLE_BIT | EVENT_XID | EVENT_RETIREMENT_FAILED | EVENT_POISON | EVENT_UNAVAILABLE

_LOST = re.compile(r"(GPU \d+): .*\(NVML error (15|16)\)")
_LIBRARIES = (
    "nvml",
    "NvidiaSource",
    "AmdSource",
)  # sources of notes that nothing at all could be read
_DECIDING = re.compile(r"(GPU \d+): (?:ECC errors|remapped rows|fields): (.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One fact that the hardware reported."""

    sort: str  # the rule that applies to it; see `core.events.HardwareFound`
    name: str
    text: str
    part: str = ""  # ``GPU 3``; empty if only a place is known, or for the node
    place: str = ""  # PCI address, or label of a memory module, if known
    source: str = "counters"
    module: ModuleErrors | None = None  # where the errors of that module are


def counter_facts(begin: Reading, end: Reading) -> list[Fact]:
    """Return the facts from error counters that changed between two readings."""
    facts = []
    for part, after in end.counters.items():
        before = begin.counters.get(part, {})
        # The lifetime counter survives unloading the driver; cards without InfoROM only have the other one.
        grown = max(_grown(before, after, LIFETIME_ERRORS), _grown(before, after, UNCORRECTED))
        for name in after:
            block = _BLOCK_ERRORS.fullmatch(name)
            if not block or name == UNCORRECTED or not (more := _grown(before, after, name)):
                continue
            kind = block[1]
            errors = "errors" if more > 1 else "error"
            if name == DEFERRED:
                sort, text = "deferred-memory-error", f"{more} deferred memory {errors}"
            else:
                sort, text = f"{kind}-error", f"{more} {kind} {errors} in the block {block[2]}"
            facts.append(Fact(sort=sort, name=name, text=text, part=part))
        if grown:
            text = f"{grown} uncorrected memory error{'s' if grown > 1 else ''}"
            facts.append(
                Fact(sort="uncorrected-memory-error", name=UNCORRECTED, text=text, part=part)
            )
        for counter, sort, text in (
            (FAILED_REMAPPING, "remap-failed", "a row could not be remapped"),
            (PENDING_REMAPPING, "remap-pending", "a row remapping waits for a reset"),
            (RECOVERY_ACTION, "reset-needed", "the driver asks for a recovery action"),
        ):
            if counter in before and not before[counter] and after.get(counter):
                facts.append(Fact(sort=sort, name=counter, text=text, part=part))
    return facts


def link_facts(first: Reading, end: Reading, seconds: float) -> list[Fact]:
    """Return the facts from the links' error counters, by their rates since the beginning of the run."""
    facts = []
    for part, after in end.counters.items():
        before = first.counters.get(part, {})
        for name in after:
            match = re.fullmatch(rf"(NVLink \d+|{XGMI}) (.*)", name)
            grown = _grown(before, after, name) if match else 0
            if match is None or not grown:
                continue
            rate = grown / max(seconds, 1.0)
            what = match[2]
            if what.startswith("CRC"):
                sort = "link-errors" if rate >= CRC_RATE else ""
            elif what in ("failed recoveries", "uncorrected errors"):
                sort = "link-errors"
            else:
                sort = "link-errors" if grown > 1 and rate > RECOVERY_RATE else "link-error"
            if sort:
                text = f"{name} +{grown} within {seconds:.0f} s"
                facts.append(Fact(sort=sort, name=name, text=text, part=part))
    return facts


def _grown(before: Mapping[str, int], after: Mapping[str, int], name: str) -> int:
    """Return the increase of a counter; one that decreased was reset and is counted from zero."""
    if name not in before or name not in after:
        return 0
    change = after[name] - before[name]
    return change if change >= 0 else after[name]


def lost_facts(notes: Iterable[str]) -> list[Fact]:
    """Return a fact for each card that NVML reports as lost, from the notes of a reading."""
    parts = {match[1]: match[2] for note in notes if (match := _LOST.match(note))}
    return [
        Fact(
            sort="card-lost",
            name="lost card",
            text="the card is lost" if code == "15" else "the card works no more until it is reset",
            part=part,
        )
        for part, code in parts.items()
    ]


def silent_facts(notes: Iterable[str]) -> list[Fact]:
    """Return a fact for each card, or vendor's library, whose error counters could not be read at the end."""
    found: dict[str, str] = {}
    for note in notes:
        source, _, why = note.partition(": ")
        if source in _LIBRARIES:
            found.setdefault("", why)
        match = _DECIDING.match(note)
        if match is not None and _LOST.match(note) is None:
            found.setdefault(match[1], match[2])
    return [
        Fact(
            sort="card-silent",
            name="error counters",
            text=f"error counters cannot be read: {why}",
            part=part,
        )
        for part, why in found.items()
    ]


def log_facts(events: Sequence[KernelEvent]) -> Iterator[Fact]:
    """Yield the facts from the kernel log; evidence that decides nothing is included, as it is listed."""
    for event in events:
        if event.sort == "program":
            continue
        times = f", {event.count} times" if event.count > 1 else ""
        yield Fact(
            sort=event.sort,
            name=event.what.partition(":")[0],
            text=event.what + times,
            place=event.place,
            source="kernel log",
        )


def module_facts(modules: Iterable[ModuleErrors]) -> list[Fact]:
    """Return a fact for each memory module of which it is known where its corrected errors are."""
    return [
        Fact(
            sort=EVIDENCE,
            name="errors of a memory module",
            text=f"{one.errors} corrected errors of a memory module",
            place=one.module,
            source="kernel log",
            module=one,
        )
        for one in modules
    ]


def event_fact(part: str, kind: int, data: int) -> Fact | None:
    """Return the fact that an event of NVML reports, None if it decides nothing.

    Args:
        part: The card.
        kind: NVML's type of event.
        data: The event's data: the number of an XID.
    """
    if kind == EVENT_XID:
        sort = xid_sort(data)
        name, text = f"XID {data}", f"XID {data}: {xid(data).meaning}"
    elif kind in (EVENT_DOUBLE_BIT, EVENT_POISON):
        sort, name = "uncorrected-memory-error", UNCORRECTED
        text = "an uncorrected memory error"
    elif kind == EVENT_RETIREMENT_FAILED:
        sort, name, text = "remap-failed", FAILED_REMAPPING, "memory could not be retired"
    elif kind == EVENT_UNAVAILABLE:
        sort, name, text = "card-lost", "lost card", "the card is not available any more"
    else:
        return None
    if sort in ("evidence", "program"):
        return None
    return Fact(sort=sort, name=name, text=text, part=part, source="NVML event")
