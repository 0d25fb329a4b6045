"""Find a node's standing: the decision that follows from all its runs, in the order in which they began.

A rejection stays until a later run that is at least as strict passes what had failed, or until the operator
closes its defect or puts the node into service again. A run is as strict if its profile is no shorter and
its reference no weaker: a fleet's baseline, then other devices, then the node's own past (`strength`).
Waivers count as of today: a waived failure rejects the node from the day on which its waiver ends. The cycles
of a soak count as one run, the worst of them.

A history's retention keeps `Standing.needed`, from which the present standing follows; `kept_runs` keeps
`relevant_runs`, which suffice also if a run comes in late.

`kept_runs`, `last_runs`, `fleet_verdict` and others use it for a node's standing, `later_runs` to find which
failures a later run clears.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Annotated

from pytest_anubis.core.field_types import Rare
from pytest_anubis.core.verdict import Decision, Outcome, Reason, Reference, Waiver

Key = tuple[str, str, str, str]
"""Benchmark, metric, device and group of comparable units; a test's own check has no metric."""

GATE: Key = ("inventory", "", "", "")
"""Passes where the inventory was compared with that of the class and nothing of it was wrong."""
GONE = "gone"  # metric of `GATE` that says of each device of a table whether it has any value
HARDWARE = "hardware"  # benchmark of its own reports; without a metric it passes where one looked
_NEXT = 1e-3  # seconds by which a run begins after the one before it, at least
_BADNESS = ("", Decision.ACCEPTED, Decision.UNDECIDED, Decision.REJECTED)
WHOLE: Key = ("", "", "", "")  # what rejects a run in which nothing failed by name
_LENGTHS = ("", "smoke", "standard", "soak")  # profiles, shortest first; old records have none

Said = tuple[Key, Outcome, Reason, Reference, Waiver | None]
"""A verdict: its key, outcome, reason, what the value was compared with, and who answers for its failure."""

Holds = Callable[[Waiver], bool]
"""Returns whether a waiver that covered a failure in its run still holds today."""

XFAIL = Waiver(owner="", reason="the test's xfail mark", expires="")
"""The waiver of an xfail mark, or an old row of a history: no owner, no last day; for its own run only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRun:
    """What a run says about its node."""

    run: str  # its id
    began: float  # when it began, seconds since 1970
    ended: float = 0.0  # when it ended, or began where that is unknown
    decision: str = ""  # its decision; empty for a run without a verdict
    # What rejected the node; of a run that was broken off, undecided, what failed by then
    failed: tuple[Key, ...] = ()
    passed: tuple[Key, ...] = ()  # what was judged and not bad
    benchmarks: tuple[str, ...] = ()  # benchmarks that recorded values
    answered: bool = False  # somebody closed its defect
    number: int = 0  # its number in a history
    profile: str = ""  # its profile; empty if unknown
    # Keys of `failed` and `passed` that only the node's other devices, or a baseline of its own
    # machine, judged
    by_peers: tuple[Key, ...] = ()
    # Keys of `failed` and `passed` that only earlier runs of the node, or a specification, judged
    by_past: tuple[Key, ...] = ()
    # Keys of `failed` and `passed` that were MARGINAL, not FAIL or PASS
    marginal: tuple[Key, ...] = ()
    after: str = ""  # id of the node's run before it, whatever the clocks said; empty if unknown
    undated: bool = False  # its clock was behind its baseline: when it took place is unknown
    # What failed and was covered by a waiver or an xfail mark, with that waiver
    waived: tuple[tuple[Key, Waiver], ...] = ()
    campaign: Annotated[str, Rare] = ""  # the soak that it is a cycle of; empty if it is none
    # The operator allowed more noise than usual, so it confirms nothing
    noisy: Annotated[bool, Rare] = False
    # The accelerators whose baseline judged it (`model_of`); empty if unknown
    model: Annotated[str, Rare] = ""
    # It rejected the node for what is to be measured again first, or for a shared cause
    retest: Annotated[bool, Rare] = False

    @property
    def rejected(self) -> bool:
        """Whether it rejected the node."""
        return self.decision == Decision.REJECTED

    @property
    def found(self) -> tuple[Key, ...]:
        """What it found bad: what rejected the node, and what was waived."""
        return (*self.failed, *(key for key, _ in self.waived))

    def waiver(self, key: Key) -> Waiver | None:
        """Return the waiver that covered a failure in this run; None if none did."""
        return next((waiver for one, waiver in self.waived if one == key), None)

    def same_campaign(self, other: JudgedRun) -> bool:
        """Whether both are cycles of one soak."""
        return self.campaign == other.campaign != ""

    def seen_only(self, key: Key) -> bool:
        """Whether it saw something fail and rejected nothing for it, since it was broken off."""
        return key in self.failed and not self.rejected

    def strength(self, key: Key) -> int:
        """Rank of what it judged by: 0 own past, 1 other devices or own baseline, 2 that of a fleet."""
        return 0 if key in self.by_past else 1 if key in self.by_peers else 2

    @property
    def looked(self) -> frozenset[Key]:
        """Where it looked for faults of the hardware that no test shows."""
        return frozenset(
            key for key in self.passed if key[0] in (HARDWARE, GATE[0]) and not key[1] and key[2]
        )

    @property
    def order(self) -> tuple[float, int, str]:
        """Sorts runs by their beginning; of those of one moment a rejection comes last."""
        return self.began, _BADNESS.index(self.decision), self.run


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The decision on a node that follows from all its runs."""

    # REJECTED while a failure is open; UNDECIDED if `answered`; else that of the latest judged run,
    # of a soak the worst cycle; None without one
    decision: Decision | None = None
    # The run that decides; of several that reject the latest that is sure. It may have accepted:
    # see `lapsed`.
    by: JudgedRun | None = None
    # `by` rejected the node, but none of its failures is open: the node must be measured again
    answered: bool = False
    # Open failures -> the runs that found them, none as strict as one before it
    failures: Mapping[Key, tuple[JudgedRun, ...]] = field(default_factory=dict)
    # When the first run that found any of it began, seconds since 1970; None where nothing fails
    since: float | None = None
    # What of it more than one run found, so that it has been measured again already
    confirmed: frozenset[Key] = frozenset()
    needed: frozenset[str] = frozenset()  # ids of the runs from which the same follows

    @property
    def lapsed(self) -> tuple[tuple[Key, Waiver], ...]:
        """Failures of `by` that a waiver covered then and no waiver covers now."""
        own = self.by.waived if self.by else ()
        return tuple(one for one in own if self.by in self.failures.get(one[0], ()))


