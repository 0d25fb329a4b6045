"""A run leaves its verdict where health checks read it at once, under the name that the node was given."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_anubis.cli.main import main
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import Decision, MetricVerdict, NodeVerdict, Outcome, Reason
from pytest_anubis.store.baselines.baseline_files import load_baseline, save_baseline
from pytest_anubis.store.node_standing import (
    keep_begun,
    keep_ended,
    read_standing,
    standing_file,
)
from tests.session.conftest import HEALTHY, Learn, set_speed


def health(store: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str]:
    capsys.readouterr()
    code = main(["health", "--store", str(store), "--node", "rack3-n17", *more])
    return code, capsys.readouterr().out.rstrip("\n")


def test_health_is_the_last_verdict(
    project: pytest.Pytester, learn: Learn, capsys: pytest.CaptureFixture[str]
) -> None:
    learn()
    store = project.path / ".anubis"
    code, text = health(store, capsys)
    assert (code, text[:14]) == (20, "ANB:NO-VERDICT")

    assert project.runpytest("--anubis", "--anubis-node=rack3-n17", "--anubis-run-id=r1").ret == 0
    code, text = health(store, capsys)
    assert code == 0
    assert re.fullmatch(r"ANB:ACCEPTED \d+ s ago run=r1", text)

    set_speed(project, [value / 2 for value in HEALTHY])
    assert project.runpytest("--anubis", "--anubis-node=rack3-n17", "--anubis-run-id=r2").ret == 1
    code, text = health(store, capsys)
    assert code == 1
    assert text.startswith("ANB:SPEED cpu 50<"), text
    assert text.endswith("GFLOP/s [cpu.compute] run=r2"), text
    standing = read_standing(store, "rack3-n17")
    assert standing is not None
    assert (standing.standing.decision, standing.running) == (Decision.REJECTED, "")

    # What measures only, and what is only collected, says nothing about the node.
    project.runpytest("--anubis", "--anubis-mode=measure", "--anubis-node=rack3-n17")
    project.runpytest("--anubis", "--collect-only", "--anubis-node=rack3-n17")
    assert read_standing(store, "rack3-n17") == standing
    # Nor does a run that is refused before a test of it begins: it leaves nothing to judge either.
    runs = sorted(store.joinpath("runs").iterdir())
    project.makepyfile(
        test_wrong="import pytest\n@pytest.mark.anubis(scope='moon')\ndef test_a(): pass\n"
    )
    for named in ("nosuch.py", "test_wrong.py"):
        result = project.runpytest("--anubis", "--anubis-node=rack3-n17", named)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert "UNDECIDED" not in result.stdout.str()
    assert read_standing(store, "rack3-n17") == standing
    assert sorted(store.joinpath("runs").iterdir()) == runs


def test_a_rejection_stands_until_what_failed_passes(
    project: pytest.Pytester, learn: Learn, capsys: pytest.CaptureFixture[str]
) -> None:
    learn()
    store = project.path / ".anubis"

    def anubis(*more: str) -> int:
        return int(project.runpytest("--anubis", "--anubis-node=rack3-n17", *more).ret)

    set_speed(project, [value / 2 for value in HEALTHY])
    assert anubis() == 1
    for run in (("--setup-plan",), ("-k", "nothing"), ("--anubis-mode=measure",)):
        anubis(*run)
        assert health(store, capsys)[0] == 1, run
    path = standing_file(store, "rack3-n17")
    path.write_text(path.read_text()[:-30])  # it is made anew out of the journals
    anubis("--setup-plan")
    assert health(store, capsys)[0] == 1
    path.unlink()
    anubis("--setup-plan")
    assert health(store, capsys)[0] == 1
    set_speed(project, HEALTHY)
    assert anubis() == 0
    assert health(store, capsys)[0] == 0


def test_a_clock_that_went_back_hides_no_rejection(tmp_path: Path) -> None:
    def run(name: str, outcome: Outcome, decision: Decision) -> RunRecord:
        found = MetricVerdict(
            outcome=outcome, reason=Reason.BEYOND, text="", benchmark="t", metric="m", device="cpu"
        )
        said = NodeVerdict(node="n1", decision=decision, headline="")
        return RunRecord(run=name, node="n1", verdicts=(found,), node_verdict=said)

    for name, began, outcome, decision in (
        ("good", 2e9, Outcome.PASS, Decision.ACCEPTED),
        ("bad", 100.0, Outcome.FAIL, Decision.REJECTED),  # in 1970
        ("mended", 200.0, Outcome.PASS, Decision.ACCEPTED),
    ):
        keep_begun(tmp_path, "n1", name, began=began)
        keep_ended(tmp_path, run(name, outcome, decision), ended=began + 1, reason="")
        found = read_standing(tmp_path, "n1")
        assert found is not None
        assert found.standing.decision is decision


def test_a_damaged_standing_is_no_acceptance(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert keep_begun(tmp_path, "rack3-n17", "r1", began=time.time()) == ""
    path = standing_file(tmp_path, "rack3-n17")
    path.write_text(path.read_text()[:-30])
    code, text = health(tmp_path, capsys)
    assert (code, text[:15]) == (20, "ANB:UNREADABLE ")


def test_a_node_is_named_by_a_name(project: pytest.Pytester) -> None:
    result = project.runpytest("--anubis", "--anubis-node=../n17")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --anubis-node is '../n17': name the node with letters*"])
    for option in ("node", "require", "waivers"):
        result = project.runpytest("--anubis", f"--anubis-{option}= ")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([f"ERROR: --anubis-{option} is blank*"])


def test_of_runs_that_overlap_the_one_that_began_later_counts(tmp_path: Path) -> None:
    def ended(name: str, began: int, outcome: Outcome, decision: Decision) -> None:
        found = MetricVerdict(
            outcome=outcome, reason=Reason.BEYOND, text="", benchmark="t", metric="m", device="cpu"
        )
        said = NodeVerdict(node="n1", decision=decision, headline="")
        record = RunRecord(
            run=name, node="n1", started=str(began), verdicts=(found,), node_verdict=said
        )
        keep_ended(tmp_path, record, ended=began + 100.0, reason="")

    keep_begun(tmp_path, "n1", "long", began=10.0)
    keep_begun(tmp_path, "n1", "short", began=20.0)
    ended("short", 20, Outcome.FAIL, Decision.REJECTED)
    ended("long", 10, Outcome.PASS, Decision.ACCEPTED)
    found = read_standing(tmp_path, "n1")
    assert found is not None
    assert found.kept is not None
    assert (found.kept.judged.run, found.running) == ("short", "")


def test_a_clock_that_is_behind_the_baseline_accepts_nothing(
    project: pytest.Pytester, learn: Learn
) -> None:
    learn()
    (path,) = (project.path / "baselines").glob("*.json")
    save_baseline(replace(load_baseline(path), created="2999-01-01T00:00:00+00:00"), path.parent)
    waiver = '[[waiver]]\nowner = "o"\nreason = "r"\nmetric = "*"\nexpires = 2998-01-01\n'
    (project.path / "waivers.toml").write_text(waiver)
    result = project.runpytest("--anubis")
    assert result.ret == Decision.UNDECIDED.exit_code
    result.stdout.fnmatch_lines(["*the clock of this machine is * behind its baseline*"])
    set_speed(project, [value / 2 for value in HEALTHY])
    assert project.runpytest("--anubis", "--anubis-waivers=waivers.toml").ret == 1
