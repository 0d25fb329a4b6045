"""Watch the conditions around a measurement: the host's clear moments, its load, and the telemetry.

`attempts` and `recorder` use it. `LookBudget` limits the further looks that `attempts` takes.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from pytest_anubis.core.events import HardwareFound
from pytest_anubis.core.onset import COUNTED, series_words
from pytest_anubis.session.context import RunContext, Sink, cards_of, context_key, discard

if TYPE_CHECKING:
    from pytest_anubis.hardware.load.clear_moments import HostMonitor, MonitoredRounds
    from pytest_anubis.hardware.load.host_load import LoadReader
    from pytest_anubis.hardware.telemetry.host_sensors import Source
    from pytest_anubis.hardware.telemetry.measurement_envelope import Envelope, Slowdown
    from pytest_anubis.hardware.telemetry.telemetry_sampler import Mark, Telemetry

Series = tuple[tuple[str, tuple[float, ...]], ...]

MIN_BODY_SECONDS = 0.1
"""Length of a test's body from which its sensors are read: a clock or a temperature takes as long to change,
and there are many trivial tests."""

REUSE_SECONDS = 0.25
"""Time for which one reading of the sensors serves all metrics that a test records."""

VISIBLE = "CUDA_VISIBLE_DEVICES"

POWER_SUPPLY = "accelerator.power"
"""Component of the tests that push the power supplies to their limit; they compare the cards' rates then."""

POWER_BRAKES = ("power-brake", "hw-slowdown")
"""Sorts of slowdown that such a test provokes on purpose; there they are evidence only."""

FIRST_LOOKS = 15.0
"""Further looks that a process has from the start: as many as one metric can need (`MAX_LOOKS`)."""

LOOKS_PER_METRIC = 0.5
"""Further looks that each metric adds. A look with its pause takes as long as a first measurement, so further
looks add about half to the time of a whole set."""

SURE_LOOKS = 40.0
"""Further looks reserved for sure losses that lack only their confirmation: enough for four metrics
(`CONFIRMING_LOOKS`), of which one suffices to reject a node. With their pauses they take about a minute."""


class LookBudget:
    """The further looks that a process may still take, with a reserve for sure losses."""

    def __init__(self) -> None:
        self._left = FIRST_LOOKS
        self._sure = SURE_LOOKS

    def measured(self) -> None:
        """Add the share of one more metric."""
        self._left += LOOKS_PER_METRIC

    def take(self, *, sure: bool = False) -> bool:
        """Take one look; return whether one was left.

        Args:
            sure: The loss is sure and lacks only its confirmation, so the reserve is used first.
        """
        if sure and self._sure >= 1:
            self._sure -= 1
            return True
        self._left -= 1
        return self._left >= 0


@dataclass(slots=True)
class Conditions:
    """The conditions around one measurement; complete at the end of its ``with`` block."""

    # Reasons why the machine was slower than its hardware is, one phrase each
    disturbance: tuple[str, ...] = ()
    # Disturbances that clear moments do not detect: a quota, memory and disks under pressure, and
    # the sensors of a device
    beyond_moments: tuple[str, ...] = ()
    telemetry: Series = ()  # series of sensors and counters, (name, values) pairs
    evidence: tuple[str, ...] = ()  # findings for or against the hardware, one phrase each


