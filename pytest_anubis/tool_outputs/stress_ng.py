"""Read the output of stress-ng: the YAML of ``--yaml``, and its log. Tests in `suites/tools/` use it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pytest_anubis.tool_outputs.plain_lines import tool_lines
from pytest_anubis.tool_outputs.unreadable import UnreadableOutput, count, number, shown

TOOL = "stress-ng"

_RATE = "bogo-ops-per-second-real-time"
_OPERATIONS = "bogo-ops"
_SECONDS = "wall-clock-time"
_ENTRY = re.compile(r"( *- )([\w-]{1,60}): *(.*)")
_END = "..."
_MARK = re.compile(r"---$|metrics:$")
_FAILURE = re.compile(r"stress-ng: (?:[\d:.]{1,20} )?(?:fail|error):")
_ROUNDING = 0.01
"""Relative tolerance of rate x seconds = operations: the rate is of the whole run, the seconds are those of
its longest instance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stressor:
    """The results of one stressor."""

    name: str
    operations: int  # number of bogus operations
    rate: float  # bogus operations per second of real time
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StressRun:
    """The results of one run."""

    stressors: tuple[Stressor, ...]


def read_stress_ng(text: str) -> StressRun:
    """Read the YAML that stress-ng writes, which uses only a few forms.

    Raises:
        UnreadableOutput: A field is missing or no number, there is no stressor, or a rate is not operations
            over time.
    """
    entries: list[dict[str, str]] = []
    within = False
    ended = False
    indent = 0
    for line in tool_lines(text, TOOL, _MARK):
        name, colon, value = line.strip().partition(":")
        depth = len(line) - len(line.lstrip())
        if line and not depth:
            within = line.rstrip() == "metrics:"
            ended = ended or (bool(entries) and line.rstrip() == _END)
        elif not within:
            continue
        elif (entry := _ENTRY.fullmatch(line)) and (not entries or len(entry[1]) == indent):
            indent = len(entry[1])
            entries.append({entry[2]: _unquoted(entry[3])})
        elif line.strip() and depth <= indent:  # deeper lines are about single instances
            if not entries or not colon or depth < indent:
                raise UnreadableOutput(TOOL, f"unexpected line in its metrics: {shown(line)}")
            if name in entries[-1]:
                raise UnreadableOutput(TOOL, f"{name} occurs twice in one stressor")
            entries[-1][name] = _unquoted(value)
    if not entries:
        raise UnreadableOutput(TOOL, "no stressor in its metrics")
    if not ended:
        raise UnreadableOutput(TOOL, f"cut off: no line {_END!r} behind its metrics")
    return StressRun(stressors=tuple(map(_stressor, entries)))


def _unquoted(value: str) -> str:
    value = value.strip()
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value


def failures(log: str) -> tuple[str, ...]:
    """Return the lines of the log that report a failure: ``fail`` and ``error``."""
    return tuple(line.strip()[:200] for line in log.split("\n") if _FAILURE.match(line))


def _stressor(entry: dict[str, str]) -> Stressor:
    missing = [name for name in (_RATE, _OPERATIONS, _SECONDS) if name not in entry]
    name = entry.get("stressor", "")
    if missing or not name:
        raise UnreadableOutput(TOOL, f"{name or 'a stressor'}: {', '.join(missing)} missing")
    made = Stressor(
        name=name,
        operations=count(entry[_OPERATIONS], TOOL, f"{name}: {_OPERATIONS}"),
        rate=number(entry[_RATE], TOOL, f"{name}: {_RATE}"),
        seconds=number(entry[_SECONDS], TOOL, f"{name}: {_SECONDS}"),
    )
    if abs(made.rate * made.seconds - made.operations) > _ROUNDING * made.operations:
        raise UnreadableOutput(TOOL, f"{name}: the rate is not operations / time")
    return made
