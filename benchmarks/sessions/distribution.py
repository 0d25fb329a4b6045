"""A recorded node with many accelerators: the predicted wall time against the one that it took.

The benchmarks sleep for a known time, so that only the placing is measured: tests of different devices at
once, whole-node tests alone, host tests beside others where a certificate allows it.

Run: ``python benchmarks/sessions/distribution.py [--devices 8] [--rounds 3]``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

from pytest_anubis.core.events import RunTimed
from pytest_anubis.core.inventory import Accelerator, Inventory
from pytest_anubis.distributed.dispatch.certificates import Certificate, save_certificates
from pytest_anubis.hardware.telemetry.recorded_node import Recorded, recording_text
from pytest_anubis.store.journal.journal_reading import read_journal

SUITE = """
import time
import pytest

@pytest.mark.anubis(component="accelerator.compute", scope="device", cost="1s")
def test_gemm(anubis_metric, anubis_device):
    time.sleep(1.0)

@pytest.mark.anubis(component="accelerator.memory", scope="device", cost="500ms")
def test_copy(anubis_metric, anubis_device):
    time.sleep(0.5)

@pytest.mark.anubis(component="accelerator.link", scope="pair", cost="700ms")
def test_link(anubis_metric):
    time.sleep(0.7)

@pytest.mark.anubis(component="storage.disk", scope="node", cost="900ms", resources=["disk"])
def test_disk(anubis_metric):
    time.sleep(0.9)

@pytest.mark.anubis(component="node.training", scope="node", cost="800ms")
def test_step(anubis_metric):
    time.sleep(0.8)
"""


def main() -> None:
    """Run the suite serially and distributed, with and without certificates, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    print(f"{arguments.devices} accelerators; seconds from the first test's start to the last end")
    print(f"{'run':28} {'predicted':>9} {'took':>7} {'off by':>7} {'of serial':>9}")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        prepare(place, arguments.devices)
        serial = 0.0
        for number in range(arguments.rounds):
            for workers, certified in (("0", False), ("auto", False), ("auto", True)):
                name = f"{number}-{workers}-{certified}"
                predicted, took = run(place, workers, certified, name)
                serial = took if workers == "0" else serial
                label = f"-n {workers}{', certificates' if certified else ''}"
                print(
                    f"{label:28} {predicted:9.2f} {took:7.2f} {took / predicted - 1:7.1%} "
                    f"{took / serial:9.2f}"
                )


def prepare(place: Path, devices: int) -> None:
    """Write the suite and the recorded node."""
    cards = tuple(
        Accelerator(index=i, vendor="nvidia", name="Sleeping Card", uuid=f"GPU-{i}")
        for i in range(devices)
    )
    recorded = Recorded(inventory=Inventory(node="node", accelerators=cards))
    (place / "node.json").write_text(recording_text(recorded), encoding="utf-8")
    (place / "test_suite.py").write_text(SUITE, encoding="utf-8")
    (place / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")


def run(place: Path, workers: str, certified: bool, name: str) -> tuple[float, float]:
    """Run the suite once and return the predicted and the real wall time in seconds."""
    store = place / f"store-{certified}"
    options = [f"-n{workers}", f"--anubis-store={store}", f"--anubis-run-id={name}"]
    options += [f"--anubis-baseline={'certified' if certified else 'none'}"]
    options += ["--anubis-inventory=node.json", "--anubis-mode=measure", "-q"]
    # Hypothesis' plugin imports the whole of Hypothesis when a worker ends; no node has it.
    options += ["-p", "no:hypothesispytest", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "--anubis", *options]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    try:
        journal = read_journal(store / "runs" / name)
    except ValueError as error:
        raise SystemExit(f"{error}\n{done.stdout}{done.stderr}") from error
    (told,) = [event for event in journal.events if isinstance(event, RunTimed)]
    if certified and not (place / "certified/certificates").exists():
        certify_all(place / "certified", journal.hardware_class)
        return run(place, workers, certified, f"{name}-again")
    return told.predicted, told.wall


def certify_all(baselines: Path, hardware_class: str) -> None:
    """Sleeping benchmarks do not disturb each other."""
    disk = "test_suite.py::test_disk"
    pairs = [
        Certificate(first=min(disk, other), second=max(disk, other), granted=True)
        for other in ("test_suite.py::test_gemm", "test_suite.py::test_copy")
    ]
    save_certificates(baselines, hardware_class, pairs)


if __name__ == "__main__":
    main()
