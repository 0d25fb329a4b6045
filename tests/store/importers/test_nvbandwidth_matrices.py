"""Matrices of nvbandwidth become cards and pairs with rates or latencies."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_anubis.core.sample import Population
from pytest_anubis.store.importers.import_result import ImportFileError
from pytest_anubis.store.importers.nvbandwidth_matrices import import_nvbandwidth

DATA = Path(__file__).parents[2] / "tool_outputs" / "data"


def populations_of(name: str) -> dict[tuple[str, str], Population]:
    return {
        (p.benchmark.removeprefix("nvbandwidth/"), p.metric.name): p
        for p in import_nvbandwidth(DATA / name, node="n1").populations
    }


def cells(population: Population) -> dict[str, list[float]]:
    return {device: population.sample(i).tolist() for i, device in enumerate(population.devices)}


def test_pairs_are_named_sender_first() -> None:
    found = populations_of("nvbandwidth_pairs.json")
    write = found["device_to_device_memcpy_write_ce", "bandwidth"]
    assert cells(write) == {"cuda:0>cuda:1": [367.5], "cuda:1>cuda:0": [368.5]}
    assert (write.metric.unit, write.metric.better) == ("GB/s", "higher")
    assert write.component == "accelerator.link"
    read = found["device_to_device_memcpy_read_ce", "bandwidth"]
    assert cells(read)["cuda:1>cuda:0"] == [366.25]  # the row's card reads
    host = found["host_to_device_memcpy_ce", "bandwidth"]
    assert cells(host) == {"cuda:0": [55.25], "cuda:1": [55.5]}
    assert host.component == "memory.transfer"
    latency = found["device_to_device_latency_sm", "latency"].metric
    assert (latency.unit, latency.better) == ("ns", "lower")


def test_both_directions_give_three_metrics() -> None:
    name = "device_to_device_bidirectional_memcpy_read_ce"
    for file in ("nvbandwidth_pairs.json", "nvbandwidth_pairs.txt"):
        found = populations_of(file)
        parts = {metric: cells(p) for (case, metric), p in found.items() if case == name}
        assert parts.keys() == {"bandwidth_read1", "bandwidth_read2", "bandwidth_total"}
        assert parts["bandwidth_total"] == {"cuda:1>cuda:0": [362.0], "cuda:0>cuda:1": [363.5]}
    assert cells(found["device_local_copy", "bandwidth"])["cuda:0"] == [1228.5]


def test_rows_of_several_hosts_are_told_apart() -> None:
    host = populations_of("nvbandwidth.txt")["host_to_device_memcpy_ce", "bandwidth"]
    assert cells(host)["cpu:1>cuda:2"] == [312.11]


def test_failures_are_listed_and_other_files_refused(tmp_path: Path) -> None:
    found = import_nvbandwidth(DATA / "nvbandwidth_pairs.json", node="n1")
    (failed,) = [p for p in found.populations if p.benchmark == "nvbandwidth/all_to_one_write_ce"]
    assert failed.problems[0].kind == "failed"
    path = tmp_path / "bad.json"
    only = '{"nvbandwidth": {"testcases": [{"name": "a", "status": "Error"}]}}'
    path.write_text(only)
    (population,) = import_nvbandwidth(path, node="n").populations
    assert (population.benchmark, population.problems[0].text) == ("nvbandwidth/a", "Error")
    for text, match in (
        ("hi", "no test case ran"),
        (only.replace("Error", "Odd"), "a: unknown status 'Odd'"),
    ):
        path.write_text(text)
        with pytest.raises(ImportFileError, match=match):
            import_nvbandwidth(path, node="n")


@pytest.mark.parametrize(
    "line",
    [
        "[CUDA_ERROR_ILLEGAL_ADDRESS] an illegal memory access in expression cuCtxSynchronize()",
        "Invalid value when checking the pattern at <0x7f00>",
        "ERROR: CUDA error",
        "ASSERT in expression x",
    ],
)
def test_errors_around_json_count_as_in_text(tmp_path: Path, line: str) -> None:
    path, whole = tmp_path / "n.json", (DATA / "nvbandwidth.json").read_text()
    for text in (f"{line}\n{whole}", f"{whole}\n{line}\n"):
        path.write_text(text)
        failed = [p for p in import_nvbandwidth(path, node="n").populations if p.problems]
        assert [(p.benchmark, p.problems[0].kind) for p in failed] == [
            ("nvbandwidth/run", "failed")
        ]
    path.write_text(f"ERROR: ld.so: object 'x.so' cannot be preloaded: ignored.\n{whole}")
    assert not any(p.problems for p in import_nvbandwidth(path, node="n").populations)


HEAD = "nvbandwidth Version: v0.8\n\n"
COPY = """Running host_to_device_memcpy_ce.
memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0     50.00     51.00

