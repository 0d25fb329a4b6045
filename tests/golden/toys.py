"""Toy benchmarks of the golden recordings: what they record and how they end stands in a file plan.json.

The files are written into a project folder under names that pytest collects only where they are named.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.quiet import QUIET

HEAD = '''
import ctypes, json, os, pathlib, random, time
import pytest

PLAN = json.loads(pathlib.Path("plan.json").read_text())


def drawn(name, centre, key=""):
    """Values around a centre with noise of 0.3 %; they depend on the plan and nothing else."""
    wish = {**PLAN.get(name, {}), **PLAN.get(f"{name} {key}", {})}
    if "values" in wish:
        return [float(value) for value in wish["values"]]
    number = PLAN.get("round", 0)
    if number == "count":
        number = len(list(pathlib.Path(".anubis/runs").glob("*")))
    draw = random.Random(f"{name} {key} {number}")
    count, factor = wish.get("count", 12), wish.get("factor", 1.0)
    later = wish.get("later", factor)
    return [
        round(centre * (factor if i < count // 2 else later) * (1 + 0.003 * draw.gauss(0, 1)), 4)
        for i in range(count)
    ]


def act(name, when):
    """Do what the plan says about a test, before or after it has recorded."""
    what = PLAN.get("acts", {}).get(f"{when} {name}")
    if what == "skip":
        pytest.skip("fio not found: apt install fio")
    elif what == "fail":
        assert 1 + 1 == 3, "wrong sum"
    elif what == "raise":
        raise RuntimeError("the card does not answer any more")
    elif what == "leave":
        os._exit(3)
    elif what == "crash":
        ctypes.string_at(0)
    elif what == "hang":
        time.sleep(600)
    elif what == "interrupt":
        raise KeyboardInterrupt
    elif what == "kill":
        os.kill(os.getpid(), 9)
    elif what == "sleep":
        time.sleep(0.6)


@pytest.fixture
def ending(request):
    name = request.node.originalname
    yield
    act(name, "teardown")
'''

TOY = (
    HEAD
    + """

@pytest.mark.anubis(component="cpu.compute", scope="device", goal="sums at full speed",
                    question="how fast are sums?", action="check the cooler")
def test_speed(ending, anubis_metric, anubis_device):
    act("test_speed", "before")
    if PLAN.get("speed") != "nothing":
        unit, better = PLAN.get("as", ("GFLOP/s", "higher"))
        anubis_metric.record("speed", drawn("speed", 100.0), unit=unit, better=better)
    act("test_speed", "after")


@pytest.mark.anubis(component="memory.host", goal="memory answers at once",
                    question="how long does a read take?", action="reseat the memory",
                    metrics=["latency", "errors"])
def test_latency(ending, anubis_metric):
    act("test_latency", "before")
    anubis_metric.record("latency", drawn("latency", 80.0), unit="us", better="lower")
    if PLAN.get("errors") != "nothing":
        anubis_metric.record("errors", PLAN.get("errors", 0), unit="errors", better="equal",
                             goal="no error at all")
    act("test_latency", "after")


@pytest.mark.anubis(component="storage.disk", goal="the disk is fast in all zones",
                    question="how fast is a zone?", action="look at the disk's wear")
@pytest.mark.parametrize("zone", ["outer", "inner"])
def test_zone(ending, anubis_metric, zone):
    act("test_zone", "before")
    anubis_metric.record("rate", drawn("rate", 2.0 if zone == "outer" else 1.0, zone), unit="GB/s",
                         better="higher", group=zone)
    act("test_zone", "after")


if PLAN.get("new"):

    @pytest.mark.anubis(component="network.loopback")
    def test_extra(anubis_metric):
        anubis_metric.record("extra", drawn("extra", 5.0), unit="GB/s", better="higher")


if PLAN.get("wrong"):

    def test_wrong(anubis_metric):
        anubis_metric.record("pace", [1.0], unit="s")


