"""Hardware events in the kernel log: XIDs and SXids, the rows of the catalogue, and errors of any driver."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_anubis.core.run import EVIDENCE
from pytest_anubis.hardware.telemetry.kernel_catalogue import PATTERNS
from pytest_anubis.hardware.telemetry.xid_catalogue import xid

# One record of /dev/kmsg is at most this long.
_RECORD = 8192

# "Xid (PCI:0000:5d:00): 79", "Xid (PCI:0000:5d:00 GPU-I:05): 94", "Xid (0000:5d:00): 31" (older)
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)[^)]{0,40}\): (\d{1,6})(.{0,200})")
# "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"; details follow in
# lines of their own, which say "Severity" or "Data" instead.
_SXID = re.compile(
    r"nvidia-(nvswitch\d{1,3}): SXid \(PCI:([0-9a-fA-F:.]+)\): (\d{1,6}), (Fatal|Non-fatal)"
)
# "priority,number,time,flags;message": of the kernel itself are priorities below 8, errors those up to 3.
KERNEL_PRIORITIES = 8
_PREFIX = re.compile(r"(\d{1,4}),\d+,-?\d+,[^;]{0,80};")
_ERROR = 3
# "{1}[Hardware Error]: event severity: recoverable": lines with one number in braces are one record.
_RECORD_OF_FIRMWARE = re.compile(r"(\{\d+\})\[Hardware Error\]:")
_BEGINS = "Hardware error from APEI"
_REST = 0.05
"""Seconds in which the rest of a record of the firmware is written, on a slow console too."""
_KINDS = 20
"""Kinds of error-level lines without a row of the catalogue that are listed at once."""
_SHOWN = 120
"""Characters that are shown of such a line."""

_OF_GRADE: dict[str, str] = {
    "fault": "xid-fault",
    "reset": "xid-reset",
    "unclear": "xid-unclear",
    "program": "program",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelEvent:
    """One kind of event in the kernel log.

    Attributes:
        what: ``XID 79: the card has fallen off the bus``, ``machine check of the CPU``, ...
        place: PCI address of the card, empty when unknown.
        sort: Which rule of the policy it falls under; ``evidence`` decides nothing by itself, and
            ``program`` does not even speak against hardware.
        count: How often it was seen; repeats are one event with a count.
        line: The log's own words, first occurrence.
    """

    what: str
    place: str = ""
    sort: str = EVIDENCE
    count: int = 1
    line: str = ""

    @property
    def hardware(self) -> bool:
        """Evidence against the hardware, rather than against a program."""
        return self.sort != "program"

    @property
    def text(self) -> str:
        """The event as an evidence phrase."""
        place = f" on {self.place}" if self.place else ""
        return f"kernel log: {self.what}{place}" + (
            f", {self.count} times" if self.count > 1 else ""
        )


class KernelLog:
    """Reads what the kernel logs from now on.

    Attributes:
        unreadable: Why nothing can be read; empty when all is well.
        lost: Messages were overwritten before the last call of `new_lines` could read them.
    """

    def __init__(self, path: Path = Path("/dev/kmsg")) -> None:
        self.unreadable = ""
        self.lost = False
        self._descriptor: int | None = None
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            os.lseek(self._descriptor, 0, os.SEEK_END)
        except OSError as error:
            self.unreadable = f"kernel log: {error.strerror or error}"

    def new_lines(self) -> list[str]:
        """Return the messages since the last call, each with the prefix that has its priority.

        A record of the firmware is waited for until it is whole: its severity and its cause are lines apart.
        """
        self.lost = False
        lines = self._read()
        while lines and _RECORD_OF_FIRMWARE.search(lines[-1]):
            time.sleep(_REST)
            more = self._read()
            lines += more
            if not more:
                break
        return lines

    def _read(self) -> list[str]:
        lines: list[str] = []
        while self._descriptor is not None:
            try:
                record = os.read(self._descriptor, _RECORD)
            except BlockingIOError:
                break
            except (
                BrokenPipeError
            ):  # records were overwritten before they were read; go on behind them
                self.lost = True
                continue
            except OSError as error:
                self.lost, self.unreadable = True, f"kernel log: {error.strerror or error}"
                self.close()
                break
            if not record:
                break
            # Lines that begin with a blank continue a record, with key=value.
            text = record.decode(errors="replace")
            lines += [line for line in text.splitlines() if not line.startswith(" ")]
        return lines

    def close(self) -> None:
        """Close the device."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def kernel_events(lines: Sequence[str]) -> tuple[KernelEvent, ...]:
    """Pick the events that matter out of kernel log lines; repeats become one event with a count.

    Args:
        lines: With or without the prefix; only with it a line without a row in the catalogue is known as an
            error, and listed as evidence.
    """
    counts: Counter[tuple[str, str, str]] = Counter()
    first: dict[tuple[str, str, str], tuple[str, str]] = {}
    for level, line in _messages(lines):
        found = _event(line)
        if found is not None:
            key, what = found, found[0]
        elif level is not None and level <= _ERROR and line.strip():
            what = f"error: {line.strip()[:_SHOWN]}"
            key = (re.sub(r"\d[\da-fA-FxX]*", "#", what), "", EVIDENCE)
            if key not in first and sum(one[2] == EVIDENCE for one in first) >= _KINDS:
                continue
        else:
            continue
        counts[key] += 1
        first.setdefault(key, (what, line[:200]))
    return tuple(
        KernelEvent(what=first[key][0], place=key[1], sort=key[2], count=count, line=first[key][1])
        for key, count in counts.items()
    )


