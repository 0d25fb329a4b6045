"""From a history to rows: intervals end with incidents, and know only what came before them."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_anubis.core.history import Incident, NodeRecord, RunSummary
from pytest_anubis.selector.risk.models.parametric import Exponential
from pytest_anubis.selector.risk.survival_rows import present_rows, survival_rows
from pytest_anubis.selector.selector_error import SelectorError

HOUR = 3600.0
FLEET = [NodeRecord(name="a", since=0.0), NodeRecord(name="b", since=10 * HOUR)]


def incident(node: str, start: float, hours: float | None = None, kind: str = "nic") -> Incident:
    return Incident(
        node=node, kind=kind, started=start * HOUR, duration=None if hours is None else hours * HOUR
    )


def test_intervals_between_incidents() -> None:
    past = [incident("a", 50, 10), incident("a", 20, 5)]
    rows = survival_rows(FLEET, past, now=100 * HOUR)
    assert rows.nodes == ("a", "a", "a", "b")
    assert rows.duration.tolist() == [20, 25, 40, 90]
    assert rows.event.tolist() == [True, True, False, False]
    assert rows.x[:3, rows.names.index("incidents")].tolist() == [0, 1, 2]
    assert rows.x[:3, rows.names.index("age")].tolist() == [0, 25, 60]
    assert rows.x[2, rows.names.index("hours before the last incident")] == 25
    assert rows.x[2, rows.names.index("last was nic")] == 1


def test_an_incident_within_another_ends_no_interval() -> None:
    past = [incident("a", 20, 30), incident("a", 25, 1)]
    rows = survival_rows(FLEET[:1], past, now=100 * HOUR)
    assert rows.duration.tolist() == [20, 50]


def test_a_node_that_is_gone_is_no_longer_observed() -> None:
    rows = survival_rows(FLEET[:1], [], now=100 * HOUR, gone={"a": 30 * HOUR})
    assert rows.duration.tolist() == [30]
    assert not rows.event.any()


def test_validation_is_known_only_after_it_ran() -> None:
    run = RunSummary(run="r", node="a", started=30 * HOUR, similarities={("b", "m", "d"): 0.9})
    rows = survival_rows(FLEET[:1], [incident("a", 50, 0)], now=100 * HOUR, runs={"a": [run]})
    column = rows.names.index("lowest similarity")
    assert np.isnan(rows.x[0, column])
    assert rows.x[1, column] == 0.9
    assert rows.x[1, rows.names.index("hours since validation")] == 20


def test_a_run_without_verdicts_validates_nothing() -> None:
    runs = [
        RunSummary(run="r", node="a", started=30 * HOUR, similarities={("b", "m", "d"): 0.9}),
        RunSummary(run="plan", node="a", started=40 * HOUR, decision="UNDECIDED"),
    ]
    rows = survival_rows(FLEET[:1], [incident("a", 50, 0)], now=100 * HOUR, runs={"a": runs})
    assert rows.x[1, rows.names.index("hours since validation")] == 20
    assert rows.x[1, rows.names.index("lowest similarity")] == 0.9


def test_present_status_feeds_a_model() -> None:
    past = [incident("a", 20, 5)]
    rows = survival_rows(FLEET, past, now=100 * HOUR)
    now = present_rows(FLEET, past, now=100 * HOUR, kinds=rows.kinds)
    assert now.names == rows.names
    assert now.duration.tolist() == [75, 90]
    model = Exponential().fit(rows.x, rows.duration, rows.event, names=rows.names)
    p = model.incident_probability(now.x, 0.0, 24.0)
    assert p.shape == (2,)
    assert ((p > 0) & (p < 1)).all()


def test_removed_nodes_have_no_status() -> None:
    gone = [NodeRecord(name="a", state="removed")]
    assert present_rows(gone, [], now=HOUR, kinds=()).nodes == ()


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (incident("x", 1), "does not have"),
        (incident("a", 101), "future"),
        (incident("a", 1, -1), "negative duration"),
    ],
)
def test_an_impossible_history_is_refused(bad: Incident, words: str) -> None:
    with pytest.raises(SelectorError, match=words):
        survival_rows(FLEET, [bad], now=100 * HOUR)
