"""``anubis report`` rebuilds what a run said, whatever its file is called; what was collected is judged."""

from __future__ import annotations

import dataclasses
import shlex
import shutil
from pathlib import Path

import pytest

from pytest_anubis.core.verdict import Outcome
from pytest_anubis.store.history.database import History
from pytest_anubis.store.history.defect_records import add_defect
from pytest_anubis.store.history.run_filing import record_run
from pytest_anubis.store.journal.journal_reading import read_journal
from tests.cli.command_line import anubis
from tests.golden.runs import BASELINES, RUNS

CONFIRMED = "1 of 1 like it was confirmed; last note: riser exchanged"
HEAD = "node,class,benchmark,metric,unit,better,value\n"


def test_a_journal_of_any_name_is_rebuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # no baseline lies here
    asked = anubis("report", str(RUNS / "slow-card" / "journal.jsonl"))
    assert "REJECTED" in asked.stdout
    shutil.copy(RUNS / "slow-card" / "journal.jsonl", tmp_path / "n17-2026-11.jsonl")
    assert anubis("report", "n17-2026-11.jsonl").stdout == asked.stdout


def with_defects(store: Path) -> None:
    """Keep a history in which two defects of the node with a slow card are closed, one found later."""
    run = read_journal(RUNS / "slow-card")
    failed = next(v.benchmark for v in run.verdicts if v.outcome is Outcome.FAIL)
    with History(store) as history:
        record_run(history, dataclasses.replace(run, run="another", verdicts=()))
        for found, note in ((1.0, "riser exchanged"), (None, "found after the run")):
            add_defect(history, node=run.node, benchmarks=[failed], found=found, note=note)


def test_a_dossier_counts_closed_defects_like_its_own(here: Path) -> None:
    with_defects(here / ".anubis")
    for more, counted in (((), 1), (("--store", "empty"), 0)):
        done = anubis("report", str(RUNS / "slow-card"), "--html", "n.html", *more)
        assert done.returncode == 0, done.stderr
        assert (here / "n.html").read_text(encoding="utf-8").count(CONFIRMED) == counted


def test_pages_of_judged_nodes_count_closed_defects_like_theirs(here: Path) -> None:
    shutil.copytree(RUNS / "slow-card", here / ".anubis" / "runs" / "slow-card")
    shutil.copytree(RUNS / "accepted", here / ".anubis" / "runs" / "accepted")
    with_defects(here / ".anubis")
    of = (".anubis/runs", "--baseline", str(BASELINES))
    assert anubis("judge", *of, "--html", "judged.html").returncode == 1
    assert anubis("report", "--fleet", *of, "--html", "site").returncode == 0
    for page in ("judged.html", "site/nodes/node-gpu-a.html"):
        assert (here / page).read_text(encoding="utf-8").count(CONFIRMED) == 1


def test_an_unknown_node_is_refused_with_known_ones(here: Path) -> None:
    rows = "".join(f"n{i},c,b,rate,GB/s,higher,{100 + i}\n" for i in range(10))
    for count, end in ((2, "there is n0, n1\n"), (10, "n7 and 2 more\n")):
        text = HEAD + "".join(rows.splitlines(keepends=True)[:count])
        (here / "t.csv").write_text(text)
        assert anubis("report", "t.csv", "--node", "x").stderr.endswith(end)


def test_a_node_of_two_classes_has_a_dossier_of_each(here: Path) -> None:
    rows = "".join(f"n0,{key},b,rate,GB/s,higher,{i}\n" for key in "cd" for i in (1, 1.1))
    (here / "t.csv").write_text(HEAD + rows)
    both = anubis("report", "t.csv", "--node", "n0")
    assert "it is in the classes c, d: add --class KEY --html FILE" in both.stdout
    for key in "cd":
        done = anubis("report", "t.csv", "--class", key, "--html", f"{key}.html")
        assert done.returncode == 0, done.stderr
        assert f"class {key}\n" in done.stdout
        assert (here / f"{key}.html").exists()
    wrong = anubis("report", "t.csv", "--class", "e")
    assert (wrong.returncode, wrong.stderr.count("there is c, d")) == (2, 1)


def test_the_offered_dossier_agrees_with_judge(here: Path) -> None:
    run, baselines = str(RUNS / "waived"), str(BASELINES)
    mild = anubis("judge", run, "--baseline", baselines)
    strict = anubis("judge", run, "--baseline", baselines, "--fail-on", "marginal")
    assert (mild.returncode, strict.returncode) == (0, 1)
    (offered,) = [x for x in strict.stdout.splitlines() if "worst node, lab-d: anubis " in x]
    done = anubis(*shlex.split(offered.partition(": anubis ")[2]))
    assert "REJECTED: node lab-d:" in done.stdout, done.stderr
    missing = anubis("report", run, "--node", "lab-d", "--waivers", "none.toml")
    assert (missing.returncode, missing.stderr.count("none.toml: cannot be read")) == (2, 1)


def test_a_file_of_another_tool_is_sent_to_import(tmp_path: Path) -> None:
    log = tmp_path / "nccl.log"
    log.write_text("# nThread 1 nGpus 8\n", encoding="utf-8")
    asked = anubis("report", str(log))
    assert asked.returncode
    assert asked.stderr.endswith("becomes readable with 'anubis import'\n")
