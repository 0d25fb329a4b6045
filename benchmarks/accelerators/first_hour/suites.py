"""Run the steps that use pytest: the suites, their spread, their profiles, and harmless faults."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import ROOT
from benchmarks.accelerators.first_hour.rows import FAILED, GOOD, OFF, SEEN, Findings
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import Outcome, Reason
from pytest_anubis.hardware.inventory.inventory_reading import read_inventory
from pytest_anubis.store.journal.journal_events import JournalError
from pytest_anubis.store.journal.journal_reading import read_journal

REPEATED = ("compute/test_gemm.py", "memory/test_bandwidth.py")
"""Tests that are repeated, with declared costs of 20 s on a card."""

MEASURED = (*REPEATED, "training")
"""Tests of the standard profile that are run: four minutes of the hour that all would take on a card."""

REPEATS = 5
SPREADS = {"GB/s": 1.0, "TB/s": 1.0, "GFLOP/s": 2.0, "TFLOP/s": 2.0}
"""Unit -> maximum difference of the medians of five runs in percent: bandwidths repeat better than products,
whose clock depends on temperature and power."""

SHIFT = 1.0
"""Maximum difference of a metric between one lane and all in percent: more means that the lanes interfere."""


def run(
    folder: Path,
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    seconds: float = 300.0,
) -> tuple[int, str, RunRecord | None, float]:
    """Run pytest with ``--anubis`` in a folder; return exit code, output, its record, and its seconds."""
    name = f"hour-{time.monotonic_ns()}"
    command = [
        *(sys.executable, "-m", "pytest", "--anubis", "-p", "no:cacheprovider", "-q"),
        *(f"--anubis-run-id={name}", f"--anubis-store={folder}"),
        *arguments,
    ]
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    begin = time.monotonic()
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths, "PYTEST_ADDOPTS": "", **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
    took = time.monotonic() - begin
    try:
        record: RunRecord | None = read_journal(folder / "runs" / name)
    except JournalError:
        record = None
    return done.returncode, done.stdout + done.stderr, record, took


def suites(*more: str, profile: str = "smoke", only: Sequence[str] = ("",)) -> list[str]:
    """Return the arguments that measure the suites' tests of accelerators, all or those in some places."""
    return [
        *(str(ROOT / "suites" / place) for place in only),
        "--anubis-mode=measure",
        f"--anubis-profile={profile}",
        "-kcuda",
        *more,
    ]


def does_all_end(findings: Findings, _card: int) -> None:
    """Run every test of an accelerator once."""
    with tempfile.TemporaryDirectory() as place:
        code, said, record, took = run(Path(place), suites())
    ends = [result.outcome for result in record.results] if record else []
    bad = [r for r in record.results if r.outcome not in ("passed", "skipped")] if record else []
    end = GOOD if code == 0 and ends and not bad else OFF
    words = f"{len(ends)} tests, {ends.count('passed')} passed, exit code {code}, {took:.0f} s"
    findings.row("suites, -k cuda", words, value=took, expected="exit code 0", end=end)
    for result in bad[:20]:
        findings.row(result.test, f"{result.outcome}: {result.text}", end=FAILED)
    if record is None:
        findings.row("pytest", (said.strip().splitlines() or [""])[-1][:300], end=FAILED)


