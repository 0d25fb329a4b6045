"""``anubis judge`` on a collected fleet: the first lines say what to act on, in fewer than thirty."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from pytest_anubis.fleet.launching.host_list import HostListError, read_hosts
from tests.cli.command_line import anubis

NODES, CARDS = 60, 4
METRICS = ("gemm_a", "gemm_b", "pcie_in", "pcie_out")
LISTS = ["missing", "missing-2"]
BATCH = range(20, 32)


def write(
    path: Path, *, slow: dict[str, float] | None = None, run: str = "", week: int = 1
) -> None:
    """Write one value a cell; n05 has no cuda:2, some cells are empty, one batch has slower PCIe.

    Args:
        path: The table.
        slow: Node -> what is left of its first metric on cuda:1; None: a fleet with nothing wrong.
        run: The run's id.
        week: When it was measured.
    """
    rng = np.random.default_rng(week)
    rows = ["node,device,benchmark,metric,unit,better,component,value,run,time"]
    for number in range(NODES):
        node = f"n{number:02d}"
        for card in range(CARDS):
            for metric in METRICS:
                value = 100 * np.exp(rng.normal(0, 0.004))
                if slow is not None:
                    if (node, card) == ("n05", 2):
                        continue
                    value *= slow.get(node, 1.0) if (card, metric) == (1, "gemm_a") else 1.0
                    value *= 0.97 if number in BATCH and metric.startswith("pcie") else 1.0
                text = f"{value:.4f}"
                if slow is not None and number % 10 == 9 and (card, metric) == (3, "gemm_b"):
                    text = ""
                part = metric.partition("_")[0]
                rows.append(
                    f"{node},cuda:{card},{part},{metric},GB/s,higher,accelerator.{part},{text},{run},"
                    f"2026-01-{week:02d}T00:00:00+00:00"
                )
    path.write_text("\n".join(rows) + "\n")


def prepare() -> None:
    write(Path("old.csv"), run="old")
    assert anubis("learn", "old.csv").returncode == 0
    nodes = [f"n{n:02d},{'C' if n in BATCH else 'A'},S{n}" for n in range(NODES)]
    Path("nodes.csv").write_text("\n".join(["node,batch,serial", *nodes]) + "\n")


def decisions() -> dict[str, str]:
    """Return the decision on every node, as the latest JSON has it."""
    nodes = json.loads(Path("out.json").read_text())["nodes"]
    return {one["node"]: one["decision"] for one in nodes}


def test_the_first_lines_say_what_to_act_on(here: Path) -> None:
    write(here / "new.csv", slow={"n40": 0.7, "n41": 0.5}, run="new", week=8)
    done = anubis("judge", "new.csv", "--nodes-file", "nodes.csv", "--json", "out.json")
    lines = done.stdout.splitlines()
    assert len(lines) < 30, done.stdout
    assert "n05: cuda:2 is gone: 4 of 4 metrics have no value" in lines[0]
    assert lines[1].startswith("batch C (12 nodes): pcie pcie_")
    assert "slower than A" in lines[1]
    assert lines[2].startswith("6 values are missing on 6 nodes")
    assert [line.split()[0] for line in lines[3:5]] == ["RETEST", "RETEST"]
    assert ("n41" in lines[3], "n40" in lines[4]) == (True, True)
    rejected = {node for node, decision in decisions().items() if decision == "REJECTED"}
    assert rejected == {"n05", "n40", "n41"}
    assert done.returncode == 1


def test_missing_values_are_listed_and_allowed(here: Path) -> None:
    write(here / "new.csv", slow={}, run="new", week=8)
    lacking = [f"n{n:02d}" for n in range(9, NODES, 10)]
    for share, decision in (("10%", "ACCEPTED"), ("0", "UNDECIDED")):
        done = anubis("judge", "new.csv", "--allow-missing", share, "--json", "out.json")
        assert {decisions()[node] for node in lacking} == {decision}
        assert "6 values are missing on 6 nodes" in done.stdout
        with Path(".anubis/missing.csv").open() as file:
            cells = list(csv.DictReader(file))
        assert [cell["node"] for cell in cells] == lacking
        assert {tuple(cell.values())[1:] for cell in cells} == {("gemm", "gemm_b", "cuda:3")}
        undecided = [line for line in done.stdout.splitlines() if line.startswith("UNDECIDED")]
        assert len(undecided) == (decision == "UNDECIDED")
    assert "on the nodes of .anubis/missing.csv" in done.stdout
    assert [host.name for host in read_hosts(".anubis/missing.csv")] == lacking
    assert anubis("judge", "new.csv", "--missing", "nowhere/here.csv").returncode == 1
    wrong = anubis("judge", "new.csv", "--allow-missing", "2x")
    assert (wrong.returncode, "Traceback" in wrong.stderr) == (2, False)


def test_a_list_of_missing_values_replaces_no_other(here: Path) -> None:
    write(here / "new.csv", slow={}, run="new", week=8)
    for _ in range(2):  # the same list is the same file
        anubis("judge", "new.csv")
        narrow = anubis("judge", "new.csv", "--nodes", "n09")
    assert [len(Path(f".anubis/{name}.csv").read_text().splitlines()) for name in LISTS] == [7, 2]
    assert "on the nodes of .anubis/missing-2.csv" in narrow.stdout
    assert sorted(path.stem for path in Path(".anubis").glob("missing*")) == LISTS


@pytest.mark.parametrize("named", [(), ("--missing", "list.csv")])
def test_an_outdated_list_of_missing_values_goes(here: Path, named: tuple[str, ...]) -> None:
    write(here / "new.csv", slow={}, run="new", week=8)
    write(here / "whole.csv", run="whole", week=9)
    place = here / (named[1] if named else ".anubis/missing.csv")
    assert anubis("judge", "new.csv", *named).returncode == 1
    before = place.read_text()
    if not named:  # of other nodes, it says nothing of these
        assert anubis("judge", "whole.csv", "--nodes", "n00,n09").returncode == 0
        assert place.read_text() == before
    assert anubis("judge", "new.csv", "whole.csv", *named).returncode == 0
    assert not place.exists()
    place.write_text("what,somebody,else,wrote\nn09,gemm,gemm_b,cuda:3\n")
    assert anubis("judge", "whole.csv", *named).returncode == 0
    assert place.exists()


def test_what_is_partly_there_makes_one_new_list(here: Path) -> None:
    write(here / "new.csv", slow={}, run="new", week=8)
    write(here / "some.csv", run="some", week=9)
    rows = (here / "some.csv").read_text().splitlines()
    (here / "some.csv").write_text("\n".join([rows[0], *(r for r in rows if r < "n10")]) + "\n")
    anubis("judge", "new.csv")
    anubis("judge", "new.csv", "some.csv")
    assert [path.name for path in Path(".anubis").glob("missing*")] == ["missing.csv"]
    with Path(".anubis/missing.csv").open() as file:
        assert [row["node"] for row in csv.DictReader(file)] == ["n19", "n29", "n39", "n49", "n59"]
    before = Path(".anubis/missing.csv").read_text()
    anubis("judge", "new.csv", "some.csv", "--metrics", "pcie_in")  # of others it says nothing
    assert Path(".anubis/missing.csv").read_text() == before


def test_the_list_of_missing_values_is_in_the_store(here: Path) -> None:
    write(here / "new.csv", slow={}, run="new", week=8)
    write(here / "whole.csv", run="whole", week=9)
    anubis("import", "table", "new.csv")
    anubis("judge", ".anubis/imports")
    own = Path(".anubis/missing.csv").read_text()
    anubis("import", "table", "new.csv", "whole.csv", "--store", "other")
    for place in ("other/imports/new.csv.npz", "other/imports", "other"):
        assert "missing.csv" not in anubis("judge", place).stdout.replace("other/missing.csv", "")
        assert Path("other/missing.csv").exists() == place.endswith(".npz")
        assert Path(".anubis/missing.csv").read_text() == own


@pytest.mark.parametrize("left", [1.0, 0.6])
def test_a_bad_value_is_no_longer_missing(here: Path, left: float) -> None:
    write(here / "new.csv", slow={}, run="new", week=8)
    row = f"n09,cuda:3,gemm,gemm_b,GB/s,higher,accelerator.gemm,{100 * left},again,2026-01-09"
    head = (here / "new.csv").read_text().partition("\n")[0]
    (here / "again.csv").write_text(f"{head}\n{row}\n")
    done = anubis("judge", "new.csv", "again.csv", "--json", "out.json")
    (node,) = (n for n in json.loads(Path("out.json").read_text())["nodes"] if n["node"] == "n09")
    assert node["decision"] == ("ACCEPTED" if left == 1 else "REJECTED")
    assert [one for one in node["blocking"] if one["reason"] == "not-reported"] == []
    assert "NOT_TESTED" not in dict(node["counts"]), done.stdout
    with Path(".anubis/missing.csv").open() as file:
        assert "n09" not in {cell["node"] for cell in csv.DictReader(file)}


def test_an_import_of_a_known_class_is_judged(here: Path) -> None:
    write(here / "new.csv", slow={}, run="new", week=8)
    done = anubis("import", "table", "new.csv")
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("next: "))
    assert line.startswith("next: anubis judge ")
    assert line.endswith(" --nodes-file nodes.csv")


def test_few_nodes_do_not_replace_the_baseline_of_many(here: Path) -> None:
    (baseline,) = Path("baselines").glob("*.json")
    before = baseline.read_bytes()
    rows = Path("old.csv").read_text().splitlines()
    Path("few.csv").write_text("\n".join([rows[0], *(row for row in rows if row < "n06")]))
    done = anubis("learn", "few.csv")
    assert (done.returncode, baseline.read_bytes() == before) == (2, True)
    assert "is of 60 nodes, and these runs are of 6" in done.stderr
    assert anubis("learn", "few.csv", "--output", "elsewhere").returncode != 2


def test_a_table_without_nodes_is_no_list_of_hosts(here: Path) -> None:
    (here / "t.csv").write_text("name\nn1\n")
    with pytest.raises(HostListError, match="no column 'node'"):
        read_hosts("t.csv")


def test_what_a_later_round_passed_is_answered(here: Path) -> None:
    write(here / "first.csv", slow={"n40": 0.7, "n41": 0.7}, run="w1", week=8)
    write(here / "then.csv", slow={"n41": 0.7}, run="w2", week=15)
    done = anubis("judge", "first.csv", "then.csv", "--json", "out.json")
    found = decisions()
    assert (found["n40"], found["n41"]) == ("ACCEPTED", "REJECTED")
    assert next(line for line in done.stdout.splitlines() if "n40" in line).endswith(
        "recovered: n40"
    )


def test_a_node_that_is_slow_as_its_batch_is_says_so(here: Path) -> None:
    rows = (here / "old.csv").read_text().splitlines()
    slow = [
        row.replace(row.split(",")[7], f"{0.8 * float(row.split(',')[7]):.3f}")
        if "pcie_in" in row and int(row[1:3]) in BATCH
        else row
        for row in rows[1:]
    ]
    (here / "new.csv").write_text("\n".join([rows[0], *slow]).replace(",old,", ",new,") + "\n")
    done = anubis("judge", "new.csv", "--nodes-file", "nodes.csv")
    lines = done.stdout.splitlines()
    assert "12 nodes rejected for nothing else" in lines[0]
    assert [line for line in lines if line.startswith(("REJECTED", "RETEST"))] == [lines[1]]
    assert lines[1].startswith("RETEST")
    assert "as all of batch C" in lines[1]


def test_health_reads_imported_nodes_from_the_history(here: Path) -> None:
    write(here / "new.csv", slow={"n40": 0.7}, run="new", week=8)
    assert anubis("import", "table", "new.csv").returncode == 0
    assert anubis("push").returncode == 0
    rejected = anubis("health", "--node", "n40")
    assert (rejected.returncode, "gemm" in rejected.stdout.lower()) == (1, True)
    held = anubis("health", "--node", "n40", "--act", "drain", "--json", "-")
    assert (held.returncode, json.loads(held.stdout)["retest"]) == (1, True)
    assert "not drained" in held.stderr
    assert [anubis("health", "--node", node).returncode for node in ("n00", "unknown")] == [0, 20]
    aged = anubis("health", "--node", "n00", "--max-age", "1s")
    assert (aged.returncode, aged.stdout.split()[0]) == (20, "ANB:OLD-VERDICT")
    write(here / "alone.csv", run="alone", week=9)
    stores = ("--store", "other"), ("--history", "other"), ("--baseline", "none")
    (here / "none").mkdir()
    assert anubis("import", "table", "alone.csv", *stores[0]).returncode == 0
    assert anubis("push", "other", *stores[1], *stores[2]).returncode == 0  # without a verdict
    unjudged = anubis("health", "--node", "n00", *stores[0], "--max-age", "1s")
    assert (unjudged.returncode, unjudged.stdout.split()[0]) == (20, "ANB:NO-VERDICT")


def test_a_lost_history_begins_anew_with_a_note(here: Path) -> None:
    write(here / "new.csv", slow={"n40": 0.7, "n41": 0.7}, run="new", week=8)
    write(here / "some.csv", run="some", week=9)
    rows = (here / "some.csv").read_text().splitlines()
    some = [row for row in rows if row.startswith("n41,") and "pcie_in" in row]
    (here / "some.csv").write_text("\n".join([rows[0], *some]) + "\n")
    push = ("push", "new.csv", "--history", "fleet")
    assert "is new" not in anubis(*push).stdout
    ask = [("health", "--store", "fleet", "--node", node) for node in ("n40", "n41", "n00")]
    before = [anubis(*one) for one in ask]
    assert [one.returncode for one in before] == [1, 1, 0]

    Path("fleet/history.sqlite").unlink()
    assert [anubis(*one).returncode for one in ask] == [1, 1, 20]
    said = anubis("push", "some.csv", "--history", "fleet")
    (line,) = [one for one in said.stdout.splitlines() if "history fleet is new" in one]
    assert f"{NODES} runs" in line
    lost = [anubis(*one) for one in ask]
    assert [one.returncode for one in lost] == [1, 1, 20]
    pairs = list(zip(lost[:2], before[:2], strict=True))
    assert all(two.stdout.startswith(one.stdout.strip()) for one, two in pairs)
    assert all("measure again first" in two.stdout for _, two in pairs)
    assert "run new rejected it" in lost[1].stderr

    assert "is new" not in anubis(*push).stdout
    assert [anubis(*one).returncode for one in ask] == [1, 1, 0]
    defects = ("history", "--store", "fleet", "defect")
    defects_found = json.loads(anubis(*defects, "list", "--json", "-").stdout)["defects"]
    number = next(str(one["number"]) for one in defects_found if one["node"] == "n40")
    assert anubis(*defects, "close", number, "--as", "false-alarm").returncode == 0
    assert [anubis(*one).returncode for one in ask] == [20, 1, 0]  # what is answered is not kept
    for node, decision in (("n40", "UNDECIDED"), ("n41", "REJECTED")):
        found = anubis("report", "--history", "fleet", "--node", node, "--json", "-").stdout
        assert json.loads(found)["node_verdict"]["decision"] == decision


def test_an_unreadable_history_stops_no_judging(here: Path) -> None:
    write(here / "new.csv", slow={"n40": 0.7}, run="new", week=8)
    assert anubis("import", "table", "new.csv").returncode == 0
    Path(".anubis/history.sqlite").write_text("no database")
    done = anubis("judge", ".anubis/imports")
    assert (done.returncode, "REJECTED" in done.stdout) == (1, True)
    assert "registered of the nodes is not known" in done.stdout
    health = anubis("health", "--node", "n40")
    assert (health.returncode, "UNREADABLE" in health.stdout) == (20, True)


def test_what_the_latest_runs_changed_is_said(here: Path) -> None:
    write(here / "a.csv", slow={"n40": 0.7, "n41": 0.7}, run="a", week=2)
    write(here / "b.csv", slow={"n41": 0.7, "n42": 0.7}, run="b", week=3)
    (once,) = {"latest run" in line for line in anubis("judge", "a.csv").stdout.splitlines()}
    assert not once
    done = anubis("judge", "a.csv", "b.csv")
    (line,) = [one for one in done.stdout.splitlines() if "latest run" in one]
    new, recovered = line.split("; ")
    assert ("n42" in new, "n41" in line, "n40" in recovered) == (True, False, True)


@pytest.mark.parametrize("how", ["gone", "failed"])
def test_a_node_whose_card_is_back_has_recovered(here: Path, how: str) -> None:
    """So has one of which a test failed without a value; what was only empty is no rejection."""
    write(here / "a.csv", run="a", week=2)
    write(here / "b.csv", run="b", week=3)
    head, *rows = (here / "a.csv").read_text().splitlines()
    if how == "gone":
        rows = [row for row in rows if not row.startswith("n40,cuda:1,")]
    else:
        head = f"{head},status"
        rows = [
            f"{row},{'failed' if row.startswith('n40,cuda:1,gemm,gemm_a,') else 'ok'}"
            for row in rows
        ]
    rows = [
        row.replace(row.split(",")[7], "") if row.startswith("n41,cuda:1,gemm,gemm_b") else row
        for row in rows
    ]
    (here / "a.csv").write_text("\n".join([head, *rows]) + "\n")
    alone = anubis("judge", "a.csv")
    assert alone.returncode == 1
    done = anubis("judge", "a.csv", "b.csv")
    assert done.returncode == 0
    assert "by each node's latest run: recovered: n40" in done.stdout.splitlines()


@pytest.mark.parametrize(
    ("day", "loss", "decision"),
    [
        ("2026-01-05", 1.0, "ACCEPTED"),
        ("2026-01-25", 1.0, "UNDECIDED"),
        ("2026-01-25", 0.7, "REJECTED"),
    ],
)
@pytest.mark.parametrize("how", ["tables", "store"])
def test_old_runs_reject_but_complete_nothing(
    here: Path, day: str, loss: float, decision: str, how: str
) -> None:
    write(here / "a.csv", slow={"n40": loss}, run="a", week=2)
    rows = (here / "a.csv").read_text().splitlines()
    some = [row for row in rows if row.startswith("n40,") and "gemm_b" in row]
    late = [row.replace(",a,2026-01-02", f",b,{day}") for row in some]
    (here / "b.csv").write_text("\n".join([rows[0], *late]) + "\n")
    runs = ["a.csv", "b.csv"]
    if how == "store":
        for name in runs:
            assert anubis("import", "table", name).returncode == 0
        runs = [".anubis"]
    anubis("judge", *runs, "--json", "out.json")
    found = decisions()
    assert (found["n40"], found["n00"]) == (decision, "ACCEPTED")


def test_only_recent_imports_complete_a_filed_one(here: Path) -> None:
    for day, code in (("2026-01-05", 0), ("2026-01-25", 20)):
        write(here / "a.csv", slow={}, run="a", week=2)
        rows = (here / "a.csv").read_text().splitlines()
        some = [row for row in rows if row.startswith("n40,") and "gemm_a" in row]
        late = [row.replace(",a,2026-01-02", f",b,{day}") for row in some]
        (here / "b.csv").write_text("\n".join([rows[0], *late]) + "\n")
        store = f"store-{day}"
        for name in ("a.csv", "b.csv"):
            assert anubis("import", "table", name, "--store", store).returncode == 0
        assert anubis("push", store, "--history", f"history-{day}").returncode == 0
        assert anubis("health", "--store", f"history-{day}", "--node", "n40").returncode == code


def test_a_nodes_report_names_its_slow_batch(here: Path) -> None:
    write(here / "new.csv", slow={"n40": 0.7}, run="new", week=8)
    rows = (here / "new.csv").read_text().splitlines()
    for n in BATCH:  # slower than the limit of any one node
        for place, row in enumerate(rows):
            cells = row.split(",")
            if cells[0] == f"n{n:02d}" and cells[3].startswith("pcie"):
                rows[place] = ",".join([*cells[:7], f"{float(cells[7]) * 0.93:.4f}", *cells[8:]])
    (here / "new.csv").write_text("\n".join(rows) + "\n")
    for node, batch in ((f"n{min(BATCH):02d}", True), ("n40", False)):
        done = anubis(
            "report", "new.csv", "--node", node, "--nodes-file", "nodes.csv", "--json", "node.json"
        )
        verdict = json.loads(Path("node.json").read_text())["node_verdict"]
        assert verdict["decision"] == "REJECTED"
        assert (verdict["triage"] == "shared") == batch
        assert ("batch C" in done.stdout) == batch


def test_a_pushed_retest_loses_no_card(here: Path) -> None:
    write(here / "a.csv", slow={}, run="a", week=2)
    head, *rows = (here / "a.csv").read_text().splitlines()
    cards = tuple(f"n40,cuda:{card}," for card in range(CARDS - 1))
    good = [row for row in rows if row.startswith(cards)]
    for place, row in enumerate(rows):
        cells = row.split(",")
        if row in good and cells[3] == "gemm_a":
            rows[place] = ",".join([*cells[:7], f"{float(cells[7]) * 0.7:.4f}", *cells[8:]])
    (here / "a.csv").write_text("\n".join([head, *rows]) + "\n")
    late = [row.replace(",a,2026-01-02", ",b,2026-01-03") for row in good]
    (here / "b.csv").write_text("\n".join([head, *late]) + "\n")
    for name in ("a.csv", "b.csv"):
        assert anubis("import", "table", name, "--store", "store").returncode == 0
    assert anubis("push", "store", "--history", "history").returncode == 0
    assert anubis("judge", "store", "--nodes", "n40").returncode == 0
    assert anubis("health", "--store", "history", "--node", "n40").returncode == 0


def test_the_json_has_the_next_step_of_each_node(here: Path) -> None:
    write(here / "new.csv", slow={"n40": 0.7}, run="new", week=8)
    done = anubis("judge", "new.csv", "--allow-missing", "0", "--json", "out.json")
    steps = {n["node"]: n["next"] for n in json.loads(Path("out.json").read_text())["nodes"]}
    (line,) = [one for one in done.stdout.splitlines() if one.startswith("RETEST") and "n40" in one]
    assert line.endswith(f" -> {steps['n40']}")
    assert steps["n09"] != ""
    assert steps["n00"] == ""


@pytest.mark.parametrize("dated", ["time", "--date", ""])
def test_an_order_by_file_dates_is_noted(dated: str, here: Path) -> None:
    write(here / "a.csv", slow={}, run="a", week=2)
    head, *rows = (here / "a.csv").read_text().splitlines()
    some = [row for row in rows if row.startswith("n40,")]
    if dated != "time":
        head, *rows = [row.rpartition(",")[0] for row in (head, *rows)]
        some = [row.rpartition(",")[0].replace(",a", ",b") for row in some]
    some = [row.replace(",a,2026-01-02", ",b,2026-01-03") for row in some]
    (here / "a.csv").write_text("\n".join([head, *rows]) + "\n")
    (here / "b.csv").write_text("\n".join([head, *some]) + "\n")
    for day, name in enumerate(("a.csv", "b.csv"), start=2):
        date = ["--date", f"2026-01-0{day}"] if dated == "--date" else []
        assert anubis("import", "table", name, "--store", "store", *date).returncode == 0
    anubis("judge", "store", "--json", "out.json")
    notes = json.loads(Path("out.json").read_text())["notes"]
    assert any("n40" in note for note in notes) == (not dated)


@pytest.mark.parametrize(("cell", "code"), [(None, 1), ("3'012.5", 20)])
def test_a_device_with_unread_values_is_not_gone(cell: str | None, code: int, here: Path) -> None:
    write(here / "new.csv", slow={}, run="new", week=8)
    head, *rows = (here / "new.csv").read_text().splitlines()
    own = [row for row in rows if row.startswith("n05,")]
    if cell is not None:
        other = [row.split(",") for row in own if row.startswith("n05,cuda:1,")]
        own += [",".join(["n05", "cuda:2", *row[2:7], cell, *row[8:]]) for row in other]
    (here / "one.csv").write_text("\n".join([head, *own]) + "\n")
    assert anubis("judge", "one.csv").returncode == code
