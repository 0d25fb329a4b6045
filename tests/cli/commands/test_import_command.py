"""Results of many nodes in one call, whose names are in the paths."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from pathlib import Path

import pytest

from pytest_anubis.store.collected_runs import read_runs
from pytest_anubis.store.samples.columnar_files import load_columns, origin_of
from tests.cli.command_line import anubis

DATA = Path(__file__).parents[2] / "store" / "importers" / "data"


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same log of three nodes; results that are alike are not the same results."""
    monkeypatch.chdir(tmp_path)
    for node in ("n1", "n2", "n3"):
        (tmp_path / "results" / node).mkdir(parents=True)
        shutil.copy(DATA / "nccl_allreduce.log", tmp_path / "results" / node / "nccl.log")
    return tmp_path / "results"


def nodes() -> list[str]:
    return sorted(run.node for run in read_runs([Path(".anubis/imports")]).runs)


def test_every_node_has_its_run(results: Path) -> None:
    done = anubis("import", "nccl", "--node-pattern", "results/{node}/nccl.log")
    assert done.returncode == 0, done.stderr
    assert nodes() == ["n1", "n2", "n3"]
    assert "3 files: 3 imports of 3 nodes" in done.stdout
    again = anubis("import", "nccl", "--node-pattern", "results/{node}/nccl.log")
    assert (again.returncode, nodes()) == (0, ["n1", "n2", "n3"])  # replaced, not doubled
    assert len(list(Path(".anubis/imports").iterdir())) == 3


def test_nodes_in_two_classes_are_counted_in_one_line(results: Path) -> None:
    asked = ("import", "nccl", "--node-pattern", "results/{node}/nccl.log", "--json", "out.json")
    assert "classes" not in anubis(*asked, "--class", "A").stdout
    done = anubis(*asked, "--class", "B", "--run", "second")
    assert (
        done.stdout.count("3 nodes in two hardware classes, each judged by itself: B here, A in")
        == 1
    )
    written = json.loads(Path("out.json").read_text())
    assert written["other_class"] == dict.fromkeys(("n1", "n2", "n3"), "A")
    assert "two hardware classes" not in anubis(*asked, "--class", "A", "--run", "second").stdout


def test_files_of_the_shell_and_a_bad_one_among_them(results: Path) -> None:
    (results / "n2" / "nccl.log").write_text("nothing\n")
    Path("stray.log").write_text("nothing\n")
    files = [f"results/n{number}/nccl.log" for number in (1, 2, 3)]
    done = anubis(
        "import", "nccl", *files, "stray.log", "--node-pattern", "results/{node}/nccl.log"
    )
    assert done.returncode == 2
    assert nodes() == ["n1", "n2", "n3"]  # the others, and that nothing of the second could be read
    assert "left out: results/n2/nccl.log: no line of results" in done.stdout
    assert "left out: stray.log: no node in it" in done.stdout
    assert done.stderr.count("\n") == 1
    assert "2 files of 4 left out" in done.stderr


def test_two_files_of_a_node_need_two_runs(results: Path) -> None:
    shutil.copytree(results / "n1", results / "n1" / "second")
    done = anubis("import", "nccl", "--node-pattern", "results/{node}/**/nccl.log")
    assert done.returncode == 2
    assert "a second file of node n1" in done.stdout
    shutil.rmtree(".anubis")
    for run in ("r1", "r2"):
        shutil.copytree(results / "n1" / "second", Path("dated", "n1", run))
    later = Path("dated", "n1", "r2", "nccl.log")
    later.write_text(later.read_text().replace("235.26", "235.27"))
    done = anubis("import", "nccl", "--node-pattern", "dated/{node}/{run}/nccl.log")
    assert done.returncode == 0, done.stdout
    assert [run.run for run in read_runs([Path(".anubis/imports")]).runs] == ["r1", "r2"]


def test_a_table_without_nodes_takes_them_from_paths(results: Path) -> None:
    text = "benchmark,metric,unit,better,value\ncopy,rate,GB/s,higher,5\n"
    for node in ("n1", "n2"):
        (results / node / "t.csv").write_text(text)
    (results / "n3" / "t.csv").write_text("node," + text.replace("\nc", "\nn7,c"))
    done = anubis("import", "table", "--node-pattern", "results/{node}/t.csv", "--class", "c")
    assert done.returncode == 0, done.stderr
    assert nodes() == ["n1", "n2", "n7"]
    assert "its path says node n3, the file n7: the file counts" in done.stdout


