"""Where the history of a run is: in its store, in another folder, or in the database of a fleet."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_anubis.store.history.database import History
from pytest_anubis.store.history.defect_records import defects
from tests.postgres import new_database
from tests.session.selector_story import ALL, HERE, write_baseline, write_history, write_suite

CHOICE = ("--anubis-select=risk", "--anubis-horizon=30d", "--anubis-risk=0.1", "--anubis-explore=0")


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    for name in ("STORE", "PROFILE", "HISTORY"):
        monkeypatch.delenv(f"PYTEST_ANUBIS_{name}", raising=False)
    write_suite(pytester.path)
    return pytester


def chosen(suite: pytest.Pytester, *arguments: str) -> set[str]:
    result = suite.runpytest("--anubis", "suites", *CHOICE, *arguments, "--collect-only", "-q")
    assert result.ret == 20  # nothing was judged
    return set(re.findall(r"^(suites/\S+::\S+)$", result.stdout.str(), flags=re.MULTILINE))


def test_a_folder_elsewhere(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    write_history(suite.path / "fleet", defects=50)
    assert chosen(suite) == set(ALL)  # nothing is known in the store
    few = chosen(suite, "--anubis-history=fleet")
    assert 5 < len(few) < 25
    monkeypatch.setenv("PYTEST_ANUBIS_HISTORY", "fleet")
    assert chosen(suite) == few
    monkeypatch.delenv("PYTEST_ANUBIS_HISTORY")
    suite.makeini("[pytest]\nanubis_history = fleet\n")
    assert chosen(suite) == few


def test_the_database_of_a_fleet(suite: pytest.Pytester, postgres_url: str) -> None:
    url = new_database(postgres_url, "hook")
    write_history(url, defects=50)
    write_history(suite.path / "fleet", defects=50)
    few = chosen(suite, f"--anubis-history={url}")
    assert few == chosen(suite, "--anubis-history=fleet") < set(ALL)
    # A rejected run leaves its defect there, and nothing but its journal in the store.
    write_baseline(suite.path)
    write_suite(suite.path, values="[50 + 0.1 * (i % 5) for i in range(20)]")
    result = suite.runpytest("--anubis", "suites", f"--anubis-history={url}", *CHOICE)
    assert result.ret == 1
    with History(url) as history:
        found = defects(history, node=HERE, state="open")
        assert len(history.node_history(HERE)) == 1
    assert len(found) == 1
    assert found[0].benchmarks
    assert not (suite.path / ".anubis" / "history.sqlite").exists()


def test_a_database_that_cannot_be_reached_is_one_line(suite: pytest.Pytester) -> None:
    url = "postgresql+psycopg://me:secret@127.0.0.1:1/x"
    result = suite.runpytest("--anubis", "suites", *CHOICE, f"--anubis-history={url}")
    assert result.ret == 20  # as without a history: there is no baseline
    shown = "postgresql+psycopg://me:***@127.0.0.1:1/x: "
    text = result.stdout.str() + result.stderr.str()
    assert f"--anubis-select: the history cannot be read: {shown}" in text
    assert f"this run is not in the history: {shown}" in text
    assert "secret" not in text
    for file in Path(suite.path).glob(".anubis/**/*.json*"):
        assert "secret" not in file.read_text()
        assert file.parent.name == "nodes" or "me:***@127" in file.read_text()


@pytest.mark.parametrize("place", [".anubis", "fleet"])
def test_lost_history_is_begun_anew(with_baseline: pytest.Pytester, place: str) -> None:
    seen = []
    for number in range(4):
        if number == 2:
            (with_baseline.path / place / "history.sqlite").unlink()
        result = with_baseline.runpytest("--anubis", f"--anubis-history={place}")
        assert result.ret == 0
        seen.append(f"{place} is new: 2 runs" in result.stdout.str())
    assert seen == [False, False, True, False]


@pytest.mark.usefixtures("in_workers")
def test_workers_are_not_told_the_password(suite: pytest.Pytester) -> None:
    suite.makeconftest(
        "def pytest_configure(config):\n"
        "    if hasattr(config, 'workerinput'):\n"
        "        open('inputs', 'w').write(repr(config.workerinput))\n"
    )
    url = "postgresql+psycopg://me:secret@127.0.0.1:1/x"
    suite.runpytest("--anubis", "suites/test_training_step.py", f"--anubis-history={url}")
    inputs = (suite.path / "inputs").read_text()
    assert "me:***@127.0.0.1:1/x" in inputs
    assert "secret" not in inputs
