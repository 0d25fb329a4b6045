"""Runs: all that one execution recorded, and its verdicts as they count after waivers, heat and noise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any

from pytest_anubis.core.blocker import Blocker
from pytest_anubis.core.events import (
    MACHINE,
    BenchmarksChosen,
    BlockerFound,
    DamageFound,
    Event,
    HardwareFound,
    LaneGivenUp,
    LanesPlaced,
    Resumed,
    RunHead,
    RunStarted,
    TestRepeated,
    WorkerDied,
)
from pytest_anubis.core.field_types import Rare
from pytest_anubis.core.inventory import REDACTED
from pytest_anubis.core.measurement import LaneCores, Measurement, PlannedTest, TestResult
from pytest_anubis.core.node_map import ModuleErrors, card_number
from pytest_anubis.core.verdict import MetricVerdict, NodeVerdict, Outcome, Reason, Waiver
from pytest_anubis.core.waiving import WaiversRead, in_noise, waived_verdict, widened, with_waiver

COMPLETED = (0, 1, 5, 20)
"""Exit statuses of complete runs: accepted, rejected, nothing collected, undecided. Others mean an
interruption, an internal error or a wrong usage, or were given to ``pytest.exit``."""

THERMAL = "thermal-slowdown"
"""Sort of `HardwareFound`: heat lowered a card's clocks."""

HOT_AIR = "hot-air"
"""Sort of `HardwareFound`: the intake air is hotter than the cards allow."""

EVIDENCE = "evidence"
"""Sort of `HardwareFound`: messages of a driver that are listed and decide nothing."""

RESUMABLE = (2, 3)
"""Exit statuses of runs that can be resumed: pytest's for interrupted, and for an internal error."""

