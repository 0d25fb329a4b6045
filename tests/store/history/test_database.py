"""The history keeps runs, incidents and defects, the same way in SQLite and PostgreSQL."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from pytest_anubis.core.events import RunStarted, TestRan
from pytest_anubis.core.history import Incident
from pytest_anubis.core.measurement import Measurement, TestResult
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import Decision, MetricVerdict, NodeVerdict, Outcome, Reason
from pytest_anubis.store.fleet.pushing import push
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.database import History, HistoryError, moment_of, shown_time
from pytest_anubis.store.history.defect_records import add_defect, close_defect, defects
from pytest_anubis.store.history.fleet_history import read_fleet
from pytest_anubis.store.history.incident_records import (
    add_incident,
    import_incidents,
    incidents,
    seconds_of,
    withdraw_incident,
)
from pytest_anubis.store.history.risk_model_files import read_model, save_model
from pytest_anubis.store.history.run_filing import record_run
from tests.store.written_runs import write_events

FILES = (Path(__file__).parents[3] / "docs" / "files.md").read_text(encoding="utf-8")
NOW = moment_of("2026-06-01T00:00:00Z")
DAY = 86400.0
NET, DISK = "suites/test_net.py::test_tcp", "suites/test_disk.py::test_fio"


@pytest.fixture(params=["sqlite", "postgresql"])
def history(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[History]:
    if request.param == "sqlite":
        with History(tmp_path / ".anubis") as opened:
            yield opened
        return
    url = request.getfixturevalue("postgres_url")
    engine = sa.create_engine(url)
    schema.metadata.drop_all(engine)
    engine.dispose()
    with History(url) as opened:
        yield opened


def verdict(benchmark: str, outcome: Outcome, similarity: float) -> MetricVerdict:
    return MetricVerdict(
        outcome=outcome, reason=Reason.WITHIN, text="", benchmark=benchmark, metric="rate",
        component=benchmark[12:15], device="cpu", similarity=similarity, value=1.0,
    )  # fmt: skip


def record(run: str = "r1", *, bad: bool = False, day: int = 1, **more: Any) -> RunRecord:
    sample = Measurement(
        test=NET,
        benchmark=NET,
        component="net",
        metric=Metric(name="rate", unit="GB/s", better="higher"),
        device="cpu",
        values=tuple(float(i) for i in range(500)),
    )
    fields: dict[str, Any] = {
        "run": run,
        "node": "n1",
        "hardware_class": "c1",
        "profile": "smoke",
        "purpose": "acceptance",
        "started": f"2026-01-{day:02d}T00:00:00Z",
        "ended": f"2026-01-{day:02d}T00:01:00Z",
        "measurements": (sample,),
        "verdicts": (
            verdict(NET, Outcome.FAIL if bad else Outcome.PASS, 0.7 if bad else 0.99),
            verdict(DISK, Outcome.PASS, 0.98),
        ),
        "node_verdict": NodeVerdict(
            node="n1",
            decision=Decision.REJECTED if bad else Decision.ACCEPTED,
            headline="slow" if bad else "fine",
            components=("network.tcp",) if bad else (),
            baseline="sha256:123456789abc",
        ),
        "results": (
            TestResult(test=NET + "[a]", benchmark=NET, outcome="passed", seconds=2.0, metrics=1),
            TestResult(test=NET + "[b]", benchmark=NET, outcome="failed", seconds=1.0, metrics=1),
            TestResult(test=DISK, benchmark=DISK, outcome="skipped", seconds=0.0, text="no fio"),
        ),
    }
    return RunRecord(**(fields | more))


def test_a_nodes_history_shows_how_similarities_move(history: History) -> None:
    record_run(history, record("late", bad=True, day=9))
    record_run(history, record("early", day=2))
    runs = history.node_history("n1")
    assert [run.run for run in runs] == ["early", "late"]
    assert [run.decision for run in runs] == ["ACCEPTED", "REJECTED"]
    assert [run.similarities[NET, "rate", "cpu"] for run in runs] == [0.99, 0.7]
    assert runs[0].seconds == 60.0
    assert [run.run for run in history.node_history("n1", limit=1)] == ["late"]
    assert [(node.name, node.hardware_class) for node in history.nodes()] == [("n1", "c1")]
    with pytest.raises(HistoryError, match="'n7' is unknown"):
        history.node_history("n7")


def test_opening_a_history_asks_few_questions(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def note(_: Any, __: Any, statement: str, *___: Any) -> None:
        asked.append(statement)

    sa.event.listen(history._engine, "before_cursor_execute", note)
    history._prepare()
    # The transaction's beginning, which tables there are, and the schema; it was one for each table.
    assert 1 < len(asked) <= 4, asked


def test_recording_again_replaces(history: History) -> None:
    for _ in range(2):
        record_run(history, record())
    assert len(history.node_history("n1")) == 1
    with history.reading() as connection:
        for table, count in ((schema.benchmarks, 1), (schema.verdicts, 2), (schema.durations, 1)):
            assert len(connection.execute(sa.select(table)).all()) == count


def test_the_verdicts_of_a_run_can_be_asked_for_in_sql(history: History) -> None:
    record_run(history, record("bad", bad=True))
    (query,) = re.findall(r"```sql\n(.*?)```", FILES, flags=re.DOTALL)
    with history.reading() as connection:
        (row,) = connection.execute(sa.text(query)).all()
    assert (row.name, row.run, row.component, row.similarity) == ("n1", "bad", "net", 0.7)


def test_durations_are_medians_of_what_ran(history: History) -> None:
    record_run(history, record("a"))
    slow = TestResult(test=NET, benchmark=NET, outcome="passed", seconds=9.0, metrics=1)
    record_run(history, record("b", results=(slow,)))
    record_run(history, record("c", results=(slow,), profile="soak"))
    # Of 1.5 (two tests in turn) and 9.
    assert history.durations("c1", profile="smoke") == {NET: 5.25}
    assert history.durations("c1") == {NET: 9.0}
    assert history.durations("c2") == {}
    assert history.durations("") == {NET: 9.0}  # every class


def test_duration_is_the_time_of_the_busiest_worker(history: History) -> None:
    def took(device: str, seconds: float, **more: Any) -> TestResult:
        test = f"{NET}[{device}]"
        result = TestResult(test=test, benchmark=NET, outcome="passed", metrics=1, seconds=seconds)
        return replace(result, **more)

    # A worker sets up for 40 s what its two tests share.
    results = (took("a", 10.0, around=40.0), took("b", 10.0), took("c", 12.0))
    ran = [
        TestRan(test=f"{NET}[{x}]", worker=w, start=0.0, end=1.0)
        for x, w in zip("abc", "001", strict=True)
    ]
    record_run(history, record(results=results, events=tuple(ran)))
    assert history.durations("c1") == {NET: 30.0}  # (50 + 10) / 2


def test_rejected_run_opens_a_defect_to_be_closed(history: History) -> None:
    record_run(history, record("ok"))
    assert defects(history) == ()
    record_run(history, record("bad", bad=True))
    (defect,) = defects(history, node="n1", state="open")
    assert (defect.run, defect.component, defect.benchmarks) == ("bad", "network.tcp", (NET,))
    close_defect(history, defect.number, "false alarm", note="cable moved", now=NOW)
    record_run(history, record("bad", bad=True))
    (closed,) = defects(history)
    assert (closed.state, closed.closed, closed.note) == ("false alarm", NOW, "cable moved")
    assert defects(history, state="open") == ()
    with pytest.raises(HistoryError, match="no defect 999"):
        close_defect(history, 999, "confirmed")
    with pytest.raises(HistoryError, match="none of open, confirmed, false alarm"):
        close_defect(history, defect.number, "maybe")


def test_repeated_fault_is_one_open_defect(history: History) -> None:
    for day in (3, 1, 2):  # as runs that waited are filed
        record_run(history, record(f"r{day}", bad=True, day=day))
    other = (verdict(DISK, Outcome.FAIL, 0.7),)
    record_run(history, record("disk", bad=True, day=2, verdicts=other))  # the same part, elsewhere
    record_run(history, record("n2", bad=True, day=2, node="n2"))
    fault, disk, neighbour = defects(history)
    assert (fault.runs, fault.run, fault.seen) == (
        ("r1", "r2", "r3"), "r1", moment_of("2026-01-03T00:00:00Z"),
    )  # fmt: skip
    assert (disk.runs, neighbour.runs) == (("disk",), ("n2",))
    assert len(read_fleet(history, hardware_class="c1").defects) == 3
    close_defect(history, fault.number, "confirmed", now=moment_of("2026-01-04"))
    assert [one.run for one in defects(history, node="n1", state="open")] == ["disk"]
    record_run(history, record("again", bad=True, day=5))
    (new,) = defects(history, node="n1", state="open")[1:]
    assert (new.runs, new.benchmarks) == (("again",), (NET,))
    close_defect(history, fault.number, "open")
    assert len(defects(history, node="n1", state="open")) == 2


def test_closing_again_changes_only_the_state(history: History) -> None:
    record_run(history, record("r1", bad=True, day=1))
    first = close_defect(history, 1, "false alarm", now=moment_of("2026-01-02"))
    record_run(history, record("r3", bad=True, day=3))
    for _ in range(2):
        again = close_defect(history, first.number, "confirmed", now=moment_of("2026-01-04"))
        assert (again.state, again.closed, again.runs) == ("confirmed", first.closed, ("r1",))
        assert [one.runs for one in defects(history, state="open")] == [("r3",)]
    for _ in range(2):
        later = close_defect(history, 2, "confirmed", now=moment_of("2026-01-05"))
        assert (later.number, later.runs) == (2, ("r3",))
        assert [one.number for one in defects(history, state="confirmed")] == [1, 2]


def test_closing_a_sighting_closes_its_defect(history: History) -> None:
    for day in (1, 2):
        record_run(history, record(f"r{day}", bad=True, day=day))
    for _ in range(2):
        found = close_defect(history, 2, "confirmed")
        assert (found.number, found.runs) == (1, ("r1", "r2"))
    assert not defects(history, state="open")


def test_rows_with_different_states_are_different_defects(history: History) -> None:
    for day in (1, 2, 3, 4):
        record_run(history, record(f"r{day}", bad=True, day=day))
    states = ["confirmed", "confirmed", "false alarm", "open"]
    with history.writing() as connection:
        table = schema.defects
        for number, state in enumerate(states, 1):
            closed = None if state == "open" else NOW
            row = table.update().where(table.c.id == number)
            connection.execute(row.values(state=state, closed=closed))
    found = [(one.state, one.runs) for one in defects(history)]
    assert found == [("confirmed", ("r1", "r2")), ("false alarm", ("r3",)), ("open", ("r4",))]


def test_defects_by_hand(history: History) -> None:
    history.add_node("n2", hardware_class="c2")
    add_defect(history, node="n2", benchmarks=[NET, DISK, NET], kind="nic", found=NOW - 1, now=NOW)
    (defect,) = defects(history, node="n2")
    assert (defect.benchmarks, defect.kind, defect.state) == ((DISK, NET), "nic", "confirmed")

    def older(found: float) -> int:
        return add_defect(
            history, node="n2", benchmarks=[NET], kind="nic", found=NOW - found, now=NOW
        )

    number = older(2)
    for state in ("open", "confirmed"):
        close_defect(history, number, state, now=NOW)
    assert older(1.5) == number != defect.number
    with pytest.raises(HistoryError, match="at least one"):
        add_defect(history, node="n2", benchmarks=[])
    with pytest.raises(HistoryError, match="unknown"):
        add_defect(history, node="n7", benchmarks=[NET])
    with pytest.raises(HistoryError, match="future"):
        add_defect(history, node="n2", benchmarks=[NET], found=NOW + DAY, now=NOW)


def test_incidents_one_by_one(history: History) -> None:
    history.add_node("n1", since=NOW - 9 * DAY)
    item = Incident(node="n1", kind="nic", started=NOW - DAY, duration=60.0, note="flap")
    assert add_incident(history, item, now=NOW)
    assert not add_incident(history, item, now=NOW)
    (found,) = incidents(history, node="n1")
    assert replace(found, number=0) == item
    for bad, said in (
        ({"started": NOW + DAY}, "future"),
        ({"started": float("nan")}, "not a time"),
        ({"duration": -1.0}, "negative"),
        ({"duration": 2 * DAY}, "in the future"),
        ({"node": "n9"}, "'n9' is unknown"),
        ({"node": " "}, "empty"),
        ({"kind": ""}, "kind '' is empty"),
    ):
        fields = {"node": "n1", "kind": "gpu", "started": NOW - DAY} | bad
        with pytest.raises(HistoryError, match=said) as caught:
            add_incident(history, Incident(**fields), now=NOW)  # type: ignore[arg-type]
        assert "\n" not in str(caught.value)
    assert len(incidents(history)) == 1
    lasting = Incident(node="n1", kind="gpu", started=NOW - DAY)
    assert add_incident(history, lasting, now=NOW)
    assert not add_incident(history, replace(lasting, duration=90.0), now=NOW)
    ended = next(one for one in incidents(history) if one.kind == "gpu")
    assert ended.duration == 90.0  # the duration was unknown at first
    withdraw_incident(history, ended.number)
    assert [one.kind for one in incidents(history)] == ["nic"]
    with pytest.raises(HistoryError, match=f"no incident {ended.number}"):
        withdraw_incident(history, ended.number)
    assert add_incident(history, Incident(node="n9", kind="x", started=1.0), add_node=True, now=NOW)
    assert {node.name: node.since for node in history.nodes()} == {"n1": NOW - 9 * DAY, "n9": 1.0}


def test_incidents_from_a_file_keep_the_good_lines(history: History, tmp_path: Path) -> None:
    history.add_node("n1")
    path = tmp_path / "incidents.csv"
    path.write_text(
        "node,kind,started,duration,component\n"
        "n1,nic,2026-01-01T00:00:00Z,1.5,network\n"  # 2
        "n1,nic,2027-01-01,1,\n"  # 3: future
        "n9,nic,2026-01-01,1,\n"  # 4: unknown node
        "n1,nic,2026-01-02,-3,\n"  # 5: negative
        "n1,nic,soon,1,\n"  # 6: no date
        "n1,,2026-01-02,1,\n"  # 7: no kind
        "n1,nic,2026-01-03,a while,\n"  # 8: no duration
        "\n"
        "n1,disk,2026-01-04\n"  # 10
        "n1,disk,2026-01-04,,\n"  # 11: the same again
    )
    found = import_incidents(history, path, now=NOW)
    assert (found.added, found.known) == (2, 1)
    assert sorted(int(text.split("line ")[1].split(":")[0]) for text in found.wrong) == [
        3, 4, 5, 6, 7, 8,
    ]  # fmt: skip
    assert found.wrong[1].startswith(f"{path} line 4: ")  # as they stand in the file
    assert all(str(path) in text and "\n" not in text for text in found.wrong)
    kept = incidents(history)
    assert [(item.kind, item.duration, item.component) for item in kept] == [
        ("nic", 5400.0, "network"), ("disk", None, ""),
    ]  # fmt: skip
    again = import_incidents(history, path, add_nodes=True, now=NOW)
    assert (again.added, again.known) == (1, 3)
    assert [node.name for node in history.nodes()] == ["n1", "n9"]
    path.write_text("node,kind,started,duration\nn1,disk,2026-01-04,2\n")
    assert import_incidents(history, path, now=NOW).known == 1
    assert [item.duration for item in incidents(history) if item.kind == "disk"] == [7200.0]


@pytest.mark.parametrize(
    ("content", "said"), [("", "'node' is missing"), ("node,kind\n", "'started' is missing")]
)
def test_a_file_that_holds_no_incidents(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "i.csv"
    path.write_text(content)
    with History(tmp_path) as opened:
        with pytest.raises(HistoryError, match=said):
            import_incidents(opened, path)
        with pytest.raises(HistoryError, match="cannot be read"):
            import_incidents(opened, tmp_path / "nothing.csv")


def test_states_of_nodes(history: History) -> None:
    history.add_node("n1", hardware_class="c1")
    assert history.nodes()[0].state == "in service"
    history.set_state("n1", "in service", at=NOW - DAY, now=NOW)
    history.set_state("n1", "repair", at=NOW - 60, now=NOW)
    history.set_state("n1", "drained", at=NOW - 90, now=NOW)
    assert history.nodes()[0].state == "repair"
    with pytest.raises(HistoryError, match="none of in service"):
        history.set_state("n1", "broken")
    with pytest.raises(HistoryError, match="unknown"):
        history.set_state("n2", "repair")
    with pytest.raises(HistoryError, match="unprintable"):
        history.add_node("\x00")


def test_a_journal_without_an_end_is_filed(tmp_path: Path) -> None:
    path = write_events(tmp_path, "r1", RunStarted(run="r1", node="n1", started="2026-01-01"))
    os.utime(path, (0, 0))  # else it may still be written
    assert push([tmp_path], tmp_path).failed == []
    with History(tmp_path) as opened:
        (run,) = opened.node_history("n1")
    assert (run.run, run.seconds, run.decision) == ("r1", None, "")


def test_a_file_in_place_of_a_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HistoryError, match="another store folder"):
        History(tmp_path / "file")


def test_several_processes_may_file_at_once(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from pytest_anubis.store.history.database import History\n"
        "from pytest_anubis.store.history.run_filing import record_run\n"
        "from pytest_anubis.core.run import RunRecord\n"
        "for i in range(15):\n"
        "    with History(sys.argv[1]) as h:\n"
        "        record_run(h, RunRecord(run=f'{sys.argv[2]}-{i}', node='n1', started='2026-01-01'))\n"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name]) for name in "abc"
    ]
    assert [process.wait(timeout=120) for process in processes] == [0, 0, 0]
    with History(tmp_path) as opened:
        assert len(opened.node_history("n1")) == 45


def test_durations_and_dates_in_words() -> None:
    assert seconds_of("2") == 7200.0
    assert seconds_of("30m") == 1800.0
    assert seconds_of(" 1.5d ") == 129600.0
    assert seconds_of("") is None
    assert shown_time(moment_of("2026-01-01")) == "2026-01-01T00:00:00+00:00"
    assert moment_of("2026-01-01T01:00:00+01:00") == moment_of("2026-01-01")
    assert "s" in shown_time(1e300)


def test_the_fleet_is_read_at_once(history: History) -> None:
    history.add_node("n2", since=NOW - 50 * DAY)
    record_run(history, record("a", day=2))
    record_run(history, record("b", bad=True, day=3))
    record_run(history, record("c", day=4, hardware_class="c2", verdicts=()))
    history.set_state("n2", "removed", at=NOW - 5 * DAY, now=NOW)
    add_incident(history, Incident(node="n2", kind="nic", started=NOW - 9 * DAY), now=NOW)
    add_defect(history, node="n2", benchmarks=[DISK], found=NOW - DAY, now=NOW)

    fleet = read_fleet(history, hardware_class="c1", profile="smoke")
    assert [node.name for node in fleet.nodes] == ["n1", "n2"]
    assert [run.run for run in fleet.runs["n1"]] == ["a", "b", "c"]
    lowest = [min(run.similarities.values(), default=None) for run in fleet.runs["n1"]]
    assert lowest == [0.98, 0.7, None]
    assert fleet.gone == {"n2": pytest.approx(NOW - 5 * DAY)}
    assert [item.kind for item in fleet.incidents] == ["nic"]
    # Of the class and of unknown class; another class has its own durations.
    assert [item.hardware_class for item in fleet.defects] == ["c1", ""]
    assert (fleet.durations, fleet.experience) == ({NET: 1.5}, {NET: 2})
    assert fleet.components == {NET: "net"}
    # A class without defects takes what there is.
    assert len(read_fleet(history, hardware_class="c9").defects) == 2
    # As does one that has false alarms alone.
    own = next(item for item in fleet.defects if item.hardware_class == "c1")
    close_defect(history, own.number, "false alarm")
    add_defect(history, node="n2", benchmarks=[NET], found=NOW - DAY, now=NOW)
    record_run(history, record("d", bad=True, day=6, hardware_class="c2"))
    classes = [item.hardware_class for item in read_fleet(history, hardware_class="c1").defects]
    assert sorted(classes) == ["", "", "c1", "c2"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "cannot be read"),
        ("[]", "not a risk model"),
        ('{"format": "anubis-baseline"}', "not a risk model"),
        ("{", "not valid JSON"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_file_that_is_no_risk_model(tmp_path: Path, text: str | None, words: str) -> None:
    path = tmp_path / "m.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(HistoryError, match=words):
        read_model(path)


def test_a_risk_model_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "m.json"
    save_model(path, {"schema": 1, "kinds": ["nic"]}, created="2026-01-01T00:00:00Z")
    assert read_model(path)["kinds"] == ["nic"]
    (tmp_path / "file").write_text("")
    with pytest.raises(HistoryError, match="cannot be written"):
        save_model(tmp_path / "file" / "m.json", {}, created="")


def test_node_with_an_incident_was_in_service(history: History) -> None:
    history.add_node("n1", since=NOW - DAY)  # first measured yesterday
    for days in (40, 90, 20):
        add_incident(history, Incident(node="n1", kind="nic", started=NOW - days * DAY), now=NOW)
    (node,) = read_fleet(history).nodes
    assert node.since == NOW - 90 * DAY
