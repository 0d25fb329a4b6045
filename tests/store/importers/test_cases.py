"""Small outputs that were once read wrongly, with the right values."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.store.importers.dcgm import import_dcgm
from pytest_anubis.store.importers.fio import import_fio
from pytest_anubis.store.importers.import_result import Imported, ImportFileError
from pytest_anubis.store.importers.nccl import import_nccl
from pytest_anubis.store.importers.nvbandwidth_matrices import import_nvbandwidth
from pytest_anubis.store.importers.superbench import import_superbench
from pytest_anubis.tool_outputs.perftest import read_perftest
from pytest_anubis.tool_outputs.stream_benchmark import read_stream
from pytest_anubis.tool_outputs.stress_ng import read_stress_ng
from pytest_anubis.tool_outputs.unreadable import UnreadableOutput

CASES = Path(__file__).parent / "data" / "cases"
BOTH = {"busbw_2097152": [61.17], "busbw_2097152_in_place": [62.20]}
GATHERED = {"busbw_2097152": [45.88], "busbw_2097152_in_place": [47.05]}
COPIED = {"bandwidth cuda:0": [54.3], "bandwidth cuda:1": [54.1]}
FOUR = {"busbw_1048576": [36.70], "busbw_1048576_in_place": [37.45], **BOTH}


def of(name: str, *, node: str = "node-a", folder: Path = CASES) -> Imported:
    importers: dict[str, Callable[..., Imported]] = {
        "nccl": import_nccl,
        "nvbandwidth": import_nvbandwidth,
        "fio": import_fio,
        "dcgm": import_dcgm,
    }
    return importers[name.split("_")[0]](folder / name, node=node)


def cells(imported: Imported) -> dict[str, dict[str, Any]]:
    """Return benchmark -> metric, with its device if there are several -> values, or its kind of problem."""
    found: dict[str, dict[str, Any]] = {}
    for p in imported.populations:
        for row, device in enumerate(p.devices):
            name = p.metric.name if device == "node" else f"{p.metric.name} {device}"
            own = found.setdefault(p.benchmark, {})
            assert name not in own
            own[name] = p.problems[row].kind if row in p.problems else p.sample(row).tolist()
    return found


def disk(read: float = 0.0, write: float = 0.0, p99: bool = True) -> dict[str, list[float]]:
    """What fio says of nvme0n1, in MB/s, with the other numbers that these cases have."""
    found: dict[str, list[float]] = {}
    for way, rate, iops in (("read", read, 50000.0), ("write", write, 25000.0)):
        if rate:
            found |= {f"{way}_bandwidth nvme0n1": [rate], f"{way}_iops nvme0n1": [iops]}
            found[f"{way}_latency_p50 nvme0n1"] = [100.0]
            found |= {f"{way}_latency_p99 nvme0n1": [200.0]} if p99 else {}
    return found


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("nccl_per_iteration.log", {"nccl-tests/all_reduce": FOUR}),
        ("nccl_timestamps.log", {"nccl-tests/all_reduce": FOUR}),
        ("nccl_mpirun_tag.log", {"nccl-tests/all_reduce": BOTH}),
        ("nccl_min_bandwidth_failed.log", {"nccl-tests/all_reduce": BOTH}),
        ("nccl_unnamed_b.log", {"nccl-tests/all_reduce": BOTH}),
        ("nccl_unnamed_a.log", {"nccl-tests/all_gather": GATHERED}),
        (
            "nccl_two_programs.log",
            {"nccl-tests/all_reduce": BOTH, "nccl-tests/all_gather": GATHERED},
        ),
        ("nvbandwidth_json_after_warning.txt", {"nvbandwidth/host_to_device_memcpy_ce": COPIED}),
        ("nvbandwidth_foreign_error_line.txt", {"nvbandwidth/host_to_device_memcpy_ce": COPIED}),
        ("fio_2_1.json", {"fio/seqwrite": disk(write=102.4)}),
        ("fio_2_latency.json", {"fio/randread": disk(read=204.8)}),
        ("fio_brace_before.json", {"fio/randread": disk(read=204.8)}),
        (
            "dcgm_text_after.json",
            {"dcgm/inforom": {"not_passed GPU 0": [0.0], "not_passed GPU 1": "failed"}},
        ),
        (
            "dcgm_null_between_tests.json",
            {
                "dcgm/denylist": {"not_passed GPU 0": [0.0], "not_passed GPU 1": [0.0]},
                "dcgm/inforom": {"not_passed GPU 0": [0.0], "not_passed GPU 1": "failed"},
            },
        ),
        (
            "dcgm_iterations.json",
            {"dcgm/inforom": {"not_passed GPU 0": [0.0, 0.0], "not_passed GPU 1": "failed"}},
        ),
    ],
)
def test_the_whole_output_is_read(name: str, right: dict[str, Any]) -> None:
    found = of(name)
    assert cells(found) == right
    assert not found.wrong


@pytest.mark.parametrize(
    "label", ["", "0: ", "[1,0]<stdout>:", "2026-03-04T05:06:07Z ", "node-a  | "]
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_dressed_cases_say_the_same(tmp_path: Path, label: str, encoding: str) -> None:
    read = [
        "nccl_p*", "nccl_t*", "nccl_m*", "nccl_un*", "nvb*", "fio_2*", "fio_b*", "fio_d*", "fio_p*", "dcgm*",
    ]  # fmt: skip
    for path in sorted(one for pattern in read for one in CASES.glob(pattern)):
        text = "".join(label + line for line in path.read_text().splitlines(keepends=True))
        (tmp_path / path.name).write_text(text, encoding=encoding)
        found, plain = of(path.name, folder=tmp_path), of(path.name)
        assert cells(found) == cells(plain), path.name
        assert (found.wrong_count, found.notes) == (plain.wrong_count, plain.notes)


def test_missing_part_is_reported_and_affects_no_other() -> None:
    found = of("nvbandwidth_cut_off.txt")
    assert cells(found) == {
        "nvbandwidth/host_to_device_memcpy_ce": COPIED,
        "nvbandwidth/device_to_host_memcpy_ce": COPIED,
    }
    assert "device_to_device_memcpy_read_ce" in str(found.wrong[0])
    found = of("fio_percentile_list.json")
    assert cells(found) == {"fio/randrw": disk(read=204.8, write=102.4, p99=False)}
    assert [str(line).count("99") for line in found.wrong] == [1, 1]


def test_a_card_with_itself_is_no_pair() -> None:
    found = cells(of("nvbandwidth_zero_diagonal.txt"))
    (pairs,) = found.values()
    assert len(pairs) == 12
    assert pairs["bandwidth cuda:0>cuda:1"] == [270.10]
    assert pairs["bandwidth cuda:1>cuda:0"] == [271.00]
    assert pairs["bandwidth cuda:3>cuda:2"] == [273.20]


def test_log_of_other_hosts_is_noted() -> None:
    (note,) = of("nccl_other_hosts.log", node="mine").notes
    assert all(name in note for name in ("mine", "node-a", "node-b"))
    (note,) = of("nccl_min_bandwidth_failed.log").notes
    assert "61.68 GB/s" in note


@pytest.mark.parametrize(
    ("name", "words"), [("nccl_output.json", "JSON"), ("fio_client_server.json", "--client")]
)
def test_unsupported_forms_are_named(name: str, words: str) -> None:
    with pytest.raises(ImportFileError, match=words) as refused:
        of(name)
    assert "\n" not in str(refused.value)


def test_an_object_of_no_node_needs_a_name() -> None:
    path = CASES / "superbench_summary.json"
    with pytest.raises(ImportFileError, match="--node"):
        import_superbench(path)
    found = import_superbench(path, node="node-a")
    values = {p.metric.name: p.sample(0).tolist() for p in found.populations}
    assert values == {"h2d_bw": [25.1], "d2h_bw": [24.2], "fp64": [9000.5]}


def test_readers_without_an_importer() -> None:
    (matrix,) = read_stress_ng((CASES / "stress_ng_instances.yaml").read_text()).stressors
    assert (matrix.rate, matrix.operations, matrix.seconds) == (400, 8000, 20)
    stream = read_stream((CASES / "stream_5_9.txt").read_text())
    assert (stream.version, stream.array, set(stream.rates.values())) == (
        "5.9",
        160_000_000,
        {8000},
    )
    with pytest.raises(UnreadableOutput, match="-D"):
        read_perftest((CASES / "perftest_latency_by_duration.txt").read_text())


def test_job_that_continued_after_errors_failed(tmp_path: Path) -> None:
    """fio with --continue_on_error ends with 0 and counts the errors."""
    output = json.loads((CASES / "fio_dead_disk.json").read_text())
    output["jobs"][0] |= {"total_err": 3, "first_error": 5}
    (tmp_path / "fio_errors.json").write_text(json.dumps(output))
    found = cells(of("fio_errors.json", folder=tmp_path))["fio/randread"]
    assert found["read_bandwidth nvme0n1"] == "failed"


@pytest.mark.parametrize(
    "name", ["nccl_two_programs.log", "fio_2_1.json", "nvbandwidth_foreign_error_line.txt"]
)
@pytest.mark.parametrize(("said", "lost"), [("node-a failed: no response", 1), ("node-b DOWN", 0)])
def test_remark_about_a_failed_node_leaves_it_undecided(
    tmp_path: Path, name: str, said: str, lost: int
) -> None:
    path = tmp_path / name
    path.write_text(f"{(CASES / name).read_text()}\n{said}\n")
    assert [run.unread for run in of(name, folder=tmp_path).runs] == [lost]
