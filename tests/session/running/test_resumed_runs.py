"""What speaks against a node in the first part of a run still does when the run is resumed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.codec import to_plain
from pytest_anubis.core.events import RunStarted
from pytest_anubis.core.run_state import RunState
from pytest_anubis.session.context import RunContext
from pytest_anubis.session.running.resume import Earlier, _exchanged, compared
from pytest_anubis.settings import Settings
from pytest_anubis.store.baselines.baseline_files import save_baseline
from tests.run_journals import events_of
from tests.session.conftest import Learn, exact

EIGHT = Path(__file__).parents[2] / "data" / "recorded_8gpu.json"
STOP = """
import os, pytest

def pytest_runtest_setup(item):
    if os.environ.get("STOP") and os.environ["STOP"] in item.nodeid:
        pytest.exit("enough", returncode=2)
"""
LIE = """
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if os.environ.get("LIE") and report.failed:
        report.outcome, report.longrepr = "passed", None
"""
PLAIN = """
def test_a_plain():
    assert not os.environ.get("BAD")
"""


def add(project: pytest.Pytester, text: str) -> None:
    suite = project.path / "test_suite.py"
    head, mark, rest = suite.read_text().partition("@pytest.mark.anubis(")
    suite.write_text(head + text + mark + rest)


def test_hidden_failure_blocks_the_resumed_run(
    with_baseline: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(with_baseline, PLAIN)
    with_baseline.makeconftest(STOP + LIE)
    for name in ("BAD", "LIE"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("STOP", "test_speed")
    assert with_baseline.runpytest_subprocess("--anubis", "--anubis-run-id=r").ret == 2
    for name in ("STOP", "BAD", "LIE"):
        monkeypatch.delenv(name)
    result = with_baseline.runpytest("--anubis", "--anubis-resume=r")
    assert result.ret == 20
    result.stdout.fnmatch_lines(["*but a plugin reports it as passed*"])


@pytest.mark.parametrize(("mended", "code"), [(False, 20), (True, 0)])
def test_uncollected_file_is_not_forgotten(
    with_baseline: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, mended: bool, code: int
) -> None:
    with_baseline.makeconftest(STOP)
    new = with_baseline.path / "test_new.py"
    new.write_text("assert 0\n")
    monkeypatch.setenv("STOP", "test_speed")
    first = with_baseline.runpytest_subprocess(
        "--anubis", "--anubis-run-id=r", "--continue-on-collection-errors"
    )
    assert first.ret == 2
    monkeypatch.delenv("STOP")
    if mended:
        new.write_text("def test_new(): pass\n")
    more = [] if mended else ["--ignore=test_new.py"]
    assert with_baseline.runpytest("--anubis", "--anubis-resume=r", *more).ret == code


CUT = """
@pytest.mark.anubis(component="cpu.compute", scope="device")
def test_wrong(anubis_metric, anubis_device):
    first = not os.path.exists("begun")
    open("begun", "w").close()
    anubis_metric.record("wrong", 3 if first else 0, unit="elements", better="equal")
    if first:
        pytest.exit("enough", returncode=2)
"""


def test_values_of_interrupted_test_are_judged(project: pytest.Pytester, learn: Learn) -> None:
    known = learn()
    criteria = *known.criteria, exact("wrong", "test_suite.py::test_wrong")
    save_baseline(replace(known, criteria=criteria), project.path / "baselines")
    add(project, CUT)
    assert project.runpytest_subprocess("--anubis", "--anubis-run-id=r").ret == 2
    result = project.runpytest("--anubis", "--anubis-resume=r")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["REJECTED: *", "FAIL test_wrong wrong: *"])


TEARDOWN = """
@pytest.fixture
def slow_end():
    yield
    if os.environ.get("BAD"):
        os.kill(os.getpid(), 9)

def test_a_plain(slow_end):
    assert not os.environ.get("BAD")
"""


def test_failure_with_killed_teardown_is_in_headline(
    with_baseline: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(with_baseline, TEARDOWN)
    monkeypatch.setenv("BAD", "1")
    assert with_baseline.runpytest_subprocess("--anubis", "--anubis-run-id=r").ret == -9
    (failed,) = events_of(with_baseline, "phase_failed")
    assert failed["test"] == "test_suite.py::test_a_plain"
    monkeypatch.delenv("BAD")
    result = with_baseline.runpytest("--anubis", "--anubis-resume=r")
    result.stdout.fnmatch_lines(
        ["ACCEPTED, LOOK AT: *failed at first and passed when repeated: *test_a_plain*"]
    )


def node(**cards: Any) -> dict[str, Any]:
    return {"accelerators": [{"index": int(n[1:]), **card} for n, card in cards.items()]}


def test_exchanged_part_is_named() -> None:
    a, b = {"uuid": "GPU-a", "serial": "1"}, {"uuid": "GPU-b", "serial": "2"}
    assert _exchanged(node(c0=a, c1=b), node(c0=a, c1=b)) == ""
    exchanged = _exchanged(node(c0=a, c1=b), node(c0=a, c1=a))
    assert exchanged == "GPU 1 GPU-b, and now it is GPU-a"
    assert _exchanged(node(c0={"uuid": None}), node(c0=a)) == ""
    disks = [{"disks": [{"name": "nvme0", "serial": s}]} for s in "ab"]
    assert "disk a" in _exchanged(*disks)
    assert _exchanged(disks[0], {"disks": []}) == ""
    chassis = [{"system": {"serial": s}} for s in ("x", "y")]
    assert "chassis x" in _exchanged(*chassis)
    clones = [{"machine": m * 32} for m in "12"]
    assert "another machine id" in _exchanged(*clones)
    card = node(c0={"uuid": "GPU-0123456"})
    assert _exchanged({**clones[0], **card}, {**clones[1], **card}) == ""


def test_a_run_is_not_resumed_on_another_card(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.makeconftest(STOP)
    monkeypatch.setenv("STOP", "test_speed")
    given = ["--anubis", f"--anubis-inventory={EIGHT}"]
    assert project.runpytest_subprocess(*given, "--anubis-run-id=r").ret == 2
    data = json.loads(EIGHT.read_text())
    data["inventory"]["accelerators"][3]["uuid"] = "GPU-another"
    other = project.path / "other.json"
    other.write_text(json.dumps(data))
    monkeypatch.delenv("STOP")
    result = project.runpytest("--anubis", f"--anubis-inventory={other}", "--anubis-resume=r")
    assert result.ret == 4
    result.stderr.fnmatch_lines(
        ["*was begun with GPU 3 *, and now it is GPU-another; *start a new run"]
    )


def test_report_settings_are_no_difference() -> None:
    then = to_plain(Settings(junit="properties", fail_on="fail"))
    state = RunState()
    state.apply(RunStarted(run="r", node="n", started="", hardware_class="c", settings=then))
    earlier = Earlier(state, Path("journal.jsonl"), (), ())
    for settings, changed in (
        (Settings(junit="plain"), ()),
        (Settings(fail_on="marginal"), ("fail_on fail then, marginal now",)),
    ):
        context = RunContext(settings=settings, node="n", hardware_class="c")
        assert compared(earlier, context).changed == changed