class ConditionsWatch:
    """Watches the host and samples the sensors around measurements; one per process.

    Attributes:
        looks: The further looks that are left.
    """

    def __init__(self, context: RunContext) -> None:
        self.looks = LookBudget()
        self._context = context
        self._load: LoadReader | None = None
        self._telemetry: Telemetry | None = None
        self._mark: Mark | None = None
        self._latest: tuple[float, Conditions] | None = None
        self._test = self._component = ""
        self._sink: Sink = discard
        self._one_core = self._network = False
        self._cards: tuple[str, ...] = ()
        self._reported: set[tuple[str, str, str]] = set()
        self._host: HostMonitor | None = None

    def prepare(self) -> Telemetry:
        """Start sampling once, before the first test, which else would take longer."""
        import pytest_anubis.hardware.load.disturbance  # noqa: F401
        from pytest_anubis.hardware.load.host_load import LoadReader
        from pytest_anubis.hardware.telemetry.telemetry_sampler import Telemetry

        if self._telemetry is None:
            root, allowed = self._context.root_pid, self._context.settings.allowed_processes
            self._telemetry = Telemetry(self._sources(), root=root, allowed=allowed).__enter__()
        self._telemetry.counted = self._cards
        if self._load is None:  # one for all measurements, since it compares with earlier readings
            self._load = LoadReader(root=self._context.root_pid)
        return self._telemetry

    def body_begins(self) -> None:
        """Mark the start of a test's body; costs next to nothing."""
        self._mark = self.prepare().mark()
        self._latest = None

    def body_ended(self) -> None:
        """Forget the start of the body."""
        self._mark = self._latest = None
        if self._telemetry is not None:
            self._telemetry.unmark()

    def since_body_began(self) -> Conditions:
        """Return the conditions since the test's body began; empty ones within the first tenth of a second.

        Metrics that are recorded in quick succession get the same reading.
        """
        now = time.monotonic()
        mark, telemetry, latest = self._mark, self._telemetry, self._latest
        if mark is None or telemetry is None or now - mark.when < MIN_BODY_SECONDS:
            return Conditions()
        if latest is not None and now - latest[0] < REUSE_SECONDS:
            return latest[1]
        envelope = telemetry.since(mark)
        self._report(envelope.slowdowns)
        evidence = self._own_evidence(envelope)
        seen = Conditions(envelope.disturbance, (), envelope.series, evidence)
        self._latest = (time.monotonic(), seen)
        return seen

    @contextmanager
    def around(self, *, host: bool = True) -> Iterator[Conditions]:
        """Watch while the block runs.

        Args:
            host: Activity of others on the host disturbs the measurement. Otherwise it is evidence only,
                as for a measurement by a device's own clock.
        """
        from pytest_anubis.core.waiving import LIMITS
        from pytest_anubis.hardware.inventory.host_inventory import usable_cpus
        from pytest_anubis.hardware.load.disturbance import HostWatch, disturbances

        seen = Conditions()
        settings, telemetry = self._context.settings, self.prepare()
        limits = dict(settings.quiet_limits)
        if self._one_core:
            cpus = usable_cpus() or 1
            limits["others"] = 1 - (1 - limits.get("others", LIMITS["others"])) / cpus
        host_watch = HostWatch(reader=self._load, limits=limits, allowed=settings.allowed_processes)
        with telemetry.around() as around, host_watch as watch:
            yield seen
        envelope = around.envelope
        self._report(envelope.slowdowns)
        disturbing = watch.disturbance if host else ()
        seen.disturbance = tuple(dict.fromkeys((*disturbing, *envelope.disturbance)))
        if host and watch.found is not None:
            chosen = dict.fromkeys(("steal", "others", "cpu"), math.inf)
            lasting = disturbances(watch.found, {**limits, **chosen})
            seen.beyond_moments = tuple(dict.fromkeys((*lasting, *envelope.disturbance)))
        seen.telemetry = envelope.series
        unseen = () if host else watch.disturbance
        seen.evidence = (
            *self._own_evidence(envelope),
            *(f"on the host, which the device's clock does not see: {one}" for one in unseen),
        )

    def serves(
        self,
        test: str,
        component: str,
        sink: Sink,
        resources: Collection[str] = (),
        device: str = "",
    ) -> None:
        """Set the test whose measurements follow, its device, and the sink for findings.

        A test of a disk needs one core only, so others on the remaining cores do not disturb it.
        """
        devices = device.split(">")
        self._cards = tuple(c.part for c in cards_of(self._context) if c.device in devices)
        self._test, self._component, self._sink = test, component, sink
        self._one_core = "disk" in resources
        self._network = "network" in resources

    def _own_evidence(self, envelope: Envelope) -> tuple[str, ...]:
        """Return the evidence of an envelope; retransmissions of TCP only if the test uses the network.

        They are those of all connections of the host, such as a login, and say nothing of other tests.
        """
        from pytest_anubis.hardware.telemetry.network_counters import RESENT

        others = {change.text for change in envelope.changes if change.name == RESENT}
        return tuple(one for one in envelope.evidence if self._network or one not in others)

    def _report(self, slowdowns: Iterable[Slowdown]) -> None:
        """Report, once per test, that the clock of a card under test was pulled down."""
        for one in slowdowns:
            card = next((c for c in cards_of(self._context) if c.part == one.part), None)
            key = (self._test, one.sort, one.part)
            if key in self._reported or (card is None and one.part.startswith("GPU")):
                continue
            if self._component == POWER_SUPPLY and one.sort in POWER_BRAKES:
                continue
            self._reported.add(key)
            self._sink(
                HardwareFound(
                    sort=one.sort,
                    name=one.name,
                    text=one.text,
                    part=card.place if card is not None else "",
                    device=card.device if card is not None else "",
                    tests=(self._test,) if self._test else (),
                    source="telemetry",
                )
            )

    def rounds(self, name: str = "") -> MonitoredRounds | None:
        """Return what takes the rounds of a measurement on the host and marks the clear ones.

        None if ``--anubis-quiet-limit`` lets others have all cores, so that all values count.
        """
        limit = self._context.settings.quiet_limits.get("others", 0.0)
        if limit >= 1:
            return None
        from pytest_anubis.hardware.load.clear_moments import HostMonitor, MonitoredRounds
        from pytest_anubis.hardware.load.host_load import LoadReader
        from pytest_anubis.store.best_probe import known_best

        if self._host is None:
            context = self._context
            known = known_best(context.settings.store, context.hardware_class, context.node)
            self._host = HostMonitor(
                LoadReader(root=context.root_pid).tree,
                known.seconds,
                context.settings.allowed_processes,
                limit=limit,
                quickest=known.during,
            )
        return MonitoredRounds(self._host, name)

    def keep_readings(self) -> None:
        """Keep the host's best readings for the next run."""
        if self._host is not None and self._host.best:
            from pytest_anubis.store.best_probe import BestReadings, keep_best

            context = self._context
            known = BestReadings(seconds=self._host.best, during=self._host.quickest)
            keep_best(context.settings.store, context.hardware_class, context.node, known)

    def close(self) -> None:
        """Stop sampling."""
        if self._telemetry is not None:
            self._telemetry.__exit__(None, None, None)
            self._telemetry = None

    def _sources(self) -> list[Source]:
        from pytest_anubis.hardware.telemetry.telemetry_sampler import default_sources

        recorded = self._context.settings.inventory
        if recorded is not None:  # the recording has the sensors too
            from pytest_anubis.hardware.telemetry.recorded_node import replay

            return [replay(recorded).source()]
        # A worker that is bound to one device watches only that device, and cards that the user hides are
        # not watched.
        bound = [name for name in os.environ.get(VISIBLE, "").split(",") if name.startswith("GPU-")]
        if not bound and self._context.hidden:
            bound = [value for variable, value in self._context.bindings if variable == VISIBLE]
        return default_sources(set(bound) or None)


def joined(parts: Iterable[Series]) -> Series:
    """Join the series of successive measurements, name by name."""
    found: dict[str, tuple[float, ...]] = {}
    for part in parts:
        for name, values in part:
            found[name] = found.get(name, ()) + values
    return tuple(found.items())


def recorded(series: Series) -> Series:
    """Return series without those of the counters that did not change, so that a journal stays small."""
    return tuple(
        (name, values)
        for name, values in series
        if any(values) or series_words(name)[2] not in COUNTED
    )


_key = pytest.StashKey[ConditionsWatch]()


def conditions_watch(config: pytest.Config) -> ConditionsWatch | None:
    """Return this process's watch, made at first use; None without ``--anubis``."""
    context = config.stash[context_key]
    if not context.settings.active:
        return None
    if _key not in config.stash:
        config.stash[_key] = made = ConditionsWatch(context)
        config.add_cleanup(made.close)
    return config.stash[_key]
