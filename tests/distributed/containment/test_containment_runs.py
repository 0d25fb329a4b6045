"""Whole runs in which benchmarks hang, crash and die; each asserts journal, verdict, exit code and JUnit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from pytest_anubis.core.events import Attempted, WorkerDied
from pytest_anubis.core.run import RunRecord
from pytest_anubis.distributed.containment import watchdog
from pytest_anubis.distributed.dispatch.certificates import (
    Certificate,
    certificate_path,
    overlaps,
    save_certificates,
)
from pytest_anubis.distributed.workers import controller
from pytest_anubis.store.journal.journal_reading import read_journal
from tests.forked import Forked
from tests.quiet import NEVER_ENDING
from tests.run_journals import record_of

BENCHMARKS = """
import ctypes, os, signal, time
import pytest

def say():
    open("hung", "a").write("x")

def hang():
    say()
    time.sleep(600)

def hang_holding_the_lock():
    library, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(128)
    library.pthread_mutex_lock(mutex)
    say()
    library.pthread_mutex_lock(mutex)

def segmentation_fault():
    ctypes.string_at(0)

def out_of_memory():  # what the kernel does to a process then
    os.kill(os.getpid(), signal.SIGKILL)

def leave():
    os._exit(0)

WAYS = [hang, hang_holding_the_lock, segmentation_fault, out_of_memory, leave]

def marks(way):  # those who die have all the time that a busy machine takes
    return [pytest.mark.timeout(10)] if way.__name__.startswith("hang") else []

@pytest.mark.anubis(component="cpu.compute", metrics=["rate", "late"])
@pytest.mark.parametrize("way", [pytest.param(way, id=way.__name__, marks=marks(way)) for way in WAYS])
def test_bad(anubis_metric, way):
    anubis_metric.record("rate", [1.0, 2.0, 3.0], unit="GB/s", better="higher")
    way()
    anubis_metric.record("late", [1.0], unit="s", better="lower")

@pytest.mark.anubis(component="cpu.compute", metrics=["rate"])
@pytest.mark.parametrize("number", range(2))
def test_good(anubis_metric, number):
    anubis_metric.record("rate", [4.0, 5.0], unit="GB/s", better="higher")
"""

CAUSES = {
    "hang": "hung: no end within 12 s (its timeout mark); the process was killed",
    "hang_holding_the_lock": "hung: no end within 12 s (its timeout mark); the process was killed",
    "segmentation_fault": "its process died: segmentation fault (SIGSEGV)",
    "out_of_memory": "its process died: killed (SIGKILL)",
    "leave": "its process died: exit with status 0",
}

HASTY = """
import functools, pathlib, time
from pytest_anubis.distributed.containment import watchdog
from pytest_anubis.distributed.workers import controller

def clock():
    hung = pathlib.Path("hung")
    return time.monotonic() + (20 * hung.stat().st_size if hung.exists() else 0)

watchdog.LOOK = 0.1
controller.Watchdog = functools.partial(watchdog.Watchdog, clock=clock)
"""
"""A conftest for runs whose deadlines are over as soon as a benchmark says that it hangs."""

DEVICE_BENCHMARK = """
import os, pytest

@pytest.mark.anubis(component="accelerator.compute", scope="device", cost="1s")
def test_gemm(anubis_metric, anubis_device):
    anubis_metric.record("rate", [1.0, 2.0], unit="GB/s", better="higher")
    if anubis_device.name == "cuda:1" and ({condition}):
        os._exit(7)

@pytest.mark.anubis(component="accelerator.link", scope="pair", cost="1s")
def test_link(anubis_metric):
    anubis_metric.record("rate", [1.0, 2.0], unit="GB/s", better="higher")
"""


@pytest.fixture
def hasty(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no run wait for a deadline, and put back what its conftest exchanges."""
    pytester.makeconftest(HASTY)
    monkeypatch.setattr(watchdog, "LOOK", watchdog.LOOK)
    monkeypatch.setattr(controller, "Watchdog", watchdog.Watchdog)


def run(pytester: pytest.Pytester, *arguments: str, apart: bool = False) -> pytest.RunResult:
    """Run in workers, with the controller in this process, or in one of its own, as users start it."""
    arguments = ("--anubis", "--junitxml=out.xml", *arguments)
    if apart:
        return pytester.runpytest_subprocess(*arguments, timeout=90)
    return pytester.runpytest_inprocess(*arguments)


