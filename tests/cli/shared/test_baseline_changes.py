"""Everything in which a promoted baseline differs from the one that it replaces is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_anubis.cli.shared.baseline_changes import changes_lines, changes_of, changes_plain
from pytest_anubis.core.baseline import Baseline, Criterion
from pytest_anubis.core.metric import Metric

RATE = Criterion(
    benchmark="b.py::test_copy",
    component="memory",
    metric=Metric(name="rate", unit="GB/s", better="higher"),
    centre=(99.0, 100.0, 101.0),
    alpha=0.95,
)
ERRORS = replace(RATE, metric=Metric(name="errors", unit="count", better="equal"), centre=(0.0,))
OLD = Baseline(hardware_class="c", criteria=(ERRORS, RATE), created="2026-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("field", "edited"),
    [
        ("inventory", replace(OLD, inventory={"memory": 1})),
        ("machine", replace(OLD, machine=("abc",))),
        ("one_machine", replace(OLD, one_machine=True)),
        ("attributes", replace(OLD, attributes={"cpu": "x"})),
        ("factor", replace(OLD, factor=2.0)),
    ],
)
def test_fields_of_the_whole_file_are_named(field: str, edited: Baseline) -> None:
    changes = changes_of(OLD, edited)
    assert changes
    assert changes_plain(changes)["fields"] == [field]
    assert field in changes_lines(changes)[-1]


def test_an_exact_constant_shows_its_old_value() -> None:
    changes = changes_of(OLD, replace(OLD, criteria=(replace(ERRORS, centre=(2.0,)), RATE)))
    row = next(line for line in changes_lines(changes) if " errors " in line)
    assert "was 0" in row
    assert "2" in row


def test_a_turned_direction_is_named() -> None:
    turned = replace(RATE, metric=replace(RATE.metric, better="lower"))
    assert "besides: better of 1" in changes_lines(
        changes_of(OLD, replace(OLD, criteria=(ERRORS, turned)))
    )


def test_equal_baselines_differ_in_nothing() -> None:
    later = replace(OLD, created="2026-02-01T00:00:00Z", digest="sha256:0")
    assert not changes_of(OLD, later)
