"""However a run ends: the headline, the exit status in the journal and the exit code say the same."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET  # reads what pytest wrote a moment ago
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import NodeVerdict
from pytest_anubis.store.baselines.baseline_files import save_baseline
from pytest_anubis.store.journal.journal_reading import read_journal
from pytest_anubis.validator.deciding import run_decision
from pytest_anubis.validator.deciding.run_decision import evidence_of
from tests.cli.command_line import anubis
from tests.quiet import OPTIONS
from tests.run_journals import events_of, journal_of, record_of
from tests.session.conftest import HEALTHY, Learn, append_to_suite, edit_suite, exact, set_speed

CODES = {"ACCEPTED": 0, "REJECTED": 1, "UNDECIDED": 20}
SLOW = [0.8 * value for value in HEALTHY]


def ended(pytester: pytest.Pytester, result: pytest.RunResult) -> dict[str, Any]:
    """Return the decision of the only run, after checking that all who tell of it agree."""
    events = events_of(pytester)
    verdict: dict[str, Any] = [e for e in events if e["event"] == "node_verdict"][-1]
    assert events[-1]["event"] == "run_finished"
    assert events[-1]["exit_status"] == result.ret == CODES[verdict["decision"]]
    result.stdout.fnmatch_lines([f"{verdict['decision']}*: node *"])
    return verdict


TEARDOWN = """
@pytest.fixture
def card():
    yield
    raise RuntimeError("the card does not answer any more")

