"""The command ``anubis fleet plan``: what it says, prints and writes, and what it refuses in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_anubis.core.measurement import TestResult
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import Decision
from pytest_anubis.store.history.database import History, shown_time
from pytest_anubis.store.history.defect_records import add_defect
from pytest_anubis.store.history.run_filing import record_run
from tests.cli.command_line import anubis
from tests.fleet.test_fleet_status import DAY, NOW, journal, suffered

BENCHMARK = "suites/test_speed.py::test_speed"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history of four nodes, n4 quarantined, with incidents of n1."""
    folder, store = tmp_path_factory.mktemp("collected"), tmp_path_factory.mktemp("history")
    for number in (1, 2, 3):
        journal(folder, f"n{number}", Decision.ACCEPTED, age=20)
    journal(folder, "n4", Decision.REJECTED, age=3)
    assert anubis("push", str(folder), "--history", str(store)).returncode == 0
    with History(store) as history:
        suffered(history, "n1", "gpu", 2)
    return store


GEMM, DISK = "suites/test_card.py::test_gemm", "suites/test_disk.py::test_write"


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history of two hardware classes; only the cards' has had a defect."""
    store = tmp_path_factory.mktemp("mixed")
    with History(store) as history:
        for node, key, name in (
            ("g1", "cards", GEMM),
            ("c1", "plain", DISK),
            ("c2", "plain", DISK),
        ):
            ran = TestResult(test=name, benchmark=name, outcome="passed", seconds=30.0, metrics=1)
            record_run(
                history,
                RunRecord(
                    run=f"r-{node}", node=node, hardware_class=key, purpose="acceptance",
                    started=shown_time(NOW - 30 * DAY), ended=shown_time(NOW - 30 * DAY + 60),
                    results=(ran,),
                ),
            )  # fmt: skip
        history.add_node("x1", hardware_class="new", since=NOW - 9 * DAY)
        add_defect(history, node="g1", benchmarks=[GEMM], component="card", found=NOW - 9 * DAY)
        suffered(history, "c1", "disk", 2)
    return store


def test_only_what_applies_to_a_nodes_class_is_planned(mixed: Path) -> None:
    """The defect of a card made its benchmark one for nodes that have no card."""
    given = ("fleet", "plan", "--history", str(mixed), "--hours", "8", "--time-worth", "0")
    document = json.loads(anubis(*given, "--format", "json").stdout)
    again = json.loads(anubis(*given, "--json", "-").stdout)
    assert again.keys() == document.keys()
    found = {one["node"]: [run["benchmark"] for run in one["runs"]] for one in document["nodes"]}
    assert found == {"g1": [GEMM], "c1": [DISK], "c2": [DISK]}
    said = anubis(*given).stdout
    assert (
        f"note: plain (2 nodes): without 1 benchmark that only other classes have run ({GEMM})"
        in said
    )
    assert (
        "note: new (1 node): nothing is planned there, as no benchmark is known to have run" in said
    )
    chosen = anubis("select", "--store", str(mixed), "--node", "c1", "--ids").stdout.split()
    assert chosen == [DISK]
    lone = anubis(*given, "--class", "new")
    assert lone.returncode == 2
    assert "no benchmark is known to have run there" in lone.stderr


def test_more_that_would_add_nothing_is_not_offered(mixed: Path) -> None:
    """Everybody has had his turn: "another hour would add 0 ms" stood there."""
    given = ("fleet", "plan", "--history", str(mixed), "--time-worth", "0")
    document = json.loads(anubis(*given, "--hours", "8", "--json", "-").stdout)
    assert document["another_hour"] < 1
    said = anubis(*given, "--hours", "8").stdout
    assert "would add" not in said
    assert (document["value"], document["gap"]) == (document["bound"], 0)
    assert ": the best plan there is\n" in said
    short = anubis(*given, "--hours", "1m", "--at-once", "1").stdout
    assert "\nanother hour would add " in short