def outcomes(record: RunRecord) -> dict[str, str]:
    return {result.test.partition("::")[2]: result.outcome for result in record.results}


def junit(pytester: pytest.Pytester) -> ET.Element:
    tree = ET.parse(pytester.path / "out.xml")  # noqa: S314  # pytest wrote it a moment ago
    suite = tree.getroot().find("testsuite")
    assert suite is not None
    return suite


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_every_way_to_die_is_contained(pytester: pytest.Pytester, gpus: str, workers: str) -> None:
    pytester.makepyfile(test_it=BENCHMARKS)
    node = [gpus] if workers == "-n2" else []
    result = run(pytester, workers, "-rf", *node)
    record = record_of(pytester)

    bad = {f"test_bad[{way}]": "crashed" for way in CAUSES}
    good = {f"test_good[{number}]": "skipped" for number in range(2)}  # there is no baseline
    assert outcomes(record) == bad | good
    texts = {r.test.partition("::")[2]: r.text for r in record.results}
    assert {way: texts[f"test_bad[{way}]"] for way in CAUSES} == CAUSES

    measured = [(m.test.partition("::")[2], m.metric.name, m.values) for m in record.measurements]
    assert sorted(measured) == sorted(
        [(test, "rate", (1.0, 2.0, 3.0)) for test in bad]
        + [(test, "rate", (4.0, 5.0)) for test in good]
    )
    assert not [warning for warning in record.warnings if "journal" in warning]

    assert result.ret == 20
    assert record.exit_status == 20
    assert record.node_verdict is not None
    assert record.node_verdict.decision == "UNDECIDED"
    blocking = list(
        map(str, record.node_verdict.blocking)
    )  # no line for the test of a death besides
    for way, cause in CAUSES.items():  # what died of the same is one line
        (line,) = [line for line in blocking if f"test_bad[{way}]" in line.partition(" -> ")[0]]
        assert cause in line
    verdicts = {v.benchmark.partition("::")[2]: v for v in record.verdicts if not v.metric}
    assert {v.outcome for v in verdicts.values()} == {"INCONCLUSIVE"}
    assert set(verdicts) == set(bad)

    suite = junit(pytester)
    counts = {key: int(suite.get(key, "-1")) for key in ("tests", "errors", "failures", "skipped")}
    assert counts["tests"] == 7
    assert counts["errors"] + counts["failures"] == 5
    assert counts["skipped"] == 2
    result.stdout.fnmatch_lines(
        [
            "measured before: rate, 3 values, last 3 GB/s",
            "*where it hung*",
            "*in hang",
            "*in test_bad",
        ]
    )
    for way, cause in CAUSES.items():  # at once; xdist's own message does not have it
        line = f"anubis: worker gw* ended while it ran *test_bad[[]{way}]: {cause}; what it had *"
        result.stdout.fnmatch_lines_random([line])


def test_repeated_crash_on_a_card_is_evidence(pytester: pytest.Pytester, gpus: str) -> None:
    pytester.makepyfile(test_it=DEVICE_BENCHMARK.format(condition="True"))
    result = run(pytester, "-n", "auto", gpus)
    record = record_of(pytester)
    assert outcomes(record)["test_gemm[cuda:1]"] == "crashed"
    assert outcomes(record)["test_link"] == "skipped"  # it was run; there is no baseline
    (verdict,) = [v for v in record.verdicts if v.outcome == "FAIL"]
    assert verdict.device == "cuda:1"
    assert verdict.component == "accelerator.compute"
    assert verdict.evidence == ("it ended like this on cuda:1 2 times in a row",)
    assert record.node_verdict is not None
    assert record.node_verdict.decision == "REJECTED"
    assert result.ret == record.exit_status == 1


def test_crash_that_does_not_come_again_is_no_evidence(
    pytester: pytest.Pytester, gpus: str
) -> None:
    once = "not os.path.exists('seen') and open('seen', 'w')"
    pytester.makepyfile(test_it=DEVICE_BENCHMARK.format(condition=once))
    result = run(pytester, "-n", "auto", gpus)
    record = record_of(pytester)
    assert outcomes(record)["test_gemm[cuda:1]"] == "crashed"
    assert not [v for v in record.verdicts if v.outcome == "FAIL"]
    assert result.ret == record.exit_status == 20
    first = [e.measurement.test for e in record.events if isinstance(e, Attempted)]
    assert [test.partition("::")[2] for test in first] == ["test_gemm[cuda:1]"]
    last = [m for m in record.measurements if m.test.endswith("test_gemm[cuda:1]")]
    assert len(last) == 1


