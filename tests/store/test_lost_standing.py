"""What only the journals of a store still say counts in health checks and in the status of its fleet."""

from __future__ import annotations

import shutil
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pytest_anubis.cli.main import main
from pytest_anubis.codec import to_plain
from pytest_anubis.core.events import Judged, RunFinished, RunStarted
from pytest_anubis.core.verdict import Decision, Outcome
from pytest_anubis.fleet.fleet_status import NodeStatus, Status, statuses_of
from pytest_anubis.settings import Settings
from pytest_anubis.store.fleet.last_runs import last_of_history
from pytest_anubis.store.history.database import History
from pytest_anubis.store.history.run_filing import record_run
from pytest_anubis.store.journal.journal_reading import read_journal
from pytest_anubis.store.node_standing import FOLDER, keep_begun, standing_file
from tests.store.written_runs import decided, verdict, write_events


def plays(
    store: Path,
    run: str,
    days_ago: float,
    decision: Decision = Decision.ACCEPTED,
    benchmark: str = "t",
    end: bool = True,
    node: str = "n1",
) -> Path:
    """Write the journal of a run that judged one benchmark."""
    began = datetime.fromtimestamp(time.time() - 86400 * days_ago, UTC).isoformat()
    outcome = Outcome.FAIL if decision is Decision.REJECTED else Outcome.PASS
    return write_events(
        store,
        run,
        RunStarted(run=run, node=node, started=began),
        Judged(verdict=verdict(outcome, benchmark=benchmark, text="slow")),
        decided(node, decision, "h"),
        *([RunFinished(exit_status=decision.exit_code, ended=began)] if end else []),
    )


def health(store: Path) -> int:
    return main(["health", "--store", str(store), "--node", "n1"])


def status(store: Path) -> NodeStatus:
    with History(store) as history:
        known = last_of_history(history, store)
    (found,) = statuses_of(known, now=time.time(), risks={}, accepted_risk=1.0, max_age=None)
    return found


def filed(store: Path, journal: Path) -> None:
    with History(store) as history:
        record_run(history, read_journal(journal))


def test_health_is_rebuilt_from_the_journals_of_a_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert health(tmp_path) == 20  # no run at all
    plays(tmp_path, "r1", 3)
    assert health(tmp_path) == 0
    assert standing_file(tmp_path, "n1").exists()  # read once
    plays(tmp_path, "r2", 2, Decision.REJECTED)
    shutil.rmtree(tmp_path / FOLDER)
    assert health(tmp_path) == 1
    plays(tmp_path, "r3", 1)
    shutil.rmtree(tmp_path / FOLDER)
    assert health(tmp_path) == 0
    now = datetime.now(UTC).isoformat()
    write_events(tmp_path, "r4", RunStarted(run="r4", node="n1", started=now))
    shutil.rmtree(tmp_path / FOLDER)
    capsys.readouterr()
    assert health(tmp_path) == 20
    assert "ANB:CUT-SHORT" in capsys.readouterr().out


