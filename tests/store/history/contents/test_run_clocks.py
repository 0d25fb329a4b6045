"""Wrong clocks: a run keeps its times, is reported in one line, and hides no later run."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from pytest_anubis.cli.main import main
from pytest_anubis.core.events import RunFinished, RunStarted
from pytest_anubis.core.verdict import Decision
from pytest_anubis.fleet.fleet_status import Status, statuses_of
from pytest_anubis.fleet.launching.fleet_verdict import fleet_verdict
from pytest_anubis.store.collected_runs import read_runs
from pytest_anubis.store.fleet.last_runs import last_of_history, last_of_runs
from pytest_anubis.store.fleet.pushing import push
from pytest_anubis.store.fleet.stored_runs import read_stored_run, stored_runs
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.database import History
from pytest_anubis.store.history.fleet_history import last_verdicts
from pytest_anubis.store.history.run_filing import file_finished
from pytest_anubis.store.journal.journal_reading import read_journal
from tests.postgres import new_database
from tests.store.written_runs import decided, write_events

HOUR = 3600.0


def journal(
    store: Path, run: str, hours: float, decision: Decision, *, node: str = "n1", after: str = ""
) -> Path:
    """Write a run that ends so many hours from now, by its clock."""
    began, ended = (
        datetime.fromtimestamp(time.time() + hours * HOUR - before, UTC).isoformat()
        for before in (60, 0)
    )
    start = RunStarted(run=run, node=node, started=began, hardware_class="c", after=after)
    end = RunFinished(exit_status=0, ended=ended)
    return write_events(store, run, start, decided(node, decision, "judged"), end)


def test_a_run_from_the_future_hides_no_later_one(
    place: Path | str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    accepted, rejected = Decision.ACCEPTED, Decision.REJECTED
    early = journal(tmp_path, "early", 5, accepted)
    assert main(["push", str(early), "--history", str(place)]) == 0
    said = capsys.readouterr().out
    assert "the clock of n1 was at least 5.0 h ahead of the history's in run early: the run" in said
    assert "set the clock of that machine" in said
    journal(tmp_path, "other", 365 * 24, accepted, node="n2")
    later = journal(tmp_path, "later", 0.05, rejected)
    pushed = push([tmp_path / "runs"], place)
    assert (pushed.new, pushed.known, len(pushed.notes), pushed.failed) == (2, 1, 1, [])
    with History(place) as history:
        nodes = last_of_history(history, place)
        found = {
            one.node: one.status
            for one in statuses_of(nodes, now=time.time(), risks={}, accepted_risk=1)
        }
        assert found == {"n1": Status.QUARANTINED, "n2": Status.UNDECIDED}
        assert last_verdicts(history)["n1"][0] == "REJECTED"
        assert [run.run for run in history.node_history("n1")] == ["early", "later"]
        assert [run.run for run in stored_runs(history) if run.node == "n1"] == ["early", "later"]
        assert all(node.since <= time.time() for node in history.nodes())
    # The machine's times are kept, and identify a run that is sent again.
    assert read_stored_run(place, "early") == read_journal(early)
    assert push([tmp_path / "runs"], place).known == 3
    assert main(["fleet", "drain-list", "--history", str(place)]) == 1
    assert capsys.readouterr().out.startswith("n1 ANB:")
    assert later.exists()


def test_clock_ahead_or_behind_the_server_is_corrected(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, clock = new_database(postgres_url, "bothways"), time.time
    for run, hours, words in (
        ("a", -7.0, "was 7.0 h behind the history's in run a"),
        ("b", 0.0, ""),
        ("c", 3.0, "was 3.0 h ahead of the history's in run c"),
        ("d", 0.05, ""),  # three minutes are no error
    ):
        path = journal(tmp_path, run, hours, Decision.ACCEPTED)
        with monkeypatch.context() as patch:
            patch.setattr(time, "time", lambda off=hours: clock() + off * HOUR)
            said = file_finished(url, tmp_path, read_journal(path), journal=path)
        assert words in said
        assert bool(said) == bool(words)
    with History(url) as history:
        began = {run.run: run.started for run in history.node_history("n1")}
        assert all(abs(at - clock()) < HOUR for at in began.values())
        with history.reading() as connection:
            rows = connection.execute(sa.select(schema.run_clocks)).all()
        assert {(round(row.ahead / HOUR), row.known) for row in rows} == {
            (-7, "exactly"),
            (3, "exactly"),
        }
        nodes = last_of_history(history, url)
    (one,) = statuses_of(nodes, now=clock(), risks={}, accepted_risk=1)
    assert one.status is Status.FIT  # it is known when it was


def test_acceptance_from_the_future_does_not_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal(tmp_path / "a", "a1", -1, Decision.REJECTED)
    journal(tmp_path / "a", "a2", 4, Decision.ACCEPTED)
    journal(tmp_path / "b", "b1", -2, Decision.ACCEPTED, node="n2")
    journal(tmp_path / "c", "c1", -1, Decision.ACCEPTED, node="n3")
    journal(tmp_path / "c", "c2", 4, Decision.REJECTED, node="n3")
    runs = read_runs([tmp_path])
    found = fleet_verdict(runs)
    verdicts = {row.verdict.node: row.verdict for row in found.rows}
    assert {node: one.decision for node, one in verdicts.items()} == {
        "n1": Decision.UNDECIDED,
        "n2": Decision.ACCEPTED,
        "n3": Decision.REJECTED,
    }
    assert "accepted by run a2, 4.0 h in the future: the clocks differ" in verdicts["n1"].headline
    nodes = last_of_runs(runs.journals)
    statuses = {
        one.node: (one.status, one.why)
        for one in statuses_of(nodes, now=time.time(), risks={}, accepted_risk=1)
    }
    assert statuses["n1"] == (Status.UNDECIDED, "accepted 4 h in the future: the clocks differ")
    assert statuses["n2"][0] is Status.FIT
    assert statuses["n3"][0] is Status.QUARANTINED
    main(["judge", str(tmp_path)])
    said = [line for line in capsys.readouterr().out.splitlines() if "in the future" in line]
    assert len(said) == 1
    assert "2 runs begin in the future" in said[0]
    assert "4.0 h: clocks differ" in said[0]


def test_corrected_beginning_is_not_corrected_twice(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that is 30 days behind, and a baseline of yesterday: the run is dated by the baseline."""
    url, clock = new_database(postgres_url, "movedon"), time.time
    path = journal(tmp_path, "moved", -24, Decision.UNDECIDED)
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: clock() - 30 * 24 * HOUR)
        file_finished(url, tmp_path, read_journal(path), journal=path)
    with History(url) as history:
        (run,) = history.node_history("n1")
    assert abs(run.started - clock()) < HOUR


def test_clock_that_went_back_hides_no_rejection(place: Path | str, tmp_path: Path) -> None:
    journal(tmp_path, "good", -1, Decision.ACCEPTED)
    bad = journal(tmp_path, "bad", -24 * 9000, Decision.REJECTED, after="good")
    pushed = push([tmp_path / "runs"], place)
    assert (pushed.new, pushed.failed) == (2, [])
    push([bad], place)
    with History(place) as history:
        (of_history,) = last_of_history(history, place)
    runs = read_runs([tmp_path / "runs"])
    (of_folder,) = last_of_runs(runs.journals)
    for one in (of_history, of_folder):
        assert one.standing.decision is Decision.REJECTED
    assert fleet_verdict(runs).exit_code == 1
