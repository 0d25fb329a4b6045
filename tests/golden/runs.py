"""The recorded runs: how each is started, on which made-up node, and how it ends."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.golden.toys import write_project
from tests.places import RECORDED, ROOT

RECORDINGS = Path(__file__).parent / "recordings"
RUNS = RECORDINGS / "runs"
LEARNED = RECORDINGS / "learned"
BASELINES = RECORDINGS / "baselines"


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run that is recorded.

    Attributes:
        name: Id of the run.
        code: Exit code that pytest ends with.
        node: Name of the made-up node.
        toy: The toy file.
        plan: What the toy records and how it ends.
        args: Further arguments of pytest.
        faults: The node has lost a card and has other faults that its inventory shows.
    """

    name: str
    code: int
    node: str
    toy: str = "host.py"
    plan: Mapping[str, Any] = field(default_factory=dict)
    args: Sequence[str] = ()
    faults: bool = False


SLOW = {"speed": {"factor": 0.8}}
LATER_SLOWER = {"latency": {"count": 60, "factor": 0.85, "later": 1.0}}

EVERY = (
    Run(name="assertion", code=1, node="lab-a", plan={"acts": {"speed": "fail"}}),
    Run(name="accepted", code=0, node="lab-a"),
    Run(name="killed", code=-9, node="lab-b", plan={**SLOW, "acts": {"latency": "kill"}}),
    Run(
        name="skipped",
        code=20,
        node="lab-c",
        plan={"acts": {"latency": "skip"}},
        args=("--deselect=host.py::test_plain",),
    ),
    Run(name="waived", code=0, node="lab-d", plan={**SLOW, **LATER_SLOWER, "waived": "test_speed"}),
    Run(
        name="slow-card", code=1, node="gpu-a", toy="cards.py", plan={"rate cuda:5": SLOW["speed"]}
    ),
    Run(
        name="measured",
        code=0,
        node="gpu-d",
        toy="cards.py",
        plan={"rate cuda:2": {"factor": 0.8}},
        args=("--anubis-mode=measure",),
    ),
    Run(
        name="crashed",
        code=1,
        node="gpu-b",
        toy="cards.py",
        plan={"acts": {"cuda:1": "leave"}},
        args=("-n2",),
    ),
    Run(name="faults", code=1, node="gpu-c", toy="cards.py", faults=True),
)
"""With the imported table, the ways in which a run ends and is judged, each once."""

SOURCES = tuple(
    Run(
        name=f"{kind}-{number}",
        code=0,
        node=f"{kind}-{number}",
        toy=toy,
        plan={"round": number},
        args=("--anubis-mode=measure",),
    )
    for kind, toy in (("host", "host.py"), ("cards", "cards.py"))
    for number in range(1, 5)
)
"""Runs of healthy nodes, from which the baselines are learned."""


def recorded_node(name: str, *, cards: bool, faults: bool = False) -> dict[str, Any]:
    """Return the recorded inventory of a made-up node, with eight cards or without any."""
    node: dict[str, Any] = json.loads(RECORDED.read_text("utf-8"))
    node["readings"] = []
    inventory = node["inventory"]
    inventory |= {"node": name, "disks": inventory["disks"][:1], "nics": inventory["nics"][:1]}
    for card in inventory["accelerators"]:
        card["serial"] += f"-{name}"
        card["uuid"] += f"-{name}"
    if not cards:
        inventory |= {"accelerators": [], "on_bus": [], "nics": [], "drivers": {}}
        inventory["processor"] |= {"model": "Lab CPU", "vendor": "Lab", "sockets": 1}
        inventory["processor"] |= {"cores": 8, "threads": 16, "usable": 16}
        inventory["memory"]["total"] = 64 << 30
    if faults:
        inventory["accelerators"][2]["link_width"] = 8
        inventory["accelerators"][4]["vbios"] = "96.00.89.00.99"
        inventory["accelerators"][5]["ecc_uncorrected"] = 3
        del inventory["accelerators"][7]
    return node


def prepare(run: Run, folder: Path) -> None:
    """Write the project of a run, with its node and, once they are learned, the baselines."""
    write_project(folder, run.toy, run.plan)
    node = recorded_node(run.node, cards=run.toy == "cards.py", faults=run.faults)
    (folder / "node.json").write_text(json.dumps(node))
    if run in EVERY:
        shutil.copytree(BASELINES, folder / "baselines")


def start(run: Run, folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a prepared project."""
    usual = ("-q", "-p", "no:cacheprovider", "--anubis", "--anubis-inventory=node.json", run.toy)
    args = (*usual, *run.args, *(more or (f"--anubis-run-id={run.name}",)))
    if "-n2" not in args:
        args = ("-p", "no:xdist", *args)
    dropped = ("PYTEST_", "CUDA_VISIBLE", "HIP_VISIBLE", "ZE_AFFINITY")
    env = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
    return subprocess.run(
        [sys.executable, "-m", "pytest", *args],
        cwd=folder,
        env=env | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def journal_of(run: Run, folder: Path) -> Path:
    """Return where a project keeps the journal of its run."""
    return folder / ".anubis" / "runs" / run.name / "journal.jsonl"
