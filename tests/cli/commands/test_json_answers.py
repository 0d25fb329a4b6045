"""``--json -`` gives programs everything that a command says to people, and nothing else."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import Decision, NodeVerdict
from pytest_anubis.store.node_standing import keep_ended
from tests.cli.command_line import anubis, every_parser


def answer(*arguments: str, code: int = 0) -> Any:
    done = anubis(*arguments, "--json", "-")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def test_every_verb_of_the_history_answers_in_json(here: Path) -> None:
    (here / "nodes.csv").write_text(
        "node,class,since,state,on\n"
        "n1,h100,,drained,2025-03-01\nn2,h100,2025-01-01,,\nn3,,,asleep,\n"
    )
    imported = answer("history", "nodes", "import", "nodes.csv", code=1)
    assert (imported["added"], imported["known"], imported["left_out"]) == (2, 0, 1)
    assert "asleep" in imported["wrong"][0]
    (listed, _) = answer("history", "nodes", "list")["nodes"]
    assert listed["name"] == "n1"
    assert (listed["state"], listed["changed"]) == ("drained", "2025-03-01T00:00:00+00:00")
    assert answer("history") == answer("history", "nodes", "list")

    incident = ["incident", "add", "--node=n1", "--kind=nic", "--started=2025-06-01"]
    assert answer("history", *incident) == {"added": True}
    assert answer("history", *incident) == {"added": False}
    (here / "i.csv").write_text("node,kind,started,duration\nn2,nic,2025-01-02,2\n")
    assert answer("history", "incident", "import", "i.csv")["added"] == 1
    known = answer("history", "incident", "list", "--limit=1")
    assert known["known"] == 2
    (latest,) = known["incidents"]
    assert (latest["node"], latest["started"]) == ("n1", "2025-06-01T00:00:00+00:00")
    number = str(latest["number"])
    assert answer("history", "incident", "withdraw", number)["withdrawn"] is True

    found = ["--node=n1", "--new-benchmark", "--benchmark=t.py::test_a", "--on=2025-05-01"]
    assert answer("history", "defect", "add", *found) == {"number": 1, "state": "confirmed"}
    closed = answer("history", "defect", "close", "1", "--as", "false-alarm")
    assert closed == {"number": 1, "state": "false alarm"}
    (defect,) = answer("history", "defect", "list")["defects"]
    assert defect["benchmarks"] == ["t.py::test_a"]
    assert defect["found"] == "2025-05-01T00:00:00+00:00"

    state = answer("history", "state", "--node=n2", "--as=repair", "--on=2025-07-01")
    entry = {"state": "repair", "since": "2025-07-01T00:00:00+00:00"}
    assert state == {"node": "n2", **entry, "added": True, "now": entry}
    shown = answer("history", "--node=n2")
    assert (shown["name"], shown["hardware_class"]) == ("n2", "h100")
    assert (shown["since"], shown["state"]) == ("2025-01-01T00:00:00+00:00", "repair")
    assert shown["runs"] == []


def table(path: Path, speeds: dict[str, float]) -> None:
    rows = ["node,device,benchmark,metric,unit,better,value,class"]
    for node, speed in speeds.items():
        rows += [f"{node},cpu,copy,rate,GB/s,higher,{speed + i / 100},C" for i in range(30)]
    path.write_text("\n".join(rows) + "\n")


def test_baselines_are_compared_and_backtested_in_json(here: Path) -> None:
    healthy = {f"n{i}": 100.0 + i / 10 for i in range(8)}
    table(here / "old.csv", healthy)
    table(here / "new.csv", {node: 1.2 * speed for node, speed in healthy.items()})
    for name in ("old", "new"):
        assert anubis("learn", f"{name}.csv", "--error-rate=none", "-o", name).returncode == 0
    changed = answer("baseline", "diff", "old", "new")
    (one,) = changed["changed"]
    assert (one["benchmark"], one["metric"], one["before"]["unit"]) == ("copy", "rate", "GB/s")
    assert one["now"]["centre"] == pytest.approx(1.2 * one["before"]["centre"], rel=1e-3)
    assert changed["gone"] == changed["added"] == []
    assert changed["old"]["file"] == "old/C.json"

    past = answer("baseline", "backtest", "old.csv", "--new=new", "--baseline=old")
    assert (past["nodes"], past["rejected_before"], past["rejected_after"]) == (8, 0, 8)
    assert past["newly_rejected"] == sorted(healthy)
    assert past["changes"][0]["before"] == "PASS"
    answered = anubis(
        "baseline", "backtest", "old.csv", "--new=new", "--baseline=old", "--json=x.json"
    )
    assert json.loads((here / "x.json").read_text()) == past
    assert "8 nodes in 8 runs: 0 rejected before, 8 now" in answered.stdout


def test_goals_have_one_json_form(here: Path) -> None:
    (here / "test_a.py").write_text(
        "import pytest\n"
        "@pytest.mark.anubis(component='cpu', goal='speed', question='is it fast?', action='look')\n"
        "def test_a(anubis_metric):\n    pass\n"
    )
    by_format = anubis("goals", "test_a.py", "--format=json")
    assert anubis("goals", "test_a.py", "--json", "-").stdout == by_format.stdout
    both = anubis("goals", "test_a.py", "--json=goals.json")
    assert (here / "goals.json").read_text() == by_format.stdout
    assert "is it fast?" in both.stdout


def test_whatever_answers_answers_in_json_too() -> None:
    known = {}
    for path, parser in every_parser():
        nouns = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
        if not nouns or parser.get_default("action") is not None:  # else it only has actions
            known[path] = {flag for action in parser._actions for flag in action.option_strings}
    assert len(known) > 30
    assert {"history", "history nodes list", "history state"} <= known.keys()
    assert {path for path, options in known.items() if "--json" not in options} == set()


def test_what_was_learned_is_told_in_json(here: Path) -> None:
    table(here / "good.csv", {f"n{i}": 100.0 + i / 10 for i in range(8)})
    words = (here / "good.csv").read_text()
    (here / "two.csv").write_text(
        words + "m1,cpu,copy,rate,GB/s,higher,1,D\n"
    )  # of one node, one value
    answered = answer("learn", "good.csv", "-o", "out", code=0)
    assert (answered["exit_code"], answered["nothing"]) == (0, "")
    (one,) = answered["classes"]
    assert (one["hardware_class"], one["file"], one["nodes"]) == ("C", "out/C.json", 8)
    assert one["digest"] == json.loads(Path("out/C.json").read_text())["digest"]
    assert [(c["benchmark"], c["metric"]) for c in one["criteria"]] == [("copy", "rate")]
    assert 0 < one["criteria"][0]["finds"] < 1
    assert (one["doubtful"], one["skipped"], one["never_recorded"]) == (False, [], [])
    # A class without any criterion ends it with 2; of what the others have nothing is lost.
    both = anubis("learn", "two.csv", "-o", "out", "--json", "both.json", "--html", "page.html")
    assert both.returncode == 2
    document = json.loads(Path("both.json").read_text())
    assert {c["hardware_class"]: c["file"] for c in document["classes"]} == {
        "C": "out/C.json",
        "D": None,
    }
    assert document["exit_code"] == 2
    assert "hardware class D" in both.stdout  # a file leaves the words
    # Words for people are on the other output.
    printed = anubis("learn", "good.csv", "-o", "out", "--json", "-", "--html", "page.html")
    assert json.loads(printed.stdout)["classes"][0]["criteria"] == one["criteria"]
    assert "written: out/C.json" in printed.stderr
    assert "written: page.html" in printed.stderr


def test_copied_folders_are_told_in_json(here: Path) -> None:
    suites = answer("suites", "there")
    assert suites["folder"] == "there/suites"
    assert suites["files"] == len(list(Path("there/suites").rglob("test_*.py")))
    recipes = answer("fleet", "recipes", "slurm", "here")["files"]
    assert recipes == sorted(map(str, Path("here/slurm").iterdir()))


SIMULATED = ("simulate", "--nodes=64", "--time=5d", "--seeds=1", "--jobs=1")


@pytest.mark.parametrize(
    ("arguments", "written"),
    [
        (("risk", "--save", "kept.json", "--html", "page.html"), ("kept.json", "page.html")),
        ((*SIMULATED, "--html", "page.html"), ("page.html",)),
        (("doctor", "--record", "kept.json"), ("kept.json",)),
        (("fleet", "verdict", "none", "--expect", "n1", "--html", "page.html"), ("page.html",)),
        (("judge", "t.csv", "--html", "page.html"), ("page.html",)),
        (("report", "t.csv", "--html", "page.html"), ("page.html",)),
        (("report", "t.csv", "--node", "n1", "--html", "page.html"), ("page.html",)),
    ],
)  # fmt: skip
def test_json_on_the_output_costs_no_other_file(
    here: Path, arguments: tuple[str, ...], written: tuple[str, ...]
) -> None:
    table(here / "t.csv", {"n1": 100.0, "n2": 101.0})
    Path("none").mkdir()
    for day in range(1, 6):
        given = ("--add-nodes", "--node=n1", "--kind=nic", f"--started=2025-06-0{day}")
        anubis("history", "incident", "add", *given)
    done = anubis(*arguments, "--json", "-")
    assert done.returncode in (0, 20), done.stderr
    assert json.loads(done.stdout)
    for name in written:
        assert Path(name).stat().st_size > 100
        assert f"written: {name}" in done.stderr


def test_a_history_is_named_alike_in_every_command() -> None:
    """``--history`` is its place everywhere; ``--store`` a folder of runs, or the older spelling of it."""
    places = set()
    for path, parser in every_parser():
        for action in parser._actions:
            if action.metavar == "DIR|URL":
                assert action.option_strings[0] == "--history", path
                places.add(path.partition(" ")[0])
            elif "--store" in action.option_strings:
                assert action.metavar == "DIR", path
    assert places >= {"history", "select", "risk", "simulate", "push", "learn", "judge", "fleet"}


def test_the_older_spelling_of_history_works(here: Path) -> None:
    add = ["incident", "add", "--add-nodes", "--node=n1", "--kind=nic", "--started=2025-06-01"]
    assert answer("history", "--store=there", *add) == {"added": True}
    assert answer("history", *add, "--store", "there") == {"added": False}
    assert (here / "there" / "history.sqlite").exists()
    (listed,) = answer("history", "--history=there", "nodes", "list")["nodes"]
    assert listed["name"] == "n1"


def test_health_answers_in_json(here: Path) -> None:
    nothing = answer("health", "--node=n1", code=20)
    assert (nothing["node"], nothing["decision"], nothing["run"]) == ("n1", "UNDECIDED", None)
    assert "no run" in nothing["reason"]
    accepted = NodeVerdict(node="n1", decision=Decision.ACCEPTED, headline="")
    done = RunRecord(run="r", node="n1", hardware_class="c", node_verdict=accepted)
    keep_ended(here / ".anubis", done, ended=1.0, reason="")
    found = answer("health", "--node=n1")
    assert (found["decision"], found["run"], found["ended"]) == ("ACCEPTED", "r", 1.0)
    refused = anubis("health", "--node=n1", "--patch=labels", "--json=-")
    assert (refused.returncode, refused.stdout) == (2, "")


def test_what_is_imported_and_exported_is_told_in_json(here: Path) -> None:
    table(here / "old.csv", {"n1": 100.0, "n2": 101.0})
    answered = answer("import", "table", "old.csv")
    (written,) = answered["written"]
    assert Path(written).exists()
    assert (answered["nodes"], answered["values"], answered["lost"]) == (["n1", "n2"], 60, 0)
    (here / "bad.csv").write_text((here / "old.csv").read_text() + "n3,cpu,copy,rate,GB/s,,1,C\n")
    said = anubis("import", "table", "bad.csv", "--json=bad.json")
    bad = json.loads((here / "bad.json").read_text())
    assert (said.returncode, bad["lost"], bad["values"]) == (1, 1, 60)
    assert (bad["wrong_lines"], bad["cells"], answered["cells"]) == (1, {}, {})
    Path("sb.jsonl").write_text('{"node": "n1", "b/x_bw": 9.0, "c/return_code": 2}\n')
    failed = answer("import", "superbench", "sb.jsonl")
    assert (failed["cells"], failed["lost"]) == ({"failed": 1}, 0)
    assert "next: anubis learn" in said.stdout
    exported = answer("export", written, "--parquet=tables")
    assert exported["values"] == 60
    assert [Path(one).exists() for one in exported["files"]] == [True]


def test_baselines_are_put_in_and_out_of_use_in_json(here: Path) -> None:
    table(here / "old.csv", {f"n{i}": 100.0 + i / 10 for i in range(8)})
    assert anubis("learn", "old.csv", "-o", "new").returncode in (0, 20)
    groups = answer("baseline", "populations", "new")
    assert groups == {"file": "new/C.json", "groups": []}
    first = answer("baseline", "promote", "new/C.json", "--to=used")
    assert first["replaced"] is None
    assert first["in_use"]["file"] == "used/C.json"
    assert "changes" not in first
    second = answer("baseline", "promote", "new/C.json", "--to=used")
    assert second["replaced"] is None  # it is in force already
    text = Path("new/C.json").read_text()
    Path("new/C.json").write_text(text.replace('"alpha": 0.95', '"alpha": 0.9'))
    third = answer("baseline", "promote", "new/C.json", "--to=used")
    assert Path(third["replaced"]).exists()
    pairs = [(one["before"]["alpha"], one["now"]["alpha"]) for one in third["changes"]["changed"]]
    assert set(pairs) == {(0.95, 0.9)}
    kept = answer("baseline", "expire", "used/C.json")["kept"]
    assert Path(kept).exists()
