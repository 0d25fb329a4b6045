"""Runs that are interrupted and go on, and runs that go round and round."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET  # reads what pytest wrote a moment ago
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.cli.main import main
from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.metric import Metric
from pytest_anubis.session.running.cycle_reports import CycleFiles
from pytest_anubis.session.running.soak import sensors_text, worst_code
from pytest_anubis.store.journal.journal_reading import read_journal
from pytest_anubis.validator import find_trends
from pytest_anubis.validator.changes.cycle_steps import find_steps
from tests.forked import Forked
from tests.quiet import NEVER_ENDING, OPTIONS
from tests.run_journals import events_of

pytestmark = pytest.mark.usefixtures("quick_processes")

SUITE = """
import os, pathlib, pytest

def note(name):
    with open("ran.txt", "a") as out:
        out.write(name + "\\n")

def test_first(anubis_metric):
    note("first")
    anubis_metric.record("a", [1.0] * 5, unit="s", better="lower")

def test_second(anubis_metric):
    note("second")
    if not pathlib.Path("second-time").exists():
        pathlib.Path("second-time").touch()
        os.kill(os.getpid(), 9)
    anubis_metric.record("b", [1.0] * 5, unit="s", better="lower")

def test_third(anubis_metric):
    note("third")
    anubis_metric.record("c", [1.0] * 5, unit="s", better="lower")
