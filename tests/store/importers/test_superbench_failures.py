"""Lines of a SuperBench summary that say that a node failed are charged to that node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.cli.main import main
from pytest_anubis.store.importers.import_result import Imported, ImportFileError
from pytest_anubis.store.importers.superbench import import_superbench
from tests.store.importers.tables import summary, unread


def of_two(folder: Path, *lines: str, **more: Any) -> Imported:
    """Import a summary of two nodes, of which s1 has more keys."""
    good = {"mem-bw/h2d_bw:0": 52.0, "mem-bw/return_code": 0, "return_code": 0}
    nodes = [{"node": "h1", **good}, {"node": "s1", **good, **more}]
    return summary(folder, *nodes, more="\n".join(lines))


@pytest.mark.parametrize(
    "line",
    [
        "s1: failed to run",
        "ERROR: s1 gemm failed",
        '"S1 was lost"',
        '{"error": "s1 did not answer"}',
    ],
)
def test_a_line_that_names_a_node_leaves_it_not_read_whole(tmp_path: Path, line: str) -> None:
    found = of_two(tmp_path, line)
    assert unread(found) == {"h1": 0, "s1": 1}


def test_a_line_that_names_no_node_is_none_of_theirs(tmp_path: Path) -> None:
    found = of_two(tmp_path, "it failed", "h1 and s1 failed")
    assert unread(found) == {"h1": 1, "s1": 1}
    assert found.wrong_count >= 2


@pytest.mark.parametrize("code", [1, -1, "2", None, True])
def test_a_return_code_of_the_whole_node_is_no_acceptance(tmp_path: Path, code: object) -> None:
    found = of_two(tmp_path, return_code=code)
    assert unread(found) == {"h1": 0, "s1": 1}


@pytest.mark.parametrize("key", ["Return_Code:0", "return_code ", "return_code:all"])
def test_a_return_code_in_other_letters_is_one(tmp_path: Path, key: str) -> None:
    found = of_two(tmp_path, **{f"mem-bw/{key}": 3})
    (population,) = found.populations
    problems = {population.nodes[row]: one.kind for row, one in population.problems.items()}
    assert problems == {"s1": "failed"}


@pytest.mark.parametrize(
    ("key", "unit", "better"),
    [
        ("cublaslt-gemm/fp8e4m3_0_4096_4096_4096_flops:0", "TFLOP/s", "higher"),
        ("hipblaslt-gemm/fp16_1_4096_4096_4096_flops:0", "TFLOP/s", "higher"),
        ("gemm-flops/fp16_tc_flops:0", "GFLOP/s", "higher"),
        ("gpu-burn/time", "s", "lower"),
        ("gpu-burn/abort", "count", "equal"),
        ("gpu-hpcg/setup_time", "s", "lower"),
        ("gpu-hpcg/final_gflops_per_process", "GFLOP/s", "higher"),
        ("gpu-hpcg/spmv_bandwidth", "GB/s", "higher"),
        ("gpu-hpcg/is_valid", "count", "equal"),
        ("gpu-stream/STREAM_COPY_double_array_1024_time_min:0", "s", "lower"),
        ("gpu-stream/STREAM_INIT_float_array_1024_time:0", "s", "lower"),
        ("gpu-stream/STREAM_COPY_double_array_1024_bw:0", "GB/s", "higher"),
        ("kernel-launch/host_dispatch_us:0", "us", "lower"),
        ("kernel-launch/launch_throughput_mkps:0", "Mkernel/s", "higher"),
        ("kernel-launch/event_time:0", "ms", "lower"),
        ("tcp-connectivity/10.0.0.1_successed_count", "count", "equal"),
        ("tcp-connectivity/10.0.0.1_failed_count", "count", "equal"),
        ("tcp-connectivity/10.0.0.1_success_rate", "1", "higher"),
        ("tcp-connectivity/10.0.0.1_time_avg", "ms", "lower"),
    ],
)
def test_units_are_those_of_its_documentation(
    tmp_path: Path, key: str, unit: str, better: str
) -> None:
    found = summary(tmp_path, {"node": "a", key: 1.5})
    (population,) = found.populations
    assert (population.metric.unit, population.metric.better) == (unit, better)
    assert (population.values.tolist(), found.lost, found.notes) == ([1.5], 0, ())


@pytest.mark.parametrize(
    "line",
    [
        {
            "Category": "FailedTest",
            "Defective Details": "x_miss",
            "mem-bw/h2d_bw:0": "",
            "Index": "a",
        },
        {"category": "X", "defective details": "y", "mem-bw/h2d_bw:0": -0.1, "index": "a"},
        {
            "diagnosis/accept": False,
            "diagnosis/category": "X",
            "mem-bw/h2d_bw:0": 5.0,
            "index": "a",
        },
    ],
)
def test_a_diagnosis_is_refused(tmp_path: Path, line: dict[str, object]) -> None:
    file = tmp_path / "diagnosis_summary.jsonl"
    file.write_text(json.dumps(line))
    for node in ("", "n1"):  # a name does not make values of it
        with pytest.raises(ImportFileError, match=r"results-summary\.jsonl"):
            import_superbench(file, node=node)
    store = ["--class", "k", "--store", str(tmp_path / "s")]
    assert main(["import", "superbench", str(file), *store]) == 2
