"""What the Selector's hook cannot use is refused with one line, exit code 4, and nothing runs."""

from __future__ import annotations

import shutil
import time

import pytest
import sqlalchemy as sa

from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.database import History
from pytest_anubis.store.history.risk_model_files import MODEL_NAME
from tests.session.selector_story import ALL, DAY, HERE


@pytest.fixture
def story(story: pytest.Pytester) -> pytest.Pytester:
    """The suite and the fleet's past, without a baseline."""
    shutil.rmtree(story.path / "baselines")
    return story


def refused(story: pytest.Pytester, *arguments: str) -> str:
    """Run, and return the one line that says why it was refused."""
    result = story.runpytest("suites", "-p", "no:cacheprovider", *arguments)
    assert result.ret == 4
    text = result.stderr.str()
    assert "Traceback" not in text
    assert not (story.path / ".anubis" / "runs").exists()
    (line,) = [line for line in text.splitlines() if line.strip()]
    return line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--anubis-select=budget"], "needs --anubis-budget, e.g. 20m"),
        (["--anubis-select=budget", "--anubis-budget=soon"], "--anubis-budget: 'soon' is not a"),
        (["--anubis-select=budget", "--anubis-budget=-5m"], "--anubis-budget: '-5m' is not a"),
        (["--anubis-select=budget", "--anubis-budget=0"], "--anubis-budget must be more than 0"),
        (["--anubis-select=risk", "--anubis-budget=5m"], "belongs to --anubis-select=budget"),
        (["--anubis-budget=5m"], "belongs to --anubis-select=budget"),
        (["--anubis-risk=0.1"], "belongs to --anubis-select=risk"),
        (["--anubis-select=risk", "--anubis-risk=1"], "--anubis-risk '1': give a probability"),
        (["--anubis-select=risk", "--anubis-risk=-0.1"], "give a probability"),
        (["--anubis-select=risk", "--anubis-risk=nan"], "give a probability"),
        (["--anubis-select=risk", "--anubis-risk=low"], "give a probability"),
        (["--anubis-select=risk", "--anubis-horizon=0h"], "--anubis-horizon must be more than 0"),
        (["--anubis-select=risk", "--anubis-horizon=week"], "--anubis-horizon: 'week' is not a"),
        (["--anubis-select=cost", "--anubis-incident-cost=x"], "--anubis-incident-cost: 'x'"),
        (["--anubis-select=risk", "--anubis-explore=2"], "--anubis-explore '2'"),
        (["--anubis-select=risk", "--anubis-seed=-1"], "--anubis-seed '-1'"),
        (["--anubis-select=risk", "--anubis-seed=1.5"], "--anubis-seed '1.5'"),
    ],
)
def test_options(story: pytest.Pytester, arguments: list[str], words: str) -> None:
    assert words in refused(story, "--anubis", *arguments)


def test_selecting_without_anubis_is_refused(story: pytest.Pytester) -> None:
    assert "belongs to --anubis; add that" in refused(story, "--anubis-select=risk")


def test_settings_of_the_ini_file_wait_for_their_mode(story: pytest.Pytester) -> None:
    story.makeini(
        "[pytest]\nanubis_budget = 20m\nanubis_risk = 0.02\nanubis_horizon = 12h\n"
        "anubis_select = all\n"
    )
    result = story.runpytest("suites", "-p", "no:cacheprovider", "--collect-only", "-q")
    assert result.ret == 0
    result = story.runpytest("suites", "-p", "no:cacheprovider", "--anubis", "--collect-only")
    assert result.ret == 20  # nothing was judged
    result.stdout.fnmatch_lines(["anubis: selecting by all: risk of an incident in 12 h *"])


def test_an_unknown_mode_is_refused(story: pytest.Pytester) -> None:
    result = story.runpytest("suites", "--anubis", "--anubis-select=luck")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*--anubis-select*'luck'*"])


def insert(story: pytest.Pytester, **facts: float | str | None) -> None:
    """Put an incident into the database that our own commands would refuse."""
    with History(story.path / ".anubis") as history, history.writing() as connection:
        nodes = schema.nodes
        number = connection.execute(sa.select(nodes.c.id).where(nodes.c.name == HERE)).scalar_one()
        connection.execute(
            schema.incidents.insert().values(
                {"node_id": number, "kind": "nic", "started": time.time() - DAY, **facts}
            )
        )


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"started": time.time() + 30 * DAY}, "lies in the future"),
        ({"duration": -5.0}, "negative duration"),
    ],
)
def test_a_history_that_makes_no_sense(
    story: pytest.Pytester, facts: dict[str, float], words: str
) -> None:
    insert(story, **facts)
    line = refused(story, "--anubis", "--anubis-select=risk")
    assert words in line
    assert f"node '{HERE}'" in line


def unread(story: pytest.Pytester) -> str:
    """Run with a history that cannot be read, and return what was said: nothing is left out."""
    result = story.runpytest("suites", "--anubis", "--anubis-select=risk", "-W", "default")
    assert result.ret == 20  # there is no baseline
    result.assert_outcomes(skipped=len(ALL), warnings=2)
    return result.stdout.str()


def test_a_history_of_another_schema(story: pytest.Pytester) -> None:
    with History(story.path / ".anubis") as history, history.writing() as connection:
        connection.execute(schema.meta.update().values(value="99"))
    assert "history of schema 99, this version reads 2" in unread(story)


def test_a_history_that_is_none(story: pytest.Pytester) -> None:
    (story.path / ".anubis" / "history.sqlite").write_bytes(b"not a database" * 100)
    for rest in (story.path / ".anubis").glob("history.sqlite-*"):
        rest.unlink()
    said = unread(story)
    assert "file is not a database; name another store" in said
    assert "; nothing is left out" in said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"format": "anubis-risk-model", "schema": 1}', "schema '1', this version reads 2"),
        ("{}", "not a risk model"),
        ("PK\\x03", "not valid JSON"),
        (
            '{"format": "anubis-risk-model", "schema": 2, "kinds": [], "nodes": 3, "incidents": 3, '
            '"hours": 9.0, "model": '
            '{"schema": 1, "model": "oracle"}}',
            "'oracle' is none of",
        ),
        (
            '{"format": "anubis-risk-model", "schema": 2, "kinds": [], "nodes": 3, "incidents": 3, '
            '"hours": 9.0, "model": '
            '{"schema": 1, "model": "weibull", "covariates": {"names": 1.5}, "parameters": {}}}',
            "field 'names' is no list",
        ),
        (
            '{"format": "anubis-risk-model", "schema": 2, "kinds": [], "nodes": 3, "incidents": 3, '
            '"hours": 9.0, "model": '
            '{"schema": 1, "model": "weibull", "covariates": {"names": [], "median": 1'
            + "0" * 400
            + '}, "parameters": {}}}',
            "field 'median' is missing or no list of numbers",
        ),
    ],
)
def test_a_risk_model_that_cannot_be_used(story: pytest.Pytester, text: str, words: str) -> None:
    (story.path / ".anubis" / MODEL_NAME).write_text(text)
    line = refused(story, "--anubis", "--anubis-select=risk")
    assert words in line
    assert MODEL_NAME in line
