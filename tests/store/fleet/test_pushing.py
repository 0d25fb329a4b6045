"""Runs are pushed into a history once, in spite of failures, and can be read back."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.core.blocker import Blocker
from pytest_anubis.core.events import Measured, Resumed, RunFinished, RunStarted
from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import Decision, NodeVerdict, Triage
from pytest_anubis.store import node_standing
from pytest_anubis.store.collected_runs import RunsError, RunSet, read_runs
from pytest_anubis.store.fleet import pushing
from pytest_anubis.store.fleet.last_runs import last_of_history
from pytest_anubis.store.fleet.pushing import RunKey, push
from pytest_anubis.store.fleet.stored_runs import read_stored, read_stored_run, stored_runs
from pytest_anubis.store.fleet.unfiled import import_name, store_of
from pytest_anubis.store.history import run_filing
from pytest_anubis.store.history.contents.content_rows import read_content
from pytest_anubis.store.history.database import History, HistoryError
from pytest_anubis.store.journal.journal_file import Journal
from pytest_anubis.store.journal.journal_reading import read_journal
from pytest_anubis.store.node_standing import keep_begun
from pytest_anubis.store.run_filter import RunFilter
from tests.store.written_runs import decided, write_events

RATE = Metric(name="rate", unit="GB/s", better="higher")
TABLE = "node,device,benchmark,metric,unit,better,value\n"


def journal(store: Path, run: str, node: str = "n1", day: int = 1, *, ended: bool = True) -> Path:
    start = f"2026-01-{day:02d}T00:00:00+00:00"
    measured = (
        Measurement(
            test="t.py::test_x", benchmark="t.py::test_x", component="net", metric=metric,
            device="cpu", values=(1.0 + day, 2.0, 3.0),
        )
        for metric in (RATE, Metric(name="lag", unit="s", better="lower"))
    )  # fmt: skip
    return write_events(
        store,
        run,
        RunStarted(run=run, node=node, started=start, hardware_class="c1"),
        *(Measured(measurement=one) for one in measured),
        *([RunFinished(exit_status=0, ended=start)] if ended else []),
    )


def known(place: Path | str) -> list[str]:
    with History(place) as history:
        return [one.run for one in stored_runs(history)]


def same(found: RunSet, expected: RunSet) -> bool:
    def plain(runs: RunSet) -> list[object]:
        return [
            (p.hardware_class, p.metric, p.nodes, p.devices, p.runs, p.values.tolist(), p.problems)
            for p in runs.populations
        ]

    return plain(found) == plain(expected)


def test_missing_runs_are_pushed_once_and_read_back(place: Path | str, tmp_path: Path) -> None:
    store = tmp_path / "node"
    for day in (1, 2, 3):
        journal(store, f"r{day}", f"n{day}", day)
    said: list[str] = []
    pushed = push([store], place, progress=said.append)
    assert (pushed.new, pushed.known, pushed.failed, pushed.stopped) == (3, 0, [], "")
    assert said == ["3 runs read, 3 files in all"]
    journal(store, "r4", day=4)
    pushed = push([store, store / "runs"], place)
    assert (pushed.new, pushed.known, pushed.failed) == (1, 3, [])
    assert known(place) == ["r1", "r2", "r3", "r4"]
    assert same(read_stored(place), read_runs([store]))
    assert read_stored_run(place, "r2") == read_journal(store / "runs" / "r2")
    assert read_stored_run(place, "latest") == read_journal(store / "runs" / "r4")
    with pytest.raises(HistoryError, match="no run r9"):
        read_stored_run(place, "r9")


def test_reading_takes_what_is_asked_for(tmp_path: Path) -> None:
    store, place = tmp_path / "node", tmp_path / "fleet"
    for day in (1, 2, 3):
        journal(store, f"r{day}", f"n{day}", day)
    push([store], place)
    late = read_runs([store / "runs" / "r2"]).runs[0].started
    assert late == "2026-01-02T00:00:00+00:00"
    for wanted, runs in (
        (RunFilter(nodes=("n[12]",)), ["r1", "r2"]),
        (RunFilter(exclude=("n1", "n3")), ["r2"]),
        (RunFilter(since=1767312000.0), ["r2", "r3"]),  # 2 January
        (RunFilter(hardware_class="c1", metrics=("ra*",)), ["r1", "r2", "r3"]),
    ):
        for found in (read_stored(place, wanted), read_runs([store], wanted=wanted)):
            assert [run.run for run in found.runs] == runs
            assert same(found, read_runs([store], wanted=wanted))
            assert all(list(one.runs) == runs for one in found.populations)
            assert len(found.populations) == (1 if wanted.metrics else 2)
    for wanted in (RunFilter(nodes=("x*",)), RunFilter(hardware_class="c2")):
        with pytest.raises(RunsError, match="of the nodes, class and time"):
            read_stored(place, wanted)
        with pytest.raises(RunsError, match="of the nodes, class and time"):
            read_runs([store], wanted=wanted)


def test_lost_connection_during_push_loses_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, place = tmp_path / "node", tmp_path / "fleet"
    for day in range(1, 8):
        journal(store, f"r{day}", day=day)
    monkeypatch.setattr(pushing, "_BATCH_RUNS", 2)
    file, calls = run_filing._put_run, []

    def gone(*arguments: object) -> int:
        calls.append(arguments)
        if len(calls) == 4:
            (place / "history.sqlite").rename(place / "away")
            raise OSError("cut")
        return file(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(run_filing, "_put_run", gone)
    push([store], place)
    if (place / "away").exists():
        (place / "away").replace(place / "history.sqlite")
    push([store], place)
    assert sorted(known(place)) == [f"r{day}" for day in range(1, 8)]


def test_it_is_tried_again_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, place = tmp_path / "node", tmp_path / "fleet"
    (place / "history.sqlite").mkdir(parents=True)
    journal(store, "r1")
    monkeypatch.setattr(time, "sleep", lambda _: (place / "history.sqlite").rmdir())
    assert push([store], place, patience=60.0).new == 1
    journal(store, "r2")
    asked, pauses = pushing._known, list[float]()

    def away(*arguments: Any) -> set[str]:
        if not pauses:
            raise HistoryError("away")
        return asked(*arguments)

    monkeypatch.setattr(pushing, "_known", away)
    monkeypatch.setattr(time, "sleep", pauses.append)
    assert push([store], place, patience=60.0).new == 1
    assert len(pauses) == 1


def test_unfileable_run_is_one_line_and_stops_nothing(tmp_path: Path) -> None:
    store, place = tmp_path / "node", tmp_path / "fleet"
    journal(store, "r1")
    journal(store, "r2", ended=False)  # killed long ago
    os.utime(store / "runs/r2/journal.jsonl", (1, 1))
    journal(tmp_path / "twin", "r1", day=9)
    (store / "runs/junk").mkdir()
    (store / "runs/junk/journal.jsonl").write_text("junk\n")
    os.utime(store / "runs/junk/journal.jsonl", (1, 1))
    (store / "runs/empty").mkdir()
    journal(store, "young", ended=False)
    with Journal.create(store, "r3") as running:
        running.write(RunStarted(run="r3", node="n1"))
        os.utime(running.path, (1, 1))
        pushed = push([store, tmp_path / "twin"], place)
    assert pushed.new == 2
    assert [Path(path).parent.name for path in pushed.running] == ["r3", "young"]
    assert sorted(known(place)) == ["r1", "r2"]
    assert len(pushed.failed) == 3
    assert all(line.isprintable() and str(tmp_path) in line for line in pushed.failed)
    assert any("two hosts of one name" in line for line in pushed.failed)
    assert read_stored_run(place, "r1") == read_journal(store / "runs" / "r1")


@pytest.mark.parametrize("here", [True, False])
def test_just_killed_run_is_filed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: bool
) -> None:
    store, place = tmp_path / "node", tmp_path / "fleet"
    record_run_in(store, journal(store, "r1"))
    monkeypatch.setattr(node_standing, "boot_id", lambda: "this" if here else "another")
    keep_begun(store, "n1", "r2", began=time.time())
    monkeypatch.setattr(node_standing, "boot_id", lambda: "this")
    with Journal.create(store, "r2") as running:
        running.write(RunStarted(run="r2", node="n1"))
        assert Path(push([store], place).running[0]).parent.name == "r2"
        assert not opens(store)
    assert opens(store) == (["r2"] if here else [])
    assert len(push([store], place).running) == (0 if here else 1)
    assert sorted(known(place)) == (["r1", "r2"] if here else ["r1"])


def record_run_in(store: Path, path: Path) -> None:
    with History(store) as history:
        run_filing.record_run(history, read_journal(path))


def opens(store: Path) -> list[str]:
    with History(store) as history:
        return [one.open for one in last_of_history(history, store) if one.open]


def test_an_import_becomes_a_run_of_each_node(place: Path | str, tmp_path: Path) -> None:
    table = tmp_path / "acceptance.csv"
    rows = [f"n{n},cuda:{d},copy,rate,GB/s,higher,{n + d}\n" for n in range(3) for d in range(2)]
    table.write_text(TABLE + "".join(rows))
    assert push([table], place).new == 3
    copy = tmp_path / "copy" / "acceptance.csv"
    copy.parent.mkdir()
    copy.write_text(table.read_text())
    os.utime(copy, (1, 1))
    pushed = push([copy], place)
    assert (pushed.new, pushed.known, pushed.failed) == (0, 3, [])
    assert same(read_stored(place), read_runs([table]))
    one = read_stored_run(place, "latest")
    assert isinstance(one, RunSet)
    assert len(one.runs) == 1
    copy.write_text(TABLE + rows[0].replace("0\n", "7\n"))
    (line,) = push([copy], place).failed
    assert "another import" in line
    assert same(read_stored(place), read_runs([table]))


WHOLE = ("again", "n1", "unclassified")


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Two tables of one value of one node; the file dates the run of the first before the other."""
    found = [tmp_path / f"{name}.csv" for name in ("first", "again")]
    for file in found:
        file.write_text(TABLE + "n1,cuda:0,copy,rate,GB/s,higher,1\n")
    os.utime(found[0], (1e9, 1e9))
    return found


