"""``anubis push``, and the commands that take what was pushed out of the history again."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from pytest_anubis.cli.main import main
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.database import History
from tests.cli.commands.test_judge_command import fleet, write
from tests.store.fleet.test_pushing import journal

Values = dict[tuple[str, str, str], list[float]]
"""Node, device and metric -> its values."""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTEST_ANUBIS_HISTORY", raising=False)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """Run a command, and return what it printed, and what it complained of in one line."""
    assert main(list(words)) == code, capsys.readouterr()
    out, err = capsys.readouterr()
    assert err.count("\n") == (code == 2)
    return out + err


def taught(here: Path, capsys: pytest.CaptureFixture[str]) -> Values:
    """Import a sound fleet as old.csv, learn its baseline, and return its values."""
    values = fleet(8, 4)
    write(here / "old.csv", values)
    said(capsys, "import", "table", "old.csv")
    said(capsys, "learn", ".anubis/imports", "--error-rate", "none")
    return values


def slowed(here: Path, values: Values, node: str) -> None:
    """Write new.csv, in which one card of a node is slower than the rest of the fleet."""
    values[node, "cuda:1", "rate"] = [0.8 * v for v in values[node, "cuda:1", "rate"]]
    write(here / "new.csv", values)


def test_a_history_is_learned_judged_and_shown(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = fleet(8, 4)
    write(here / "old.csv", values)
    text = said(capsys, "push", "old.csv", "--history", "fleet")
    assert text.splitlines()[-1] == "fleet: 8 runs filed, 0 known already"
    said(capsys, "learn", "--history", "fleet", "--error-rate", "none")
    slowed(here, values, "n03")
    said(capsys, "push", "new.csv", "--history", "fleet")  # judged by ./baselines
    listed = json.loads(said(capsys, "history", "--store", "fleet", "--json", "-"))["nodes"]
    verdicts = {node["name"]: node["verdict"] for node in listed}
    assert verdicts.pop("n03") == "REJECTED"
    assert list(verdicts.values()) == ["ACCEPTED"] * 7
    assert "REJECTED" in said(capsys, "history", "--store", "fleet")
    assert "n03" in said(capsys, "history", "--store", "fleet", "defect", "list")
    chosen = ("--history", "fleet", "--nodes", "n0[23],n04", "--exclude", "n04")
    text = said(capsys, "judge", *chosen, "--since", "1h", code=1)
    assert "1 REJECTED, " in text
    assert "anubis report --history fleet --nodes n0[23],n04" in text.replace("'", "")
    said(capsys, "judge", *chosen, "--json", "out.json", code=1)
    nodes = {one["node"] for one in json.loads((here / "out.json").read_text())["nodes"]}
    assert nodes == {"n02", "n03"}
    said(capsys, "judge", "old.csv", "--nodes", "n02", "--class", "unclassified")
    text = said(capsys, "report", "--history", "fleet", "--node", "n03", "--html", "n03.html")
    assert "REJECTED" in text
    assert "cuda:1" in (here / "n03.html").read_text()


def test_a_filed_run_is_reported_as_its_journal(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for node in ("n1", "n2"):
        journal(here / node, "r1", node)
    said(capsys, "push", "n1", "n2", "--history", "fleet")
    expected = said(capsys, "report", "n1/runs/r1")
    assert said(capsys, "report", "r1", "--history", "fleet", "--node", "n1") == expected
    assert "several nodes" in said(capsys, "report", "r1", "--history", "fleet", code=2)
    assert "no run r9" in said(capsys, "report", "r9", "--history", "fleet", code=2)
    assert "finding" not in said(capsys, "report", "--history", "fleet", "--nodes", "n*")


def test_push_says_what_it_did_and_what_it_could_not(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    journal(here / ".anubis", "r1")
    url = "postgresql+psycopg://me:secret@127.0.0.1:1/x"
    text = said(capsys, "push", "--history", url, code=2)
    assert "1 file left, kept where they are: push again" in text
    assert "secret" not in text
    (here / ".anubis" / "runs" / "gone").mkdir()
    monkeypatch.setenv("PYTEST_ANUBIS_HISTORY", "fleet")
    text = said(capsys, "push", "--json", "out.json", code=1)
    assert "fleet: 1 run filed, 0 known already, 1 not filed" in text
    assert json.loads((here / "out.json").read_text())["new"] == 1


def test_a_stores_imports_go_into_its_own_history(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taught(here, capsys)
    assert "anubis push --history .anubis" in said(capsys, "fleet", "status", code=2)
    assert said(capsys, "push", ".anubis/imports") == ".anubis: 8 runs filed, 0 known already\n"
    assert said(capsys, "push") == ".anubis: 0 runs filed, 8 known already\n"
    listed = json.loads(said(capsys, "history", "--json", "-"))["nodes"]
    assert [node["verdict"] for node in listed] == ["ACCEPTED"] * 8  # by ./baselines
    said(capsys, "history", "defect", "add", "--node", "n01", "--benchmark", "copy")
    assert "8 ACCEPTED" in said(capsys, "judge", "--history", ".anubis")


def test_an_import_of_another_file_of_the_same_name_is_not_filed_yet(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for day in ("day1", "day2"):
        (here / day).mkdir()
        write(here / day / "results.csv", fleet(8, 4))
    with (here / "day2" / "results.csv").open("a") as file:
        file.write("\n")
    said(capsys, "import", "table", "day1/results.csv")
    said(capsys, "learn", ".anubis/imports", "--error-rate", "none")
    said(capsys, "push", ".anubis/imports")
    assert said(capsys, "health", "--node", "n01").startswith("ANB:ACCEPTED")
    said(capsys, "import", "table", "day2/results.csv")
    assert not said(capsys, "health", "--node", "n01", code=20).startswith("ANB:ACCEPTED")


def test_a_missing_import_prevents_acceptance(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = taught(here, capsys)
    health = ("health", "--node", "n03")
    assert "anubis push .anubis --history .anubis" in said(capsys, *health, code=20)
    said(capsys, "push")
    said(capsys, *health)
    said(capsys, "fleet", "status")
    values["n03", "cuda:1", "rate"] = [0.8 * v for v in values["n03", "cuda:1", "rate"]]
    write(here / "new.csv", {key: some for key, some in values.items() if key[0] == "n03"})
    said(capsys, "import", "table", "new.csv")
    assert "anubis push .anubis --history .anubis" in said(capsys, *health, code=20)
    said(capsys, "health", "--node", "n02")
    found = json.loads(said(capsys, "fleet", "status", "--json", "-", code=20))
    (undecided,) = (one for one in found["nodes"] if one["is"] != "ACCEPTED")
    assert (undecided["node"], undecided["is"]) == ("n03", "UNDECIDED")
    said(capsys, *undecided["next"].split()[1:5])
    said(capsys, *health, code=1)
    said(capsys, "fleet", "status", code=1)
    # The same run again with other values is not that of the history.
    values["n02", "cuda:1", "rate"] = [0.8 * v for v in values["n02", "cuda:1", "rate"]]
    write(here / "old.csv", values)
    said(capsys, "import", "table", "old.csv")
    assert "not in the history" in said(capsys, "health", "--node", "n02", code=20)


def test_imports_that_lack_benchmarks_say_so_once(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = fleet(8, 2)
    write(here / "all.csv", values)
    lines = (here / "all.csv").read_text().splitlines()
    other = [line.replace(",copy,", ",scan,").replace(",rate,", ",speed,") for line in lines[1:]]
    (here / "all.csv").write_text("\n".join([*lines, *other]) + "\n")
    (here / "late.csv").write_text("\n".join([lines[0], *other]) + "\n")
    write(here / "early.csv", values)
    said(capsys, "import", "table", "all.csv", "--store", "good", "--run", "r0")
    said(capsys, "learn", "good", "--error-rate", "none")
    for day, name in enumerate(("early", "late"), start=1):
        named = (f"{name}.csv", "--run", name, "--date", f"2026-11-0{day}")
        said(capsys, "import", "table", *named)
    late = (".anubis/imports/late.csv.npz", "--history", "fleet", "--json", "push.json")
    text = said(capsys, "push", *late)
    assert "8 nodes undecided, as these imports lack 1 benchmark" in text
    assert "push the imports that have them in the same call" in text
    assert len(json.loads(Path("push.json").read_text())["lacking"]) == 8
    status = ("fleet", "status", "--history", "fleet")
    assert "-> push the imports that have them in the same call" in said(capsys, *status, code=20)
    assert "lack" not in said(capsys, "push", ".anubis", "--history", "fleet")
    assert "8 ACCEPTED" in said(capsys, *status)


def test_a_defect_that_a_retest_passed_is_listed_so(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = fleet(8, 4)
    write(here / "old.csv", good)
    said(capsys, "learn", "old.csv", "--error-rate", "none")
    bad = good | {
        (node, "cuda:1", "rate"): [0.8 * v for v in good[node, "cuda:1", "rate"]]
        for node in ("n02", "n03")
    }
    write(here / "bad.csv", bad)
    said(capsys, "push", "bad.csv")
    write(here / "retest.csv", {key: some for key, some in good.items() if key[0] == "n03"})
    later = time.time() + 60
    os.utime(here / "retest.csv", (later, later))  # the date of its run
    said(capsys, "push", "retest.csv")
    listed = json.loads(said(capsys, "history", "defect", "list", "--json", "-"))["defects"]
    assert {one["node"]: one.get("passed", False) for one in listed} == {"n02": False, "n03": True}
    lines = said(capsys, "history", "defect", "list").splitlines()
    assert ["passed" in line for line in lines[1:]] == [False, True]
    found = json.loads(said(capsys, "fleet", "status", "--json", "-", code=1))["nodes"]
    assert [one["node"] for one in found if one["is"] != "ACCEPTED"] == ["n02"]


def test_a_store_is_pushed_into_its_own_history(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal(here / ".anubis", "r1")
    assert said(capsys, "push") == ".anubis: 1 run filed, 0 known already\n"
    assert said(capsys, "push") == ".anubis: 0 runs filed, 1 known already\n"
    with History(here / ".anubis") as history, history.reading() as connection:
        assert not connection.execute(sa.select(schema.contents)).all()  # its journal lies there


def test_imported_benchmarks_are_offered_or_named(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = "node,benchmark,metric,unit,better,value,class"
    for key, names in (("big", ("gemm", "stream", "h2d")), ("small", ("disk", "stream"))):
        rows = [f"{key}{n},{name},rate,GB/s,higher,{n + 5},{key}" for n in (1, 2) for name in names]
        (here / f"{key}.csv").write_text("\n".join([head, *rows]))
    history = ("--history", "sqlite:///fleet.db")
    said(capsys, "push", "big.csv", "small.csv", *history)
    said(capsys, "history", "defect", "add", "--node", "big1", "--benchmark", "stream", *history)
    when = ("--kind", "gpu", "--started", "2026-01-02")
    said(capsys, "history", "incident", "add", "--node", "big1", *when, *history)
    select = ("select", "--node", "big2", "--by", "all", *history)
    text = said(capsys, *select, "--explain")
    assert "the full set runs, 3 benchmarks" in text
    assert "without 1 benchmark that only other classes have run (disk)" in text
    assert "3 benchmarks of unknown duration" in text
    answer = json.loads(said(capsys, *select, "--json", "-"))
    assert answer["chosen"] == ["gemm", "h2d", "stream"]
    assert answer["not_offered"] == [{"benchmark": "disk", "reason": "only other classes have run"}]
    text = said(capsys, "fleet", "plan", "--hours", "1", *history)
    assert "big (2 nodes): without 1 benchmark that only other classes have run (disk)" in text
    assert "big (2 nodes): 3 benchmarks of unknown duration" in text


def test_a_node_in_two_classes_is_filed_with_its_worse_verdict(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each class becomes a run of its own; as one, whichever came first was filed."""
    values = fleet(8, 4)
    for name in ("a", "b"):
        write(here / f"{name}.csv", values)
        said(capsys, "import", "table", f"{name}.csv", "--class", name, "--store", "good")
    said(capsys, "learn", "good", "--error-rate", "none")
    head, *good = (here / "a.csv").read_text().splitlines()
    values["n03", "cuda:1", "rate"] = [0.8 * v for v in values["n03", "cuda:1", "rate"]]
    write(here / "bad.csv", values)
    bad = [line for line in (here / "bad.csv").read_text().splitlines() if line[:4] == "n03,"]
    rows = [f"{head},class", *(f"{line},a" for line in good), *(f"{line},b" for line in bad)]
    (here / "new.csv").write_text("\n".join(rows))
    text = said(capsys, "push", "new.csv", "--history", "fleet")
    assert text.splitlines()[-1] == "fleet: 9 runs filed, 0 known already"
    listed = json.loads(said(capsys, "history", "--store", "fleet", "--json", "-"))["nodes"]
    assert {node["name"] for node in listed if node["verdict"] != "ACCEPTED"} == {"n03"}
    text = said(capsys, "push", "new.csv", "--history", "fleet")
    assert text.splitlines()[-1] == "fleet: 0 runs filed, 9 known already"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("judge",), "name runs"),
        (("judge", "x.csv", "--history", "fleet"), "name runs"),
        (("learn",), "name tests"),
        (("learn", "--history", "nowhere"), "no such folder"),
        (("learn", "tests.py", "--nodes", "n1"), "choose among runs"),
        (("learn", "--history", ".", "--for", "5m"), "measure here"),
        (("report", "a", "b", "--history", "."), "name one run"),
        (("judge", "--history", "."), "no run in it yet"),
        (("judge", "--history", ".", "--nodes", "x"), "of the nodes, class and time"),
    ],
)
def test_wrong_use_is_one_line(
    here: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], reason: str
) -> None:
    (here / "tests.py").write_text("")
    assert reason in said(capsys, *words, code=2)


