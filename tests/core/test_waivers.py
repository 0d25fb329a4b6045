"""What a waiver covers, and what it must name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_anubis.core.metric import named_by
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason, Waiver
from pytest_anubis.core.waiving import covers, with_waiver

WAIVER = Waiver(owner="j.doe", reason="HW-4711", expires="2026-12-01")
SLOW = MetricVerdict(
    outcome=Outcome.FAIL,
    reason=Reason.BEYOND,
    text="h2d is 12 % slower",
    benchmark="suites/memory/test_transfer.py::test_copy",
    metric="h2d",
    better="higher",
    component="pcie",
    node="n17",
    device="cuda:3",
    test="suites/memory/test_transfer.py::test_copy[cuda:3]",
)


@pytest.mark.parametrize(
    ("by", "waived"),
    [
        ({"test": "suites/memory/*"}, True),
        ({"test": SLOW.benchmark}, True),
        ({"test": SLOW.test}, True),  # its brackets are no pattern
        ({"test": "suites/memory/test_latency.py::*"}, False),
        ({"metric": "h2d"}, True),
        ({"metric": "h?d", "device": "cuda:*"}, True),
        ({"metric": "d2h"}, False),
        ({"component": "pcie", "device": "cuda:3", "node": "n17"}, True),
        ({"component": "pcie", "device": "cuda:2"}, False),
        ({"component": "pcie", "node": "n1"}, False),
        ({"component": "memory"}, False),
    ],
)
def test_a_failure_is_waived_by_what_covers_all_of_it(by: dict[str, Any], waived: bool) -> None:
    found = with_waiver(SLOW, [replace(WAIVER, **by)])
    assert (found.outcome is Outcome.NOT_TESTED) is waived
    if waived:
        assert found.reason is Reason.WAIVED
        assert found.text == "waived by j.doe until 2026-12-01: HW-4711: h2d is 12 % slower"
        assert with_waiver(found, [WAIVER]) is found  # once is enough
    else:
        assert found is SLOW


WRONG = replace(SLOW, better="equal", metric="wrong")
BROKEN = replace(SLOW, reason=Reason.TEST_FAILED, metric="", better="")
XID = replace(SLOW, reason=Reason.HARDWARE, benchmark="hardware", metric="XID 48", better="")
GONE = replace(SLOW, benchmark="inventory", metric="accelerators", better="")
AGAIN = replace(WRONG, reason=Reason.REPEATED)
ECC = replace(SLOW, better="lower", metric="ecc", unit="errors")


@pytest.mark.parametrize(
    ("verdict", "name"),
    [
        (WRONG, "wrong"),
        (AGAIN, "wrong"),
        (BROKEN, "check"),
        (XID, "XID 48"),
        (GONE, "accelerators"),
        (ECC, "ecc"),
    ],
)
def test_wrong_results_are_waived_by_name_only(verdict: MetricVerdict, name: str) -> None:
    for broad in (
        replace(WAIVER, test="*"),
        replace(WAIVER, metric="*"),
        replace(WAIVER, component="*"),
        replace(WAIVER, metric=f"{name[:-1]}?"),
    ):
        assert with_waiver(verdict, [broad]) is verdict
    found = with_waiver(verdict, [replace(WAIVER, metric=name)])
    assert (found.outcome, found.reason) == (Outcome.NOT_TESTED, Reason.WAIVED)


def test_an_expired_waiver_waives_nothing() -> None:
    expired = replace(WAIVER, metric="h2d", expired=True)
    found = with_waiver(SLOW, [expired])
    assert found.outcome is Outcome.FAIL
    assert found.text == "h2d is 12 % slower; its waiver expired on 2026-12-01 (j.doe: HW-4711)"
    renewed = replace(expired, expires="2027-12-01", expired=False)
    assert with_waiver(SLOW, [expired, renewed]).waiver == renewed
    shorter = replace(renewed, owner="n.n", expires="2027-01-31")
    for several in ([shorter, renewed], [renewed, shorter]):
        assert with_waiver(SLOW, several).waiver == renewed


@pytest.mark.parametrize("outcome", Outcome)
def test_only_what_rejects_is_waived(outcome: Outcome) -> None:
    any_h2d = [replace(WAIVER, metric="h2d")]
    for fail_on in ("fail", "marginal"):
        found = with_waiver(replace(SLOW, outcome=outcome), any_h2d, fail_on)
        rejects = outcome is Outcome.FAIL or (outcome is Outcome.MARGINAL and fail_on == "marginal")
        assert (found.waiver is not None) is rejects
        assert found.outcome is not Outcome.PASS or outcome is Outcome.PASS


NAMES = st.text(st.sampled_from("ab01[]!-/:"), min_size=1, max_size=8)


@given(NAMES, NAMES)
def test_a_name_without_a_wildcard_is_that_name_alone(one: str, other: str) -> None:
    assert named_by(one, one)
    assert named_by(one, other) == (one == other)


def test_a_parametrised_test_is_no_pattern() -> None:
    waiver = replace(WAIVER, test="t.py::test_link[0]")
    assert not covers(waiver, replace(SLOW, benchmark="t.py::test_link0", test="t.py::test_link0"))
    named = replace(SLOW, benchmark="t.py::test_link[0]", test="t.py::test_link[0-cuda:1]")
    assert covers(waiver, named)
    assert covers(replace(WAIVER, test="t.py::test_link[*]"), named)  # asked for
