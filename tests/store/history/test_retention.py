"""Old contents are deleted first, whole runs later, and each node's latest run never."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa

from pytest_anubis.cli.main import main
from pytest_anubis.store.fleet.pushing import push
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.contents.content_rows import columns_content
from pytest_anubis.store.history.database import History, moment_of
from pytest_anubis.store.history.defect_records import defects
from pytest_anubis.store.history.retention import compact, retain
from pytest_anubis.store.history.run_filing import record_run
from tests.postgres import new_database
from tests.store.fleet.test_pushing import journal
from tests.store.history.test_database import record


def left(history: History) -> dict[str, int]:
    with history.reading() as connection:
        return {
            name: connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
            for name, table in schema.metadata.tables.items()
        }


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_contents_go_first_and_runs_later(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    place: Path | str = tmp_path
    if kind == "postgresql":
        place = new_database(request.getfixturevalue("postgres_url"), "retention")
    with History(place) as history:
        for day in range(1, 6):
            content = columns_content(bytes([day]) * 1000, 1)
            record_run(history, record(f"r{day}", day=day, bad=day == 1), content)
        record_run(history, record("old", day=1, node="n2"), columns_content(b"z", 1))
        work = partial(
            retain,
            history,
            contents_before=moment_of("2026-01-04"),
            runs_before=moment_of("2026-01-02"),
        )
        before = left(history)
        trial = work(trial=True)
        assert left(history) == before
        done = work()
        assert done == trial
        assert (done.contents, done.runs, done.bytes) == (2, 1, 3000)
        assert [run.run for run in history.node_history("n1")] == ["r2", "r3", "r4", "r5"]
        assert [run.run for run in history.node_history("n2")] == ["old"]  # its latest
        after = left(history)
        assert (after["contents"], after["content_parts"]) == (3, 3)
        assert (after["runs"], after["verdicts"], after["benchmarks"]) == (5, 10, 5)
        # It was found, whatever became of the run.
        assert [one.run for one in defects(history)] == [""]
        assert work().runs == 0
        compact(history)
        assert left(history) == after


def test_dry_run_counts_what_would_be_deleted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet = str(tmp_path / "fleet")
    for day in (1, 2):
        journal(tmp_path / "node", f"r{day}", day=day)
    push([tmp_path / "node"], tmp_path / "fleet")
    words = ["history", "retain", "--store", fleet, "--contents", "1d"]
    assert main([*words, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("would be taken out: 0 runs, and the contents of 1 more")
    for _ in range(2):
        assert main(words) == 0
    assert capsys.readouterr().out.count("contents of 0 more") == 1
    assert main(["history", "compact", "--store", fleet]) == 0
    assert "compacted: sqlite:///" in capsys.readouterr().out
    assert main(["report", "r2", "--history", fleet]) == 0
    assert main(["report", "r1", "--history", fleet]) == 2
    assert "only its verdicts are in" in capsys.readouterr().err
    for wrong in (["retain"], ["compact", "--store", "nowhere"]):
        assert main(["history", *wrong]) == 2
        assert capsys.readouterr().err.count("\n") == 1
