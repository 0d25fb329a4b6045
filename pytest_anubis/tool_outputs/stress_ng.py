"""Output of stress-ng: the YAML of ``--yaml`` and the lines that it logs."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_anubis.tool_outputs.unreadable import UnreadableOutput, count, number, shown

TOOL = "stress-ng"

_RATE, _OPERATIONS, _SECONDS = "bogo-ops-per-second-real-time", "bogo-ops", "wall-clock-time"
_ENTRY = "    - stressor:"
_FIELD = "      "
_ROUNDING = 0.01
"""The rate is that of the run, the seconds those of its longest instance: they differ by less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stressor:
    """What one stressor did.

    Attributes:
        name: E.g. ``cpu``.
        operations: How many bogus operations.
        rate: Of them a second of real time.
        seconds: How long it ran.
    """

    name: str
    operations: int
    rate: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StressRun:
    """What one run did.

    Attributes:
        version: Of stress-ng.
        stressors: In their order.
    """

    version: str
    stressors: tuple[Stressor, ...]


def read_stress_ng(text: str) -> StressRun:
    """Read the YAML that stress-ng writes, of which it uses a few forms only.

    Raises:
        UnreadableOutput: A field is missing or no number, no stressor is told, or the rate is not operations
            over time.
    """
    version = ""
    entries: list[dict[str, str]] = []
    within = False
    for line in text.split("\n"):
        name, colon, value = line.partition(":")
        if line and not line[0].isspace():
            within = line.rstrip() == "metrics:"
        elif name == f"{_FIELD}stress-ng-version" and colon:
            version = value.strip()
        elif within and f"{name}:" == _ENTRY:
            entries.append({"stressor": value.strip()})
        elif within and line.strip():
            if not entries or not colon or not line.startswith(_FIELD):
                raise UnreadableOutput(TOOL, f"no line of its metrics: {shown(line)}")
            entries[-1][name.strip()] = value.strip()
    if not entries:
        raise UnreadableOutput(TOOL, "no stressor in its metrics")
    return StressRun(version=version, stressors=tuple(map(_stressor, entries)))


def failures(log: str) -> tuple[str, ...]:
    """Return the lines by which stress-ng says that something was wrong: ``fail`` and ``error``."""
    return tuple(
        line.strip()[:200]
        for line in log.split("\n")
        if line.startswith(("stress-ng: fail:", "stress-ng: error:"))
    )


def _stressor(entry: dict[str, str]) -> Stressor:
    missing = [name for name in (_RATE, _OPERATIONS, _SECONDS) if name not in entry]
    name = entry["stressor"]
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
