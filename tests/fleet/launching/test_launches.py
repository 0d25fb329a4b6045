"""Many hosts in one go: what is typed there is quoted, what fails is one line, and the others run on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pytest_anubis.cli.main import main
from pytest_anubis.core.events import RunFinished, RunStarted
from pytest_anubis.core.verdict import Decision
from pytest_anubis.fleet.launching.host_list import Host
from pytest_anubis.fleet.launching.ssh_hosts import Launch
from tests.store.written_runs import decided, write_events

SSH = """#!PYTHON -I
import os, sys
host, command = sys.argv[-2:]
assert sys.argv[-3] == "--"
if host == "gone":
    sys.stderr.write("Warning: added\\nssh: connect to host gone port 22: No route to host\\n")
    sys.exit(255)
os.execvp("sh", ["sh", "-c", command])
"""
"""A stand-in for ssh: runs the command in a shell of this machine, as ssh does on the host."""

REMOTE = """#!PYTHON -I
import os, pathlib, sys
given = dict(word.partition("=")[::2] for word in sys.argv[1:] if word.startswith("--anubis-"))
folder = pathlib.Path(given["--anubis-store"], "runs", given["--anubis-run-id"])
folder.mkdir(parents=True)
print(os.environ["PYTEST_ANUBIS_NODE"], sys.argv[-1])
source = pathlib.Path(os.environ["PYTEST_ANUBIS_NODE"] + ".jsonl")
if not source.exists():
    sys.exit("Segmentation fault")
(folder / "journal.jsonl").write_bytes(source.read_bytes())
sys.exit(20 if os.environ["PYTEST_ANUBIS_NODE"] == "n2" else 0)
"""
"""A stand-in for pytest on a host."""


def script(path: Path, text: str) -> str:
    path.write_text(text.replace("PYTHON", sys.executable, 1))
    path.chmod(0o755)
    return str(path)


def journal(
    folder: Path, node: str, decision: Decision, *, run: str = "", day: str = "2026-11-01"
) -> Path:
    run = run or f"run-{node}"
    began, ended = f"{day}T10:00:00Z", f"{day}T10:10:00Z"
    start = RunStarted(run=run, node=node, started=began, hardware_class="c")
    said = decided(node, decision, f"node {node} {decision.value.lower()}: so")
    end = RunFinished(exit_status=decision.exit_code, ended=ended)
    return write_events(folder, run, start, said, end)


def test_each_host_has_its_end_and_none_is_held_up(tmp_path: Path) -> None:
    there = tmp_path / "a folder; touch x"
    there.mkdir()
    for node, decision in (("n1", Decision.ACCEPTED), ("n2", Decision.UNDECIDED)):
        journal(tmp_path / "made", node, decision).rename(there / f"{node}.jsonl")
    launch = Launch(
        hosts=[Host("n1", "n1"), Host("n2", "n2"), Host("n3", "n3"), Host("n4", "gone")],
        folder=str(there),
        arguments=["-k", "it's $(touch y) `z`"],
        name="night",
        results=tmp_path / "results",
        python=script(tmp_path / "python", REMOTE),
        seconds=60.0,
        ssh=[script(tmp_path / "ssh", SSH)],
    )
    said: list[str] = []
    ends = {end.host.name: end for end in launch.run(said.append)}
    assert len(said) == 4
    assert all("\n" not in line for line in said)
    found = {name: (end.code, end.trouble, end.journal is not None) for name, end in ends.items()}
    assert found["n1"] == (0, "", True)
    assert found["n2"] == (20, "", True)
    assert found["n4"] == (255, "ssh: ssh: connect to host gone port 22: No route to host", False)
    code, trouble, arrived = found["n3"]
    assert (code, arrived) == (1, False)
    assert trouble.startswith("no journal (cat: ")
    assert trouble.endswith("; it said: Segmentation fault")
    # What the shells there read was quoted: nothing of it was carried out.
    made = [place / name for place in (tmp_path, there) for name in ("x", "y")]
    assert not [path for path in made if path.exists()]
    assert (tmp_path / "results" / "logs" / "n1.log").read_text() == "n1 it's $(touch y) `z`\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    journal(tmp_path / "n1", "n1", Decision.ACCEPTED)
    journal(tmp_path / "n1", "n1", Decision.REJECTED, run="before", day="2026-10-01")
    journal(tmp_path / "n2", "n2", Decision.ACCEPTED)
    return tmp_path


def verdict(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    capsys.readouterr()
    code = main(["fleet", "verdict", *arguments])
    return code, capsys.readouterr().out.splitlines()


def test_the_latest_runs_make_the_verdict(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = verdict(capsys, str(folder))
    assert (code, lines[-1]) == (0, "2 nodes: 0 REJECTED, 0 UNDECIDED, 2 ACCEPTED")
    journal(folder / "n3", "n3", Decision.REJECTED)
    code, lines = verdict(capsys, str(folder), "--expect", "n[1-4]")
    assert code == 1
    assert lines[0].startswith("REJECTED")
    assert " n3" in lines[0]
    assert " n4: no journal of it is here" in lines[1]
    assert lines[-1] == "4 nodes: 1 REJECTED, 1 UNDECIDED, 2 ACCEPTED"


def test_dead_hosts_and_damaged_files_are_not_accepted(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "n2" / "runs" / "run-n2" / "journal.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-2]))  # its power went: neither verdict nor end
    code, said = verdict(capsys, str(folder))
    assert (code, said[-1]) == (20, "2 nodes: 0 REJECTED, 1 UNDECIDED, 1 ACCEPTED")
    assert said[1].startswith("UNDECIDED")
    assert "n2: run run-n2 never finished -> " in said[1]
    path.write_text("no journal at all\n")
    code, said = verdict(capsys, str(folder))
    assert code == 20
    (line,) = (one for one in said if one.startswith("note: ") and "run-n2" in one)
    assert line.count(str(path)) == 1


def test_nothing_there_is_said_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fleet", "verdict", str(tmp_path / "no")]) == 2
    code, lines = verdict(capsys, str(tmp_path), "--expect", "n1")
    assert (code, lines[-1]) == (20, "1 node: 0 REJECTED, 1 UNDECIDED, 0 ACCEPTED")
