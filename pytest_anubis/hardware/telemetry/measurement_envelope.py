"""Summarise the telemetry around one measurement (its "envelope"): series, changed counters, slowdowns.

`telemetry_sampler` takes the samples and calls `make_envelope`.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Literal

from pytest_anubis.core.metric import first_of, percent_text
from pytest_anubis.core.onset import (
    HW_SLOWDOWN,
    HW_THERMAL,
    OF_THE_TIME,
    PER_SECOND,
    POWER_BRAKE,
    SW_POWER_CAP,
    SW_THERMAL,
)
from pytest_anubis.hardware.load.process_load import is_allowed
from pytest_anubis.hardware.telemetry.host_sensors import (
    CYCLES,
    ENERGY,
    HOST,
    INLET,
    POWER_CYCLES,
    REASONS,
    TEMPERATURE,
    THERMAL_CYCLES,
    Reading,
)
from pytest_anubis.hardware.telemetry.kernel_log import KernelEvent

HOT = SW_THERMAL | HW_THERMAL

THROTTLED_SHARE = 0.05
"""Share of the time above which throttling explains a slow sample: the practical threshold of the criteria is
a loss of 5 %, and a slowdown cannot cost more than the time that it lasts."""

MIN_SLOWED_SAMPLES = 2
"""Minimum number of samples with a slowdown before it is a finding: a single one may be the start of a load.
A duration counter needs no confirmation."""

AIR_LIMIT = 35.0
"""Maximum inlet temperature in °C: the limit for servers of ASHRAE's class A2, which makers of boards with
eight cards state as well."""

# Suffixes of counters that are not events: nanoseconds and cycles become shares, and energy a series.
_NS, _CYCLES = " (ns)", " (cycles)"
_NO_EVENTS = (_NS, _CYCLES, ENERGY)


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterChange:
    """A counter that changed during a measurement."""

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
class Slowdown:
    """Clocks that were reduced, or too hot intake air: a finding whatever the metric's verdict."""

    # The rule of the policy that applies to it
    sort: Literal["thermal-slowdown", "power-brake", "hw-slowdown", "hot-air"]
    name: str
    part: str  # ``GPU 3``; ``host`` for the inlet air
    text: str  # one phrase, with numbers and without the part

    @property
    def phrase(self) -> str:
        """The slowdown as an evidence phrase."""
        return f"{self.part}: {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """Telemetry around one measurement."""

    seconds: float
    times: tuple[float, ...] = ()  # time of every sample, in seconds since the beginning
    # ``GPU 3 power (W)`` -> values at those times, without missing ones; of counters, ``GPU 3 PCIe
    # replays (/s)`` -> rates in equal intervals over the whole time
    series: tuple[tuple[str, tuple[float, ...]], ...] = ()
    changes: tuple[CounterChange, ...] = ()  # counters that changed, without durations and energy
    events: tuple[KernelEvent, ...] = ()
    # Causes outside the hardware that slowed the measurement, one phrase each
    disturbance: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()  # observations for or against the hardware, one phrase each
    # Reduced clocks; they explain a bad value and do not excuse it
    slowdowns: tuple[Slowdown, ...] = ()
    lost: tuple[str, ...] = ()


def make_envelope(
    begin: Reading,
    samples: Sequence[tuple[float, Reading]],
    end: Reading,
    *,
    seconds: float,
    events: Sequence[KernelEvent] = (),
    ours: Collection[int] = (),
    visible: Mapping[int, str] = MappingProxyType({}),
    allowed: Sequence[str] = (),
    counted: Collection[str] = (),
) -> Envelope:
    """Return the envelope of a measurement; pure.

    Args:
        begin: Reading with counters before the measurement.
        samples: (seconds since then, reading) during it; without any, the last reading is used.
        end: Reading with counters after it.
        seconds: Its duration.
        events: Events in the kernel log.
        ours: Process ids that belong to the measurement.
        visible: Process ids that exist here, with the names of their commands, empty if unknown.
        allowed: Names of commands, as shell patterns, that may use a card meanwhile.
        counted: Cards whose counters the samples have, too, some of them.
    """
    rates = _rates(begin, samples, end, seconds, counted)
    samples = samples or [(seconds, end)]
    readings = [begin, *(reading for _, reading in samples), end]
    columns = _columns(readings[1:-1])
    changes = tuple(counter_changes(begin, end))
    lost = tuple(dict.fromkeys(note for reading in readings for note in reading.lost))
    slowdowns, evidence = _throttling(columns, begin, end, seconds)
    if any(one.sort == "thermal-slowdown" for one in slowdowns):
        slowdowns += _hot_air(columns)
    disturbance = _other_users(begin, end, set(ours), visible, allowed)
    evidence = [*(one.phrase for one in slowdowns), *evidence]
    evidence += [*(change.text for change in changes), *(event.text for event in events)]
    evidence += [f"{note}, so nothing is known about it" for note in lost]
    return Envelope(
        seconds=seconds,
        times=tuple(when for when, _ in samples),
        series=(
            *((" ".join(key), tuple(values)) for key, values in columns.items()),
            *_energies(begin, end),
            *rates,
        ),
        changes=changes,
        events=tuple(events),
        disturbance=tuple(disturbance),
        evidence=(*disturbance, *evidence),
        slowdowns=tuple(slowdowns),
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


def _energies(begin: Reading, end: Reading) -> list[tuple[str, tuple[float, ...]]]:
    """Return the energy that each card used, as a series of one value in joules."""
    pairs = (
        (part, counters[ENERGY], end.counters.get(part, {}).get(ENERGY))
        for part, counters in begin.counters.items()
        if ENERGY in counters
    )
    return [
        (f"{part} energy (J)", ((after - before) / 1000,))
        for part, before, after in pairs
        if after is not None and after >= before
    ]


def _rates(
    begin: Reading,
    samples: Sequence[tuple[float, Reading]],
    end: Reading,
    seconds: float,
    cards: Collection[str],
) -> list[tuple[str, tuple[float, ...]]]:
    """Return how fast each counter of a card rose, in equal intervals as long as those between readings."""
    read = {0.0: begin, **{when: one for when, one in samples if one.counters}, seconds: end}
    gaps = [after - before for before, after in pairwise(read)]
    if not gaps or min(gaps) <= 0:
        return []
    usual = statistics.median(
        gaps[:-1] or gaps
    )  # the last reading comes whenever the measurement ends
    count = max(1, round(seconds / usual))
    width = seconds / count
    found = []
    for part, counters in begin.counters.items():
        if part not in cards:
            continue
        known = [(when, one.counters.get(part, {})) for when, one in read.items()]
        grown = {
            name: _growth([(t, one[name]) for t, one in known if name in one], width, count)
            for name in counters
            if name != ENERGY
        }
        most = {_NS: [1e9 * width] * count, _CYCLES: grown.pop(CYCLES, [])}
        for name, more in grown.items():
            suffix = next((one for one in most if name.endswith(one)), "")
            if suffix:
                pairs = zip(more, most[suffix], strict=False)
                rates = [min(100.0, 100 * one / full) if full else 0.0 for one, full in pairs]
            else:
                rates = [one / width for one in more]
            unit = OF_THE_TIME if suffix else PER_SECOND
            series = tuple(round(rate, 4) for rate in rates)
            found.append((f"{part} {name.removesuffix(suffix)} ({unit})", series))
    return found


def _growth(counts: Sequence[tuple[float, int]], width: float, count: int) -> list[float]:
    """Return how much a counter grew in each of equal intervals; one that fell was reset.

    Readings come late on a busy machine, so growth is spread evenly over the time between two of them.
    """
    found = [0.0] * count
    for (begin, before), (end, after) in pairwise(counts):
        if after <= before:
            continue
        for place in range(int(begin / width), min(count, int(end / width) + 1)):
            shared = min(end, (place + 1) * width) - max(begin, place * width)
            found[place] += (after - before) * max(0.0, shared) / (end - begin)
    return found


def counter_changes(begin: Reading, end: Reading) -> list[CounterChange]:
    """Return every counter that changed, of those that both readings have."""
    return [
        CounterChange(part=part, name=name, before=before, after=end.counters[part][name])
        for part, counters in begin.counters.items()
        for name, before in counters.items()
        if not name.endswith(_NO_EVENTS)
        and name in end.counters.get(part, {})
        and end.counters[part][name] != before
    ]


# Sort, name, bits of the reasons, bits of another cause, duration counter of newer drivers.
_SLOWDOWNS: tuple[tuple[str, str, int, int, str], ...] = (
    ("thermal-slowdown", "thermal slowdown", HOT, 0, "thermal slowdown (ns)"),
    ("power-brake", "power brake", POWER_BRAKE, 0, "power brake (ns)"),
    # Heat and the power brake set this bit as well; without their bits there is another cause.
    ("hw-slowdown", "hardware slowdown", HW_SLOWDOWN, HOT | POWER_BRAKE, ""),
)


def _throttling(
    columns: Mapping[tuple[str, str], list[float]], begin: Reading, end: Reading, seconds: float
) -> tuple[list[Slowdown], list[str]]:
    """Return (slowdowns, evidence) about throttled clocks.

    A slowdown in too few samples is only evidence, and so is the power limit, which is normal under full
    load.
    """
    slowdowns, evidence = [], []
    parts = {part for part, quantity in columns if quantity == REASONS} | set(begin.counters)
    for part in sorted(parts):
        reasons = [int(value) for value in columns.get((part, REASONS), [])]
        degrees = max(columns.get((part, TEMPERATURE), [0.0]))
        upto = f", at up to {degrees:.0f} °C" if degrees else ""
        for sort, name, bits, explained, counter in _SLOWDOWNS:
            seen = [bool(r & bits and not r & explained) for r in reasons]
            sampled = sum(seen) / len(seen) if seen else 0.0
            lasted = _lasted(begin, end, part, counter, seconds) if counter else 0.0
            if sort == "thermal-slowdown":
                lasted = max(lasted, _share_of_cycles(begin, end, part, THERMAL_CYCLES))
            if max(sampled, lasted) <= THROTTLED_SHARE:
                continue
            text = f"{name} {percent_text(max(sampled, lasted), 0)} of the time{upto}"
            one = Slowdown(sort=sort, name=name, part=part, text=text)  # type: ignore[arg-type]  # from the table
            if sum(seen) >= MIN_SLOWED_SAMPLES or lasted > THROTTLED_SHARE:
                slowdowns.append(one)
            else:
                evidence.append(f"{one.phrase}, seen once")
        capped = max(
            _share(reasons, SW_POWER_CAP),
            _lasted(begin, end, part, "power limit slowdown (ns)", seconds),
            _share_of_cycles(begin, end, part, POWER_CYCLES),
        )
        if capped > THROTTLED_SHARE:
            evidence.append(f"{part} at its power limit {percent_text(capped, 0)} of the time")
    return slowdowns, evidence


def _hot_air(columns: Mapping[tuple[str, str], list[float]]) -> list[Slowdown]:
    """Return a slowdown if the median inlet temperature exceeds the limit; none without a sensor."""
    degrees = columns.get((HOST, INLET), [])
    if not degrees or statistics.median(degrees) <= AIR_LIMIT:
        return []
    text = f"the air that comes in has {statistics.median(degrees):.0f} °C"
    return [Slowdown(sort="hot-air", name="inlet temperature", part=HOST, text=text)]


def _share(reasons: list[int], bits: int) -> float:
    return sum(bool(reason & bits) for reason in reasons) / len(reasons) if reasons else 0.0


def _lasted(begin: Reading, end: Reading, part: str, name: str, seconds: float) -> float:
    before = begin.counters.get(part, {}).get(name)
    after = end.counters.get(part, {}).get(name)
    if before is None or after is None or seconds <= 0:
        return 0.0
    return min(1.0, max(0, after - before) * 1e-9 / seconds)


def _share_of_cycles(begin: Reading, end: Reading, part: str, prefix: str) -> float:
    """Return the largest share of the firmware's cycles among the counters with a prefix."""
    before, after = begin.counters.get(part, {}), end.counters.get(part, {})
    grown = {name: after[name] - before[name] for name in before if name in after}
    cycles = grown.get(CYCLES, 0)
    if cycles <= 0:
        return 0.0
    held = max((change for name, change in grown.items() if name.startswith(prefix)), default=0)
    return min(1.0, max(0, held) / cycles)


def _other_users(
    begin: Reading,
    end: Reading,
    ours: set[int],
    names: Mapping[int, str],
    allowed: Sequence[str],
) -> list[str]:
    """Describe the processes of others that use a card.

    Inside a container NVML may return the host's process ids, even for our own processes. So an id counts
    only if NVML's ids are known to be valid here: it exists here, or one of ours is in the same list.
    """
    phrases = []
    for part in sorted({*begin.users, *end.users}):
        users = {*begin.users.get(part, ()), *end.users.get(part, ())}
        others = sorted(users - ours if users & ours else (users & names.keys()) - ours)
        others = [pid for pid in others if not is_allowed(names.get(pid, ""), allowed)]
        if others:
            known = [f"{names[pid]} (pid {pid})" if names.get(pid) else str(pid) for pid in others]
            plural = "es" if len(others) > 1 else ""
            phrases.append(f"{part} in use by other process{plural} {first_of(known, 3)}")
    return phrases
