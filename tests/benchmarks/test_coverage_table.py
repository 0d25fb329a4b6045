"""The page on what the benchmark set covers is what its script prints, and every row is answered."""

from __future__ import annotations

import importlib
import re
from typing import Any

import pytest

_NAMES = """
kernel-launch gemm-flops pytorch-matmul cublaslt-gemm hipblaslt-gemm cublas-function cudnn-function
tensorrt-inference ort-inference gpu-burn cpu-hpl cpu-stream directx-gpu-core-flops
directx-gpu-encoding-latency directx-gpu-copy-bw directx-gpu-mem-bw cpu-memory-bw-latency mem-bw gpu-copy-bw
gpu-stream nvbandwidth ib-loopback nccl-bw rccl-bw ib-traffic gpcnet-network-test gpcnet-network-load-test
tcp-connectivity pytorch-computation-communication-overlap pytorch-sharding-matmul pytorch-dist-inference
disk-benchmark fambench onnxruntime-ort-models pytorch-resnet18 pytorch-resnet34 pytorch-resnet50
pytorch-resnet101 pytorch-resnet152 pytorch-resnext50_32x4d pytorch-resnext101_32x8d pytorch-wide_resnet50_2
pytorch-wide_resnet101_2 pytorch-densenet121 pytorch-densenet161 pytorch-densenet169 pytorch-densenet201
pytorch-vgg11 pytorch-vgg11_bn pytorch-vgg13 pytorch-vgg13_bn pytorch-vgg16 pytorch-vgg16_bn pytorch-vgg19
pytorch-vgg19_bn pytorch-mnasnet0_5 pytorch-mnasnet0_75 pytorch-mnasnet1_0 pytorch-mnasnet1_3
pytorch-mobilenet_v2 pytorch-shufflenet_v2_x0_5 pytorch-shufflenet_v2_x1_0 pytorch-shufflenet_v2_x1_5
pytorch-shufflenet_v2_x2_0 pytorch-squeezenet1_0 pytorch-squeezenet1_1 pytorch-alexnet pytorch-googlenet
pytorch-inception_v3 pytorch-bert-base pytorch-bert-large pytorch-gpt2-small pytorch-gpt2-medium
pytorch-gpt2-large pytorch-gpt2-xl pytorch-lstm pytorch-llama2-7b pytorch-llama2-13b pytorch-llama2-70b
pytorch-mixtral-8x7b pytorch-mixtral-8x22b megatron-gpt megatron-deepseek-v2 megatron-deepseek-v2-lite
"""
SUPERBENCH = _NAMES.split()

_WAYS = [f"{way}_memcpy_{by}" for way in ("host_to_device", "device_to_host", "all_to_host", "host_to_all",
         "host_to_device_bidirectional", "device_to_host_bidirectional", "all_to_host_bidirectional",
         "host_to_all_bidirectional") for by in ("ce", "sm")]  # fmt: skip
_PEERS = [f"device_to_device{way}_memcpy_{kind}_{by}" for way in ("", "_bidirectional")
          for kind in ("read", "write") for by in ("ce", "sm")]  # fmt: skip
_STARS = [f"{way}_{kind}_{by}" for way in ("all_to_one", "one_to_all")
          for kind in ("read", "write") for by in ("ce", "sm")]  # fmt: skip
NVBANDWIDTH = [*_WAYS, *_PEERS, *_STARS, "host_device_latency_sm", "device_to_device_latency_sm",
               "device_local_copy", "multinode_*"]  # fmt: skip
NCCL = [f"{name}_perf" for name in ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce",
        "alltoall", "sendrecv", "gather", "scatter", "hypercube")]  # fmt: skip
DCGM = ["-r 1", "-r 2", "-r 3", "-r 4"]
PROBES = {"work", "link", "core", "bit"}


table: Any = importlib.import_module("benchmarks.suites.coverage_table")


@pytest.fixture(scope="module")
def ours() -> dict[str, Any]:
    return {one.name: one for one in table.benchmarks(table.rows()["units"])}


def test_the_page_is_what_the_script_prints() -> None:
    written = table.PAGE.read_text(encoding="utf-8")
    assert table.page() == written, "python benchmarks/suites/coverage_table.py --write"


def test_every_benchmark_says_what_it_measures_and_catches(ours: dict[str, Any]) -> None:
    catches = table.rows()["catches"]
    assert catches.keys() == ours.keys()
    for name, row in catches.items():
        assert row["catches"].split(), name
        assert set(row["probes"]) <= PROBES, name
        adapter = name.startswith("suites/tools/")
        assert row["probes"] or adapter, name
        asked = "core" in row["probes"] or row.get("no_core") in ("its own clock", "bits")
        assert asked or adapter, f"{name}: why is a busy core not asked of it?"
        assert ours[name].component, name
        assert table.lengths(ours[name], row) not in ("", "rounds"), f"{name}: how much work is it?"
        for metric, (unit, better) in ours[name].metrics.items():
            assert (unit != "?", better in ("higher", "lower", "equal")) == (True, True), (
                f"{name} {metric}"
            )


def test_every_test_of_the_other_tools_is_answered_once(ours: dict[str, Any]) -> None:
    named: list[str] = []
    for source in table.rows()["sources"]:
        for row in source["rows"]:
            named += row["names"]
            answers = [*row.get("ours", ()), *row.get("adapter", ())]
            assert set(answers) <= ours.keys(), row["names"]
            assert row["how"], row["names"]
            for name in row.get("adapter", ()):
                assert re.match(r"suites/(tools|storage)/", name), row["names"]
    expected = [*SUPERBENCH, *NVBANDWIDTH, *NCCL, *DCGM, "gpu_burn"]
    assert sorted(set(expected) - set(named)) == []
    assert len(named) == len(set(named))


def test_every_probe_is_played_by_a_test_that_is_there() -> None:
    wanted = {(name, one) for name, row in table.rows()["catches"].items() for one in row["probes"]}
    played: set[tuple[str, str]] = set()
    for row in table.proofs():
        probe = row["probe"]
        everyone = [name for name, one in wanted if one == probe]
        played |= {(name, probe) for name in (everyone if row["of"] == ["*"] else row["of"])}
        for by in row["by"]:
            path, _, test = by.partition("::")
            text = (table.ROOT / path).read_text(encoding="utf-8")
            assert not test or f"def {test}(" in text, by
    assert played == wanted


def test_every_profile_dependent_table_is_read(ours: dict[str, Any]) -> None:
    assert "8,192 / 8,192 / 16,384" in ours["suites/compute/test_gemm.py::test_gemm"].parameters
    assert ours["suites/compute/test_gemm.py::test_gemm"].metrics["gemm_efficiency"] == (
        "GFLOP/J", "higher",
    )  # fmt: skip
