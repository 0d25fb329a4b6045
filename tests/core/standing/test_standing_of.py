"""A rejection stands until what had failed was judged again and passed, or somebody answered for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.standing.recorded_run import (
    judged_of,
    judged_run,
    model_of,
    passed_checks,
    said_of_node,
)
from pytest_anubis.core.standing.standing_of import (
    GATE,
    GONE,
    XFAIL,
    JudgedRun,
    Key,
    Said,
    Standing,
    relevant_runs,
)
from pytest_anubis.core.standing.standing_of import standing_of as standing_by
from pytest_anubis.core.verdict import Decision, MetricVerdict, Outcome, Reason, Reference, Waiver
from pytest_anubis.core.waiving import holds_among, holds_on

PARTS = ("a", "b", "c")
TODAY = "2026-12-01"
ENDED, RENEWED = (
    Waiver(owner="j.doe", reason="ordered", expires=day, test="t.py::*")
    for day in ("2026-11-30", "2026-12-31")
)


def standing_of(
    runs: Iterable[JudgedRun], *, day: str = TODAY, in_service: float | None = None
) -> Standing:
    return standing_by(runs, holds_on(day), in_service=in_service)


def key(part: str) -> Key:
    return f"t.py::test_{part}", "rate", "cuda:0", ""


def said(
    name: str, began: float, decision: str, *found: Said, profile: str = "standard"
) -> JudgedRun:
    return judged_run(
        found,
        run=name,
        began=began,
        ended=began + 0.5,
        decision=decision,
        benchmarks={one[0][0] for one in found if one[0][0].startswith("t.py")},
        profile=profile,
    )


def run(
    name: str,
    began: float,
    decision: str,
    beside: Reference = Reference.FLEET,
    profile: str = "standard",
    **outcomes: str,
) -> JudgedRun:
    found = [
        (key(part), Outcome(outcome), Reason.WITHIN, beside, None)
        for part, outcome in outcomes.items()
    ]
    return said(name, began, decision, *found, profile=profile)


def passed(name: str, began: float, decision: str = "ACCEPTED") -> JudgedRun:
    return run(name, began, decision, a="PASS", b="PASS")


GOOD = passed("good", 0)
BAD = run("bad", 1, "REJECTED", a="PASS", b="FAIL")


@pytest.mark.parametrize(
    ("later", "decision"),
    [
        ([], Decision.REJECTED),
        ([run("setup plan", 2, "UNDECIDED")], Decision.REJECTED),
        ([run("interrupted", 2, "UNDECIDED", a="PASS")], Decision.REJECTED),
        ([run("another part", 2, "ACCEPTED", a="PASS")], Decision.REJECTED),
        ([run("unclear", 2, "UNDECIDED", b="INCONCLUSIVE")], Decision.REJECTED),
        ([run("killed", 2, "", b="PASS")], Decision.REJECTED),  # came to no verdict
        ([passed("began before", 0.5)], Decision.REJECTED),
        ([passed("at the same moment", 1)], Decision.REJECTED),
        ([run("that part", 2, "UNDECIDED", b="PASS")], Decision.UNDECIDED),
        ([passed("mended", 2)], Decision.ACCEPTED),
        ([run("unusual", 2, "ACCEPTED", a="PASS", b="MARGINAL")], Decision.ACCEPTED),
        (
            [run("that part", 2, "UNDECIDED", b="PASS"), run("rest", 3, "ACCEPTED", a="PASS")],
            Decision.ACCEPTED,
        ),
        (
            [run("mended", 2, "ACCEPTED", b="PASS"), run("again", 3, "REJECTED", b="FAIL")],
            Decision.REJECTED,
        ),
    ],
    ids=lambda one: one[-1].run if isinstance(one, list) and one else None,
)
def test_what_falls_and_what_does_not(later: list[JudgedRun], decision: Decision) -> None:
    assert standing_of([GOOD, BAD, *later]).decision is decision
    assert standing_of([*later, BAD, GOOD]).decision is decision


def test_another_device_metric_or_group_clears_nothing() -> None:
    for other in (
        ("t.py::test_b", "rate", "cuda:1", ""),
        ("t.py::test_b", "lag", "cuda:0", ""),
        ("t.py::test_b", "rate", "cuda:0", "eager"),
    ):
        later = replace(run("later", 2, "ACCEPTED"), passed=(other,))
        assert standing_of([BAD, later]).decision is Decision.REJECTED


@pytest.mark.parametrize("waived", [False, True])
def test_a_mean_says_no_more_where_a_device_itself_is_bad(waived: bool) -> None:
    card, mean = key("b"), (*key("b")[:2], "node", "")
    bad = (Outcome.NOT_TESTED, Reason.WAIVED) if waived else (Outcome.FAIL, Reason.BEYOND)
    for found, decision in (((card, mean), Decision.UNDECIDED), ((mean,), Decision.REJECTED)):
        by = ENDED if waived else None
        first = said(
            "first",
            1,
            "ACCEPTED" if waived else "REJECTED",
            *((one, *bad, Reference.FLEET, by) for one in found),
        )
        assert standing_of([first]).decision is Decision.REJECTED
        again = run("again", 2, "UNDECIDED", b="PASS")
        assert standing_of([first, again]).decision is decision


def test_a_run_that_was_killed_clears_nothing() -> None:
    fail, good = (
        MetricVerdict(outcome=one, reason=Reason.BEYOND, text="", benchmark=name, metric="m")
        for one, name in ((Outcome.FAIL, "a"), (Outcome.PASS, "b"))
    )
    killed = RunRecord(run="r", node="n", verdicts=(fail, good))
    found = judged_of(killed, began=1.0, ended=None)
    assert (found.decision, found.failed, found.passed) == ("UNDECIDED", (("a", "m", "", ""),), ())
    ended = replace(killed, ended="2026-01-01T00:00:00+00:00", exit_status=0)
    assert judged_of(ended, began=1.0, ended=2.0).passed == (("b", "m", "", ""),)


STRENGTHS = {
    Reference.SELF: 0,
    Reference.PEERS: 1,
    Reference.MACHINE: 1,
    Reference.FLEET: 2,
}
LENGTHS = ("smoke", "standard", "soak")


def cycle(one: JudgedRun, soak: str = "s") -> JudgedRun:
    return replace(one, campaign=soak)


OPEN = run("open", 1, "UNDECIDED", a="PASS", b="INCONCLUSIVE")
PASSED, AFTER = passed("passed", 2), passed("after", 3)


@pytest.mark.parametrize(
    ("runs", "decision", "by"),
    [
        ([cycle(BAD), cycle(PASSED)], Decision.REJECTED, "bad"),
        ([cycle(BAD), cycle(PASSED), AFTER], Decision.ACCEPTED, "after"),
        ([cycle(BAD), cycle(PASSED), cycle(AFTER, "t")], Decision.ACCEPTED, "after"),
        ([cycle(BAD), PASSED, cycle(AFTER)], Decision.ACCEPTED, "after"),
        ([BAD, cycle(PASSED), cycle(AFTER)], Decision.ACCEPTED, "after"),
        ([cycle(OPEN), cycle(PASSED)], Decision.UNDECIDED, "open"),
        ([cycle(OPEN), cycle(PASSED), AFTER], Decision.ACCEPTED, "after"),
        ([cycle(OPEN), PASSED, cycle(AFTER)], Decision.ACCEPTED, "after"),
        ([OPEN, cycle(PASSED), cycle(AFTER)], Decision.ACCEPTED, "after"),
        ([replace(cycle(BAD), answered=True), cycle(PASSED)], Decision.UNDECIDED, "bad"),
    ],
)
def test_the_cycles_of_a_soak_are_one_statement(
    runs: list[JudgedRun], decision: Decision, by: str
) -> None:
    for kept in (runs, relevant_runs(runs), relevant_runs([*relevant_runs(runs[:-1]), runs[-1]])):
        found = standing_of(kept)
        assert (found.decision, found.by and found.by.run) == (decision, by)


@pytest.mark.parametrize("found_by", STRENGTHS)
@pytest.mark.parametrize("passed_by", STRENGTHS)
def test_the_other_devices_or_the_own_past_clear_only_what_they_found(
    found_by: Reference, passed_by: Reference
) -> None:
    bad = run("bad", 1, "REJECTED", found_by, b="FAIL")
    later = run("later", 2, "UNDECIDED", passed_by, b="PASS")
    falls = STRENGTHS[passed_by] >= STRENGTHS[found_by]
    last = run("last", 3, "ACCEPTED", a="PASS")
    for runs in ([bad, later, last], [*relevant_runs([bad, later]), last]):
        assert standing_of(runs).decision is (Decision.ACCEPTED if falls else Decision.REJECTED)


def test_what_has_no_norm_is_no_pass_unless_peers_judged_it() -> None:
    bad = run("bad", 1, "REJECTED", Reference.PEERS, b="FAIL")
    without = key("b"), Outcome.INCONCLUSIVE, Reason.NO_BASELINE, Reference.NONE, None
    by_peers = key("b"), Outcome.PASS, Reason.WITHIN, Reference.PEERS, None
    later = said("later", 2, "UNDECIDED", without, by_peers)
    assert standing_of([bad, later]).decision is Decision.UNDECIDED
    later = said("later", 2, "UNDECIDED", without)
    assert standing_of([bad, later]).decision is Decision.REJECTED


@pytest.mark.parametrize("found_in", LENGTHS)
@pytest.mark.parametrize("passed_in", LENGTHS)
def test_a_shorter_profile_clears_nothing(found_in: str, passed_in: str) -> None:
    bad = run("bad", 1, "REJECTED", profile=found_in, b="FAIL")
    whole = said("bad", 1, "REJECTED", profile=found_in)  # nothing failed by name
    later = run("later", 2, "ACCEPTED", profile=passed_in, b="PASS")
    falls = LENGTHS.index(passed_in) >= LENGTHS.index(found_in)
    for one in (bad, whole):
        stands = standing_of([one, later]).decision
        assert stands is (Decision.ACCEPTED if falls else Decision.REJECTED)


def test_a_weaker_failure_does_not_take_the_place_of_a_stricter_one() -> None:
    again = run("again", 2, "REJECTED", Reference.PEERS, "smoke", b="FAIL")
    weak = run("weak", 3, "ACCEPTED", Reference.PEERS, "smoke", a="PASS", b="PASS")
    assert standing_of([BAD, again, weak]).decision is Decision.REJECTED
    assert standing_of([BAD, again, weak, passed("strict", 4)]).decision is Decision.ACCEPTED


def test_a_run_that_began_before_another_ended_clears_none_of_its_failures() -> None:
    long = replace(run("long", 1, "REJECTED", b="FAIL"), ended=9.0)
    within = passed("within", 2)
    assert standing_of([long, within]).decision is Decision.REJECTED
    assert standing_of([long, within, replace(within, run="x", began=9.0)]).failures == {}
    # The store knew that one ended before the other began, whatever the clocks say.
    assert standing_of([long, replace(within, after="long")]).failures == {}


def test_a_clock_that_goes_back_changes_no_order() -> None:
    """A rejection that its clock dates before an acceptance came after it, as the store knows."""
    bad = replace(BAD, began=-9e8, ended=-9e8 + 1, after="good")
    worse = replace(run("worse", -9e8 + 5, "REJECTED", a="FAIL"), after="bad")
    assert standing_of([bad, GOOD]).decision is Decision.REJECTED
    assert standing_of([GOOD, replace(bad, after="")]).decision is Decision.ACCEPTED  # nobody knows
    assert {*standing_of([GOOD, worse, bad]).failures} == {key("a"), key("b")}
    assert standing_of([passed("mended", 2), worse, GOOD, bad]).decision is Decision.ACCEPTED
    early = replace(passed("early", 0.5), after="bad")
    assert standing_of([GOOD, BAD, early]).decision is Decision.REJECTED
    circle = [replace(bad, after="worse"), worse]
    assert standing_of(circle).decision is Decision.REJECTED


def waived(
    name: str,
    began: float,
    decision: str = "ACCEPTED",
    by: Waiver | None = ENDED,
    profile: str = "standard",
) -> JudgedRun:
    """Return a run in which a waiver, or an xfail mark, covered that b failed."""
    covered = key("b"), Outcome.NOT_TESTED, Reason.WAIVED, Reference.FLEET, by
    return said(name, began, decision, covered, profile=profile)


@pytest.mark.parametrize(
    ("runs", "then", "later"),
    [
        ([waived("w", 2)], "ACCEPTED", "REJECTED"),
        ([BAD, waived("w", 2)], "ACCEPTED", "REJECTED"),
        ([BAD, waived("w", 2, "UNDECIDED")], "REJECTED", "REJECTED"),
        ([BAD, waived("short", 2, profile="smoke")], "REJECTED", "REJECTED"),
        ([waived("w", 2), run("else", 3, "ACCEPTED", a="PASS")], "ACCEPTED", "REJECTED"),
        ([waived("w", 2), run("mended", 3, "ACCEPTED", b="PASS")], "ACCEPTED", "ACCEPTED"),
        ([waived("w", 2), run("again", 3, "REJECTED", b="FAIL")], "REJECTED", "REJECTED"),
        ([waived("w", 2, by=None)], "ACCEPTED", "ACCEPTED"),
        ([waived("w", 2), waived("x", 3, by=None)], "ACCEPTED", "REJECTED"),
        ([waived("x", 2, by=None), waived("v", 3, by=RENEWED)], "ACCEPTED", "ACCEPTED"),
        ([waived("w", 2), waived("v", 3, by=RENEWED, profile="smoke")], "ACCEPTED", "ACCEPTED"),
        ([waived("v", 2, by=RENEWED), waived("w", 3)], "ACCEPTED", "REJECTED"),
        ([waived("w", 2, "UNDECIDED")], "UNDECIDED", "REJECTED"),
    ],
    ids=lambda one: " ".join(run.run for run in one) if isinstance(one, list) else one,
)
def test_what_was_waived_is_open_from_the_day_on_which_no_waiver_covers_it(
    runs: list[JudgedRun], then: str, later: str
) -> None:
    for kept in (runs, relevant_runs(runs)):
        assert standing_of(kept, day="2026-11-30").decision == then
        stands = standing_of(kept, day=TODAY)
        assert stands.decision == later
        needed = [one for one in runs if one.run in standing_of(runs, day="2026-11-30").needed]
        assert standing_of(needed, day=TODAY).decision == later
        returned = standing_of(kept, day=TODAY, in_service=9).decision
        assert (returned == "ACCEPTED") is (later == "ACCEPTED")  # it answers for no waiver


def test_an_xfail_mark_covers_nothing_of_an_earlier_run() -> None:
    runs = [BAD, waived("mark", 2, by=None)]
    for kept in (runs, relevant_runs(runs), [*relevant_runs(runs[:1]), runs[1]]):
        assert standing_of(kept).decision is Decision.REJECTED
    assert (
        standing_of([*runs, run("mended", 3, "ACCEPTED", b="PASS")]).decision is Decision.ACCEPTED
    )


@pytest.mark.parametrize(
    ("runs", "decision"),
    [
        ([run("strict", 1, "REJECTED", b="MARGINAL"), run("w", 2, "ACCEPTED", b="MARGINAL")], "REJECTED"),
        ([run("strict", 1, "REJECTED", b="MARGINAL"), run("w", 2, "ACCEPTED", b="PASS")], "ACCEPTED"),
        ([run("bad", 1, "REJECTED", b="FAIL"), run("w", 2, "ACCEPTED", b="MARGINAL")], "ACCEPTED"),
        (
            [
                run("strict", 1, "REJECTED", b="MARGINAL"),
                run("bad", 2, "REJECTED", b="FAIL"),
                run("w", 3, "ACCEPTED", b="MARGINAL"),
            ],
            "REJECTED",
        ),
    ],
)  # fmt: skip
def test_what_was_rejected_for_a_marginal_falls_by_a_pass_only(
    runs: list[JudgedRun], decision: str
) -> None:
    for kept in (runs, relevant_runs(runs), [*relevant_runs(runs[:-1]), runs[-1]]):
        assert standing_of(kept).decision == decision


def test_a_waiver_that_was_withdrawn_covers_nothing() -> None:
    runs = [GOOD, waived("w", 2, by=RENEWED), waived("x", 2, by=RENEWED)]
    other = replace(RENEWED, test="t.py::test_a")
    longer = replace(RENEWED, owner="n.n", expires="2027-01-31")
    for there, decision in (
        ([other], "REJECTED"),
        ([longer], "ACCEPTED"),
        ([replace(longer, expired=True)], "REJECTED"),
        ([], "REJECTED"),
    ):
        assert standing_by(runs, holds_among(there)).decision == decision
    unmeasured = [*runs, run("else", 3, "UNDECIDED", a="PASS")]
    for several in (runs, unmeasured, relevant_runs(unmeasured)):
        stands = standing_by(several, holds_among([]))
        assert stands.decision is Decision.REJECTED
        assert stands.lapsed == ((key("b"), RENEWED),)


def test_somebody_answers_by_name() -> None:
    closed = standing_of([replace(BAD, answered=True)])
    assert (closed.decision, closed.answered) == (Decision.UNDECIDED, True)
    again = run("again", 2, "REJECTED", b="FAIL")
    assert standing_of([replace(BAD, answered=True), again]).decision is Decision.REJECTED
    assert standing_of([BAD], in_service=2.0).answered
    assert standing_of([BAD, again], in_service=2.0).decision is Decision.REJECTED


def test_what_the_hardware_reports_falls_with_an_acceptance_as_wide() -> None:
    xid: Key = ("hardware", "xid-fault", "cuda:0", "")
    bad = said(
        "x",
        1,
        "REJECTED",
        (xid, Outcome.FAIL, Reason.HARDWARE, Reference.NONE, None),
        *((key(one), Outcome.PASS, Reason.WITHIN, Reference.FLEET, None) for one in "ab"),
        profile="",
    )
    narrow = run("narrow", 2, "ACCEPTED", a="PASS")
    assert standing_of([bad, narrow]).decision is Decision.REJECTED
    assert standing_of([bad, passed("u", 3, "UNDECIDED")]).failures
    wide = passed("wide", 3)
    assert standing_of([bad, narrow, wide]).decision is Decision.ACCEPTED
    listened: Key = ("hardware", "", "kernel log", "")
    bad = replace(bad, passed=(*bad.passed, listened))
    for runs in ([bad, wide], [*relevant_runs([bad]), wide]):
        assert standing_of(runs).decision is Decision.REJECTED  # nobody listened
    wide = replace(wide, passed=(*wide.passed, listened))
    assert standing_of([bad, wide]).decision is Decision.ACCEPTED


def test_a_missing_card_falls_when_the_inventory_was_compared_again() -> None:
    cards: Key = ("inventory", "number of accelerators", "", "")
    lost = cards, Outcome.FAIL, Reason.BEYOND, Reference.FLEET, None
    bad = said("x", 1, "REJECTED", lost, profile="")
    narrow = run("without the gate", 2, "ACCEPTED", a="PASS")
    assert standing_of([bad, narrow]).decision is Decision.REJECTED
    compared = replace(narrow, passed=(*narrow.passed, GATE))
    assert standing_of([bad, compared]).decision is Decision.ACCEPTED
    disk: Key = ("inventory", "", "disk nvme0n1", "")
    bad = replace(bad, passed=(disk,))  # by somebody who may read its counters
    for runs in ([bad, compared], [*relevant_runs([bad]), compared]):
        assert standing_of(runs).decision is Decision.REJECTED
    read = replace(compared, passed=(*compared.passed, disk))
    assert standing_of([bad, read]).decision is Decision.ACCEPTED


OUTCOMES = st.dictionaries(
    st.sampled_from(PARTS), st.sampled_from(["PASS", "FAIL", "INCONCLUSIVE", "MARGINAL"])
)
WAIVED = st.dictionaries(
    st.sampled_from(PARTS), st.sampled_from([ENDED, RENEWED, XFAIL]), max_size=2
)


@st.composite
def histories(draw: st.DrawFn) -> list[JudgedRun]:
    runs = []
    for number, (began, outcomes) in enumerate(
        draw(st.lists(st.tuples(st.integers(0, 6), OUTCOMES), max_size=8))
    ):
        others = draw(st.sampled_from(["ACCEPTED", "UNDECIDED", ""]))
        rejecting = draw(st.sampled_from([("FAIL",), ("FAIL", "MARGINAL")]))
        decision = "REJECTED" if {*rejecting} & {*outcomes.values()} else others
        beside, profile = draw(st.sampled_from(list(STRENGTHS))), draw(st.sampled_from(LENGTHS))
        one = run(f"r{number}", began, decision, beside, profile, **outcomes)
        one = replace(one, campaign=draw(st.sampled_from(["", "s", "t"])))
        kept = (
            (key(part), by) for part, by in sorted(draw(WAIVED).items()) if part not in outcomes
        )
        runs.append(replace(one, waived=tuple(kept)))
    return runs


LOOKS = [GATE, ("inventory", "", "count", ""), ("hardware", "", "log", "")]
REPORTED = [("inventory", "accelerators", "", ""), ("hardware", "XID 48", "cuda:0", "")]


@st.composite
def watched(draw: st.DrawFn) -> list[JudgedRun]:
    """Draw histories in which runs looked for faults of the hardware as well, and found some."""
    runs = []
    for one in draw(histories()):
        looked = draw(st.lists(st.sampled_from(LOOKS), unique=True))
        bad = draw(st.lists(st.sampled_from(REPORTED), unique=True, max_size=1))
        bad = bad if one.rejected else []
        passed, failed = (*one.passed, *looked), (*one.failed, *bad)
        runs.append(replace(one, passed=tuple(sorted(passed)), failed=tuple(sorted(failed))))
    return runs


def rejected(runs: list[JudgedRun]) -> bool:
    """Say in other words whether a failure stands: no run as strict passed it later, or waives it."""

    def as_strict(one: JudgedRun, bad: JudgedRun, part: str) -> bool:
        longer = LENGTHS.index(one.profile) >= LENGTHS.index(bad.profile)
        return longer and one.strength(key(part)) >= bad.strength(key(part))

    def passed(bad: JudgedRun, part: str) -> bool:
        return any(
            one.began > bad.began and one.decision and key(part) in one.passed
            for one in runs
            if as_strict(one, bad, part)
            and (not one.campaign or one.campaign != bad.campaign)
            and not (key(part) in bad.marginal and key(part) in one.marginal)
        )

    def covered(bad: JudgedRun, part: str) -> bool:
        own = bad.waiver(key(part))
        return own in (RENEWED, XFAIL) or any(
            one.began > bad.began and one.waiver(key(part)) == RENEWED and not passed(one, part)
            for one in runs
            if one.decision and (own or (one.decision == "ACCEPTED" and as_strict(one, bad, part)))
        )

    return any(
        not passed(bad, part) and not covered(bad, part)
        for part in PARTS
        for bad in runs
        if bad.decision and key(part) in bad.found
    )


@given(histories(), st.randoms(use_true_random=False))
def test_runs_in_any_order_and_overlap(runs: list[JudgedRun], random: object) -> None:
    stands = standing_of(runs)
    assert (stands.decision is Decision.REJECTED) == rejected(runs)
    if stands.decision is Decision.ACCEPTED:  # never by another run than the latest
        assert stands.by is not None
        latest = max((one for one in runs if one.decision), key=lambda one: one.order)
        assert stands.by.run == latest.run
    mixed = list(runs)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert standing_of(mixed) == stands


@settings(max_examples=150)
@given(watched(), watched())
def test_what_is_kept_says_the_same_beside_runs_that_come_in_late(
    runs: list[JudgedRun], late: list[JudgedRun]
) -> None:
    late = [
        replace(one, run=f"late {one.run}", campaign=one.campaign and f"late {one.campaign}")
        for one in late
    ]
    kept, whole = standing_of([*relevant_runs(runs), *late]), standing_of([*runs, *late])
    assert kept.decision is whole.decision
    assert kept.failures.keys() == whole.failures.keys()
    stands = standing_of(runs)
    needed = standing_of([one for one in runs if one.run in stands.needed])
    assert needed.decision is stands.decision
    assert needed.failures.keys() == stands.failures.keys()


def test_what_settled_a_run_that_settled_another_one_is_needed() -> None:
    """It was taken out of histories, which then showed as rejected what had been measured again."""
    runs = [
        run("r0", 0, "REJECTED", a="FAIL", c="FAIL"),
        run("r1", 1, "REJECTED", a="PASS", b="FAIL"),
        run("r2", 2, "UNDECIDED", b="PASS"),
        run("r3", 3, "UNDECIDED", a="PASS"),
    ]
    stands = standing_of(runs)
    needed = [one for one in runs if one.run in stands.needed]
    assert set(stands.failures) == set(standing_of(needed).failures) == {key("c")}


def test_what_passed_at_the_gate_is_kept_with_where_a_run_looked() -> None:
    lost, log = ("inventory", "accelerators", "", ""), ("hardware", "", "log", "")
    count = "inventory", "", "count", ""
    bad = replace(run("bad", 0, "REJECTED"), failed=(lost,), passed=(count,))
    close = replace(run("close", 1, "UNDECIDED"), passed=(GATE, count))
    plain = replace(run("plain", 2, "UNDECIDED"), passed=(GATE, log))
    for kept in ([bad, close, plain], [bad, *relevant_runs([close, plain])]):
        assert standing_of(kept).decision is Decision.UNDECIDED


def test_what_more_than_one_run_found_is_confirmed_until_one_passes_it() -> None:
    again, mended = run("again", 2, "REJECTED", b="FAIL"), run("mended", 2, "ACCEPTED", b="PASS")
    later = run("later", 3, "REJECTED", b="FAIL")
    assert standing_of([BAD]).confirmed == frozenset()
    assert standing_of([BAD, again]).confirmed == {key("b")}
    assert standing_of([BAD, mended, later]).confirmed == frozenset()


def test_an_import_has_no_inventory_to_pass_and_says_which_devices_gave_values() -> None:
    metric = Metric(name="rate", unit="GB/s", better="higher")
    measured = tuple(
        Measurement(
            test="t", benchmark="t", component="c", metric=metric, device=device, values=values
        )
        for device, values in (("cuda:0", (1.0,)), ("cuda:1", ()), ("node", (1.0,)))
    )
    record = RunRecord(run="r", node="n", baseline="sha256:0", measurements=measured)
    assert {key for key, _ in passed_checks(record)} == {(GATE[0], GONE, "cuda:0", "")}


@pytest.mark.parametrize(
    ("runs", "decision", "by"),
    [
        ([], "UNDECIDED", "stop"),
        ([run("part", 3, "ACCEPTED", a="PASS")], "UNDECIDED", "stop"),
        ([passed("all", 3)], "ACCEPTED", "all"),
        ([run("short", 3, "ACCEPTED", profile="smoke", b="PASS")], "UNDECIDED", "stop"),
        ([run("bad", 1, "REJECTED", b="FAIL")], "REJECTED", "bad"),
        ([run("bad", 3, "REJECTED", b="FAIL")], "REJECTED", "bad"),
        ([waived("w", 1)], "REJECTED", "w"),
        ([waived("w", 3, by=RENEWED)], "ACCEPTED", "w"),
    ],
)
def test_what_failed_in_a_run_that_was_broken_off_is_open(
    runs: list[JudgedRun], decision: str, by: str
) -> None:
    runs = [GOOD, *runs, run("stop", 2, "UNDECIDED", a="PASS", b="FAIL")]
    for kept in (runs, relevant_runs(runs)):
        stands = standing_of(kept)
        assert stands.by is not None
        assert (stands.decision, stands.by.run) == (decision, by)
    assert standing_of(runs, in_service=9).decision != "REJECTED" or by == "w"


def test_a_rejection_by_a_clock_that_was_behind_is_cleared_by_what_came_after_it_alone() -> None:
    good = run("good", 5.0, "ACCEPTED", a="PASS")
    bad = replace(run("bad", 1.0, "REJECTED", a="FAIL"), undated=True)
    assert standing_of([good, bad]).decision is Decision.REJECTED
    after = replace(run("after", 6.0, "ACCEPTED", a="PASS"), after="bad")
    assert standing_of([good, bad, after]).decision is Decision.ACCEPTED
    dated = replace(bad, undated=False)
    assert standing_of([good, dated]).decision is Decision.ACCEPTED


def test_since_is_when_the_failure_was_first_found_after_it_last_passed() -> None:
    runs = [
        run("r0", 0, "REJECTED", a="FAIL"),
        run("r1", 1, "ACCEPTED", a="PASS"),
        run("r2", 2, "REJECTED", a="FAIL"),
        run("r3", 3, "REJECTED", a="FAIL", b="FAIL"),
    ]
    assert standing_of(runs).since == 2
    assert standing_of([*runs, run("r4", 4, "REJECTED", a="PASS", b="FAIL")]).since == 3
    assert standing_of(runs[:2]).since is None


def test_a_metric_that_was_never_recorded_falls_by_any_value_that_passes() -> None:
    never = key("b"), Outcome.FAIL, Reason.UNSET, Reference.NONE, None
    unset = said("unset", 1, "REJECTED", never)
    for reference in (Reference.MACHINE, Reference.FLEET):
        later = run("later", 2, "ACCEPTED", reference, b="PASS")
        assert standing_of([unset, later]).decision is Decision.ACCEPTED
    assert standing_of([unset, run("later", 2, "ACCEPTED", a="PASS")]).decision is Decision.REJECTED


@pytest.mark.parametrize("reason", [Reason.NO_CRITERION, Reason.NO_BASELINE])
@pytest.mark.parametrize(("values", "passed"), [((0.0, 0.0), True), ((0.0, 3.0), False)])
def test_a_count_of_faults_without_a_criterion_passes_as_it_fails(
    values: tuple[float, ...], passed: bool, reason: Reason
) -> None:
    metric = Metric(name="wrong", unit="errors", better="equal")
    one = Measurement(
        test="t", benchmark="t", component="c", metric=metric, device="node", values=values
    )
    about: Any = {"benchmark": "t", "metric": "wrong", "device": "node"}
    open_yet = MetricVerdict(outcome=Outcome.INCONCLUSIVE, reason=reason, text="", **about)
    record = RunRecord(run="r", node="n", measurements=(one,), verdicts=(open_yet,))
    found = ("t", "wrong", "node", ""), Reference.SELF
    assert (found in passed_checks(record)) == passed


@pytest.mark.parametrize(
    ("failed_by", "cleared"),
    [(Reference.FLEET, False), (Reference.MACHINE, False), (Reference.NONE, True)],
)
def test_a_right_value_without_a_baseline_answers_no_baseline(
    failed_by: Reference, cleared: bool
) -> None:
    """A count of faults is right or wrong by itself; where a baseline had judged it, one has to again."""
    count = key("wrong")
    bad = said("r1", 1, "REJECTED", (count, Outcome.FAIL, Reason.BEYOND, failed_by, None))
    good = said("r2", 2, "UNDECIDED", (count, Outcome.PASS, Reason.WITHIN, Reference.SELF, None))
    found = standing_of([bad, good]).decision
    assert found is (Decision.UNDECIDED if cleared else Decision.REJECTED)


@pytest.mark.parametrize(
    ("first", "later", "settles"),
    [
        ("h100", "a100", False),
        ("dgx_h100", "dgx_a100", False),
        ("8x-nvidia-h100_xeon_torch2_smoke", "8x-nvidia-a100_xeon_torch2_smoke", False),
        ("7x-nvidia-h100_xeon_torch2_smoke", "8x-nvidia-h100_epyc_torch3_standard", True),
        ("no-accelerator_xeon_smoke", "8x-nvidia-h100_xeon_smoke", True),  # its driver is back
        ("unclassified", "h100", True),
        ("", "h100", True),
    ],
)
def test_a_pass_by_the_baseline_of_other_cards_settles_nothing(
    first: str, later: str, settles: bool
) -> None:
    bad = replace(run("r1", 1.0, "REJECTED", a="FAIL"), model=model_of(first))
    good = replace(run("r2", 2.0, "ACCEPTED", a="PASS"), model=model_of(later))
    assert (standing_of([bad, good]).decision is Decision.ACCEPTED) is settles
    back = replace(run("r3", 3.0, "ACCEPTED", a="PASS"), model=model_of(first))
    assert standing_of([bad, good, back]).decision is Decision.ACCEPTED
    assert standing_of(relevant_runs([bad, good, back])).decision is Decision.ACCEPTED


def test_a_sure_rejection_is_not_masked_by_one_to_be_measured_again() -> None:
    a, b = ("a", "rate", "cpu", ""), ("b", "rate", "cpu", "")
    sure = JudgedRun(run="r1", began=1.0, decision="REJECTED", failed=(a,))
    again = JudgedRun(run="r2", began=2.0, decision="REJECTED", failed=(b,), retest=True)
    other = replace(again, run="r3", began=3.0, passed=(a,))

    def by(*runs: JudgedRun) -> str:
        found = standing_of(runs)
        assert found.decision is Decision.REJECTED
        return found.by.run if found.by else ""

    assert by(sure) == by(sure, again) == by(again, sure) == "r1"
    assert by(again) == "r2"
    assert by(sure, again, other) == "r3"


@pytest.mark.parametrize(("campaign", "said"), [("", ""), ("night", "UNDECIDED")])
def test_a_killed_cycle_of_a_soak_leaves_its_node_undecided(campaign: str, said: str) -> None:
    killed = RunRecord(run="r1", node="n1", started="2026-01-01T00:00:00+00:00", campaign=campaign)
    assert said_of_node(killed) == said
