"""What telemetry says about one measurement: series, changed counters, and both in words."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pytest_anubis.hardware.telemetry.host_sensors import REASONS, TEMPERATURE, Reading
from pytest_anubis.hardware.telemetry.kernel_log import KernelEvent

# Bits of NVML's clock event reasons.
SW_POWER_CAP = 0x04
HW_SLOWDOWN = 0x08
SW_THERMAL = 0x20
HW_THERMAL = 0x40
POWER_BRAKE = 0x80

HOT = SW_THERMAL | HW_THERMAL
# The board's slowdown is also raised for heat and for the power brake; alone it has another cause.
BRAKED = POWER_BRAKE | HW_SLOWDOWN

THROTTLED_SHARE = 0.05
"""Share of the time above which throttling explains a slow sample: the practical threshold of the criteria is
a loss of 5 %, and a slowdown costs at most the time that it lasts."""

# Nanosecond counters are durations: they are turned into shares, not into "+300000000".
_DURATION = " (ns)"


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterChange:
    """A counter that moved during a measurement."""

    part: str
    name: str
    before: int
    after: int

    @property
    def text(self) -> str:
        """The change as an evidence phrase."""
        change = self.after - self.before
        if change < 0:
            return f"{self.part}: {self.name} fell from {self.before} to {self.after} (reset?)"
        return f"{self.part}: {self.name} +{change}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """Telemetry around one measurement.

    Attributes:
        seconds: Duration.
        times: Seconds since the beginning of every sample.
        series: ``GPU 3 power (W)`` -> values at those times, those missing left out.
        changes: Counters that moved, durations left out.
        events: What the kernel logged meanwhile.
        disturbance: What made the measurement slower than the hardware is, one phrase each.
        evidence: What speaks for or against the hardware, one phrase each.
        lost: Sensors that did not answer.
    """

    seconds: float
    times: tuple[float, ...] = ()
    series: tuple[tuple[str, tuple[float, ...]], ...] = ()
    changes: tuple[CounterChange, ...] = ()
    events: tuple[KernelEvent, ...] = ()
    disturbance: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


def make_envelope(
    begin: Reading,
    samples: Sequence[tuple[float, Reading]],
    end: Reading,
    *,
    seconds: float,
    events: Sequence[KernelEvent] = (),
    ours: Collection[int] = (),
    visible: Collection[int] = (),
) -> Envelope:
    """Work out an envelope; pure.

    Args:
        begin: Reading with counters before the measurement.
        samples: (seconds since then, reading) during it; none: the last reading stands in.
        end: Reading with counters after it.
        seconds: Its duration.
        events: What the kernel logged.
        ours: Process ids that belong to the measurement.
        visible: Process ids that exist here.
    """
    samples = samples or [(seconds, end)]
    readings = [begin, *(reading for _, reading in samples), end]
    columns = _columns(readings[1:-1])
    changes = tuple(counter_changes(begin, end))
    lost = tuple(dict.fromkeys(note for reading in readings for note in reading.lost))
    disturbance, evidence = _throttling(columns, begin, end, seconds)
    disturbance += _strangers(begin, end, set(ours), set(visible))
    evidence += [*(change.text for change in changes), *(event.text for event in events)]
    evidence += [f"{note}, so nothing is known about it" for note in lost]
    return Envelope(
        seconds=seconds,
        times=tuple(when for when, _ in samples),
        series=tuple((" ".join(key), tuple(values)) for key, values in columns.items()),
        changes=changes,
        events=tuple(events),
        disturbance=tuple(disturbance),
        evidence=(*disturbance, *evidence),
        lost=lost,
    )


def _columns(readings: Sequence[Reading]) -> dict[tuple[str, str], list[float]]:
    """Return (part, quantity) -> its values in time order."""
    columns: dict[tuple[str, str], list[float]] = {}
    for reading in readings:
        for part, values in reading.values.items():
            for quantity, value in values.items():
                columns.setdefault((part, quantity), []).append(value)
    return columns


def counter_changes(begin: Reading, end: Reading) -> list[CounterChange]:
    """Return every counter that moved; one that is read at only one end says nothing."""
    return [
        CounterChange(part=part, name=name, before=before, after=end.counters[part][name])
        for part, counters in begin.counters.items()
        for name, before in counters.items()
        if not name.endswith(_DURATION)
        and name in end.counters.get(part, {})
        and end.counters[part][name] != before
    ]


def _throttling(
    columns: Mapping[tuple[str, str], list[float]], begin: Reading, end: Reading, seconds: float
) -> tuple[list[str], list[str]]:
    """Return (disturbances, mere evidence) about throttled clocks."""
    disturbance, evidence = [], []
    parts = {part for part, quantity in columns if quantity == REASONS} | set(begin.counters)
    for part in sorted(parts):
        reasons = [int(value) for value in columns.get((part, REASONS), [])]
        hot = max(_share(reasons, HOT), _lasted(begin, end, part, "thermal slowdown (ns)", seconds))
        braked = _share([r for r in reasons if not r & HOT], BRAKED) if reasons else 0.0
        capped = max(
            _share(reasons, SW_POWER_CAP),
            _lasted(begin, end, part, "power limit slowdown (ns)", seconds),
        )
        if hot > THROTTLED_SHARE:
            degrees = max(columns.get((part, TEMPERATURE), [0.0]))
            upto = f", up to {degrees:.0f} °C" if degrees else ""
            disturbance.append(
                f"slow because hot: {part} throttled {_percent(hot)} of the time{upto}"
            )
        if braked > THROTTLED_SHARE:
            disturbance.append(
                f"slow because braked: {part} held back by its board or power supply "
                f"{_percent(braked)} of the time"
            )
        if capped > THROTTLED_SHARE:  # normal under full load: no excuse, but worth knowing
            evidence.append(f"{part} at its power limit {_percent(capped)} of the time")
    return disturbance, evidence


def _share(reasons: list[int], bits: int) -> float:
    return sum(bool(reason & bits) for reason in reasons) / len(reasons) if reasons else 0.0


def _lasted(begin: Reading, end: Reading, part: str, name: str, seconds: float) -> float:
    before = begin.counters.get(part, {}).get(name)
    after = end.counters.get(part, {}).get(name)
    if before is None or after is None or seconds <= 0:
        return 0.0
    return min(1.0, max(0, after - before) * 1e-9 / seconds)


def _strangers(begin: Reading, end: Reading, ours: set[int], visible: set[int]) -> list[str]:
    """Name processes that use a card and are not ours.

    Inside a container NVML may give process ids of the host, our own among them. An id is a stranger's
    only where ids mean the same to NVML and to us: it exists here, or one of ours is in the same list.
    """
    phrases = []
    for part in sorted({*begin.users, *end.users}):
        users = {*begin.users.get(part, ()), *end.users.get(part, ())}
        strangers = sorted(users - ours if users & ours else (users & visible) - ours)
        if strangers:
            shown = ", ".join(map(str, strangers[:3]))
            more = f" and {len(strangers) - 3} more" if len(strangers) > 3 else ""
            plural = "es" if len(strangers) > 1 else ""
            phrases.append(f"{part} in use by other process{plural} {shown}{more}")
    return phrases


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
