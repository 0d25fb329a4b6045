"""What happens around a measurement: the host's clear moments, its load, and the telemetry."""

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
from pytest_anubis.session.context import RunContext, Sink, cards_of, context_key, discard

if TYPE_CHECKING:
    from pytest_anubis.hardware.load.clear_moments import Host, Rounds
    from pytest_anubis.hardware.load.host_load import LoadReader
    from pytest_anubis.hardware.telemetry.host_sensors import Source
    from pytest_anubis.hardware.telemetry.measurement_envelope import Slowdown
    from pytest_anubis.hardware.telemetry.telemetry_sampler import Mark, Telemetry

Series = tuple[tuple[str, tuple[float, ...]], ...]

MIN_BODY_SECONDS = 0.1
"""Seconds of a test's body below which its sensors are not asked: a clock or a temperature takes as long to
move, and trivial tests are many."""

REUSE_SECONDS = 0.25
"""Seconds for which an answer also serves the next metric that the test records."""

VISIBLE = "CUDA_VISIBLE_DEVICES"

POWER_SUPPLY = "accelerator.power"
"""Component of the tests that let power supplies brake, if anything does: what the cards deliver then is
compared with what healthy ones do."""

POWER_BRAKES = ("power-brake", "hw-slowdown")
"""Sorts of slowdown that such a test provokes; there they are evidence, like every slowdown."""

LOOKS, EACH = 15.0, 0.5
"""Closer looks that a process has from the start, and more for each metric: as many as one metric can ask for
(`MOST_LOOKS`), so that one alone always comes to its end, and looking closer adds about half to the time of a
whole set, since a look with its pause takes as long as a first measurement."""

SURE_LOOKS = 40.0
"""LookBudget that a process keeps beside these, for losses that are sure and lack only their confirmation: those
of four metrics (`CONFIRMING_LOOKS`). What noise spends never leaves them without, and one confirmed metric
rejects a node. With their pauses they take a minute in all; more metrics than that share the others."""


class LookBudget:
    """What is left of the closer looks that a process may take, and of those kept for sure losses."""

    def __init__(self) -> None:
        self._left, self._sure = LOOKS, SURE_LOOKS

    def measured(self) -> None:
        """One more metric was measured: it brings its share."""
        self._left += EACH

    def take(self, *, sure: bool = False) -> bool:
        """Take one look; return whether there was one.

        Args:
            sure: The loss is sure and lacks its confirmation: those that are kept for such are taken first.
        """
        if sure and self._sure >= 1:
            self._sure -= 1
            return True
        self._left -= 1
        return self._left >= 0


@dataclass(slots=True)
class Conditions:
    """What was seen around one measurement; complete when the block has ended.

    Attributes:
        disturbance: What made the machine slower than its hardware is, one phrase each.
        beyond_moments: Those of them that clear moments do not see: a quota, memory and disks under pressure,
            what the sensors of a device say.
        telemetry: Sensor series, (name, values) pairs.
        evidence: What speaks for or against the hardware, one phrase each.
    """

    disturbance: tuple[str, ...] = ()
    beyond_moments: tuple[str, ...] = ()
    telemetry: Series = ()
    evidence: tuple[str, ...] = ()


