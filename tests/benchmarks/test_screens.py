"""The screens in the documentation are what a run prints today."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

screens: Any = importlib.import_module("benchmarks.pages.screens")


@pytest.mark.usefixtures("pytester")  # puts back what runs inside this process change
def test_the_page_shows_what_runs_print() -> None:
    _, _, rest = screens.PAGE.read_text(encoding="utf-8").partition(screens.BEGIN)
    shown = screens.screens()
    assert [line for line in shown.splitlines() if line.startswith("### ")] == [
        *("### Rejected, exit code 1", "### Undecided, exit code 20")
    ]
    assert rest.partition(screens.END)[0].strip() == shown.strip(), (
        "python benchmarks/pages/screens.py --write"
    )
