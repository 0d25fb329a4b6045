"""``anubis certify``: pairs are measured alone and together, and what it writes is used by the next run."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import pytest_anubis.validator.similarity.distance  # noqa: F401  # numpy is loaded once, not anew in every test
from pytest_anubis.cli.commands.certify_command import order
from pytest_anubis.cli.main import main
from pytest_anubis.core.measurement import PlannedTest
from pytest_anubis.core.run import RunRecord
from pytest_anubis.distributed.dispatch.certificates import overlaps
from pytest_anubis.store.journal.journal_reading import read_journal

SUITE = """
import os, pathlib, time
import pytest

MEETING = os.environ.get("MEETING")

def measure(metric, value, mine, other):
    for moment in ("begun", "done"):  # whoever comes first waits for the other
        pathlib.Path(f"{mine}.{moment}").touch()
        until = time.monotonic() + 60
        while MEETING and not pathlib.Path(f"{other}.{moment}").exists() and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep((0.6 if MEETING else 0.2) if moment == "begun" else 0)
    metric.record("rate", [value] * 3, unit="GB/s", better="higher")

@pytest.mark.anubis(component="cpu.compute", scope="device", cost="1s")
def test_gemm(anubis_metric, anubis_device):
    measure(anubis_metric, 10.0, "gemm", "disk")

@pytest.mark.anubis(component="storage.disk", resources=["disk"], cost="1s")
def test_disk(anubis_metric):
    measure(anubis_metric, SLOWER if MEETING else 10.0, "disk", "gemm")
"""
PAIR = ("test_it.py::test_disk", "test_it.py::test_gemm")

pytestmark = pytest.mark.usefixtures("quick_processes")


def certified(folder: Path) -> dict[str, object]:
    (path,) = (folder / "baselines/certificates").glob("*.json")
    data = json.loads(path.read_text())
    assert isinstance(data, dict)
    return data


@pytest.mark.parametrize(("slower", "fine"), [("9.9", True), ("8.0", False)])
def test_certified_pairs_overlap_in_the_next_run(
    pytester: pytest.Pytester,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    slower: str,
    fine: bool,
) -> None:
    def run(*arguments: str, certificates: str) -> pytest.RunResult:
        for one in (*pytester.path.glob("*.begun"), *pytester.path.glob("*.done")):
            one.unlink()
        known = [path.read_text() for path in Path(certificates).rglob("*.json")]
        monkeypatch.setenv(
            "MEETING", "yes" if any('"granted": true' in one for one in known) else ""
        )
        return pytester.runpytest_inprocess(*arguments)

    def in_this_process(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        (baseline,) = (word for word in command if word.startswith("--anubis-baseline="))
        result = run(*command[3:], certificates=baseline.partition("=")[2])
        return subprocess.CompletedProcess(command, int(result.ret), str(result.stdout))

    monkeypatch.setattr(subprocess, "run", in_this_process)
    pytester.makeini("[pytest]\n")
    pytester.makepyfile(test_it=SUITE.replace("SLOWER", slower))
    assert main(["certify", "test_it.py", "--rounds", "3", "--json", "-"]) == 0
    captured = capsys.readouterr()
    answer, said = json.loads(captured.out), captured.err
    assert [(p["first"], p["second"], p["granted"]) for p in answer["pairs"]] == [(*PAIR, fine)]
    assert Path(answer["file"]).exists()
    data = certified(pytester.path)
    pairs = data["pairs"]
    assert isinstance(pairs, list)
    assert [(p["first"], p["second"], p["granted"]) for p in pairs] == [(*PAIR, fine)]
    assert isinstance(data["origin"], dict)
    assert data["origin"]["rounds"] == 3
    assert ("may overlap" if fine else "apart: rate is 0.800 alike, 0.95 is needed") in said
    assert "round 3 of 3" in said
    run("--anubis", "-nauto", "--anubis-run-id=next", certificates="baselines")
    record = read_journal(pytester.path / ".anubis/runs/next")
    assert overlaps(record) == ({PAIR} if fine else set())


def test_what_must_meet_again_comes_first() -> None:
    planned = tuple(PlannedTest(test=f"{name}[x]", benchmark=name) for name in "abcdefgh")
    record = RunRecord(run="r", node="n", planned=planned)
    assert order(record, 0, {"g"}) == [plan.test for plan in planned]
    first, second = (order(record, number, {"c", "g"}) for number in (1, 2))
    for tests in (first, second):
        assert set(tests[:2]) == {"c[x]", "g[x]"}
        assert sorted(tests) == [plan.test for plan in planned]
    assert first[2:] != second[2:]


def test_a_run_that_fails_certifies_nothing(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    pytester.makeini("[pytest]\n")
    pytester.makepyfile(test_it="def test_x():\n    assert 1 == 2\n")
    assert main(["certify", "test_it.py"]) == 2
    error = capsys.readouterr().err
    assert "assert 1 == 2" in error
    assert "ended with exit code 1; nothing is certified" in error
    assert not (pytester.path / "baselines").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "nowhere: no such file"),
        (["test_it.py", "--rounds", "2"], "at least 3 are needed"),
        (["test_it.py", "--alpha", "2"], "must lie between 0 and 1"),
    ],
)
def test_wrong_usage_is_one_line(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    pytester.makepyfile(test_it="def test_x():\n    pass\n")
    assert main(["certify", *arguments]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