class ConditionsWatch:
    """Watches the host and samples the sensors around measurements; one for each process.

    Args:
        context: The facts of the run.

    Attributes:
        looks: What is left of the closer looks at close calls.
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
        self._one_core = False
        self._reported: set[tuple[str, str, str]] = set()
        self._host: Host | None = None

    def prepare(self) -> Telemetry:
        """Start sampling unless that has been done, so that no test pays for loading and opening."""
        import pytest_anubis.hardware.load.disturbance  # noqa: F401
        from pytest_anubis.hardware.load.host_load import LoadReader

        if self._telemetry is None:
            self._telemetry = self._start()
        if self._load is None:  # one for all measurements: it knows who was busy before
            self._load = LoadReader(root=self._context.root_pid)
        return self._telemetry

    def body_begins(self) -> None:
        """Remember that a test's body begins; costs next to nothing."""
        self._mark = self.prepare().mark()
        self._latest = None

    def body_ended(self) -> None:
        """Forget it again."""
        self._mark = self._latest = None
        if self._telemetry is not None:
            self._telemetry.unmark()

    def since_body_began(self) -> Conditions:
        """Return what the sensors saw since the test's body began; nothing of less than a tenth of a second.

        Whoever records many metrics in one go gets the same answer for all.
        """
        now = time.monotonic()
        mark, telemetry, latest = self._mark, self._telemetry, self._latest
        if mark is None or telemetry is None or now - mark.when < MIN_BODY_SECONDS:
            return Conditions()
        if latest is not None and now - latest[0] < REUSE_SECONDS:
            return latest[1]
        envelope = telemetry.since(mark)
        self._report(envelope.slowdowns)
        seen = Conditions(envelope.disturbance, (), envelope.series, envelope.evidence)
        self._latest = (time.monotonic(), seen)
        return seen

    @contextmanager
    def around(self, *, host: bool = True) -> Iterator[Conditions]:
        """Watch while the block runs.

        Args:
            host: What others do to the host disturbs what is measured; a device's own clock does not see it,
                and there it is evidence only.
        """
        from pytest_anubis.core.waivers.widened_limits import LIMITS
        from pytest_anubis.hardware.inventory.host_inventory import usable_cpus
        from pytest_anubis.hardware.load.disturbance import HostWatch, disturbances

        seen = Conditions()
        settings, telemetry = self._context.settings, self.prepare()
        limits = dict(settings.quiet_limits)
        if self._one_core:
            cpus = usable_cpus() or 1
            limits["others"] = 1 - (1 - limits.get("others", LIMITS["others"])) / cpus
        host_watch = HostWatch(
            reader=self._load,
            limits=limits,
            allowed=settings.allowed_processes,
        )
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
            *envelope.evidence,
            *(f"on the host, which the device's clock does not see: {one}" for one in unseen),
        )

    def serves(
        self, test: str, component: str, sink: Sink, resources: Collection[str] = ()
    ) -> None:
        """Take note of whose measurements are watched from here on, and of who wants to hear of findings.

        What measures a disk needs one core: there others may have the rest without disturbing it.
        """
        self._test, self._component, self._sink = test, component, sink
        self._one_core = "disk" in resources

    def _report(self, slowdowns: Iterable[Slowdown]) -> None:
        """Tell once a test what is a finding by itself: clocks of cards under test that were pulled down."""
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

    def rounds(self, name: str = "") -> Rounds | None:
        """Return what takes the rounds of one measurement on the host, each with its moment.

        Args:
            name: Benchmark and metric.

        None where the operator says that others may have all cores: then all values count.
        """
        limit = self._context.settings.quiet_limits.get("others", 0.0)
        if limit >= 1:
            return None
        from pytest_anubis.hardware.load.clear_moments import Host, Rounds
        from pytest_anubis.hardware.load.host_load import LoadReader
        from pytest_anubis.store.best_probe import known_best

        if self._host is None:
            context = self._context
            known = known_best(context.settings.store, context.hardware_class, context.node)
            self._host = Host(
                LoadReader(root=context.root_pid).tree,
                known.seconds,
                context.settings.allowed_processes,
                limit=limit,
                beside=known.during,
            )
        return Rounds(self._host, name)

    def keep_readings(self) -> None:
        """Keep the host's best readings for the next run."""
        if self._host is not None and self._host.best:
            from pytest_anubis.store.best_probe import BestReadings, keep_best

            context = self._context
            known = BestReadings(seconds=self._host.best, during=self._host.beside)
            keep_best(context.settings.store, context.hardware_class, context.node, known)

    def close(self) -> None:
        """Stop sampling."""
        if self._telemetry is not None:
            self._telemetry.__exit__(None, None, None)
            self._telemetry = None

    def _start(self) -> Telemetry:
        from pytest_anubis.hardware.telemetry.telemetry_sampler import Telemetry

        return Telemetry(
            self._sources(),
            root=self._context.root_pid,
            allowed=self._context.settings.allowed_processes,
        ).__enter__()

    def _sources(self) -> list[Source]:
        from pytest_anubis.hardware.telemetry.telemetry_sampler import default_sources

        recorded = self._context.settings.inventory
        if recorded is not None:  # sensors of the recorded node belong to its inventory
            from pytest_anubis.hardware.telemetry.recorded_node import replay

            return [replay(recorded).source()]
        # A worker that is bound to one device watches that one; its neighbours watch theirs. What the
        # user hid is somebody else's business.
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


_key = pytest.StashKey[ConditionsWatch]()


def conditions_watch(config: pytest.Config) -> ConditionsWatch | None:
    """Return this process's watch, made at first use; nobody needs one without ``--anubis``."""
    context = config.stash[context_key]
    if not context.settings.active:
        return None
    if _key not in config.stash:
        config.stash[_key] = made = ConditionsWatch(context)
        config.add_cleanup(made.close)
    return config.stash[_key]