def standing_of(
    runs: Iterable[JudgedRun], holds: Holds, *, in_service: float | None = None
) -> Standing:
    """Return a node's standing by all its runs, given in any order.

    Args:
        runs: Its runs; those without a verdict say nothing.
        holds: Returns whether a waiver still holds today (`waiving.holds_on`, `holds_among`).
        in_service: When the operator put it into service again, seconds since 1970: all earlier failures are
            closed then, except waived ones; None: never.
    """
    ordered = in_order(one for one in runs if one.decision)
    if not ordered:
        return Standing()
    found, confirmed, settled, first = _findings(ordered, in_service)
    standing = {key: _uncovered(key, several, holds) for key, several in found.items()}
    standing = {key: several for key, several in standing.items() if several}
    latest = _latest(ordered)
    open_yet = [
        (not by.seen_only(key), key in confirmed or not by.retest, by.order, by)
        for key, many in standing.items()
        for by in many
    ]
    rejects, *_, by = max(open_yet, key=lambda one: one[:3], default=(False, latest[0]))
    answered = by.rejected and not standing
    needed = {one.run for one in latest} | {
        *(one.run for several in found.values() for one in several)
    }
    fresh = set(needed)
    while fresh:  # what settled a run, what settled that, and so on
        fresh = {one for name in fresh & settled.keys() for one in settled[name]} - needed
        needed |= fresh
    decision = Decision.REJECTED if rejects else Decision(by.decision)
    return Standing(
        decision=Decision.UNDECIDED if answered else decision,
        by=by,
        answered=answered,
        failures=standing,
        since=min((first[key] for key in standing), default=None),
        confirmed=frozenset(confirmed & standing.keys()),
        needed=frozenset(needed),
    )


def _latest(ordered: Sequence[JudgedRun]) -> list[JudgedRun]:
    """Return the run with the latest decision, then the other runs that it follows from.

    It is the last run; if that is a cycle of a soak, the worst of the cycles since any other run.
    """
    last = ordered[-1]
    cycles = list(takewhile(lambda one: one is last or one.same_campaign(last), reversed(ordered)))
    worst = max(cycles, key=lambda one: (_BADNESS.index(one.decision), one.order))
    return [worst, last, *(ordered[: -len(cycles)][-1:] if last.campaign else ())]


