"""The command ``anubis fleet plan``: what it says, prints and writes, and what it refuses in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_anubis.core.history import Incident
from pytest_anubis.core.verdict import Decision
from pytest_anubis.store.history.database import History
from pytest_anubis.store.history.incident_records import add_incident
from tests.cli.command_line import anubis
from tests.fleet.operations.test_fleet_status import DAY, NOW, journal

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
        for number in range(12):
            happened = Incident(
                node="n1", kind="gpu", started=NOW - (2 + number) * DAY, duration=60.0
            )
            add_incident(history, happened)
    return store


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