def test_a_log_of_another_host_than_its_path_is_refused(results: Path) -> None:
    def runs_on(node: str, *hosts: str) -> Path:
        path = results / node / "nccl.log"
        text = (DATA / "nccl_allreduce.log").read_text()
        path.write_text("".join(text.replace("on localhost", f"on {host}") for host in hosts))
        return path

    collective = ("--collective", "all_reduce")
    call = ("import", "nccl", "--node-pattern", "results/{node}/nccl.log", *collective)
    runs_on("n1", "N1.rack.example")
    for hosts in (("n7",), ("n2", "n7"), ("n2.a", "n7", "n8")):  # also one run of several
        wrong = runs_on("n2", *hosts)
        done = anubis(*call)
        assert done.returncode == 2
        named = ", ".join(host for host in hosts if not host.startswith("n2"))
        said = f"left out: {wrong.relative_to(results.parent)}: its path says node n2, the log {named}: "
        (line,) = [line for line in done.stdout.splitlines() if line.startswith(said)]
        assert "--node NAME decides" in line
        assert unread() == {("n1", "nccl"): 0, ("n2", "nccl"): 1, ("n3", "nccl"): 0}
        assert "n2" in anubis("judge", ".anubis/imports").stdout
    done = anubis("import", "nccl", str(wrong), "--node", "n2", *collective)
    assert done.returncode == 0
    assert "kept for node n2; the log is of n2.a, n7, n8" in done.stdout
    runs_on("n2", "localhost", "n2")
    assert anubis(*call).returncode == 0
    runs_on("n2", "trainer-5f9c")  # hosts of containers have names of another form
    done = anubis(*call)
    assert done.returncode == 0
    assert "kept for node n2; the log is of trainer-5f9c" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nccl"], "name a FILE, or --node-pattern"),
        (["nccl", "--node-pattern", "gone/{node}.log"], "no file fits it"),
        (["nccl", "--node-pattern", "results/*/nccl.log"], "needs {node} once"),
        (["fio", "--node-pattern", "{node}", "--node", "n1"], "say the same thing twice"),
    ],
)
def test_wrong_usage_is_one_line(results: Path, arguments: list[str], said: str) -> None:
    done = anubis("import", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_lost_cells_are_counted_by_cause(here: Path) -> None:
    """A value in another unit was neither counted nor named, and an invalid one had no line."""
    rows = [f"n{node},copy,rate,GB/s,higher,{100 + node}" for node in range(6) for _ in range(2)]
    rows[2] = "n1,copy,rate,MB/s,higher,101000"
    rows[4] = "n2,copy,rate,GB/s,lower,102"
    rows[6] = "n3,copy,rate,GB/s,higher,-5"
    rows[8] = "n4,copy,rate,GB/s,higher,"
    (here / "t.csv").write_text("\n".join(["node,benchmark,metric,unit,better,value", *rows]))
    done = anubis("import", "table", "t.csv", "--class", "k")
    first, *said = done.stdout.splitlines()
    assert first == (
        "t.csv: 8 values of 6 nodes, 1 metric, 2 values in another unit or direction, 1 value invalid, "
        "1 value missing, 0 wrong lines"
    )
    assert said[0].startswith(
        "t.csv: in another unit or direction: line 4, node n1, column unit: 'MB/s' "
        "(most of copy rate: 'GB/s')"
    )
    assert said[1].startswith("t.csv: invalid: line 8, node n3, column value: '-5'")
    assert said[2] == "t.csv: missing: line 10, node n4, column value: ''"
    assert done.returncode == 1
    assert anubis("import", "table", "t.csv", "--class", "k", "--lenient").returncode == 0


def test_learning_repeats_the_lost_lines(results: Path) -> None:
    head = "node,device,benchmark,metric,unit,better,value,time"
    rows = [
        f"n{node},cuda:0,gemm,rate,GB/s,higher,{'x' if node == 7 else 100 + node},2026-10-0{day}T00:00:00Z"
        for node in range(9)
        for day in range(1, 5)
    ]
    Path("t.csv").write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    imported = anubis("import", "table", "t.csv")
    assert imported.stdout.count("is not a number") == 3  # one cause, and four lines
    assert (
        "note: 4 lines about 1 node could not be used" in anubis("learn", ".anubis/imports").stdout
    )
    file = next(Path(".anubis/imports").glob("t.csv*.npz"))
    origin = origin_of(file)
    assert origin is not None
    assert origin.sha256 == hashlib.sha256(Path("t.csv").read_bytes()).hexdigest()


def test_wrong_lines_are_counted_by_cause(here: Path) -> None:
    rows = [f"n{number},copy,rate,GB/s,higher,fast" for number in range(30)]
    rows += ["n30,copy,rate,,higher,1", "n31,copy,rate,GB/s,higher,1"]
    (here / "t.csv").write_text("\n".join(["node,benchmark,metric,unit,better,value", *rows]))
    said = anubis("import", "table", "t.csv", "--class", "k").stdout.splitlines()
    said = [line for line in said if ": invalid: " not in line]
    assert said[0].endswith("31 wrong lines (30 value is not a number, 1 unit is empty)")
    assert said[1] == "t.csv: line 2: node n0, column value: 'fast' is not a number"
    # the first of each cause is named, however many there are of another
    assert said[2].startswith("t.csv: line 32: node n30, column unit is empty")


def test_a_summary_names_the_cell_that_is_none(here: Path) -> None:
    lines = [f'{{"node": "n{number}", "b/x_bw:1": {number - 1}}}' for number in range(4)]
    (here / "s.jsonl").write_text("\n".join(lines) + "\n")
    done = anubis("import", "superbench", "s.jsonl", "--class", "k")
    assert "1 value invalid" in done.stdout.splitlines()[0]
    assert "line 1, node n0, column b/x_bw:1: '-1'" in done.stdout
    assert done.returncode == 1


def table(name: str, unit: str) -> None:
    """Write a table of four nodes; without a unit it has no column for it."""
    unit = f",{unit},higher" if unit else ""
    head = "node,benchmark,metric,unit,better,value" if unit else "node,benchmark,metric,value"
    rows = [f"n{node},mine,speed{unit},{100 + node}" for node in range(4)]
    Path(name).write_text("\n".join([head, *rows]) + "\n")


def test_a_unit_of_no_known_words_is_one_line_and_kept(here: Path) -> None:
    table("t.csv", "GBs/foo")
    given = ("import", "table", "t.csv", "--class", "K")
    done = anubis(*given, "--json", "said.json")
    assert done.returncode == 1
    assert done.stdout.count("'GBs/foo'") == 1
    assert "t.csv: unit 'GBs/foo' of mine speed is none that is known" in done.stdout
    assert '"unknown_units": 1' in Path("said.json").read_text()
    assert nodes() == ["n0", "n1", "n2", "n3"]
    shutil.rmtree(".anubis")
    assert anubis(*given, "--lenient").returncode == 0
    table("t.csv", "GB/s")
    assert anubis(*given).returncode == 0


def test_a_map_gives_the_baseline_its_units(here: Path) -> None:
    table("m.csv", "")
    given = ("import", "table", "m.csv", "--class", "K", "--map", "map.csv")
    head = "benchmark,metric,unit,better,component\n"
    Path("map.csv").write_text(f"{head}mi*,speed,parrots/s,lower,gpu.speed\n")
    done = anubis(*given)
    assert (done.returncode, "parrots" in done.stdout) == (0, False)  # who wrote the map meant it
    shutil.rmtree(".anubis")
    Path("map.csv").write_text(f"{head}mi*,speed,us,lower,gpu.speed\n")
    assert anubis(*given).returncode == 0
    anubis("learn", ".anubis/imports/m.csv.npz", "-o", "kept")
    (baseline,) = Path("kept").glob("*.json")
    text = baseline.read_text()
    assert all(f'"{word}"' in text for word in ("us", "lower", "gpu.speed"))


def dated() -> list[str]:
    return sorted({run.started[:10] for run in read_runs([Path(".anubis/imports")]).runs})


def test_runs_have_the_dates_of_their_table(results: Path) -> None:
    for week, day in ((1, "16"), (2, "23")):
        row = f"n1,copy,rate,GB/s,higher,{week},2026-11-{day}"
        Path(f"week{week}.csv").write_text(f"node,benchmark,metric,unit,better,value,time\n{row}\n")
    done = anubis("import", "table", "week1.csv", "week2.csv", "--class", "c")
    assert done.returncode == 0, done.stderr
    assert "dated" not in done.stdout  # as the table says: nothing to tell
    assert dated() == ["2026-11-16", "2026-11-23"]


def test_a_file_without_dates_says_its_date(results: Path) -> None:
    log, table = Path("results/n1/nccl.log"), Path("t.csv")
    table.write_text("node,benchmark,metric,unit,better,value\nn1,copy,rate,GB/s,higher,5\n")
    for kind, file, why in (
        ("nccl", log, "it has no date"),
        ("table", table, "no column time holds moments (ISO 8601, or seconds since 1970)"),
    ):
        os.utime(file, (1_790_000_000, 1_790_000_000))
        done = anubis("import", kind, str(file))
        assert (
            f"{file}: its runs are dated 2026-09-21T14:13:20+00:00, when it was written: {why}; "
            "--date WHEN gives another"
        ) in done.stdout.splitlines()
        done = anubis("import", kind, str(file), "--date", "2026-03-04")
        assert "dated" not in done.stdout
    assert dated() == ["2026-03-04"]


def unread() -> dict[tuple[str, str], int]:
    """Return node and run -> lines that could not be read, of what is kept."""
    runs = read_runs([Path(".anubis/imports")]).runs
    return {(run.node, run.run): run.unread for run in runs}


TABLE = "node,benchmark,metric,unit,better,value\n{node},copy,rate,GB/s,higher,{value}\n"


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("table", TABLE.format(node="n1", value=5), "Traceback (most recent call last):\n"),
        ("table", TABLE.format(node="n1", value=5), ""),
        ("table", TABLE.format(node="n1", value=5), TABLE.format(node="n1", value='"1,5"')),
        ("superbench", '{"node": "n1", "b/x_bw": 5}\n', "{garbage"),
        ("superbench", '{"node": "n1", "b/x_bw": 5}\n', '{"node": "n1", "b/x_b'),
    ],
)
def test_an_unreadable_file_is_kept_for_its_node(
    results: Path, kind: str, good: str, bad: str
) -> None:
    for week, text in (("r1", good), ("r2", bad)):
        file = results / "n1" / week / "file"
        file.parent.mkdir()
        file.write_text(text)
    done = anubis("import", kind, "--node-pattern", "results/{node}/{run}/file", "--class", "k")
    assert done.returncode == 2
    assert unread() == {("n1", "r1"): 0, ("n1", "r2"): 1}
    assert anubis("judge", ".anubis/imports").returncode == 20