"""


@pytest.fixture(scope="module")
def cut_short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that a power cut ended in its second test."""
    folder = tmp_path_factory.mktemp("cut")
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_suite.py").write_text(SUITE)
    process = [sys.executable, "-m", "pytest", "--anubis", *OPTIONS.split(), "-p", "no:xdist"]
    done = subprocess.run(process, cwd=folder, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL
    return folder


@pytest.fixture
def killed(pytester: pytest.Pytester, cut_short: Path) -> pytest.Pytester:
    """A run that a power cut ended in its second test."""
    shutil.copytree(cut_short, pytester.path, dirs_exist_ok=True)
    return pytester


def test_resume_repeats_only_unfinished_tests(killed: pytest.Pytester) -> None:
    result = killed.runpytest("--anubis", "-p", "no:xdist", "--anubis-resume")
    assert result.ret == 20  # no baseline
    result.stdout.fnmatch_lines(["*1 test is done, interrupted: test_suite.py::test_second"])
    ran = (killed.path / "ran.txt").read_text().split()
    assert ran == ["first", "second", "second", "third"]
    found = events_of(killed)
    names = [e["metric"]["name"] for e in found if e["event"] == "measurement"]
    assert names == ["a", "b", "c"]
    (resumed,) = [e for e in found if e["event"] == "resumed"]
    assert resumed["interrupted"] == ["test_suite.py::test_second"]
    assert not [
        e for e in found if e["event"] == "verdict" and e["reason"] in ("not-reported", "unreached")
    ]


def test_a_finished_run_is_not_resumed(killed: pytest.Pytester) -> None:
    killed.runpytest("--anubis", "-p", "no:xdist", "--anubis-resume")
    result = killed.runpytest("--anubis", "-p", "no:xdist", "--anubis-resume")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*--anubis-resume: run * has finished*"])


def test_measuring_run_is_not_resumed(killed: pytest.Pytester) -> None:
    (killed.path / "second-time").unlink()  # another power cut, as in `anubis learn` or `certify`
    measure = ("--anubis", "-p", "no:xdist", "--anubis-mode=measure", "--anubis-run-id=m")
    killed.runpytest_subprocess(*measure)
    assert read_journal(killed.path / ".anubis/runs/m").exit_status is None
    named = killed.runpytest("--anubis", "-p", "no:xdist", "--anubis-resume=m")
    assert named.ret == 4
    named.stderr.fnmatch_lines(["*run m had --anubis-mode=measure, this one has judge"])
    result = killed.runpytest("--anubis", "-p", "no:xdist", "--anubis-resume")
    result.stdout.fnmatch_lines(["*1 test is done, interrupted: test_suite.py::test_second"])
    assert read_journal(killed.path / ".anubis/runs/m").exit_status is None


def test_nothing_to_resume_is_one_line(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_x():\n    pass\n")
    result = pytester.runpytest("--anubis", "--anubis-resume")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*holds no run to go on with"])


TWO_CYCLES = """
import pathlib
from types import SimpleNamespace
from pytest_anubis.session.running import soak

runs = pathlib.Path(".anubis/runs")
soak.time = SimpleNamespace(monotonic=lambda: len(list(runs.iterdir())) if runs.exists() else 0)
"""
"""A conftest for campaigns on whose clock a cycle takes a second, however slow the machine is."""


def test_a_soak_cycles_and_keeps_every_run(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(TWO_CYCLES)
    pytester.makepyfile(
        "def test_x(anubis_metric):\n"
        "    anubis_metric.record('a', [1.0] * 5, unit='s', better='lower')\n"
    )
    result = pytester.runpytest_subprocess("--anubis", "-p", "no:xdist", "--anubis-duration=2s")
    assert result.ret == 20
    result.stdout.fnmatch_lines(["anubis: cycle 1,*exit code 20*", "anubis: * cycles in *"])
    assert len([line for line in result.outlines if line]) == 3  # a line each, and the end
    assert len(list(pytester.path.glob(".anubis/runs/soak-*/journal.jsonl"))) == 2


FALLING = """
import pathlib

def test_x(anubis_metric):
    count = pathlib.Path("count")
    number = int(count.read_text()) if count.exists() else 0
    count.write_text(str(number + 1))
    anubis_metric.record("rate", [100.0 - number] * 5, unit="GB/s", better="higher")
    assert number != 3, "a bad moment"
"""


def test_a_step_over_cycles_is_said_with_its_sensor() -> None:
    def cycle(number: int, **more: Any) -> list[Measurement]:
        level = 100.0 if number < 20 else 90.0
        return [
            Measurement(
                test="t", benchmark="b", component="", device="cuda:1", values=(level, level + 0.1),
                metric=Metric(name="rate", unit="GB/s", better="higher"), **more,
            )
        ]  # fmt: skip

    def read(number: int) -> list[Measurement]:
        clock = 1980.0 if number < 20 else 1410.0
        return cycle(number, telemetry=(("GPU 1 SM clock (MHz)", (clock, clock + 5, clock)),))

    measured = [cycle(number) for number in range(40)]
    (step,) = find_steps(measured)
    said = sensors_text(step, measured, read)
    assert said.endswith("when the SM clock of GPU 1 fell from 1980 to 1410 MHz")
    assert sensors_text(step, measured, lambda _: ()) == ""  # the journals are gone
    (trend,) = find_trends(measured)
    assert sensors_text(trend, measured, read) == ""


def test_soak_writes_one_page_and_judges_the_trend(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\naddopts = --junitxml=out.xml\n")
    pytester.makepyfile(test_it=FALLING)
    pytester.makeconftest(
        "import pathlib\n"
        "def pytest_sessionfinish(session):\n"  # eight cycles, however long they take
        "    if pathlib.Path('count').read_text() == '8': pathlib.Path('enough').touch()\n"
        "def pytest_collection_modifyitems(items):\n"
        "    if pathlib.Path('enough').exists(): items.clear()\n"
    )
    result = pytester.runpytest_subprocess(
        *("--anubis", "-p", "no:xdist", "--anubis-duration=1h", "--html=r.html"),
        *("--anubis-fail-on=marginal", "--self-contained-html", "--anubis-run-id=s"),
        timeout=400,
    )
    assert result.ret == 5  # the last cycle collected nothing, which ends a campaign
    result.stdout.fnmatch_lines(
        ["anubis: trend: MARGINAL test_it.py::test_x rate node: * slower at the end*8 cycles*"]
    )
    page = (pytester.path / "r.html").read_text()
    for number in range(1, 9):
        assert f"s-{number:05d}" in page
    assert "% slower at the end" in page
    assert "REJECTED" in page  # the fourth cycle
    kept = sorted(path.name for path in pytester.path.glob("r-*.html"))
    assert kept[:3] == ["r-00001.html", "r-00004.html", "r-00005.html"]  # where something changed
    assert "href='r-00004.html'" in page
    suites = ET.parse(pytester.path / "out.xml").getroot().findall("testsuite")  # noqa: S314
    failed = [
        [case.get("name") for case in suite.iter("testcase") if case.find("failure") is not None]
        for suite in suites[:5]
    ]
    unmet = ["acceptance"]  # there is no baseline
    assert failed == [unmet, unmet, unmet, ["test_x"], unmet]
    assert len(suites) == 9
    assert not list(pytester.path.glob("out-*.xml"))


FIRST = """
import json, pathlib
import pytest

@pytest.mark.anubis(component="cpu.compute", scope="device")
def test_speed(anubis_metric, anubis_device):
    values = json.loads(pathlib.Path("speed.json").read_text())
    anubis_metric.record("speed", values, unit="GFLOP/s", better="higher")

def test_check():
    first = not pathlib.Path("count").exists()
    pathlib.Path("count").touch()
    assert not first, "wrong data"
"""


def test_finding_of_first_cycle_outlives_the_soak(with_baseline: pytest.Pytester) -> None:
    with_baseline.makeconftest(TWO_CYCLES)
    with_baseline.makepyfile(test_suite=FIRST)
    store = with_baseline.path / ".anubis"

    def said() -> list[int]:
        place, baselines = str(store), str(with_baseline.path / "baselines")
        return [
            main([*command.split(), *more])
            for command, more in (
                ("health --node n1 --store", [place]),
                ("fleet verdict", [place]),
                ("fleet drain-list --history", [place]),
                ("judge --baseline", [baselines, f"{place}/runs"]),
            )
        ]

    options = ("--anubis", "-p", "no:xdist", "--anubis-node=n1")
    soak = with_baseline.runpytest_subprocess(*options, "--anubis-duration=2s")
    assert soak.ret == 1
    assert len(list(store.glob("runs/*"))) == 2
    assert said() == [1] * 4
    assert with_baseline.runpytest_subprocess(*options).ret == 0
    assert said() == [0] * 4


SHORT = """
def test_x(anubis_metric):
    anubis_metric.record('a', [1.0] * 5, unit='s', better='lower')
"""


@pytest.mark.parametrize("where", ["ini", "environment"])
def test_duration_in_ini_makes_no_nested_soak(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    options = "--anubis --anubis-duration=0s -p no:xdist"
    pytester.makeini(f"[pytest]\naddopts = {options if where == 'ini' else ''}\n")
    if where == "environment":
        monkeypatch.setenv("PYTEST_ADDOPTS", options)
    pytester.makepyfile(SHORT)
    result = pytester.runpytest_subprocess("--", ".", timeout=60)
    assert result.ret == 20
    runs = [path.name for path in pytester.path.glob(".anubis/runs/*")]
    assert [name.count("-00001") for name in runs] == [1]


LONG = """
import pathlib, time

def test_x(anubis_metric):
    anubis_metric.record('a', [1.0] * 5, unit='s', better='lower')
    number = len(list(pathlib.Path(".anubis/runs").iterdir()))
    if number == 2:
        pathlib.Path("second").touch()
        time.sleep(600)

def test_y(): pass
"""


@pytest.mark.usefixtures("in_workers")
@pytest.mark.parametrize(
    ("number", "where"), [(signal.SIGTERM, "--anubis-in-process"), (signal.SIGINT, "-n0")]
)
def test_interrupt_ends_the_campaign_and_keeps_pages(
    pytester: pytest.Pytester, number: int, where: str
) -> None:
    pytester.makeconftest(NEVER_ENDING)
    pytester.makepyfile(test_it=LONG)
    options = ["--anubis", where, "--anubis-duration=1h", "--anubis-run-id=s", "--html=r.html"]
    with Forked(
        [sys.executable, "-m", "pytest", *options, "--junitxml=out.xml", "-p", "no:cacheprovider"],
        cwd=pytester.path,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        until = time.monotonic() + 120
        while not (pytester.path / "second").exists() and time.monotonic() < until:
            time.sleep(0.05)
        process.send_signal(number)
        try:
            said, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 2
    assert "2 cycles in" in said
    assert "s, interrupted: 1 x exit code 2, 1 x exit code 20" in said  # never 0.00 h
    first, second = (read_journal(pytester.path / f".anubis/runs/s-0000{n}") for n in (1, 2))
    assert (first.exit_status, second.exit_status) == (20, 2)
    assert second.measurements[0].values == (1.0,) * 5
    assert "interrupted" in (pytester.path / "r.html").read_text()
    assert {path.name for path in pytester.path.glob("r-*.html")} == {
        "r-00001.html",
        "r-00002.html",
    }
    suites = ET.parse(pytester.path / "out.xml").getroot().findall("testsuite")  # noqa: S314
    assert [suite.get("name") for suite in suites] == ["cycle 00001", "cycle 00002"]


def test_a_file_of_the_campaign_is_never_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "out"
    file.write_text("<testsuites><testsuite name='cycle 00001'/></testsuites>")
    before = file.read_text()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        CycleFiles(junit=file).write_junit(2)
    assert file.read_text() == before
    assert list(tmp_path.iterdir()) == [file]


def test_soak_survives_an_unwritable_page(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SHORT)
    (pytester.path / "r.html").mkdir()
    result = pytester.runpytest_subprocess(
        "--anubis", "-p", "no:xdist", "--anubis-duration=0s", "--html=r.html"
    )
    assert result.ret == 20
    result.stdout.fnmatch_lines(["anubis: *r.html: cannot be written (Is a directory)*"])
    assert "Traceback" not in result.stderr.str()


@pytest.mark.parametrize(
    ("codes", "decayed", "worst"),
    [
        ([0, 0], False, 0),
        ([0, 20, 0], False, 20),
        ([0, 1, 20], False, 1),
        ([1, 2], False, 2),
        ([0, 139, 1], False, 139),  # died
        ([0, 20], True, 1),
        ([2], True, 2),
    ],
)
def test_the_worst_cycle_decides_and_decay_may(codes: list[int], decayed: bool, worst: int) -> None:
    assert worst_code(codes, decayed=decayed) == worst


def test_cycle_without_junit_file_is_an_error(tmp_path: Path) -> None:
    files = CycleFiles(junit=tmp_path / "out.xml")
    (tmp_path / "out.xml").write_text("<testsuites><testsuite name='old'/></testsuites>")
    files.write_junit(1)
    (tmp_path / "out-00002.xml").write_text("<testsuites><testsuite tests='3'/></testsuites>")
    files.write_junit(2)
    suites = ET.parse(tmp_path / "out.xml").getroot().findall("testsuite")  # noqa: S314
    assert [(s.get("name"), s.get("errors"), s.get("tests")) for s in suites] == [
        ("cycle 00001", "1", "1"),
        ("cycle 00002", None, "3"),
    ]