def spread(findings: Findings, _card: int) -> None:
    """Run products and passes over memory of the smoke profile five times; compare the medians."""
    found: dict[tuple[str, str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as place:
        for _ in range(REPEATS):
            _, _, record, _ = run(Path(place), suites(only=REPEATED))
            for one in record.measurements if record else ():
                key = (one.benchmark.rpartition("/")[2], one.metric.name, one.metric.unit)
                found.setdefault(key, []).append(statistics.median(one.values))
    for (benchmark, metric, unit), medians in sorted(found.items()):
        if len(medians) < REPEATS:
            findings.row(
                f"{benchmark} {metric}", f"{len(medians)} of {REPEATS} runs have it", end=OFF
            )
            continue
        share = (max(medians) - min(medians)) / statistics.median(medians) * 100
        name, most = f"{benchmark} {metric}", SPREADS.get(unit)
        if most is None:
            findings.row(name, f"differs by {share:.2f} %", value=share)
        else:
            findings.within(
                f"{name}: five runs differ by", share, most, "%", "the project's own limit"
            )


def standard(findings: Findings, _card: int) -> None:
    """Run a part of the standard profile, and show how much of a test is measuring."""
    with tempfile.TemporaryDirectory() as place:
        code, _, record, took = run(Path(place), suites(profile="standard", only=MEASURED))
    findings.row("standard profile", f"exit code {code}, {took:.0f} s", value=took)
    measured: dict[str, float] = {}
    for one in record.measurements if record else ():
        measured[one.test] = measured.get(one.test, 0.0) + one.seconds
    for result in record.results if record else ():
        if result.test in measured and result.seconds:
            duty = measured[result.test] / result.seconds
            findings.row(
                f"duty of {result.test.rpartition('/')[2]}",
                f"{duty:.0%}",
                value=duty,
                expected="50 % or more",
                source="the project's own limit",
                end=GOOD if duty >= 0.5 else OFF,
            )


def lanes(findings: Findings, _card: int) -> None:
    """Measure one card at a time and all side by side, in the order A B B A."""
    found: dict[str, dict[tuple[str, str], list[float]]] = {"-n0": {}, "-nauto": {}}
    with tempfile.TemporaryDirectory() as place:
        for way in ("-n0", "-nauto", "-nauto", "-n0"):
            code, said, record, took = run(Path(place), suites(way))
            findings.row(f"{way}", f"exit code {code}, {took:.0f} s", value=took)
            for line in said.splitlines():
                if line.startswith("anubis: ") and ": CPUs " in line and way == "-nauto":
                    findings.row("lane", line.removeprefix("anubis: "))
            for one in record.measurements if record else ():
                key = (one.test.rpartition("/")[2], one.metric.name)
                found[way].setdefault(key, []).append(statistics.median(one.values))
    for key in sorted(found["-n0"].keys() & found["-nauto"].keys()):
        alone, together = (statistics.mean(found[way][key]) for way in ("-n0", "-nauto"))
        share = abs(together / alone - 1) * 100 if alone else 0.0
        if share > SHIFT:
            findings.within(
                f"{' '.join(key)}: side by side against alone", share, SHIFT, "%", "ours"
            )


# The faults, as tests of a user: none of them changes a setting or leaves anything behind.

_HEAD = """
import os, signal, subprocess, sys, time
import pytest

MARK = dict(component="accelerator.compute", scope="device", cost="5s", metrics=["rate"])
"""
_GOOD = """
@pytest.mark.anubis(**MARK)
def test_after(anubis_metric, anubis_device):
    anubis_metric.record("rate", [1.0] * 5, unit="GB/s", better="higher")
"""
KILLED = """
@pytest.mark.anubis(**MARK)
def test_fault(anubis_metric, anubis_device):
    anubis_metric.record("rate", [1.0] * 5, unit="GB/s", better="higher")
    if not os.path.exists("killed"):  # somebody kills once; twice in a row on one card is its own fault
        open("killed", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
"""
CORRUPTED = """
@pytest.mark.anubis(**MARK)
def test_fault(anubis_metric, anubis_device):
    anubis_metric.record("rate", [1.0] * 5, unit="GB/s", better="higher")
    result = [1.0, 2.0, 3.0000002]
    assert result == [1.0, 2.0, 3.0], "one of 3 elements differs"
"""
HANGING = """
@pytest.mark.anubis(**MARK)
def test_fault(anubis_metric, anubis_device):
    import torch
    anubis_metric.record("rate", [1.0] * 5, unit="GB/s", better="higher")
    if not os.path.exists("hung"):  # once; twice in a row on one card is its own fault
        open("hung", "w").close()
        torch.cuda._sleep(60_000_000_000)  # cycles: about half a minute
        torch.cuda.synchronize()
"""
OUT_OF_MEMORY = """
@pytest.mark.anubis(**MARK)
def test_fault(anubis_metric, anubis_device):
    import torch
    torch.empty(2 * torch.cuda.mem_get_info()[1], dtype=torch.uint8, device=anubis_device.torch)
"""
NEIGHBOUR = """
PROGRAM = '''
import torch
a = torch.randn(8192, 8192, device="cuda").bfloat16()
print("ready", flush=True)
while True:
    a @ a
    torch.cuda.synchronize()
'''

@pytest.mark.anubis(**MARK)
def test_fault(anubis_metric, anubis_device):
    import torch
    a = torch.randn(4096, 4096, device=anubis_device.torch).bfloat16()
    anubis_metric.measure("rate", lambda: a @ a, work=2.0 * 4096**3, unit="TFLOP/s", better="higher")
"""


def _fault(
    findings: Findings,
    name: str,
    suite: str,
    expected: str,
    *arguments: str,
    deadline: float = 60.0,
) -> RunRecord | None:
    """Run one fault and then a good test, and return the record; write a line if it cannot be read."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "pytest.ini").write_text("[pytest]\n")
        (folder / "test_hour.py").write_text(_HEAD + suite + _GOOD)
        code, said, record, _ = run(
            folder, ["test_hour.py", "-n0", "--anubis-gate=off", *arguments], seconds=deadline
        )
    if record is None:
        last = (said.strip().splitlines() or ["it said nothing"])[-1]
        findings.row(
            name, f"no journal, exit code {code}: {last[:200]}", expected=expected, end=FAILED
        )
    return record


def _judged(
    findings: Findings,
    name: str,
    record: RunRecord | None,
    expected: str,
    *,
    outcome: Outcome,
    words: str = "",
) -> None:
    """Compare the verdict on the fault with the right one, and check that the next test was measured."""
    if record is None:
        return
    ours = [v for v in record.verdicts if "test_fault" in v.benchmark]
    judged = [v for v in ours if v.reason is not Reason.NO_BASELINE]
    right = any(v.outcome is outcome and words in v.text for v in judged)
    right = right and (
        outcome is Outcome.FAIL or not any(v.outcome is Outcome.FAIL for v in judged)
    )
    cards = {m.device for m in record.measurements if "test_after" in m.test}
    every = {plan.device for plan in record.planned if "test_after" in plan.test}
    found = (
        "; ".join(dict.fromkeys(f"{v.outcome.value}: {v.text}" for v in judged))[:300]
        or "nothing said"
    )
    went_on = "the next test was measured" if cards == every else "the next test was NOT measured"
    end = GOOD if right and cards == every else OFF
    findings.row(name, f"{found}; {went_on}", expected=expected, end=end)


def worker_killed(findings: Findings, _card: int) -> None:
    """Kill a worker during a test: no evidence against the hardware, and the next test is measured."""
    expected = "INCONCLUSIVE, the run goes on"
    record = _fault(findings, "kill -9", KILLED, expected)
    _judged(findings, "kill -9", record, expected, outcome=Outcome.INCONCLUSIVE)


def corrupted(findings: Findings, _card: int) -> None:
    """Return a wrong result, which counts as a fault of the hardware."""
    expected = "FAIL"
    record = _fault(findings, "corrupted result", CORRUPTED, expected)
    _judged(findings, "corrupted result", record, expected, outcome=Outcome.FAIL)


def hanging(findings: Findings, _card: int) -> None:
    """Run a kernel beyond its deadline: it is ended, and the next test is measured."""
    expected = "INCONCLUSIVE, ended after 10 s, the run goes on"
    record = _fault(findings, "hanging kernel", HANGING, expected, "--anubis-timeout=10")
    _judged(findings, "hanging kernel", record, expected, outcome=Outcome.INCONCLUSIVE)


def out_of_memory(findings: Findings, _card: int) -> None:
    """Request more memory than the card has: a problem of the environment, not of the hardware."""
    expected = "INCONCLUSIVE, memory is named"
    record = _fault(findings, "out of memory", OUT_OF_MEMORY, expected)
    _judged(
        findings, "out of memory", record, expected, outcome=Outcome.INCONCLUSIVE, words="memory"
    )


def neighbour(findings: Findings, _card: int) -> None:
    """Let another process use the card during a measurement, which must report it."""
    expected = "the measurement is marked as disturbed"
    program = NEIGHBOUR.partition("'''")[2].partition("'''")[0]
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as other:
        try:
            if other.stdout is not None:
                other.stdout.readline()  # it is at work
            record = _fault(findings, "neighbour process", NEIGHBOUR, expected)
        finally:
            other.kill()
    if record is None:
        return
    ours = [m for m in record.measurements if "test_fault" in m.test]
    phrases = list(dict.fromkeys(text for m in ours for text in (*m.disturbance, *m.evidence)))
    seen = any(
        "other process" in text or "stranger" in text for m in ours for text in m.disturbance
    )
    found = "; ".join(phrases)[:300] or "nothing said"
    findings.row("neighbour process", found, expected=expected, end=GOOD if seen else OFF)


def tf32_variable(findings: Findings, _card: int) -> None:
    """Set the variables of common containers: products in single precision must still pass."""
    variables = {"TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1", "NVIDIA_TF32_OVERRIDE": "1"}
    with tempfile.TemporaryDirectory() as place:
        tests = str(ROOT / "suites" / "compute" / "test_gemm.py")
        arguments = [tests, "--anubis-mode=measure", "-kcuda and float32"]
        code, said, record, _ = run(Path(place), arguments, environment=variables)
    passed = [r for r in record.results if r.outcome == "passed"] if record else []
    right = code == 0 and passed
    words = f"exit code {code}, {len(passed)} passed"
    note = "" if right else (said.strip().splitlines() or [""])[-1][:300]
    expected = "float32 products pass"
    findings.row("TF32 variables", words, expected=expected, end=GOOD if right else OFF, note=note)


def other_tools(findings: Findings, _card: int) -> None:
    """Run the vendors' own tools if they are installed, for comparison by eye."""
    cards = len(read_inventory().accelerators)
    for command in (
        ["nvbandwidth", "-t", "device_to_device_memcpy_write_ce"],
        ["all_reduce_perf", "-b", "8G", "-e", "8G", "-g", str(cards)],
        ["dcgmi", "diag", "-r", "3"],
    ):
        if shutil.which(command[0]) is None:
            findings.row(command[0], "not installed", end=SEEN)
            continue
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=360)
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        end = GOOD if done.returncode == 0 else OFF
        findings.row(
            command[0], f"exit code {done.returncode}", end=end, note="; ".join(lines[-3:])[:300]
        )
