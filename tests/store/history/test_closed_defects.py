"""The closed defects that a report counts: of one class, and none where no history can be read."""

from __future__ import annotations

from pathlib import Path

from pytest_anubis.core.run import RunRecord
from pytest_anubis.store.history import HISTORY_NAME
from pytest_anubis.store.history.closed_defects import closed_defects
from pytest_anubis.store.history.database import History
from pytest_anubis.store.history.defect_records import add_defect, close_defect
from pytest_anubis.store.history.run_filing import record_run

TEST = "suites/compute/test_gemm.py::test_gemm"


def test_only_closed_defects_of_the_class_are_read(tmp_path: Path) -> None:
    with History(tmp_path) as history:
        for node, key in (("n1", "class"), ("n2", "class"), ("n3", "other")):
            started = "2026-01-01T00:00:00+00:00"
            run = RunRecord(run=node, node=node, hardware_class=key, started=started, ended=started)
            record_run(history, run)
            number = add_defect(history, node=node, benchmarks=[TEST], state="open")
            if node != "n2":
                close_defect(history, number, "false alarm", note="cable")
    for place in (tmp_path, f"sqlite:///{tmp_path / HISTORY_NAME}"):
        (found,) = closed_defects(place, "class")
        assert (found.node, found.state, found.note) == ("n1", "false alarm", "cable")
    assert closed_defects(tmp_path, "third") == ()


def test_no_history_is_no_defect_and_makes_no_file(tmp_path: Path) -> None:
    assert closed_defects(tmp_path, "class") == ()
    assert closed_defects(f"sqlite:///{tmp_path / 'none.sqlite'}", "class") == ()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / HISTORY_NAME).write_bytes(b"no database")
    assert closed_defects(tmp_path, "class") == ()
