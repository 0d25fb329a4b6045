"""Results of other tools become populations; an error is listed and affects nothing else."""

from __future__ import annotations

import csv
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_anubis.core.sample import Population
from pytest_anubis.store.history.contents.run_rows import duration_rows
from pytest_anubis.store.importers.fio import import_fio
from pytest_anubis.store.importers.import_folder import ImportFolder
from pytest_anubis.store.importers.import_result import ImportFileError, run_name
from pytest_anubis.store.importers.metric_map import read_metric_map
from pytest_anubis.store.importers.nccl import import_nccl
from pytest_anubis.store.importers.superbench import import_superbench
from pytest_anubis.store.importers.table import import_table
from pytest_anubis.store.samples.columnar_files import load_columns
from tests.store.importers.tables import summary, unread

DATA = Path(__file__).parent / "data"
HEAD = "node,device,benchmark,metric,unit,better,value"


def table(folder: Path, text: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def unit(population: Population, node: str, device: str = "node") -> tuple[list[float], str]:
    pairs = list(zip(population.nodes, population.devices, strict=True))
    row = pairs.index((node, device))
    problem = population.problems.get(row)
    return population.sample(row).tolist(), problem.kind if problem else ""


def test_a_table_becomes_populations(tmp_path: Path) -> None:
    path = table(
        tmp_path,
        f"{HEAD},class,group\n"
        "b,cuda:0,gemm,rate,TFLOP/s,higher,3,h100,\n"
        "a,cuda:1,gemm,rate,TFLOP/s,higher,1,h100,\n"
        "a,cuda:0,gemm,rate,TFLOP/s,higher,2,h100,\n"
        "a,cuda:0,gemm,rate,TFLOP/s,higher,5,h100,\n"
        "a,cuda:0,step,time,ms,lower,7,h100,stage1\n",
    )
    found = import_table(path)
    assert (found.values, found.wrong_count) == (5, 0)
    gemm, step = found.populations
    assert (gemm.hardware_class, gemm.benchmark, gemm.metric.name) == ("h100", "gemm", "rate")
    assert (gemm.metric.unit, gemm.metric.better, gemm.group) == ("TFLOP/s", "higher", "")
    assert (gemm.nodes, gemm.devices) == (("a", "a", "b"), ("cuda:0", "cuda:1", "cuda:0"))
    assert gemm.sample(0).tolist() == [2.0, 5.0]
    assert gemm.runs == ("t", "t", "t")
    assert (step.metric.better, step.group) == ("lower", "stage1")
    assert [(run.node, run.hardware_class) for run in found.runs] == [("a", "h100"), ("b", "h100")]


def test_times_order_values_and_columns_have_defaults(tmp_path: Path) -> None:
    path = table(
        tmp_path,
        "Node;Benchmark;Metric;Unit;Better;Value;Time;remark\n"
        "a;x;m;s;lower;3;2026-01-01T02:00;\n"
        "a;x;m;s;lower;1;2026-01-01T00:00:00Z;\n"
        "a;x;m;s;lower;2;2026-01-01T01:00;\n"
        "a;x;m;s;lower;4;soon;\n",
    )
    found = import_table(path, hardware_class="mine", run="r7")
    (population,) = found.populations
    assert population.sample(0).tolist() == [1.0, 2.0, 3.0]
    assert (population.hardware_class, population.devices, population.runs) == (
        "mine", ("node",), ("r7",),
    )  # fmt: skip
    assert [str(line) for line in found.wrong] == [
        "line 5: node a, column time: 'soon' is neither a number of seconds nor ISO 8601, such as "
        "2026-01-31T12:00:00Z"
    ]
    assert found.notes == ("column 'remark' is not used",)


def test_traits_and_durations_are_kept_with_runs_and_filed(tmp_path: Path) -> None:
    path = table(
        tmp_path,
        "node,benchmark,metric,unit,better,value,duration,driver,batch,run\n"
        "a,x,m,s,lower,3,90s,570,C,r1\n"
        "a,x,n,s,lower,3,2m,570,C,r1\n"
        "a,y,m,s,lower,3,30,580,,r2\n"
        "b,x,m,s,lower,3,,,,r1\n"
        "b,y,m,s,lower,3,soon,,,r1\n",
    )
    found = import_table(path)
    kept = load_columns(ImportFolder(tmp_path / "store").save(found)).runs
    for runs in (found.runs, kept):
        assert {(run.run, run.node): (dict(run.traits), dict(run.took)) for run in runs} == {
            ("r1", "a"): ({"driver": "570", "batch": "C"}, {"x": 120.0}),
            ("r2", "a"): ({"driver": "580"}, {"y": 30.0}),
            ("r1", "b"): ({}, {}),
        }
    (note,) = found.notes
    assert "'soon'" in note
    rows = [row for run in kept for row in duration_rows(1, run)]
    assert {row["benchmark"]: row["seconds"] for row in rows} == {"x": 120.0, "y": 30.0}


def test_wrong_lines_are_listed_and_good_ones_kept(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    lines = [
        HEAD,
        "a,d,x,m,s,lower,1",  # 2
        "a,d,x,m,s,lower",  # 3
        "a,d,x,m,s,lower,fast",  # 4
        "a,d,x,m,s,faster,1",  # 5
        ",d,x,m,s,lower,1",  # 6
        "a,d,x,m,,lower,1",  # 7
        "",  # 8
        'a,d,x,"m',  # 9 and 10: a quoted line end
        '",s,lower,1',
        "a,d,x,m,s,lower,2",  # 11
        "a,d,x,m,s,lower,2,extra",  # 12
        "\x07,d,x,m,s,lower,2",  # 13
        "b,d,x,m,s,lower,3",  # 14
    ]
    path.write_bytes("\n".join(lines).encode() + b"\n\xff,d,x,m,s,lower,3\n")
    found = import_table(path)
    assert [line.line for line in found.wrong] == [3, 4, 5, 6, 7, 12, 13, 15]
    assert found.wrong_count == 8
    (population,) = found.populations
    values, problem = unit(population, "a", "d")
    assert (len(values), problem) == (4, "invalid")  # a word is no empty cell
    assert unit(population, "b", "d") == ([3.0], "")
    assert unread(found) == {"a": 5, "b": 0}


def test_row_that_is_no_csv_affects_no_other(tmp_path: Path) -> None:
    huge = "x" * 200_000
    path = table(
        tmp_path, f"{HEAD}\na,d,x,m,s,lower,1\n{huge},d,x,m,s,lower,1\nb,d,x,m,s,lower,2\n"
    )
    found = import_table(path)
    assert [line.line for line in found.wrong] == [3]
    assert found.populations[0].nodes == ("a", "b")
    assert found.values == 2


def test_failed_and_invalid_rows_give_no_values(tmp_path: Path) -> None:
    path = table(
        tmp_path,
        f"{HEAD},return_code\n"
        "a,d,x,m,GB/s,higher,10,0\n"
        "b,d,x,m,GB/s,higher,0,124\n"
        "c,d,x,m,GB/s,higher,,3\n"
        "e,d,x,m,GB/s,higher,nan,0\n"
        "f,d,x,m,GB/s,higher,-1,0\n"
        "g,d,x,m,GB/s,higher,,0\n"
        "h,d,x,m,MB/s,higher,9,0\n"
        "i,d,x,m,GB/s,lower,9,0\n"
        "j,d,x,m,GB/s,higher,inf,0\n",
    )
    found = import_table(path)
    (population,) = found.populations
    kinds = {node: unit(population, node, "d") for node in population.nodes}
    assert kinds["a"] == ([10.0], "")
    assert kinds["b"] == ([], "failed")
    assert kinds["c"] == ([], "failed")
    assert {node: kinds[node][1] for node in "efghij"} == {
        "e": "invalid", "f": "invalid", "g": "missing", "h": "unit", "i": "unit", "j": "invalid",
    }  # fmt: skip
    row = population.nodes.index("b")
    assert population.problems[row].text == "return code 124"
    row = population.nodes.index("h")
    assert "MB/s" in population.problems[row].text
    assert found.wrong_count == 0


def test_metric_that_one_node_lacks_is_missing(tmp_path: Path) -> None:
    rows = [
        f"{node},{device},{bench},m,s,lower,1"
        for node in "abcd"
        for device in ("g0", "g1")
        for bench in ("x", "y")
        if (node, device, bench) not in {("b", "g1", "x"), ("c", "g0", "y"), ("c", "g1", "y")}
    ]
    rows.append("a,only-here,x,m,s,lower,1")
    found = import_table(table(tmp_path, "\n".join([HEAD, *rows])))
    x, y = found.populations
    assert unit(x, "b", "g1") == ([], "absent")
    assert unit(y, "c", "g0") == unit(y, "c", "g1") == ([], "absent")
    assert len(x) == 4 * 2 + 1
    assert {run.node for run in found.runs} == set("abcd")


def test_node_measured_again_for_another_metric_is_whole(tmp_path: Path) -> None:
    rows = [f"{node},{device},x,m,s,lower,1" for node in "abcd" for device in ("g0", "g1")]
    rows += [f"e,{device},y,m,s,lower,1" for device in ("g0", "g1")]
    found = import_table(table(tmp_path, "\n".join([HEAD, *rows])))
    assert not found.lost_cells
    assert [set(one.nodes) for one in found.populations] == [set("abcd"), {"e"}]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"),
        ("\n", "column 'node' is missing"),
        ("node,read_rate,write_rate\n", r"table\.melt\('node', var_name='metric'\)"),
        ("node,read_rate,write_rate\n", "one row a value, not one column a metric"),
        ("node,benchmark,unit,better,value\n", "column 'metric' is missing"),
        (f"{HEAD},value\n", "column 'value' occurs twice"),
    ],
)
def test_a_table_without_its_columns_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = table(tmp_path, text)
    with pytest.raises(ImportFileError, match=said) as caught:
        import_table(path)
    assert str(path) in str(caught.value)


