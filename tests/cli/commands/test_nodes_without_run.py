"""Registered nodes without a run are counted and named wherever nodes are listed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command_line import anubis

HEAD = "node,device,benchmark,metric,unit,better,value\n"
SAID = "4 registered nodes have no run yet: n3, n4, n5 and 1 more"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a history: six nodes and a removed one registered, n1 and n2 judged; a baseline."""
    here = tmp_path_factory.mktemp("registered")
    names = "".join(f"n{number},h100,2025-01-01,,\n" for number in range(1, 7))
    (here / "nodes.csv").write_text(
        f"node,class,since,state,on\n{names}n7,h100,2025-01-01,removed,2025-02-01\n"
    )
    for name, nodes in (("many", range(1, 9)), ("rates", (1, 2))):
        rows = (f"n{n},cuda:0,copy,rate,GB/s,higher,{100 + n / 10}\n" for n in nodes)
        (here / f"{name}.csv").write_text(HEAD + "".join(rows))
    given = ("--history", str(here / "h"))
    assert anubis("history", "nodes", "import", str(here / "nodes.csv"), *given).returncode == 0
    learnt = anubis("learn", str(here / "many.csv"), "--error-rate=none", "-o", str(here / "base"))
    assert learnt.returncode == 0, learnt.stderr
    pushed = anubis("push", str(here / "rates.csv"), *given, "--baseline", str(here / "base"))
    assert pushed.returncode == 0, pushed.stderr
    return here


def test_the_list_says_no_run_yet_and_counts(store: Path) -> None:
    done = anubis("history", "nodes", "list", "--history", str(store / "h"))
    lines = done.stdout.splitlines()
    gone = "1 removed, which need no run"
    assert f"6 nodes, 4 of them with no run yet; {gone}" in lines
    (three,) = (line for line in lines if line.startswith("n3"))
    assert "no run yet" in three
    assert all("no run yet" not in line for line in lines if line.startswith(("n1", "n2")))
    answer = json.loads(
        anubis("history", "nodes", "list", "--json=-", "--history", str(store / "h")).stdout
    )
    assert {one["name"]: one["runs"] for one in answer["nodes"]} == (
        {"n1": 1, "n2": 1} | dict.fromkeys(("n3", "n4", "n5", "n6", "n7"), 0)
    )


def test_a_run_without_a_verdict_is_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # no baseline is there
    (tmp_path / "rates.csv").write_text(f"{HEAD}n1,cuda:0,copy,rate,GB/s,higher,100\n")
    given = ("--history", str(tmp_path / "h"))
    anubis("push", str(tmp_path / "rates.csv"), *given)
    done = anubis("history", "nodes", "list", *given)
    assert "never judged" in done.stdout
    assert "no run yet" not in done.stdout


def test_status_separates_no_run_from_no_verdict(store: Path) -> None:
    given = ("--history", str(store / "h"), "--nodes-file", "n1,n9")
    done = anubis("fleet", "status", "--json", "-", *given[:2])
    answer = {one["node"]: one["why"] for one in json.loads(done.stdout)["nodes"]}
    assert {name for name, why in answer.items() if why == "no run yet"} == {"n3", "n4", "n5", "n6"}
    named = json.loads(anubis("fleet", "status", "--json", "-", *given).stdout)["nodes"]
    assert {one["node"]: one["why"] for one in named}["n9"] == "no run yet"


def test_judge_and_the_page_count_them_in_one_line(store: Path) -> None:
    given = ("--history", str(store / "h"), "--baseline", str(store / "base"))
    judged = anubis("judge", *given, "--html", str(store / "judged.html"))
    assert SAID in judged.stdout.splitlines()
    assert SAID in (store / "judged.html").read_text("utf-8")
    some = anubis("judge", *given, "--nodes", "n1,n4")
    assert "1 registered node has no run yet: n4" in some.stdout.splitlines()
    assert "no run yet" not in anubis("judge", *given, "--nodes", "n1").stdout
    paged = anubis("report", "--fleet", *given, "--html", str(store / "site"))
    assert SAID in paged.stdout.splitlines()
    assert f"<p>{SAID}</p>" in (store / "site" / "index.html").read_text("utf-8")


def test_judge_names_listed_nodes_without_a_run(store: Path) -> None:
    table = store / "listed.csv"
    table.write_text("node,rack\nn1,r1\nn2.b.example,r1\nn8,r2\nn9,r2\n")
    given = ("judge", str(store / "rates.csv"), "--baseline", str(store / "base"))
    lines = anubis(*given, "--nodes-file", str(table)).stdout.splitlines()
    assert "2 registered nodes have no run yet: n8, n9" in lines
    chosen = anubis(*given, "--nodes-file", str(table), "--nodes", "n1,n9").stdout
    assert "1 registered node has no run yet: n9" in chosen


def test_a_pattern_of_nodes_that_matches_none(store: Path) -> None:
    given = ("judge", str(store / "rates.csv"), "--baseline", str(store / "base"), "--nodes")
    assert "--nodes n99,x*: no run of such a node" in anubis(*given, "n1,n99,x*").stdout
    assert "no run of such a node" not in anubis(*given, "n1.b.example,n2").stdout