@pytest.mark.parametrize("folder", ["", "rack7/"])
def test_damaged_import_is_not_taken_for_filed(
    here: Path, capsys: pytest.CaptureFixture[str], folder: str
) -> None:
    """Also in a folder below, and after a push that could not read it."""
    values = fleet(8, 4)
    write(here / "old.csv", values)
    said(capsys, "import", "table", "old.csv", "--store", "good")
    said(capsys, "learn", "good", "--error-rate", "none")
    said(capsys, "import", "table", "old.csv", "--date", "2026-11-01")
    said(capsys, "push")
    said(capsys, "health", "--node", "n02")
    slowed(here, values, "n02")
    said(capsys, "import", "table", "new.csv", "--date", "2026-11-02")
    new = here / ".anubis/imports/new.csv.npz"
    (new.parent / folder).mkdir(exist_ok=True)
    whole = new.rename(new.parent / folder / new.name)
    content = whole.read_bytes()
    whole.write_bytes(content[:900])
    for _ in range(2):
        assert "not in the history" in said(capsys, "health", "--node", "n02", code=20)
        said(capsys, "push", code=1)
    whole.write_bytes(content)
    said(capsys, "health", "--node", "n02", code=20)
    said(capsys, "push")
    said(capsys, "health", "--node", "n02", code=1)
