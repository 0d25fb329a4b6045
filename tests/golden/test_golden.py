"""The version at hand decides about recorded runs, baselines and tables what is written down beside them."""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.codec.moments import moment
from pytest_anubis.store.fleet.pushing import push
from pytest_anubis.store.journal.journal_reading import read_journal
from pytest_anubis.store.node_standing import keep_ended
from tests.golden.asking import ask
from tests.golden.decisions import (
    aligned,
    nodes_by_decision,
    of_judging,
    of_run,
    picked,
    rounded,
    written,
)
from tests.golden.runs import EVERY, RECORDINGS, RUNS, Run, prepare, start

EXPECTED = Path(__file__).parent / "expected"
WRITE = bool(os.environ.get("GOLDEN_WRITE"))
"""Write down what this version decides, in place of comparing with it."""

BY_NAME = pytest.mark.parametrize("run", EVERY, ids=lambda run: run.name)


def as_expected(name: str, found: Any, part: str = "") -> None:
    """Compare decisions with the expected file of that name, or with one part of it."""
    path = EXPECTED / f"{name}.json"
    found = json.loads(json.dumps(rounded(found)))
    if WRITE and not part:
        path.parent.mkdir(exist_ok=True)
        path.write_text(written(found), encoding="utf-8")
    expected = json.loads(path.read_text("utf-8"))
    if part:
        expected = expected[part]
    assert written(aligned(found, expected)).splitlines() == written(expected).splitlines()


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Return a folder with a copy of the recordings."""
    shutil.copytree(RECORDINGS, tmp_path, dirs_exist_ok=True)
    for number, run in enumerate(EVERY):
        os.utime(tmp_path / "runs" / run.name / "journal.jsonl", (number, number))
    return tmp_path


def answer(command: str, folder: Path) -> tuple[int, Any]:
    """Return a command's exit code and its JSON."""
    said = ask([*command.split(), "--json", "-"], folder)
    assert said.out, said.err
    return said.code, json.loads(said.out)


# One run


@BY_NAME
def test_a_recorded_run_is_reported_and_judged(run: Run, here: Path) -> None:
    given = f"runs/{run.name} --baseline baselines"
    code, reported = answer(f"report {given}", here)
    judged_code, judged = answer(f"judge {given}", here)
    found = {"code": code, "reported": of_run(reported)}
    as_expected(run.name, found | {"judge": judged_code, "judged": of_judging(judged)})


@pytest.mark.usefixtures("quick_processes")
@BY_NAME
def test_a_recorded_run_made_again_decides_the_same(run: Run, tmp_path: Path) -> None:
    prepare(run, tmp_path)
    done = start(run, tmp_path)
    assert done.returncode == run.code, done.stdout + done.stderr
    _, reported = answer(f"report {run.name}", tmp_path)
    as_expected(run.name, of_run(reported), part="reported")


@pytest.mark.usefixtures("quick_processes")
def test_a_recorded_run_that_was_killed_is_gone_on_with(tmp_path: Path) -> None:
    (run,) = (run for run in EVERY if run.name == "killed")
    prepare(run, tmp_path)
    (tmp_path / "plan.json").write_text("{}")
    shutil.copytree(RUNS / "killed", tmp_path / ".anubis" / "runs" / "killed")
    done = start(run, tmp_path, "--anubis-resume")
    _, reported = answer("report killed", tmp_path)
    as_expected("resumed", {"code": done.returncode, "reported": of_run(reported)})


# All runs and a table


def test_a_table_is_judged(here: Path) -> None:
    code, judged = answer("judge fleet-new.csv --baseline baselines", here)
    imported = ask(["import", "table", "fleet-new.csv"], here)
    again, archived = answer("judge .anubis/imports --baseline baselines", here)
    assert (again, archived["verdicts"]) == (code, judged["verdicts"])
    found = {"code": code, "import": imported.code}
    as_expected("table", found | of_judging(judged, all_verdicts=False))


OPTIONS = (
    "",
    "--fail-on marginal",
    "--require-all",
    "--require any",
    "--require memory.host",
    "--require ecc",
    "--allow-missing 50%",
    "--waivers waivers.toml",
    "--waivers expired.toml",
    "--class fleet",
    "--nodes gpu-*",
)

