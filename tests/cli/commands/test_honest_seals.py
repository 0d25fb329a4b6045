"""An honest run of every kind can be sealed and verified, and no other decision about it can."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.core.seal import JOURNAL, WAIVERS, FlawKind
from pytest_anubis.core.verdict import Decision
from pytest_anubis.store.baselines.baseline_files import load_baseline, save_baseline
from tests.cli.command_line import anubis
from tests.cli.commands.sealed_runs import (
    Key,
    content,
    flaws,
    rewritten,
    seal,
    signed_anew,
    to,
    write_key,
)
from tests.golden.record import retimed
from tests.golden.runs import BASELINES, SLOW, Run, journal_of, prepare, start

ACCEPTED, REJECTED, UNDECIDED = Decision.ACCEPTED, Decision.REJECTED, Decision.UNDECIDED

RECORDED = {
    "accepted": ACCEPTED,
    "waived": ACCEPTED,  # by an xfail mark
    "assertion": REJECTED,
    "crashed": REJECTED,
    "faults": REJECTED,
    "slow-card": REJECTED,
    "skipped": UNDECIDED,
    "killed": UNDECIDED,
}
BEGAN = dt.datetime(2026, 5, 2, tzinfo=dt.UTC)
MARGINAL = "--anubis-fail-on=marginal"
STEP = {"speed": {"count": 60, "factor": 1.0, "later": 0.93}}
UNKNOWN_METRIC = """

@pytest.mark.anubis(component="storage.disk")
def test_extra(anubis_metric):
    anubis_metric.record("extra", {values}, unit="MB/s", better="higher")
"""
ONCE = """

def test_extra():
    if not pathlib.Path("begun").exists():
        pathlib.Path("begun").touch()
        pytest.exit("enough")
"""
WAIVER = '[[waiver]]\nowner = "j.doe"\nreason = "known"\nexpires = "2099-01-01"\nmetric = "speed"\n'


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A run that is made here: what it records, its further tests and options, and what it decides."""

    says: Decision
    plan: Mapping[str, Any] = field(default_factory=dict)
    more: str = ""
    args: Sequence[str] = ()
    code: int | None = None
    resumed: bool = False
    baseline: str = "smoke"


MADE = {
    "marginal": Kind(says=REJECTED, plan=STEP, args=[MARGINAL]),
    "marginal without a criterion": Kind(
        says=REJECTED,
        more=UNKNOWN_METRIC.format(values="[100.0] * 30 + [80.0] * 30"),
        args=[MARGINAL],
    ),
    "marginal by an even ramp": Kind(
        says=REJECTED,
        more=UNKNOWN_METRIC.format(values="[100 - i / 4 for i in range(60)]"),
        args=[MARGINAL],
    ),
    "marginal and accepted": Kind(says=ACCEPTED, plan=STEP),
    "waiver": Kind(says=ACCEPTED, plan=SLOW, args=["--anubis-waivers=waivers.toml"]),
    "noise allowed": Kind(says=REJECTED, plan=SLOW, args=["--anubis-quiet-limit=cpu=50%"]),
    "soak": Kind(says=REJECTED, plan=STEP, args=["--anubis-profile=soak"], baseline="soak"),
    "pruned": Kind(
        says=ACCEPTED, args=["--anubis-select=budget", "--anubis-budget=2m", "--anubis-explore=0"]
    ),
    "no baseline": Kind(says=UNDECIDED, baseline=""),
    "interrupted": Kind(says=UNDECIDED, more=ONCE, code=2),
    "resumed": Kind(says=ACCEPTED, more=ONCE, resumed=True),
}


@pytest.fixture(scope="module")
def vendor(tmp_path_factory: pytest.TempPathFactory) -> Key:
    return write_key(tmp_path_factory.mktemp("keys"), "vendor")


def made(kind: Kind, folder: Path) -> tuple[Path, Path]:
    """Make a run; return its journal, as if its node were real, and the folder of its baselines."""
    run = Run(name="made", code=kind.says.exit_code, node="lab-a", plan=kind.plan, args=kind.args)
    project = folder / "project"
    prepare(run, project)
    (project / "waivers.toml").write_text(WAIVER)
    with (project / run.toy).open("a") as toy:
        toy.write(kind.more)
    baselines = project / "baselines"
    if kind.baseline:
        shutil.copytree(BASELINES, baselines)
    if kind.baseline == "soak":
        known = load_baseline(next(baselines.glob("no-accelerator*.json")))
        save_baseline(
            replace(
                known,
                attributes={**known.attributes, "profile": kind.baseline},
                hardware_class=known.hardware_class.replace("smoke", kind.baseline),
            ),
            baselines,
        )
    done = start(run, project)
    if kind.resumed:
        done = start(run, project, "--anubis-resume=made")
    assert done.returncode == (kind.code or kind.says.exit_code), done.stdout + done.stderr
    journal = folder / "run" / "journal.jsonl"
    journal.parent.mkdir()
    journal.write_bytes(retimed(journal_of(run, project).read_bytes(), BEGAN, folder))
    return journal, baselines


@pytest.mark.usefixtures("quick_processes")
@pytest.mark.parametrize("name", [*RECORDED, *MADE])
def test_an_honest_run_seals_and_no_other_decision_does(
    tmp_path: Path, vendor: Key, name: str
) -> None:
    path = tmp_path / "sealed.zip"
    if name in RECORDED:
        says = RECORDED[name]
        assert seal(name, vendor, path) == ""
    else:
        says = MADE[name].says
        journal, baselines = made(MADE[name], tmp_path)
        assert seal(str(journal), vendor, path, f"--baseline={baselines}") == ""
    done = anubis("verify", str(path), f"--key={vendor.public}", "--json=-")
    found = json.loads(done.stdout)
    assert done.returncode == says.exit_code == found["exit_code"]
    assert (found["intact"], found["decision"]) == (True, says.value)
    assert [one["file"] for one in found["signatures"]] == [str(vendor.public)]
    assert found["dossier_compared"]
    files = content(path.read_bytes())
    for other in set(Decision) - {says}:
        forged = rewritten(files[JOURNAL], "node_verdict", to(decision=other.value))
        data = signed_anew({**files, JOURNAL: forged}, vendor, decision=other)
        assert flaws(data, vendor).keys() & {FlawKind.VERDICT, FlawKind.DECISION}


def test_the_waivers_are_those_that_the_decision_used(tmp_path: Path, vendor: Key) -> None:
    path = tmp_path / "sealed.zip"
    assert seal("waived", vendor, path) == ""
    (marked,) = json.loads(content(path.read_bytes())[WAIVERS])
    assert (marked["owner"], marked["expires"]) == ("", "")
    assert marked["test"].startswith("host.py::test_speed")
