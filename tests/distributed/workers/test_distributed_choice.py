"""The Selector where tests run in workers, die, or go on after a power cut: one choice for all."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from pytest_anubis.core.history import Incident
from pytest_anubis.store.history.database import History
from pytest_anubis.store.history.defect_records import add_defect
from pytest_anubis.store.history.incident_records import add_incident
from pytest_anubis.store.journal.journal_lines import line_of, text_of
from tests.run_journals import events_of, record_of

NODE, DAY = "recorded", 86400.0

SUITE = """
import os, pathlib, pytest

def note(name):
    with open("ran.txt", "a") as out:
        out.write(name + "\\n")

@pytest.mark.anubis(component="accelerator.compute", scope="device", cost="10s")
@pytest.mark.parametrize("size", ["small", "large"])
def test_gemm(anubis_metric, anubis_device, size):
    note(f"{size} {anubis_device.name}")
    anubis_metric.record("rate", [1.0, 2.0], unit="GB/s", better="higher")
    try:
        open("died", "x").close()  # two may come here at once, one dies
    except FileExistsError:
        return
    if size == "small":
        os.kill(os.getpid(), 9)

@pytest.mark.anubis(component="storage.disk", cost="40s", resources=["disk"])
def test_disk(anubis_metric):
    note("disk")
    anubis_metric.record("rate", [1.0, 2.0], unit="GB/s", better="higher")
"""
SMALL, LARGE = "test_suite.py::test_gemm[small]", "test_suite.py::test_gemm[large]"
DISK = "test_suite.py::test_disk"


@pytest.fixture
def story(pytester: pytest.Pytester, gpus: str) -> pytest.Pytester:
    """A node with two accelerators whose defects show in the small matrix product and on the disk."""
    pytester.makeini("[pytest]\n")
    pytester.makepyfile(test_suite=SUITE)
    now = time.time()
    with History(pytester.path / ".anubis") as history:
        history.add_node(NODE, since=now - 100 * DAY)
        for day in range(5, 95, 10):
            one = Incident(node=NODE, kind="gpu", started=now - day * DAY, duration=3600.0)
            add_incident(history, one)
        for _ in range(40):
            add_defect(history, node=NODE, benchmarks=[SMALL], component="accelerator.compute")
        for _ in range(2):
            add_defect(history, node=NODE, benchmarks=[DISK, LARGE], component="storage.disk")
    return pytester


OPTIONS = (
    "--anubis-inventory=node.json",
    "--anubis-select=risk",
    "--anubis-risk=0.05",
    "--anubis-explore=0",
)


def run(story: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    if "no:xdist" in arguments:  # this process would die with its first test
        return story.runpytest_subprocess("--anubis", *OPTIONS, *arguments, timeout=90)
    return story.runpytest_inprocess("--anubis", *OPTIONS, *arguments)


def test_what_runs_side_by_side_is_counted_once(story: pytest.Pytester) -> None:
    (story.path / "died").touch()
    result = run(story, "-n3")
    (found,) = events_of(story, "selection")
    assert found["chosen"] == [SMALL]
    assert found["full_cost"] == 10 + 10 + 40
    assert sorted((story.path / "ran.txt").read_text().splitlines()) == [
        "small cuda:0",
        "small cuda:1",
    ]
    result.stdout.fnmatch_lines(["anubis: 1 of 3 benchmarks, 10.0 s of 1 min 00 s*"])


def test_cost_counts_turns_of_devices(story: pytest.Pytester) -> None:
    (story.path / "died").touch()
    run(story, "-n0")
    (found,) = events_of(story, "selection")
    assert found["full_cost"] == 20 + 20 + 40


def test_the_successor_of_a_dead_worker_runs_the_same(story: pytest.Pytester) -> None:
    result = run(story, "-n3")
    assert result.ret == 20
    (found,) = events_of(story, "selection")
    assert found["chosen"] == [SMALL]
    ran = (story.path / "ran.txt").read_text().splitlines()
    assert {line.split()[0] for line in ran} == {"small"}
    assert len(ran) == 3  # one of them died and was repeated
    assert "collected different tests" not in result.stdout.str()


def test_a_run_that_goes_on_keeps_its_choice(story: pytest.Pytester) -> None:
    run(story, "-p", "no:xdist")  # dies in its first test
    (first,) = events_of(story, "selection")
    with History(story.path / ".anubis") as history:
        # By now the disk would be chosen.
        add_defect(history, node=NODE, benchmarks=[DISK], component="storage.disk")
    result = story.runpytest("--anubis", *OPTIONS, "-p", "no:xdist", "--anubis-resume")
    again = events_of(story, "selection")[-1]
    assert again["chosen"] == first["chosen"] == [SMALL]
    assert again["pruned"] == first["pruned"]
    assert (story.path / "ran.txt").read_text().splitlines() == [
        "small cuda:0",
        "small cuda:0",
        "small cuda:1",
    ]
    result.stdout.fnmatch_lines(["anubis: 1 of 3 benchmarks*"])
    verdicts = record_of(story).verdicts
    assert {v.benchmark for v in verdicts if v.reason == "pruned"} == {DISK, LARGE}


DAMAGES: list[dict[str, object]] = [
    {"seed": "abc"},
    {"seed": None},
    {"seed": -1},
    {"seed": True},
    {"pruned": 7},
]


def test_damaged_choice_is_made_anew(
    story: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(story, "-p", "no:xdist")  # dies in its first test
    for number, damage in enumerate(DAMAGES):
        folder = tmp_path / str(number)
        shutil.copytree(story.path, folder)
        (path,) = folder.glob(".anubis/runs/*/journal.jsonl")
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        lines = [e | damage if e["event"] == "selection" else e for e in lines]
        bare = [{k: v for k, v in e.items() if k not in ("seq", "crc")} for e in lines]
        path.write_bytes(b"".join(line_of(text_of(e), i) for i, e in enumerate(bare, start=1)))
        monkeypatch.chdir(folder)
        result = story.runpytest(*("--anubis", *OPTIONS, "-p", "no:xdist", "--anubis-resume"))
        assert result.ret == 20, damage
        after = [json.loads(line) for line in path.read_text().splitlines()]
        assert [e["chosen"] for e in after if e["event"] == "selection"][-1] == [SMALL], damage
        result.stdout.fnmatch_lines(["anubis: the earlier choice in the journal is damaged*"])
        assert "Traceback" not in result.stdout.str() + result.stderr.str(), damage
