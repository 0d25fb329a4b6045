"""What the Selector costs at collection: many benchmarks, with it and without, in turn.

Collects N benchmarks (``pytest --anubis --collect-only``) with a history of defects and incidents in the
store, once without ``--anubis-select`` and once with each mode, interleaved, and prints the medians and
the median difference, of wall time and of processor time, since neighbours on the machine spoil the
former. Run: ``python benchmarks/selector/collection.py [--tests 10000] [--rounds 5]``.
"""

from __future__ import annotations

import argparse
import platform
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

from pytest_anubis.core.history import Incident
from pytest_anubis.core.verdict import Decision
from pytest_anubis.store.history.database import History
from pytest_anubis.store.history.defect_records import add_defect
from pytest_anubis.store.history.incident_records import add_incident

COMPONENTS = (
    "network.loopback",
    "accelerator.compute",
    "accelerator.memory",
    "storage.disk",
    "cpu",
)
PER_FILE = 250
NODES, DAY = 200, 86400.0
MODES = {
    "without": [],
    "risk": ["--anubis-select=risk", "--anubis-horizon=30d", "--anubis-risk=0.1"],
    "budget": ["--anubis-select=budget", "--anubis-budget=2h"],
    "cost": ["--anubis-select=cost", "--anubis-horizon=30d"],
}


def write_suite(folder: Path, tests: int) -> list[str]:
    """Write the benchmarks and return their ids."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    found = []
    for start in range(0, tests, PER_FILE):
        text = "import pytest\n"
        name = f"test_{start // PER_FILE:03}.py"
        for number in range(start, min(tests, start + PER_FILE)):
            component = COMPONENTS[number % len(COMPONENTS)]
            text += (
                f"\n@pytest.mark.anubis(component={component!r}, cost={5 + number % 60})\n"
                f"def test_{number}(anubis_metric):\n    pass\n"
            )
            found.append(f"{name}::test_{number}")
        (folder / name).write_text(text)
    return found


def write_history(store: Path, ids: list[str], defects: int, incidents: int) -> None:
    """Make up a fleet's past: every defect was exposed by one to four benchmarks."""
    chance, now = random.Random(1), time.time()
    with History(store) as history:
        names = [platform.node(), *(f"n{number:03}" for number in range(NODES))]
        for name in names:
            history.add_node(name, since=now - 300 * DAY)
        for _ in range(incidents):
            when = now - chance.uniform(1, 299) * DAY
            kind = chance.choice(("nic", "gpu", "gpu-memory", "disk"))
            one = Incident(node=chance.choice(names), kind=kind, started=when, duration=3600.0)
            add_incident(history, one)
        often = ids[:: max(1, len(ids) // 300)]  # a few hundred benchmarks expose what there is
        for _ in range(defects):
            add_defect(
                history,
                node=chance.choice(names),
                benchmarks=chance.sample(often, k=min(len(often), chance.randint(1, 4))),
                component=chance.choice(COMPONENTS),
                found=now - chance.uniform(1, 299) * DAY,
            )


def collect(folder: Path, extra: list[str]) -> tuple[float, float, str]:
    """Return wall and processor seconds of one collection, and what was chosen."""
    command = [
        *(sys.executable, "-m", "pytest", "--anubis", "--collect-only", "-qq"),
        *("-p", "no:cacheprovider", *extra),
    ]
    begin, used = time.perf_counter(), processor_seconds()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    took, used = time.perf_counter() - begin, processor_seconds() - used
    if done.returncode not in (0, 5, Decision.UNDECIDED.exit_code):  # a collection judges nothing
        raise SystemExit(
            f"{command} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr}"
        )
    chosen = [line for line in done.stdout.splitlines() if line.startswith("anubis: ")]
    return took, used, chosen[0] if chosen else ""


def processor_seconds() -> float:
    """Return the processor time of all children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--tests", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--defects", type=int, default=2_000)
    parser.add_argument("--incidents", type=int, default=2_000)
    options = parser.parse_args()
    wall: dict[str, list[float]] = {name: [] for name in MODES}
    processor: dict[str, list[float]] = {name: [] for name in MODES}
    words: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ids = write_suite(folder, options.tests)
        write_history(folder / ".anubis", ids, options.defects, options.incidents)
        for number in range(options.rounds + 1):
            for mode, extra in MODES.items():
                took, used, words[mode] = collect(folder, extra)
                if number:  # the first round fills caches and compiled bytecode
                    wall[mode].append(took)
                    processor[mode].append(used)
    print(
        f"{options.tests} benchmarks, {options.defects} defects, {options.incidents} incidents, "
        f"{options.rounds} rounds in turn; seconds, medians; more: over the same round without"
    )
    print(f"{'':10}{'wall':>8}{'more':>8}{'least':>8}{'most':>8}{'processor':>12}{'more':>8}")
    for mode in MODES:
        more, used_more = (
            [a - b for a, b in zip(times[mode], times["without"], strict=True)]
            for times in (wall, processor)
        )
        print(
            f"{mode:10}{statistics.median(wall[mode]):8.2f}{statistics.median(more):8.2f}"
            f"{min(more):8.2f}{max(more):8.2f}{statistics.median(processor[mode]):12.2f}"
            f"{statistics.median(used_more):8.2f}"
        )
    for mode, text in words.items():
        if text:
            print(f"{mode}: {text}")


if __name__ == "__main__":
    main()
