"""The runs that are recorded, each a project with a toy benchmark and a way to end."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.golden.asking import NOW
from tests.golden.toys import PARTS


@dataclass(frozen=True, kw_only=True)
class Case:
    """One run to be recorded.

    Attributes:
        name: Id of the run.
        code: Exit code that it must have.
        args: Arguments of pytest beside the usual ones.
        plan: What the toy records and how it ends.
        toy: The toy.
        node: Recorded inventory.
        baselines: Folder of recorded baselines, empty for none.
        conftest: Appended to the conftest.
        env: Environment variables.
        again: Plans and arguments of further starts in the same folder, each with its exit code.
        before: Prepares the project's folder.
        after: Edits the journal's text.
    """

    name: str
    code: int
    args: tuple[str, ...] = ()
    plan: Mapping[str, Any] = field(default_factory=dict)
    toy: str = "toy.py"
    node: str = "lab-a"
    baselines: str = "baselines"
    conftest: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    again: tuple[tuple[Mapping[str, Any], tuple[str, ...], int], ...] = ()
    before: Callable[[Path], None] | None = None
    after: Callable[[str], str] | None = None


ALONE = ("-p", "no:xdist")
MEASURE = (*ALONE, "--anubis-mode=measure")
SLOW = {"speed": {"factor": 0.8}}

MARGINAL = """
from pytest_anubis import MetricVerdict, Outcome, Reason

def pytest_anubis_judge(config, measurement):
    if measurement.metric.name != "speed":
        return None
    return MetricVerdict(outcome=Outcome.MARGINAL, reason=Reason.UNUSUAL, text="speed is unusual",
                         benchmark=measurement.benchmark, metric=measurement.metric.name,
                         component=measurement.component, device=measurement.device)
"""

DISTURBED = """
@pytest.fixture(autouse=True, scope="session")
def _disturbed_machine(_quiet_machine):
    from pytest_anubis.hardware.load.ambient_load import Ambient

    before, Ambient.since = Ambient.since, lambda self, begin: ("other processes used 1.3 CPUs",)
    yield
    Ambient.since = before
"""

BROKEN_HOOK = "\ndef pytest_anubis_verdict(config, verdict, verdicts):\n    1 / 0\n"

BROKEN_DECISION = """
from pytest_anubis.session import decision

def decide(run, *, waived):
    raise RuntimeError("two\\nlines")

decision.decide = decide
"""

COOLING = (
    "\ndef pytest_anubis_attributes(config, attributes):\n    return {'cooling': 'rear door'}\n"
)

REPEATING = """
import json, pathlib
from _pytest.runner import runtestprotocol

def pytest_runtest_protocol(item, nextitem):
    # Like plugins that repeat failures: all attempts but the last end with the outcome "rerun".
    for attempt in range(3):
        for report in runtestprotocol(item, nextitem=nextitem, log=False):
            if report.failed and attempt < 2:
                report.outcome = "rerun"
                item.module.PLAN["speed"] = item.module.PLAN.get("then", {})
            item.ihook.pytest_runtest_logreport(report=report)
            if report.outcome == "rerun":
                break
        else:
            return True
    return True
"""

STARTS_DEAD = """
import os
if "PYTEST_XDIST_WORKER" in os.environ and os.environ.get("PYTEST_ANUBIS_LANE") == "cuda:1":
    os._exit(5)
