"""A command that only reads leaves no file behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command_line import anubis


@pytest.mark.parametrize(
    "command",
    [
        ("fleet", "status", "--history"),
        ("judge", "--history"),
        ("learn", "--history"),
        ("risk", "--store"),
    ],
)
def test_a_file_that_is_not_there_is_told_and_not_made(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    path = tmp_path / "nosuch.sqlite"
    result = anubis(*command, f"sqlite:///{path}")
    assert result.returncode == 2
    assert "no such file, so no history is there" in result.stderr
    assert list(tmp_path.iterdir()) == []