if PLAN.get("odd name"):

    @pytest.mark.anubis(component="cpu.compute")
    @pytest.mark.parametrize("name", ["Größe <µ>", "a | b"])
    def test_odd(anubis_metric, name):
        anubis_metric.record("size & <weight>", drawn("odd", 7.0), unit="µs", better="lower",
                             question="is 1 < 2 & 'so' on?")


def test_plain(ending):
    act("test_plain", "before")
"""
)

CARDS = (
    HEAD
    + """

@pytest.mark.anubis(component="accelerator.memory", scope="device", cost="1s", action="swap the card",
                    goal="every card copies at full speed", question="how fast is a copy?")
def test_copy(ending, anubis_metric, anubis_device):
    act("test_copy", "before")
    anubis_metric.record("rate", drawn("rate", 100.0, anubis_device.name), unit="GB/s", better="higher")
    if anubis_device.name == PLAN.get("bad", "cuda:1"):
        act("test_copy", "after")


@pytest.mark.anubis(component="collective.allreduce", cost="1s", goal="all cards together",
                    question="how fast is a sum over all cards?", action="look at the links")
def test_reduce(ending, anubis_metric):
    anubis_metric.record("busbw", drawn("busbw", 300.0), unit="GB/s", better="higher")


if PLAN.get("launch"):

    @pytest.mark.anubis(component="compute.dispatch", scope="device", host=True, cost="1s")
    def test_launch(ending, anubis_metric, anubis_device):
        anubis_metric.record("time", drawn("time", 4.0, anubis_device.name), unit="us", better="lower")
"""
)

PARTS: dict[str, tuple[int, str]] = {
    "network.loopback": (3, "nic"),
    "accelerator.memory": (2, "gpu-memory"),
    "storage.disk": (2, "disk"),
    "training.step": (2, "gpu"),
}
"""Component of the Selector's toys: how many benchmarks, and the kind of incident that its defects become."""

CHOICES = HEAD + "".join(
    f'''

@pytest.mark.anubis(component="{component}", cost={20 * (number + 1)})
def test_{component.replace(".", "_")}_{number}(anubis_metric):
    act("test_{component.replace(".", "_")}_{number}", "before")
    anubis_metric.record("rate", drawn("rate", 100.0, "{component} {number}"), unit="GB/s",
                         better="higher")
'''
    for component, (count, _) in PARTS.items()
    for number in range(count)
)

PAIRS = (
    HEAD
    + """

@pytest.mark.anubis(component="cpu.compute", scope="device", resources=["cpu"], cost="1s")
def test_first(anubis_metric, anubis_device):
    time.sleep(0.4)
    anubis_metric.record("first", drawn("first", 10.0), unit="GB/s", better="higher")


@pytest.mark.anubis(component="storage.disk", resources=["disk"], cost="1s")
def test_second(anubis_metric):
    time.sleep(0.4)
    anubis_metric.record("second", drawn("second", 10.0), unit="GB/s", better="higher")
"""
)

FILES = {"toy.py": TOY, "cards.py": CARDS, "choices.py": CHOICES, "pairs.py": PAIRS}

MARKS = """
import json as _json, pathlib as _pathlib

def pytest_collection_modifyitems(items):
    marks = _json.loads(_pathlib.Path("plan.json").read_text()).get("marks", {})
    for item in items:
        for name, given in marks.get(getattr(item, "originalname", ""), {}).items():
            item.add_marker(getattr(pytest.mark, name)(**given))
"""


def write_project(
    folder: Path, *, toy: str = "toy.py", plan: Mapping[str, Any] | None = None, conftest: str = ""
) -> None:
    """Write a project of one toy file.

    Args:
        folder: It is made.
        toy: Name of the file.
        plan: What the toy records and how it ends.
        conftest: Appended to the conftest.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "conftest.py").write_text(QUIET + MARKS + conftest)
    (folder / toy).write_text(FILES[toy])
    (folder / "plan.json").write_text(json.dumps(dict(plan or {})))
