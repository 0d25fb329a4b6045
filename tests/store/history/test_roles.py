"""The roles on PostgreSQL can do their tasks on a real server, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import sqlalchemy as sa

from pytest_anubis.cli.main import main
from pytest_anubis.core.events import BlockerFound
from pytest_anubis.store.fleet.pushing import push
from pytest_anubis.store.fleet.stored_runs import read_stored, stored_runs
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.contents.content_rows import columns_content
from pytest_anubis.store.history.database import History, HistoryError
from pytest_anubis.store.history.fleet_history import last_verdicts, read_fleet
from pytest_anubis.store.history.retention import retain
from pytest_anubis.store.history.roles import roles_sql
from pytest_anubis.store.history.run_filing import record_run
from pytest_anubis.store.journal.journal_file import Journal
from pytest_anubis.store.run_filter import RunFilter
from tests.postgres import new_database
from tests.store.fleet.test_pushing import journal
from tests.store.history.test_database import record
from tests.store.history.test_machine_owners import A, B
from tests.store.history.test_machine_owners import journal as machine


@pytest.fixture
def urls(postgres_url: str, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Return the URL of the owner, and of a user of each role; the SQL is what the command prints."""
    owner = new_database(postgres_url, "roles")
    with History(owner):
        pass
    assert main(["history", "roles"]) == 0
    sql = capsys.readouterr().out
    engine = sa.create_engine(owner, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for _ in range(2):
            connection.connection.cursor().execute(sql)
        for role in ("append", "read", "maintain"):
            connection.exec_driver_sql(f"CREATE ROLE user_{role} LOGIN IN ROLE anubis_{role}")
        connection.exec_driver_sql("CREATE ROLE user_none LOGIN")
    engine.dispose()
    found = {role: owner.replace("anubis@", f"user_{role}@") for role in
             ("append", "read", "maintain", "none")}  # fmt: skip
    return found | {"owner": owner}


def refused(url: str, statement: str) -> bool:
    engine = sa.create_engine(url)
    try:
        with engine.begin() as connection:
            connection.exec_driver_sql(statement)
    except sa.exc.ProgrammingError as error:
        return "permission denied" in str(error) or "must be owner" in str(error)
    finally:
        engine.dispose()
    return False


def test_roles_can_do_their_tasks_and_nothing_else(urls: dict[str, str], tmp_path: Path) -> None:
    store = tmp_path / "node"
    journal(store, "r1")
    later = journal(store, "r2", day=2)
    # Appending: runs of a journal with all that it has, a rejected one with its defect.
    for _ in range(2):
        pushed = push([store], urls["append"])
        assert (pushed.failed, pushed.stopped) == ([], "")
    with History(urls["append"]) as history:
        bad, content = record("bad", bad=True, day=3), columns_content(b"x" * 99, 1)
        assert [record_run(history, bad, content) for _ in range(2)] == ["new", "known"]
    # This role distinguishes machines of one name too.
    for name, inventory in (("a", A), ("b", B)):
        machine(tmp_path / name, name, inventory, node="m1")
        assert push([tmp_path / name], urls["append"]).failed == []
    # Nothing that is there can be read (but for what is compared), changed or removed.
    for table in schema.metadata.tables:
        assert refused(urls["append"], f"DELETE FROM {table}"), table  # noqa: S608
        assert refused(urls["append"], f"TRUNCATE {table}"), table
        for other in ("read", "none"):
            assert refused(urls[other], f"DELETE FROM {table}"), table  # noqa: S608
    for statement in (
        "SELECT packed FROM content_parts",
        "SELECT value FROM verdicts",
        "SELECT note FROM defects",
        "SELECT node_id FROM incidents",
        "UPDATE runs SET decision = 'ACCEPTED'",
        "UPDATE verdicts SET outcome = 'PASS'",
        "UPDATE defects SET state = 'false alarm'",
        "UPDATE nodes SET name = 'n9'",
        "UPDATE node_machines SET mark = 'system:0'",
        "UPDATE namesakes SET first_id = 1",
        "UPDATE content_parts SET packed = ''",
        "INSERT INTO incidents (node_id, kind, started) VALUES (1, 'nic', 0)",
        "INSERT INTO states (node_id, at, state) VALUES (1, 0, 'removed')",
        "INSERT INTO anubis_meta VALUES ('a', 'b')",
        "CREATE TABLE mine (a int)",
        "DROP TABLE runs",
    ):
        assert refused(urls["append"], statement), statement
        assert refused(urls["read"], statement) or statement.startswith("SELECT"), statement
    assert refused(urls["none"], "SELECT name FROM nodes")
    # A run that went on would have to be replaced: that is one line, and nothing is lost.
    with Journal.open_existing(later) as written:
        written.write(BlockerFound(text="later"))
    os.utime(later, (1, 1))
    (line,) = push([store / "runs" / "r2"], urls["append"]).failed
    assert "permission denied" in line
    assert line.isprintable()
    # Reading: all of it.
    with History(urls["read"]) as history:
        assert [one.run for one in stored_runs(history)] == ["r1", "a", "b", "r2", "bad"]
        assert len({one.node for one in stored_runs(history) if one.run in "ab"}) == 2
        assert last_verdicts(history)["n1"][0] == "REJECTED"
        assert read_fleet(history).defects
        with pytest.raises(HistoryError, match="permission denied"):
            retain(history, runs_before=9e9)
    assert len(read_stored(urls["read"], RunFilter(nodes=("n1",), metrics=("rate",))).runs) == 2
    # Maintaining: bringing up to date, states, retention.
    assert push([store / "runs" / "r2"], urls["maintain"]).changed == 1
    with History(urls["maintain"]) as history:
        history.set_state("n1", "drained")
        assert retain(history, runs_before=9e9).runs == 2
    assert refused(urls["maintain"], "DROP TABLE runs")


@pytest.mark.parametrize("name", ["a b", "x;drop", "A", "", "x" * 50])
def test_a_name_that_needs_quotes_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="small letters"):
        roles_sql(prefix=name)
    assert main(["history", "roles", "--schema", name]) == 2
    assert capsys.readouterr().err.count("\n") == 1
