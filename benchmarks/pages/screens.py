"""Screens of ``docs/first-run.md``: a run on the terminal that is accepted, rejected or undecided.

Run: ``python benchmarks/pages/screens.py``; ``--write`` puts them into the page. A node with eight cards is
simulated: its inventory is a recorded one, and its benchmark reads its values from a file.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

import pytest

from benchmarks import ROOT
from pytest_anubis.hardware.inventory.hardware_classes import hardware_class
from pytest_anubis.hardware.telemetry.recorded_node import replay
from tests.golden.asking import ask

NODE = ROOT / "tests" / "data" / "recorded_8gpu.json"
PAGE = ROOT / "docs" / "first-run.md"
BEGIN, END = (
    "<!-- screens: python benchmarks/pages/screens.py --write -->\n",
    "<!-- end of screens -->\n",
)
WIDTH = "110"
"""Columns, as wide as the page shows."""

VALUES = 30
"""Values of each card, enough for the search for changes within the run."""

SUITE = """
import json
from pathlib import Path

import pytest


@pytest.mark.anubis(
    component="accelerator.memory", scope="device", metrics=["copy_rate"], goal="full speed of every card",
    question="does every card's memory carry its full rate?", action="reseat the card, then swap it",
)
def test_copy(anubis_metric, anubis_device):
    values = json.loads(Path("values.json").read_text())[anubis_device.name]
    if isinstance(values, str):
        pytest.skip(values)
    anubis_metric.record("copy_rate", values, unit="GB/s", better="higher")
"""


@dataclass(frozen=True, kw_only=True)
class Screen:
    """A run that is simulated.

    Attributes:
        title: The decision.
        faults: Card -> the factor of its healthy values, or the reason why its test is skipped.
        next: The operator's next step.
        shown: Whether the page shows it.
    """

    title: str
    faults: Mapping[str, float | str]
    next: str
    shown: bool = True


SCREENS = (
    Screen(
        title="Accepted",
        faults={},
        next="",
        shown=False,
    ),
    Screen(
        title="Rejected",
        faults={"cuda:5": 0.8},
        next="Next: follow the next step at the slot that is named, and run again; the node takes no work "
        "until then. `anubis report latest --html dossier.html` writes the page for the repair. For a known "
        "fault: [waivers](waivers.md).",
    ),
    Screen(
        title="Undecided",
        faults={"cuda:3": "nvbandwidth is not installed"},
        next="Next: take away what prevents acceptance (here: install the tool) and run again.",
    ),
)


def healthy(node: int, card: int) -> list[float]:
    """Return the values of a healthy card, GB/s, the same on every machine."""
    chance = random.Random(100 * node + card)
    unit = 3000 * (1 + chance.gauss(0, 0.002))
    return [round(unit * (1 + chance.gauss(0, 0.001)), 2) for _ in range(VALUES)]


def screens(pages: Path | None = None) -> str:
    """Simulate the runs; return those that the page shows.

    Args:
        pages: Folder for the HTML pages of each run and of the baseline; None makes none.
    """
    pages = None if pages is None else pages.resolve()
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        folder = Path(name)
        (folder / "pytest.ini").write_text("[pytest]\n")
        (folder / "test_cards.py").write_text(SUITE)
        shutil.copy(NODE, folder / "node.json")
        _learn(folder, pages)
        played = [(one.shown, _screen(folder, one, pages)) for one in SCREENS]
        return "\n".join(text for shown, text in played if shown)


def _learn(folder: Path, pages: Path | None) -> None:
    """Learn a baseline from eight healthy nodes of the class."""
    key = hardware_class(replay(NODE).inventory, "smoke", lanes="alone")[0]
    rows = ["node,device,benchmark,metric,unit,better,component,value,class"]
    rows += [
        f"n{node},cuda:{card},test_cards.py::test_copy,copy_rate,GB/s,higher,accelerator.memory,{value},{key}"
        for node in range(8)
        for card in range(8)
        for value in healthy(node, card)
    ]
    (folder / "fleet.csv").write_text("\n".join(rows) + "\n")
    page = () if pages is None else ("--html", str(pages / "learned.html"))
    learned = ask(["learn", "fleet.csv", "--error-rate", "none", *page], folder)
    if learned.code:
        raise SystemExit(learned.err)


def _screen(folder: Path, screen: Screen, pages: Path | None) -> str:
    name = screen.title.lower()
    values: dict[str, Any] = {f"cuda:{card}": healthy(9, card) for card in range(8)}
    for card, fault in screen.faults.items():
        skipped = isinstance(fault, str)
        values[card] = fault if skipped else [round(fault * v, 2) for v in values[card]]
    (folder / "values.json").write_text(json.dumps(values))
    out = io.StringIO()
    options = (
        *("-p", "no:xdist", "-p", "no:cacheprovider"),
        *("-p", "tests.quiet"),  # ignores the load of this machine
        *(("-p", "no:html") if pages is None else _html(pages / f"{name}-report.html")),
        "--color=no",
        "--tb=short",
    )
    ours = ("--anubis", "--anubis-inventory=node.json", f"--anubis-run-id={name}")
    environment = {"COLUMNS": WIDTH, "PYTEST_ADDOPTS": ""}
    with mock.patch.dict(os.environ, environment), contextlib.redirect_stdout(out):
        code = int(pytest.main([*options, *ours, "test_cards.py"]))
    if pages is not None:
        ask(["report", name, "--html", str(pages / f"{name}-dossier.html")], folder)
        run = f".anubis/runs/{name}"
        ask(["judge", run, "--html", str(pages / f"{name}-judged.html")], folder)
        ask(["fleet", "verdict", run, "--html", str(pages / f"{name}-verdict.html")], folder)
    shown = _steady(out.getvalue().replace(f"{folder}{os.sep}", ""))
    return f"### {screen.title}, exit code {code}\n\n```\n{shown}```\n\n{screen.next}\n"


def _html(page: Path) -> tuple[str, str]:
    return f"--html={page}", "--self-contained-html"


def _steady(text: str) -> str:
    """Return the output from the dots on, without what differs between runs."""
    _, _, text = text.partition("test_cards.py ")
    text = re.sub(r"sha256:[0-9a-f]+", "sha256:" + 12 * ".", text)
    text = re.sub(r" in \d+\.\d+s", "", text)
    lines = [line.rstrip() for line in f"test_cards.py {text}".splitlines()]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the screens, or put them into the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"put them into {PAGE.name}")
    options = parser.parse_args()
    text = screens() if options.write else ""
    if not text:
        sys.stdout.write(screens())
        return
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
