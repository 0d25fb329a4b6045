"""Two machines of one name among collected runs are reported in one line and kept apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pytest_anubis.core.events import Measured, RunFinished, RunStarted, TestFinished, TestsPlanned
from pytest_anubis.core.machine_marks import another_machine, identity_marks
from pytest_anubis.core.measurement import Measurement, PlannedTest, TestResult
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.verdict import Decision
from pytest_anubis.store.collected_runs import read_runs
from tests.store.written_runs import decided, write_events

TEST, BENCHMARK = "t.py::test_x[cpu]", "t.py::test_x"


def write(folder: Path, run: str, value: float, node: str = "n1", **inventory: Any) -> None:
    measured = Measurement(
        test=TEST, benchmark=BENCHMARK, component="network", device="cpu", values=(value,) * 8,
        metric=Metric(name="rate", unit="GB/s", better="higher"),
    )  # fmt: skip
    plan = PlannedTest(test=TEST, benchmark=BENCHMARK, component="network", device="cpu")
    began = "2026-11-01T10:00:00Z"
    write_events(
        folder,
        run,
        RunStarted(run=run, node=node, started=began, hardware_class="c", inventory=inventory),
        TestsPlanned(tests=(plan,)),
        Measured(measurement=measured),
        TestFinished(result=TestResult(test=TEST, benchmark=BENCHMARK, outcome="passed")),
        decided(node, Decision.ACCEPTED, f"node {node} is well"),
        RunFinished(exit_status=0, ended="2026-11-01T10:10:00Z"),
    )


def test_two_machines_of_one_name_are_two_nodes(tmp_path: Path) -> None:
    write(tmp_path, "a", 100, machine="1" * 32)
    write(tmp_path, "b", 200, machine="2" * 32)
    write(tmp_path, "c", 300, machine="1" * 32)
    write(tmp_path, "d", 400, machine="2" * 32)
    runs = read_runs([tmp_path])
    names = {run.run: run.node for run in runs.runs}
    assert names["a"] == names["c"] == "n1"
    assert names["b"] == names["d"] != "n1"
    (line,) = runs.warnings
    assert line.startswith(f"b: another machine is called n1 too; this one is {names['b']} here")
    (population,) = runs.populations
    assert dict(zip(population.runs, population.nodes, strict=True)) == names
    (said,) = (run.node_verdict for run in runs.journals if run.run == "b")
    assert said is not None
    assert (said.node, said.headline) == (names["b"], f"node {names['b']} is well")


def test_machine_with_a_new_id_keeps_its_name(tmp_path: Path) -> None:
    write(tmp_path, "a", 100, machine="1" * 32, system={"serial": "CZ1234"})
    write(tmp_path, "b", 100, machine="2" * 32, system={"serial": "CZ1234"})  # installed anew
    write(tmp_path, "c", 100)  # an image without identity
    runs = read_runs([tmp_path])
    assert {run.node for run in runs.runs} == {"n1"}
    assert not runs.warnings


def test_clones_of_an_image_differ_by_their_ports() -> None:
    first, second = (
        identity_marks({"machine": "3" * 32, "nics": [{"address": f"00:25:90:aa:bb:0{i}"}]})
        for i in (1, 2)
    )
    assert another_machine(first, second)
    assert not another_machine(first, identity_marks({"machine": "3" * 32}))
    assert not another_machine(identity_marks({"machine": "redacted"}), frozenset())


def test_names_of_one_machine(tmp_path: Path) -> None:
    shorts, fulls = ["n1", "n2", "10", "n3", "N3"], ["n1.cluster.example", "n2.a.example"]
    names = [*shorts, *fulls, "n2.b.example", "10.0.0.1"]
    lines = [f"{name},gpu0,copy,rate,GB/s,higher,10{k}" for name in names for k in (1, 2)]
    table = tmp_path / "t.csv"
    table.write_text("\n".join(["node,device,benchmark,metric,unit,better,value", *lines, ""]))
    runs = read_runs([table])
    (population,) = runs.populations
    assert sorted(set(population.nodes)) == sorted({*names} - {"n1.cluster.example", "N3"})
    units = list(zip(population.nodes, population.devices, population.runs, strict=True))
    assert len(units) == len(set(units)) == len(names) - 2
    counts = [len(population.sample(units.index((name, "gpu0", "t")))) for name in ("n1", "n2")]
    assert counts == [4, 2]
    notes = [one for one in runs.warnings if "one machine" in one]
    assert len(notes) == 2
    assert all(any(name in one for one in notes) for name in ("n1.cluster.example", "N3"))


def test_two_machines_stay_two_whatever_their_names(tmp_path: Path) -> None:
    write(tmp_path, "a", 100, machine="1" * 32)
    write(tmp_path, "b", 200, "n1.x.example", machine="2" * 32)
    assert {run.node for run in read_runs([tmp_path]).runs} == {"n1", "n1.x.example"}