def decisions(place: Path) -> dict[str, str]:
    with History(place) as history:
        return {run.run: run.decision for run in history.node_history("n1")}


class Judged:
    """Gives every run the decision that it was made with; all runs of a node together are accepted."""

    def __init__(
        self, decision: Decision = Decision.UNDECIDED, whole: Decision = Decision.ACCEPTED
    ) -> None:
        self.decision, self.whole = decision, whole
        self.asked: list[Path] = []

    def __call__(self, runs: RunSet) -> list[RunRecord]:
        return [
            replace(one, node_verdict=decided(one.node, self.decision, "alone").verdict)
            for one in runs.runs
        ]

    def together(self, imports: Sequence[Path]) -> dict[RunKey, NodeVerdict]:
        self.asked += imports
        whole = NodeVerdict(
            node="n1",
            decision=self.whole,
            headline="together",
            blocking=(Blocker(cause="as all of its batch", act="compare it"),),
            triage=Triage.SHARED if self.whole is Decision.REJECTED else Triage.NONE,
        )
        return {WHOLE: whole}


@pytest.mark.parametrize(
    ("alone", "wanted"),
    [(Decision.UNDECIDED, Decision.ACCEPTED), (Decision.REJECTED, Decision.REJECTED)],
)
def test_completing_run_gets_the_common_verdict(
    alone: Decision, wanted: Decision, tmp_path: Path, files: list[Path]
) -> None:
    judge = Judged(alone)
    push(files, tmp_path / "fleet", judge=judge)
    assert decisions(tmp_path / "fleet") == {"first": alone.value, "again": wanted.value}
    assert judge.asked == [*files, *files]
    alone_filed = Judged(alone)
    push(files[1:], tmp_path / "other", judge=alone_filed)
    assert not alone_filed.asked


