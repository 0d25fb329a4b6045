"""Where the nodes of a fleet stand, and which are to be drained: out of journals and out of a history."""

from __future__ import annotations

import json
import shlex
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_anubis.core.events import Event, Judged, RunFinished, RunStarted
from pytest_anubis.core.history import Incident
from pytest_anubis.core.verdict import Decision, MetricVerdict, Outcome
from pytest_anubis.store.history.database import History, shown_time
from pytest_anubis.store.history.incident_records import add_incident
from tests.cli.command_line import anubis
from tests.store.written_runs import decided, verdict, write_events

NOW = time.time()
DAY = 86400.0
REASON = "ANB:SPEED gpu3 50 GFLOP/s, expected 99.99 [accelerator.compute] run=r-n3"


def slow(node: str, outcome: Outcome) -> MetricVerdict:
    share = 0.5 if outcome is Outcome.FAIL else 1.0
    return verdict(
        outcome, text="50 % slower", benchmark="suites/test_speed.py::test_speed", metric="speed",
        unit="GFLOP/s", better="higher", component="accelerator.compute", node=node,
        test="suites/test_speed.py::test_speed[gpu3]", device="gpu3", value=100.0 * share,
        expected=99.99, limit=94.99, similarity=share, threshold=0.95,
    )  # fmt: skip


def journal(
    folder: Path,
    node: str,
    decision: Decision | None,
    *,
    age: float,
    run: str = "",
    key: str = "c",
    metric: str = "speed",
) -> None:
    run, began = run or f"r-{node}", shown_time(NOW - age * DAY)
    events: list[Event] = [
        RunStarted(run=run, node=node, started=began, hardware_class=key, purpose="acceptance")
    ]
    if decision is not None:
        outcome = Outcome.FAIL if decision is Decision.REJECTED else Outcome.PASS
        headline = f"node {node} {decision.value.lower()}: 3 benchmarks never ran"
        ended = shown_time(NOW - age * DAY + 600)
        events += [
            Judged(verdict=replace(slow(node, outcome), metric=metric)),
            decided(node, decision, headline),
            RunFinished(exit_status=decision.exit_code, ended=ended),
        ]
    write_events(folder, run, *events)


