"""Hardware events in the kernel log: NVIDIA's XID and SXid, AMD's RAS, machine checks, lost devices."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pytest_anubis.hardware.telemetry.xid_catalogue import xid

Sort = Literal[
    "xid-fault",
    "xid-reset",
    "xid-unclear",
    "switch-fault",
    "switch-event",
    "uncorrected-memory-error",
    "deferred-memory-error",
    "remap-failed",
    "card-lost",
    "card-reset",
    "host-memory-error",
    "pcie-fatal",
    "evidence",
    "program",
]
"""Sorts of `HardwareFound` that the kernel log knows, ``evidence`` for what decides nothing by itself, and
``program`` for what programs provoke."""

# One record of /dev/kmsg is at most this long.
_RECORD = 8192

_ADDRESS = r"([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)"
# "Xid (PCI:0000:5d:00): 79", "Xid (PCI:0000:5d:00 GPU-I:05): 94", "Xid (0000:5d:00): 31" (older)
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)[^)]{0,40}\): (\d{1,6})(.{0,200})")
# "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"; details follow in
# lines of their own, which say "Severity" or "Data" instead.
_SXID = re.compile(
    r"nvidia-(nvswitch\d{1,3}): SXid \(PCI:([0-9a-fA-F:.]+)\): (\d{1,6}), (Fatal|Non-fatal)"
)
_FALLEN = re.compile(rf"NVRM: .{{0,60}}?{_ADDRESS}: GPU has fallen off the bus")

# Words of the kernel that mean hardware, what to call them, and under which rule they fall (`Sort`). AMD's
# lines begin with the card's address: "amdgpu 0000:c3:00.0: amdgpu: ...".
_AMD = rf"amdgpu {_ADDRESS}: .{{0,80}}?"
_OTHERS: tuple[tuple[re.Pattern[str], str, Sort], ...] = (
    (
        # amdgpu_ras.c: "socket: 4, die: 0 1 new uncorrectable hardware errors detected in umc block"; the
        # driver repeats totals, which are none of this run's, as "... detected in total in umc block".
        re.compile(
            rf"{_AMD}\b[1-9]\d* (?:new )?uncorrectable hardware errors detected in (?!total)"
        ),
        "uncorrectable error of the card (RAS)",
        "uncorrected-memory-error",
    ),
    (
        re.compile(rf"{_AMD}\b[1-9]\d* new deferred hardware errors detected in (?!total)"),
        "deferred error of the card (RAS)",
        "deferred-memory-error",
    ),
    (
        re.compile(rf"{_AMD}\b[1-9]\d* (?:new )?correctable hardware errors detected in (?!total)"),
        "corrected error of the card (RAS)",
        "evidence",
    ),
    (
        re.compile(
            rf"{_AMD}(?:poison is consumed|RAS poison|uncorrectable hardware error ?\(ERREVENT)"
        ),
        "uncorrectable error of the card (RAS)",
        "uncorrected-memory-error",
    ),
    (
        re.compile(rf"{_AMD}RAS.{{0,80}}exceeds? (?:the )?(?:bad page )?threshold"),
        "more bad pages than the card has spares",
        "remap-failed",
    ),
    (
        re.compile(rf"{_AMD}(?:device lost from bus|GPU is lost)"),
        "the card has fallen off the bus",
        "card-lost",
    ),
    (re.compile(rf"{_AMD}GPU reset begin"), "reset of the card", "card-reset"),
    (re.compile(rf"{_AMD}ring .{{0,40}}timeout"), "time-out of the card", "evidence"),
    (re.compile(r"mce: \[Hardware Error\]|Machine check"), "machine check of the CPU", "evidence"),
    (re.compile(r"EDAC \S+: .*\bUE\b"), "uncorrected memory error", "host-memory-error"),
    (re.compile(r"EDAC \S+: .*\bCE\b"), "corrected memory error", "evidence"),
    (
        # The port tells it: "... error message received from 0000:5d:00.0", earlier "error received: ...".
        re.compile(rf"AER: .{{0,60}}Uncorrected \(Fatal\).{{0,60}}?{_ADDRESS}"),
        "uncorrected PCIe error",
        "pcie-fatal",
    ),
    (re.compile(r"AER: .{0,80}Uncorrected \(Fatal\)"), "uncorrected PCIe error", "pcie-fatal"),
    (re.compile(r"AER: .*(?:Uncorrected|Fatal)"), "uncorrected PCIe error", "evidence"),
    (
        re.compile(r"nvme nvme\d+: .*(?:I/O .*timeout|controller is down)"),
        "NVMe time-out",
        "evidence",
    ),
    (re.compile(r"amdgpu .*(?:ring .*timeout|GPU reset begin)"), "AMD GPU time-out", "evidence"),
    (re.compile(r"I/O error, dev "), "disk I/O error", "evidence"),
    (
        re.compile(r"Out of memory: Killed process|oom-kill:"),
        "the kernel killed a process",
        "program",
    ),
)

_OF_GRADE: dict[str, Sort] = {
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
    sort: Sort = "evidence"
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

    Args:
        path: The kernel's log device.

    Attributes:
        unreadable: Why nothing can be read; empty when all is well.
    """

    def __init__(self, path: Path = Path("/dev/kmsg")) -> None:
        self.unreadable = ""
        self._descriptor: int | None = None
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            os.lseek(self._descriptor, 0, os.SEEK_END)
        except OSError as error:
            self.unreadable = f"kernel log: {error.strerror or error}"

    def new_lines(self) -> list[str]:
        """Return the messages since the last call, without their prefix."""
        lines: list[str] = []
        if self._descriptor is None:
            return lines
        while True:
            try:
                record = os.read(self._descriptor, _RECORD)
            except BlockingIOError:
                return lines
            except (
                BrokenPipeError
            ):  # records were overwritten before they were read; go on behind them
                continue
            except OSError as error:
                self.unreadable = f"kernel log: {error.strerror or error}"
                return lines
            if not record:
                return lines
            # "priority,number,time,flags;message" and continuation lines with key=value
            for line in record.decode(errors="replace").splitlines():
                if not line.startswith(" "):
                    lines.append(line.partition(";")[2] or line)

    def close(self) -> None:
        """Close the device."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def kernel_events(lines: list[str]) -> tuple[KernelEvent, ...]:
    """Pick the events that matter out of kernel log lines; repeats become one event with a count."""
    counts: Counter[tuple[str, str, Sort]] = Counter()
    first: dict[tuple[str, str, Sort], str] = {}
    for line in lines:
        found = _event(line)
        if found is not None:
            counts[found] += 1
            first.setdefault(found, line[:200])
    return tuple(
        KernelEvent(what=what, place=place, sort=sort, count=count, line=first[key])
        for key, count in counts.items()
        for what, place, sort in [key]
    )


def _event(line: str) -> tuple[str, str, Sort] | None:
    if (match := _XID.search(line)) is not None:
        number = int(match[2])
        return f"XID {number}: {xid(number).meaning}", match[1].lower(), xid_sort(number, match[3])
    if (match := _SXID.search(line)) is not None:
        fatal = match[4] == "Fatal"
        what = f"{'fatal' if fatal else 'non-fatal'} SXid {match[3]} of {match[1]}"
        return what, match[2].lower(), "switch-fault" if fatal else "switch-event"
    if (match := _FALLEN.search(line)) is not None:
        return "the card has fallen off the bus", match[1].lower(), "card-lost"
    for pattern, what, sort in _OTHERS:
        if (match := pattern.search(line)) is not None:
            return what, (match[1] if pattern.groups else "").lower(), sort
    return None


def xid_sort(number: int, message: str = "") -> Sort:
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