def test_lanes_bind_devices(pytester: pytest.Pytester, gpus: str) -> None:
    pytester.makepyfile(
        test_it=DEVICE_BENCHMARK.format(condition="False")
        + """
@pytest.fixture(autouse=True)
def seen(request, anubis_metric):
    name = request.node.name
    lane, card = os.environ["PYTEST_ANUBIS_LANE"], os.environ.get("CUDA_VISIBLE_DEVICES")
    with open("seen.txt", "a") as file:
        file.write(f"{name} {lane} {card} {os.getpid()}\\n")
"""
    )
    result = run(pytester, "-n", "auto", "-v", gpus)
    lines = [line.split() for line in Path("seen.txt").read_text().splitlines()]
    assert [line[:3] for line in lines[2:]] == [["test_link", "node", "None"]]
    assert sorted(line[:3] for line in lines[:2]) == [
        ["test_gemm[cuda:0]", "cuda:0", "GPU-0"],
        ["test_gemm[cuda:1]", "cuda:1", "GPU-1"],
    ]
    assert len({line[3] for line in lines}) == 3
    result.stdout.fnmatch_lines(
        [
            "anubis: 3 tests, about 2 s in lanes cuda:0, cuda:1, node; one after the other 3 s",
            "*0.0 s * 1.0 s  cuda:0  test_it.py::test_gemm?cuda:0?",
            "*1.? s * 1.0 s  node    test_it.py::test_link  (alone)",  # the barrier: others end first
        ]
    )


def test_worker_of_one_card_that_dies_at_start_again_and_again(
    pytester: pytest.Pytester, gpus: str
) -> None:
    pytester.makepyfile(
        test_it="import os\nif os.environ.get('PYTEST_ANUBIS_LANE') == 'cuda:1': os._exit(5)\n"
        + DEVICE_BENCHMARK.format(condition="False")
    )
    result = run(pytester, "-n", "auto", gpus)
    record = record_of(pytester)
    deaths = [event for event in record.events if isinstance(event, WorkerDied)]
    assert result.ret == record.exit_status == 20
    assert len(deaths) == 3
    assert outcomes(record) == {
        "test_gemm[cuda:0]": "skipped",
        "test_gemm[cuda:1]": "not reported",
        "test_link": "skipped",
    }
    not_tested = [v for v in record.verdicts if v.outcome == "NOT_TESTED"]
    assert [v.device for v in not_tested] == ["cuda:1"]
    result.stdout.fnmatch_lines(["*lane cuda:1 is given up*"])


def test_first_failure_stops_the_run_in_order(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_a(): pass
        def test_b(): assert False
        def test_c(): open("ran", "w")
        def test_d(): open("ran", "w")
        """
    )
    result = run(pytester, "-n0", "-x")
    record = record_of(pytester)
    assert not Path("ran").exists()
    assert [*outcomes(record).values()] == ["passed", "failed", "not reported", "not reported"]
    assert result.ret == record.exit_status == 1
    result.stdout.fnmatch_lines(["*stopping after 1 failures*"])
    suite = junit(pytester)
    assert int(suite.get("errors", 0)) + int(suite.get("failures", 0)) == 1


def test_only_certified_benchmarks_overlap(pytester: pytest.Pytester) -> None:
    names = ("first", "second")
    pytester.makepyfile(
        test_it="import pytest, time\n"
        + "".join(
            f"@pytest.mark.anubis(component='c', scope={scope}, resources=['{what}'], cost='1s')\n"
            f"def test_{name}({fixtures}):\n    time.sleep(float(open('seconds').read()))\n"
            for name, scope, what, fixtures in (
                ("first", "'device'", "cpu", "anubis_metric, anubis_device"),
                ("second", "'node'", "disk", "anubis_metric"),
            )
        )
    )
    seconds = pytester.path / "seconds"
    seconds.write_text("0.2")
    run(pytester, "-n2", "--anubis-run-id=apart")
    apart = read_journal(pytester.path / ".anubis/runs/apart")
    assert overlaps(apart) == set()
    pair = [f"test_it.py::test_{name}" for name in names]
    certificate = Certificate(first=pair[0], second=pair[1], granted=True)
    save_certificates(pytester.path / "baselines", apart.hardware_class, [certificate])
    seconds.write_text("1")
    run(pytester, "-n2", "--anubis-run-id=overlap")
    assert overlaps(read_journal(pytester.path / ".anubis/runs/overlap")) == {tuple(pair)}
    path = certificate_path(pytester.path / "baselines", apart.hardware_class)
    path.write_text("{}")
    result = run(pytester, "-n2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *no certificates of schema*"])


def test_wrong_mark_is_one_line_and_no_crash(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest
        @pytest.mark.anubis(component="cpu", scope="moon")
        def test_a(anubis_metric): pass
        """
    )
    result = run(pytester, "-n2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: test_it.py::test_a: mark anubis scope 'moon'*"])
    assert "died" not in result.stdout.str()


