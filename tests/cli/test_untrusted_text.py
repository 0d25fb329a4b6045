"""Text from a file never becomes a line, a colour or an error of its own."""

from __future__ import annotations

import copy
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.cli.commands import goals_command
from pytest_anubis.cli.main import main
from pytest_anubis.report.text.goal_tree import BenchmarkGoal
from pytest_anubis.store.baselines.baseline_files import load_baseline, save_baseline
from pytest_anubis.store.baselines.baseline_form import BaselineError, baseline_from_plain
from pytest_anubis.store.journal.journal_lines import line_of, text_of
from tests.cli.command_line import anubis
from tests.golden.runs import BASELINES, RUNS
from tests.places import RECORDED
from tests.report.export.ocp_rules import wrong_lines

EVIL = "x\x1b[31m\nACCEPTED: node forged accepted\r\x9b2J\u202e\u2028\ud800x\udc80"
"""Colours, line ends, a forged verdict, a turn of the writing direction, halves of surrogate pairs."""

Plain = Any


def places(data: Plain, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the paths of all texts, those of a list's first item only."""
    if isinstance(data, str):
        yield path
    elif isinstance(data, dict):
        for key, item in data.items():
            yield from places(item, (*path, key))
    elif isinstance(data, list) and data:
        yield from places(data[0], (*path, 0))


def changed(data: Plain, path: tuple[str | int, ...]) -> Plain:
    """Return a copy with one text replaced."""
    made = copy.deepcopy(data)
    holder = made
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = EVIL
    return made


def said_by(*arguments: str) -> str:
    """Return all that a command prints on a terminal that knows ASCII only."""
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii", newline="")
    before = sys.stdout, sys.stderr
    sys.stdout = sys.stderr = terminal
    try:
        main(arguments)
    except SystemExit:  # pragma: no cover  # argparse refuses, and says why
        pass
    finally:
        sys.stdout, sys.stderr = before
    terminal.flush()
    return terminal.buffer.getvalue().decode("ascii")


def troubles(name: str, *arguments: str) -> list[str]:
    """Return what is wrong with what a command prints."""
    try:
        text = said_by(*arguments)
    except Exception as error:  # every kind is a defect
        return [f"{name}: {type(error).__name__}: {error}"[:150]]
    found = [f"{name}: {line!r}"[:150] for line in text.split("\n") if not line.isprintable()]
    found += [
        f"{name}: forged" for line in text.splitlines() if line.startswith("ACCEPTED: node f")
    ]
    return found


SELECTION = {
    "event": "selection",
    "mode": "cost",
    "seed": 7,
    "nodes": {"gpu-c": 0.02},
    "lacking": ["a"],
    "basis": "weibull model of 86 of 109 incidents on 21 nodes",
    "notes": ["a"],
    "method": "exact",
    "pinned": ["a"],
    "unpriced": ["a"],
    "chosen": ["a"],
    "explored": ["a"],
    "pruned": ["a"],
    "explore": 0.0,
    "risk_before": 0.02,
    "residual_risk": 0.01,
    "cost": 300.0,
    "full_cost": 300.0,
}
"""What the Selector writes into a journal."""


@pytest.mark.parametrize(
    ("run", "only", "least"),
    [("crashed", (), 100), ("faults", ("blocker", "phase_failed", "selection"), 10)],
)
def test_no_text_of_a_journal_leaves_its_line(
    tmp_path: Path, run: str, only: tuple[str, ...], least: int
) -> None:
    journal = (RUNS / run / "journal.jsonl").read_text("utf-8")
    events = [json.loads(line) for line in journal.splitlines()]
    for event in events:  # lines that are changed have other checksums
        del event["seq"], event["crc"]
    events[1:1] = [SELECTION] if run == "faults" else []
    kinds = {event["event"]: number for number, event in enumerate(events)}
    kinds = {kind: number for kind, number in kinds.items() if kind in only or not only}
    path = tmp_path / "journal.jsonl"
    outputs = [f"--{kind}={tmp_path / kind}" for kind in ("html", "json", "prometheus", "ocp")]
    wrong = []
    tried = 0
    for kind, number in kinds.items():
        for place in places(events[number]):
            if place in (("event",), ("format",)):
                continue
            tried += 1
            made = list(events)
            made[number] = changed(events[number], place)
            lines = (line_of(text_of(one), at) for at, one in enumerate(made, start=1))
            path.write_bytes(b"".join(lines))
            name = f"{kind}.{'.'.join(map(str, place))}"
            wrong += troubles(name, "report", str(path), "-v", *outputs)
            written = (tmp_path / "ocp").read_text("ascii")
            wrong += [f"{name}: {one}"[:150] for one in wrong_lines(written)[:1]]
            if tried % 5 == 0:  # what is read alike is tried now and then
                wrong += troubles(name, "judge", str(path))
    assert tried > least
    assert not wrong, "\n".join(wrong)


def test_no_text_of_a_baseline_leaves_its_line(tmp_path: Path) -> None:
    plain = json.loads((BASELINES / "fleet.json").read_text("utf-8"))
    wrong = []
    for place in places(plain):
        try:
            baseline = baseline_from_plain(changed(plain, place))
            path = save_baseline(baseline, tmp_path / "changed.json")
            load_baseline(path)
        except BaselineError:
            path = tmp_path / "unsealed.json"
            path.write_text(json.dumps(changed(plain, place)), encoding="utf-8")
        name = ".".join(map(str, place))
        wrong += troubles(name, "baseline", "show", str(path))
        wrong += troubles(name, "baseline", "diff", str(path), str(path))
    assert not wrong, "\n".join(wrong)


def test_no_text_of_a_recorded_node_leaves_its_line(tmp_path: Path) -> None:
    plain = json.loads(RECORDED.read_text("utf-8"))
    plain["readings"] = plain["readings"][:1]
    path = tmp_path / "node.json"
    wrong = []
    for place in places(plain):
        path.write_text(json.dumps(changed(plain, place)), encoding="utf-8")
        name = ".".join(map(str, place))
        wrong += troubles(name, "doctor", f"--inventory={path}")
    assert not wrong, "\n".join(wrong)


def test_no_text_of_an_import_leaves_its_line(tmp_path: Path) -> None:
    names = {"csv": "table", "jsonl": "superbench", "log": "nccl", "json": "fio"}
    forged = EVIL.encode("utf-8", "surrogatepass").decode("latin-1")
    texts = {
        "csv": f'node,benchmark,metric,unit,better,value,"{forged}"\n"{forged}",b,m,s,lower,"{forged}",1\n',
        "jsonl": json.dumps({"node": "n", f"b/{EVIL}": 1, "b/m": EVIL}) + "\n",
        "log": f"Test NCCL failure {forged}\n# {forged}\n 8 2 float {forged}\n",
        "json": json.dumps({"jobs": [{"jobname": EVIL, "job options": {"filename": EVIL}}]}),
    }
    wrong = []
    for ending, text in texts.items():
        path = tmp_path / f"bad\x1b[31m\nACCEPTED: node forged accepted.{ending}"
        path.write_text(text, encoding="latin-1", errors="backslashreplace")
        given = ("import", names[ending], str(path), f"--store={tmp_path / 'store'}")
        wrong += troubles(ending, *given)
    assert not wrong, "\n".join(wrong)


def test_text_stays_in_its_markdown_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    goal = BenchmarkGoal(benchmark="t.py::t", goal="fast\x1b[31m", question="how\x07?")
    monkeypatch.setattr(goals_command, "_collect", lambda *_: [goal])
    done = anubis("goals", "t.py", "--format", "md", "--store", str(tmp_path))
    assert done.stdout.endswith("|\n")
    assert all(line.isprintable() for line in done.stdout.split("\n"))


@pytest.mark.parametrize(
    "words",
    [
        ("judge", "a\udcff.csv"),
        ("judge", "x" * 5000),
        ("import", "table", "t.csv", "--run", "a\ud800"),
        ("import", "table", "t.csv", "--class", "a\ud800"),
    ],
)
def test_a_word_that_cannot_be_written_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(
        "node,benchmark,metric,unit,better,value\nn1,b,m,GB/s,higher,1\n"
    )
    done = anubis(*words)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done
    assert "Traceback" not in done.stderr
