"""What an import could not read is no empty cell: `anubis judge` accepts no node of which a line was lost."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.cli.command_line import anubis

PARTS, RATES = 4, 12  # of so many values one may be missing
HEAD = "node,benchmark,metric,unit,better,value"
DATED = f"{HEAD},time"


def rows(node: str, seed: int, cell: str = "", metric: str = "") -> list[str]:
    """Return a node's table, one value a metric, with a cell of the third part in its place."""
    draw = random.Random(seed)
    found = []
    for part in range(PARTS):
        for name in (*(f"rate{number}" for number in range(RATES)), "faults"):
            value = "0" if name == "faults" else f"{100 * draw.gauss(1, 0.005):.3f}"
            value = cell if metric == name and part == 2 else value
            kind = "errors,equal" if name == "faults" else "GB/s,higher"
            found.append(f"{node},part{part},{name},{kind},{value}")
    return found


def prepare() -> None:
    good = [row for number in range(20) for row in rows(f"g{number:02d}", number)]
    Path("good.csv").write_text("\n".join([HEAD, *good]))
    assert anubis("learn", "good.csv").returncode == 0


@pytest.mark.parametrize("metric", ["rate7", "faults"])
@pytest.mark.parametrize(
    ("cell", "code"),
    [("", 0), ("N/A", 0), ("FAILED", 20), ("50 MB/s", 20), (">0", 20), ("1,5", 20), ("NaN", 20)],
)
def test_a_cell_that_is_no_number_is_not_missing(
    here: Path, metric: str, cell: str, code: int
) -> None:
    bad = rows("b00", 77, f'"{cell}"' if "," in cell else cell, metric)
    Path("bad.csv").write_text("\n".join([HEAD, *bad]))
    assert anubis("import", "table", "bad.csv").returncode == (1 if code else 0)
    done = anubis("judge", ".anubis/imports/bad.csv.npz")
    assert done.returncode == code, done.stdout


def written(name: str, lines: list[str], head: str = HEAD) -> str:
    Path(name).write_text("\n".join([head, *lines]) + "\n")
    return name


def test_a_second_value_replaces_no_lost_one(here: Path) -> None:
    lost, again = rows("b00", 77, '"1,200.5"', "rate7"), rows("b00", 78)
    done = anubis("judge", written("both.csv", lost + again))
    assert done.returncode == 20, done.stdout


def test_a_later_whole_run_answers_a_lossy_one(here: Path) -> None:
    first = written(
        "a.csv", [f"{row},2026-11-01" for row in rows("b00", 77, "1,5", "rate7")], DATED
    )
    part = written("b.csv", [f"{row},2026-11-02" for row in rows("b00", 78)[:5]], DATED)
    whole = written("c.csv", [f"{row},2026-11-03" for row in rows("b00", 79)], DATED)
    assert anubis("judge", first, part).returncode == 20
    assert anubis("judge", first, part, whole).returncode == 0
    assert anubis("judge", whole).returncode == 0


def test_a_node_without_readable_values_is_undecided(here: Path) -> None:
    bad = [
        row.replace("GB/s,higher", "GB/s,HIGHER").replace("equal", "EQUAL")
        for row in rows("b01", 5)
    ]
    for tables in ((written("a.csv", rows("b00", 4)), written("b.csv", bad)), ("both.csv",)):
        written("both.csv", rows("b00", 4) + bad)
        done = anubis("judge", *tables)
        assert done.returncode == 20
        assert "2 nodes: 0 REJECTED, 1 UNDECIDED, 1 ACCEPTED" in done.stdout
    assert anubis("judge", "a.csv", written("empty.csv", [])).returncode == 20


def test_a_head_that_stands_again_is_no_node(here: Path) -> None:
    again = [*rows("b00", 4), HEAD, *rows("b01", 5)]
    assert anubis("judge", written("both.csv", again)).returncode == 0
    other = [*rows("b00", 4), ",".join(reversed(HEAD.split(","))), *rows("b01", 5)]
    assert anubis("judge", written("other.csv", other)).returncode == 20


def one_odd_cell(odd: str, usual: str) -> list[str]:
    """Return a node's rows with a further cell each, one of which differs."""
    return [f"{row},{odd if number == 30 else usual}" for number, row in enumerate(rows("b00", 4))]


