"""Matrices of nvbandwidth become cards and pairs with rates or latencies."""

from __future__ import annotations

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