def _findings(
    ordered: Iterable[JudgedRun], in_service: float | None = None
) -> tuple[dict[Key, tuple[JudgedRun, ...]], set[Key], dict[str, set[str]], dict[Key, float]]:
    """Return the failures that no later run passed, as if no waiver held, with their origins.

    Returns:
        Failure -> the runs that found it, none as strict as one before it; what more than one run found; id
        of a run -> ids of the runs that passed some of its failures, or found them again; and failure -> when
        the first run that found it, since it was last passed, began.
    """
    first: dict[Key, float] = {}
    standing: dict[Key, tuple[JudgedRun, ...]] = {}
    confirmed: set[Key] = set()
    settled: dict[str, set[str]] = {}  # a run that rejects -> those that settled some of it
    for run in ordered:
        passed = frozenset(run.passed)
        for key, several in list(standing.items()):
            gone = [by for by in several if _settles(run, passed, key, by)]
            standing[key] = tuple(by for by in several if by not in gone)
            for by in gone:
                settled.setdefault(by.run, set()).add(run.run)
        answered = run.answered or (in_service is not None and in_service > run.ended)
        # No operator closes what only a waiver covered.
        open_yet = tuple(key for key, _ in run.waived) if answered else run.found
        again = standing.keys() & open_yet & set(run.failed)
        confirmed.update(set() if run.noisy else again - {WHOLE})
        for key in open_yet:
            several = standing.get(key, ())
            gone = [
                by for by in several if _replaces(run, key, by) and _as_strict(run, passed, key, by)
            ]
            for by in gone:
                settled.setdefault(by.run, set()).add(run.run)
            standing[key] = (*(by for by in several if by not in gone), run)
            first.setdefault(key, run.began)
        standing = {key: several for key, several in standing.items() if several}
        confirmed &= standing.keys()
        first = {key: began for key, began in first.items() if key in standing}
    return standing, confirmed, settled, first


def _replaces(run: JudgedRun, key: Key, by: JudgedRun) -> bool:
    """Return whether a run's finding may replace that of an earlier run, `by`.

    A failure of a run that rejected nothing replaces only failures of such runs. A FAIL replaces no MARGINAL,
    which only a PASS ends. A waived failure replaces only waived ones, and none of a run that accepted the
    node if its own run did not.
    """
    if key in run.failed:
        milder = key in by.marginal and key not in run.marginal
        return not milder and (run.rejected or by.seen_only(key))
    earlier, own = by.waiver(key), run.waiver(key)
    weaker = by.decision == Decision.ACCEPTED != run.decision
    marked = own is None or not own.owner  # by an xfail mark, which renews no waiver
    return earlier is not None and not weaker and not (marked and earlier.owner)


def _uncovered(key: Key, several: Sequence[JudgedRun], holds: Holds) -> tuple[JudgedRun, ...]:
    """Return the runs whose finding counts: no waiver that is valid today covers it.

    A waiver covers the finding of its own run. One with an owner (not an xfail mark) also covers earlier
    findings that were waived, and others if its run was as strict and accepted the node.
    """
    waivers = {run.run: run.waiver(key) for run in several}
    holding = [run for run in several if (one := waivers[run.run]) is not None and holds(one)]

    def covers(run: JudgedRun, by: JudgedRun) -> bool:
        own = waivers[run.run]
        if run is by or run.began <= by.began or own is None or not own.owner:
            return run is by
        accepted = run.decision == Decision.ACCEPTED
        strict = accepted and _as_strict(run, frozenset(run.passed), key, by)
        return waivers[by.run] is not None or strict

    return tuple(by for by in several if not any(covers(run, by) for run in holding))


