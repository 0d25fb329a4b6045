"""What follows for a node from all its runs in the order in which they began: the stronger verdict holds.

A rejection falls only when a later run judged what had failed and passed it, or when somebody answered for it
by name: closed the defect, or put the node into service again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from pytest_anubis.core.verdict import Decision, Outcome, Reason

Key = tuple[str, str, str]
"""Benchmark, metric and device; a test's own check has no metric."""

GATE: Key = ("inventory", "", "")
"""Passes where the inventory was compared with that of the class and nothing of it was wrong."""
GONE = "gone"
"""Metric of `GATE` by which a table tells of each device whether it gave any value."""
_HARDWARE = "hardware"
_WITHOUT_NORM = (Reason.NO_BASELINE, Reason.NO_CRITERION)
_STRENGTH = ("", Decision.ACCEPTED, Decision.UNDECIDED, Decision.REJECTED)
_WHOLE: Key = ("", "", "")  # what rejects a run in which nothing failed by name


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRun:
    """What a run says about its node.

    Attributes:
        run: Its id.
        began: When it began, seconds since 1970.
        ended: When it ended, or began where that is unknown.
        decision: What it came to; empty for a run without a verdict.
        failed: What rejected the node, if it did.
        passed: What was judged and not bad; in an accepted run also what somebody answers for (a waiver).
        benchmarks: Benchmarks that recorded values.
        answered: Somebody closed its defect.
        number: Its number in a history.
    """

    run: str
    began: float
    ended: float = 0.0
    decision: str = ""
    failed: tuple[Key, ...] = ()
    passed: tuple[Key, ...] = ()
    benchmarks: tuple[str, ...] = ()
    answered: bool = False
    number: int = 0

    @property
    def rejected(self) -> bool:
        """Whether it rejected the node."""
        return self.decision == Decision.REJECTED

    @property
    def order(self) -> tuple[float, int, str]:
        """Sorts runs by their beginning; of those of one moment a rejection comes last."""
        return self.began, _STRENGTH.index(self.decision), self.run


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a node stands.

    Attributes:
        decision: REJECTED while a failure stands, else that of its latest judged run; None without one.
        by: That run; of several that reject the latest.
        answered: `by` rejected the node, and somebody has answered for it since: it is to be judged anew.
        failures: What failed and stands -> the run that found it.
        confirmed: What of it more than one run found, so that it has been measured again already.
        needed: Ids of the runs from which the same follows.
    """

    decision: Decision | None = None
    by: JudgedRun | None = None
    answered: bool = False
    failures: Mapping[Key, JudgedRun] = field(default_factory=dict)
    confirmed: frozenset[Key] = frozenset()
    needed: frozenset[str] = frozenset()


def judged_run(
    outcomes: Iterable[tuple[Key, Outcome, Reason]],
    *,
    run: str,
    began: float,
    ended: float | None,
    decision: str,
    benchmarks: Collection[str],
    answered: bool = False,
    number: int = 0,
) -> JudgedRun:
    """Return what a run says about its node, out of its verdicts; of one thing the worst verdict counts."""
    found: dict[Outcome, set[Key]] = {outcome: set() for outcome in Outcome}
    waived = Outcome.PASS if decision == Decision.ACCEPTED else Outcome.NOT_TESTED
    for key, outcome, reason in outcomes:
        if reason not in _WITHOUT_NORM:  # peers or earlier runs may have judged it all the same
            found[waived if reason is Reason.WAIVED else outcome].add(key)
    fail, marginal, fine = (found[one] for one in (Outcome.FAIL, Outcome.MARGINAL, Outcome.PASS))
    rejected = decision == Decision.REJECTED
    failed = (fail or marginal or {_WHOLE}) if rejected else set[Key]()
    bad = fail | found[Outcome.INCONCLUSIVE] | found[Outcome.NOT_TESTED] | failed
    return JudgedRun(
        run=run,
        began=began,
        ended=began if ended is None else ended,
        decision=decision,
        failed=tuple(sorted(failed)),
        passed=tuple(sorted((fine | marginal) - bad)),
        benchmarks=tuple(sorted(benchmarks)),
        answered=answered,
        number=number,
    )


def standing_of(runs: Iterable[JudgedRun], *, in_service: float | None = None) -> Standing:
    """Return where a node stands by all its runs, given in any order.

    Args:
        runs: Its runs; those without a verdict say nothing.
        in_service: When somebody put it into service again, seconds since 1970: what was found before has
            been answered for; None: nobody did.
    """
    ordered = sorted((one for one in runs if one.decision), key=lambda one: one.order)
    standing: dict[Key, JudgedRun] = {}
    confirmed: set[Key] = set()
    settled: dict[str, set[str]] = {}  # a run that rejects -> those that settled some of it
    for run in ordered:
        passed, benchmarks = frozenset(run.passed), frozenset(run.benchmarks)
        for key, by in list(standing.items()):
            if _settles(run, passed, benchmarks, key, by):
                del standing[key]
                confirmed.discard(key)
                settled.setdefault(by.run, set()).add(run.run)
        if run.rejected and not _is_answered(run, in_service):
            confirmed.update(key for key in run.failed if key in standing and key != _WHOLE)
            standing.update(dict.fromkeys(run.failed, run))
    if not ordered:
        return Standing()
    by = max(standing.values(), key=lambda one: one.order, default=ordered[-1])
    needed = {ordered[-1].run, *(one.run for one in standing.values())}
    needed |= {one for name in needed & settled.keys() for one in settled[name]}
    decision = Decision(by.decision)
    return Standing(
        decision=Decision.UNDECIDED if by.rejected and not standing else decision,
        by=by,
        answered=by.rejected and not standing,
        failures=standing,
        confirmed=frozenset(confirmed & standing.keys()),
        needed=frozenset(needed),
    )


def _is_answered(run: JudgedRun, in_service: float | None) -> bool:
    return run.answered or (in_service is not None and in_service > run.ended)


def _settles(
    run: JudgedRun, passed: frozenset[Key], benchmarks: frozenset[str], key: Key, by: JudgedRun
) -> bool:
    """Return whether a later run takes away what an earlier one had found.

    What the hardware reported cannot pass: it falls when a later run accepts the node, measured at least
    what that one had measured, and the hardware reported nothing of the kind.
    """
    if key in run.failed or run.began <= by.began:
        return False
    if key in passed or (key[0] == GATE[0] and GATE in passed):
        return True
    unnamed = key == _WHOLE or key[0] == _HARDWARE
    return unnamed and run.decision == Decision.ACCEPTED and benchmarks >= set(by.benchmarks)


def relevant_runs(runs: Iterable[JudgedRun]) -> list[JudgedRun]:
    """Return as little as the standing follows from, also beside a run that comes in late, in order.

    That is what stands, of everything that passed the latest time, and the latest acceptances.
    """
    ordered = sorted((one for one in runs if one.decision), key=lambda one: one.order)
    stands = standing_of(ordered).failures
    met, accepted, kept = set[Key](), list[set[str]](), list[JudgedRun]()
    for run in reversed(ordered):
        passed = tuple(key for key in run.passed if key not in met)
        failed = tuple(key for key in run.failed if stands.get(key) is run)
        benchmarks, new = set(run.benchmarks), False
        if run.decision == Decision.ACCEPTED:
            new = not any(benchmarks <= one for one in accepted)
            accepted.append(benchmarks)
        if passed or failed or new or not kept:
            kept.append(replace(run, passed=passed, failed=failed))
        met.update(passed)
    return kept[::-1]
