"""Hardware events in the kernel log: XID of NVIDIA, machine checks, devices that stop answering."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

# One record of /dev/kmsg is at most this long.
_RECORD = 8192

# What an XID means, in our words; the second says whether hardware is to blame (an application can
# provoke the others itself).
XIDS: dict[int, tuple[str, bool]] = {
    13: ("graphics engine exception, most often the program's", False),
    31: ("memory page fault, most often the program's", False),
    32: ("corrupted push buffer", False),
    38: ("driver firmware error", False),
    43: ("the program's work was stopped", False),
    45: ("the program's channel was removed", False),
    48: ("uncorrectable memory error", True),
    61: ("internal micro-controller halted", True),
    62: ("internal micro-controller halted", True),
    63: ("memory row remapped or page retired", True),
    64: ("memory row could not be remapped", True),
    68: ("video decoder exception", False),
    69: ("graphics engine class error", False),
    74: ("NVLink error", True),
    79: ("the card has fallen off the bus", True),
    92: ("high rate of correctable memory errors", True),
    94: ("contained uncorrectable memory error", True),
    95: ("uncontained uncorrectable memory error", True),
    119: ("the card's system processor does not answer", True),
    120: ("the card's system processor failed", True),
    121: ("error on the link to the CPU", True),
    140: ("unrecovered memory error", True),
    143: ("the card's start-up failed", True),
    144: ("NVLink: link error", True),
    145: ("NVLink: link error", True),
    149: ("NVLink: link error", True),
}

_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)")
# Words of the kernel that mean hardware, and what to call them.
_OTHERS: tuple[tuple[re.Pattern[str], str, bool], ...] = (
    (re.compile(r"mce: \[Hardware Error\]|Machine check"), "machine check of the CPU", True),
    (re.compile(r"EDAC \S+: .*\bUE\b"), "uncorrected memory error", True),
    (re.compile(r"EDAC \S+: .*\bCE\b"), "corrected memory error", True),
    (re.compile(r"AER: .*(?:Uncorrected|Fatal)"), "uncorrected PCIe error", True),
    (re.compile(r"nvme nvme\d+: .*(?:I/O .*timeout|controller is down)"), "NVMe time-out", True),
    (re.compile(r"amdgpu .*(?:ring .*timeout|GPU reset begin)"), "AMD GPU time-out or reset", True),
    (re.compile(r"amdgpu .*RAS.*uncorrectable"), "AMD GPU uncorrectable error", True),
    (re.compile(r"Out of memory: Killed process|oom-kill:"), "the kernel killed a process", False),
    (re.compile(r"I/O error, dev "), "disk I/O error", True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelEvent:
    """One kind of event in the kernel log.

    Attributes:
        what: ``XID 79: the card has fallen off the bus``, ``machine check of the CPU``, ...
        place: PCI address of the card, empty when unknown.
        hardware: Evidence against the hardware, rather than against a program.
        count: How often it was seen; repeats are one event with a count.
        line: The log's own words, first occurrence.
    """

    what: str
    place: str = ""
    hardware: bool = True
    count: int = 1
    line: str = ""

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
    counts: Counter[tuple[str, str, bool]] = Counter()
    first: dict[tuple[str, str, bool], str] = {}
    for line in lines:
        found = _event(line)
        if found is not None:
            counts[found] += 1
            first.setdefault(found, line[:200])
    return tuple(
        KernelEvent(what=what, place=place, hardware=hardware, count=count, line=first[key])
        for key, count in counts.items()
        for what, place, hardware in [key]
    )


def _event(line: str) -> tuple[str, str, bool] | None:
    match = _XID.search(line)
    if match is not None:
        number = int(match[2])
        # An unknown number is treated as hardware: it must be looked at, not overlooked.
        meaning, hardware = XIDS.get(number, ("meaning unknown here", True))
        return f"XID {number}: {meaning}", match[1].lower(), hardware
    for pattern, what, hardware in _OTHERS:
        if pattern.search(line):
            return what, "", hardware
    return None