def in_order(runs: Iterable[JudgedRun]) -> list[JudgedRun]:
    """Return runs of a node in the order in which they began.

    A rejection that is known to have come after another run begins after it here, whatever its clock said.
    Runs that only passed are not moved: two runs may have one id, and an uncertain order clears nothing.
    A rejection by a clock that is known to have been wrong comes last, or just before what came after it.
    """
    found = sorted(runs, key=lambda one: one.order)
    began = {one.run: one.began for one in found}
    end = max(began.values(), default=0.0) + _NEXT
    for one in found:
        if one.undated and one.found:
            later = (began[other.run] - _NEXT for other in found if other.after == one.run)
            began[one.run] = min(later, default=end)
    for _ in found:  # which ends a circle; mostly there is nothing to do
        early = [one for one in found if one.after in began and began[one.run] <= began[one.after]]
        for one in early:
            began[one.run] = began[one.after] + _NEXT
        if not early:
            break
    follows = {one.after: began[one.run] for one in reversed(found) if one.after}
    moved = (
        replace(one, began=began[one.run], ended=min(one.ended, follows.get(one.run, one.ended)))
        if one.found and (one.after or one.undated or one.run in follows)
        else one
        for one in found
    )
    return sorted(moved, key=lambda one: one.order)


def _settles(run: JudgedRun, passed: frozenset[Key], key: Key, by: JudgedRun) -> bool:
    """Return whether a later run clears a failure that an earlier one had found.

    A report of the hardware cannot pass: it is cleared when a later run as strict accepts the node without
    such a report. A rejection for a MARGINAL is cleared only by a PASS. A run that began before the other one
    had ended may have measured first.
    """
    if run.same_campaign(by) or (key in by.marginal and key in run.marginal):
        return False
    later = by.began < run.began >= by.ended
    if key in run.found or not later or not _as_strict(run, passed, key, by):
        return False
    if key in passed or (key[0] == GATE[0] and GATE in passed):
        return True
    return (key == WHOLE or key[0] == HARDWARE) and run.decision == Decision.ACCEPTED


def _as_strict(run: JudgedRun, passed: frozenset[Key], key: Key, by: JudgedRun) -> bool:
    """Return whether a run tested a failure of another run as strictly as that run.

    For a failure without a test, it must have measured all that the other run did, and looked where that did.
    """
    looked = passed >= {one for one in by.looked if key == WHOLE or one[0] == key[0]}
    if key[0] == GATE[0]:
        return looked
    if "" not in (run.model, by.model) and run.model != by.model:  # what is normal of other cards
        return False
    if not _as_long(run.profile, by.profile) or run.strength(key) < by.strength(key):
        return False
    if key != WHOLE and key[0] != HARDWARE:
        return True
    return looked and set(run.benchmarks) >= set(by.benchmarks)


def _as_long(one: str, other: str) -> bool:
    """Return whether a profile measures at least as long as another."""
    known = one in _LENGTHS and other in _LENGTHS
    return one == other or (known and _LENGTHS.index(one) > _LENGTHS.index(other))


def relevant_runs(runs: Iterable[JudgedRun]) -> list[JudgedRun]:
    """Return, in order, the least of the runs from which the standing follows, also if a run comes in late.

    Kept are failures that no run passed, waived ones too, the latest pass of each key at each strictness, a
    MARGINAL one apart, the latest acceptances, and of a soak that came last the worst cycle.
    """
    ordered = in_order(one for one in runs if one.decision)
    open_failures = _findings(ordered)[0]
    latest = _latest(ordered) if ordered else []
    met, accepted, kept = set[object](), list[set[object]](), list[JudgedRun]()
    for run in reversed(ordered):
        ways = {
            key: (key, run.profile, run.model, run.strength(key), key in run.marginal)
            for key in run.passed
        }
        fresh = {key for key, way in ways.items() if way not in met}
        failed = tuple(key for key in run.failed if run in open_failures.get(key, ()))
        waived = tuple(one for one in run.waived if run in open_failures.get(one[0], ()))
        wide: set[object] = {run.profile, *run.benchmarks, *run.looked}
        new = False
        if run.decision == Decision.ACCEPTED:
            new = not any(wide <= one for one in accepted)
            accepted.append(wide)
        if fresh or failed or waived or new or run in latest:
            whole = {*fresh, *run.looked, GATE}
            passed = tuple(key for key in run.passed if key in whole)
            weak = {*passed, *failed, *(key for key, _ in waived)}
            peers, past, marginal = (
                tuple(key for key in keys if key in weak)
                for keys in (run.by_peers, run.by_past, run.marginal)
            )
            kept.append(
                replace(
                    run,
                    passed=passed,
                    failed=failed,
                    waived=waived,
                    by_peers=peers,
                    by_past=past,
                    marginal=marginal,
                )
            )
        met.update(ways.values())
    return kept[::-1]
