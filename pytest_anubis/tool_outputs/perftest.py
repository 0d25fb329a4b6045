"""Read the output of perftest's programs: ``ib_write_bw``, ``ib_read_bw``, ``ib_write_lat``, ...

Tests in `suites/tools/` use it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pytest_anubis.tool_outputs.plain_lines import tool_lines
from pytest_anubis.tool_outputs.unreadable import UnreadableOutput, count, number, shown

TOOL = "perftest"

_HEAD = "#bytes"
_UNITS = {
    "BW average[Gb/sec]": 1.0,
    "BW average[MB/sec]": 8 * (1 << 20) / 1e9,  # its MB are 2^20 bytes
    "BW average[MiB/sec]": 8 * (1 << 20) / 1e9,
}
# One column of the head; "BW peak[Gb/sec]" and "99% percentile[usec]" have a blank inside.
_COLUMN = re.compile(
    r"#\w{1,20}|BW \w{1,20}\[[^\]\s]{1,20}\]|[^\s\[]{1,20} ?\w{0,20}\[[^\]\s]{1,20}\]"
)
_TYPICAL = "t_typical[usec]"
_MEAN = "t_avg[usec]"
_MARK = re.compile(r"\s?#bytes\s|\s?#iterations\s")
_FIGURE = re.compile(r"[-+.,]?\d[-+\d.,eE]{0,40}|-?(?:nan|inf)")
"""A word that may be meant as a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of results."""

    size: int  # bytes of the message
    bandwidth: float | None = None  # mean in Gbit/s; None if the program measures latency
    latency: float | None = None  # median in µs; None if the program measures bandwidth


def read_perftest(text: str) -> tuple[Line, ...]:
    """Read the output of one end, which may repeat the lines of the other.

    Raises:
        UnreadableOutput: There is no table, or a line does not match its head.
    """
    lines: list[Line] = []
    columns: list[str] = []
    for place, line in enumerate(tool_lines(text, TOOL, _MARK), start=1):
        words = line.split()
        if _HEAD in words:
            columns = _COLUMN.findall(line)
            if _TYPICAL not in columns and not any(name in columns for name in _UNITS):
                what = "an unknown head"
                if _MEAN in columns:
                    what = f"no {_TYPICAL}, which runs by time (-D) do not have"
                raise UnreadableOutput(TOOL, f"line {place}: {what}: {shown(line)}")
        elif columns and words and all(map(_FIGURE.fullmatch, words)):
            if len(words) != len(columns):
                raise UnreadableOutput(
                    TOOL, f"line {place}: {len(words)} values, {len(columns)} in the head"
                )
            lines.append(_line(dict(zip(columns, words, strict=True)), f"line {place}"))
    if not lines:
        raise UnreadableOutput(TOOL, "no line of results")
    return tuple(lines)


def _line(values: dict[str, str], place: str) -> Line:
    size = count(values[_HEAD], TOOL, f"{place}: size")
    for name, unit in _UNITS.items():
        if name in values:
            bandwidth = unit * number(values[name], TOOL, f"{place}: {name}")
            return Line(size=size, bandwidth=bandwidth)
    return Line(size=size, latency=number(values[_TYPICAL], TOOL, f"{place}: {_TYPICAL}"))