@pytest.mark.parametrize(
    ("column", "bad", "good"),
    [
        *(("returncode", code, "0") for code in ("9", "SIGKILL", "0x8b")),
        ("Exit Code", "1", "0"),
        ("status", "FAIL", "PASS"),
        ("passed", "false", "true"),
        ("failed", "True", "False"),
        ("pass_fail", "FAIL", "PASS"),
        ("job_state", "TIMEOUT", "COMPLETED"),
        ("timed out", "True", "no"),
        ("isHealthy", "no", "yes"),
        ("Remarks", "unreachable", ""),
    ],
)
def test_a_column_that_says_of_a_failure_is_read(
    here: Path, column: str, bad: str, good: str
) -> None:
    for word, code in ((good, 0), (bad, 1)):
        table = one_odd_cell(word, good)
        assert anubis("judge", written("t.csv", table, f"{HEAD},{column}")).returncode == code


@pytest.mark.parametrize(
    ("column", "usual", "other", "code"),
    [
        ("job_state", "COMPLETED", "CANCELLED by 1000", 20),
        ("retried", "no", "yes", 0),
        ("not_passed", "false", "true", 1),
        ("timeout", "300", "600", 0),
        ("slot", "upper", "down", 0),
    ],
)
def test_a_column_of_outcome_words_is_read(
    here: Path, column: str, usual: str, other: str, code: int
) -> None:
    table = one_odd_cell(other, usual)
    done = anubis("judge", written("t.csv", table, f"{HEAD},{column}"))
    assert done.returncode == code
    imported = anubis("import", "table", "t.csv").stdout
    assert (f"column '{column}' is not used" in imported) == (code == 0)


def test_a_column_that_numbers_passes_rejects_no_node(here: Path) -> None:
    table = [f"{row},{number % 2}" for number, row in enumerate(rows("b00", 4))]
    assert len(table) % 2 == 0
    assert anubis("judge", written("t.csv", table, f"{HEAD},pass")).returncode == 20


def test_imports_of_one_path_replace_no_other_node(here: Path) -> None:
    for node, seed, rate in (("b00", 4, "50"), ("b01", 5, "")):
        written("t.csv", rows(node, seed, rate, "rate7" if rate else ""))
        assert anubis("import", "table", "t.csv").returncode == 0
    done = anubis("judge", ".anubis/imports")
    assert done.returncode == 1
    assert "2 nodes: 0 REJECTED, 1 RETEST" in done.stdout
    assert anubis("import", "table", "t.csv", "--run", "second").returncode == 0


def test_a_pass_in_the_future_clears_nothing(here: Path) -> None:
    bad = written("bad.csv", [f"{row},2026-11-02" for row in rows("b00", 4, "50", "rate7")], DATED)
    good = written("good2.csv", [f"{row},2060-11-03" for row in rows("b00", 5)], DATED)
    assert anubis("judge", bad, good).returncode == 1


@pytest.mark.parametrize("change", ["1,5", "50,a remark", None])
def test_a_line_of_odd_columns_counts_for_its_node(here: Path, change: str | None) -> None:
    bad = rows("b00", 4)
    bad[30] = bad[30].rpartition(",")[0] + (f",{change}" if change else "")
    done = anubis("judge", written("t.csv", bad + rows("b01", 5)))
    assert done.returncode == 20
    assert "2 nodes: 0 REJECTED, 1 UNDECIDED, 1 ACCEPTED" in done.stdout


@pytest.mark.parametrize("line", ["(16 rows)", "# by hand", "--,--,--,--,--,--", ""])
def test_a_remark_in_a_table_is_no_result(here: Path, line: str) -> None:
    assert anubis("judge", written("t.csv", [line, *rows("b00", 4), line])).returncode == 0


@pytest.mark.parametrize(
    "line",
    [
        "b00 failed: no response",
        "node b00: unreachable",
        "b00 DOWN",
        "b00.rack7: ssh: connect to host b00 port 22: Connection timed out",
        "b00 and b02 failed, b03 did not",
    ],
)
@pytest.mark.parametrize("place", [0, 1, -1])
def test_a_remark_on_a_failure_prevents_acceptance(here: Path, line: str, place: int) -> None:
    lines = [HEAD, *rows("b00", 4), *(row for n in range(12) for row in rows(f"g{n}", n))]
    lines[place:place] = [
        line
    ]  # above the head, before the rows of its node, and chunks behind them
    Path("t.csv").write_text("\n".join(lines))
    done = anubis("judge", "t.csv")
    assert done.returncode == 20
    assert "13 nodes: 0 REJECTED, 1 UNDECIDED, 12 ACCEPTED" in done.stdout


@pytest.mark.parametrize(
    "line", ["b00 had no errors", "b00: failed: 0", "b99 failed", "b00", "# b00 failed"]
)
def test_a_remark_of_no_failure_is_ignored(here: Path, line: str) -> None:
    assert anubis("judge", written("t.csv", rows("b00", 4), f"{line}\n{HEAD}")).returncode == 0


