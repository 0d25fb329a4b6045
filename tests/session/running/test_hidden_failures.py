"""What a plugin, an environment or a second file of the same name might hide from the verdict."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_anubis.session.running import live_run
from tests.cli.command_line import anubis
from tests.session.conftest import HEALTHY, set_speed

CHECK = "\n\ndef test_check():\n    assert {}\n"


def add_check(project: pytest.Pytester, expression: str) -> None:
    path = project.path / "test_suite.py"
    path.write_text(path.read_text() + CHECK.format(expression))


@pytest.mark.parametrize("word", ["passed", "skipped"])
def test_failure_changed_by_a_plugin_is_noticed(with_baseline: pytest.Pytester, word: str) -> None:
    add_check(with_baseline, "1 == 2")
    with_baseline.makeconftest(
        "import pytest\n@pytest.hookimpl(wrapper=True, tryfirst=True)\n"
        "def pytest_runtest_makereport():\n    report = yield\n"
        f"    if report.failed:\n        report.outcome = {word!r}\n"
        "        report.longrepr = ('x', 1, 'quarantined')\n    return report\n"
    )
    result = with_baseline.runpytest("--anubis")
    assert result.ret == 20
    result.stdout.fnmatch_lines([f"*test_check failed (*), but a plugin reports it as {word}*"])


def test_waived_or_skipped_plain_check_is_named(with_baseline: pytest.Pytester) -> None:
    add_check(with_baseline, "1 == 2")
    with_baseline.makeconftest(
        "import pytest\ndef pytest_collection_modifyitems(items):\n    for item in items:\n"
        "        if 'check' in item.name:\n            item.add_marker(pytest.mark.xfail)\n"
    )
    result = with_baseline.runpytest("--anubis")
    result.stdout.fnmatch_lines(["ACCEPTED: *waived by xfail marks: test_suite.py::test_check*"])
    assert "none failed" not in result.stdout.str()


def test_a_hidden_attempt_of_a_plain_check_is_told(with_baseline: pytest.Pytester) -> None:
    add_check(with_baseline, "not __import__('pathlib').Path('first').exists()")
    (with_baseline.path / "first").touch()
    with_baseline.makeconftest(
        "import pathlib\nfrom _pytest.runner import runtestprotocol\n"
        "def pytest_runtest_protocol(item, nextitem):\n"
        "    reports = runtestprotocol(item, nextitem=nextitem, log=False)\n"
        "    if any(r.failed for r in reports):\n"
        "        pathlib.Path('first').unlink()\n"
        "        reports = runtestprotocol(item, nextitem=nextitem, log=False)\n"
        "    for report in reports:\n"
        "        item.ihook.pytest_runtest_logreport(report=report)\n    return True\n"
    )
    result = with_baseline.runpytest("--anubis")
    assert not (with_baseline.path / "first").exists()
    result.stdout.fnmatch_lines(
        ["*failed at first and passed when repeated: test_suite.py::test_check*"]
    )


def test_python_without_asserts_accepts_nothing(
    with_baseline: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_run, "sys", SimpleNamespace(flags=SimpleNamespace(optimize=1)))
    result = with_baseline.runpytest("--anubis")
    assert result.ret == 20
    result.stdout.fnmatch_lines(["*PYTHONOPTIMIZE*"])


HOOK = """
from dataclasses import replace
from pytest_anubis import MetricVerdict
from pytest_anubis.core.verdict import Outcome, Reason
def pytest_anubis_judge(config, measurement):
    return MetricVerdict(outcome=Outcome.FAIL, reason=Reason.BEYOND, text="below the contract's floor",
                         benchmark=measurement.benchmark, metric=measurement.metric.name)
"""


def test_judge_keeps_what_a_hook_has_rejected(with_baseline: pytest.Pytester) -> None:
    with_baseline.makeconftest(HOOK)
    assert with_baseline.runpytest("--anubis").ret == 1
    judged = anubis("judge", ".anubis/runs")
    assert judged.returncode == 1
    assert "below the contract's floor" in judged.stdout


def test_judge_refuses_two_runs_of_one_name(with_baseline: pytest.Pytester) -> None:
    for folder, speed in (("a", HEALTHY), ("b", [0.5 * value for value in HEALTHY])):
        set_speed(with_baseline, speed)
        with_baseline.runpytest(
            "--anubis", "--anubis-run-id=burnin", f"--anubis-store=all/{folder}"
        )
    judged = anubis("judge", "all")
    assert judged.returncode == 20
    assert "this one differs" in judged.stdout
    shutil.rmtree(Path("all/b"))
    shutil.copytree(Path("all/a"), Path("all/copy"))
    assert anubis("judge", "all").returncode == 0