def test_run_pushed_alone_is_completed_by_all(tmp_path: Path, files: list[Path]) -> None:
    for several, decision in (
        (files[1:], "UNDECIDED"),
        (files, "ACCEPTED"),
        (files[1:], "ACCEPTED"),
    ):
        push(several, tmp_path / "fleet", judge=Judged())
        assert decisions(tmp_path / "fleet")["again"] == decision


@pytest.mark.parametrize("decision", [Decision.REJECTED, Decision.UNDECIDED])
def test_run_is_filed_with_what_all_runs_together_say(
    decision: Decision, tmp_path: Path, files: list[Path]
) -> None:
    judge = Judged(decision, decision)
    push(files, tmp_path / "fleet", judge=judge)
    with History(tmp_path / "fleet") as history:
        (one,) = last_of_history(history, tmp_path / "fleet")
    assert one.last is not None
    assert one.last.run == "again"
    if decision is Decision.UNDECIDED:
        assert one.last.verdict == judge.together([])[WHOLE]
    else:  # as its whole group is
        assert one.last.verdict.triage is Triage.SHARED
        assert one.last.verdict.headline.endswith("Next step: compare it")


def test_only_a_longer_journal_replaces_another(place: Path | str, tmp_path: Path) -> None:
    draw = random.Random(3)
    whole = journal(tmp_path / "whole", "r").read_bytes().splitlines(keepends=True)
    other = [*whole]
    other[1:1] = [other[2]] * 3  # of the same head, and longer
    filed: list[bytes] = []
    for number in range(12):
        lines = draw.choice([whole, whole, other])[: draw.randint(1, len(whole) + 3)]
        path = tmp_path / f"{number}" / "r" / "journal.jsonl"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"".join(lines))
        os.utime(path, (0, 0))  # it is not being written
        pushed = push([path], place)
        short, long = sorted((filed or lines, lines), key=len)
        if long[: len(short)] == short:
            filed = long
            assert not pushed.failed
        else:
            assert (pushed.new, pushed.changed, len(pushed.failed)) == (0, 0, 1)
        with History(place) as history:
            (stored,) = stored_runs(history)
            assert b"".join(read_content(history, stored.number)) == b"".join(filed)


