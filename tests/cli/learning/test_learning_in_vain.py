"""What ``anubis learn`` says after an interrupt, and when others disturbed every round."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pytest_anubis.cli.learning import rounds
from pytest_anubis.cli.learning.rounds import wholly_disturbed
from pytest_anubis.core.run import RunRecord
from tests.cli.command_line import anubis
from tests.quiet import QUIET


def stand_in(
    monkeypatch: pytest.MonkeyPatch, *, until: int, disturbance: tuple[str, ...] = ()
) -> None:
    """Let rounds take no time, and have the one behind `until` interrupted."""
    begun: list[str] = []

    def run_round(tests: Any, *, run_id: str, **_: Any) -> Any:
        begun.append(run_id)
        if len(begun) > until:
            raise KeyboardInterrupt
        one = SimpleNamespace(
            test="t",
            benchmark="t",
            metric=SimpleNamespace(name="rate", better="higher"),
            disturbance=disturbance,
        )
        ended = SimpleNamespace(test="t", seconds=1.0, outcome="passed")
        return SimpleNamespace(run=run_id, results=[ended], measurements=[one])

    monkeypatch.setattr(rounds, "run_round", run_round)
    monkeypatch.setattr(
        "pytest_anubis.cli.commands.learn_command.undersampled_metrics", lambda *_: ()
    )


@pytest.mark.parametrize(
    ("until", "words"),
    [
        (0, "no round was finished, so there is nothing to learn from yet"),
        (1, "1 finished round is kept in {store}/runs; it takes 3 at least to learn from"),
        (3, "3 finished rounds are kept in {store}/runs; to learn from them: anubis learn "),
    ],
)
def test_an_interrupted_learning_says_what_it_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, until: int, words: str
) -> None:
    stand_in(monkeypatch, until=until)
    suite, store, out = tmp_path / "test_a.py", tmp_path / "store", tmp_path / "out"
    suite.touch()
    given = ["--store", str(store), "--rounds", "5", "-o", str(out), "--pytest-args=-k x"]
    result = anubis("learn", str(suite), *given)
    assert result.returncode == 130
    assert words.format(store=store) in result.stderr
    kept = [line for line in result.stderr.splitlines() if "to learn from them" in line]
    if until == 3:
        (line,) = kept
        assert line.endswith(f" -o {out}"), line
        assert line.count(f"{store}/runs/learn-") == 3


def test_a_disturbed_learning_says_what_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = ("12 % steal", "other processes used 0.8 of 2 cores: ptxas (pid 9) 0.8")
    stand_in(monkeypatch, until=9, disturbance=seen)
    suite = tmp_path / "test_a.py"
    suite.touch()
    result = anubis("learn", str(suite), "--store", str(tmp_path), "--rounds", "3")
    assert result.returncode == 20
    assert "others disturbed every measurement of speed in all 2 rounds" in result.stderr
    helps = (
        "12 % steal; other processes used 0.8 of 2 cores: ptxas (pid 9) 0.8; stop ptxas, or allow what "
        "belongs to a quiet machine with --pytest-args=--anubis-allow-process=ptxas"
    )
    assert helps in result.stderr
    (second,) = [
        line for line in (result.stderr + result.stdout).splitlines() if "round 2: " in line
    ]
    assert helps in second
    monkeypatch.setenv("COLUMNS", "2000")  # argparse breaks lines at hyphens too
    assert "--anubis-allow-process" in anubis("learn", "--help").stdout


IN_PROCESS = "--pytest-args=--anubis-in-process"
NOISY = """
from pathlib import Path

import pytest

@pytest.mark.anubis(component="steady.part")
def test_steady(anubis_metric):
    anubis_metric.record("rate", [100 + 0.1 * (i % 5) for i in range(20)], unit="GB/s", better="higher")

@pytest.mark.anubis(component="noisy.part")
def test_noisy(anubis_metric):
    ten_times_as_much_each_round = 10.0 ** len(list(Path(".anubis/runs").iterdir()))
    anubis_metric.record("rate", [ten_times_as_much_each_round] * 20, unit="GB/s", better="higher")
"""


@pytest.mark.usefixtures("quick_processes")
def test_a_coarse_baseline_proposes_longer_learning(here: Path) -> None:
    (here / "test_parts.py").write_text(NOISY)
    (here / "conftest.py").write_text(QUIET)  # a disturbed machine gets another proposal
    result = anubis("learn", "test_parts.py", "--rounds", "4", IN_PROCESS)
    lines = result.stdout.splitlines()
    at = lines.index(
        "nothing is accepted while these components have no metric that shows a loss of a half:"
    )
    assert lines[at + 1].startswith("  noisy.part: noise hides it here, losses show from ")
    assert any(line.startswith("1 coarse, as noise hides here ") for line in lines)
    (line,) = [one for one in lines if one.startswith("next")]
    assert line.startswith("next, when nothing else runs here: anubis learn test_parts.py ")
    assert line.endswith(" --rounds 12")
    assert "pytest --anubis test_parts.py" not in result.stdout
    assert result.returncode == 20


@pytest.mark.usefixtures("quick_processes")
def test_a_failed_test_leaves_the_others_their_baseline(here: Path) -> None:
    steady = NOISY.partition('@pytest.mark.anubis(component="noisy.part")')[0]
    bad = "def test_bad(anubis_metric):\n    assert 1 == 2, 'a wrong sum'\n"
    (here / "test_parts.py").write_text(steady + bad)
    (here / "conftest.py").write_text(QUIET)
    result = anubis("learn", "test_parts.py", "--rounds", "3", "--json", "learned.json", IN_PROCESS)
    assert result.returncode == 20
    answer = json.loads((here / "learned.json").read_text())
    assert [one["test"] for one in answer["failed"]] == ["test_parts.py::test_bad"]
    assert "a wrong sum" in answer["failed"][0]["why"]
    (learned,) = answer["classes"]
    assert [one["benchmark"] for one in learned["criteria"]] == ["test_parts.py::test_steady"]
    assert Path(learned["file"]).exists()


def test_an_exact_value_makes_no_round_quiet() -> None:
    exact = SimpleNamespace(metric=SimpleNamespace(better="equal"), disturbance=())
    rate = SimpleNamespace(metric=SimpleNamespace(better="higher"), disturbance=("5 % steal",))
    assert wholly_disturbed(cast(RunRecord, SimpleNamespace(measurements=[exact, rate])))
    assert not wholly_disturbed(cast(RunRecord, SimpleNamespace(measurements=[exact])))
