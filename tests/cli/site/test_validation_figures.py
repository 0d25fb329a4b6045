"""How validation itself does: the page and fleet status count a simulated history as a hand does."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from pytest_anubis.store.fleet import validation_runs
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.database import History
from tests.cli.command_line import anubis
from tests.cli.site.validated_fleet import (
    BEGIN,
    COPY,
    STREAM,
    figures_of_all,
    file_and_close,
    write_journals,
)
from tests.report.page_rules import Rules


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with journals in ``collected``, and a history that has all of them."""
    folder = tmp_path_factory.mktemp("validated")
    write_journals(folder / "collected")
    file_and_close(folder / "collected", folder / "history")
    return folder


def figures(*given: str) -> dict[str, Any]:
    """Return the figures that fleet status prints for programs."""
    done = anubis("fleet", "status", *given, "--json", "-")
    assert done.returncode == 1, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["validation"]
    return found


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return list(map(_rounded, value))
    return round(float(value), 6) if isinstance(value, float | int) else value


def section(page: Path) -> str:
    """Return the text of the page's section."""
    found = re.search(r"<h2 id='validation'>.*?(?=<h2|</main>)", page.read_text("utf-8"), re.DOTALL)
    assert found, "no section"
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", found[0])).split())


def test_figures_of_a_history_are_those_counted_by_hand(place: Path) -> None:
    found = figures("--history", str(place / "history"))
    assert _rounded(found) == _rounded(figures_of_all())


def test_figures_of_journals_lack_the_defects_only(place: Path) -> None:
    found = figures(str(place / "collected"))
    assert _rounded(found) == _rounded(figures_of_all(defects=False))


def test_the_chosen_nodes_and_time_alone_count(place: Path) -> None:
    history = ("--history", str(place / "history"))
    one = figures(*history, "--nodes", "n2,n5")
    assert (one["runs"], one["accepted"], one["rejections"]["confirmed"]) == (3, 1, 1)
    assert (one["rejections"]["false_alarms"], one["rejections"]["share"]) == (0, 0.0)
    late = figures(*history, "--since", (BEGIN.date().replace(day=2)).isoformat())
    assert (late["runs"], late["days"], late["rejections"]["confirmed"]) == (6, 3, 0)


def test_the_page_shows_the_figures(place: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    done = anubis("report", "--fleet", str(place / "history"), "--html", str(site))
    assert done.returncode == 0, done.stderr
    page = site / "index.html"
    assert Rules(page.read_text("utf-8")).wrong == []
    text = section(page)
    assert "accepted a day: 1 (4 on 4 days" in text
    assert "1 of 2 closed rejections, 50 %" in text
    assert re.search(r"test_copy 8 0\.02667 1 - 8 1\.2 2\.5", text)
    assert re.search(r"test_stream 8 0\.2139 0 0 8 1 6\.2", text)


def test_figures_of_the_latest_runs_say_so(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validation_runs, "MAX_RUNS", 6)
    history = str(place / "history")
    found = figures("--history", history)
    assert (found["runs"], found["older"]) == (6, 2)
    site = tmp_path / "site"
    done = anubis("report", "--fleet", "--history", history, "--html", str(site))
    assert done.returncode == 0, done.stderr
    assert "From the latest 6 of 8 runs." in section(site / "index.html")


def test_the_page_of_journals_says_that_defects_are_unknown(place: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = anubis("judge", str(place / "collected"), "--html", str(page))
    assert done.returncode in (1, 20), done.stderr
    text = section(page)
    assert "False alarms: unknown" in text
    assert re.search(r"test_copy 8 0\.02667 - - 8 1\.2", text)


def test_a_fleet_of_tables_says_that_nothing_is_known(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("node,benchmark,metric,unit,better,value\nn1,b,rate,GB/s,higher,1\n")
    done = anubis("report", "--fleet", str(table), "--html", str(tmp_path / "site"))
    assert done.returncode == 0, done.stderr
    text = section(tmp_path / "site" / "index.html")
    for what in ("Nodes accepted a day", "False alarms", "Times"):
        assert f"{what}: unknown" in text


def test_an_empty_history_has_no_figures(tmp_path: Path) -> None:
    given = ("--history", str(tmp_path))
    (tmp_path / "nodes.csv").write_text("node\nn1\n")
    assert anubis("history", "nodes", "import", str(tmp_path / "nodes.csv"), *given).returncode == 0
    found = json.loads(anubis("fleet", "status", *given, "--json", "-").stdout)["validation"]
    assert (found["runs"], found["accepted_per_day"], found["benchmarks"]) == (0, None, [])
    assert found["rejections"]["share"] is found["rejections"]["interval"] is None


def test_runs_of_an_older_version_have_no_times(place: Path, tmp_path: Path) -> None:
    history = tmp_path / "history"
    file_and_close(place / "collected", history)
    with History(history) as opened, opened.writing() as connection:
        rows = schema.judgements
        first = sa.select(sa.func.min(rows.c.run_id)).scalar_subquery()
        connection.execute(rows.update().where(rows.c.run_id == first).values(packed=b"damaged"))
    found = figures("--history", str(history))
    assert (found["runs"], found["timed"], found["accepted"]) == (8, 7, 4)
    copy = next(one for one in found["benchmarks"] if one["benchmark"] == COPY)
    stream = next(one for one in found["benchmarks"] if one["benchmark"] == STREAM)
    assert (copy["runs"], stream["runs"]) == (7, 7)
