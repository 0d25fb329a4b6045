"""Metric maps, lost values, and the messages of an import about both."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_anubis.store.importers import metric_map
from pytest_anubis.store.importers.fio import import_fio
from pytest_anubis.store.importers.import_result import Imported, ImportFileError
from pytest_anubis.store.importers.metric_map import known_metrics, read_metric_map
from pytest_anubis.store.importers.nccl import import_nccl
from pytest_anubis.store.importers.nvbandwidth_matrices import import_nvbandwidth
from pytest_anubis.store.importers.superbench import import_superbench
from pytest_anubis.store.importers.table import import_table
from tests.cli.command_line import anubis
from tests.store.importers.tables import summary

DATA = Path(__file__).parent / "data"
TOOLS = Path(__file__).parents[2] / "tool_outputs" / "data"
LONG = (
    "cudnn-function/name_cudnnconvolutionforward_"
    + "_".join(["inputstride_[50176]"] * 16)
    + "_time"
)


@pytest.mark.parametrize(
    ("name", "metric", "unit", "better", "component"),
    [
        ("kernel-launch", "event_time", "ms", "lower", "compute.dispatch"),
        ("disk-benchmark:nvme0", "nvme0n1_rand_read_lat_ns_99.0", "ns", "lower", "storage.disk"),
        ("cublas-function", "name_cublasgemmex_m_64_time", "us", "lower", "compute.matrix"),
        ("nccl-bw:nvlink", "allreduce_8388608_busbw", "GB/s", "higher", "network.collective"),
        ("nvbandwidth", "host_device_latency_sm", "ns", "lower", "memory.bandwidth"),
        ("nvbandwidth", "host_to_device_memcpy_ce", "GB/s", "higher", "memory.bandwidth"),
        ("resnet_models/pytorch-resnet50", "fp16_train_throughput", "1/s", "higher", "training"),
    ],
)
def test_the_tools_own_names_are_known(
    name: str, metric: str, unit: str, better: str, component: str
) -> None:
    rule = known_metrics().find(name, metric)
    assert rule is not None
    assert (rule.unit, rule.better, rule.component) == (unit, better, component)


@pytest.mark.parametrize(
    "imported",
    [
        import_nccl(DATA / "nccl_allreduce.log", node="n1"),
        import_nvbandwidth(TOOLS / "nvbandwidth_pairs.json", node="n1"),
        import_fio(DATA / "fio.json", node="n1"),
        import_superbench(DATA / "superbench.jsonl"),
    ],
    ids=["nccl", "nvbandwidth", "fio", "superbench"],
)
def test_map_and_importers_agree(imported: Imported) -> None:
    for population in imported.populations:
        rule = known_metrics().find(population.benchmark, population.metric.name)
        assert rule is not None, population.metric.name
        assert (rule.unit, rule.better) == (population.metric.unit, population.metric.better)
        assert rule.component == population.component
    assert not any("metric map" in note for note in imported.notes)


def test_long_names_of_superbench_are_kept(tmp_path: Path) -> None:
    found = summary(tmp_path, *({"node": f"n{i}", LONG: 1.0 + i} for i in range(3)))
    (population,) = found.populations
    assert (f"{population.benchmark}/{population.metric.name}", found.lost) == (LONG, 0)
    assert population.component == "compute.matrix"


def test_a_guess_is_said_to_be_one(tmp_path: Path) -> None:
    found = summary(tmp_path, {"node": "a", "own/odd_latency": 5.0})
    assert any("1 metric is in no metric map" in note for note in found.notes)


def test_metric_map_fills_empty_columns(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        "node,benchmark,metric,value,unit,component\n"
        "a,nvbandwidth,device_to_host_memcpy_ce,54,,\n"
        "a,nvbandwidth,device_to_host_memcpy_ce,55,GB/s,mine\n"
        "a,own,frobs,3,count,\n"
    )
    found = import_table(path)
    (population,) = found.populations
    assert (population.metric.unit, population.metric.better) == ("GB/s", "higher")
    assert sorted(population.values) == [54, 55]
    assert ["no metric map knows" in str(line) for line in found.wrong] == [True]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("metric,unit\n", "the first line must be benchmark,metric"),
        ("benchmark,metric,unit,better,component\na,b,s,faster,\n", "line 2: needs"),
        ("benchmark,metric,unit,better,component\n\na,b,,lower,\n", "line 3: needs"),
        (
            "benchmark,metric,unit,better,component\na,\x07,s,lower,\n",
            "line 2: unprintable text; take",
        ),
        (
            "benchmark,metric,unit,better,component\n" + "a,b,s,lower,\n" * 3,
            "line 4: a map has at most 2",
        ),
    ],
)
def test_a_wrong_map_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    monkeypatch.setattr(metric_map, "_MAX_RULES", 2)
    path = tmp_path / "map.csv"
    path.write_text(text)
    with pytest.raises(ImportFileError, match=said):
        read_metric_map(path)


def test_first_rule_counts_and_losses_set_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    good = {"b/return_code": 0, "b/x_bw:0": 10.0}
    path = summary(
        tmp_path,
        *({"node": f"n{i}", **good} for i in range(3)),
        {"node": "bad", "b/return_code": 33},
        {"node": "lost", "c/y_time": 1.0, "odd/frobs": 3},
    ).source
    done = anubis("import", "superbench", path.name)
    first = done.stdout.splitlines()[0]
    assert (
        "1 cell failed, 1 value missing, 0 wrong lines, 1 value of unknown direction left out"
        in first
    )
    assert done.returncode == 1
    assert anubis("import", "superbench", path.name, "--lenient").returncode == 0
    (tmp_path / "map.csv").write_text(
        "benchmark,metric,unit,better,component\nodd,frobs,count,higher,\n"
    )
    assert anubis("import", "superbench", path.name, "--map", "map.csv").returncode == 0
    assert anubis("import", "superbench", path.name, "--map", "none.csv").returncode == 2
