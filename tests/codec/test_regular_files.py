"""A file from outside that is no regular one is refused at once by every command."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

from pytest_anubis.cli.main import main
from pytest_anubis.codec.regular_files import open_regular


@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "folder", "link to a pipe"])
def test_only_regular_files_are_opened(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    if kind == "device":
        path = Path("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(str(path))
    else:
        place = path if kind == "pipe" else tmp_path / "pipe"
        os.mkfifo(place)
        if place != path:
            path.symlink_to(place)
    with pytest.raises(OSError, match=r"."):
        open_regular(path)


def test_a_regular_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    with open_regular(tmp_path / "x") as file:
        assert file.read() == b"abc"


COMMANDS = (
    "judge c",
    "learn c -o out",
    "fleet verdict c",
    "fleet status c",
    "fleet drain-list c",
    "fleet verdict c --expect @pipe",
    "fleet status c --nodes-file pipe",
    "push c --history h",
    "export c --parquet out",
    "baseline list folder",
    "baseline show folder/k.json",
    "judge c --baseline folder",
    "fleet plan --nodes-file pipe --history h3",
    "report c/x",
    "report c",
    "judge c --waivers pipe",
    "judge c --baseline pipe.json",
    "judge pipe.csv",
    "judge pipe.npz",
    "judge pipe.parquet",
    "import table pipe.csv --store s",
    "import fio pipe --store s --node n1",
    "import superbench pipe.jsonl --store s",
    "import nccl pipe --store s --node n1",
    "health --store s2 --node n1",
    "history nodes import pipe.csv --history h2",
    "history incident import pipe.csv --history h2",
    "goals . --store s3",
    "seal c/x --key pipe -o sealed.zip",
    "verify pipe --key pipe",
)


@pytest.mark.parametrize("words", COMMANDS)
def test_no_command_waits_for_a_pipe(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("c/x", "s2/nodes", "s3/runs/r", "folder"):
        Path(folder).mkdir(parents=True)
    ends = ("pipe", "pipe.json", "pipe.csv", "pipe.npz", "pipe.parquet", "pipe.jsonl")
    for name in (
        *ends,
        "folder/k.json",
        "c/x/journal.jsonl",
        "s2/nodes/n1.json",
        "s3/runs/r/journal.jsonl",
    ):
        os.mkfifo(name)
    ended: list[object] = []

    def run() -> None:
        try:
            ended.append(main(words.split()))
        except SystemExit as error:
            ended.append(error.code)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(60)
    assert ended, "it waits"
    assert ended[0] != 0
    assert "Traceback" not in capsys.readouterr().err