def test_differing_collections_are_reported(pytester: pytest.Pytester, gpus: str) -> None:
    pytester.makepyfile(
        test_it="""
        import os, pytest
        @pytest.mark.parametrize("where", [os.environ.get("PYTEST_ANUBIS_LANE", "")])
        def test_a(where): open("ran", "w")
        """
    )
    result = run(pytester, "-n2", gpus)
    assert not Path("ran").exists()
    result.stdout.fnmatch_lines(["*collected different tests*", "[-+]test_it.py::test_a*"])
    assert result.ret not in (0, 3, 5)


def test_unkillable_process_does_not_delay_the_run(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        NEVER_ENDING
        + """
import functools
from pytest_anubis.distributed.containment import watchdog
from pytest_anubis.distributed.workers import controller
watchdog.KILL_SECONDS = 0.2
controller.Watchdog = functools.partial(watchdog.Watchdog, kill=lambda pid: None)
"""
    )
    pytester.makepyfile(
        """
        import time
        def test_a(): time.sleep(600)
        def test_b(): pass
        """
    )
    result = run(pytester, "-n0", "--anubis-timeout=2", apart=True)  # its worker dies with it
    assert outcomes(record_of(pytester)) == {"test_a": "crashed", "test_b": "passed"}
    result.stdout.fnmatch_lines(["hung in the kernel: no end within 2 s * could not be killed"])
    assert result.ret == 20


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGKILL, None), (signal.SIGINT, pytest.ExitCode.INTERRUPTED)]
)
def test_ended_run_keeps_its_values_and_leaves_no_process(
    pytester: pytest.Pytester, number: signal.Signals, status: int | None
) -> None:
    pytester.makeconftest(NEVER_ENDING)
    pytester.makepyfile(
        test_it="""
        import os, time
        def test_long(anubis_metric):
            anubis_metric.record("rate", [1.0], unit="GB/s", better="higher")
            open("worker.pid", "w").write(str(os.getpid()))
            time.sleep(600)
        """
    )
    command = [sys.executable, "-m", "pytest", "--anubis", "-n0", "-p", "no:cacheprovider"]
    with Forked(command, cwd=pytester.path, stdout=subprocess.DEVNULL) as process:
        try:
            pid = wait_for(pytester.path / "worker.pid")
            while not record_of(pytester).measurements:  # on its way from the worker
                time.sleep(0.05)
            process.send_signal(number)
            assert process.wait(timeout=60) == (-number if status is None else status)
        finally:
            process.kill()
    assert gone(pid)
    record = record_of(pytester)
    assert record.exit_status == status
    assert record.measurements[0].values == (1.0,)
    assert status is not None or outcomes(record) == {"test_long": "not reported"}


def wait_for(path: Path) -> int:
    until = time.monotonic() + 120
    while time.monotonic() < until:
        if path.exists() and path.read_text():
            return int(path.read_text())
        time.sleep(0.05)
    raise AssertionError(f"{path} never came")


def gone(pid: int) -> bool:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_debugger_stays_in_one_process(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import os\ndef test_a(): assert 'PYTEST_XDIST_WORKER' not in os.environ")
    result = pytester.runpytest_subprocess("--anubis", "-n0", "--pdb")
    assert "worker" not in result.stdout.str()
    result.assert_outcomes(passed=1)
