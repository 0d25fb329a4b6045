"""What commands print and write: escapes for what is no text, quiet ends, no links followed."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_anubis.cli.main import main
from pytest_anubis.cli.shared import progress
from pytest_anubis.cli.shared.printing import say, show
from tests.cli.command_line import anubis
from tests.places import RECORDED


def test_a_line_is_one_line_in_any_encoding() -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", newline="")
    say("  größer\x1b[1m\n\ud800", "two", file=out, flush=True)
    show('{"a": "\u2265\n"}', file=out)
    out.flush()
    assert out.buffer.getvalue() == (
        rb"  gr\xf6\xdfer\x1b[1m\n\ud800" b"\ntwo\n" rb'{"a": "\u2265' b'\n"}'
    )


class Terminal(io.StringIO):
    """An output that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_breaks_no_word_and_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    table, command = (
        "metric  value  unit  and  more  columns",
        "next: anubis learn suites/ --for 9m --detect 5%",
    )
    lines = ["  it is too noisy here to show that", table, command, "a word"]
    out, file = Terminal(), io.StringIO()
    say(*lines, file=out)
    say(*lines, file=file)
    assert file.getvalue().splitlines() == lines
    assert out.getvalue().splitlines() == [
        "  it is too noisy here to show", "    that", table, command, "a word",
    ]  # fmt: skip


def test_progress_names_files_without_their_escapes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "SILENT", -1.0)
    progress_line = progress.Progress("reading")
    monkeypatch.setattr(progress_line, "_last", -100.0)
    progress_line.say("bad\x1b[31m\nACCEPTED: node n accepted.csv")
    assert capsys.readouterr().err == "reading: bad\\x1b[31m\\nACCEPTED: node n accepted.csv\n"


class Gone(io.StringIO):
    """An output whose reader has gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")


def test_a_reader_who_has_gone_ends_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    say("x", file=Gone())
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        gone = Gone()
        monkeypatch.setattr(gone, "fileno", nowhere.fileno)
        monkeypatch.setattr(sys, "stdout", gone)
        assert main(["doctor", f"--inventory={RECORDED}"]) == 0


def _unread(*arguments: str) -> int:
    """Run the command with outputs whose readers have gone; return its exit code."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "pytest_anubis.cli.main", *arguments]
    done = subprocess.run(command, stdout=writing, stderr=writing, check=False)
    os.close(writing)
    return done.returncode


def test_a_command_before_head_ends_quietly() -> None:
    command = [sys.executable, "-m", "pytest_anubis.cli.main", "doctor", f"--inventory={RECORDED}"]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.usefixtures("quick_processes")  # the tests around it start and end it as users do
def test_a_closed_output_changes_no_verdict(tmp_path: Path) -> None:
    """A fleet with a slow node: every command that writes does so although ``head`` is satisfied."""
    table = tmp_path / "fleet.csv"
    rows = [
        f"n{node:02},gemm,gemm_rate,TFLOP/s,higher,{100 + (node * 7 + turn * 3) % 5 / 10 - 40 * (node == 3)}"
        for node in range(12)
        for turn in range(4)
    ]
    table.write_text("node,benchmark,metric,unit,better,value\n" + "\n".join(rows) + "\n")
    store, baselines = str(tmp_path / "store"), str(tmp_path / "baselines")
    assert _unread("import", "table", str(table), "--store", store, "--class", "k") == 0
    learned = tmp_path / "learned.html"
    code = _unread("learn", store, "-o", baselines, "--accept-rate", "--html", str(learned))
    assert (code, learned.exists()) == (0, True)
    page, answer = tmp_path / "fleet.html", tmp_path / "verdicts.json"
    judged = ("judge", store, "--baseline", baselines)
    assert _unread(*judged, "--html", str(page), "--json", str(answer)) == 1
    assert page.exists()
    assert answer.exists()
    assert _unread(*judged, "--json", "-") == 1
    dossier, site = tmp_path / "n03.html", tmp_path / "site"
    assert (
        _unread("report", store, "--baseline", baselines, "--node", "n03", "--html", str(dossier))
        == 0
    )
    assert dossier.exists()
    fleet = ("report", "--fleet", store, "--baseline", baselines, "--html", str(site))
    assert _unread(*fleet) == 0
    assert (site / "index.html").exists()
    wrong = tmp_path / "no such folder"
    assert _unread("judge", str(wrong)) == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_an_answer_on_a_full_disk_is_no_success(tmp_path: Path) -> None:
    record = tmp_path / "inventory.json"
    command = [sys.executable, "-m", "pytest_anubis", "doctor", f"--inventory={RECORDED}"]
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [*command, "--record", str(record)],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert record.exists()
    wanted = "anubis doctor: not all that was printed could be written (No space left on device)\n"
    assert (done.returncode, done.stderr) == (2, wanted)


def test_a_closed_output_is_no_fault(tmp_path: Path) -> None:
    record = tmp_path / "inventory.json"
    words = [sys.executable, "-m", "pytest_anubis", "doctor", f"--inventory={RECORDED}"]
    done = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *words, "--record", str(record)],
        stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert record.exists()


def test_a_recording_follows_no_link_that_lies_there(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    for name in (f".x.json.{os.getpid()}", "x.json"):
        (tmp_path / name).symlink_to(precious)
    done = anubis("doctor", f"--inventory={RECORDED}", "--record", str(tmp_path / "x.json"))
    assert done.returncode == 0, done.stderr
    assert precious.read_text() == "mine"
    assert not (tmp_path / "x.json").is_symlink()
