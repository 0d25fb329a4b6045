"""What commands print and write: escapes for what is no text, quiet ends, no links followed."""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_anubis.cli.commands import import_command
from pytest_anubis.cli.main import UNREAD, main
from pytest_anubis.cli.shared import progress
from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.printing import ReaderGoneError, say, show
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


def test_progress_names_files_without_their_escapes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "SILENT", -1.0)
    told = progress.Progress("reading")
    monkeypatch.setattr(told, "_last", -100.0)
    told.say("bad\x1b[31m\nACCEPTED: node n accepted.csv")
    assert capsys.readouterr().err == "reading: bad\\x1b[31m\\nACCEPTED: node n accepted.csv\n"


class Gone(io.StringIO):
    """An output that nobody reads."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")


def test_a_reader_who_has_gone_is_no_fault_of_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ReaderGoneError):
        say("x", file=Gone())
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        gone = Gone()
        monkeypatch.setattr(gone, "fileno", nowhere.fileno)
        monkeypatch.setattr(sys, "stdout", gone)
        assert main(["doctor", f"--inventory={RECORDED}"]) == UNREAD


def test_a_command_before_head_ends_quietly() -> None:
    command = [sys.executable, "-m", "pytest_anubis.cli.main", "doctor", f"--inventory={RECORDED}"]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert done.stderr == ""


def test_an_importer_that_is_not_there_is_not_taken_for_another(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("{}")
    options = argparse.Namespace(
        kind="another", run="", hardware_class="", files=[path], node_pattern=None, store=tmp_path
    )
    with pytest.raises(CommandError, match="another: no importer; known are table, superbench"):
        import_command.run(options)


def test_a_recording_follows_no_link_that_lies_there(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    for name in (f".x.json.{os.getpid()}", "x.json"):
        (tmp_path / name).symlink_to(precious)
    done = anubis("doctor", f"--inventory={RECORDED}", "--record", str(tmp_path / "x.json"))
    assert done.returncode == 0, done.stderr
    assert precious.read_text() == "mine"
    assert not (tmp_path / "x.json").is_symlink()
