"""Runs for the figures about validation: a history says of them what their journals say."""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from pathlib import Path

import pytest

from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.validation_figures import ValidationRun, ValidationRuns
from pytest_anubis.store.collected_runs import read_runs
from pytest_anubis.store.fleet import validation_runs
from pytest_anubis.store.fleet.validation_runs import (
    collected_validation_runs,
    filed_validation_runs,
)
from pytest_anubis.store.history.contents.judgements import read_spent
from pytest_anubis.store.history.database import History
from pytest_anubis.store.history.run_filing import record_run
from pytest_anubis.store.run_filter import RunFilter
from tests.cli.site.validated_fleet import write_journals


def without_components(runs: tuple[ValidationRun, ...]) -> list[ValidationRun]:
    """Return runs by id, without what a history does not keep."""
    found = [
        dataclasses.replace(
            run, spent=tuple(dataclasses.replace(one, component="") for one in run.spent or ())
        )
        for run in runs
    ]
    return sorted(found, key=attrgetter("run"))


@pytest.fixture
def records(tmp_path: Path) -> tuple[RunRecord, ...]:
    write_journals(tmp_path / "collected")
    return read_runs([tmp_path / "collected"]).journals


def test_a_history_says_what_the_journals_say(
    place: Path | str, records: tuple[RunRecord, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validation_runs, "_RUNS_PER_QUERY", 3)
    with History(place) as history:
        for record in records:
            record_run(history, record)
        filed = filed_validation_runs(history, RunFilter()).runs
        assert without_components(filed) == without_components(collected_validation_runs(records))
        assert len(filed) == 8
        one = filed_validation_runs(history, RunFilter(nodes=("n2",))).runs
        assert [run.run for run in one] == ["r4", "r2"]  # the latest first
        other = filed_validation_runs(history, RunFilter(hardware_class="other"))
        assert other == ValidationRuns()
        monkeypatch.setattr(validation_runs, "MAX_RUNS", 2)
        latest = filed_validation_runs(history, RunFilter())
        assert ([run.run for run in latest.runs], latest.older) == (["r8", "r7"], 6)


def test_a_recorded_inventory_accepts_nothing(
    place: Path | str, records: tuple[RunRecord, ...]
) -> None:
    taken = {"r1": {"inventory": "n.json"}, "r2": {"inventory": "n.json"}}
    recorded = [
        dataclasses.replace(one, settings=taken.get(one.run, one.settings)) for one in records
    ]
    with History(place) as history:
        for record in recorded:
            record_run(history, record)
        filed = filed_validation_runs(history, RunFilter()).runs
    for found in (filed, collected_validation_runs(recorded)):
        decided = {one.run: one.decision for one in found}
        assert [decided[run] for run in ("r1", "r2", "r3")] == ["", "REJECTED", "ACCEPTED"]


@pytest.mark.parametrize("packed", [None, b"", b"damaged"])
def test_a_damaged_cell_says_nothing(packed: bytes | None) -> None:
    assert read_spent(packed) is None
