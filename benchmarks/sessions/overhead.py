"""What the plugin costs: a trivial test that records one metric, and the start-up of pytest.

Prints milliseconds a test for plain pytest, pytest-benchmark's fixture and ``--anubis``, in a worker as usual
and in pytest's own process, taken in turn in one go (A B C, A B C, ...), the medians, the ratios, and the CPU
time of all processes, which others on the machine disturb less; with ``--tests 1`` what a run costs at all,
and what the parent does that watches over the exit status.
Then the start-up of ``pytest --version`` with and without the plugin.
Run: ``python benchmarks/sessions/overhead.py [--tests 2000] [--rounds 5]``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages


PLAIN = "def test_{i}():\n    {i} + 1\n"
BENCHMARK = (
    "def test_{i}(benchmark):\n    benchmark.pedantic(lambda: {i} + 1, rounds=1, iterations=1)\n"
)
ANUBIS = (
    "def test_{i}(anubis_metric):\n"
    "    anubis_metric.record('answer', {i} + 1, unit='count', better='equal')\n"
)
SUITES = {
    "plain pytest": (PLAIN, ["-p", "no:anubis", "-p", "no:benchmark"]),
    "pytest-benchmark": (BENCHMARK, ["-p", "no:anubis"]),
    "the same, saved": (BENCHMARK, ["-p", "no:anubis", "--benchmark-autosave"]),
    "pytest --anubis": (ANUBIS, ["--anubis", "-p", "no:benchmark"]),
    "... in process": (ANUBIS, ["--anubis", "--anubis-in-process", "-p", "no:benchmark"]),
    # A program that calls pytest has no parent that watches over its exit status.
    "... without parent": (ANUBIS, ["--anubis", "--anubis-in-process", "-p", "no:benchmark"]),
}
COMMAND = ["-m", "pytest"]
PROGRAM = ["-c", "import pytest; raise SystemExit(pytest.main())"]


def seconds(command: list[str], folder: Path) -> tuple[float, float]:
    """Return the wall and CPU seconds of one command; its exit status must be 0 or 20."""
    begin, before = time.perf_counter(), os.times()
    # Compiled modules are kept between runs, as by default.
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, check=False
    )
    took, after = time.perf_counter() - begin, os.times()
    if done.returncode not in (0, 20):
        raise SystemExit(f"{command} ended with {done.returncode}:\n{done.stdout[-2000:]}")
    cpu = sum(b - a for a, b in zip(before[2:4], after[2:4], strict=True))
    return took, cpu


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--tests", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    usual = ["-q", "-p", "no:cacheprovider"]
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in SUITES}
    starts: dict[str, list[float]] = {"with the plugin": [], "without": []}
    with tempfile.TemporaryDirectory() as name:
        for label, (template, _) in SUITES.items():
            folder = Path(name) / label.replace(" ", "_")
            folder.mkdir()
            (folder / "pytest.ini").write_text("[pytest]\n")
            text = "".join(template.format(i=i) for i in range(options.tests))
            (folder / "test_many.py").write_text(text)
        for number in range(options.rounds + 1):
            for label, (_, extra) in SUITES.items():
                folder = Path(name) / label.replace(" ", "_")
                # Every run is a first one: comparing with earlier runs is a job of its own.
                shutil.rmtree(folder / ".anubis", ignore_errors=True)
                how = PROGRAM if label.endswith("parent") else COMMAND
                both = seconds([sys.executable, *how, *usual, *extra], folder)
                if number:  # the first round fills caches and compiled bytecode
                    times[label].append(both)
        for number in range(4 * options.rounds + 1):
            for label, extra in (("with the plugin", []), ("without", ["-p", "no:anubis"])):
                took, _ = seconds([sys.executable, *COMMAND, "--version", *extra], Path(name))
                if number:
                    starts[label].append(took)
    plain = statistics.median(wall for wall, _ in times["plain pytest"]) / options.tests * 1e3
    print(f"{options.tests} tests, {options.rounds} rounds in turn, medians")
    print(f"{'':20}{'ms a test':>12}{'over plain':>12}{'ratio':>8}{'CPU ms':>10}")
    for label, values in times.items():
        each, cpu = (statistics.median(v) / options.tests * 1e3 for v in zip(*values, strict=True))
        print(f"{label:20}{each:12.3f}{each - plain:12.3f}{each / plain:8.2f}{cpu:10.3f}")
    print("start-up of pytest --version, milliseconds (median)")
    for label, taken in starts.items():
        print(f"{label:20}{statistics.median(taken) * 1e3:12.1f}")
    pairs = zip(starts["with the plugin"], starts["without"], strict=True)
    print(f"{'median difference':20}{statistics.median(a - b for a, b in pairs) * 1e3:12.1f}")


if __name__ == "__main__":
    main()