def test_a_file_of_wrong_lines_is_kept_for_its_nodes(results: Path) -> None:
    Path("good.csv").write_text(TABLE.format(node="n1", value=5))
    assert anubis("import", "table", "good.csv", "--class", "k").returncode == 0
    Path("bad.csv").write_text(TABLE.format(node="n1", value='"1,5"'))
    done = anubis("import", "table", "bad.csv", "--class", "k", "--date", "2026-03-04")
    assert done.returncode == 2
    assert unread() == {("n1", "bad"): 1, ("n1", "good"): 0}
    assert "2026-03-04" in dated()
    Path("bad.csv").write_text(TABLE.format(node="n1", value=4))
    assert anubis("import", "table", "bad.csv", "--class", "k").returncode == 0
    assert unread() == {("n1", "bad"): 0, ("n1", "good"): 0}  # mended


def test_values_of_an_earlier_file_are_lost(results: Path) -> None:
    for node, value in (("n1", 5), ("n2", 4)):
        (results / node / "t.csv").write_text(TABLE.format(node="n1", value=value))
    given = ("import", "table", "--node-pattern", "results/{node}/t.csv", "--class", "k")
    done = anubis(*given)
    assert done.returncode == 1
    assert "n2/t.csv: 1 value of node n1, run t are in an earlier file too" in done.stdout
    assert unread() == {("n1", "t"): 1}
    (results / "n2" / "t.csv").write_text(TABLE.format(node="n1", value=4).replace("rate", "back"))
    assert anubis(*given).returncode == 0  # parts of one run
    assert unread() == {("n1", "t"): 0}
    assert anubis("import", "table", *["results/n1/t.csv"] * 2, "--class", "k").returncode == 0