def test_a_rejection_that_the_history_lost_is_no_acceptance(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = plays(tmp_path, "r1", 2, Decision.REJECTED, "a")
    filed(tmp_path, plays(tmp_path, "r2", 1, benchmark="b"))
    lost = status(tmp_path)
    assert lost.status is Status.UNDECIDED
    assert lost.act.endswith("files them")
    assert main(["fleet", "status", "--history", str(tmp_path)]) == 20
    capsys.readouterr()
    main(["fleet", "drain-list", "--history", str(tmp_path)])
    assert "1 node with runs that the history lacks" in capsys.readouterr().err
    filed(tmp_path, bad)
    assert status(tmp_path).status is Status.QUARANTINED


def test_runs_that_the_history_lacks_and_that_say_nothing_worse_change_nothing(
    tmp_path: Path,
) -> None:
    plays(tmp_path, "r1", 3, Decision.REJECTED)  # answered by the next one
    plays(tmp_path, "r2", 2)
    filed(tmp_path, plays(tmp_path, "r3", 1))
    assert status(tmp_path).status is Status.FIT


def test_a_run_that_was_killed_after_its_verdict_accepts_nothing_anywhere(tmp_path: Path) -> None:
    journal = plays(tmp_path, "r1", 1, end=False)
    assert main(["fleet", "verdict", str(tmp_path)]) == 20
    assert main(["judge", str(tmp_path)]) == 20
    assert health(tmp_path) == 20
    filed(tmp_path, journal)
    assert status(tmp_path).status is Status.UNDECIDED
    bad = tmp_path / "bad"
    plays(bad, "r1", 1, Decision.REJECTED, end=False)
    assert health(bad) == 1


def test_an_older_standing_than_the_journals_of_a_store_is_brought_up_to_date(
    tmp_path: Path,
) -> None:
    plays(tmp_path, "r1", 5)
    assert health(tmp_path) == 0
    older = standing_file(tmp_path, "n1").read_text()
    plays(tmp_path, "r2", 4, Decision.REJECTED)
    assert health(tmp_path) == 1
    assert main(["fleet", "verdict", str(tmp_path)]) == 1
    standing_file(tmp_path, "n1").write_text(older)  # restored from a backup
    plays(tmp_path, "r3", 3, benchmark="another")
    assert keep_begun(tmp_path, "n1", "r4", began=time.time() - 2 * 86400) == ""
    assert health(tmp_path) == 1
    plays(tmp_path, "r5", 1)
    assert health(tmp_path) == 0
    standing_file(tmp_path, "n1").write_text(older)
    plays(tmp_path, "r6", 0.5, end=False)
    assert health(tmp_path) == 20
    # A run that only measured, and another node's, are no run of it.
    measured = Settings(mode="measure")
    plays(tmp_path, "r7", 0.4)
    now = datetime.now(UTC).isoformat()
    started = RunStarted(run="r8", node="n1", started=now, settings=to_plain(measured))
    write_events(tmp_path, "r8", started)
    write_events(tmp_path, "r9", RunStarted(run="r9", node="n2", started=now))
    assert health(tmp_path) == 0


@pytest.mark.parametrize("end", [True, False])
def test_history_of_before_does_not_hide_a_later_journal(tmp_path: Path, end: bool) -> None:
    """A full disk kept the last run out of the history, and out of the node's file."""
    filed(tmp_path, plays(tmp_path, "r1", 3))
    assert health(tmp_path) == 0
    plays(tmp_path, "r2", 1, Decision.REJECTED, end=end)
    for _ in range(2):  # the second finds what the first has rebuilt
        shutil.rmtree(tmp_path / "nodes", ignore_errors=True)
        assert health(tmp_path) == 1
        assert health(tmp_path) == 1
    assert status(tmp_path).status is Status.UNDECIDED
    assert "not in the history" in status(tmp_path).why


@pytest.mark.parametrize("lost", [(0,), (1, 2), (0, 1, 2)])
def test_lines_lost_of_a_rejecting_journal_are_no_acceptance(
    tmp_path: Path, lost: tuple[int, ...]
) -> None:
    """The journals were gathered without the nodes' files, and lost lines on their way."""
    plays(tmp_path, "r1", 3)
    bad = plays(tmp_path, "r2", 1, Decision.REJECTED)
    lines = bad.read_bytes().splitlines(keepends=True)
    bad.write_bytes(b"".join(one for place, one in enumerate(lines) if place not in lost))
    assert health(tmp_path) == 20
    for command in (["fleet", "status"], ["fleet", "verdict"], ["judge"]):
        assert main([*command, str(tmp_path)]) == 20


def test_journals_under_the_full_name_of_a_host_count_too(tmp_path: Path) -> None:
    plays(tmp_path, "r1", 3)
    assert health(tmp_path) == 0
    older = standing_file(tmp_path, "n1").read_text()
    plays(tmp_path, "r2", 2, Decision.REJECTED, node="n1.cluster")
    assert health(tmp_path) == 1
    shutil.rmtree(tmp_path / FOLDER)
    assert health(tmp_path) == 1
    standing_file(tmp_path, "n1").write_text(older)
    plays(tmp_path, "r3", 1, node="n1.another")  # two hosts share the short name
    assert health(tmp_path) == 0


def test_a_rejection_outlives_an_older_history(tmp_path: Path) -> None:
    """The history is restored from a backup of before the rejecting run of another store."""
    store, other = tmp_path / "a", tmp_path / "b"
    filed(store, plays(other, "r1", 3))
    backup = (store / "history.sqlite").read_bytes()
    filed(store, plays(other, "r2", 2, Decision.REJECTED))
    assert health(store) == 1
    (store / "history.sqlite").write_bytes(backup)
    assert [health(store), health(store)] == [1, 1]
    filed(store, plays(other, "r3", 1))
    assert health(store) == 0


def test_an_import_that_cannot_be_read_may_be_of_any_node(tmp_path: Path) -> None:
    filed(tmp_path, plays(tmp_path, "r1", 3))
    assert health(tmp_path) == 0
    (tmp_path / "imports").mkdir()
    (tmp_path / "imports/new.csv.npz").write_bytes(b"PK\x03\x04")
    assert health(tmp_path) == 20
    assert status(tmp_path).status is Status.UNDECIDED


def test_runs_of_two_nodes_may_share_an_id(tmp_path: Path) -> None:
    store, other = tmp_path / "a", tmp_path / "b"
    filed(store, plays(other, "nightly", 1, node="n2"))
    plays(store, "nightly", 1, Decision.REJECTED)
    with History(store) as history:
        found = {one.node.name: one.unfiled for one in last_of_history(history, store)}
    assert {node: bool(files) for node, files in found.items()} == {"n1": True, "n2": False}
    assert main(["push", str(store), "--history", str(store)]) == 0
    assert main(["fleet", "status", "--history", str(store)]) == 1
