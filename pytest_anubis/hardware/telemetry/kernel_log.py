"""Read the messages that the kernel logs from now on, and find hardware events in them.

Events are XIDs, SXids, lines with a row in `kernel_catalogue`, and errors of any driver.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_anubis.core.run import EVIDENCE
from pytest_anubis.hardware.telemetry.kernel_catalogue import PATTERNS
from pytest_anubis.hardware.telemetry.xid_catalogue import xid

# One record of /dev/kmsg is at most this long.
_RECORD = 8192

# "Xid (PCI:0000:5d:00): 79", "Xid (PCI:0000:5d:00 GPU-I:05): 94", "Xid (0000:5d:00): 31" (older)
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)[^)]{0,40}\): (\d{1,6})(.{0,200})")
# "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"; further lines have
# "Severity" or "Data" in its place.
_SXID = re.compile(
    r"nvidia-(nvswitch\d{1,3}): SXid \(PCI:([0-9a-fA-F:.]+)\): (\d{1,6}), (Fatal|Non-fatal)"
)
# "priority,number,time,flags;message": the kernel's own priorities are below 8, those of errors at most 3.
KERNEL_PRIORITIES = 8
_PREFIX = re.compile(r"(\d{1,4}),\d+,-?\d+,[^;]{0,80};")
_ERROR = 3
# "{1}[Hardware Error]: event severity: recoverable": lines with the same number in braces are one record.
_RECORD_OF_FIRMWARE = re.compile(r"(\{\d+\})\[Hardware Error\]:")
_BEGINS = "Hardware error from APEI"
_REST = 0.05
"""Seconds within which the rest of a firmware record is written, even with a slow console."""
_MAX_KINDS = 20
"""Maximum number of kinds of error lines that are in no row of the catalogue and are listed at once."""
_SHOWN = 120
"""Characters of such a line that are shown."""

_SORTS: dict[str, str] = {
    "fault": "xid-fault",
    "reset": "xid-reset",
    "unclear": "xid-unclear",
    "program": "program",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelEvent:
    """One kind of event in the kernel log."""

    what: str  # ``XID 79: the card has fallen off the bus``, ``machine check of the CPU``, ..
    place: str = ""  # PCI address of the card, empty if unknown
    # The rule that applies to it; ``evidence`` decides nothing by itself, ``program`` is no
    # evidence against hardware
    sort: str = EVIDENCE
    count: int = 1  # number of occurrences
    line: str = ""  # the first such line of the log

    @property
    def hardware(self) -> bool:
        """Whether this is evidence against the hardware, rather than against a program."""
        return self.sort != "program"

    @property
    def text(self) -> str:
        """The event as an evidence phrase."""
        place = f" on {self.place}" if self.place else ""
        return f"kernel log: {self.what}{place}" + (
            f", {self.count} times" if self.count > 1 else ""
        )


class KernelLog:
    """A reader of the messages that the kernel logs from now on.

    Attributes:
        unreadable: Why nothing can be read; empty if the log is readable.
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

        The method waits until a record of the firmware is complete, since its severity and its cause are on
        different lines.
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
            except BrokenPipeError:  # some records were overwritten: continue with the next one
                self.lost = True
                continue
            except OSError as error:
                self.lost = True
                self.unreadable = f"kernel log: {error.strerror or error}"
                self.close()
                break
            if not record:
                break
            # A line that begins with a blank continues a record, with key=value.
            text = record.decode(errors="replace")
            lines += [line for line in text.splitlines() if not line.startswith(" ")]
        return lines

    def close(self) -> None:
        """Close the device."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def kernel_events(lines: Sequence[str]) -> tuple[KernelEvent, ...]:
    """Return the hardware events in kernel log lines; repeats become one event with a count.

    Args:
        lines: Lines with or without the prefix. Error lines that are in no row of the catalogue can only be
            recognised by the prefix, and are listed as evidence.
    """
    counts: Counter[tuple[str, str, str]] = Counter()
    first: dict[tuple[str, str, str], tuple[str, str]] = {}
    for level, line in messages(lines):
        found = _event(line)
        if found is not None:
            key, what = found, found[0]
        elif level is not None and level <= _ERROR and line.strip():
            what = f"error: {line.strip()[:_SHOWN]}"
            key = (re.sub(r"\d[\da-fA-FxX]*", "#", what), "", EVIDENCE)
            if key not in first and sum(one[2] == EVIDENCE for one in first) >= _MAX_KINDS:
                continue
        else:
            continue
        counts[key] += 1
        first.setdefault(key, (what, line[:200]))
    return tuple(
        KernelEvent(what=first[key][0], place=key[1], sort=key[2], count=count, line=first[key][1])
        for key, count in counts.items()
    )


def messages(lines: Iterable[str]) -> Iterator[tuple[int | None, str]]:
    """Yield priority, if known, and text of every message; a record of the firmware is one message.

    Lines that programs wrote are left out.
    """
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
    """Return the meaning of a line, its place and its sort; None if no row matches."""
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
    """Return the sort of an XID, which names the rule that applies to it.

    Args:
        number: The XID.
        message: The kernel log's text after the number; NVML's events have none.
    """
    grade = xid(number).grade
    if grade != "link":
        return _SORTS[grade]
    # For newer NVLinks only the message shows whether the error is fatal: "Nonfatal", "Fatal".
    if re.search(r"non-?fatal", message, re.IGNORECASE):
        return "evidence"
    return "xid-fault" if "fatal" in message.lower() else "xid-unclear"
