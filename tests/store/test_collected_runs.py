"""Runs are read back as populations with problems; runs that teach nothing are refused."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_anubis.core.blocker import Blocker
from pytest_anubis.core.events import (
    BlockerFound,
    Judged,
    Measured,
    Resumed,
    RunFinished,
    RunStarted,
    TestFinished,
    TestsPlanned,
    WorkerDied,
)
from pytest_anubis.core.measurement import Measurement, PlannedTest, TestResult
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.run import RunEvidence, RunRecord
from pytest_anubis.core.sample import Population, SampleProblem, population_of
from pytest_anubis.core.verdict import Decision, MetricVerdict, Outcome, Reason
from pytest_anubis.store.collected_runs import RunsError, RunSet, read_runs
from pytest_anubis.store.fleet.pushing import push
from pytest_anubis.store.importers.import_folder import ImportFolder
from pytest_anubis.store.importers.import_result import DoubleImportError
from pytest_anubis.store.importers.table import import_table
from pytest_anubis.store.journal.journal_file import Journal
from pytest_anubis.store.run_files import files_of
from pytest_anubis.store.samples.columnar_files import (
    Columns,
    ColumnsError,
    load_columns,
    save_columns,
)
from pytest_anubis.validator.deciding.run_decision import evidence_of
from tests.store.written_runs import decided, verdict, write_events

RATE = Metric(name="rate", unit="GB/s", better="higher")


def sample(values: Sequence[float], **more: Any) -> Measurement:
    fields: dict[str, Any] = {
        "test": "t.py::test_x[cpu]",
        "benchmark": "t.py::test_x",
        "component": "network",
        "metric": RATE,
        "device": "cpu",
        "values": tuple(values),
    }
    return Measurement(**(fields | more))


def result(outcome: str = "passed", test: str = "t.py::test_x[cpu]", text: str = "") -> TestResult:
    return TestResult(test=test, benchmark=test.split("[")[0], outcome=outcome, text=text)


def write_run(
    store: Path,
    run: str,
    node: str = "n1",
    *,
    samples: Sequence[Measurement] = (),
    results: Sequence[TestResult] = (),
    planned: Sequence[PlannedTest] = (),
    verdicts: Sequence[MetricVerdict] = (),
    decision: Decision | None = None,
    finished: bool = True,
    status: int = 0,
    **head: Any,
) -> Path:
    start = {"hardware_class": "c1", "profile": "smoke"} | head
    return write_events(
        store,
        run,
        RunStarted(run=run, node=node, started="2026-01-01", **start),
        TestsPlanned(tests=tuple(planned)),
        *(Measured(measurement=one) for one in samples),
        *(Judged(verdict=one) for one in verdicts),
        *(TestFinished(result=one) for one in results),
        *([decided(node, decision)] if decision else []),
        *([RunFinished(exit_status=status, ended="2026-01-01")] if finished else []),
    )


def test_journals_become_populations(tmp_path: Path) -> None:
    write_run(tmp_path, "r1", "n2", samples=[sample([1.0, 2.0])], results=[result()])
    write_run(
        tmp_path,
        "r2",
        "n1",
        samples=[sample([3.0]), sample([4.0], device="cuda:0"), sample([9.0], group="g")],
        attributes={"cpu": "x"},
        inventory={"cores": 2},
    )
    write_run(tmp_path, "r3", "n3", samples=[sample([5.0])], hardware_class="c2")
    found = read_runs([tmp_path, tmp_path / "runs" / "r1"])
    assert [(p.hardware_class, p.group, len(p)) for p in found.populations] == [
        ("c1", "", 3), ("c1", "g", 1), ("c2", "", 1),
    ]  # fmt: skip
    first = found.populations[0]
    assert (first.nodes, first.devices, first.runs) == (
        ("n1", "n1", "n2"), ("cpu", "cuda:0", "cpu"), ("r2", "r2", "r1"),
    )  # fmt: skip
    assert first.sample(2).tolist() == [1.0, 2.0]
    assert (first.component, first.metric, first.problems) == ("network", RATE, {})
    assert found.classes == {"c1": {"cpu": "x"}, "c2": {}}
    assert [run.inventory for run in found.runs] == [{}, {"cores": 2}, {}]
    assert found.refused == ()


def test_unusable_samples_have_problems(tmp_path: Path) -> None:
    write_run(tmp_path, "ok", samples=[sample([1.0])], results=[result()])
    write_run(
        tmp_path,
        "bad",
        samples=[
            sample([1.0], device="a", test="t.py::test_x[a]"),
            sample([1.0], device="b", disturbance=("steal 10 %",)),
            sample([math.nan], device="c"),
            sample([-1.0], device="d"),
            sample([], device="e"),
            sample([1.0], device="f", metric=Metric(name="rate", unit="MB/s", better="higher")),
        ],
        planned=[
            PlannedTest(test="t.py::test_x[g]", benchmark="t.py::test_x", device="g"),
            PlannedTest(test="t.py::test_x[h]", benchmark="t.py::test_x", device="h"),
            PlannedTest(test="t.py::test_y", benchmark="t.py::test_y"),
        ],
        results=[
            result("failed", "t.py::test_x[a]", "wrong sum"),
            result("crashed", "t.py::test_x[g]"),
        ],
    )
    found = read_runs([tmp_path])
    (population,) = found.populations
    kinds = {
        device: population.problems[row].kind
        for row, device in enumerate(population.devices)
        if row in population.problems
    }
    assert kinds == {
        "a": "failed", "b": "disturbed", "c": "invalid", "d": "invalid", "e": "missing", "f": "unit",
        "g": "missing", "h": "missing",
    }  # fmt: skip
    texts = {d: population.problems[i].text for i, d in enumerate(population.devices) if d != "cpu"}
    assert "wrong sum" in texts["a"]
    assert "steal 10 %" in texts["b"]
    assert "MB/s" in texts["f"]
    assert found.unmeasured == {("bad", "n1"): ("t.py::test_y",)}


def test_looks_and_xfails_are_kept_with_samples(tmp_path: Path) -> None:
    samples = [
        sample([1.0], looks=16),
        sample([2.0], device="cuda:0", test="t.py::test_x[cuda:0]"),
        sample([3.0], device="cuda:1", test="t.py::test_x[cuda:1]", looks=2),
    ]
    expected = result("xfailed", "t.py::test_x[cuda:0]")
    write_run(tmp_path, "r1", samples=samples, results=[result(), expected])
    write_run(tmp_path, "r2", "n0", samples=[sample([5.0], looks=3)])
    (population,) = read_runs([tmp_path]).populations
    assert population.nodes == ("n0", "n1", "n1", "n1")
    assert population.looks == {0: 3, 1: 16, 3: 2}
    assert {row: problem.kind for row, problem in population.problems.items()} == {2: "waived"}


def test_recorded_values_differ_from_measured_ones(tmp_path: Path) -> None:
    write_run(tmp_path, "r1", samples=[sample([1.0, 2.0], seconds=0.5)])
    (measured,) = read_runs([tmp_path]).populations
    write_run(tmp_path, "r2", "n0", samples=[sample([1.0, 2.0])])
    (mixed,) = read_runs([tmp_path]).populations
    assert (measured.given, mixed.given) == (False, True)


def evidence(found: RunSet, run: str) -> RunEvidence:
    """Return what one run says besides its samples."""
    (journal,) = [journal for journal in found.journals if journal.run == run]
    return evidence_of(journal, found.unmeasured.get((journal.run, journal.node), ()))


def test_evidence_of_a_journal_besides_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = "7 of 8 accelerators"
    inventory = verdict(
        Outcome.FAIL, text=lost, benchmark="inventory", metric="accelerators", device=""
    )
    measured = verdict(benchmark="t.py::test_x", metric="rate")
    path = write_run(
        tmp_path, "r1", samples=[sample([1.0])], verdicts=[inventory, measured], finished=False
    )
    with Journal.open_existing(path) as journal:
        journal.write(WorkerDied(lane="cuda:1", text="signal 9"))
        journal.write(BlockerFound(text="cuda:2 is hidden"))
    write_run(tmp_path, "r2", "n2", samples=[sample([1.0])], status=2)
    (tmp_path / "runs" / "r3").mkdir()
    (tmp_path / "runs" / "r3" / "journal.jsonl").write_text("{}\n")
    found = read_runs([tmp_path])
    units = [(one.hardware_class, one.run, one.node) for one in found.journals]
    assert units == [("c1", "r1", "n1"), ("c1", "r2", "n2")]
    said = evidence(found, "r1")
    assert [one.text for one in said.verdicts] == [lost]
    assert said.blockers == (
        Blocker(run="r1", subject="lane cuda:1, while no test was running", cause="signal 9"),
        Blocker(run="r1", cause="cuda:2 is hidden"),
    )
    assert said.broken_off == {"r1": "never finished"}
    assert evidence(found, "r2").broken_off == {"r2": "was broken off (exit status 2)"}
    assert [(refused.damaged, refused.run) for refused in found.refused] == [(True, "")]
    monkeypatch.chdir(path.parent)
    named = ["r1: journal.jsonl: the run never finished"]
    assert [*read_runs([Path("journal.jsonl")]).warnings] == named


def test_obstacle_before_a_resumption_is_forgotten(tmp_path: Path) -> None:
    path = write_run(tmp_path, "r1", samples=[sample([1.0])])
    with Journal.open_existing(path) as journal:
        for event in (
            BlockerFound(text="cuda:0 is hidden", found_anew=True),
            Resumed(),
            BlockerFound(text="cuda:2 is hidden"),
            RunFinished(exit_status=20, ended="2026-01-01T00:00:00+00:00"),
        ):
            journal.write(event)
    assert evidence(read_runs([tmp_path]), "r1").blockers == (
        Blocker(run="r1", cause="cuda:2 is hidden"),
    )


def test_linked_folders_are_read_and_circles_end(tmp_path: Path) -> None:
    write_run(tmp_path / "far", "r1", samples=[sample([1.0])])
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "linked").symlink_to(tmp_path / "far" / "runs" / "r1")
    (tmp_path / "here" / "circle").symlink_to(tmp_path / "here")
    found = read_runs([tmp_path / "here"])
    assert [run.run for run in found.runs] == ["r1"]
    assert not found.refused


@pytest.mark.parametrize("name", ["journal.jsonl.gz", "JOURNAL.jsonl", ".journal.jsonl.Ab3dEf", ""])
def test_run_folder_without_journal_is_reported(tmp_path: Path, name: str) -> None:
    write_run(tmp_path, "r1", samples=[sample([1.0])])
    lost = write_run(tmp_path, "r2", samples=[sample([0.5])])
    if name:
        lost.rename(lost.with_name(name))
    else:
        lost.unlink()
    (refused,) = read_runs([tmp_path]).refused
    assert refused.damaged
    assert refused.reason.endswith(
        "r2: no journal.jsonl; unpack it or put it back, or remove the folder"
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("bad.jsonl", True),
        ("runs/bad.jsonl", True),
        ("n8.csv", True),
        ("deeper/n8.PARQUET", True),
        ("runs.tar.gz", True),
        ("runs.zip", True),
        ("runs.tar.lz4", True),
        ("n8.csv.npz.gz", True),
        ("n8.npz.part", True),
        (".n8.csv.npz.Ab3dEf", True),
        ("bad.jsonl.xz", True),
        (".n8.csv.npz.k2j4h6g8.new", False),
        ("n8.csv.html", False),
        ("nodes.csv", False),
        ("nodes.csv.bak", False),
        ("missing-2.csv", False),
        ("rate-0123abcd.parquet", False),
        ("history.sqlite", False),
        ("best-probe.json", False),
        ("notes.txt", False),
    ],
)
def test_files_that_look_like_results_are_named(tmp_path: Path, name: str, said: bool) -> None:
    write_run(tmp_path, "r1")
    other = tmp_path / name
    other.parent.mkdir(exist_ok=True)
    other.write_text("")
    refused = read_runs([tmp_path]).refused
    assert [(one.path, one.damaged) for one in refused] == [(str(other), True)] * said
    failed = push([tmp_path], tmp_path / "fleet").failed
    assert [line.split(":")[0] for line in failed] == [str(other)] * said
    again = {one.reason for one in read_runs([tmp_path, other]).refused}
    assert not said or refused[0].reason not in again  # named by itself it is read


def test_dead_links_are_named_and_tables_are_no_runs(tmp_path: Path) -> None:
    write_run(tmp_path / "runs-of-n1", "r1")
    tables = tmp_path / "tables"
    tables.mkdir()
    (tables / "n8.csv").write_text("")
    with pytest.raises(RunsError):
        read_runs([tables])
    assert not push([tables], tmp_path / "fleet").failed
    link = tmp_path / "runs-of-n1/2026-bad"
    link.symlink_to("/nowhere/runs/2026-bad")
    refused = read_runs([tmp_path / "runs-of-n1", tables]).refused
    assert [one.path for one in refused] == [str(link), str(tables / "n8.csv")]


def test_exact_result_is_never_disturbed(tmp_path: Path) -> None:
    exact = Metric(name="errors", unit="1", better="equal")
    load = ("other processes used 2 of 2 cores",)
    write_run(
        tmp_path,
        "r1",
        samples=[sample([0.0], metric=exact, disturbance=load), sample([1.0], disturbance=load)],
    )
    problems = {p.metric.name: dict(p.problems) for p in read_runs([tmp_path]).populations}
    assert problems["errors"] == {}
    assert problems["rate"][0].kind == "disturbed"
    assert not read_runs([tmp_path], learning=True).refused  # nor the whole run


def test_test_failed_by_its_verdict_keeps_its_sample(tmp_path: Path) -> None:
    benchmark, broken = "t.py::test_x", [result("failed", text="slow")]
    slow = verdict(Outcome.FAIL, benchmark=benchmark, metric="rate", test=f"{benchmark}[cpu]")
    write_run(tmp_path, "r1", samples=[sample([1.0])], results=broken, verdicts=[slow])
    # That it failed by itself is concluded at the end of the run, and so has no test.
    alone = verdict(Outcome.FAIL, reason=Reason.TEST_FAILED, benchmark=benchmark, metric="")
    both = [slow, alone]
    write_run(tmp_path, "r2", samples=[sample([1.0])], results=broken, verdicts=both)
    (population,) = read_runs([tmp_path]).populations
    kinds = {population.runs[row]: p.kind for row, p in population.problems.items()}
    assert kinds == {"r2": "failed"}


def test_failed_and_acceptance_runs_teach_nothing(tmp_path: Path) -> None:
    good = [sample([1.0])]
    write_run(tmp_path, "measured", samples=good)
    write_run(tmp_path, "accepted", samples=good, purpose="acceptance", decision=Decision.ACCEPTED)
    write_run(tmp_path, "rejected", samples=good, purpose="learn", decision=Decision.REJECTED)
    write_run(
        tmp_path, "undecided", samples=good, purpose="acceptance", decision=Decision.UNDECIDED
    )
    write_run(tmp_path, "silent", samples=good, purpose="acceptance")
    write_run(tmp_path, "cut", samples=good, finished=False)
    write_run(tmp_path, "interrupted", samples=good, status=2)
    write_run(tmp_path, "noisy", samples=[sample([1.0], disturbance=("steal",))])
    learned = read_runs([tmp_path], learning=True)
    assert set(learned.populations[0].runs) == {"measured", "accepted"}
    assert {item.run for item in learned.refused} == {
        "rejected", "undecided", "silent", "cut", "interrupted", "noisy",
    }  # fmt: skip
    assert all(item.reason and item.path for item in learned.refused)
    judged = read_runs([tmp_path])
    assert len(judged.populations[0]) == 8
    assert judged.refused == ()


def test_unreadable_files_are_refused_one_by_one(tmp_path: Path) -> None:
    path = write_run(tmp_path, "r1", samples=[sample([1.0])])
    (tmp_path / "runs" / "copy").mkdir()
    (tmp_path / "runs" / "copy" / "journal.jsonl").write_bytes(path.read_bytes())
    (tmp_path / "runs" / "junk").mkdir()
    (tmp_path / "runs" / "junk" / "journal.jsonl").write_text("junk\n")
    (tmp_path / "x.npz").write_text("junk")
    found = read_runs([tmp_path])
    assert len(found.populations[0]) == 1
    assert len(found.refused) == 3
    with pytest.raises(RunsError, match="no such file"):
        read_runs([tmp_path / "nothing"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunsError, match="no run in any"):
        read_runs([tmp_path / "empty"])


def test_imports_tables_and_journals_mix(tmp_path: Path) -> None:
    write_run(tmp_path, "r1", samples=[sample([1.0])])
    text = "node,device,benchmark,metric,unit,better,value,class\n"
    text += (
        "n9,cpu,t.py::test_x,rate,GB/s,higher,2,c1\nn8,cpu,t.py::test_x,rate,GB/s,higher,bad,c1\n"
    )
    (tmp_path / "old.csv").write_text(text)
    imported = import_table(tmp_path / "old.csv")
    path = ImportFolder(tmp_path / "store").save(imported)
    direct = read_runs([tmp_path / "runs", tmp_path / "old.csv"])
    stored = read_runs([tmp_path / "runs", tmp_path / "store"])
    for found in (direct, stored):
        (population,) = found.populations
        assert population.nodes == ("n1", "n8", "n9")
        assert [problem.kind for problem in population.problems.values()] == ["invalid"]
        assert [run.node for run in found.runs] == ["n8", "n9", "n1"]
        assert population.given  # imports are not measured again
    assert any(
        "line 3: node n8, column value: 'bad' is not a number" in text for text in direct.warnings
    )
    again = read_runs([path, tmp_path / "old.csv"])
    assert "read already" in again.refused[0].reason


def test_copy_counts_once_and_another_run_counts(tmp_path: Path) -> None:
    text = "node,device,benchmark,metric,unit,better,value\nn9,cpu,b,rate,GB/s,higher,2\n"
    (tmp_path / "copies").mkdir()
    old, copy, other = (tmp_path / name for name in ("old.csv", "copies/old.csv", "night2.csv"))
    for file in (old, copy, other):
        file.write_text(text)
        os.utime(file, (1.7e9, 1.7e9))
    path = ImportFolder(tmp_path).save(import_table(old))
    assert ImportFolder(tmp_path).save(import_table(old)) == path  # replaced
    words = r"copies/old\.csv: left out, .*old\.csv\.npz already"
    with pytest.raises(DoubleImportError, match=words):
        ImportFolder(tmp_path).save(import_table(copy))
    for imported in (import_table(other), import_table(copy, run="r3")):
        ImportFolder(tmp_path).save(imported)
    assert sum(len(p) for p in read_runs([tmp_path / "imports"]).populations) == 3


def test_file_of_equal_name_replaces_no_other(tmp_path: Path) -> None:
    paths = []
    for folder, node in (("a", "n1"), ("b", "n2"), ("b", "n3")):
        file = tmp_path / folder / "out.csv"
        file.parent.mkdir(exist_ok=True)
        file.write_text(
            f"node,device,benchmark,metric,unit,better,value\n{node},cpu,b,rate,GB/s,higher,2\n"
        )
        paths.append(ImportFolder(tmp_path).save(import_table(file)))
    assert paths[0].name == "out.csv.npz"
    assert len(set(paths)) == 3  # the last one is the second file again, and of another node
    file.write_text(file.read_text().replace(",2", ",3"))
    assert ImportFolder(tmp_path).save(import_table(file)) == paths[2]
    nodes = {n for p in read_runs([tmp_path / "imports"]).populations for n in p.nodes}
    assert nodes == {"n1", "n2", "n3"}


def test_a_superbench_summary_is_told_from_a_journal(tmp_path: Path) -> None:
    journal = write_run(tmp_path, "r1", samples=[sample([1.0])])
    (tmp_path / "copy.jsonl").write_bytes(journal.read_bytes())
    (tmp_path / "summary.jsonl").write_text('{"node": "n5", "b/x_bw:0": 2.5, "b/frobs": 1}\n')
    found = read_runs([tmp_path / "copy.jsonl", tmp_path / "summary.jsonl"])
    assert {run.node for run in found.runs} == {"n1", "n5"}
    assert any("frobs" in text for text in found.warnings)


SAMPLES = st.builds(
    lambda samples, names, group, marked: population_of(
        samples,
        metric=RATE,
        benchmark="b",
        nodes=names[: len(samples)],
        devices=names[::-1][: len(samples)],
        hardware_class="c",
        group=group,
        problems={i: SampleProblem(kind="failed", text="x") for i in marked if i < len(samples)},
    ),
    st.lists(st.lists(st.floats(), max_size=4), max_size=5),
    st.permutations(["a", "b", "µ", "d e", ""]),
    st.text(max_size=3),
    st.sets(st.integers(0, 4)),
)


def same(a: Population, b: Population) -> bool:
    return (
        (a.nodes, a.devices, a.runs, a.problems, a.group, a.metric)
        == (b.nodes, b.devices, b.runs, b.problems, b.group, b.metric)
        and np.array_equal(a.values, b.values, equal_nan=True)
        and np.array_equal(a.offsets, b.offsets)
    )


@settings(
    max_examples=30,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(SAMPLES, max_size=4))
def test_columns_come_back_as_they_were(tmp_path: Path, populations: list[Population]) -> None:
    runs = (RunRecord(run="r", node="n", hardware_class="c", attributes={"a": "b"}),)
    path = tmp_path / "x.npz"
    save_columns(Columns(populations=tuple(populations), runs=runs), path)
    found = load_columns(path)
    assert found.runs == runs
    assert len(found.populations) == len(populations)
    assert all(same(a, b) for a, b in zip(found.populations, populations, strict=True))


@settings(
    max_examples=50,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.data())
def test_damaged_columns_are_refused_with_one_line(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "x.npz"
    population = population_of([[1.0], [2.0, 3.0]], metric=RATE, benchmark="b")
    save_columns(Columns(populations=(population,), runs=()), path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        found = load_columns(path).populations
    except ColumnsError as error:
        said = str(error)
    else:  # the damage fell between the data
        assert same(found[0], population)
        said = str(path)
    assert said.startswith(str(path))
    assert "\n" not in said


def test_dangling_references_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    population = population_of([[1.0], [2.0]], metric=RATE, benchmark="b")
    save_columns(Columns(populations=(population,), runs=()), path)
    with np.load(path) as archive:
        arrays = dict(archive)
    for name, value in (
        ("node", np.array([0, 9], dtype=np.int32)),
        ("offsets", np.array([0, 2, 1], dtype=np.int64)),
        ("population", np.array([0, 3], dtype=np.int64)),
        ("problem_row", np.array([7], dtype=np.int64)),
        ("values", np.array(["x"], dtype=object)),
        ("values", np.array([1, 2], dtype=np.int8)),
    ):
        np.savez(path, allow_pickle=True, **(arrays | {name: value}))
        with pytest.raises(ColumnsError, match=str(path)):
            load_columns(path)


def _table(path: Path, *rows: str) -> Path:
    head = "run,node,device,benchmark,metric,unit,better,value\n"
    path.write_text(head + "".join(f"day,{row}\n" for row in rows))
    return path


def test_two_tables_hold_parts_of_one_run(tmp_path: Path) -> None:
    first = _table(tmp_path / "a.csv", "n1,cpu,b,rate,GB/s,higher,2", "n2,cpu,b,rate,GB/s,higher,3")
    other = _table(tmp_path / "b.csv", "n1,cpu,b,time,ms,lower,4", "n1,gpu,b,rate,GB/s,higher,5")
    found = read_runs([first, other])
    assert not found.refused
    rates = {"n1 cpu": 2, "n1 gpu": 5, "n2 cpu": 3}
    (rate, _) = found.populations
    units = zip(rate.nodes, rate.devices, strict=True)
    assert dict(zip(map(" ".join, units), rate.values.tolist(), strict=True)) == rates
    assert [(run.node, run.unread) for run in found.runs] == [("n1", 0), ("n2", 0)]


def test_value_in_two_tables_leaves_the_node_incomplete(tmp_path: Path) -> None:
    first = _table(tmp_path / "a.csv", "n1,cpu,b,rate,GB/s,higher,2")
    other = _table(tmp_path / "b.csv", "n1,cpu,b,rate,GB/s,higher,9", "n2,cpu,b,rate,GB/s,higher,3")
    found = read_runs([first, other])
    (rate,) = found.populations
    assert rate.values.tolist() == [2, 3]
    assert [(run.node, run.unread) for run in found.runs] == [("n1", 1), ("n2", 0)]
    assert [(one.run, one.node, one.damaged) for one in found.refused] == [("day", "n1", True)]


def test_a_project_in_its_virtual_environment_hides_no_run(tmp_path: Path) -> None:
    own = [".anubis/runs/r1/journal.jsonl", ".anubis/imports/FLEET.NPZ"]
    for name in ("pyvenv.cfg", "lib/python3/site-packages/x/journal.jsonl", *own):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found, left = files_of([tmp_path])
    assert ({one.relative_to(tmp_path).as_posix() for one in found}, left) == ({*own}, [])
