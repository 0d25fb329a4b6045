"""A change point: the first value of those that are worse, with what the sensors showed at that moment.

`validator.changes.onset_sensors` finds it. `series_words` takes the name of a sensor's series apart.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from pytest_anubis.core.field_types import AnyFloat, Count, Share, compact

SW_POWER_CAP = 0x04
HW_SLOWDOWN = 0x08
SW_THERMAL = 0x20
HW_THERMAL = 0x40
POWER_BRAKE = 0x80
"""Bits of NVML's clock event reasons."""

CLOCK_REASONS = "throttle reasons"
"""Name of the telemetry series that has these bits."""

PER_SECOND = "/s"
OF_THE_TIME = "% of the time"
COUNTED = (PER_SECOND, OF_THE_TIME)
"""Units of the series of counters: how fast events, or nanoseconds and cycles, were added."""

_SERIES = re.compile(r"(?:(GPU \d+|host) )?(.+?)(?: \(([^()]*)\))?")


def series_words(name: str) -> tuple[str, str, str]:
    """Return part, quantity and unit of a series such as ``GPU 3 SM clock (MHz)``; unknown ones are empty."""
    found = _SERIES.fullmatch(name)
    part, quantity, unit = found.groups() if found else (None, name, None)
    return part or "", quantity or name, unit or ""


class ClockLimit(StrEnum):
    """What held a card's clock down."""

    POWER_LIMIT = "power limit"
    HEAT = "thermal slowdown"
    POWER_BRAKE = "power brake"
    HARDWARE = "hardware slowdown"  # without heat or power brake, which set its bit as well


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorMove:
    """A sensor whose readings changed at one moment, or a counter that began to rise or rose faster."""

    part: str  # ``GPU 3`` or ``host``; may be empty
    quantity: str  # ``SM clock``, ``PCIe replays``
    unit: str  # ``MHz``; one of `COUNTED` for a counter; may be empty
    before: AnyFloat  # median of the readings before that moment
    after: AnyFloat  # median of the readings since then


@dataclass(frozen=True, slots=True, kw_only=True)
class RaisedLimit:
    """A limit of a card's clock that came on at one moment."""

    part: str  # ``GPU 3``
    limit: ClockLimit


@compact("defaults")
@dataclass(frozen=True, slots=True, kw_only=True)
class Onset:
    """The begin of a change for the worse, joined to the sensors; it explains, and decides nothing."""

    number: Count  # number of the first worse value, or cycle of a soak, from 1
    count: Count  # how many values or cycles there are
    size: Share  # 1 less the smaller median over the larger one, before and since
    # How many sensors, and counters that changed, were read often enough to be compared; at least 1
    compared: Count
    # The one that moved most at that moment, relative to its own noise; None if none moved
    sensor: SensorMove | None = None
    limits: tuple[RaisedLimit, ...] = ()  # limits of the clocks that came on at that moment
    until: Count = 0  # number of the last worse value if other values follow it; else 0
