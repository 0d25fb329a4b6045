"""DCGM's JSON: the result of each plugin for each card, with its reason and numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.store.importers.dcgm import import_dcgm
from pytest_anubis.store.importers.import_result import Imported, ImportFileError

DATA = Path(__file__).parents[2] / "tool_outputs" / "data"


def cells(found: Imported) -> dict[tuple[str, str, str], Any]:
    """Benchmark, metric and device of each cell, with its values or what is wrong with it."""
    return {
        (p.benchmark, p.metric.name, p.devices[row]): (
            (p.problems[row].kind, p.problems[row].text)
            if row in p.problems
            else p.sample(row).tolist()
        )
        for p in found.populations
        for row in range(len(p))
    }


def said(folder: Path, *tests: dict[str, Any], name: str = "DCGM Diagnostic", **more: Any) -> Any:
    """Return the cells of an output with these tests."""
    return cells(import_dcgm(written(folder / "d.json", [*tests], name, **more), node="n1"))


def written(
    path: Path, tests: list[dict[str, Any]], name: str = "DCGM Diagnostic", **more: Any
) -> Path:
    path.write_text(
        json.dumps({name: {"test_categories": [{"category": "x", "tests": tests}]}, **more})
    )
    return path


def test_version_4_has_reasons_and_serial_numbers() -> None:
    found = import_dcgm(DATA / "dcgm_diag_4.json", node="n1")
    assert cells(found) == {
        ("dcgm/memory", "not_passed", "GPU 0"): [0.0],
        ("dcgm/memory", "not_passed", "GPU 1"): (
            "failed",
            "serial 1650000000002: A contained memory error was detected on GPU 1. Drain the GPU and "
            "reset it.",
        ),
        ("dcgm/software", "not_passed", "GPU 0"): [0.0],
        ("dcgm/software", "not_passed", "GPU 1"): [0.0],
    }
    assert found.notes == ("skipped on every card, not imported: pulse_test",)
    assert [run.node for run in found.runs] == ["n1"]


def test_version_3_has_warnings_and_shared_results(tmp_path: Path) -> None:
    found = import_dcgm(DATA / "dcgm_diag_3.json", node="n1")
    assert cells(found)["dcgm/pcie", "not_passed", "GPU 1"] == [1.0]
    assert cells(found)["dcgm/denylist", "not_passed", "node"] == [0.0]
    assert found.notes == ("pcie: GPU 1: GPU 1: the link runs at half of its width",)
    info = "GPU 0 GPU to Host bandwidth:\t\t24.02 GB/s, GPU 1 GPU to Host bandwidth:\t\t12.5 GB/s, and so on"
    test = {"name": "PCIe", "results": [{"gpu_ids": "0,1", "status": "PASS", "info": info}]}
    assert said(tmp_path, test, name="DCGM GPU Diagnostic") == {
        ("dcgm/pcie", "gpu_to_host_bandwidth", "GPU 0"): [24.02],
        ("dcgm/pcie", "gpu_to_host_bandwidth", "GPU 1"): [12.5],
        ("dcgm/pcie", "not_passed", "GPU 0"): [0.0],
        ("dcgm/pcie", "not_passed", "GPU 1"): [0.0],
    }


def test_version_4_numbers_and_a_skipped_card(tmp_path: Path) -> None:
    card = {"entity_group": "GPU", "entity_id": 0, "status": "Pass"}
    remarks = [
        "GPU 0 calculated at approximately 859.08 gigaflops during this test",
        "Host to GPU latency:\t\t3.7 us",
    ]
    results = [card | {"info": remarks}, card | {"entity_id": 1, "status": "Skip"}]
    path = written(tmp_path / "d.json", [{"name": "diagnostic", "results": results}])
    found = import_dcgm(path, node="n1")
    assert cells(found) == {
        ("dcgm/diagnostic", "host_to_gpu_latency", "GPU 0"): [3.7],
        ("dcgm/diagnostic", "not_passed", "GPU 0"): [0.0],
        ("dcgm/diagnostic", "not_passed", "GPU 1"): ("missing", "skipped"),
        ("dcgm/diagnostic", "rate", "GPU 0"): [859.08],
    }
    assert {p.component for p in found.populations} == {"compute.matrix"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "output of dcgmi diag cannot be read"),
        ("[" * 100_000, "output of dcgmi diag cannot be read"),
        ('{"DCGM Diagnostic": ' * 5_000, "output of dcgmi diag cannot be read"),
        ('{"jobs": [{"jobname": "x"}]}', "no plugin says anything"),
        ('{"DCGM Diagnostic": {"test_categories": 5}}', "test_categories"),
    ],
)
def test_other_output_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "d.json"
    path.write_text(text)
    with pytest.raises(ImportFileError) as refused:
        import_dcgm(path, node="n1")
    assert said in str(refused.value)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "odd",
    [
        {"info": {"a": 1}, "warnings": 7},
        {"info": [[["GPU 0 relative stress level 5"]]] * 3},
        {"info": "GPU 0 relative stress level " + "9" * 60},
        {"gpu_ids": "0," * 10_000},
        {"warnings": [{"warning": [{"warning": "deep"}]}]},
    ],
)
def test_odd_fields_end_no_import(tmp_path: Path, odd: dict[str, Any]) -> None:
    path = written(
        tmp_path / "d.json",
        [{"name": "x", "results": [{"status": "Pass", **odd}]}],
        entity_groups=[5, {"entities": 5}, {"entities": [5, {"serial_num": 5}]}],
    )
    assert import_dcgm(path, node="n1").values


def test_pass_with_a_warning_is_a_warning(tmp_path: Path) -> None:
    card = {"entity_group": "GPU", "entity_id": 0, "status": "Pass"}
    warned = card | {"warnings": [{"warning": "uncorrectable memory errors", "error_id": 95}]}
    for result, counted in ((warned, 1.0), (card | {"warnings": []}, 0.0)):
        found = said(tmp_path, {"name": "memory", "results": [result]})
        assert found == {("dcgm/memory", "not_passed", "GPU 0"): [counted]}


def test_overall_failure_counts_without_a_plugin(tmp_path: Path) -> None:
    card = {"entity_group": "GPU", "entity_id": 0, "status": "Pass"}
    for overall, failed in (("Fail", True), ("Pass", False)):
        path = written(
            tmp_path / "d.json",
            [{"name": "memory", "results": [card]}],
            **{"Overall Result": overall},
        )
        assert (
            ("dcgm/diag", "not_passed", "node") in cells(import_dcgm(path, node="n1"))
        ) == failed
    found = import_dcgm(path, node="n1")
    assert found.wrong_count == 0
    unknown = path.read_text().replace('"Overall Result": "Pass"', '"Overall Result": "Broken"')
    (tmp_path / "unknown.json").write_text(unknown)
    with pytest.raises(ImportFileError, match="Overall Result: unknown status 'Broken'"):
        import_dcgm(tmp_path / "unknown.json", node="n1")
    with path.open("a") as file:
        file.write("\nError: Diagnostic could not be run\n")
    assert import_dcgm(path, node="n1").wrong_count == 1


def test_a_result_that_says_two_things_is_refused(tmp_path: Path) -> None:
    result = {"entity_group": "GPU", "entity_id": 0, "status": "Pass"}
    path = written(tmp_path / "diag.json", [{"name": "memory", "results": [result]}])
    assert import_dcgm(path, node="n1").runs
    path.write_text(path.read_text().replace('"status"', '"status": "Fail", "status"'))
    with pytest.raises(ImportFileError, match="'status' occurs twice"):
        import_dcgm(path, node="n1")


def test_a_summary_is_hidden_only_by_a_card_as_bad(tmp_path: Path) -> None:
    def outcomes(card: str, summary: str) -> list[Any]:
        test = {
            "name": "memory",
            "results": [{"entity_group": "GPU", "entity_id": 0, "status": card}],
            "test_summary": {"status": summary},
        }
        found = said(tmp_path, test)
        return [found.get(("dcgm/memory", "not_passed", device)) for device in ("GPU 0", "node")]

    failed = ("failed", "failed")
    assert outcomes("Fail", "Fail") == [failed, None]
    assert outcomes("Warn", "Fail") == [[1.0], failed]
    assert outcomes("Warn", "Warn") == [[1.0], None]
    assert outcomes("Pass", "Warn") == [[0.0], [1.0]]
    assert outcomes("Pass", "Pass") == [[0.0], None]
    # Another iteration's failed card says nothing about this one's summary.
    of = {"entity_group": "GPU", "entity_id": 0}
    runs = [
        {"name": "memory", "results": [of | {"status": word}], "test_summary": {"status": "Fail"}}
        for word in ("Fail", "Pass")
    ]
    found = said(tmp_path, *runs)
    assert found["dcgm/memory", "not_passed", "node"] == failed


def test_version_3_tells_reasons_of_its_first_tests_otherwise(tmp_path: Path) -> None:
    def of(status: str, card: Any, warnings: Any) -> dict[str, Any]:
        result = {"status": status, "gpu_id": card, "warnings": warnings}
        found = said(tmp_path, {"name": "Inforom", "results": [result]}, name="DCGM GPU Diagnostic")
        return {key[2]: value for key, value in found.items()}

    bad = [{"warnings": "GPU 4 is corrupt"}]
    for warnings in (bad, {"warnings": ["GPU 4 is corrupt"]}, "GPU 4 is corrupt"):
        assert of("Fail", 4, warnings) == {"GPU 4": ("failed", "GPU 4 is corrupt")}
    assert of("Pass", 4, bad) == {"GPU 4": [1.0]}
    for node in (-1, "-1", None):
        assert of("Pass", node, bad) == {"node": [1.0]}
        assert of("Pass", node, None) == {"node": [0.0]}
    several = [{"warnings": f"GPU {card} is corrupt"} for card in range(12)]
    assert of("Fail", 11, several) == {
        f"GPU {card}": ("failed", f"GPU {card} is corrupt") for card in range(12)
    }
    both = [{"warnings": "no link from GPU 3 to GPU 4"}]
    assert of("Fail", 4, both) == {"GPU 4": ("failed", "no link from GPU 3 to GPU 4")}


def test_holes_of_what_did_not_run(tmp_path: Path) -> None:
    passed = {"gpu_id": "1", "status": "Pass"}
    tests: list[dict[str, Any]] = [
        {"name": "PCIe", "results": [None, passed]},
        {"name": "EUD", "results": [None, None]},
    ]
    found = import_dcgm(written(tmp_path / "d.json", tests), node="n1")
    assert cells(found) == {("dcgm/pcie", "not_passed", "GPU 1"): [0.0]}
    assert found.notes == ("skipped on every card, not imported: eud",)
    whole = {"DCGM Diagnostic": {"test_categories": [None, {"tests": None}, {"tests": tests}]}}
    path = tmp_path / "i.json"
    for text, reason in (
        ('{"DCGM Diagnostic": {"runtime_error": "out of time"}}', "out of time"),
        ('{"runtime_error": "out of time"}', "out of time"),
        ("", "NVVS Error"),
    ):
        more = {"iterations": [whole, None], "Overall Result": "Fail", "warning": "NVVS Error"}
        path.write_text(f"{text}\n{json.dumps(more)}")
        diag = cells(import_dcgm(path, node="n1"))
        assert diag["dcgm/pcie", "not_passed", "GPU 1"] == [0.0]
        kind, said = diag["dcgm/diag", "not_passed", "node"]
        assert (kind, reason in said) == ("failed", True)
    path.write_text('{"iterations": [null]}')
    assert cells(import_dcgm(path, node="n1"))["dcgm/diag", "not_passed", "node"][0] == "failed"


@pytest.mark.parametrize("errors", ["no card", ["no card"], [{"warning": "no card"}], {"id": 4}])
@pytest.mark.parametrize("inside", [False, True])
def test_errors_of_no_plugin_are_of_the_node(tmp_path: Path, errors: Any, inside: bool) -> None:
    tests = [{"name": "memory", "results": [{"status": "Pass"}]}]
    path = written(tmp_path / "d.json", tests)
    data = json.loads(path.read_text())
    (data["DCGM Diagnostic"] if inside else data)["global_errors"] = errors
    path.write_text(json.dumps(data))
    found = cells(import_dcgm(path, node="n1"))
    assert found["dcgm/memory", "not_passed", "node"] == [0.0]
    assert found["dcgm/diag", "not_passed", "node"][0] == "failed"
    path.write_text(path.read_text().replace(json.dumps(errors), "[]"))
    assert cells(import_dcgm(path, node="n1")).keys() == {("dcgm/memory", "not_passed", "node")}


def test_cpus_and_statuses_of_all(tmp_path: Path) -> None:
    tests = [
        {"name": "CPU EUD Test", "results": [{"cpu_id": "0", "status": "Skip - All"}]},
        {
            "name": "CPU Test",
            "results": [{"cpu_id": 0, "status": "Pass - All"}, {"cpu_id": 1, "status": "Fail"}],
        },
    ]
    found = import_dcgm(written(tmp_path / "d.json", tests), node="n1")
    assert cells(found) == {
        ("dcgm/cpu_test", "not_passed", "CPU 0"): [0.0],
        ("dcgm/cpu_test", "not_passed", "CPU 1"): ("failed", "failed"),
    }
    assert found.notes == ("skipped on every card, not imported: cpu_eud_test",)


@pytest.mark.parametrize(
    ("text", "advised"),
    [
        ("Successfully ran diagnostic for group.\n| Denylist | Pass |\n", True),
        ("Error: Unable to connect to host engine.\n", False),
        ('{"DCGM Multi-Node Diagnostic": {}}', False),
        ('{"DCGM Diagnostic": {"test_categories": [', False),
    ],
)
def test_only_text_is_to_be_written_as_json(tmp_path: Path, text: str, advised: bool) -> None:
    path = tmp_path / "d.txt"
    path.write_text(text)
    with pytest.raises(ImportFileError) as refused:
        import_dcgm(path, node="n1")
    assert (" -j" in str(refused.value)) == advised