WRONG_USE = 4
"""Exit status of a wrong usage, and of a run with a wrongly written benchmark, which has a decision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvidence:
    """Evidence from the runs of a node other than its samples."""

    # Verdicts without a sample: on the inventory, and on tests that failed, did not run or were
    # pruned
    verdicts: tuple[MetricVerdict, ...] = ()
    # Blockers such as a dead worker, a hidden device, or a run that was broken off
    blockers: tuple[Blocker, ...] = ()
    notes: tuple[str, ...] = ()  # lines that are only reported: failed attempts that were repeated
    # Probability of an incident that pruned benchmarks leave; None if nothing was pruned
    residual_risk: float | None = None
    residual_interval: tuple[float, float] | None = None  # its 95 % interval; None if unknown
    # Seconds of the Selector's choice within a budget, and of the full set; None if it left nothing
    # out
    budget: tuple[float, float] | None = None
    devices: tuple[str, ...] = ()  # devices that tests of every device were to run on
    caveats: tuple[str, ...] = ()  # the checks that were switched off, for the headline
    # Benchmark or plain test, and device, of every test that was to run
    planned: frozenset[tuple[str, str]] = frozenset()
    # Incomplete run -> what happened to it; its failures do not reject
    broken_off: Mapping[str, str] = field(default_factory=dict)
    # Device -> slot and serial number of its card, as far as they are known
    cards: Mapping[str, str] = field(default_factory=dict)
    waivers: tuple[Waiver, ...] = ()  # the waivers of its runs
    # Run -> its own waivers, if several runs were collected; empty: `waivers` are for all
    waivers_of: Mapping[str, tuple[Waiver, ...]] = field(default_factory=dict)
    # Marks of its machine (`machine_marks.py`), one set for each that its runs came from
    machines: frozenset[frozenset[str]] = frozenset()
    # Its runs asked for acceptance by the baseline of one other machine
    other_machine: bool = False
    # Components, benchmarks and metrics that it must have run; empty: all
    required: tuple[str, ...] = ()
    # Run (empty text: the current one) -> the option that widened its limits of noise
    noisy: Mapping[str, str] = field(default_factory=dict)
    # Run (as in `noisy`), benchmark and device of tests whose process died
    deaths: frozenset[tuple[str, str, str]] = frozenset()
    # How many of its values are missing and need not be there, and of how many
    missing: tuple[int, int] = (0, 0)
    # Memory modules of which it is known where their errors are
    modules: tuple[ModuleErrors, ...] = ()

    def waivers_for(self, run: str) -> tuple[Waiver, ...]:
        """Return the waivers for one run's failures; the waivers of another run do not apply to them."""
        return self.waivers_of.get(run, ()) if self.waivers_of else self.waivers

    def with_more(self, more: RunEvidence) -> RunEvidence:
        """Return both combined, with the larger of two risks."""
        risks = [
            (e.residual_risk, e.residual_interval)
            for e in (self, more)
            if e.residual_risk is not None
        ]
        risk, interval = max(risks, key=lambda pair: pair[0], default=(None, None))
        return RunEvidence(
            verdicts=(*self.verdicts, *more.verdicts),
            blockers=tuple(dict.fromkeys((*self.blockers, *more.blockers))),
            notes=tuple(dict.fromkeys((*self.notes, *more.notes))),
            residual_risk=risk,
            residual_interval=interval,
            budget=self.budget or more.budget,
            devices=tuple(dict.fromkeys((*self.devices, *more.devices))),
            caveats=tuple(dict.fromkeys((*self.caveats, *more.caveats))),
            planned=self.planned | more.planned,
            broken_off={**self.broken_off, **more.broken_off},
            cards={**self.cards, **more.cards},
            waivers=tuple(dict.fromkeys((*self.waivers, *more.waivers))),
            waivers_of={**self.waivers_of, **more.waivers_of},
            machines=self.machines | more.machines,
            other_machine=self.other_machine and more.other_machine,
            noisy={**self.noisy, **more.noisy},
            deaths=self.deaths | more.deaths,
            modules=(*self.modules, *more.modules),
            required=tuple(dict.fromkeys((*self.required, *more.required)))
            if self.required and more.required
            else (),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord(RunHead):
    """One run, complete or cut short, as `run_state.RunState` has it at one moment."""

    ended: str = ""  # ISO 8601, UTC; empty if the run never finished
    # When the latest event of a run that never finished was written, seconds since 1970; else 0
    last: Annotated[float, Rare] = 0.0
    exit_status: int | None = None  # pytest's exit status; None if the run never finished
    # It comes from a file that ``anubis export`` wrote, which has nothing besides samples
    samples_only: Annotated[bool, Rare] = False
    cause: str = ""  # what broke the run off; empty if unknown, or if nothing did
    planned: tuple[PlannedTest, ...] = ()
    results: tuple[TestResult, ...] = ()  # a planned test without an end is ``not reported``
    # In recorded order; values of a test cut short and run again are attempts in `events`
    measurements: tuple[Measurement, ...] = ()
    # In the order in which they were reached; for a repeated test, those of its last attempt
    verdicts: tuple[MetricVerdict, ...] = ()
    node_verdict: NodeVerdict | None = None  # None if the run did not get that far
    # All other events (deaths of workers, attempts, the Selector's choice, ...), in order
    events: tuple[Event, ...] = ()
    warnings: tuple[str, ...] = ()  # faults of the journal itself, one line each

    @property
    def head(self) -> RunStarted:
        """The first event of its journal."""
        return RunStarted(**{name: getattr(self, name) for name in _HEAD})

    @property
    def broken_off(self) -> str:
        """Why the run is incomplete and its end proves nothing; empty if it is complete."""
        if not self.ended:
            return "never finished"
        if self.cause:
            return f"was broken off: {self.cause}"
        wrongly_written = self.exit_status == WRONG_USE and self.node_verdict is not None
        if self.exit_status not in COMPLETED and not wrongly_written:
            return f"was broken off (exit status {self.exit_status})"
        return ""

    @property
    def cut_short(self) -> bool:
        """Whether it can be resumed: it was interrupted, had an internal error, or never finished."""
        return bool(self.settings) and (not self.ended or self.exit_status in RESUMABLE)

    @property
    def switched_off(self) -> tuple[str, ...]:
        """The checks that were switched off in any part of the run, one phrase each."""
        found = []
        if any(part.get("gate") == "off" for part in self.parts):
            found.append("the gate (the inventory was not compared)")
        if any(part.get("inventory") for part in self.parts):
            found.append("reading this machine's inventory (a recorded one was used)")
        return tuple(found)

    @property
    def replayed(self) -> bool:
        """Whether it used a recorded inventory that may be of another machine."""
        recorded = any(part.get("inventory") for part in self.parts)
        return recorded and MACHINE not in (self.looked_at or ())

    @property
    def quiet_limits(self) -> str:
        """The option that widened the limits of noise in any part; empty if none did."""
        return widened(self.parts)

    @property
    def parts(self) -> list[Mapping[str, Any]]:
        """The settings of each part of the run: of its start, and of every resumption."""
        return [self.settings, *(e.settings for e in self.events if isinstance(e, Resumed))]

    @property
    def waived(self) -> frozenset[str]:
        """Tests that failed as their own xfail mark expects, which repeats no attempt."""
        expected = frozenset(r.test for r in self.results if r.outcome == "xfailed")
        return expected - {one.test for one in self.repeats}

    @property
    def hardware(self) -> tuple[HardwareFound, ...]:
        """The reports of the hardware from all parts of the run, in order."""
        return tuple(event for event in self.events if isinstance(event, HardwareFound))

    @property
    def cards(self) -> dict[str, str]:
        """Device under test -> slot and serial number of its card in words, as far as they are known."""
        return card_texts(self.devices, self.inventory)

    @property
    def ambient_overheating(self) -> str:
        """Why heat is not the fault of one card, in words; empty if it is, or if nothing was hot.

        The only card of a node is blamed unless a sensor of the air shows that the room is hot.
        """
        found = self.hardware
        slowed = {event.device for event in found if event.sort == THERMAL}
        cards = {name for name in self.devices if ":" in name}  # cuda:0; a CPU has no number
        air = next((event.text for event in found if event.sort == HOT_AIR), "")
        if slowed and air:
            return air
        if len(cards) > 1 and slowed >= cards:
            return f"all {len(cards)} cards were slowed by heat"
        return ""

    @property
    def excused(self) -> frozenset[str]:
        """Tests whose low values a hot room or chassis explains."""
        if not self.ambient_overheating:
            return frozenset()
        return frozenset(
            test for event in self.hardware if event.sort == THERMAL for test in event.tests
        )

    @property
    def driver_words(self) -> tuple[str, ...]:
        """The drivers' messages that decide nothing, in one line; empty if there are none."""
        texts = (e.text for e in self.hardware if e.sort == EVIDENCE and e.module is None)
        words = list(dict.fromkeys(texts))
        more = f"; and {len(words) - 3} more in the journal" if len(words) > 3 else ""
        return (f"kernel log: {'; '.join(words[:3])}{more}",) if words else ()

    @property
    def waivers(self) -> tuple[Waiver, ...]:
        """The waivers of the latest part of the run."""
        return next((e.waivers for e in reversed(self.events) if isinstance(e, WaiversRead)), ())

    @property
    def reached(self) -> tuple[MetricVerdict, ...]:
        """The verdicts before waivers, with failures under widened limits of noise marked."""
        return self._in_noise(self.verdicts)

    def _in_noise(self, verdicts: Iterable[MetricVerdict]) -> tuple[MetricVerdict, ...]:
        noisy = bool(self.quiet_limits)
        return tuple(in_noise(v) if noisy and not v.run else v for v in verdicts)

    @property
    def effective_verdicts(self) -> tuple[MetricVerdict, ...]:
        """The verdicts as they count.

        A failure that an xfail mark expects or a waiver covers is waived. A slow result is INCONCLUSIVE if
        the room or chassis was too hot, and to be measured again if the limits of noise were widened. The
        marks and waivers of a collected run have been applied to its verdicts already.
        """
        waived = self.waived
        excused = self.excused
        why = self.ambient_overheating
        waivers = self.waivers
        if not (waived or excused or waivers):
            return self.reached
        fail_on = str(self.settings.get("fail_on", ""))

        def counted(verdict: MetricVerdict) -> MetricVerdict:
            if verdict.run:
                return verdict
            if verdict.test in waived:
                verdict = waived_verdict(verdict)
            elif verdict.test in excused:
                verdict = _excused_verdict(verdict, why)
            return with_waiver(verdict, waivers, fail_on)

        return self._in_noise(map(counted, self.verdicts))

    @property
    def lanes(self) -> tuple[LaneCores, ...]:
        """The CPUs of each lane in the latest part of the run; empty without accelerators."""
        found = (e.lanes for e in reversed(self.events) if isinstance(e, LanesPlaced))
        return next(found, ())

    @property
    def deaths(self) -> tuple[str, ...]:
        """One line for every worker that died, and for every lane that was given up."""
        return tuple(
            given_up_text(e.lane) if isinstance(e, LaneGivenUp) else f"{died_at(e)}: {e.text}"
            for e in self.events
            if isinstance(e, WorkerDied | LaneGivenUp)
        )

    @property
    def blockers(self) -> tuple[Blocker, ...]:
        """The blockers without a verdict, deaths first.

        A resumed run keeps the blockers of its earlier parts, except those that every part checks again, and
        files that have been collected since.
        """
        found: list[BlockerFound] = []
        damage: list[Blocker] = []
        for event in self.events:
            if isinstance(event, Resumed):
                found = [blocker for blocker in found if not blocker.found_anew]
            elif isinstance(event, BlockerFound):
                found.append(event)
            elif isinstance(event, DamageFound):
                damage.append(Blocker(cause=event.text))
        files = {plan.test.partition("::")[0] for plan in self.planned}
        stay = dict.fromkeys(b.blocker for b in found if not b.file or b.file not in files)
        return (*(Blocker(cause=line) for line in self.deaths), *damage, *stay)

    @property
    def repeats(self) -> tuple[TestRepeated, ...]:
        """Every attempt of a test that failed and was repeated."""
        return tuple(event for event in self.events if isinstance(event, TestRepeated))

    @property
    def choice(self) -> Mapping[str, Any] | None:
        """The Selector's latest choice as plain data; None without a Selector."""
        choices = (e.choice for e in reversed(self.events) if isinstance(e, BenchmarksChosen))
        return next(choices, None)

    @property
    def budget(self) -> tuple[float, float] | None:
        """Seconds of the choice within a budget and of the full set; None if nothing was left out."""
        choice = self.choice or {}
        # Chosen benchmarks that the end of the budget left out.
        late = {one.benchmark for one in self.verdicts if one.reason is Reason.PRUNED}
        if choice.get("mode") != "budget" or not (choice.get("pruned") or late):
            return None
        try:
            costs = {item["benchmark"]: item["cost_seconds"] for item in choice.get("picked") or ()}
            spent = choice["cost"] - sum(costs.get(name, 0.0) for name in late)
            return spent, float(choice["full_cost"])
        except (TypeError, KeyError, ValueError):
            return None  # a damaged journal


def died_at(event: WorkerDied) -> str:
    """Return where a worker died."""
    return event.test or f"lane {event.lane}, while no test was running"


def given_up_text(lane: str) -> str:
    """Return the line about a lane that the run has given up."""
    return f"lane {lane} is given up: its workers died again and again"


def card_texts(devices: Iterable[str], inventory: Mapping[str, Any]) -> dict[str, str]:
    """Return device -> slot and serial number of its card in words, as far as an inventory has them.

    A pair (``cuda:0>cuda:3``) counts as its two devices.
    """
    found = {}
    accelerators = inventory.get("accelerators") or ()
    for device in (end for name in devices for end in name.split(">")):
        number = card_number(device)
        if number is not None and number < len(accelerators):
            card = accelerators[number]
            slot, serial = (str(card.get(key) or "") for key in ("pci", "serial"))
            words = [f"slot {slot}"] if slot else []
            words += [f"serial number {serial}"] if serial not in ("", REDACTED) else []
            if words:
                found[device] = ", ".join(words)
    return found


def _excused_verdict(verdict: MetricVerdict, why: str) -> MetricVerdict:
    """Return a bad verdict as excused by heat, which makes a card slow but never wrong."""
    bad = verdict.outcome in (Outcome.FAIL, Outcome.MARGINAL)
    if not bad or verdict.value is None or verdict.better == "equal":
        return verdict
    return replace(
        verdict,
        outcome=Outcome.INCONCLUSIVE,
        reason=Reason.DISTURBED,
        text=f"{verdict.text}; but {why}: mend the cooling, then measure again",
        retest="",
    )


_HEAD = tuple(field.name for field in fields(RunHead))


def run_of(head: RunStarted, **more: Any) -> RunRecord:
    """Return a run from its first event and further fields."""
    return RunRecord(**{name: getattr(head, name) for name in _HEAD} | more)