WAIVER = """[[waiver]]
owner = "ops"
reason = "riser is ordered"
expires = {}
component = "accelerator.memory"
"""


def test_options_change_decisions(here: Path) -> None:
    (here / "waivers.toml").write_text(WAIVER.format("2026-06-02"))
    (here / "expired.toml").write_text(WAIVER.format("2026-05-31"))
    found = {}
    for option in OPTIONS:
        code, said = answer(f"judge runs fleet-new.csv --baseline baselines {option}", here)
        found[option or "without options"] = {"code": code, **nodes_by_decision(said)}
    as_expected("options", found)


def test_without_a_baseline_devices_are_compared_with_each_other(here: Path) -> None:
    (here / "alone").mkdir()
    code, said = answer("judge ../fleet-new.csv ../runs", here / "alone")
    measured, peers = answer("judge ../runs/measured", here / "alone")
    found = {"code": code, **nodes_by_decision(said), "measured": measured, **of_judging(peers)}
    as_expected("without-baseline", found)


def test_baselines_are_learned(here: Path) -> None:
    ways = {
        "nodes": "learned --error-rate none",
        "table": "fleet.csv --accept-rate",
        "sick": "fleet-new.csv --error-rate none --method medoid --alpha 0.9",
    }
    found: dict[str, Any] = {}
    for name, given in ways.items():
        code, said = answer(f"learn {given} -o {name}", here)
        found[name] = {"code": code, "classes": []}
        for one in said["classes"]:
            file = json.loads((here / one["file"]).read_text("utf-8"))
            row = ("benchmark", "metric", "group", "scope", "alpha", "limit", "least", "spread")
            found[name]["classes"].append(
                {
                    "nodes": file["nodes"],
                    "cards": len(file["inventory"].get("accelerators", ())),
                    "rejected": one["self_check"]["rejected"],
                    "criteria": picked(file["criteria"], *row, "units", "repeatability"),
                    "centres": [statistics.median(one["centre"]) for one in file["criteria"]],
                    "finds": [one["finds"] for one in one["criteria"]],
                }
            )
    as_expected("learned", found)


def test_baselines_are_compared(here: Path) -> None:
    assert ask(["learn", "fleet-new.csv", "--error-rate", "none", "-o", "new"], here).code == 0
    _, different = answer("baseline diff baselines/fleet.json new", here)
    code, past = answer("baseline backtest fleet-new.csv --new new --baseline baselines", here)
    numbers = {key: value for key, value in past.items() if not isinstance(value, dict)}
    changed = {
        " ".join((one["benchmark"], one["scope"])): picked(
            [one["before"], one["now"]], "alpha", "centre", "limit"
        )
        for one in different["changed"]
    }
    rest = {key: different[key] for key in ("gone", "added")}
    found = {**rest, "changed": changed, "code": code, "backtest": numbers}
    as_expected("compared", found)


# What the store says


def test_the_store_says_where_every_node_is(here: Path) -> None:
    store = here / ".anubis"
    shutil.copytree(here / "runs", store / "runs")
    assert push([store], store).failed == []
    for run in EVERY:
        record = read_journal(store / "runs" / run.name)
        assert keep_ended(store, record, ended=moment(record.ended) or 0.0, reason="") == ""
    nodes = sorted({run.node for run in EVERY})
    found: dict[str, Any] = {}
    for name, options in (("", ""), (" of a week", " --max-age 7d")):
        health = {node: answer(f"health --node {node}{options}", here) for node in nodes}
        found[f"health{name}"] = {
            node: [code, one["decision"]] for node, (code, one) in health.items()
        }
        code, status = answer(f"fleet status{options}", here)
        rows = picked(status["nodes"], "node", "is", "decision", "component", "device", "run")
        for row in rows:
            row[4] = row[4].partition(" ")[0]  # without slot and serial number
        found[f"status{name}"] = {"code": code, "nodes": rows}
    code, drained = answer("fleet drain-list", here)
    found["drain-list"] = {"code": code, "nodes": picked(drained["nodes"], "node", "retest")}
    code, verdict = answer("fleet verdict runs --expect lab-a,lab-z", here)
    found["verdict"] = {
        "code": code,
        "nodes": picked(verdict["nodes"], "node", "decision", "components"),
    }
    ask(["history", "state", "--node", "gpu-a", "--as", "repair", "--on", "2026-05-20"], here)
    ask(["history", "state", "--node", "gpu-b", "--as", "service", "--on", "2026-05-20"], here)
    _, history = answer("history", here)
    found["history"] = picked(history["nodes"], "name", "runs", "state", "verdict")
    code, drained = answer("fleet drain-list", here)
    found["drain-list later"] = {"code": code, "nodes": picked(drained["nodes"], "node", "retest")}
    as_expected("store", found)