@pytest.mark.parametrize(
    ("column", "word", "usual", "code"),
    [
        ("status", "PREEMPTED", "", 20),
        ("failed", "3", "", 20),
        ("passed", "8/8", "", 0),
        ("passed", "0/0", "", 20),
        ("errors", "8/8", "", 20),
        ("error", "2/2", "", 20),
        ("result", "71.2", "", 0),
        ("Comment", "FAILED twice, then rebooted", "", 20),
        ("operator_notes", "no errors", "", 0),
        ("host_log", "NVRM: Xid 79, GPU has fallen off the bus", "", 20),
        ("rc", "0:0", "0", 0),
        ("rc", "SIGKILL", "0", 1),
        ("rc", "SIGKILL", "", 1),  # codes of failures only
        ("rc", "", "", 0),
        ("rc", "None", "", 20),
        *(("rc", word, "0", 20) for word in ("", "N/A", "None", "null", "nan")),
    ],
)
def test_an_unknown_outcome_or_return_code_accepts_nothing(
    here: Path, column: str, word: str, usual: str, code: int
) -> None:
    table = one_odd_cell(word, usual)
    assert anubis("judge", written("t.csv", table, f"{HEAD},{column}")).returncode == code


def test_a_refused_file_leaves_its_node_undecided(here: Path) -> None:
    log = Path(__file__).parents[2] / "store" / "importers" / "data" / "nccl_allreduce.log"
    text = log.read_text()
    for node in ("a", "b", "c", "d"):
        Path("all.log").write_text(text)
        assert anubis("import", "nccl", "all.log", "--node", node, "--class", "k").returncode == 0
    assert anubis("learn", ".anubis/imports").returncode in (0, 20)
    assert anubis("judge", ".anubis/imports").returncode == 0
    Path("all.log").write_text(text[: text.index("busbw")])  # it hung at once
    assert anubis("import", "nccl", "all.log", "--node", "b", "--class", "k").returncode == 2
    done = anubis("judge", ".anubis/imports")
    assert (done.returncode, "4 nodes: 0 REJECTED, 1 UNDECIDED" in done.stdout) == (20, True)


def test_a_future_pass_clears_no_filed_rejection(here: Path) -> None:
    bad = written("bad.csv", [f"{row},2026-11-02" for row in rows("b00", 4, "50", "rate7")], DATED)
    good = written("good2.csv", [f"{row},2060-11-03" for row in rows("b00", 5)], DATED)
    for table in (bad, good):
        assert anubis("push", table, "--history", "h").returncode == 0
        assert anubis("fleet", "status", "--history", "h").returncode == 1
        assert "b00" in anubis("fleet", "drain-list", "--history", "h").stdout


@pytest.mark.parametrize("kind", ["csv", "parquet", "superbench"])
@pytest.mark.parametrize(
    ("value", "other", "code"),
    [(2**53 - 1, 2**53 - 2, 1), (12345678901234567, 12345678901234568, 20)],
)
def test_a_rounded_exact_value_is_a_wrong_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, value: int, other: int, code: int
) -> None:
    monkeypatch.chdir(tmp_path)
    good = {f"n{number}": value for number in range(4)}
    Path("map.csv").write_text("benchmark,metric,unit,better,component\nsum,crc,crc,equal,gpu\n")
    for name, crcs in (("good", good), ("bad", {"b00": other, "b01": value})):
        rates = [f"{node},copy,rate,GB/s,higher,100" for node in crcs for _ in range(3)]
        lines = rates + [f"{node},sum,crc,crc,equal,{crc}" for node, crc in crcs.items()]
        if kind == "superbench":
            values = [{"node": n, "copy/rate_bw": 100, "sum/crc": crc} for n, crc in crcs.items()]
            path = written(
                f"{name}.jsonl", list(map(json.dumps, values))[1:], json.dumps(values[0])
            )
            more = ["--map", "map.csv"]
        else:
            path, more = written(f"{name}.csv", lines), []
        if kind == "parquet":
            duckdb = pytest.importorskip("duckdb")
            duckdb.sql(f"copy (from read_csv('{path}')) to '{name}.parquet' (format parquet)")
            path = f"{name}.parquet"
        word = "superbench" if kind == "superbench" else "table"
        done = anubis("import", word, path, "--store", name, *more)
        assert done.returncode in (0, 1)
        if name == "good":
            assert anubis("learn", "good/imports").returncode in (0, 20)
    assert anubis("judge", "bad/imports").returncode == code
