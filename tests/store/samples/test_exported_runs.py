"""An exported folder accepts no node, and nothing is learned from it that its runs must not teach."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from pytest_anubis.cli.main import main
from pytest_anubis.cli.shared.collected_judging import judge_collected
from pytest_anubis.core.blocker import Hindrance
from pytest_anubis.core.verdict import Decision, NodeVerdict
from pytest_anubis.store.baselines.baseline_files import load_baselines
from pytest_anubis.store.collected_runs import read_runs
from tests.store.test_collected_runs import result, sample, write_run

duckdb = pytest.importorskip("duckdb")

CHECK = "t.py::test_check"


def values(node: int, factor: float = 1.0) -> list[float]:
    logs = np.random.default_rng(node).normal(0, 0.003, 12)
    return [factor * 100 * float(np.exp(one)) for one in logs]


def nodes_of(place: str, *more: str) -> dict[str, NodeVerdict]:
    found = judge_collected(
        read_runs([Path(place), *map(Path, more)]), load_baselines(Path("base"))
    )
    return {one.node: one for one in found.nodes}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with a healthy node, a slow one and one that failed a test without a metric, and a baseline."""
    monkeypatch.chdir(tmp_path)
    for n in range(12):
        write_run(Path("known"), f"r{n}", f"n{n:02d}", samples=[sample(values(n))])
    assert main(["learn", "known", "-o", "base"]) == 0
    here = tmp_path / "store"
    good = [result()]
    write_run(here, "a", "good", samples=[sample(values(50))], results=good)
    write_run(here, "b", "slow", samples=[sample(values(51, 0.7))], results=good)
    failed = result("failed", CHECK, "bit flipped\nhere")
    both = [result(), failed]
    write_run(
        here, "c", "check", samples=[sample(values(52))], results=both, decision=Decision.REJECTED
    )
    return here


def test_an_exported_folder_accepts_no_node(store: Path) -> None:
    told = {node: one.decision for node, one in nodes_of("store").items()}
    assert told == {
        "good": Decision.ACCEPTED,
        "slow": Decision.REJECTED,
        "check": Decision.REJECTED,
    }
    assert main(["export", "store", "--parquet", "out"]) == 0
    assert {
        node: one.decision for node, one in nodes_of("out", "store").items()
    } == told  # in any order
    (file,) = Path("out").iterdir()
    assert main(["import", "table", str(file), "--store", "imported"]) == 0
    duckdb.sql("SELECT * FROM 'out/*.parquet' WHERE number > 1").write_csv("changed.csv")
    for place in ("out", "imported", "changed.csv"):
        found = nodes_of(place)
        assert found["good"].decision is Decision.UNDECIDED, place
        assert Hindrance.SAMPLES_ONLY in {one.kind for one in found["good"].blocking}
        assert found["slow"].decision is Decision.REJECTED
    out = nodes_of("out")
    assert [one.kind for one in out["check"].blocking] == [Hindrance.SAMPLES_ONLY]
    assert main(["judge", "out", "--baseline", "base", "--nodes", "good"]) == 20
    assert main(["push", str(file), "--history", "central", "--baseline", "base"]) == 0
    assert main(["fleet", "status", "--history", "central"]) == 1
    assert main(["health", "--store", "central", "--node", "good"]) == 20


def test_a_later_run_of_all_that_was_exported_accepts_again(store: Path) -> None:
    assert main(["export", "store", "--parquet", "out"]) == 0
    (file,) = Path("out").iterdir()
    os.utime(file, (0, 0))  # an exported file has no times of its runs
    write_run(Path("later"), "d", "good", samples=[sample(values(53))], results=[result()])
    out = nodes_of("out", "later")["good"]
    assert out.decision is Decision.ACCEPTED, out.blocking


@pytest.mark.parametrize("way", [["store"], ["--history", "central"], ["again"]])
def test_nothing_is_learned_from_exported_runs_that_must_not_teach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Sequence[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    good = [sample([1.0])]
    here = Path("store")
    write_run(here, "measured", "n1", samples=good)
    write_run(here, "rejected", "n2", samples=good, purpose="learn", decision=Decision.REJECTED)
    write_run(
        here, "undecided", "n3", samples=good, purpose="acceptance", decision=Decision.UNDECIDED
    )
    write_run(here, "interrupted", "n4", samples=good, status=2)
    if way == ["--history", "central"]:
        assert main(["push", "store", "--history", "central"]) == 0
    if way == ["again"]:
        assert main(["export", "store", "--parquet", "again"]) == 0
    assert main(["export", *way, "--parquet", "out"]) == 0
    wanted = read_runs([here], learning=True)
    found = read_runs([Path("out")], learning=True)
    assert [one.runs for one in found.populations] == [one.runs for one in wanted.populations]
    assert {(one.run, one.reason) for one in found.refused} == {
        (one.run, one.reason) for one in wanted.refused
    }
    assert len(found.refused) == 3
    assert {run.run for run in found.runs} == {"measured"}
    judged = read_runs([Path("out")])  # and all of it is good for judging
    assert [(len(one), one.problems) for one in judged.populations] == [(4, {})]
    duckdb.sql("SELECT * FROM 'out/*.parquet'").write_csv("all.csv")
    (population,) = read_runs([Path("all.csv")], learning=True).populations
    assert set(population.runs) == {"measured"}


def test_a_problem_of_several_lines_is_read_back(tmp_path: Path) -> None:
    failed = [result("failed", text="one\ntwo" + "x" * 2000)]
    write_run(tmp_path / "store", "a", samples=[sample([1.0])], results=failed)
    assert main(["export", str(tmp_path / "store"), "--parquet", str(tmp_path / "out")]) == 0
    (population,) = read_runs([tmp_path / "out"]).populations
    assert [problem.kind for problem in population.problems.values()] == ["failed"]
