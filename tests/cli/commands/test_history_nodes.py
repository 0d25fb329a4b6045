"""Nodes as the history keeps them: registered from a table, healthy ones too, with states and their dates."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from pytest_anubis.codec.input_limits import VARIABLE
from pytest_anubis.core.run import RunRecord
from pytest_anubis.report.pages.risk_report import ModelStory, model_cells, model_lines
from pytest_anubis.selector.risk.choosing.backtest_record import Backtest, BacktestedModel
from pytest_anubis.selector.risk.choosing.risk_backtest import Score
from pytest_anubis.store.history import tables
from pytest_anubis.store.history.database import History
from pytest_anubis.store.history.fleet_history import read_fleet
from pytest_anubis.store.history.run_filing import record_run
from tests.cli.command_line import anubis


def test_a_fleet_is_registered_with_its_healthy_nodes(here: Path) -> None:
    table = here / "nodes.csv"
    table.write_text(
        "node,class,since,state,on,note\n"
        "n1,h100,2025-01-01,in service,,\n"
        "n2,h100,2025-02-01,drained,2025-03-01,PSU\n"
        "n3,,,,,\n"
        "n4,h100,2125-01-01,,,\n"
        "n5,,,asleep,,\n"
    )
    done = anubis("history", "nodes", "import", "nodes.csv")
    assert done.returncode == 1, done.stderr
    assert "line 5: " in done.stdout
    assert "line 6: state 'asleep' is none of" in done.stdout
    assert "3 nodes added, 0 known already, 2 lines left out" in done.stdout
    listed = anubis("history").stdout
    assert "drained" in listed
    assert "2025-03-01" in listed
    again = anubis("history", "nodes", "import", "nodes.csv")
    assert "0 nodes added, 3 known already" in again.stdout
    anubis("history", "incident", "add", "--node=n1", "--kind=nic", "--started=2025-06-01")
    with History(here / ".anubis") as history:
        fleet = read_fleet(history)
    assert [(n.name, n.hardware_class, n.state) for n in fleet.nodes] == [
        ("n1", "h100", "in service"),
        ("n2", "h100", "drained"),
        ("n3", "", "in service"),
    ]
    assert {n.since for n in fleet.nodes} >= {1735689600.0, 1738368000.0}  # healthy ones count


def test_a_measured_node_keeps_its_class(here: Path) -> None:
    with History(here / ".anubis") as history:
        record_run(history, RunRecord(run="r1", node="n1", hardware_class="cpu_2c"))
    (here / "nodes.csv").write_text("node,class,since\nn1,h100,2025-01-01\nn2,h100,2025-01-01\n")
    anubis("history", "nodes", "import", "nodes.csv")
    answer = json.loads(anubis("history", "nodes", "list", "--json", "-").stdout)["nodes"]
    assert [node["hardware_class"] for node in answer] == ["cpu_2c", "h100"]


def test_all_columns_of_the_register_are_shown(here: Path) -> None:
    (here / "nodes.csv").write_text(
        "node,class,rack,position,serial,since,batch,colour\n"
        "n1,h100,r1,U7,S100,2025-01-01,B4,red\nn2,h100,r2,U8,S101,2025-01-01,,\n"
    )
    done = anubis("history", "nodes", "import", "nodes.csv")
    assert done.returncode == 0, done.stderr
    assert "2 nodes added, 0 known already, 0 lines left out" in done.stdout
    assert "kept of each: rack, position, serial, batch, colour" in done.stdout
    head, first, second, *rest = anubis("history", "nodes", "list").stdout.splitlines()
    assert head.split()[-4:] == ["rack", "position", "serial", "batch"]
    assert first.split()[-4:] == ["r1", "U7", "S100", "B4"]
    assert second.split()[-4:] == ["r2", "U8", "S101", "-"]
    assert "with --json as well: colour" in rest
    # What a later table says holds; an empty cell and a column that is not there change nothing.
    (here / "moved.csv").write_text("node,rack,batch\nn1,r9,\nn2,r2,B5\n")
    assert "0 nodes added, 2 known" in anubis("history", "nodes", "import", "moved.csv").stdout
    answer = json.loads(anubis("history", "nodes", "list", "--json", "-").stdout)["nodes"]
    assert [node["traits"] for node in answer] == [
        {"rack": "r9", "position": "U7", "serial": "S100", "batch": "B4", "colour": "red"},
        {"rack": "r2", "position": "U8", "serial": "S101", "batch": "B5"},
    ]
    (here / "odd.csv").write_text(f"node,rack\nn1,{'x' * 300}\nn2,r1\n")
    odd = anubis("history", "nodes", "import", "odd.csv")
    assert (odd.returncode, "line 2: rack 'xxx" in odd.stdout) == (1, True)
    (here / "wide.csv").write_text("node," + ",".join(f"c{i}" for i in range(100)) + "\nn1\n")
    assert "more than 64 further columns" in anubis("history", "nodes", "import", "wide.csv").stderr


def test_states_read_again_change_nothing(here: Path) -> None:
    table = here / "nodes.csv"
    table.write_text(
        "node,state,on\nn1,drained,2025-03-01\nn1,repair,2025-04-01\nn2,drained,\nn3,asleep,\n"
    )
    os.utime(table, (1756684800, 1756684800))  # 2025-09-01, from which on n2 is drained
    done = anubis("history", "nodes", "import", "nodes.csv")
    assert (done.returncode, done.stdout.count("state 'asleep'")) == (1, 1)
    anubis("history", "state", "--node=n2", "--as=in-service", "--on=2025-10-01")
    for _ in range(2):
        with History(here / ".anubis") as history:
            fleet = read_fleet(history)
            with history.reading() as connection:
                states = connection.execute(sa.select(sa.func.count()).select_from(tables.states))
                assert states.scalar() == 4
        assert [(n.name, n.state) for n in fleet.nodes] == [("n1", "repair"), ("n2", "in service")]
        anubis("history", "nodes", "import", "nodes.csv")


@pytest.mark.parametrize("what", ["nodes", "incident"])
def test_a_table_without_end_is_refused(
    here: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setenv(VARIABLE, "1MiB")
    (here / "long.csv").write_text("node,kind,started\n" + "n" * (1 << 20))
    done = anubis("history", what, "import", "long.csv")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "long.csv: too large, beyond the limit of 1MiB" in done.stderr


def test_unknown_nodes_are_one_line(here: Path) -> None:
    rows = "".join(f"n{i},nic,2025-01-0{1 + i % 9}\n" for i in range(228))
    (here / "incidents.csv").write_text(f"node,kind,started\n{rows}")
    done = anubis("history", "incident", "import", "incidents.csv")
    assert len(done.stdout.splitlines()) == 2
    assert (
        "228 lines left out, of 228 unknown nodes: n0, n1, n2, n3, n4 and 223 more" in done.stdout
    )
    assert "--add-nodes" in done.stdout
    assert done.returncode == 2
    assert (
        "228 incidents added"
        in anubis("history", "incident", "import", "incidents.csv", "--add-nodes").stdout
    )


def test_a_state_keeps_its_date(here: Path) -> None:
    asked = ("history", "state", "--node=n9", "--as=repair", "--on=2025-05-05")
    refused = anubis(*asked)
    assert refused.returncode == 2
    assert "--add-nodes" in refused.stderr
    done = anubis(*asked, "--add-nodes")
    assert done.returncode == 0, done.stderr
    assert "repair since 2025-05-05T00:00:00+00:00" in done.stdout
    with History(here / ".anubis") as history:
        (node,) = history.nodes()
    assert (node.state, node.changed, node.since) == ("repair", 1746403200.0, 1746403200.0)


def test_an_older_state_says_which_one_applies(here: Path) -> None:
    asked = ("history", "state", "--node=n1")
    first = anubis(*asked, "--as=drained", "--on=2025-10-01", "--add-nodes").stdout
    assert first == "node n1: drained since 2025-10-01T00:00:00+00:00\n"
    done = anubis(*asked, "--as=repair", "--on=2025-09-01").stdout
    assert done == (
        "node n1: repair since 2025-09-01T00:00:00+00:00; a later entry applies now: "
        "drained since 2025-10-01T00:00:00+00:00\n"
    )
    earlier = json.loads(anubis(*asked, "--as=drained", "--on=2025-08-01", "--json=-").stdout)
    assert earlier["added"]
    assert earlier["now"] == {"state": "drained", "since": "2025-10-01T00:00:00+00:00"}
    assert anubis(*asked, "--as=in-service").stdout == "node n1: in service\n"


def test_a_state_is_entered_for_a_list_of_nodes_or_for_none(here: Path) -> None:
    anubis("history", "state", "--node=n1,n2", "--as=in-service", "--add-nodes")
    asked = ("history", "state", "--as=drained")
    wrong = anubis(*asked, "--node=n1,n9")
    assert wrong.returncode == 2
    assert "node 'n9' is unknown" in wrong.stderr
    with History(here / ".anubis") as history:
        assert {node.name: node.state for node in history.nodes()} == dict.fromkeys(
            ("n1", "n2"), "in service"
        )
    done = anubis(*asked, "--node=n1, n2")
    assert done.stdout == "node n1: drained\nnode n2: drained\n"
    written = json.loads(anubis(*asked, "--node=n1,n2", "--on=2025-01-01", "--json=-").stdout)
    assert [one["node"] for one in written["nodes"]] == ["n1", "n2"]
    one = anubis("history", "--node=n1,n2")
    assert one.returncode == 2
    assert "name one node here" in one.stderr


def test_a_state_that_is_on_file_is_not_entered_again(here: Path) -> None:
    asked = ("history", "state", "--node=n1", "--as=repair", "--on=2025-09-01")
    anubis(*asked, "--note=PSU", "--add-nodes")
    again = anubis(*asked)
    assert again.returncode == 0
    assert again.stdout == (
        "node n1: repair since 2025-09-01T00:00:00+00:00: already recorded, nothing is added\n"
    )
    noted = anubis(*asked, "--note=fan").stdout
    assert "already recorded, nothing is added and --note 'fan' is not kept" in noted
    assert json.loads(anubis(*asked, "--json=-").stdout)["added"] is False
    with History(here / ".anubis") as history, history.reading() as connection:
        kept = connection.execute(sa.select(tables.states.c.state, tables.states.c.note)).all()
    assert [tuple(row) for row in kept] == [("repair", "PSU")]


def test_a_defect_names_a_benchmark_that_exists(here: Path) -> None:
    anubis("history", "state", "--node=n1", "--as=drained", "--add-nodes")
    asked = ("history", "defect", "add", "--node=n1", "--component=network.loopback")
    new = anubis(*asked, "--benchmark=t.py::test_tcp_rate", "--new-benchmark")
    assert new.returncode == 0, new.stderr
    wrong = anubis(*asked, "--benchmark=t.py::test_tpc_rate")
    assert wrong.returncode == 2
    assert "did you mean 't.py::test_tcp_rate'" in wrong.stderr
    assert anubis(*asked, "--benchmark=t.py::test_tcp_rate").returncode == 0
    chosen = anubis("select", "--node=n1", "--by=all", "--explain")
    assert (
        "exposes 75 % of defects (2 known), 75 % as the only one of these, in 1 min"
        in chosen.stdout
    )


def test_a_useless_model_is_a_warning() -> None:
    worse = Score(concordance=0.5, brier=1.12, levelled=1.0, usual=1.0, calibration=1.0)
    tested = Backtest(
        reason="weibull: asked for",
        error=0.1,
        degrees=1,
        candidates=(BacktestedModel(model="weibull", chosen=True, scores=(worse,)),),
    )
    row = model_cells("weibull", 0.5, -0.12, [1.0], "chosen")
    story = ModelStory(reason=tested.reason, how="h", models=(row,), warning=tested.warning)
    lines = model_lines(story)
    assert "warning: weibull predicted worse than one rate for all nodes" in lines[1]
    assert "(skill -0.120)" in lines[1]
    good = replace(
        tested, candidates=(replace(tested.candidates[0], scores=(replace(worse, brier=0.9),)),)
    )
    assert good.warning == ""
    for briers in ((1.005,), (1.2, 0.9)):  # nodes are alike; backtests that contradict each other
        scores = tuple(replace(worse, brier=brier) for brier in briers)
        unsure = replace(tested, candidates=(replace(tested.candidates[0], scores=scores),))
        assert unsure.candidates[0].mean("skill") < 0
        assert unsure.warning == ""
    assert not any("warning" in line for line in model_lines(replace(story, warning=good.warning)))


def test_promote_keeps_the_baseline_that_it_replaces(here: Path) -> None:
    head = "node,device,benchmark,metric,unit,better,value\n"
    for name, level in (("old", 100), ("new", 90)):
        rows = [f"n{i},cuda:0,copy,rate,GB/s,higher,{level + i / 10}" for i in range(8)]
        (here / f"{name}.csv").write_text(head + "\n".join(rows) + "\n")
        asked = ("learn", f"{name}.csv", "--error-rate=none", f"--output={name}")
        assert anubis(*asked).returncode == 0
    (old,), (new,) = (list((here / name).glob("*.json")) for name in ("old", "new"))
    before = old.read_bytes()
    done = anubis("baseline", "promote", str(new), "--to=old")
    assert "replaced, kept as old/expired/" in done.stdout
    assert [path.read_bytes() for path in (here / "old" / "expired").iterdir()] == [before]
    assert old.read_bytes() == new.read_bytes()
    again = anubis("baseline", "promote", str(old))  # itself: nothing is replaced
    assert "replaced" not in again.stdout


def test_learning_again_keeps_the_old_baseline(here: Path) -> None:
    head = "node,device,benchmark,metric,unit,better,value\n"
    answer = []
    for level in (100, 90):
        rows = [f"n{i},cuda:0,copy,rate,GB/s,higher,{level + i / 10}" for i in range(8)]
        (here / "rates.csv").write_text(head + "\n".join(rows) + "\n")
        before = [path.read_bytes() for path in (here / "baselines").glob("*.json")]
        answer.append(anubis("learn", "rates.csv", "--error-rate=none").stdout)
    assert "kept" not in answer[0]
    assert "the one that was in force before is kept: baselines/expired/" in answer[1]
    assert [path.read_bytes() for path in (here / "baselines" / "expired").iterdir()] == before
