"""Runs: everything that one execution recorded, as its events tell it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
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
    RunStarted,
    TestRepeated,
    WorkerDied,
)
from pytest_anubis.core.field_types import Rare
from pytest_anubis.core.inventory import REDACTED
from pytest_anubis.core.measurement import LaneCores, Measurement, PlannedTest, Purpose, TestResult
from pytest_anubis.core.verdict import (
    MetricVerdict,
    NodeVerdict,
    Outcome,
    Reason,
    Waiver,
)
from pytest_anubis.core.waivers.waiving import WaiversRead, waived_verdict, with_waiver
from pytest_anubis.core.waivers.widened_limits import in_noise, widened

CAME_TO_ITS_END = (0, 1, 5, 20)
"""Exit statuses of a run that was not broken off: accepted, rejected, nothing collected, undecided. Others
tell of an interruption, an internal error or a wrong usage, or were given to ``pytest.exit``."""


THERMAL = "thermal-slowdown"
"""Sort of `HardwareFound`: a card's clocks were lowered for heat."""

HOT_AIR = "hot-air"
"""Sort of `HardwareFound`: the air that the node takes in is hotter than its cards are made for."""

EVIDENCE = "evidence"
"""Sort of `HardwareFound`: words of a driver that decide nothing by themselves, and are listed."""

RESUMABLE = (2, 3)
"""Exit statuses of runs that can be gone on with: pytest's for interrupted, and for failed inside."""

