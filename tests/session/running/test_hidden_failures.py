"""What a plugin, an environment or a second file of the same name might hide from the verdict."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_anubis.session.running import live_run
from tests.cli.command_line import anubis
from tests.session.conftest import HEALTHY, Learn, set_speed

CHECK = "\n\ndef test_check():\n    assert {}\n"


def add_check(project: pytest.Pytester, expression: str) -> None:
    path = project.path / "test_suite.py"
    path.write_text(path.read_text() + CHECK.format(expression))


@pytest.mark.parametrize("word", ["passed", "skipped"])
def test_failure_changed_by_a_plugin_is_noticed(
    project: pytest.Pytester, learn: Learn, word: str
) -> None:
    learn()
    add_check(project, "1 == 2")
    project.makeconftest(
        "import pytest\n@pytest.hookimpl(wrapper=True, tryfirst=True)\n"
        "def pytest_runtest_makereport():\n    report = yield\n"
        f"    if report.failed:\n        report.outcome = {word!r}\n"
        "        report.longrepr = ('x', 1, 'quarantined')\n    return report\n"
    )
    result = project.runpytest("--anubis")
    assert result.ret == 20
    result.stdout.fnmatch_lines([f"*test_check failed (*), but a plugin reports it as {word}*"])


def test_waived_or_skipped_plain_check_is_named(project: pytest.Pytester, learn: Learn) -> None:
    learn()
    add_check(project, "1 == 2")
    project.makeconftest(
        "import pytest\ndef pytest_collection_modifyitems(items):\n    for item in items:\n"
        "        if 'check' in item.name:\n            item.add_marker(pytest.mark.xfail)\n"
    )
    result = project.runpytest("--anubis")
    result.stdout.fnmatch_lines(["ACCEPTED: *waived by xfail marks: test_suite.py::test_check*"])
    assert "none failed" not in result.stdout.str()


def test_a_hidden_attempt_of_a_plain_check_is_told(project: pytest.Pytester, learn: Learn) -> None:
    learn()
    add_check(project, "not __import__('pathlib').Path('first').exists()")
    (project.path / "first").touch()
    project.makeconftest(
        "import pathlib\nfrom _pytest.runner import runtestprotocol\n"
        "def pytest_runtest_protocol(item, nextitem):\n"
        "    reports = runtestprotocol(item, nextitem=nextitem, log=False)\n"
        "    if any(r.failed for r in reports):\n"
        "        pathlib.Path('first').unlink()\n"
        "        reports = runtestprotocol(item, nextitem=nextitem, log=False)\n"
        "    for report in reports:\n"
        "        item.ihook.pytest_runtest_logreport(report=report)\n    return True\n"
    )
    result = project.runpytest("--anubis")
    assert not (project.path / "first").exists()
    result.stdout.fnmatch_lines(
        ["*failed at first and passed when repeated: test_suite.py::test_check*"]
    )


def test_python_without_asserts_accepts_nothing(
    project: pytest.Pytester, learn: Learn, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn()
    monkeypatch.setattr(live_run, "sys", SimpleNamespace(flags=SimpleNamespace(optimize=1)))
    result = project.runpytest("--anubis")
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


def test_judge_keeps_what_a_hook_has_rejected(project: pytest.Pytester, learn: Learn) -> None:
    learn()
    project.makeconftest(HOOK)
    assert project.runpytest("--anubis").ret == 1
    judged = anubis("judge", ".anubis/runs")
    assert judged.returncode == 1
    assert "below the contract's floor" in judged.stdout


def test_judge_refuses_two_runs_of_one_name(project: pytest.Pytester, learn: Learn) -> None:
    learn()
    for folder, speed in (("a", HEALTHY), ("b", [0.5 * value for value in HEALTHY])):
        set_speed(project, speed)
        project.runpytest("--anubis", "--anubis-run-id=burnin", f"--anubis-store=all/{folder}")
    judged = anubis("judge", "all")
    assert judged.returncode == 20
    assert "this one differs" in judged.stdout
    shutil.rmtree(Path("all/b"))
    shutil.copytree(Path("all/a"), Path("all/copy"))
    assert anubis("judge", "all").returncode == 0