# What is refused


def damaged(folder: Path) -> None:
    """Damage copies of recorded files."""
    bad = folder / "bad"
    for name in ("line", "gone", "torn", "empty", "text", "later"):
        shutil.copytree(RUNS / "accepted", bad / name)
    lines = (RUNS / "accepted" / "journal.jsonl").read_text("utf-8").splitlines(keepends=True)
    texts = {
        "line": "".join(lines).replace('"values":[', '"values":[1', 1),
        "gone": "".join(lines[:6] + lines[7:]),
        "torn": "".join(lines)[:-30],
        "empty": "",
        "text": "hello\n",
        "later": "".join(lines).replace('"schema":', '"schema":9', 1),
    }
    for name, text in texts.items():
        (bad / name / "journal.jsonl").write_text(text, encoding="utf-8")
    (baseline,) = (folder / "baselines").glob("no-*.json")
    shutil.copytree(folder / "baselines", folder / "edited")
    text = baseline.read_text("utf-8").replace('"alpha": 0.95', '"alpha": 0.5')
    (folder / "edited" / baseline.name).write_text(text, encoding="utf-8")


REFUSED = (
    *(f"judge bad/{name} --baseline baselines" for name in ("line", "gone", "torn")),
    *(f"judge bad/{name} --baseline baselines" for name in ("empty", "text", "later")),
    *(f"judge runs/{name} bad/text --baseline baselines" for name in ("accepted", "slow-card")),
    *(f"report bad/{name}" for name in ("line", "gone", "torn", "empty", "text", "later")),
    "judge runs/accepted --baseline edited",
    "baseline show edited",
    "judge runs --baseline nowhere",
    "judge nowhere --baseline baselines",
    "judge fleet-new.csv --baseline baselines --nodes nobody",
    "learn runs -o out",
    "learn learned/host-1 -o out",
    "learn fleet.csv --alpha 2",
    "report no-such-run",
    "fleet verdict baselines",
    "health --node nobody",
    "health --node lab-a --max-age never",
    "history --node nobody",
    "import nccl fleet.csv --node n",
)


def test_wrong_input_has_its_exit_code(here: Path) -> None:
    damaged(here)
    found: dict[str, Any] = {}
    for command in REFUSED:
        said = ask(command.split(), here)
        assert said.out or said.err
        found[command] = said.code
    for name in ("line", "gone", "torn"):
        _, said = answer(f"report bad/{name} --baseline baselines", here)
        found[f"report bad/{name}, decision"] = said["node_verdict"]["decision"]
    as_expected("refused", found)


# The files themselves


def test_every_expected_file_is_asked_for() -> None:
    asked = {run.name for run in EVERY}
    asked |= {
        "resumed",
        "table",
        "options",
        "without-baseline",
        "learned",
        "compared",
        "store",
        "refused",
    }
    assert WRITE or {path.stem for path in EXPECTED.iterdir()} == asked


def test_no_recording_names_the_machine_that_made_it() -> None:
    for path in [*RECORDINGS.rglob("*"), *EXPECTED.rglob("*")]:
        text = path.read_bytes() if path.is_file() else b""
        found = set(re.findall(rb"(?<!\w)/([a-z]{3,})/", text))
        assert found <= {b"recorded", b"dev"}, f"{path.name} has folders of a machine: {found}"
