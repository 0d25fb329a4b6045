"""The fidelity table reads what other tools print, and names one that is missing or says something else."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import pytest


@pytest.fixture
def tools() -> Any:
    return importlib.import_module("benchmarks.suites.fidelity.tools")


def says(text: str, code: int = 0) -> list[str]:
    return [sys.executable, "-S", "-c", f"print({text!r}); raise SystemExit({code})"]


def test_numbers_of_every_place_are_told(tools: Any) -> None:
    said = "stream: memory rate: 10.5 MB read/sec, 5 MB write/sec, 1 Mflop\n" * 2
    pattern = r"memory rate: (\d[\d.]*) MB read/sec, (\d[\d.]*) MB write/sec"
    assert tools.told(says(said), pattern) == [10.5, 5.0, 10.5, 5.0]


def test_tool_that_is_missing_fails_or_says_something_else_is_named(tools: Any) -> None:
    with pytest.raises(tools.NotHere, match="no-such-tool not found: apt install tool"):
        tools.program("no-such-tool", "tool")
    with pytest.raises(tools.NotHere, match="ended with 3: 7 MiB/sec"):
        tools.told(says("7 MiB/sec", 3), r"(\d+) MiB/sec")
    with pytest.raises(tools.NotHere, match="ended with 0: fast enough"):
        tools.told(says("fast enough"), r"(\d+) MiB/sec")