@pytest.mark.parametrize("said", [Decision.ACCEPTED, Decision.UNDECIDED])
def test_a_rejected_run_does_not_go_on(place: Path | str, tmp_path: Path, said: Decision) -> None:
    """Lines behind its end that say something else took its verdict's place."""
    path = journal(tmp_path, "r", ended=False)
    for decision, code in ((Decision.REJECTED, 1), (said, 0)):
        with Journal.open_existing(path) as written:
            written.write(Resumed(started="2026-01-01T01:00:00+00:00"))
            written.write(decided("n1", decision))
            written.write(RunFinished(exit_status=code, ended="2026-01-01T02:00:00+00:00"))
        pushed = push([path], place)
        assert len(pushed.failed) == (decision is said)
    with History(place) as history:
        assert [run.decision for run in history.node_history("n1")] == ["REJECTED"]


def test_one_run_that_is_refused_costs_no_other(place: Path | str, tmp_path: Path) -> None:
    journal(tmp_path / "a", "r1")
    push([tmp_path / "a"], place)
    journal(tmp_path / "b", "r0")
    spoilt = journal(tmp_path / "b", "r1")
    spoilt.write_bytes(spoilt.read_bytes().replace(b"net", b"new"))
    journal(tmp_path / "b", "r2")
    pushed = push([tmp_path / "b"], place)
    assert (pushed.new, len(pushed.failed)) == (2, 1)
    assert sorted(known(place)) == ["r0", "r1", "r2"]


@pytest.mark.parametrize(
    ("file", "store"),
    [
        (".anubis/runs/r1/journal.jsonl", ".anubis"),
        ("imports/n1/.anubis/runs/r1/journal.jsonl", "imports/n1/.anubis"),
        (".anubis/imports/a.npz", ".anubis"),
        (".anubis/imports/rack7/row 2/a.npz", ".anubis"),
        ("imports/.anubis/imports/a.npz", "imports/.anubis"),
    ],
)
def test_store_of_a_file_is_above_its_runs_or_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, store: str
) -> None:
    whole = tmp_path / file
    assert store_of(whole) == tmp_path / store
    whole.parent.mkdir(parents=True)
    monkeypatch.chdir(whole.parent)
    assert store_of(Path(whole.name)).absolute() == tmp_path / store
    if whole.suffix == ".npz":
        below = whole.relative_to(tmp_path / store / "imports").as_posix()
        assert import_name(Path(whole.name), tmp_path / store) == below
        assert import_name(whole, tmp_path / "another") == ""