def suffered(history: History, node: str, kind: str, since: float) -> None:
    """Enter twelve incidents of a node, one a day, the latest so many days ago."""
    for number in range(12):
        started = NOW - (since + number) * DAY
        add_incident(history, Incident(node=node, kind=kind, started=started, duration=60.0))


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Journals of a small fleet."""
    folder = tmp_path_factory.mktemp("collected")
    for number in (1, 2, 4, 5, 6, 7, 8):
        journal(folder, f"n{number}", Decision.ACCEPTED, age=2)
    journal(folder, "n3", Decision.REJECTED, age=3)
    journal(folder, "n9", Decision.UNDECIDED, age=1)
    journal(folder, "n10", Decision.ACCEPTED, age=5)
    journal(folder, "n10", None, age=1, run="r-later")
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, collected: Path) -> Path:
    """The same in a history, with incidents."""
    store = tmp_path_factory.mktemp("history")
    with History(store) as history:
        history.add_node("n10", since=NOW - 200 * DAY)
    assert anubis("push", str(collected), "--history", str(store)).returncode == 0
    with History(store) as history:
        history.add_node("n11", hardware_class="c", since=NOW - 9 * DAY)
        suffered(history, "n10", "gpu", 20)
        history.set_state("n8", "repair", at=NOW - DAY)
    return store


def test_a_folder_of_journals_says_who_stands_where(collected: Path) -> None:
    done = anubis("fleet", "status", str(collected), "--nodes-file", "n[1-12]")
    assert done.returncode == 1, done.stderr
    head, _, *lines = done.stdout.splitlines()
    assert head == ("12 nodes: 1 REJECTED, 1 CUT SHORT, 2 NEVER MEASURED, 1 UNDECIDED, 7 ACCEPTED")
    assert lines[0].split()[:2] == ["n3", "REJECTED"]
    said = (
        "test_speed speed on gpu3 50 % slower: 50 GFLOP/s, expected 99.99 [accelerator.compute]; "
    )
    assert f" 3 d {said}run r-n3 -> " in " ".join(lines[0].split())
    assert lines[1].split()[:3] == ["n10", "CUT", "SHORT"]
    assert "run r-later has not ended; before that accepted" in lines[1]
    assert [line.split()[0] for line in lines[2:5]] == ["n11", "n12", "n9"]
    assert lines[6].startswith("note: no incident is known")


def test_equal_nodes_share_a_line(collected: Path) -> None:
    done = anubis("fleet", "status", str(collected), "--max-age", "1d", "--nodes", "n[1245678]")
    assert done.returncode == 20
    assert done.stdout.splitlines()[0] == "7 nodes: 7 DUE"
    assert "n1, n2, n4 and 4 more  DUE  2 d  accepted longer than 1 d ago" in done.stdout
    fit = anubis("fleet", "status", str(collected), "--nodes", "n1,n2")
    assert (fit.returncode, fit.stdout.splitlines()[0]) == (0, "2 nodes: 2 ACCEPTED")


def test_the_history_says_the_same_and_knows_the_risk(place: Path) -> None:
    done = anubis("fleet", "status", "--history", str(place), "--format", "json", "--horizon", "1d")
    document = json.loads(done.stdout)
    again = anubis("fleet", "status", "--history", str(place), "--json", "-", "--horizon", "1d")
    assert json.loads(again.stdout)["counts"] == document["counts"]
    found = {one["node"]: one for one in document["nodes"]}
    assert document["exit_code"] == done.returncode == 1
    assert [one["node"] for one in document["nodes"][:2]] == ["n3", "n8"]
    assert found["n3"]["reason"] == REASON
    assert found["n3"]["device"] == "gpu3"
    assert found["n8"]["is"] == "REPAIR"
    assert found["n8"]["next"]
    assert found["n8"]["since"] == pytest.approx(NOW - DAY)
    assert found["n11"]["is"] == "NEVER MEASURED"
    assert found["n1"]["is"] == "DUE"
    assert found["n1"]["residual_risk"] > 0.01


def test_the_drain_list_is_printed_and_nothing_is_done(place: Path, collected: Path) -> None:
    for source in (["--history", str(place)], [str(collected)]):
        done = anubis("fleet", "drain-list", *source)
        assert (done.returncode, done.stdout) == (1, f"n3 {REASON}\n")
        done = anubis("fleet", "drain-list", *source, "--format", "scontrol")
        words = shlex.split(done.stdout)
        assert words == ["scontrol", "update", "NodeName=n3", "State=DRAIN", f"Reason={REASON}"]
        done = anubis("fleet", "drain-list", *source, "--exclude", "n3")
        assert (done.returncode, done.stdout) == (0, "")


def test_only_rejected_nodes_in_service_are_drained(tmp_path: Path) -> None:
    for run, node in (("r1", "n1"), ("r2", "n2"), ("r3", "n[3-4]")):
        journal(tmp_path / "collected", node, Decision.REJECTED, age=3, run=run)
    store = tmp_path / "store"
    assert anubis("push", str(tmp_path / "collected"), "--history", str(store)).returncode == 0
    with History(store) as history:
        history.set_state("n1", "drained", at=NOW - DAY)
        history.set_state("n2", "repair", at=NOW - 2 * DAY)
        history.set_state("n2", "in service", at=NOW - DAY)
    done = anubis("fleet", "drain-list", "--history", str(store))
    assert done.stdout.startswith("# drain by hand: 'n[3-4]' ")
    assert done.stderr == "note: 'n[3-4]' is no name of a host: drain it by hand\n"
    done = anubis("fleet", "status", "--history", str(store), "--json", "-")
    document = json.loads(done.stdout)
    found = {one["node"]: one for one in document["nodes"]}
    assert [found[node]["is"] for node in ("n1", "n2", "n[3-4]")] == ["DRAINED", "DUE", "REJECTED"]
    assert document["counts"]["DRAINED"] == 1
    assert found["n1"]["since"] == pytest.approx(NOW - DAY)
    step, back = found["n[3-4]"]["next"], "anubis history state --node n1 --as in-service"
    assert step
    assert found["n1"]["next"] == (
        f"{step}, then measure it again; once it passes, put it into service: {back}"
    )
    assert "put into service since: to be measured again" in found["n2"]["why"]
    journal(tmp_path / "later", "n1", Decision.ACCEPTED, age=0.5, run="r4")
    assert anubis("push", str(tmp_path / "later"), "--history", str(store)).returncode == 0
    done = anubis("fleet", "status", "--history", str(store), "--json", "-")
    (again,) = (one for one in json.loads(done.stdout)["nodes"] if one["node"] == "n1")
    assert (again["is"], again["next"]) == (
        "DRAINED",
        f"it has passed since: put it into service: {back}",
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--history", "nowhere"], "nowhere: no history is there"),
        (["--history", "EMPTY"], "no node in it, or none that was asked for"),
        (["--history", "postgresql+psycopg://x@127.0.0.1:1/none"], "127.0.0.1"),
        (["nowhere"], "nowhere"),
        (["--history", "EMPTY", "x"], "name no folders with it"),
        (["--nodes-file", "no.csv", "--history", "EMPTY"], "no.csv: cannot be read"),
    ],
)
@pytest.mark.parametrize("action", ["status", "drain-list"])
def test_what_cannot_be_read_is_one_line(
    arguments: list[str], said: str, action: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with History(tmp_path / "empty"):
        pass
    given = [one.replace("EMPTY", str(tmp_path / "empty")) for one in arguments]
    done = anubis("fleet", action, *given)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("anubis fleet: ")
    assert said in line


@pytest.mark.parametrize("narrow", [("--since", "60h"), ("--class", "d")])
def test_choosing_later_runs_forgets_no_rejection(tmp_path: Path, narrow: tuple[str, str]) -> None:
    journal(tmp_path, "n1", Decision.REJECTED, age=4, run="bad")
    journal(tmp_path, "n1", Decision.ACCEPTED, age=2, run="other", key="d", metric="m")
    journal(tmp_path, "n2", Decision.ACCEPTED, age=2, key="d")
    store = tmp_path / "store"
    assert anubis("push", str(tmp_path), "--history", str(store)).returncode == 0
    for place in ([str(tmp_path)], ["--history", str(store)]):
        done = anubis("fleet", "status", *place, *narrow)
        assert done.returncode == 1, done.stdout
        assert done.stdout.splitlines()[0] == "2 nodes: 1 REJECTED, 1 ACCEPTED"
    assert (
        anubis("fleet", "status", str(tmp_path), "--since", "1h", "--nodes", "n2").returncode == 20
    )


def test_two_runs_of_one_id_leave_no_fleet_fit(tmp_path: Path) -> None:
    """Two stores with one id of a run: the second, which rejects, was a note and nothing else."""
    journal(tmp_path / "a", "n1", Decision.ACCEPTED, age=2, run="nightly")
    assert anubis("fleet", "status", str(tmp_path)).returncode == 0
    journal(tmp_path / "b", "n1", Decision.REJECTED, age=1, run="nightly")
    done = anubis("fleet", "status", str(tmp_path))
    assert done.returncode == 20
    assert "this one differs: which counts?" in done.stdout
    assert (
        json.loads(anubis("fleet", "status", str(tmp_path), "--json", "-").stdout)["exit_code"]
        == 20
    )


@pytest.mark.parametrize("cut", ["a", "b"])
def test_a_copy_that_was_cut_short_hides_no_rejection(tmp_path: Path, cut: str) -> None:
    """Runs were collected while one was written and again later, in folders of any order."""
    journal(tmp_path / "a", "n1", Decision.REJECTED, age=1, run="nightly")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    (short,) = (tmp_path / cut).rglob("journal.jsonl")
    short.write_text("".join(short.read_text().splitlines(keepends=True)[:1]))
    assert anubis("fleet", "verdict", str(tmp_path)).returncode == 1
    assert anubis("fleet", "status", str(tmp_path)).returncode == 1