def _messages(lines: Sequence[str]) -> Iterator[tuple[int | None, str]]:
    """Yield priority and text of every message, a record of the firmware as one; None: it is not known."""
    records: list[list[str]] = []
    last: dict[str, list[str]] = {}
    for line in lines:
        prefix = _PREFIX.match(line)
        level = int(prefix[1]) if prefix else None
        if level is not None and level >= KERNEL_PRIORITIES:
            continue  # a program wrote it
        text = line[prefix.end() :] if prefix else line
        if (part := _RECORD_OF_FIRMWARE.search(text)) is not None:
            if part[1] not in last or _BEGINS in text:
                last[part[1]] = []
                records.append(last[part[1]])
            last[part[1]].append(text)
        else:
            yield level, text
    for parts in records:
        yield None, " ".join(parts)


def _event(line: str) -> tuple[str, str, str] | None:
    """Return what a line says, of which place, and under which rule it falls; None where no row fits."""
    if (match := _XID.search(line)) is not None:
        number = int(match[2])
        return f"XID {number}: {xid(number).meaning}", match[1].lower(), xid_sort(number, match[3])
    if (match := _SXID.search(line)) is not None:
        fatal = match[4] == "Fatal"
        what = f"{'fatal' if fatal else 'non-fatal'} SXid {match[3]} of {match[1]}"
        return what, match[2].lower(), "switch-fault" if fatal else "switch-event"
    for pattern, row in PATTERNS:
        if (match := pattern.search(line)) is not None:
            named = {name: text for name, text in match.groupdict().items() if text}
            place = named.pop("at", "") or named.pop("probed", "")
            return row.what.format(dev=next(iter(named.values()), "")), place.lower(), row.sort
    return None


def xid_sort(number: int, message: str = "") -> str:
    """Return under which rule an XID falls.

    Args:
        number: The XID.
        message: What the kernel log says behind the number; NVML's events have none.
    """
    grade = xid(number).grade
    if grade != "link":
        return _OF_GRADE[grade]
    # The newer NVLink's numbers say in words whether the link goes on: "Nonfatal", "Fatal".
    if re.search(r"non-?fatal", message, re.IGNORECASE):
        return "evidence"
    return "xid-fault" if "fatal" in message.lower() else "xid-unclear"