WRONG_USE = 4
"""Exit status of a wrong usage; a run with a benchmark that is written wrongly was decided all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvidence:
    """What the runs of a node say about it besides its samples.

    Attributes:
        verdicts: On what has no sample: the inventory, tests that failed or did not run, what was pruned.
        blockers: What prevents acceptance: a worker that died, a device that was hidden, a run that was
            broken off.
        notes: What is only reported: attempts that failed and were repeated.
        residual_risk: Probability of an incident that pruned benchmarks leave; None if nothing was pruned.
        residual_interval: Its 95 % interval; None if unknown.
        budget: Seconds of what the Selector chose within a budget, and of the full set; None where nothing
            was left out for one.
        devices: Devices that tests of every device were to run on.
        caveats: What was switched off, for the headline.
        planned: Benchmark or plain test, and device, of every test that was to run.
        broken_off: Run that did not come to its end -> what happened to it; nothing of it rejects.
        cards: Device -> slot and serial number of its card, as far as they are known.
        waivers: The failures that somebody answers for, as its runs had them, or for all of them.
        waivers_of: Run -> those that it had itself, where several runs were collected; empty: `waivers` are
            for all of them.
        machines: Marks of its machine (`machine_identity.py`), one set for each that its runs came from.
        other_machine: Its runs were asked to accept by the baseline of one other machine.
        required: Components, benchmarks and metrics that it must have run; empty: all.
        noisy: Run, empty while it goes on -> the option that let its machine be noisier than usual.
        deaths: Run, likewise, benchmark and device of tests whose process died, which `blockers` tell.
        missing: How many of its values are missing and need not be there, and of how many.
    """

    verdicts: tuple[MetricVerdict, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    notes: tuple[str, ...] = ()
    residual_risk: float | None = None
    residual_interval: tuple[float, float] | None = None
    budget: tuple[float, float] | None = None
    devices: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    planned: frozenset[tuple[str, str]] = frozenset()
    broken_off: Mapping[str, str] = field(default_factory=dict)
    cards: Mapping[str, str] = field(default_factory=dict)
    waivers: tuple[Waiver, ...] = ()
    waivers_of: Mapping[str, tuple[Waiver, ...]] = field(default_factory=dict)
    machines: frozenset[frozenset[str]] = frozenset()
    other_machine: bool = False
    required: tuple[str, ...] = ()
    noisy: Mapping[str, str] = field(default_factory=dict)
    deaths: frozenset[tuple[str, str, str]] = frozenset()
    missing: tuple[int, int] = (0, 0)

    def waivers_for(self, run: str) -> tuple[Waiver, ...]:
        """Return the waivers that one run's failures are held against: a run hides no failure of another."""
        return self.waivers_of.get(run, ()) if self.waivers_of else self.waivers

    def with_more(self, more: RunEvidence) -> RunEvidence:
        """Return both; of two risks the larger one."""
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
            required=tuple(dict.fromkeys((*self.required, *more.required)))
            if self.required and more.required
            else (),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One run, complete or cut short, as `run_state.RunState` has it at one moment.

    Attributes:
        run: Id of the run.
        node: Name of the node that was measured.
        hardware_class: Key of the node's hardware class.
        attributes: What the key was made of.
        profile: ``smoke``, ``standard`` or ``soak``.
        started: ISO 8601, UTC.
        ended: ISO 8601, UTC; empty when the run never finished.
        purpose: ``measure`` only recorded, ``learn`` recorded for a baseline, ``acceptance`` judged.
        exit_status: pytest's exit status; None when the run never finished.
        inventory: The node's inventory as plain data; may be empty.
        settings: The settings of the run as plain data; may be empty.
        baseline: Digest of the baseline that the run was judged with; empty if none.
        devices: Devices that tests of every device run on; empty if none was given.
        tests: Its tests as they were typed, quoted for a shell; empty if unknown.
        root: The folder in which the tests' ids begin, from where they were typed; empty: the same.
        traits: What a table says of the node besides: its driver, firmware, batch, rack, ...
        took: Benchmark -> its seconds on the node, of an imported file that says them.
        file_dated: `started` is when the imported file was last written, as it names no time.
        unread: Lines of an imported file about the node that could not be read.
        looked_at: What besides tests was looked at in all its parts, as in `RunStarted`.
        after: Id of the node's run before it in its store; empty if unknown.
        campaign: The soak that it is a cycle of; empty if it is none.
        cause: What broke the run off, as far as it knows; empty if nothing did.
        planned: Every test that the run meant to execute.
        results: How every test ended; a planned test without an end is ``not reported``.
        measurements: In the order in which they were recorded; what a test had measured when it was cut
            short, and ran again later, is among the events as attempts.
        verdicts: In the order in which they were reached; of a test that was repeated, those of its last
            attempt. Each knows its test.
        node_verdict: What was decided about the node; None when the run did not get that far.
        events: All other events (deaths of workers, attempts, the Selector's choice, ...), in order.
        warnings: What was wrong with the journal itself, one line each.
    """

    run: str
    node: str
    hardware_class: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    profile: str = ""
    started: str = ""
    ended: str = ""
    purpose: Purpose = "measure"
    exit_status: int | None = None
    inventory: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    baseline: str = ""
    devices: tuple[str, ...] = ()
    tests: str = ""
    root: str = ""
    traits: Annotated[Mapping[str, str], Rare] = field(default_factory=dict)
    took: Annotated[Mapping[str, float], Rare] = field(default_factory=dict)
    file_dated: Annotated[bool, Rare] = False
    unread: Annotated[int, Rare] = 0
    looked_at: Annotated[tuple[str, ...] | None, Rare] = None
    behind: Annotated[float, Rare] = 0.0
    after: Annotated[str, Rare] = ""
    campaign: Annotated[str, Rare] = ""
    cause: str = ""
    planned: tuple[PlannedTest, ...] = ()
    results: tuple[TestResult, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    verdicts: tuple[MetricVerdict, ...] = ()
    node_verdict: NodeVerdict | None = None
    events: tuple[Event, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def head(self) -> RunStarted:
        """How the run began."""
        return RunStarted(**{name: getattr(self, name) for name in _HEAD})

    @property
    def broken_off(self) -> str:
        """What happened to the run, so that nothing may be concluded from its end; empty if nothing did."""
        if not self.ended:
            return "never finished"
        if self.cause:
            return f"was broken off: {self.cause}"
        wrongly_written = self.exit_status == WRONG_USE and self.node_verdict is not None
        if self.exit_status not in CAME_TO_ITS_END and not wrongly_written:
            return f"was broken off (exit status {self.exit_status})"
        return ""

    @property
    def cut_short(self) -> bool:
        """Whether it can be gone on with: it was interrupted or failed inside, or never came to its end."""
        return bool(self.settings) and (not self.ended or self.exit_status in RESUMABLE)

    @property
    def switched_off(self) -> tuple[str, ...]:
        """What was taken away from the checks in any part of the run, one phrase each."""
        parts, found = self.parts, []
        if any(part.get("gate") == "off" for part in parts):
            found.append("the gate (the inventory was not compared)")
        if any(part.get("inventory") for part in parts):
            found.append("reading this machine's inventory (a recorded one was used)")
        return tuple(found)

    @property
    def replayed(self) -> bool:
        """Whether a recorded inventory was used that is not known to be one of the machine that measured."""
        recorded = any(part.get("inventory") for part in self.parts)
        return recorded and MACHINE not in (self.looked_at or ())

    @property
    def quiet_limits(self) -> str:
        """The option by which the machine was let be noisier than usual in any part; empty if it was not."""
        return widened(self.parts)

    @property
    def parts(self) -> list[Mapping[str, Any]]:
        """The settings of each part of the run: of its start, and of every time that it was gone on with."""
        return [self.settings, *(e.settings for e in self.events if isinstance(e, Resumed))]

    @property
    def waived(self) -> frozenset[str]:
        """Tests that failed as their own xfail mark expects."""
        return frozenset(r.test for r in self.results if r.outcome == "xfailed")

    @property
    def hardware(self) -> tuple[HardwareFound, ...]:
        """What the hardware itself reported, in order; a resumed run keeps what its earlier part found."""
        return tuple(event for event in self.events if isinstance(event, HardwareFound))

    @property
    def cards(self) -> dict[str, str]:
        """Device under test -> slot and serial number of its card in words, as far as they are known."""
        return card_texts(self.devices, self.inventory)

    @property
    def ambient_overheating(self) -> str:
        """Why heat was not one card's own, in words; empty if it was, or if nothing was hot.

        A card alone cannot be told from its room: without a sensor of the air it is blamed.
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
        """Tests whose values a hot room or chassis explains: they speak against no card."""
        if not self.ambient_overheating:
            return frozenset()
        return frozenset(
            test for event in self.hardware if event.sort == THERMAL for test in event.tests
        )

    @property
    def driver_words(self) -> tuple[str, ...]:
        """What drivers logged that decides nothing by itself, in one line for people; empty if nothing."""
        words = list(dict.fromkeys(e.text for e in self.hardware if e.sort == EVIDENCE))
        more = f"; and {len(words) - 3} more in the journal" if len(words) > 3 else ""
        return (f"kernel log: {'; '.join(words[:3])}{more}",) if words else ()

    @property
    def waivers(self) -> tuple[Waiver, ...]:
        """The failures that somebody answers for, as the latest part of the run had them."""
        found = (e.waivers for e in reversed(self.events) if isinstance(e, WaiversRead))
        return next(found, ())

    @property
    def reached(self) -> tuple[MetricVerdict, ...]:
        """The verdicts as they were reached, whoever answers for them, and marked where noise was allowed."""
        return self._in_noise(self.verdicts)

    def _in_noise(self, verdicts: Iterable[MetricVerdict]) -> tuple[MetricVerdict, ...]:
        noisy = bool(self.quiet_limits)
        return tuple(in_noise(v) if noisy and not v.run else v for v in verdicts)

    @property
    def effective_verdicts(self) -> tuple[MetricVerdict, ...]:
        """The verdicts as they count: what an xfail mark expects, or a waiver covers, is no failure.

        Where the room or chassis was too hot for all cards, what is slow for that is INCONCLUSIVE. What names
        the collected run that it is about was held against that run's waivers and marks already. What is slow
        is to be measured again where the machine was let be noisy.
        """
        waived, excused, why = self.waived, self.excused, self.ambient_overheating
        if not (waived or excused or self.waivers):
            return self.reached
        told = (
            v
            if v.run
            else waived_verdict(v)
            if v.test in waived
            else _excused_verdict(v, why)
            if v.test in excused
            else v
            for v in self.verdicts
        )
        waivers, fail_on = self.waivers, str(self.settings.get("fail_on", ""))
        return self._in_noise(v if v.run else with_waiver(v, waivers, fail_on) for v in told)

    @property
    def lanes(self) -> tuple[LaneCores, ...]:
        """Which lane worked on which CPUs, in the latest part of the run; empty without accelerators."""
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
        """What stands between the node and acceptance and has no verdict: deaths first.

        An earlier part of a resumed run is not repeated, so what blocked it stays, but for what every part
        looks for anew, and files of which tests could be collected since.
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
        """The Selector's latest choice as plain data; None where it took no part."""
        found = (e.choice for e in reversed(self.events) if isinstance(e, BenchmarksChosen))
        return next(found, None)

    @property
    def budget(self) -> tuple[float, float] | None:
        """Seconds of what was chosen within a budget and of the full set; None where nothing was left out."""
        choice = self.choice or {}
        late = {one.benchmark for one in self.verdicts if one.reason is Reason.PRUNED}
        if choice.get("mode") != "budget" or not (choice.get("pruned") or late):
            return None
        try:  # of what was chosen, the end of the budget left some out
            costs = {item["benchmark"]: item["cost_seconds"] for item in choice.get("picked") or ()}
            spent = choice["cost"] - sum(costs.get(name, 0.0) for name in late)
            return spent, float(choice["full_cost"])
        except (TypeError, KeyError, ValueError):
            return None  # a damaged journal


def died_at(event: WorkerDied) -> str:
    """Return where a worker died."""
    return event.test or f"lane {event.lane}, while no test was running"


def given_up_text(lane: str) -> str:
    """Return that nothing more runs on a lane."""
    return f"lane {lane} is given up: its workers died again and again"


def card_texts(devices: Iterable[str], inventory: Mapping[str, Any]) -> dict[str, str]:
    """Return device -> slot and serial number of its card in words, as far as an inventory knows them.

    A pair (``cuda:0>cuda:3``) represents its two ends.
    """
    found = {}
    accelerators = inventory.get("accelerators") or ()
    for device in (end for name in devices for end in name.split(">")):
        position = device.partition(":")[2]
        if position.isdecimal() and int(position) < len(accelerators):
            slot, serial = (
                str(accelerators[int(position)].get(k) or "") for k in ("pci", "serial")
            )
            told = [f"slot {slot}"] if slot else []
            told += [f"serial number {serial}"] if serial not in ("", REDACTED) else []
            found[device] = ", ".join(told)
    return {device: words for device, words in found.items() if words}


def _excused_verdict(verdict: MetricVerdict, why: str) -> MetricVerdict:
    """Return a bad verdict on a metric as one that heat excuses: it makes a card slow, never wrong."""
    bad = verdict.outcome in (Outcome.FAIL, Outcome.MARGINAL)
    if not bad or verdict.value is None or verdict.better == "equal":
        return verdict
    return dataclasses.replace(
        verdict,
        outcome=Outcome.INCONCLUSIVE,
        reason=Reason.DISTURBED,
        text=f"{verdict.text}; but {why}: mend the cooling, then measure again",
        retest="",
    )


_HEAD = tuple(field.name for field in dataclasses.fields(RunStarted))


def run_of(head: RunStarted, **more: Any) -> RunRecord:
    """Return a run that has begun so, with what else is known of it."""
    return RunRecord(**{name: getattr(head, name) for name in _HEAD} | more)