def test_files_of_which_the_same_is_said_share_a_line(results: Path) -> None:
    for number in range(4, 30):
        shutil.copytree(results / "n1", results / f"n{number}")
    for number in (5, 6, 7, 8, 9):
        (results / f"n{number}" / "nccl.log").write_text("nothing\n")
    (results / "n9" / "nccl.log").write_bytes(b"")
    call = ("import", "nccl", "--node-pattern", "results/{node}/nccl.log")
    few, every = anubis(*call).stdout, anubis(*call, "-v", "--store", "other").stdout
    assert len(few.splitlines()) < 12 < 60 < len(every.splitlines())
    (bad,) = [line for line in few.splitlines() if "results/n5/nccl.log: no line" in line]
    assert "4 more files" in bad
    assert "results/n6/nccl.log" in bad
    for number in range(1, 30):
        assert f"results/n{number}/nccl.log" in every
    assert len(nodes()) == 29


def test_a_skipped_diagnostic_leaves_a_node_undecided(here: Path) -> None:
    data = Path(__file__).parents[2] / "tool_outputs" / "data" / "dcgm_diag_4.json"
    text = re.sub(r'("status"\s*:\s*)"[^"]*"', r'\1"Skip"', data.read_text())
    Path("diag.json").write_text(text)
    assert anubis("import", "dcgm", "diag.json", "--node", "n1").returncode == 2
    (kept,) = Path(".anubis/imports").glob("*.npz")
    assert [(run.node, run.unread) for run in load_columns(kept).runs] == [("n1", 1)]
