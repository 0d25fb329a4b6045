"""Toy benchmarks of the recorded runs; a file plan.json says what they record and how they end.

Their file names match no pattern that pytest collects, so that they run only where they are named.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.quiet import QUIET

HEAD = '''
import json, os, pathlib, random
import pytest

PLAN = json.loads(pathlib.Path("plan.json").read_text())


def drawn(name, centre, key=""):
    """Return values with noise of 0.3 %, which depend on the plan and on nothing else."""
    wish = PLAN.get(f"{name} {key}".strip(), {})
    draw = random.Random(f"{name} {key} {PLAN.get('round', 0)}")
    count, factor = wish.get("count", 8), wish.get("factor", 1.0)
    later = wish.get("later", factor)
    return [
        round(centre * (factor if i < count // 2 else later) * (1 + 0.003 * draw.gauss(0, 1)), 3)
        for i in range(count)
    ]


def act(name):
    """End the test named so as the plan says."""
    what = PLAN.get("acts", {}).get(name)
    if what == "skip":
        pytest.skip("fio not found: apt install fio")
    elif what == "fail":
        assert 1 + 1 == 3, "wrong sum"
    elif what == "leave":
        os._exit(3)
    elif what == "kill":
        os.kill(os.getpid(), 9)
'''

HOST = (
    HEAD
    + """

@pytest.mark.anubis(component="cpu.compute", scope="device", action="check the cooler")
def test_speed(anubis_metric, anubis_device):
    anubis_metric.record("speed", drawn("speed", 100.0), unit="GFLOP/s", better="higher")
    act("speed")


@pytest.mark.anubis(component="memory.host", metrics=["latency", "errors"])
def test_latency(anubis_metric):
    act("latency")
    anubis_metric.record("latency", drawn("latency", 80.0), unit="us", better="lower")
    anubis_metric.record("errors", 0, unit="errors", better="equal")


@pytest.mark.anubis(component="storage.disk")
@pytest.mark.parametrize("zone", ["outer"])
def test_zone(anubis_metric, zone):
    anubis_metric.record("rate", drawn("rate", 2.0), unit="GB/s", better="higher", group=zone)


def test_plain():
    act("plain")
"""
)

CARDS = (
    HEAD
    + """

@pytest.mark.anubis(component="accelerator.memory", scope="device", cost="1s", action="swap the card")
def test_copy(anubis_metric, anubis_device):
    name = anubis_device.name
    anubis_metric.record("rate", drawn("rate", 100.0, name), unit="GB/s", better="higher")
    act(name)


@pytest.mark.anubis(component="collective.allreduce", cost="1s")
def test_reduce(anubis_metric):
    anubis_metric.record("busbw", drawn("busbw", 300.0), unit="GB/s", better="higher")
"""
)

FILES = {"host.py": HOST, "cards.py": CARDS}

WAIVING = """
import json as _json, pathlib as _pathlib

def pytest_collection_modifyitems(items):
    waived = _json.loads(_pathlib.Path("plan.json").read_text()).get("waived")
    for item in items:
        if getattr(item, "originalname", "") == waived:
            item.add_marker(pytest.mark.xfail(reason="known slow"))
"""


def write_project(folder: Path, toy: str, plan: Mapping[str, Any]) -> None:
    """Write a project of one toy file.

    Args:
        folder: The project's folder; it is made.
        toy: Name of the file.
        plan: What the toy records and how it ends.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "conftest.py").write_text(QUIET + WAIVING)
    (folder / toy).write_text(FILES[toy])
    (folder / "plan.json").write_text(json.dumps(dict(plan)))