def test_decimal_comma_is_one_cause(tmp_path: Path) -> None:
    lines = [
        f"n{n};;x;m;GB/s;higher;{number}"
        for n, number in enumerate(["5,5", "-1,25e3", "6", "1.5.2"])
    ]
    found = import_table(table(tmp_path, "\n".join([HEAD.replace(",", ";"), *lines])))
    assert dict(found.causes) == {
        "value has a decimal comma; write a point": 2,
        "value is not a number": 1,
    }
    assert found.wrong[0].text == "node n0, column value: '5,5' has a decimal comma; write a point"


def test_missing_and_empty_tables(tmp_path: Path) -> None:
    with pytest.raises(ImportFileError, match="cannot be read"):
        import_table(tmp_path / "nothing.csv")
    with pytest.raises(ImportFileError, match="cannot be read"):
        import_table(tmp_path / "nothing.parquet")
    found = import_table(table(tmp_path, HEAD))
    assert found.populations == ()
    assert found.notes == ("no good line at all",)


def test_parquet_gives_what_csv_gives(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    text = f"{HEAD},time,return_code\n" + "".join(
        f"n{n},g{d},x,m,GB/s,higher,{n + d / 10},2026-01-0{d + 1} 00:00:00,{int(n == d == 2)}\n"
        for n in range(5)
        for d in range(3)
    )
    path = table(tmp_path, text)
    odd = tmp_path / "a[b]*.parquet"
    duckdb.read_csv(str(path)).write_parquet(str(odd))
    (one,), (other,) = (import_table(file, run="r").populations for file in (path, odd))
    assert (one.nodes, one.devices, one.runs) == (other.nodes, other.devices, other.runs)
    assert one.problems == other.problems
    assert np.array_equal(one.values, other.values)
    assert np.array_equal(one.offsets, other.offsets)
    bad = table(tmp_path, "no parquet", "bad.parquet")
    with pytest.raises(ImportFileError, match="damaged, or no Parquet file"):
        import_table(bad)


def test_truth_values_are_no_numbers_in_any_form(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = table(tmp_path, "node,benchmark,metric,unit,better,value\nn1,b,m,GB/s,higher,true\n")
    duckdb.read_csv(str(path)).write_parquet(str(tmp_path / "t.parquet"))
    for file in (path, tmp_path / "t.parquet"):
        found = import_table(file)
        assert found.values == 0
        assert found.wrong[0].text == "node n1, column value: 'true' is not a number"


def test_each_empty_cell_is_named(tmp_path: Path) -> None:
    rows = [f"n{n},b,m,GB/s,higher,{'' if n in (3, 6) else n}" for n in range(1, 9)]
    found = import_table(
        table(tmp_path, "\n".join(["node,benchmark,metric,unit,better,value", *rows]) + "\n")
    )
    (lost,) = found.lost_cells
    assert lost.count == 2
    assert re.findall(r"line (\d+), node (n\d)", lost.example) == [("4", "n3"), ("7", "n6")]


@pytest.mark.parametrize("form", ["{}", '"{}"'])
@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_rows_in_another_separator_are_lost_and_named(
    tmp_path: Path, form: str, separator: str
) -> None:
    """Two tables from tools with different separators, put together by ``cat``."""
    head, good, bad = (
        "node,benchmark,metric,unit,better,value",
        "n1,b,m,GB/s,higher,1",
        "n2,b,m,GB/s,higher,2",
    )
    other = [form.format(line.replace(",", separator)) for line in (head, bad)]
    found = import_table(table(tmp_path, "\n".join([head, good, *other, "(2 rows)"]) + "\n"))
    assert found.values == 1
    assert found.wrong_count == 1
    assert found.wrong[0].line == 4
    assert unread(found) == {"n1": 0, "n2": 1}


def test_parquet_without_duckdb_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(ImportFileError, match=r"pytest-anubis\[fleet\]"):
        import_table(tmp_path / "x.parquet")


CELL = st.sampled_from(
    ["a", "b", "", "1", "2.5", "-1", "nan", "higher", "lower", "s", '"', "x,y", "\x00"]
)


@settings(
    max_examples=50,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(st.lists(CELL, max_size=9), max_size=12), st.randoms())
def test_any_table_is_read_and_order_does_not_matter(
    tmp_path: Path, rows: list[list[str]], random: Any
) -> None:
    def read() -> Any:
        path = tmp_path / "t.csv"
        with path.open("w", newline="") as out:
            writer = csv.writer(out)
            writer.writerow([*HEAD.split(","), "return_code"])
            writer.writerows(rows)
        found = import_table(path)
        for population in found.populations:
            assert population.offsets[-1] == len(population.values)
            assert len(population.offsets) == len(population) + 1
            assert all(0 <= row < len(population) for row in population.problems)
            for row in range(len(population)):
                sample = population.sample(row)
                assert row in population.problems or (len(sample) and (sample >= 0).all())
        usable = [p for p in found.populations if not np.isnan(p.values).any()]
        samples = [[sorted(p.sample(row)) for row in range(len(p))] for p in usable]
        return [(p.benchmark, p.metric, p.nodes, p.devices) for p in usable], samples

    first = read()
    random.shuffle(rows)
    assert read() == first


def test_superbench_summaries(tmp_path: Path) -> None:
    found = import_superbench(DATA / "superbench.jsonl", hardware_class="nd")
    by_key = {(p.benchmark, p.metric.name): p for p in found.populations}
    gemm = by_key["gemm-flops", "FP32"]
    assert (gemm.metric.unit, gemm.metric.better) == ("GFLOP/s", "higher")
    assert gemm.hardware_class == "nd"
    first = json.loads((DATA / "superbench.jsonl").read_text().splitlines()[0])
    assert unit(gemm, "sb-validation-01", "rank3") == ([first["gemm-flops/FP32:3"]], "")
    step = by_key["resnet_models/pytorch-resnet50", "steptime_train_float32"]
    assert (step.metric.unit, step.metric.better) == ("ms", "lower")
    assert step.devices == ("node",) * 3
    assert {run.node for run in found.runs} == {f"sb-validation-0{i}" for i in (1, 2, 3)}
    assert not [key for key in by_key if key[1] == "return_code"]


def test_lost_cell_names_its_whole_column(tmp_path: Path) -> None:
    """NaN is shown as NaN, and the column with its whole metric."""
    column = "model-benchmarks:stress:a-long-name/pytorch-gpt2-large/fp16_train_step_time:3"
    nodes = [{"node": f"n{i}", column: 2.0 if i else float("nan")} for i in range(3)]
    (of_summary,) = summary(tmp_path, *nodes).lost_cells
    assert f"column {column}: 'NaN'" in of_summary.example
    text = f"{HEAD}\na,0,b,m,GB/s,higher,nan\nb,0,b,m,GB/s,higher,3\n"
    (of_table,) = import_table(table(tmp_path, text)).lost_cells
    assert "column value: 'NaN'" in of_table.example


def test_superbench_failures_and_missing_metrics(tmp_path: Path) -> None:
    lines: list[Any] = [
        {"node": f"n{i}", "b/return_code": 0, "b/x_bw:0": 10.0 + i, "b/x_bw:1": 10.0, "c/1/y_time": 2.0,
         "c/0/y_time": 1.0, "monitor/gpu_temperature:0": 50}
        for i in range(3)
    ]  # fmt: skip
    lines += [
        {"node": "bad", "b/return_code": 33, "c/0/y_time": 4.0},
        {"node": "lost", "b/return_code:0": 0, "b/return_code:1": 4, "b/x_bw:0": 9.0}
        | {"b/x_bw:1": 0.1},
        {"node": "n0", "c/0/y_time": 8.0, "odd/frobs": 3, "c/0/z_time": "1", "flat": 1},
        [1],
        {"nodes": 1},
    ]
    found = summary(tmp_path, *lines, more="{bad\n")
    bandwidth, time = found.populations
    assert unit(bandwidth, "bad", "rank0") == unit(bandwidth, "bad", "rank1") == ([], "failed")
    assert unit(bandwidth, "lost", "rank1") == ([], "failed")
    assert unit(bandwidth, "lost", "rank0") == ([9.0], "")
    assert unit(time, "lost") == ([], "absent")
    assert unit(time, "n1") == ([1.0, 2.0], "")
    assert sorted(time.runs) == ["results-summary"] * 5 + ["results-summary-2"]
    said = [str(line) for line in found.wrong]
    assert [text.split(":")[0] for text in said] == ["line 6"] * 2 + ["line 7", "line 8", "line 9"]
    assert any("occurs again" in note for note in found.notes)  # nothing of it is lost
    assert found.left_out == 1
    assert found.lost == 6
    lost = {one.kind: (one.count, one.example) for one in found.lost_cells}
    assert lost == {
        "failed": (3, "line 4, node bad, column b/return_code: '33'"),
        "missing": (1, "node lost, c y_time: not in the results, although most nodes have it"),
    }
    assert any("'frobs' of odd: direction unknown" in note for note in found.notes)
    assert any("1 monitor reading " in note for note in found.notes)
    mine = tmp_path / "map.csv"
    mine.write_text("benchmark,metric,unit,better,component\nodd,FROB*,count,higher,odd.part\n")
    mapped = import_superbench(found.source, known=read_metric_map(mine))
    (frobs,) = [p for p in mapped.populations if p.metric.name == "frobs"]
    assert (frobs.metric.unit, frobs.component, mapped.left_out) == ("count", "odd.part", 0)
    with pytest.raises(ImportFileError, match="no node in it"):
        import_superbench(table(tmp_path, "{}\n", "x.jsonl"))


def test_cell_of_a_summary_is_lost_for_one_cause(tmp_path: Path) -> None:
    """What is no number was a wrong line, and failed or missing as well."""
    lines: list[dict[str, Any]] = [
        {"node": f"n{i}", "b/return_code": 0, "b/x_bw:0": 10.0 + i, "b/x_bw:1": 9.0}
        for i in range(6)
    ]
    lines[2]["b/x_bw:0"] = "err"  # wrong, nothing else
    lines[3] |= {"b/return_code": 3, "b/x_bw:0": "N/A", "b/x_bw:1": None}  # failed, twice
    lines[4]["b/x_bw:1"] = None  # missing
    del lines[5]["b/x_bw:1"]  # missing
    found = summary(tmp_path, *lines)
    assert {one.kind: one.count for one in found.lost_cells} == {"failed": 2, "missing": 2}
    assert [str(line) for line in found.wrong] == [
        "line 3: node n2, column b/x_bw:0: 'err' is not a number"
    ]
    (bandwidth,) = found.populations
    assert unit(bandwidth, "n2", "rank0") == ([], "absent")
    assert found.values + 2 + 2 + 1 == 12


def test_benchmark_that_failed_everywhere_is_kept(tmp_path: Path) -> None:
    """No node says which metrics it would have had; a file of one node never does."""
    lines = [
        {"node": "n1", "b/x_bw": 10.0, "mem-bw/return_code": 3, "c/return_code:1": 4},
        {"node": "n2", "b/x_bw": 10.5, "mem-bw/return_code": 0},
    ]
    found = summary(tmp_path, *lines)
    assert [(one.kind, one.count) for one in found.lost_cells] == [("failed", 2)]
    by_name = {p.benchmark: p for p in found.populations}
    assert by_name["mem-bw"].metric.name == "return_code"
    assert by_name["mem-bw"].component == "memory.transfer"  # as the metric map says of its metrics
    assert unit(by_name["mem-bw"], "n1") == ([], "failed")
    assert unit(by_name["c"], "n1", "rank1") == ([], "failed")
    assert by_name["mem-bw"].nodes == ("n1",)  # no node lacks it
    assert found.values == 2


def test_text_that_is_no_utf8_is_told_as_that(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(f"{HEAD}\nn1,cpu,c\xf6py,rate,GB/s,higher,1\n".encode("latin-1"))
    found = import_table(path)
    (line,) = found.wrong
    assert "b'c\\xf6py' is not UTF-8: save the file as that" in str(line)


def test_truncated_line_of_results_is_wrong(tmp_path: Path) -> None:
    rows = (
        "#  size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
        "  1048576  262144  float  none  -1  74.7  14.0  24.5  0  76.1  13.7  24.0  0\n"
        "xx2097152  524288  float  none  -1  74.7  28.0  49.1  0  76.1  27.5  48.2  0\n"
        "[1,0]<stdout>: 4194304 1048576 float sum -1 74.7 56.1 98.2 N/A 76.1 55.1 96.4 N/A\n"
        "n1:77:88 [0] NCCL INFO Channel 00/02 : 0 1 2 3 4 5 6 7\n"
        "n1:77:88 [0] NCCL INFO float 1 2 rings\n"
    )
    path = table(tmp_path, f"{rows}# Out of bounds values : 0 OK\n", "x.log")
    found = import_nccl(path, node="n")
    assert [line.line for line in found.wrong] == [3]
    assert "'xx2097152' is no whole number" in found.wrong[0].text
    assert found.values == 4


def test_nccl_logs() -> None:
    found = import_nccl(DATA / "nccl_allreduce.log", node="n1")
    by_name = {p.metric.name: p for p in found.populations}
    largest = by_name["busbw_8589934592"]
    assert largest.sample(0).tolist() == [235.26]
    assert by_name["busbw_8589934592_in_place"].sample(0).tolist() == [235.03]
    assert (largest.benchmark, largest.metric.unit) == ("nccl-tests/all_reduce", "GB/s")
    assert by_name["time_4096"].sample(0).tolist() == [35.92]
    assert by_name["time_4096"].metric.better == "lower"
    assert not [name for name in by_name if name.endswith("_0")]


@pytest.mark.parametrize(
    ("head", "group"),
    [
        ("# nThread 1 nGpus 2 agg iters: 1 graph: 0 unalign: 0", "2 ranks"),
        ("# nThread 1 nGpus 2 agg iters: 1 graph: 0 unalign: 1", "2 ranks, unalign 1"),
        ("# nThread: 1 nGpus: 2 minBytes: 8", "2 ranks"),
        ("# nThread 1 split", "2 ranks, 2 groups"),
    ],
)
@pytest.mark.parametrize("program", ["all_reduce_perf", "all_reduce_perf_mpi"])
def test_heads_of_nccl_logs(tmp_path: Path, program: str, head: str, group: str) -> None:
    split = "split" in head
    ranks = "".join(
        f"#  Rank  {rank} Group  {rank * split} Pid 7 on n device {rank} [0x0{rank}] H100\n"
        for rank in range(2)
    )
    rows = (
        "#  size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
        "  1048576  262144  float  sum  -1  74.7  14.0  24.5  0  76.1  13.7  24.0  N/A\n"
        "# Out of bounds values : 0 OK\n"
    )
    for begin, end in (
        (f"# Collective test starting: {program}\n", f"# Collective test concluded: {program}\n"),
        ("", f"# Collective test concluded: {program}\n"),
        (f"+ mpirun -np 2 ./build/{program} -b 1M\n", ""),
    ):
        text = f"{begin}{head.removesuffix(' split')} \n# Using devices\n{ranks}{rows}{end}"
        found = import_nccl(table(tmp_path, text, "x.log"), node="n")
        assert {p.benchmark for p in found.populations} == {"nccl-tests/all_reduce"}
        assert {p.group for p in found.populations} == {group}
        assert [unit(p, "n") for p in found.populations] == [([24.5], ""), ([24.0], "")]


def test_nccl_wrong_results_and_failures(tmp_path: Path) -> None:
    log = (
        "# nccl-tests version 2.13 nccl-headers=21\n# Collective test starting: all_gather_perf\n"
        "#  size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
        "  1048576  262144  float  none  -1  74.7  14.0  24.5  0  76.1  13.7  24.0  3\n"
        "  1048576  262144  float  none  -1  75.7  14.1  24.6  0  76.1  13.7  24.0  0\n"
        "  2097152  262144  float  none  -1  bad  14.0  24.5  0  76.1  13.7  24.0  0\n"
        "  4194304  5 float\n"
    )
    path = table(tmp_path, log, "x.log")
    found = import_nccl(path, node="n")
    place, out = found.populations[1], found.populations[0]
    assert out.benchmark == "nccl-tests/all_gather"
    assert unit(out, "n") == ([24.5, 24.6], "")
    assert unit(place, "n") == ([], "failed")
    assert [line.line for line in found.wrong] == [6, 7, 7]
    assert "ends before the line 'Out of bounds values'" in found.wrong[-1].text
    whole = import_nccl(
        table(
            tmp_path, log + "  0 0 float none -1 7 0 0 0 7 0 0 0\n# Out of bounds values : 0 OK\n"
        ),
        node="n",
    )
    assert [line.line for line in whole.wrong] == [6, 7]
    assert whole.notes == ("rows of 0 bytes left out, since nothing was sent: 1",)
    failed = table(tmp_path, log + "# Out of bounds values : 3 FAILED\n", "y.log")
    assert {unit(p, "n")[1] for p in import_nccl(failed, node="n").populations} == {"failed"}
    with pytest.raises(ImportFileError, match="no line of results"):
        import_nccl(table(tmp_path, "hello\n", "z.log"), node="n")


def test_fio_output(tmp_path: Path) -> None:
    found = import_fio(DATA / "fio.json", node="n1")
    by_name = {p.metric.name: p for p in found.populations}
    assert by_name["read_bandwidth"].sample(0).tolist() == [348.743777]
    assert by_name["write_iops"].sample(0).tolist() == [85066.128925]
    assert by_name["read_latency_p99"].sample(0).tolist() == [2244.608]
    assert by_name["read_latency_p99"].metric.better == "lower"
    assert by_name["read_bandwidth"].devices == ("nvme0n1",)
    assert "trim_iops" not in by_name
    text = (DATA / "fio.json").read_text()
    twice = table(tmp_path, f"fio: a warning\n{text}\n{text}", "twice.json")
    population = import_fio(twice, node="n1").populations[0]
    assert unit(population, "n1", "nvme0n1") == ([348.743777] * 2, "")
    failed = table(tmp_path, text.replace('"error": 0', '"error": 5'), "failed.json")
    for population in import_fio(failed, node="n1").populations:
        assert unit(population, "n1", "nvme0n1") == ([], "failed")
    for content in ("", "{", '{"jobs": 5}', '{"a": 1}', "[" * 99999):
        with pytest.raises(ImportFileError, match="fio"):
            import_fio(table(tmp_path, content, "bad.json"), node="n")


def test_numbers_are_plain_digits_only(tmp_path: Path) -> None:
    texts = ("5", " 6.5 ", "7e1", "5_00", "3_000", "\u0661\u0662", "\uff15")
    lines = "".join(f"n{i},,b,m,s,lower,{text}\n" for i, text in enumerate(texts))
    (found,) = import_table(table(tmp_path, f"{HEAD}\n{lines}")).populations
    read = [unit(found, f"n{i}") for i in range(len(texts))]
    assert read[:3] == [([5.0], ""), ([6.5], ""), ([70.0], "")]
    assert [problem for _, problem in read[3:]] == ["invalid"] * 4


def test_a_device_has_one_name_however_it_is_written(tmp_path: Path) -> None:
    names = ("cuda:2", "CUDA:2", "cuda:02", "Cuda:0>cuda:02", "mlx5_0:01", "0000:3B:00")
    lines = "".join(f"n,{name},b,m,s,lower,1\n" for name in names)
    (found,) = import_table(table(tmp_path, f"{HEAD}\n{lines}")).populations
    assert found.devices == ("0000:3B:00", "cuda:0>cuda:2", "cuda:2", "mlx5_0:01")
    assert unit(found, "n", "cuda:2") == ([1.0] * 3, "")


@pytest.mark.parametrize("code", ["0", None, "137", 0.5, float("nan"), 1e300])
def test_only_a_return_code_of_zero_is_success(tmp_path: Path, code: object) -> None:
    nodes = [{"node": f"n{i}", "b/return_code": 0, "b/x_bw": 10.0} for i in range(3)]
    nodes.append({"node": "odd", "b/return_code": code, "b/x_bw": 10.0})
    (bandwidth,) = summary(tmp_path, *nodes).populations
    assert unit(bandwidth, "odd") == (([10.0], "") if code == "0" else ([], "failed"))
    assert unit(bandwidth, "n1") == ([10.0], "")


def test_superbench_line_with_equal_keys_counts_for_its_node(tmp_path: Path) -> None:
    lines = [json.dumps({"node": f"n{n}", "b/x_bw:0": 10.0, "b/x_bw:1": 10.0}) for n in range(4)]
    lines[1] = lines[1][:30]  # cut off
    lines[2] = lines[2][:-1] + ', "b/x_bw:0": 5.0}'
    found = summary(tmp_path, more="\n".join(lines))
    assert found.wrong_count == 2
    assert unread(found) == {"n0": 0, "n1": 1, "n2": 1, "n3": 0}


def test_uncorrected_errors_of_the_monitor_are_counted(tmp_path: Path) -> None:
    keys = ("monitor/gpu_uncorrected_ecc:0", "monitor/gpu_corrected_ecc:0", "monitor/gpu_power:0")
    nodes = [{"node": f"n{n}", **dict.fromkeys(keys, n)} for n in range(3)]
    (errors,) = summary(tmp_path, *nodes).populations
    assert (errors.metric.name, errors.metric.right) == ("gpu_uncorrected_ecc", 0)
    assert errors.values.tolist() == [0, 1, 2]


@pytest.mark.parametrize(("empty", "problem"), [(0, ""), (1, ""), (2, "missing"), (3, "missing")])
def test_half_empty_unit_is_missing(empty: int, problem: str, tmp_path: Path) -> None:
    rows = [f"a,node,b,m,GB/s,higher,{value}" for value in ["1", "1"] + [""] * empty]
    (found,) = import_table(table(tmp_path, "\n".join([HEAD, *rows]))).populations
    assert unit(found, "a")[1] == problem


@pytest.mark.parametrize(("empty", "unread"), [(0, 0), (2, 0), (3, 3)])
def test_many_empty_values_leave_a_node_incomplete(empty: int, unread: int, tmp_path: Path) -> None:
    rows = [f"a,cuda:{card},b,m,GB/s,higher" for card in range(10) for _ in range(10)]
    cells = ["" if row % 10 == 9 and row // 10 < empty else "1" for row in range(100)]
    lines = [f"{row},{cell}" for row, cell in zip(rows, cells, strict=True)]
    lines += [line.replace("a,", "b,", 1) for line in lines[:80]]
    found = import_table(table(tmp_path, "\n".join([HEAD, *lines])))
    assert found.runs[0].unread == unread


@pytest.mark.parametrize(
    ("second", "third", "lost"),
    [
        ('"b,node,x,m,GB/s,higher,1,fine', "fine", {"b", "c", "d"}),  # never closed
        ('b,node,x,m,GB/s,higher,1,"second try', 'again"', {"b", "c"}),  # in a column with remarks
    ],
)
def test_rows_in_an_open_quotation_are_wrong(
    second: str, third: str, lost: set[str], tmp_path: Path
) -> None:
    rows = [f"{node},node,x,m,GB/s,higher,1,fine" for node in "abcd"]
    rows[1:3] = second, f"c,node,x,m,GB/s,higher,1,{third}"
    found = import_table(table(tmp_path, "\n".join([f"{HEAD},note", *rows]) + "\n"))
    assert {run.node for run in found.runs if run.unread} == lost
    assert {node for one in found.populations for node in one.nodes} == set("abcd") - lost


def test_a_remark_over_several_lines_swallows_nothing(tmp_path: Path) -> None:
    text = f'{HEAD},note\na,node,x,m,GB/s,higher,1,"by hand,\nagain"\nb,node,x,m,GB/s,higher,1,\n'
    found = import_table(table(tmp_path, text))
    assert (found.values, found.wrong_count) == (2, 0)


def test_summary_node_without_results_is_incomplete(tmp_path: Path) -> None:
    lines = [{"node": f"n{i}", "b/x_bw:0": 10.0 + i, "b/return_code": 0} for i in range(4)]
    lines += [{"node": "bare"}, {"node": 7, "b/x_bw:0": 11.0, "b/return_code": 0}]
    assert unread(summary(tmp_path, *lines)) == dict.fromkeys(("n0", "n1", "n2", "n3", "7"), 0) | {
        "bare": 1
    }


@pytest.mark.parametrize(
    ("name", "run"),
    [
        ("results.2026-11-01.csv", "results.2026-11-01"),
        ("n1.diag.JSON", "n1.diag"),
        ("all.v2.log.gz", "all.v2"),
        ("results", "results"),
        (".csv", "import"),
    ],
)
def test_run_is_named_after_its_file(name: str, run: str) -> None:
    assert run_name(Path(name)) == run
