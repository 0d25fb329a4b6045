"""The closed defects that a report counts: of one class, and none where no history can be read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_anubis.core.history import precedents_of
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import Decision, Outcome
from pytest_anubis.store.history import HISTORY_NAME, history_file
from pytest_anubis.store.history.closed_defects import closed_defects
from pytest_anubis.store.history.database import History, moment_of
from pytest_anubis.store.history.defect_records import add_defect, close_defect, defects
from pytest_anubis.store.history.retention import retain
from pytest_anubis.store.history.run_filing import record_run
from tests.store.written_runs import decided, verdict

TEST = "suites/compute/test_gemm.py::test_gemm"


RUN = RunRecord(run="later", node="n", hardware_class="class", started="2026-06-01T00:00:00+00:00")


def rejected(run: str, node: str, day: int) -> RunRecord:
    """Return a run of January that rejects its node."""
    slow = verdict(Outcome.FAIL, benchmark=TEST, metric="rate", component="compute")
    moment = f"2026-01-{day:02}T00:00:00+00:00"
    return RunRecord(
        run=run, node=node, hardware_class="class", started=moment, ended=moment, verdicts=(slow,),
        node_verdict=decided(node, Decision.REJECTED, f"{run}: slow").verdict,
    )  # fmt: skip


def test_only_closed_defects_of_the_class_are_read(tmp_path: Path) -> None:
    with History(tmp_path) as history:
        for node, key in (("n1", "class"), ("n2", "class"), ("n3", "other")):
            started = "2026-01-01T00:00:00+00:00"
            run = RunRecord(run=node, node=node, hardware_class=key, started=started, ended=started)
            record_run(history, run)
            number = add_defect(history, node=node, benchmarks=[TEST], found=1.0, state="open")
            if node != "n2":
                close_defect(history, number, "false alarm", note="cable")
    for place in (tmp_path, f"sqlite:///{tmp_path / HISTORY_NAME}"):
        (found,) = closed_defects(place, RUN)
        assert (found.node, found.state, found.note) == ("n1", "false alarm", "cable")
    assert closed_defects(tmp_path, replace(RUN, hardware_class="third")) == ()


def test_defects_of_the_run_and_later_ones_are_left_out(tmp_path: Path) -> None:
    runs = [rejected("a", "n1", 2), rejected("b", "n2", 4), rejected("c", "n3", 6)]
    with History(tmp_path) as history:
        for run in runs:
            record_run(history, run)
        for one in defects(history):
            close_defect(history, one.number, "confirmed")
    first, second, third = ([one.node for one in closed_defects(tmp_path, run)] for run in runs)
    assert (first, second, third) == ([], ["n1"], ["n1", "n2"])
    collected = replace(runs[2], run="c and 1 more", node="n1")
    own = tuple(replace(one, run="a") for one in collected.verdicts)
    assert [one.node for one in closed_defects(tmp_path, collected)] == ["n1", "n2"]
    assert [one.node for one in closed_defects(tmp_path, replace(collected, verdicts=own))] == [
        "n2"
    ]
    undated = replace(runs[1], started="")
    assert [one.node for one in closed_defects(tmp_path, undated)] == ["n1", "n3"]


def test_the_headline_of_a_run_is_no_note(tmp_path: Path) -> None:
    with History(tmp_path) as history:
        record_run(history, rejected("a", "n1", 2))
        record_run(history, rejected("b", "n2", 4))
        named, bare = defects(history)
        close_defect(history, named.number, "confirmed", note="cable")
        close_defect(history, bare.number, "confirmed")
    found = closed_defects(tmp_path, RUN)
    before = precedents_of(found, [(TEST, "rate")])
    assert (before.confirmed, before.note) == (2, "cable")
    assert precedents_of(found[1:], [(TEST, "rate")]).note == ""


def test_defects_count_by_metric_where_their_runs_are_known(tmp_path: Path) -> None:
    one, other = rejected("a", "n1", 2), rejected("b", "n2", 4)
    slow = other.verdicts[0]
    two = (replace(slow, outcome=Outcome.MARGINAL), replace(slow, metric="latency"))
    mild = replace(rejected("c", "n3", 6), settings={"fail_on": "marginal"}, verdicts=two[:1])
    with History(tmp_path) as history:
        for run in (one, replace(other, verdicts=two), mild):
            record_run(history, run)
        add_defect(history, node="n1", benchmarks=[TEST], found=1.0)
        for defect in defects(history, state="open"):
            close_defect(history, defect.number, "confirmed")
    found = closed_defects(tmp_path, RUN)
    assert [defect.metrics for defect in found] == [
        (), ((TEST, "rate"),), ((TEST, "latency"),), ((TEST, "rate"),),
    ]  # fmt: skip
    counts = {
        metric: precedents_of(found, [(TEST, metric)]).confirmed
        for metric in ("rate", "latency", "third")
    }
    assert counts == {"rate": 3, "latency": 2, "third": 1}
    assert precedents_of(found, [("another", "rate")]).confirmed == 0


def test_a_headline_goes_with_its_deleted_run(tmp_path: Path) -> None:
    with History(tmp_path) as history:
        for run in (rejected("a", "n1", 2), rejected("b", "n2", 2)):
            record_run(history, run)
            record_run(history, rejected(f"{run.run}2", run.node, 20))
        for one, note in zip(defects(history), ("cable", ""), strict=True):
            close_defect(history, one.number, "confirmed", note=note)
        retain(history, runs_before=moment_of("2026-01-10"))
        assert [(one.note, one.note_of_run) for one in defects(history)] == [
            ("cable", False), ("", False),
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("place", "file"),
    [
        (Path("store"), Path("store", HISTORY_NAME)),
        ("store", Path("store", HISTORY_NAME)),
        ("sqlite:///h.sqlite", Path("h.sqlite")),
        ("sqlite:////data/h.sqlite?timeout=5", Path("/data/h.sqlite")),
        ("sqlite:///:memory:", None),
        ("sqlite:///", None),
        ("postgresql+psycopg://me@host/anubis", None),
    ],
)
def test_only_sqlite_has_a_file(place: Path | str, file: Path | None) -> None:
    assert history_file(place) == file


def test_no_history_is_no_defect_and_makes_no_file(tmp_path: Path) -> None:
    assert closed_defects(tmp_path, RUN) == ()
    assert closed_defects(f"sqlite:///{tmp_path / 'none.sqlite'}", RUN) == ()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / HISTORY_NAME).write_bytes(b"no database")
    assert closed_defects(tmp_path, RUN) == ()