def test_choice_and_plan_say_how_they_differ(mixed: Path) -> None:
    plan = anubis("fleet", "plan", "--history", str(mixed), "--hours", "8", "--format", "json")
    planned = {one["node"]: one for one in json.loads(plan.stdout)["nodes"]}
    given = ("select", "--store", str(mixed), "--node", "c1", "--by", "cost")
    choice = json.loads(anubis(*given, "--json", "-").stdout)
    # What passed thirty days ago says nothing of the next day, so the risks are the same.
    assert choice["risk_before"] == pytest.approx(planned["c1"]["risk_before"], rel=1e-3)
    assert choice["residual_risk"] == pytest.approx(planned["c1"]["risk_after"], rel=1e-3)
    assert choice["chosen"] == [run["benchmark"] for run in planned["c1"]["runs"]]
    assert choice["cost"] == sum(run["seconds"] for run in planned["c1"]["runs"])
    (note,) = [line for line in anubis(*given).stdout.splitlines() if "fleet plan" in line]
    assert "counts what a node passed last" in note
    lines = anubis("fleet", "plan", "--history", str(mixed), "--hours", "8").stdout.splitlines()
    assert len([line for line in lines if "'anubis select' chooses as" in line]) == 1


def test_the_plan_is_json_lines_and_a_list_of_hosts(place: Path, tmp_path: Path) -> None:
    given = ("fleet", "plan", "--history", str(place), "--hours", "8", "--pin", "*test_speed")
    hosts = tmp_path / "tonight.txt"
    done = anubis(*given, "--format", "json", "--hosts", str(hosts), "--nodes-file", "n[1-3],x7")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["window"] == 8 * 3600
    found = {one["node"]: [run["benchmark"] for run in one["runs"]] for one in document["nodes"]}
    assert found == {name: [BENCHMARK] for name in ("n1", "n2", "n3")}
    assert sorted(hosts.read_text().split()) == ["n1", "n2", "n3"]
    unknown, written = done.stderr.splitlines()
    assert "1 node of --nodes-file (x7)" in unknown
    assert written.startswith("written: ")
    lines = anubis(*given, "--format", "lines").stdout.splitlines()
    assert sorted(line.split()[1:] for line in lines) == [[f"n{n}", BENCHMARK] for n in (1, 2, 3)]
    assert anubis(*given).stdout.startswith("3 of 3 nodes run something within 8 h")


def test_partners_are_set_aside(place: Path) -> None:
    given = ("fleet", "plan", "--history", str(place), "--hours", "90m", "--format", "json")
    done = anubis(*given, "--partners", "1", "--needs", "*test_speed=partner", "--pin", "*")
    document = json.loads(done.stdout)
    (partner,) = document["partners"]
    runs = [run for one in document["nodes"] for run in one["runs"]]
    assert partner not in {one["node"] for one in document["nodes"]}
    assert len(runs) == 2
    assert all(run["units"] == {"partner": [partner]} for run in runs)
    assert len({run["start"] for run in runs}) == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--hours", "0"], "give more than 0"),
        (["--hours", "-1"], "give more than 0"),
        (["--hours", "8", "--pool", "rig"], "write NAME=N"),
        (["--hours", "8", "--needs", "*=rig"], "there is no pool 'rig' (there is: none)"),
        (["--hours", "8", "--pool", "rig=1", "--needs", "no*=rig"], "no benchmark of the history"),
        (["--hours", "8", "--partners", "9"], "only 3 nodes accepted in service"),
        (["--hours", "8", "--partners", "1", "--at-once", "1"], "leave no place for others"),
        (["--hours", "8", "--history", "EMPTY"], "no node in it"),
    ],
)
def test_what_cannot_be_planned_is_one_line(
    arguments: list[str], said: str, place: Path, tmp_path: Path
) -> None:
    with History(tmp_path / "empty"):
        pass
    given = [one.replace("EMPTY", str(tmp_path / "empty")) for one in arguments]
    done = anubis("fleet", "plan", "--history", str(place), *given)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("anubis fleet: ")
    assert said in line