SUM host_to_device_memcpy_ce 101.00
"""


def outcomes(path: Path, text: str) -> dict[tuple[str, str, str], list[float] | str]:
    """Case, group and device of each cell, with its values or the kind of its problem."""
    path.write_text(text)
    found = import_nvbandwidth(path, node="n")
    assert found.wrong_count == 0
    return {
        (p.benchmark.removeprefix("nvbandwidth/"), p.group, p.devices[row]): (
            p.problems[row].kind if row in p.problems else p.sample(row).tolist()
        )
        for p in found.populations
        for row in range(len(p))
    }


COPIED: dict[tuple[str, str, str], list[float] | str] = {
    ("host_to_device_memcpy_ce", "", "cuda:0"): [50.0],
    ("host_to_device_memcpy_ce", "", "cuda:1"): [51.0],
}


@pytest.mark.parametrize(
    "line",
    [
        "ERROR: Testcase device_to_devise_memcpy_read_ce not found!",
        "ERROR: Testcase index 99 out of bound!",
        "[CUDA_ERROR_LAUNCH_FAILED] unspecified launch failure in expression cuCtxDestroy(testCtx)",
    ],
)
def test_failure_after_a_whole_case_is_the_runs(tmp_path: Path, line: str) -> None:
    run = {("run", "", "node"): "failed"}
    assert outcomes(tmp_path / "n.txt", f"{HEAD}{COPY}\n{line}\n") == COPIED | run
    # Before its sum it is the case's.
    found = outcomes(tmp_path / "n.txt", HEAD + COPY.replace("SUM", "ASSERT in x\nSUM"))
    assert found == {("host_to_device_memcpy_ce", "", "node"): "failed"}
    both = (DATA / "nvbandwidth_pairs.txt").read_text()
    name = "device_to_device_bidirectional_memcpy_read_ce"
    halfway = both.replace(f"SUM {name}_read2", f"ASSERT in x\nSUM {name}_read2")
    found = outcomes(tmp_path / "n.txt", halfway)
    assert found[name, "", "node"] == "failed"
    assert ("run", "", "node") not in found


def test_bisection_names_its_pairs(tmp_path: Path) -> None:
    name = "multinode_bisect_write_ce"
    text = f"""{HEAD}Running {name}.
Bisect benchmarking, simultaneous write CE BW
              0
 0-> 2    10.00
 1-> 3    11.00
 2-> 0    12.00
 3-> 1    13.00

SUM {name} 46.00
"""
    pairs: dict[tuple[str, str, str], list[float] | str] = {
        (name, "", "cuda:0>cuda:2"): [10.0],
        (name, "", "cuda:1>cuda:3"): [11.0],
        (name, "", "cuda:2>cuda:0"): [12.0],
        (name, "", "cuda:3>cuda:1"): [13.0],
    }
    path = tmp_path / "n.txt"
    for form in (text, text.replace("> ", ">").replace("\n ", "\n")):
        assert outcomes(path, form) == pairs
        (population,) = import_nvbandwidth(path, node="n").populations
        assert (population.metric.unit, population.metric.better) == ("GB/s", "higher")
    case = {
        "name": name,
        "status": "Passed",
        "bandwidth_description": "Bisect benchmarking, simultaneous write CE BW",
        "bandwidth_matrix": [["10"], ["11"], ["12"], ["13"]],
        "sum": 46,
    }
    assert outcomes(path, json.dumps({"nvbandwidth": {"testcases": [case]}})) == pairs
    for wrong in (
        text.replace("12.00", "12.50"),
        text.replace("2-> 0", "0-> 2"),
        text.replace("10.00", "10.00 1.00"),
        text.replace("10.00", ""),
    ):
        path.write_text(wrong)
        with pytest.raises(ImportFileError):
            import_nvbandwidth(path, node="n")


@pytest.mark.parametrize("form", ["before", "after"])
def test_smaller_buffers_are_another_group(tmp_path: Path, form: str) -> None:
    note = (
        "NOTE: You have chosen a buffer size that is smaller than the default buffer size. It is "
        "suggested to use the default buffer size (512MB) to achieve maximal peak bandwidth.\n"
    )
    small = (note + HEAD if form == "before" else HEAD + note) + COPY
    grouped = {(case, "buffer below 512MB", device): x for (case, _, device), x in COPIED.items()}
    path = tmp_path / "n.txt"
    assert outcomes(path, HEAD + COPY) == COPIED
    assert outcomes(path, small) == grouped
    for both in (small + HEAD + COPY, HEAD + COPY + small):
        assert outcomes(path, both) == COPIED | grouped
    body = {
        "warning": note.strip(),
        "testcases": [
            {
                "name": "host_to_device_memcpy_ce",
                "status": "Passed",
                "bandwidth_description": "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)",
                "bandwidth_matrix": [["50", "51"]],
                "sum": 101,
            }
        ],
    }
    assert outcomes(path, json.dumps({"nvbandwidth": body})) == grouped
    body["warning"] = "NOTE: Huge pages are not supported on Windows."
    assert outcomes(path, json.dumps({"nvbandwidth": body})) == COPIED


@pytest.mark.parametrize(
    ("statuses", "error", "failed"),
    [
        (["a Running", "a Error"], "", "a"),
        (["a Running"], "ASSERT in x", "a"),
        (["odd ERROR"], "", "run"),  # there is no such case
    ],
)
def test_a_case_that_broke_off_is_told_once(
    tmp_path: Path, statuses: list[str], error: str, failed: str
) -> None:
    path = tmp_path / "n.json"
    assert outcomes(path, ended(*statuses, error=error)) == {(failed, "", "node"): "failed"}
    path.write_text(ended("b Error", "a Running"))
    assert import_nvbandwidth(path, node="n").wrong_count == 1


def ended(*statuses: str, error: str = "") -> str:
    """Return the output of cases with these statuses."""
    cases = [dict(zip(("name", "status"), one.split(), strict=True)) for one in statuses]
    return json.dumps({"nvbandwidth": {"testcases": cases, "error": error}})
