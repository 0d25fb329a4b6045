"""Whole histories are drawn: whatever is asked, in whatever order things came, says what a small model says.

``ANUBIS_HISTORIES=2000 pytest tests/store/history/sequences`` draws that many in place of thirty-two.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.codec.moments import moment
from pytest_anubis.store.baselines.baseline_files import save_baseline
from pytest_anubis.store.history.run_filing import file_finished
from pytest_anubis.store.node_standing import keep_begun, keep_ended
from tests.cli.command_line import anubis
from tests.store.history.sequences.journals import write_journal
from tests.store.history.sequences.node_model import (
    excuses,
    of_history,
    of_journals,
    of_judged,
    of_tables,
)
from tests.store.history.sequences.statements import (
    BEGIN,
    DAY,
    Statement,
    baseline,
    drawn,
    write_table,
)

AT_ONCE = 16  # nodes of a fleet
FLEETS = max(1, int(os.environ.get("ANUBIS_HISTORIES", "32")) // (2 * AT_ONCE))
PLACES = {"REJECTED": "REJECTED", "RETEST": "REJECTED", "ACCEPTED": "ACCEPTED"}
Fleet = Mapping[str, Sequence[Statement]]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("baselines").mkdir()
    save_baseline(baseline(), Path("baselines"))
    return tmp_path


def fleet(seed: int, *, tables: bool) -> dict[str, list[Statement]]:
    draw = random.Random(seed)
    names = [f"n{number:02d}" for number in range(AT_ONCE)]
    return {
        name: [
            replace(one, run=f"{name}-{one.run}")
            for one in drawn(random.Random(draw.random()), tables=tables)
        ]
        for name in names
    }


def asked(*words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(anubis(*words, "--json", "-").stdout)
    return found


def short(node: str) -> str:
    return node.partition(".")[0]


def placed(*where: str) -> dict[str, str]:
    """Return where the fleet's status has every node; the list of those to be drained says the same."""
    nodes = asked("fleet", "status", *where)["nodes"]
    found = {short(one["node"]): PLACES.get(one["is"], "UNDECIDED") for one in nodes}
    drained = {short(one["node"]) for one in asked("fleet", "drain-list", *where)["nodes"]}
    assert drained == {node for node, decision in found.items() if decision == "REJECTED"}
    return found


def judged(*words: str) -> dict[str, str]:
    return {short(one["node"]): one["decision"] for one in asked(*words)["nodes"]}


def health(node: str, store: Path | str) -> str:
    return str(asked("health", "--node", node, "--store", str(store))["decision"])


def by(model: Callable[[Sequence[Statement]], str], found: Fleet) -> dict[str, str]:
    return {node: model(statements) for node, statements in found.items()}


@pytest.mark.parametrize("seed", range(FLEETS))
def test_tables_in_any_order(seed: int, here: Path) -> None:
    found = fleet(seed, tables=True)
    for node, statements in found.items():
        for one in statements:
            write_table(Path(f"{one.run}.csv"), {node: one})
    tables = [str(path) for path in sorted(here.glob("*.csv"))]
    assert anubis("import", "table", *tables, "--store", "all").returncode == 0
    imports = [str(path) for path in sorted(Path("all/imports").iterdir())]
    assert judged("judge", "all/imports") == by(of_tables, found)
    random.Random(seed).shuffle(imports)
    half = len(imports) // 2
    for several in (imports[:half], imports[half // 2 :], imports, imports[:half]):
        assert anubis("push", *several, "--history", "pushed").returncode == 0
    assert anubis("push", "all", "--history", "all").returncode == 0
    expected = by(of_history, found)
    for history in ("pushed", "all"):
        assert placed("--history", history) == expected
    for node in list(found)[:4]:
        assert health(node, "pushed") == expected[node]


@pytest.mark.parametrize("seed", range(FLEETS))
def test_runs_in_any_order(seed: int, here: Path) -> None:
    found = fleet(seed, tables=False)
    for node, statements in found.items():
        last = ""
        for number, one in enumerate(sorted(statements, key=lambda one: one.day)):
            name = f"{node}.cluster.example" if node > "n10" and number % 2 else node
            last = _ran(here / "nodes" / node, name, one, last)
    expected = by(of_journals, found)
    journals = [str(path) for path in sorted(here.glob("nodes/*/runs/*/journal.jsonl"))]
    for path in journals:
        os.utime(path, (BEGIN, BEGIN))  # it is not being written
    assert {node: health(node, f"nodes/{node}") for node in found} == expected
    assert placed("nodes") == expected
    assert judged("fleet", "verdict", "nodes") == expected
    # The mean of all devices differs from a device that failed in a truncated run.
    excused = {node for node, statements in found.items() if any(map(excuses, statements))}
    plain = {node: statements for node, statements in found.items() if node not in excused}
    said = judged("judge", "nodes")
    assert {node: said[node] for node in plain} == by(of_judged, plain)
    random.Random(seed).shuffle(journals)
    half = len(journals) // 2
    for several in (journals[:half], journals[half:], journals[half // 2 :]):
        assert anubis("push", *several, "--history", "pushed").returncode == 0
    assert placed("--history", "pushed") == expected
    assert anubis("history", "retain", "--runs", "1d", "--history", "pushed").returncode == 0
    assert placed("--history", "pushed") == expected
    for node in [name for name, decision in expected.items() if decision == "REJECTED"][:4]:
        if any(one.waived for one in found[node]):
            continue  # only a later pass answers for what a waiver covered
        store = f"nodes/{node}"
        for defect in asked("history", "defect", "list", "--history", store)["defects"]:
            close = ("history", "defect", "close", str(defect["number"]), "--as", "confirmed")
            assert anubis(*close, "--history", store).returncode == 0
        answers = {health(node, store), *placed("--history", store).values()}
        answers |= {*judged("fleet", "verdict", store).values(), *judged("judge", store).values()}
        assert answers == {"UNDECIDED"}, node


def _ran(store: Path, node: str, one: Statement, after: str) -> str:
    """Write a run into its node's store, as a session leaves it; return the latest run with a verdict."""
    keep_begun(store, node, one.run, began=BEGIN + one.day * DAY)
    record = write_journal(store, node, one, after=after)
    if one.broken == "killed":
        return after
    assert not keep_ended(store, record, ended=moment(record.ended) or 0.0, reason="")
    journal = store / "runs" / one.run / "journal.jsonl"
    said = file_finished(store, store, record, journal=journal)
    assert not said or said.endswith("one machine"), said
    return one.run
