"""Two machines of one name are two nodes in a history, and a run sent twice is one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.cli.main import main
from pytest_anubis.core.events import BlockerFound, Measured, RunFinished, RunStarted
from pytest_anubis.core.history import Incident
from pytest_anubis.core.machine_marks import identity_marks
from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import Decision
from pytest_anubis.store.collected_runs import read_runs
from pytest_anubis.store.fleet.last_runs import last_of_history
from pytest_anubis.store.fleet.pushing import push
from pytest_anubis.store.fleet.stored_runs import read_stored, read_stored_run, stored_runs
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.contents.content_rows import journal_content, read_content
from pytest_anubis.store.history.database import History, HistoryError
from pytest_anubis.store.history.defect_records import defects
from pytest_anubis.store.history.incident_records import add_incident, incidents
from pytest_anubis.store.history.machine_owners import join_node, name_here
from pytest_anubis.store.history.run_filing import file_finished, record_run
from pytest_anubis.store.journal.journal_file import Journal
from pytest_anubis.store.journal.journal_reading import read_journal
from pytest_anubis.store.namesakes import names_of_another
from pytest_anubis.store.run_filter import RunFilter
from tests.store.written_runs import at_once, decided, write_events

A: dict[str, Any] = {"machine": "1" * 32, "system": {"serial": "CZ1001"}}
B: dict[str, Any] = {"machine": "2" * 32, "system": {"serial": "CZ2002"}}
TWIN = names_of_another("n1", identity_marks(B))[0]
"""What B is called where A keeps the name n1."""


def journal(
    store: Path,
    run: str,
    inventory: dict[str, Any],
    day: int = 1,
    *,
    node: str = "n1",
    decision: Decision = Decision.ACCEPTED,
    value: float = 1.0,
) -> Path:
    began = f"2026-01-{day:02d}T00:00:00+00:00"
    measured = Measurement(
        test="t.py::test_x[cpu]", benchmark="t.py::test_x", component="net", device="cpu",
        metric=Metric(name="rate", unit="GB/s", better="higher"), values=(value,) * 4,
    )  # fmt: skip
    return write_events(
        store,
        run,
        RunStarted(run=run, node=node, started=began, hardware_class="c", inventory=inventory),
        Measured(measurement=measured),
        decided(node, decision, f"node {node} is judged"),
        RunFinished(exit_status=0, ended=began),
    )


def filed(place: Path | str) -> list[tuple[str, str]]:
    with History(place) as history:
        return sorted((one.node, one.run) for one in stored_runs(history))


def test_two_machines_of_one_name_are_two_nodes_with_values(
    place: Path | str, tmp_path: Path
) -> None:
    bad = Decision.REJECTED
    for store, run, inventory, day, decision in (
        ("a", "a1", A, 1, Decision.ACCEPTED),
        ("b", "b1", B, 2, bad),
        ("a", "a2", A, 3, Decision.ACCEPTED),
        ("b", "b2", B, 4, bad),
    ):
        path = journal(tmp_path / store, run, inventory, day, decision=decision, value=day)
        said = file_finished(place, tmp_path / store, read_journal(path), journal=path)
        if store == "a":
            assert said == ""
        else:
            assert said.startswith("another machine (another chassis) is called n1 too")
            assert f"this one is {TWIN} in the history" in said
            assert "--anubis-node" in said
            assert f"'anubis history nodes join {TWIN}'" in said
            assert said.isprintable()
    assert filed(place) == [("n1", "a1"), ("n1", "a2"), (TWIN, "b1"), (TWIN, "b2")]
    runs = read_stored(place)
    assert not runs.warnings
    assert not runs.refused
    (population,) = runs.populations
    nodes = dict(zip(population.runs, population.nodes, strict=True))
    assert nodes == {"a1": "n1", "a2": "n1", "b1": TWIN, "b2": TWIN}
    assert [r.run for r in read_stored(place, RunFilter(nodes=(TWIN,))).runs] == ["b1", "b2"]
    assert [r.run for r in read_stored(place, RunFilter(nodes=("n1",))).runs] == ["a1", "a2"]
    one = read_stored_run(place, "b2")
    assert not hasattr(one, "populations")
    with History(place) as history:
        last = {n.node.name: n.last for n in last_of_history(history, place) if n.last}
        assert {one.node for one in defects(history)} == {TWIN}
        assert name_here(history, "n1", identity_marks(B)) == TWIN
        assert name_here(history, "n1", identity_marks(A)) == "n1"
        assert name_here(history, "n1", frozenset()) == "n1"
        assert name_here(history, "n1.cluster.example", identity_marks(A)) == "n1"
    assert {node: run.run for node, run in last.items()} == {"n1": "a2", TWIN: "b2"}
    assert last[TWIN].verdict.headline == f"node {TWIN} is judged"
    # Files that are read together give the same names.
    assert {run.node for run in read_runs([tmp_path / "a", tmp_path / "b"]).runs} == {"n1", TWIN}


def test_a_run_that_is_sent_twice_is_one_run(place: Path | str, tmp_path: Path) -> None:
    journal(tmp_path / "a", "a1", A)
    late = journal(tmp_path / "b", "b1", B)
    pushed = push([tmp_path / "a", tmp_path / "b"], place)
    assert (pushed.new, len(pushed.notes), pushed.failed) == (2, 1, [])
    pushed = push([tmp_path / "b", tmp_path / "a"], place)
    assert (pushed.new, pushed.known, pushed.notes) == (0, 2, [])
    record, content = read_journal(late), journal_content(late)
    with History(place) as history:
        lines: list[str] = []
        assert record_run(history, record, content, tell=lines.append) == "known"
        assert lines == []
        with Journal.open_existing(late) as written:  # it went on
            written.write(BlockerFound(text="later"))
        assert record_run(history, read_journal(late), journal_content(late)) == "changed"
        assert record_run(history, record, content) == "known"
        (stored,) = stored_runs(history, run="b1")
        assert b"".join(read_content(history, stored.number)) == late.read_bytes()
    assert filed(place) == [("n1", "a1"), (TWIN, "b1")]


def test_run_filed_under_another_machine_stays_there(place: Path | str, tmp_path: Path) -> None:
    old = journal(tmp_path / "b", "b1", B)
    with History(place) as history:
        record_run(history, read_journal(old), journal_content(old))
        with history.writing() as connection:  # as the version before left it
            connection.execute(schema.node_machines.delete())
        first = journal(tmp_path / "a", "a1", A, day=2)
        record_run(history, read_journal(first), journal_content(first))
        assert record_run(history, read_journal(old), journal_content(old)) == "known"
        assert record_run(history, read_journal(old)) == "changed"
        new = journal(tmp_path / "b", "b2", B, day=3)
        assert record_run(history, read_journal(new), journal_content(new)) == "new"
    assert filed(place) == [("n1", "a1"), ("n1", "b1"), (TWIN, "b2")]
    # Reading distinguishes the machines, under the names of the history.
    nodes = {run.run: run.node for run in read_stored(place).runs}
    assert nodes == {"a1": "n1", "b1": TWIN, "b2": TWIN}


def test_equal_run_ids_of_two_machines_lose_nothing(place: Path | str, tmp_path: Path) -> None:
    journal(tmp_path / "a", "job-7", A, value=1)
    journal(tmp_path / "b", "job-7", B, value=2)
    for _ in range(2):
        assert push([tmp_path / "a", tmp_path / "b"], place).failed == []
    assert filed(place) == [("n1", "job-7"), (TWIN, "job-7")]
    with History(place) as history, pytest.raises(HistoryError, match="both have a run job-7"):
        join_node(history, TWIN)
    assert filed(place) == [("n1", "job-7"), (TWIN, "job-7")]


def test_fifty_writers_at_once_lose_nothing(place: Path | str, tmp_path: Path) -> None:
    paths = [
        journal(tmp_path / f"s{i}", f"r{i:02d}", B if i % 2 else A, day=1 + i // 2)
        for i in range(50)
    ]
    said: list[str] = []

    def file(number: int) -> None:
        path = paths[number]
        said.append(file_finished(place, path.parents[2], read_journal(path), journal=path))

    with History(place):
        pass
    at_once(50, file)
    late = [path for path in paths if (path.parents[2] / "history-waiting").exists()]
    push([path.parent for path in late], place)  # on a slow machine some had to wait
    found = filed(place)
    assert len(found) == 50
    by_node: dict[str, set[str]] = {}
    for node, run in found:
        by_node.setdefault(node, set()).add(run)
    even, odd = ({f"r{i:02d}" for i in range(50) if i % 2 == rest} for rest in (0, 1))
    assert sorted(by_node.values(), key=min) == [even, odd]
    assert all("another machine" in line for line in said if line)


def test_joined_machines_stay_one_node(
    place: Path | str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal(tmp_path / "a", "a1", A, 1)
    journal(tmp_path / "b", "b1", B, 2, decision=Decision.REJECTED)
    push([tmp_path], place)
    with History(place) as history:
        for node, kind in (("n1", "nic"), (TWIN, "nic"), (TWIN, "disk")):
            add_incident(history, Incident(node=node, kind=kind, started=1.0))
        history.set_state(TWIN, "repair", at=2.0)
    assert main(["history", "nodes", "join", TWIN, "--store", str(place)]) == 0
    assert capsys.readouterr().out == f"{TWIN} is n1 now: 1 run moved; later ones go there too\n"
    journal(tmp_path / "b", "b2", B, 3)
    journal(tmp_path / "a", "a2", A, 4)
    pushed = push([tmp_path], place)
    assert (pushed.new, pushed.known, pushed.notes) == (2, 2, [])
    assert filed(place) == [("n1", "a1"), ("n1", "a2"), ("n1", "b1"), ("n1", "b2")]
    runs = read_stored(place)
    assert {run.node for run in runs.runs} == {"n1"}
    assert not runs.warnings
    with History(place) as history:
        assert [node.state for node in history.nodes()] == ["repair"]
        assert {one.kind for one in incidents(history)} == {"disk", "nic"}
        assert len(incidents(history)) == 2
        assert [one.node for one in defects(history)] == ["n1"]
    for wrong, why in ((TWIN, "is unknown"), ("n1", "no other machine keeps this name")):
        assert main(["history", "nodes", "join", wrong, "--store", str(place)]) == 2
        error = capsys.readouterr().err
        assert why in error
        assert error.count("\n") == 1


def test_name_in_use_is_not_given_again(tmp_path: Path) -> None:
    place = tmp_path / "fleet"
    journal(tmp_path / "c", "c1", {"machine": "3" * 32}, node=TWIN)
    journal(tmp_path / "a", "a1", A)
    journal(tmp_path / "b", "b1", B)
    for name in "cab":
        push([tmp_path / name], place)
    longer = names_of_another("n1", identity_marks(B))[1]
    assert filed(place) == [("n1", "a1"), (TWIN, "c1"), (longer, "b1")]


def test_own_store_distinguishes_machines(tmp_path: Path) -> None:
    for run, inventory in (("r1", A), ("r2", B), ("r3", A)):
        journal(tmp_path, run, inventory)
    said: list[str] = []
    for _ in range(2):
        pushed = push([tmp_path], tmp_path)
        assert pushed.failed == []
        said += pushed.notes
    assert filed(tmp_path) == [("n1", "r1"), ("n1", "r3"), (TWIN, "r2")]
    assert set(map(len, map(str.splitlines, said))) == {1}
    assert {run.node for run in read_stored(tmp_path).runs} == {"n1", TWIN}


def test_short_and_full_name_are_one_node(tmp_path: Path) -> None:
    names = "n1 n1.x.example n2.x.example n2 n3.x.example n3.y.example 10 10.1 N1"
    lines: list[str] = []
    with History(tmp_path) as history:
        for number, name in enumerate(names.split()):
            record_run(history, RunRecord(run=f"r{number}", node=name), tell=lines.append)
        known = {node.name for node in history.nodes()}
    assert known == {"n1", "n2.x.example", "n3.x.example", "n3.y.example", "10", "10.1"}
    assert lines == [
        "n1.x.example is n1 in the history: one machine",
        "n2 is n2.x.example in the history: one machine",
        "N1 is n1 in the history: one machine",
    ]


def test_two_full_names_are_two_machines(tmp_path: Path) -> None:
    """Imports know no serial numbers: the first full name that joins the short one keeps it."""
    with History(tmp_path) as history:
        for number, name in enumerate(("n1", "n1.a.example", "n1.b.example", "n1.a.example")):
            record_run(history, read_journal(journal(tmp_path, f"r{number}", {}, node=name)))
        names = {row.name for row in history.nodes()}
        assert names == {"n1", "n1.b.example"}
        asked = ("n1", "n1.a.example", "n1.b.example", "n1.c.example")
        found = [name_here(history, name, frozenset()) for name in asked]
    assert found == ["n1", "n1", "n1.b.example", "n1.c.example"]