"""

TODAY = f"""
import time
time.time = lambda: {NOW!r}  # the history's past is fixed, so its present is
"""


def damage(text: str) -> str:
    """Spoil lines in the middle, each in another way, and tear the last one."""
    lines = text.splitlines()
    spoilt = list(lines[:4])
    spoilt.append('{"event":"measurement","test":"toy.py::test_')
    spoilt.append("\x00\x01 not JSON")
    spoilt.append("[1, 2, 3]")
    spoilt.append('{"event":"measurement","test":"a"}')
    spoilt.append('{"event":"verdict","outcome":"PERFECT","reason":"within"}')
    spoilt.append('{"event":"measurement","test":"b","values":[NaN]}')
    spoilt.append('{"event":"of a later version","at":1.0,"words":["kept"]}')
    spoilt.append("")
    return "\n".join([*spoilt, *lines[4:-1], lines[-1][:25]])


def with_attempts(text: str) -> str:
    """Add what a noisy machine and a close call leave in a journal: attempts, looks, evidence."""
    lines = []
    for line in text.splitlines():
        event = json.loads(line)
        if event["event"] == "measurement" and event["metric"]["name"] == "speed":
            noisy = {**event, "event": "attempt", "disturbance": ["other processes used 1.3 CPUs"]}
            lines.append(json.dumps(noisy, separators=(",", ":")))
            event |= {"attempts": 2, "looks": 3, "evidence": ["clocks never fell"]}
            event["telemetry"] = [
                {"name": "CPU frequency (MHz)", "values": [3000.0, 3001.5, "NaN", 2400.0, 3000.0]}
            ]
        lines.append(json.dumps(event, separators=(",", ":")))
    finding = {
        "event": "finding",
        "kind": "shift",
        "text": "a finding of this run",
        "benchmark": "toy.py::test_speed",
        "metric": "speed",
        "at": 1.0,
    }
    lines.insert(-2, json.dumps(finding, separators=(",", ":")))
    return "\n".join(lines) + "\n"


def missing_card(folder: Path) -> None:
    """Write a recorded node that lost a card, has a narrow link and another VBIOS."""
    data = json.loads((folder / "node.json").read_text())
    cards = data["inventory"]["accelerators"]
    cards[2]["link_width"] = 8
    cards[4]["vbios"] = "96.00.89.00.99"
    cards[5]["ecc_uncorrected"] = 3
    del cards[7]
    (folder / "node.json").write_text(json.dumps(data))


def broken_file(folder: Path) -> None:
    """Write a file that cannot be collected."""
    (folder / "broken.py").write_text("import nowhere_to_be_found\n")


def half_done(
    plan: Mapping[str, Any], *more: str
) -> tuple[Mapping[str, Any], tuple[str, ...], int]:
    """Return a further start that resumes and is accepted."""
    return plan, ("--anubis-resume", *more), 0


CASES = (
    Case(name="accepted", code=0),
    Case(name="accepted-n0", code=0, args=("-n0",)),
    Case(name="accepted-n2", code=0, args=("-n2",)),
    Case(name="accepted-attempts", code=0, args=ALONE, after=with_attempts),
    Case(name="accepted-extra", code=0, args=ALONE, plan={"new": 1}),
    Case(name="accepted-redacted", code=0, args=(*ALONE, "--anubis-redact")),
    Case(name="all-required", code=20, args=(*ALONE, "--anubis-require-all"), plan={"new": 1}),
    Case(name="odd-names", code=0, args=ALONE, plan={"odd name": 1}),
    Case(name="slow", code=1, args=ALONE, plan=SLOW),
    Case(name="slow-n2", code=1, args=("-n2",), plan=SLOW),
    Case(
        name="slow-many",
        code=1,
        args=ALONE,
        plan={
            "speed": {"factor": 0.7},
            "latency": {"factor": 1.6},
            "errors": 2,
            "rate inner": {"factor": 0.5},
        },
    ),
    Case(name="assertion", code=1, args=ALONE, plan={"acts": {"after test_speed": "fail"}}),
    Case(name="plain-failure", code=1, args=ALONE, plan={"acts": {"before test_plain": "fail"}}),
    Case(name="teardown", code=1, args=("-n0",), plan={"acts": {"teardown test_speed": "raise"}}),
    Case(name="marginal", code=0, args=ALONE, conftest=MARGINAL),
    Case(
        name="marginal-fails", code=1, args=(*ALONE, "--anubis-fail-on=marginal"), conftest=MARGINAL
    ),
    Case(
        name="change",
        code=0,
        args=ALONE,
        plan={"latency": {"count": 60, "factor": 0.85, "later": 1.0}},
    ),
    Case(name="no-baseline", code=20, args=ALONE, baselines=""),
    Case(
        name="no-baseline-change",
        code=20,
        args=ALONE,
        baselines="",
        plan={"speed": {"count": 60, "factor": 1.0, "later": 0.88}},
    ),
    Case(
        name="disturbed",
        code=20,
        args=ALONE,
        conftest=DISTURBED,
        plan={**SLOW, "acts": {"after test_speed": "sleep", "after test_latency": "sleep"}},
    ),
    Case(name="deselected", code=20, args=(*ALONE, "-k", "not latency")),
    Case(name="skipped", code=20, args=ALONE, plan={"acts": {"before test_latency": "skip"}}),
    Case(name="not-a-number", code=20, args=ALONE, plan={"speed": {"values": [100, "nan", 100.2]}}),
    Case(name="infinite", code=20, args=ALONE, plan={"latency": {"values": [80, "inf"]}}),
    Case(name="other-unit", code=20, args=ALONE, plan={"as": ["TFLOP/s", "higher"]}),
    Case(name="other-direction", code=20, args=ALONE, plan={"as": ["GFLOP/s", "lower"]}),
    Case(name="nothing-recorded", code=20, args=ALONE, plan={"speed": "nothing"}),
    Case(name="not-declared", code=1, args=ALONE, plan={"errors": "nothing"}),
    Case(
        name="waived",
        code=0,
        args=ALONE,
        plan={**SLOW, "marks": {"test_speed": {"xfail": {"reason": "known slow"}}}},
    ),
    Case(
        name="strict",
        code=1,
        args=ALONE,
        plan={"marks": {"test_speed": {"xfail": {"reason": "known slow", "strict": True}}}},
    ),
    Case(name="left", code=20, args=("-n0",), plan={"acts": {"after test_latency": "leave"}}),
    Case(name="crashed", code=20, args=("-n2",), plan={"acts": {"after test_speed": "crash"}}),
    Case(
        name="hung",
        code=20,
        args=("-n0", "--anubis-timeout=3"),
        plan={"acts": {"after test_latency": "hang"}},
    ),
    Case(name="stopped", code=20, args=("-n0", "-x"), plan={"acts": {"after test_speed": "leave"}}),
    Case(
        name="interrupted", code=2, args=ALONE, plan={"acts": {"before test_latency": "interrupt"}}
    ),
    Case(
        name="interrupted-n0",
        code=2,
        args=("-n0",),
        plan={"acts": {"before test_latency": "interrupt"}},
    ),
    Case(
        name="interrupted-resumed",
        code=2,
        args=ALONE,
        plan={"acts": {"before test_latency": "interrupt"}},
        again=(half_done({}, *ALONE),),
    ),
    Case(name="killed", code=-9, args=ALONE, plan={"acts": {"before test_latency": "kill"}}),
    Case(
        name="killed-slow",
        code=-9,
        args=ALONE,
        plan={
            **SLOW,
            "acts": {"before test_zone": "kill"},
            "marks": {"test_latency": {"xfail": {}}},
        },
    ),
    Case(
        name="killed-resumed",
        code=-9,
        args=ALONE,
        plan={"acts": {"before test_latency": "kill"}},
        again=(half_done({}, *ALONE),),
    ),
    Case(
        name="killed-late",
        code=-9,
        args=ALONE,
        plan={"acts": {"after test_latency": "kill"}},
        again=(half_done({}, *ALONE),),
    ),
    Case(
        name="killed-twice",
        code=-9,
        args=ALONE,
        plan={"acts": {"before test_latency": "kill"}},
        again=(
            ({"acts": {"before test_zone": "kill"}}, (*ALONE, "--anubis-resume"), -9),
            half_done({}, "-n2"),
        ),
    ),
    Case(name="measure-killed", code=-9, args=MEASURE, plan={"acts": {"before test_zone": "kill"}}),
    Case(name="measured-slow", code=0, args=MEASURE, plan=SLOW),
    Case(name="repeated", code=0, args=ALONE, plan=SLOW, conftest=REPEATING),
    Case(name="repeated-n0", code=0, args=("-n0",), plan=SLOW, conftest=REPEATING),
    Case(
        name="repeated-blocks",
        code=20,
        args=(*ALONE, "--anubis-require-all"),
        plan=SLOW,
        conftest=REPEATING,
    ),
    Case(name="damaged", code=0, args=ALONE, after=damage),
    Case(
        name="uncollected",
        code=20,
        args=(*ALONE, "--continue-on-collection-errors", "broken.py"),
        before=broken_file,
    ),
    Case(name="wrong-use", code=4, args=ALONE, plan={"wrong": 1}),
    Case(name="broken-hook", code=3, args=ALONE, conftest=BROKEN_HOOK),
    Case(name="broken-decision", code=3, args=ALONE, conftest=BROKEN_DECISION),
    Case(
        name="unexplained",
        code=20,
        args=ALONE,
        conftest="\ndef pytest_runtest_teardown(item):\n    item.session.testsfailed += 1\n",
    ),
    Case(name="cooling", code=20, args=ALONE, conftest=COOLING),
    Case(name="other-node", code=0, args=ALONE, node="lab-b"),
    Case(
        name="other-node-slow", code=1, args=ALONE, node="lab-b", plan={"latency": {"factor": 1.5}}
    ),
    # Cards of a recorded node.
    Case(name="cards", code=0, toy="cards.py", node="eight", args=ALONE),
    Case(name="cards-n2", code=0, toy="cards.py", node="eight", args=("-n2",)),
    Case(
        name="cards-slow",
        code=1,
        toy="cards.py",
        node="eight",
        args=ALONE,
        plan={"rate cuda:5": {"factor": 0.8}},
    ),
    Case(
        name="cards-all-slow",
        code=1,
        toy="cards.py",
        node="eight",
        args=ALONE,
        plan={"rate": {"factor": 0.85}},
    ),
    Case(
        name="cards-peers",
        code=1,
        toy="cards.py",
        node="eight",
        args=ALONE,
        baselines="",
        plan={"rate cuda:5": {"factor": 0.8}},
    ),
    Case(name="cards-alike", code=20, toy="cards.py", node="eight", args=ALONE, baselines=""),
    Case(
        name="cards-hidden",
        code=20,
        toy="cards.py",
        node="eight",
        args=("-n2",),
        env={"CUDA_VISIBLE_DEVICES": "5,2"},
    ),
    Case(
        name="cards-launch",
        code=0,
        toy="cards.py",
        node="eight",
        args=ALONE,
        plan={"launch": 1, "acts": {"after test_copy": "sleep"}},
    ),
    Case(
        name="cards-crashed",
        code=1,
        toy="cards.py",
        node="eight",
        args=("-n2",),
        plan={"acts": {"after test_copy": "leave"}},
    ),
    Case(
        name="cards-given-up",
        code=20,
        toy="cards.py",
        node="two",
        baselines="",
        args=("-nauto",),
        conftest=STARTS_DEAD,
    ),
    Case(name="cards-gate", code=1, toy="cards.py", node="eight", args=ALONE, before=missing_card),
    Case(
        name="cards-gate-on",
        code=1,
        toy="cards.py",
        node="eight",
        before=missing_card,
        args=(*ALONE, "--anubis-gate=continue"),
    ),
)

RISK = ("--anubis-select=risk", "--anubis-horizon=30d", "--anubis-seed=1")
CHOSEN = (
    Case(name="selected", code=0, toy="choices.py", args=(*RISK, "--anubis-risk=0.25")),
    Case(
        name="selected-explored",
        code=0,
        toy="choices.py",
        args=(*RISK, "--anubis-risk=0.25", "--anubis-explore=0.5"),
    ),
    Case(name="selected-n2", code=0, toy="choices.py", args=(*RISK, "--anubis-risk=0.25", "-n2")),
    Case(
        name="selected-budget",
        code=0,
        toy="choices.py",
        args=("--anubis-select=budget", "--anubis-budget=2m", "--anubis-explore=0"),
    ),
    Case(
        name="selected-cost",
        code=0,
        toy="choices.py",
        args=("--anubis-select=cost", "--anubis-explore=0", "--anubis-seed=7"),
    ),
    Case(
        name="selected-nothing",
        code=0,
        toy="choices.py",
        args=("--anubis-select=risk", "--anubis-risk=0.5", "--anubis-horizon=1h"),
    ),
    Case(
        name="selected-slow",
        code=1,
        toy="choices.py",
        args=(*RISK, "--anubis-risk=0.25"),
        plan={f"rate {part} 0": {"factor": 0.7} for part in PARTS},
    ),
    Case(
        name="selected-skipped",
        code=20,
        toy="choices.py",
        args=(*RISK, "--anubis-risk=0.25"),
        plan={"acts": {f"before test_{part.replace('.', '_')}_0": "skip" for part in PARTS}},
    ),
)
