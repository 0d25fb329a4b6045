"""What belongs to a node is found by its node, whoever else has the run's id, in capitals or not."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pytest_anubis.cli.main import main
from pytest_anubis.core.verdict import Decision, Waiver
from tests.store.written_runs import written

HEAD = "node,benchmark,metric,unit,better,value,time,run\n"


@pytest.mark.parametrize(
    ("own", "other", "run"),
    [("n1", "n2", "nightly"), ("N1", "N2", "far"), ("n1.x.example", "n2", "nightly")],
)
def test_health_knows_a_rejection_that_was_pushed(
    tmp_path: Path, own: str, other: str, run: str
) -> None:
    """The store has another node's run of that id, or the node's name is written otherwise there."""
    began = time.time() - 100
    here, far = tmp_path / "here", tmp_path / "far"
    written(here, "nightly", other, began, Decision.ACCEPTED)
    written(here, "r1", own, began, Decision.ACCEPTED)
    written(far, run, "n1", began + 50, Decision.REJECTED)
    assert main(["health", "--store", str(here), "--node", "n1"]) == 0
    assert main(["push", str(here), str(far), "--history", str(here)]) == 0
    for node in ("n1", own):
        assert main(["health", "--store", str(here), "--node", node]) == 1


def test_health_knows_a_waiver_that_has_ended_of_a_run_that_was_pushed(tmp_path: Path) -> None:
    began = time.time() - 100
    here, far = tmp_path / "here", tmp_path / "far"
    written(here, "r1", "n1", began, Decision.ACCEPTED)
    waiver = Waiver(owner="o", reason="r", expires="2020-01-01", metric="m")
    written(far, "r2", "n1", began + 50, Decision.ACCEPTED, waivers=(waiver,))
    assert main(["push", str(here), str(far), "--history", str(here)]) == 0
    assert main(["health", "--store", str(here), "--node", "n1"]) == 1


@pytest.mark.parametrize("asked", ["N1", "n1", "n1.x.example", "[nN]1"])
def test_a_node_is_selected_by_any_of_its_names(tmp_path: Path, asked: str) -> None:
    began = time.time() - 100
    written(tmp_path, "r1", "N1", began, Decision.ACCEPTED)
    written(tmp_path, "r2", "n1", began + 50, Decision.REJECTED)
    assert main(["fleet", "status", str(tmp_path), "--nodes", asked]) == 1
    assert main(["push", str(tmp_path), "--history", str(tmp_path)]) == 0
    assert main(["fleet", "status", "--history", str(tmp_path), "--nodes", asked]) == 1


def test_no_run_is_read_from_another_nodes_journal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    began = time.time() - 1000
    here, far = tmp_path / "here", tmp_path / "far"
    written(far, "nightly", "n1", began, Decision.ACCEPTED)
    written(far, "later", "n1", began + 100, Decision.ACCEPTED)  # the standing follows from it
    written(here, "nightly", "n2", began + 50, Decision.REJECTED)
    assert main(["push", str(here), str(far), "--history", str(here)]) == 0
    shown = ["report", "nightly", "--history", str(here), "--node", "n1"]
    assert main(shown) == 0
    assert main(["history", "retain", "--contents", "1s", "--history", str(here)]) == 0
    capsys.readouterr()
    assert main(shown) == 2
    assert "run nightly of n1: only its verdicts are in" in capsys.readouterr().err


def test_imports_next_to_journals_keep_their_nodes_from_being_accepted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path, "r1", "n1", time.time() - 100, Decision.ACCEPTED)
    written(tmp_path, "r2", "n2", time.time() - 100, Decision.ACCEPTED)
    assert main(["fleet", "status", str(tmp_path)]) == 0
    (tmp_path / "t.csv").write_text(f"{HEAD}n1,t,m,GB/s,higher,50,2026-11-01T00:00:00Z,r3\n")
    assert main(["import", "table", str(tmp_path / "t.csv"), "--store", str(tmp_path)]) == 0
    capsys.readouterr()
    assert main(["fleet", "status", str(tmp_path)]) == 20
    assert "1 UNDECIDED, 1 ACCEPTED" in capsys.readouterr().out


def test_a_node_with_two_names_in_a_table_lacks_no_device(tmp_path: Path) -> None:
    head = HEAD.replace("node,", "node,device,")
    nodes = "".join(
        f"g{n},cuda:{d},b,c,GB/s,higher,{100 + 0.1 * ((n + d) % 5)},2026-11-01T00:00:00Z,ref\n"
        for n in range(12)
        for d in range(3)
    )
    (tmp_path / "ref.csv").write_text(head + nodes)
    rows = "".join(
        f"{name},cuda:{d},b,c,GB/s,higher,100,2026-11-20T00:00:00Z,r0\n"
        for d, name in enumerate(("x", "X", "x.dom"))
    )
    (tmp_path / "x.csv").write_text(head + rows)
    place, given = str(tmp_path / "s"), ["--baseline", str(tmp_path / "b")]
    assert main(["learn", str(tmp_path / "ref.csv"), "-o", str(tmp_path / "b")]) == 0
    assert main(["judge", str(tmp_path / "x.csv"), *given]) == 0
    assert main(["push", str(tmp_path / "x.csv"), "--history", place, *given]) == 0
    assert main(["fleet", "status", "--history", place]) == 0


def test_imports_that_overlap_do_not_clear_each_other(tmp_path: Path) -> None:
    """Run r0 lasts until its value of 20:00, which is bad; run r1 began before."""
    nodes = "".join(
        f"g{n},b,{m},GB/s,higher,{100 + 0.1 * (n % 5)},2026-11-01T00:00:00Z,ref\n"
        for n in range(12)
        for m in "ac"
    )
    (tmp_path / "ref.csv").write_text(HEAD + nodes)
    day = "2026-11-20T"
    (tmp_path / "r0.csv").write_text(
        f"{HEAD}g1,b,a,GB/s,higher,100,{day}00:00:00Z,r0\ng1,b,c,GB/s,higher,50,{day}20:00:00Z,r0\n"
    )
    (tmp_path / "r1.csv").write_text(
        HEAD + "".join(f"g1,b,{m},GB/s,higher,100,{day}10:00:00Z,r1\n" for m in "ac")
    )
    (tmp_path / "r2.csv").write_text(
        HEAD + "".join(f"g1,b,{m},GB/s,higher,100,{day}21:00:00Z,r2\n" for m in "ac")
    )
    place = str(tmp_path / "s")
    files = [str(tmp_path / f"{name}.csv") for name in ("r0", "r1", "r2")]
    given = ["--baseline", str(tmp_path / "b")]
    assert main(["learn", str(tmp_path / "ref.csv"), "-o", str(tmp_path / "b")]) == 0
    for several, code in ((files[:2], 1), (files, 0)):
        assert main(["judge", *several, *given]) == code
        assert main(["import", "table", *several, "--store", place]) == 0
        assert main(["push", place, "--history", place, *given]) == 0
        assert main(["judge", place, *given]) == code
        assert main(["judge", "--history", place, *given]) == code
        assert main(["fleet", "status", "--history", place]) == code
        assert main(["health", "--store", place, "--node", "g1", "--max-age", "9999d"]) == code


def test_links_in_a_circle_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path, "r1", "n1", time.time() - 100, Decision.ACCEPTED)
    for name in ("loop.npz", "loop.jsonl", "journal.jsonl"):
        (tmp_path / name).symlink_to(tmp_path / name)
    assert main(["fleet", "status", str(tmp_path)]) in (0, 20)
    said = capsys.readouterr()
    assert "loop.npz" in said.out + said.err
    assert "1 ACCEPTED" in said.out