@pytest.mark.anubis("""


def fail_in_teardown(project: pytest.Pytester) -> None:
    edit_suite(project, "@pytest.mark.anubis(", TEARDOWN)
    edit_suite(project, "(anubis_metric, anubis_device)", "(card, anubis_metric, anubis_device)")


def mark_strict_xfail(project: pytest.Pytester) -> None:
    mark = "@pytest.mark.xfail(strict=True)\n@pytest.mark.anubis("
    edit_suite(project, "@pytest.mark.anubis(", mark)


@pytest.mark.usefixtures("in_workers")
@pytest.mark.parametrize("workers", [["--anubis-in-process"], ["-n0"], ["-n2"]])
def test_an_error_in_teardown_after_a_pass_rejects(
    with_baseline: pytest.Pytester, workers: list[str]
) -> None:
    fail_in_teardown(with_baseline)
    result = with_baseline.runpytest("--anubis", *workers)
    result.assert_outcomes(passed=1, errors=1)
    assert result.ret == 1
    assert "the card does not answer any more" in ended(with_baseline, result)["headline"]


def test_a_strict_xfail_that_passes_rejects(with_baseline: pytest.Pytester) -> None:
    mark_strict_xfail(with_baseline)
    result = with_baseline.runpytest("--anubis")
    assert result.ret == 1
    assert "XPASS(strict)" in ended(with_baseline, result)["headline"]


@pytest.mark.parametrize("spoil", [fail_in_teardown, mark_strict_xfail])
def test_a_resumed_run_does_not_forget_how_tests_ended(
    with_baseline: pytest.Pytester, spoil: Callable[[pytest.Pytester], None]
) -> None:
    spoil(with_baseline)
    append_to_suite(
        with_baseline,
        "\ndef test_power_cut():\n"
        "    if not pathlib.Path('cut').exists():\n"
        "        pathlib.Path('cut').touch()\n"
        "        os.kill(os.getpid(), 9)\n",
    )
    cut = with_baseline.runpytest_subprocess("--anubis", "-p", "no:xdist")
    assert cut.ret not in (0, 1)
    result = with_baseline.runpytest("--anubis", "-p", "no:xdist", "--anubis-resume")
    result.assert_outcomes(passed=1)
    assert result.ret == 1
    ended(with_baseline, result)


@pytest.mark.usefixtures("in_workers")
@pytest.mark.parametrize("workers", ["-n0", "-n2"])
@pytest.mark.parametrize("more", [[], ["-x"], ["--maxfail=2"]])
def test_a_death_without_evidence_decides_nothing(
    with_baseline: pytest.Pytester, workers: str, more: list[str]
) -> None:
    append_to_suite(with_baseline, "\ndef test_dies():\n    os._exit(3)\n")
    result = with_baseline.runpytest("--anubis", workers, *more)
    assert result.ret == 20
    assert "died" in str(ended(with_baseline, result)["blocking"])


DIES_ONCE = """
import os, pathlib

if "PYTEST_XDIST_WORKER" in os.environ and not pathlib.Path("died").exists():
    pathlib.Path("died").touch()
    os._exit(9)
"""


@pytest.mark.usefixtures("in_workers")
@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_worker_dying_before_tests_blocks(with_baseline: pytest.Pytester, workers: str) -> None:
    assert with_baseline.runpytest("--anubis", workers, "--anubis-store=before").ret == 0
    with_baseline.makeconftest(DIES_ONCE)
    result = with_baseline.runpytest("--anubis", workers)
    assert result.ret == 20
    result.assert_outcomes(passed=1)
    (verdict,) = events_of(with_baseline, "node_verdict")
    assert [one for one in verdict["blocking"] if "no test was running" in str(one)]


@pytest.mark.parametrize("teardown", ["pass", "raise OSError('x')"])
def test_wrong_benchmark_is_a_usage_error(with_baseline: pytest.Pytester, teardown: str) -> None:
    with_baseline.makeconftest(
        f"import pytest\n@pytest.fixture(autouse=True)\ndef ending():\n    yield\n    {teardown}\n"
    )
    append_to_suite(
        with_baseline, '\n    anubis_metric.record("x", [1.0], unit="s", better="sideways")\n'
    )
    result = with_baseline.runpytest("--anubis")
    assert result.ret == 4
    result.stdout.fnmatch_lines(["UNDECIDED: *", "benchmark written wrongly: *"])


def test_what_cannot_be_collected_stands_in_the_way(with_baseline: pytest.Pytester) -> None:
    with_baseline.makepyfile(test_broken="import nowhere_to_be_found")
    result = with_baseline.runpytest("--anubis", "--continue-on-collection-errors")
    assert result.ret == 20
    (line,) = ended(with_baseline, result)["blocking"]
    assert line["kind"] == "uncollected"
    assert line["benchmark"] == "test_broken.py"
    assert line["cause"] == "ModuleNotFoundError: No module named 'nowhere_to_be_found'"
    record = record_of(with_baseline)
    (blocker,) = evidence_of(record).blockers
    assert (blocker.run, blocker.cause) == (record.run, line["cause"])


def test_uncollected_files_of_one_cause_are_merged(project: pytest.Pytester) -> None:
    """The headline was the first of twenty sentences of pytest's, of which none names what is missing."""
    project.makepyfile(helper="raise ImportError('no driver\\nin this image')")
    project.makepyfile(**{f"test_{number}": "import helper" for number in range(3)})
    result = project.runpytest("--anubis", "--continue-on-collection-errors")
    result.stdout.fnmatch_lines(
        ["UNDECIDED: *", "*3 times: ImportError: no driver (test_0.py cannot be collected, ...)"]
    )


@pytest.mark.parametrize(("workers", "code"), [("-n1", 20), ("--anubis-in-process", 2)])
def test_a_file_that_no_python_reads_rejects_no_node(
    with_baseline: pytest.Pytester, workers: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone, it was the 1 of pytest-xdist without any verdict: a scheduler would have drained the node."""
    monkeypatch.setenv("PYTEST_ADDOPTS", f"{OPTIONS} {workers}")
    with_baseline.makepyfile(test_broken="def broken(:")
    result = with_baseline.runpytest("--anubis", "test_broken.py")
    assert result.ret == code
    result.stdout.fnmatch_lines(["UNDECIDED: *"])
    assert "test_broken.py cannot be collected: SyntaxError: invalid syntax" in result.stdout.str()


def test_unexplained_failure_blocks(with_baseline: pytest.Pytester) -> None:
    with_baseline.makeconftest("def pytest_runtest_teardown(item): item.session.testsfailed += 1")
    result = with_baseline.runpytest("--anubis")
    assert result.ret == 20
    assert "no test of this run failed" in str(ended(with_baseline, result)["blocking"])


def test_error_in_the_decision_loses_nothing(
    with_baseline: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decide(run: RunRecord, baseline: Baseline | None, **more: Any) -> NodeVerdict:
        raise RuntimeError("two\nlines")

    with monkeypatch.context() as patch:
        patch.setattr(run_decision, "decide_run", decide)
        result = with_baseline.runpytest("--anubis", "-p", "no:xdist", "--anubis-run-id=r")
    assert result.ret == 3
    result.stdout.fnmatch_lines(
        [
            "anubis: internal error: the decision failed: RuntimeError: two; everything measured is in *"
        ]
    )
    assert "Traceback" not in result.stdout.str() + result.stderr.str()
    events = events_of(with_baseline)
    assert [e["event"] for e in events][-2:] == ["internal_error", "run_finished"]
    assert "Traceback" in events[-2]["traceback"]
    assert events[-1]["exit_status"] == 3
    # Mended: nothing is measured again, and the node is judged.
    result = with_baseline.runpytest("--anubis", "-p", "no:xdist", "--anubis-resume")
    assert result.ret == 0
    ended(with_baseline, result)


def test_a_fault_in_a_hook_leaves_the_decision(with_baseline: pytest.Pytester) -> None:
    with_baseline.makeconftest("def pytest_anubis_verdict(config, verdict, verdicts): 1 / 0")
    result = with_baseline.runpytest("--anubis", "-p", "no:xdist")
    assert result.ret == 3
    result.stdout.fnmatch_lines(["*a pytest_anubis_verdict hook failed: ZeroDivisionError*"])
    result.stdout.fnmatch_lines(["ACCEPTED: *"])


REPEATING = """
import json, pathlib, pytest
from _pytest.runner import runtestprotocol

def pytest_runtest_protocol(item, nextitem):
    # Like plugins that repeat failures: all attempts but the last end with the outcome "rerun".
    for attempt in range(ATTEMPTS):
        for report in runtestprotocol(item, nextitem=nextitem, log=False):
            last = attempt == ATTEMPTS - 1
            if report.failed and not last:
                report.outcome = "rerun"
                pathlib.Path("speed.json").write_text(NEXT)
            item.ihook.pytest_runtest_logreport(report=report)
            if report.outcome == "rerun":
                break
        else:
            return True
    return True
"""


@pytest.mark.usefixtures("in_workers")
@pytest.mark.parametrize("workers", [["--anubis-in-process"], ["-n0"]])
def test_last_attempt_decides(with_baseline: pytest.Pytester, workers: list[str]) -> None:
    set_speed(with_baseline, SLOW)
    with_baseline.makeconftest(f"ATTEMPTS = 3\nNEXT = {json.dumps(HEALTHY)!r}\n" + REPEATING)
    result = with_baseline.runpytest("--anubis", *workers, "--junitxml=out.xml")
    assert result.ret == 0
    verdict = ended(with_baseline, result)
    assert verdict["counts"] == [["PASS", 1], ["MARGINAL", 1]]
    assert "none failed" not in verdict["headline"]
    assert (
        "failed at first and passed when repeated: test_suite.py::test_speed cpu"
        in (verdict["headline"])
    )
    (line,) = verdict["noted"]
    assert line.startswith(
        "MARGINAL test_suite.py::test_speed cpu: an attempt failed and was repeated: "
    )
    assert "speed" in line.partition("repeated: ")[2]
    result.stdout.fnmatch_lines(
        [
            "ACCEPTED, LOOK AT: *; failed at first and passed when repeated: test_suite.py::test_speed cpu"
        ]
    )
    properties = ET.parse(with_baseline.path / "out.xml").findall(".//property")  # noqa: S314
    names = [one.get("name") for one in properties]
    assert len(names) == len(set(names))
    path = journal_of(with_baseline)
    events = [json.loads(line) for line in path.read_text().splitlines()]
    assert [e["outcome"] for e in events if e["event"] == "verdict"] == ["FAIL", "PASS", "MARGINAL"]
    record = read_journal(path)
    assert [(v.outcome, v.test) for v in record.verdicts] == [
        ("PASS", "test_suite.py::test_speed[cpu]"),
        ("MARGINAL", ""),
    ]
    strict = with_baseline.runpytest("--anubis", *workers, "--anubis-require-all")
    assert strict.ret == 0  # healthy by now: nothing was repeated


WITHIN = """
import json, pathlib, pytest

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    # Like pytest-retry: the next attempt has no reports of its own, the first one's ends as it did.
    report = yield
    if call.when == "call" and report.failed:
        none = pytest.Class.from_parent(item.session, name="X")
        item.ihook.pytest_runtest_teardown(item=item, nextitem=none)
        report.outcome = "retried"
        item.ihook.pytest_runtest_logreport(report=report)
        pathlib.Path("speed.json").write_text(NEXT)
        item._initrequest()
        pytest.CallInfo.from_call(lambda: item.ihook.pytest_runtest_setup(item=item), when="setup")
        call = pytest.CallInfo.from_call(lambda: item.ihook.pytest_runtest_call(item=item), when="call")
        last = pytest.TestReport.from_item_and_call(item, call)
        report.outcome, report.longrepr = last.outcome, last.longrepr
    return report
"""


@pytest.mark.usefixtures("in_workers")
@pytest.mark.parametrize("workers", [["--anubis-in-process"], ["-n0"]])
@pytest.mark.parametrize(("then", "code"), [(HEALTHY, 0), (SLOW, 1)])
def test_attempt_within_the_first_report_decides(
    with_baseline: pytest.Pytester, workers: list[str], then: list[float], code: int
) -> None:
    set_speed(with_baseline, SLOW)
    with_baseline.makeconftest(f"NEXT = {json.dumps(then)!r}\n" + WITHIN)
    result = with_baseline.runpytest("--anubis", *workers)
    assert result.ret == code
    verdict = ended(with_baseline, result)
    assert ["MARGINAL", 1] in verdict["counts"]
    assert ("failed at first and passed when repeated" in verdict["headline"]) is (code == 0)


@pytest.mark.usefixtures("in_workers")
@pytest.mark.parametrize("workers", [["--anubis-in-process"], ["-n0"]])
def test_repeated_failure_rejects(with_baseline: pytest.Pytester, workers: list[str]) -> None:
    set_speed(with_baseline, SLOW)
    with_baseline.makeconftest(f"ATTEMPTS = 2\nNEXT = {json.dumps(SLOW)!r}\n" + REPEATING)
    result = with_baseline.runpytest("--anubis", *workers)
    assert result.ret == 1
    assert ["FAIL", 1] in ended(with_baseline, result)["counts"]


def test_with_all_required_a_repeated_failure_blocks(with_baseline: pytest.Pytester) -> None:
    set_speed(with_baseline, SLOW)
    with_baseline.makeconftest(f"ATTEMPTS = 2\nNEXT = {json.dumps(HEALTHY)!r}\n" + REPEATING)
    result = with_baseline.runpytest("--anubis", "-p", "no:xdist", "--anubis-require-all")
    assert result.ret == 20
    assert "an attempt failed" in str(ended(with_baseline, result)["blocking"])


def test_report_of_interrupted_run_says_so(project: pytest.Pytester, learn: Learn) -> None:
    learn()
    append_to_suite(project, "\ndef test_power_cut():\n    os.kill(os.getpid(), 9)\n")
    project.runpytest_subprocess("--anubis", "-p", "no:xdist")
    for baseline in ("there", "gone", "another"):
        if baseline != "there":
            for path in (project.path / "baselines").glob("*.json"):
                path.unlink()
        if baseline == "another":
            learn(centre=50.0)
        said = anubis("report").stdout
        assert re.search(r"^UNDECIDED: ", said, re.MULTILINE), baseline
        assert re.search(r"^  nothing is decided: the run never finished", said, re.M), baseline
        assert "no baseline" not in said, baseline


def test_report_of_interrupted_run_waives_xfail(with_baseline: pytest.Pytester) -> None:
    set_speed(with_baseline, SLOW)
    mark = "@pytest.mark.xfail(reason='known')\n@pytest.mark.anubis("
    edit_suite(with_baseline, "@pytest.mark.anubis(", mark)
    append_to_suite(with_baseline, "\ndef test_power_cut():\n    os.kill(os.getpid(), 9)\n")
    with_baseline.runpytest_subprocess("--anubis", "-p", "no:xdist")
    result = anubis("report")
    assert re.search(r"^UNDECIDED: ", result.stdout, re.M)


@pytest.mark.parametrize(
    "wrong",
    [
        'anubis_metric.record("wrong", [3.0], unit="elements", better="equal")',
        'anubis_metric.collect("wrong", lambda: 3.0, unit="elements", better="equal", rounds=1)',
        'values = iter([3, 0, 0, 0, 0, 0, 0, 0, 0, 0])\n    anubis_metric.collect("wrong", '
        'lambda: next(values), unit="elements", better="equal", rounds=1)',
        # As the suites do: checksums, wrong elements, gradients.
        'anubis_metric.record("wrong", [0.0], unit="elements", better="equal")\n    assert 3 == 0',
    ],
)
def test_wrong_result_rejects_despite_disturbance(
    project: pytest.Pytester, learn: Learn, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    busy = ("other processes used 2.0 of 2 cores: burn (pid 7) 2.0",)
    monkeypatch.setattr("pytest_anubis.hardware.load.disturbance.HostWatch.disturbance", busy)
    monkeypatch.setattr(
        "pytest_anubis.hardware.load.ambient_load.AmbientLoad.since", lambda *_: busy
    )
    save_baseline(replace(learn(), criteria=(exact("wrong"),)), project.path / "baselines")
    project.makepyfile(test_suite=f"def test_speed(anubis_metric, anubis_device):\n    {wrong}\n")
    result = project.runpytest("--anubis")
    assert result.ret == 1
    assert ended(project, result)["decision"] == "REJECTED"


def test_properties_of_a_test_are_in_its_result(
    pytester: pytest.Pytester, in_workers: None
) -> None:
    """The journal has what `record_property` states, long values shortened, and no copy of the verdicts."""
    pytester.makepyfile(
        "def test_states(anubis_metric, record_property):\n"
        "    record_property('binding', 'reading')\n"
        "    record_property('long', 'word' * 1000)\n"
        "    record_property(3, 4)\n"
        "    anubis_metric.record('rate', [1.0, 1.0, 1.0], unit='GB/s')\n"
    )
    pytester.runpytest("--anubis")
    (result,) = record_of(pytester).results
    binding, long, number = result.properties
    assert (binding, number) == ("binding: reading", "3: 4")
    assert long.startswith("long: word")
    assert len(long) == 400
