"""Readers take their tool's output, and refuse changed, incomplete or contradictory ones."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.tool_outputs.dcgm_diag import read_dcgm_diag
from pytest_anubis.tool_outputs.gpu_burn import read_gpu_burn
from pytest_anubis.tool_outputs.hpl import read_hpl
from pytest_anubis.tool_outputs.nccl_tests import read_nccl_tests
from pytest_anubis.tool_outputs.nvbandwidth import read_nvbandwidth
from pytest_anubis.tool_outputs.perftest import read_perftest
from pytest_anubis.tool_outputs.stream_benchmark import read_stream
from pytest_anubis.tool_outputs.stress_ng import failures, read_stress_ng
from pytest_anubis.tool_outputs.unreadable import UnreadableOutput, number

DATA = Path(__file__).parent / "data"


def golden(name: str) -> str:
    return (DATA / name).read_bytes().decode()  # with its carriage returns


def test_nccl_tests() -> None:
    run = read_nccl_tests(golden("all_reduce_perf.txt"))
    assert (run.collective, run.version, run.failure) == ("all_reduce", "2.17.6", "")
    assert run.wrong() == {}
    out, inside = run.rows[2].halves
    assert (out.time, out.algorithm, out.bus, out.errors) == (193.60, 173.32, 303.31, 0)
    assert [(m.name, m.unit, value) for row in run.rows for m, value, _ in row.metrics()] == [
        ("time_16", "us", 26.12), ("time_16_in_place", "us", 25.97),
        ("time_65536", "us", 31.74), ("time_65536_in_place", "us", 31.52),
        ("busbw_33554432", "GB/s", 303.31), ("busbw_33554432_in_place", "GB/s", inside.bus),
        ("busbw_268435456", "GB/s", 441.42), ("busbw_268435456_in_place", "GB/s", 442.00),
    ]  # fmt: skip


def test_nccl_tests_that_found_wrong_elements() -> None:
    wrong = golden("all_reduce_perf.txt").replace("303.31      0", "303.31      3")
    wrong = wrong.replace("values : 0 OK", "values : 3 FAILED")
    run = read_nccl_tests(wrong)
    assert run.wrong() == {"busbw_33554432": 3}
    assert "wrong results" in run.failure


def test_nccl_tests_may_leave_only_in_place_unchecked() -> None:
    text = golden("all_reduce_perf.txt").replace("305.18      0", "305.18    N/A")
    assert read_nccl_tests(text).rows[2].halves[1].errors is None
    with pytest.raises(UnreadableOutput, match="were not checked"):
        read_nccl_tests(text.replace("303.31      0", "303.31    N/A"))


@pytest.mark.parametrize("order", [1, -1])
def test_second_run_in_one_output_that_was_cut_off_is_told(order: int) -> None:
    whole = golden("nvbandwidth.txt")
    cut = whole.partition("Waived: ")[0]  # between two cases
    assert not read_nvbandwidth(whole + whole).unread
    assert not read_nvbandwidth(cut).unread  # by itself it lacks cases, and that is seen
    with pytest.raises(UnreadableOutput, match="lacks its end"):
        read_nvbandwidth("".join([whole, cut][::order]))


def test_nvbandwidth_as_text_and_as_json() -> None:
    run = read_nvbandwidth(golden("nvbandwidth.txt"))
    assert (run.version, run.failures) == ("v0.6", [])
    first, _, latency = run.cases
    assert (first.name, first.unit, first.total) == ("host_to_device_memcpy_ce", "GB/s", 1985.6)
    assert (first.cells[1], first.worst) == (269.33, 269.33)
    assert (latency.unit, latency.worst) == ("ns", 772.58)
    run = read_nvbandwidth(golden("nvbandwidth.json"))
    assert (run.version, run.failures) == ("v0.8", [])
    assert [(case.name, case.cells, case.worst) for case in run.cases] == [
        ("host_to_device_memcpy_ce", (55.3127, 55.1884), 55.1884),
        ("device_to_device_memcpy_write_ce", (366.231, 365.94), 365.94),
        ("host_device_latency_sm", (652.108, 659.77), 659.77),
    ]


def test_nvbandwidth_in_both_directions_is_three_matrices() -> None:
    name = "device_to_device_bidirectional_memcpy_read_ce"
    parts = [
        (f"{name}_read1", "read1", (181.5, 182.5), 364.0),
        (f"{name}_read2", "read2", (180.5, 181.0), 361.5),
        (f"{name}_total", "total", (362.0, 363.5), 725.5),
    ]
    for file in ("nvbandwidth_pairs.txt", "nvbandwidth_pairs.json"):
        cases = read_nvbandwidth(golden(file)).cases
        assert [(c.name, c.part, c.cells, c.total) for c in cases[:3]] == parts
        assert {(c.places, c.rows) for c in cases[:3]} == {(((0, 1), (1, 0)), 2)}
        assert cases[3].part == ""


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"Passed"', '"Error"', ("host_to_device_memcpy_ce", "Error")),
        ('"version"', '"error": "ERROR: no device", "version"', ("", "ERROR: no device")),
    ],
)
def test_nvbandwidth_that_failed(old: str, new: str, words: tuple[str, str]) -> None:
    run = read_nvbandwidth(golden("nvbandwidth.json").replace(old, new, 1))
    assert words in run.failures


def test_perftest() -> None:
    (line,) = read_perftest(golden("ib_write_bw.txt"))
    assert (line.size, line.latency) == (8388608, None)
    assert line.bandwidth == pytest.approx(24056.72 * 2**20 * 8 / 1e9)
    (line,) = read_perftest(golden("ib_write_bw.txt").replace("MB/sec]", "Gb/sec]"))
    assert line.bandwidth == 24056.72
    (line,) = read_perftest(golden("ib_write_lat.txt"))
    assert (line.size, line.latency, line.bandwidth) == (2, 0.98, None)


def test_dcgm_diag() -> None:
    run = read_dcgm_diag("Successfully ran diagnostic for group.\n" + golden("dcgm_diag_4.json"))
    assert run.error == ""
    said = [(one.plugin, one.device, one.status) for one in run.results]
    assert said == [
        ("software", "GPU 0", "pass"), ("software", "GPU 1", "pass"), ("memory", "GPU 0", "pass"),
        ("memory", "GPU 1", "fail"), ("memory", "", "fail"), ("pulse_test", "GPU 0", "skip"),
        ("pulse_test", "GPU 1", "skip"),
    ]  # fmt: skip
    assert run.results[3].text.startswith("A contained memory error was detected on GPU 1.")
    run = read_dcgm_diag(golden("dcgm_diag_3.json"))
    assert [(one.plugin, one.device, one.status) for one in run.results] == [
        ("denylist", "", "pass"), ("nvml_library", "", "pass"), ("pcie", "GPU 0", "pass"),
        ("pcie", "GPU 1", "warn"),
    ]  # fmt: skip
    assert read_dcgm_diag('{"DCGM Diagnostic": {"runtime_error": "no card"}}').error == "no card"
    one = golden("dcgm_diag_4.json")
    assert read_dcgm_diag(f'{{"iterations": [{one}, {one}]}}').results
    with pytest.raises(UnreadableOutput, match="iteration 2 of 2 has no result"):
        read_dcgm_diag(f'{{"iterations": [{one}, {{}}]}}')


def test_stress_ng() -> None:
    run = read_stress_ng(golden("stress_ng.yaml"))
    (cpu,) = run.stressors
    assert (cpu.name, cpu.operations) == ("cpu", 1198)
    assert (cpu.rate, cpu.seconds) == (397.644966, 3.012738)
    log = "stress-ng: info:  [1] a\nstress-ng: fail:  [2] vm: 1 error\nstress-ng: error: [1] b\n"
    assert failures(log) == ("stress-ng: fail:  [2] vm: 1 error", "stress-ng: error: [1] b")


def test_gpu_burn() -> None:
    cards = read_gpu_burn(golden("gpu_burn.txt"))
    assert [(card.index, card.ok, card.errors, card.died) for card in cards] == [
        (index, True, 0, False) for index in range(8)
    ]
    assert cards[0].rates == (17039.0, 16942.0)  # the first report holds the start
    assert cards[3].rates == (16926.0,)


@pytest.mark.parametrize(
    ("old", "new", "errors", "died", "ok"),
    [
        ("GPU 0: OK", "GPU 0: FAULTY", 0, False, False),
        ("errors: 0 - 0", "errors: 5  (WARNING!)- 0", 5, False, True),
        ("proc'd: 2261 (7150 Gflop/s)", "proc'd: -1 (7150 Gflop/s)", 0, True, True),
        ("errors: 0 - 0", "errors: 0  (DIED!)- 0", 0, True, True),
    ],
)
def test_gpu_burn_that_found_something(
    old: str, new: str, errors: int, died: bool, ok: bool
) -> None:
    card = read_gpu_burn(golden("gpu_burn.txt").replace(old, new, 1))[0]
    assert (card.errors, card.died, card.ok) == (errors, died, ok)


def test_hpl() -> None:
    run = read_hpl(golden("hpl.txt"))
    (one,) = run.solved
    assert (run.version, one.variant, one.size) == ("2.3", "WR0XR8C48", 384000)
    assert (one.seconds, one.rate, one.residual) == (4645.37, 8126.1, 0.00412139792)
    assert one.passed
    failed = golden("hpl.txt").replace("...... PASSED", "...... FAILED")
    failed = failed.replace("1 tests completed and passed", "0 tests completed and passed")
    failed = failed.replace("0 tests completed and failed", "1 tests completed and failed")
    assert not read_hpl(failed).solved[0].passed


def test_stream() -> None:
    run = read_stream(golden("stream.txt"))
    assert (run.version, run.array, run.failure) == ("5.10", 960_000_000, "")
    assert run.rates == {"Copy": 108180.5, "Scale": 108572.8, "Add": 104571.7, "Triad": 105256.0}
    wrong = golden("stream.txt").replace("Solution Validates", "Failed Validation on array a[]")
    assert read_stream(wrong).failure.startswith("Failed Validation on array a[]")


CHANGED: list[tuple[Callable[[str], Any], str, str, str, str]] = [
    (read_nccl_tests, "all_reduce_perf.txt", "#wrong", "errors", "no column #wrong"),
    (read_nccl_tests, "all_reduce_perf.txt", "# Out of bounds", "# Out", "missing at the end"),
    (read_nccl_tests, "all_reduce_perf.txt", " 193.60 ", " 193.60 1 ", "line 15: 14 values, 13 in the head"),
    (read_nccl_tests, "all_reduce_perf.txt", " 193.60 ", " 173.32 ", "is not size / time"),
    (read_nccl_tests, "all_reduce_perf.txt", "(GB/s)", "(Gb/s)", "unknown units"),
    (read_nccl_tests, "all_reduce_perf.txt", " 173.32 ", " nan ", "line 15: algbw: 'nan' is no number"),
    (read_nccl_tests, "all_reduce_perf.txt", " float     sum      -1", "", "10 values, 13 in the head"),
    (read_nvbandwidth, "nvbandwidth.txt", "269.33", "296.33", "the sum is not"),
    (read_nvbandwidth, "nvbandwidth.txt", "269.33", "", "no row of its matrix"),
    (read_nvbandwidth, "nvbandwidth.txt", "(GB/s)", "(GiB/s)", "no unit"),
    (read_nvbandwidth, "nvbandwidth.txt", "SUM host_to", "TOTAL host_to", "its sum is missing"),
    (read_nvbandwidth, "nvbandwidth.txt", "Running ", "Run ", "a sum without its matrix"),
    (read_nvbandwidth, "nvbandwidth.json", '"55.3127"', '"-55.3127"', "is no number"),
    (read_nvbandwidth, "nvbandwidth.json", "bandwidth_matrix", "matrix", "an empty matrix"),
    (read_nvbandwidth, "nvbandwidth_pairs.json", '"363.5"', '"365.5"', "the sum is not"),
    (read_nvbandwidth, "nvbandwidth_pairs.json", "Total", "Sum", "the sum is not"),
    (read_nvbandwidth, "nvbandwidth_pairs.txt", "181.00 ", "183.00 ", "ce_read2: the sum is not"),
    (read_nvbandwidth, "nvbandwidth_pairs.txt", "ce_read2 361", "ce_read3 361", "its sum is missing"),
    (read_nvbandwidth, "nvbandwidth.json", "testcases", "cases", "no test case ran"),
    (read_perftest, "ib_write_bw.txt", "BW average[MB/sec]", "BW mean[MB/sec]", "unknown head"),
    (read_perftest, "ib_write_bw.txt", "0.003007", "", "4 values, 5 in the head"),
    (read_perftest, "ib_write_bw.txt", " #bytes", " bytes", "no line of results"),
    (read_perftest, "ib_write_lat.txt", "0.98", "0,98", "is no number"),
    (read_dcgm_diag, "dcgm_diag_4.json", '"Fail"', '"Broken"', "memory: unknown status"),
    (read_dcgm_diag, "dcgm_diag_4.json", "test_categories", "categories", "no plugin says anything"),
    (read_dcgm_diag, "dcgm_diag_4.json", "DCGM Diagnostic", "Diagnostic", "no plugin says anything"),
    (read_dcgm_diag, "dcgm_diag_3.json", '"status"', '"state"', "status"),
    (read_stress_ng, "stress_ng.yaml", "real-time", "wall-time", "missing"),
    (read_stress_ng, "stress_ng.yaml", "397.644966", "821.100219", "not operations / time"),
    (read_stress_ng, "stress_ng.yaml", "metrics:", "results:", "no stressor"),
    (read_gpu_burn, "gpu_burn.txt", "Tested 8 GPUs:", "Tested 9 GPUs:", "no word about GPU 8"),
    (read_gpu_burn, "gpu_burn.txt", "Tested 8 GPUs:", "Done", "are missing at the end"),
    (read_gpu_burn, "gpu_burn.txt", "Gflop/s", "Tflop/s", "no line of progress"),
    (read_gpu_burn, "gpu_burn.txt", "GPU 7: OK", "GPU 7: FINE", "no word about GPU 7"),
    (read_hpl, "hpl.txt", "PASSED", "passed", "neither PASSED nor FAILED"),
    (read_hpl, "hpl.txt", "8.1261e+03", "8.1261e+06", "is not operations / time"),
    (read_hpl, "hpl.txt", "0 tests completed and failed", "1 tests completed and failed", "counts"),
    (read_hpl, "hpl.txt", "||Ax-b||", "|Ax-b|", "no result with a residual"),
    (read_stream, "stream.txt", "108180.5", "10818.05", "is not bytes / time"),
    (read_stream, "stream.txt", "Triad:", "Triads:", "Triad missing"),
    (read_stream, "stream.txt", "Solution Validates", "Solution", "no word about the solution"),
    (read_stream, "stream.txt", "Array size", "Size", "array size"),
]  # fmt: skip


@pytest.mark.parametrize(("reader", "name", "old", "new", "words"), CHANGED)
def test_a_changed_format_is_refused(
    reader: Callable[[str], Any], name: str, old: str, new: str, words: str
) -> None:
    text = golden(name)
    assert old in text
    with pytest.raises(UnreadableOutput, match=words):
        reader(text.replace(old, new))


GOLDEN: list[tuple[Callable[[str], Any], str]] = [
    (reader, name)
    for reader, name, *_ in CHANGED
    if not name.startswith("nvbandwidth") or name.endswith("json")
]


@pytest.mark.parametrize(("reader", "name"), list(dict.fromkeys(GOLDEN)))
def test_output_that_was_cut_off_is_refused(reader: Callable[[str], Any], name: str) -> None:
    text = golden(name).rstrip()
    whole = reader(text)
    for end in range(0, len(text), max(1, len(text) // 97)):
        with contextlib.suppress(UnreadableOutput):
            said = reader(text[:end])
            # Lines after the results may be missing, the results may not.
            assert said == whole or said.failure, end


def test_nvbandwidth_text_needs_whole_cases() -> None:
    text = golden("nvbandwidth.txt")
    whole = read_nvbandwidth(text).cases
    for end in range(0, len(text), 7):
        with contextlib.suppress(UnreadableOutput):
            cases = read_nvbandwidth(text[:end]).cases
            assert cases == whole[: len(cases)], end


@pytest.mark.parametrize("word", ["nan", "inf", "-1", "1_0", "0x1", "", "1e999", "٣", "1" * 50])
def test_invalid_numbers_are_refused(word: str) -> None:
    with pytest.raises(UnreadableOutput, match="is no number"):
        number(word, "tool", "rate")
    assert math.isclose(number("1.5e3", "tool", "rate"), 1500)
