"""A toy suite with its baseline, for trying launchers: its test records what ``speeds/<node>.json`` says."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import population_of
from pytest_anubis.hardware.inventory.hardware_classes import hardware_class
from pytest_anubis.hardware.inventory.inventory_reading import read_inventory
from pytest_anubis.store.baselines.baseline_files import save_baseline
from pytest_anubis.validator import learn_baseline

HEALTHY, SLOW = 100.0, 50.0
NODES = 12
"""Healthy nodes that the baseline is learned from: from five on there are limits."""

QUIET = "[pytest]\nanubis_quiet_limit = steal=1, others=1, cpu=1, memory=1, io=1\n"
"""Several nodes share this machine: what one does is no disturbance of the other here."""

_SUITE = """
import json, pathlib, time
import pytest

HERE = pathlib.Path(__file__).parent

@pytest.mark.anubis(component="cpu.compute", scope="node", goal="full speed", question="is it fast?",
                    action="check the cooler")
def test_speed(anubis_metric, anubis_node):
    speed = json.loads((HERE / "speeds" / f"{anubis_node.name}.json").read_text())
    time.sleep(speed["seconds"])
    anubis_metric.record("speed", speed["values"], unit="GFLOP/s", better="higher")
"""


def write_fleet(folder: Path, nodes: Mapping[str, float], *, seconds: float = 0.0) -> None:
    """Write a suite whose test lasts so many seconds, speeds of nodes in GFLOP/s, and a baseline."""
    (folder / "speeds").mkdir(parents=True)
    (folder / "pytest.ini").write_text(QUIET)
    (folder / "test_suite.py").write_text(_SUITE)
    for name, speed in nodes.items():
        values = [speed + 0.1 * i for i in range(-10, 11)]
        document = {"values": values, "seconds": seconds}
        (folder / "speeds" / f"{name}.json").write_text(json.dumps(document))
    key, attributes = hardware_class(read_inventory(), "smoke")
    population = population_of(
        [
            [HEALTHY + 0.02 * node + 0.1 * (i % 21 - 10) for i in range(42)]
            for node in range(-NODES // 2, NODES // 2)
        ],
        metric=Metric(name="speed", unit="GFLOP/s", better="higher"),
        benchmark="test_suite.py::test_speed",
        devices=["node"] * NODES,
        runs=[f"r{i}" for i in range(NODES)],
        hardware_class=key,
        component="cpu.compute",
    )
    baseline = learn_baseline(
        [population],
        hardware_class=key,
        attributes=dict(attributes),
        created="2026-01-01T00:00:00+00:00",
        error_rate=None,
    )
    save_baseline(baseline, folder / "baselines")


def lacking(programs: Sequence[str], why_root: str, packages: str) -> str:
    """Return why a launcher cannot be tried here; empty if it can."""
    if os.geteuid() != 0:
        return f"needs root: {why_root}"
    absent = [name for name in programs if shutil.which(name) is None]
    return f"not on PATH: {', '.join(absent)} (Debian: {packages})" if absent else ""


def ended(process: subprocess.Popen[bytes]) -> None:
    """End a process, by force if it does not end by itself."""
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Findings(list[str]):
    """What was not as it must be, one line each."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__()
        self._say = say

    def expect(self, what: str, fine: bool, seen: str) -> None:
        """Say what was seen, and keep it if it is not fine."""
        self._say(f"{'ok   ' if fine else 'WRONG'} {what}: {seen}")
        if not fine:
            self.append(f"{what}: {seen}")


def tried(
    about: str,
    *,
    missing: Callable[[], str],
    trial: Callable[[Path, Callable[[str], None]], list[str]],
    stay: Callable[[Path], None],
) -> int:
    """Be the script of a launcher: try it in a temporary folder, and return 0 if all is as it must be.

    `missing` says what is not installed here, `trial` returns what is wrong, `stay` only starts the launcher.
    """
    parser = argparse.ArgumentParser(description=about.partition("\n")[0])
    parser.add_argument("--stay", action="store_true", help="only start it, until Ctrl-C")
    options = parser.parse_args()
    if why := missing():
        print(f"not tried: {why}")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that all is put away then, too
    with tempfile.TemporaryDirectory(prefix="anubis-launcher-") as name:
        place = Path(name)
        place.chmod(0o755)
        if options.stay:
            stay(place)
            return 0
        wrong = trial(place, print)
    print(f"{len(wrong)} wrong" if wrong else "all as it must be")
    return int(bool(wrong))
