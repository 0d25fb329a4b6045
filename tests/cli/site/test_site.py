"""``anubis report --fleet``: pages of a small simulated fleet say what was planted; links lead somewhere."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.cli.shared.collected_judging import judge_collected, rows_of
from pytest_anubis.cli.shared.node_runs import NodeRuns
from pytest_anubis.cli.site.site_writing import _node_files
from pytest_anubis.core.verdict import Outcome
from pytest_anubis.report.fleet.fleet_view import MARKS
from pytest_anubis.store.baselines.baseline_files import load_baselines
from pytest_anubis.store.collected_runs import read_runs
from tests.cli.command_line import anubis
from tests.cli.site.simulated_fleet import found, simulate
from tests.cli.test_untrusted_text import EVIL
from tests.golden.runs import RUNS
from tests.report.page_rules import Rules

HEAD = "node,class,benchmark,metric,unit,better,component,value\n"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("fleet")
    planted = simulate(folder, nodes=240, metrics=6)
    assert anubis("learn", str(folder / "healthy"), "-o", str(folder / "base")).returncode == 0
    given = ("--baseline", str(folder / "base"), "--html", str(folder / "site"))
    done = anubis("report", "--fleet", str(folder / "runs"), *given)
    assert done.returncode == 0, done.stderr
    assert f"written: {folder / 'site' / 'index.html'}" in done.stdout
    return folder / "site", planted


def test_the_page_begins_with_what_is_wrong(fleet: tuple[Path, Any]) -> None:
    site, planted = fleet
    facts = found((site / "index.html").read_text("utf-8"), planted)
    assert [name for name, true in facts if not true] == []


def test_every_link_leads_to_a_page_and_its_place(fleet: tuple[Path, Any]) -> None:
    site, _ = fleet
    pages = {page.relative_to(site): page.read_text("utf-8") for page in site.rglob("*.html")}
    assert len(pages) == 1 + 6 + 240
    names = {page: set(re.findall(r" id='([^']+)'", text)) for page, text in pages.items()}
    checked = 0
    for page, text in pages.items():
        for place in set(re.findall(r"href='([^'#][^']*)'", text)):
            file, _, anchor = place.partition("#")
            target = (site / page.parent / file).resolve().relative_to(site.resolve())
            assert target in pages, f"{page}: {place}"
            assert not anchor or anchor in names[target], f"{page}: {place}"
            checked += 1
    assert checked > 400
    index = pages[Path("index.html")]
    data = json.loads(re.findall(r"id='fleet'>(.*?)</script>", index)[0])
    for node in data["nodes"]:
        assert set(node[6].values()) <= names[Path(node[3])]
    for text in list(pages.values())[::25]:
        assert "the whole fleet</a>" in text or "id='fleet'" in text


def test_the_pages_keep_the_rules(fleet: tuple[Path, Any]) -> None:
    site, _ = fleet
    for page in [site / "index.html", *sorted((site / "metrics").iterdir())[:3]]:
        assert Rules(page.read_text("utf-8")).wrong == [], page.name


def test_clear_passes_are_short_and_alike(fleet: tuple[Path, Any]) -> None:
    folder = fleet[0].parent
    read = read_runs([folder / "runs"])
    judged = judge_collected(read, load_baselines(folder / "base"))
    runs = NodeRuns(read, judged)
    short = 0
    for row in rows_of(judged)[::40]:
        full, brief = runs.run_of(row), runs.run_of(row, brief=True)
        assert full.measurements == brief.measurements
        for one, other in zip(full.verdicts, brief.verdicts, strict=True):
            expected = dataclasses.replace(
                other, text=one.text, certainty=one.certainty, percentile=one.percentile
            )
            assert expected == one
            short += not other.text
            assert other.text or (one.outcome is Outcome.PASS and (one.loss or 0) < 0.03)
    assert short > 40


def test_the_register_comes_from_the_history(here: Path) -> None:
    nodes = [f"n{number:02d}" for number in range(12)]
    rows = "".join(
        f"{node},c,b,rate,GB/s,higher,,{100 + at % 3}\n" for at, node in enumerate(nodes)
    )
    Path("t.csv").write_text(HEAD + rows)
    register = "".join(f"{node},r{at % 2},S{at}\n" for at, node in enumerate(nodes))
    Path("list.csv").write_text("node,rack,serial\n" + register)
    url = "sqlite:///fleet.sqlite"
    assert anubis("push", "t.csv", "--history", url).returncode == 0
    assert anubis("history", "nodes", "import", "list.csv", "--store", url).returncode == 0
    done = anubis("report", "--fleet", url, "--html", "site")
    assert done.returncode == 0, done.stderr
    data = Path("site/index.html").read_text("utf-8")
    assert "rack" in data
    assert "S11" not in data  # a serial number is no trait


def test_journals_have_costs_and_plain_failures(here: Path) -> None:
    for name in ("slow-card", "accepted", "faults"):
        shutil.copytree(RUNS / name, f"runs/{name}")
    assert anubis("report", "--fleet", "runs", "--html", "site").returncode == 0
    page = Path("site/index.html").read_text("utf-8")
    assert Rules(page).wrong == []
    times = page[page.index("id='times'") :]
    assert "aria-label='time spent by benchmark'" in times
    assert f"{MARKS[Outcome.FAIL]} wrong</a>" in page
    for node in Path("site/nodes").iterdir():
        assert "href='../index.html'" in node.read_text("utf-8")


def table(folder: Path, *names: str) -> Path:
    runs = folder / "runs"
    runs.mkdir()
    rows = "".join(
        f'"{n}",c,t.py::test_a,rate,GB/s,higher,memory,{100 + k % 3}\n'
        for n in names
        for k in range(3)
    )
    (runs / "t.csv").write_text(HEAD + rows, encoding="utf-8", errors="surrogatepass")
    return runs / "t.csv"


def test_only_our_own_pages_are_replaced(here: Path) -> None:
    runs = table(here, "n1", "n2")
    for _ in range(2):
        assert anubis("report", "--fleet", str(runs), "--html", "site").returncode == 0
    assert (here / "site/nodes/node-n1.html").stat().st_mode & 0o777 == 0o644
    shutil.rmtree("site")
    Path("site").mkdir()
    Path("site/index.html").write_text("mine")
    for place, words in (
        ("site", "no page of a fleet"),
        ("runs/t.csv", "cannot be used as a folder"),
    ):
        refused = anubis("report", "--fleet", str(runs), "--html", place)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert words in refused.stderr
    assert Path("site/index.html").read_text() == "mine"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--fleet", "runs/t.csv"), "add --html DIR"),
        (("--fleet", "nothing", "--html", "s"), "nothing: no such file or folder"),
        (
            ("--fleet", "runs/t.csv", "--html", "s", "--node", "n1"),
            "--node does not go with --fleet",
        ),
        (("latest2", "--html", "s", "--fleet", "runs/t.csv"), "RUN does not go with --fleet"),
        (
            ("--fleet", "runs/t.csv", "--html", "s", "--nodes-file", "no.csv"),
            "no.csv: cannot be read",
        ),
        (("--nodes-file", "no.csv"), "no runs yet"),
    ],
)
def test_what_cannot_be_done_is_one_line(given: tuple[str, ...], words: str, here: Path) -> None:
    table(here, "n1")
    refused = anubis("report", *given)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert words in refused.stderr
    assert not Path("s").exists()


def test_racks_come_from_a_table_of_nodes(here: Path) -> None:
    runs = table(here, "n1", "n2", "n3", "n4")
    register = "Node,Rack,serial\nn1,left,s1\nn2,left,s2\nn3,right,s3\nn4,right,s4\n"
    Path("mine.csv").write_text(register)
    done = anubis("report", "--fleet", str(runs), "--nodes-file", "mine.csv", "--html", "a")
    assert done.returncode == 0
    assert "<option value='0 left'>rack left (2)</option>" in Path("a/index.html").read_text()
    anubis("import", "table", str(runs), "--store", "collected")
    shutil.copy("mine.csv", "collected/nodes.csv")
    anubis("report", "--fleet", "collected", "--html", "b")
    assert "<option value='0 left'>rack left (2)</option>" in Path("b/index.html").read_text()
    Path("mine.csv").write_text("node,rack\nother,1\n")
    done = anubis("report", "--fleet", str(runs), "--nodes-file", "mine.csv", "--html", "a")
    assert "no node of this table was judged" in done.stdout


def test_a_cell_shows_a_median_of_zero_as_the_terminal_does(here: Path) -> None:
    runs = table(here, *(f"n{number}" for number in range(8)))
    assert anubis("learn", str(runs), "--error-rate", "none", "-o", "base").returncode == 0
    row = "n3,c,t.py::test_a,rate,GB/s,higher,memory,"
    runs.write_text(HEAD + "".join(f"{row}{value}\n" for value in (0, 0, 0, 101, 102)))
    given = ("--fleet", str(runs), "--baseline", "base", "--html", "site")
    assert anubis("report", *given).returncode == 0
    index = Path("site/index.html").read_text("utf-8")
    data = json.loads(re.findall(r"id='fleet'>(.*?)</script>", index)[0])
    assert "FAIL, nothing at all" in json.dumps(data)


def test_names_in_files_stay_text(here: Path) -> None:
    evil = EVIL.replace("\n", "").replace("\r", "").replace("\ud800", "").replace("\udc80", "")
    names = ("../../etc/x", "</script><script>alert(1)</script>", "con", "CON", evil)
    runs = table(here, *names)
    done = anubis("report", "--fleet", str(runs), "--html", "site")
    assert done.returncode == 0, done.stderr
    assert all(line.isprintable() for line in done.stdout.split("\n"))
    made = [page.name for page in Path("site/nodes").iterdir()]
    assert len({name.casefold() for name in made}) == len(made) >= 4
    assert all(re.fullmatch(r"node-[A-Za-z0-9._-]+\.html", name) for name in made)
    index = Path("site/index.html").read_text("utf-8")
    assert Rules(index).wrong == []
    assert "<script>alert" not in index
    assert {p.name for p in here.iterdir()} == {"runs", "site"}


def test_a_nodes_file_depends_on_no_other_node() -> None:
    (one,) = _node_files([("n 1", "c")])
    assert _node_files([("a", "c"), ("n 1", "c")])[1] == one
    assert _node_files([("a", "c")]) == ["node-a.html"]
    assert len(set(_node_files([("a", "c"), ("a", "d"), ("A", "c")]))) == 3


def test_of_very_many_nodes_the_worst_have_a_page(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_anubis.cli.site.site_writing.MAX_NODE_PAGES", 1)
    runs = table(here, "n1", "n2")
    assert anubis("report", "--fleet", str(runs), "--html", "site").returncode == 0
    page = Path("site/index.html").read_text("utf-8")
    assert Rules(page).wrong == []
    assert "the 1 worst nodes have a page here, 1 have none" in page
    assert [one.name for one in Path("site/nodes").iterdir()] == ["node-n1.html"]
    assert "<th scope='row'>n2</th>" in page


def test_a_fleet_is_shown_from_its_history(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_ANUBIS_HISTORY", raising=False)
    runs = table(here, "n1", "n2")
    assert anubis("push", str(runs), "--history", "fleet").returncode == 0
    url = f"sqlite:///{here}/fleet/history.sqlite"
    given: tuple[str, ...]
    for given in (("--fleet", "fleet"), ("--fleet", "--history", "fleet"), ("--fleet", url)):
        done = anubis("report", *given, "--html", "site")
        assert done.returncode == 0, done.stderr
        assert "2 nodes: " in done.stdout
    text = anubis("report", "--fleet", "fleet", "--nodes", "n2", "--html", "other").stdout
    assert "1 node: " in text
    for given in (
        ("--fleet",),
        ("--fleet", "fleet", str(runs)),
        ("--fleet", "x", "--history", "fleet"),
    ):
        refused = anubis("report", *given, "--html", "no")
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert "one history" in refused.stderr
    assert not Path("no").exists()


def test_a_missing_baseline_is_said_everywhere(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_ANUBIS_HISTORY", raising=False)
    names = [f"n{number}" for number in range(8)]
    runs = table(here, *names)
    assert anubis("learn", str(runs), "--error-rate", "none", "-o", "base").returncode == 0
    bad = runs.read_text().replace(
        '"n3",c,t.py::test_a,rate,GB/s,higher,memory,10',
        '"n3",c,t.py::test_a,rate,GB/s,higher,memory,5',
    )
    runs.write_text(bad)
    pushed = anubis("push", str(runs), "--history", "fleet", "--baseline", "base")
    assert pushed.returncode == 0, pushed.stderr
    done = anubis("report", "--fleet", "--history", "fleet", "--html", "site")
    assert done.returncode == 0, done.stderr  # as its help says: whatever the verdicts are
    assert "8 nodes: 0 REJECTED, 8 UNDECIDED, 0 ACCEPTED" in done.stdout
    assert "no baseline (c): nothing was judged against one" in done.stdout
    assert re.search(
        r"as filed in the history when they ran, on \d{4}-\d\d-\d\d: 1 REJECTED, 7 ACCEPTED",
        done.stdout,
    )
    page = Path("site/index.html").read_text("utf-8")
    boxes = re.findall(r"<section class='card[^>]*><h2>(.*?)</h2>(.*?)</section>", page)
    sick = dict(boxes)["Sick nodes"]
    assert "no baseline (c): nothing was judged against one" in sick
    assert "no node is rejected" not in sick
    assert re.findall(r">(n\d)</a>: filed REJECTED \d{4}-", sick) == ["n3"]
    assert "without a baseline" in dict(boxes)["What they share"]
    marks = re.findall(r"<span class='mark'>filed (\w+) \d{4}-\d\d-\d\d</span>", page)
    assert sorted(marks) == ["ACCEPTED"] * 7 + ["REJECTED"]
    with_one = anubis(
        "report", "--fleet", "--history", "fleet", "--html", "site", "--baseline", "base"
    )
    assert "no baseline" not in with_one.stdout + Path("site/index.html").read_text("utf-8")
