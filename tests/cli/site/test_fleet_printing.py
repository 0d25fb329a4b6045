"""Lines about a fleet: the command that measures again names what was unclear."""

from __future__ import annotations

import pytest

from pytest_anubis.cli.site.fleet_printing import _retest_lines
from pytest_anubis.core.verdict import (
    Decision,
    MetricVerdict,
    NodeVerdict,
    Outcome,
    Reason,
    Triage,
)
from pytest_anubis.report.text.node_row import NodeRow


def verdict(test: str, outcome: Outcome) -> MetricVerdict:
    return MetricVerdict(
        outcome=outcome,
        reason=Reason.WITHIN,
        text="",
        benchmark=f"suites/a.py::{test}[x]",
        metric="rate",
    )


@pytest.mark.parametrize(
    ("decision", "named"), [(Decision.UNDECIDED, {"bad", "unclear"}), (Decision.REJECTED, {"bad"})]
)
def test_only_what_was_bad_or_unclear_is_measured_again(
    decision: Decision, named: set[str]
) -> None:
    outcomes = {"bad": Outcome.FAIL, "unclear": Outcome.INCONCLUSIVE, "fine": Outcome.PASS}
    for leave in ({"bad"}, set[str]()):
        row = NodeRow(
            verdict=NodeVerdict(node="n1", decision=decision, headline="", triage=Triage.RETEST),
            verdicts=[verdict(*one) for one in outcomes.items() if one[0] not in leave],
        )
        wanted = named - leave
        lines = _retest_lines([row])
        assert [line.rpartition("-k ")[2].strip("'").split(" or ") for line in lines] == (
            [sorted(wanted)] if wanted else []
        )
