"""The adapters fail closed: what a tool found fails, what it prints otherwise is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.benchmarking import placement
from pytest_anubis.benchmarking.tools import ToolFailed, ToolOutput, ToolRefused, UnreadableOutput
from pytest_anubis.session.error_causes import environment_of
from suites.tools import (
    test_dcgm_diag,
    test_gpu_burn,
    test_hpl,
    test_nccl_tests,
    test_nvbandwidth,
    test_stream_c,
    test_stress_ng,
)
from tests.tool_outputs.test_tool_outputs import golden

Checked = Callable[[ToolOutput], Any]
TEXTS: dict[str, tuple[Checked, str]] = {
    "nccl": (test_nccl_tests.checked, "all_reduce_perf.txt"),
    "nvbandwidth": (test_nvbandwidth.checked, "nvbandwidth.json"),
    "gpu_burn": (test_gpu_burn.checked, "gpu_burn.txt"),
    "hpl": (test_hpl.checked, "hpl.txt"),
    "stream": (test_stream_c.checked, "stream.txt"),
}


def output(text: str, *, code: int = 0, errors: str = "") -> ToolOutput:
    return ToolOutput("tool", "1.2", text, errors, code)


@pytest.mark.parametrize("name", TEXTS)
def test_what_is_well_passes_and_what_ends_with_an_error_does_not(name: str) -> None:
    checked, file = TEXTS[name]
    assert checked(output(golden(file)))
    with pytest.raises(ToolFailed, match=r"tool 1\.2 ended with status 7: out of luck"):
        checked(output(golden(file), code=7, errors="out of luck\n"))
    with pytest.raises(ToolFailed, match="out of luck"):
        checked(output("", code=7, errors="out of luck\n"))
    with pytest.raises(UnreadableOutput, match=r"output of tool 1\.2 cannot be read"):
        checked(output("a new format\n"))


@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        ("nccl", "303.31      0", "303.31      3", "wrong elements: busbw_33554432 3"),
        ("nccl", "values : 0 OK", "values : 3 FAILED", "reports wrong results"),
        ("nvbandwidth", '"Passed"', '"Error"', "host_to_device_memcpy_ce: Error"),
        ("gpu_burn", "GPU 3: OK", "GPU 3: FAULTY", "GPU 3: faulty"),
        ("gpu_burn", "errors: 0 - 0", "errors: 0  - 7  (WARNING!)", "GPU 1: 7 errors"),
        ("gpu_burn", "errors: 0 - 0", "errors: 0  - 0  (DIED!)", "GPU 1: faulty, its process died"),
        ("stream", "Solution Validates", "Failed Validation on array b[]", "on array b"),
    ],
)
def test_what_a_tool_found_fails(name: str, old: str, new: str, words: str) -> None:
    checked, file = TEXTS[name]
    text = golden(file)
    assert old in text
    with pytest.raises(AssertionError, match=words):
        checked(output(text.replace(old, new, 1)))


def test_hpl_whose_residual_is_too_large_fails() -> None:
    text = golden("hpl.txt").replace("...... PASSED", "...... FAILED")
    text = text.replace("1 tests completed and passed", "0 tests completed and passed")
    text = text.replace("0 tests completed and failed", "1 tests completed and failed")
    with pytest.raises(AssertionError, match=r"check FAILED: WR0XR8C48: residual 0\.00412"):
        test_hpl.checked(output(text))


def test_gpu_burn_that_computed_nothing_is_no_pass() -> None:
    text = golden("gpu_burn.txt")
    lines = [line for line in text.split("\n") if "proc'd" not in line]
    with pytest.raises(UnreadableOutput, match="no rate of GPU 0, 1, 2"):
        test_gpu_burn.checked(output("\n".join(lines)))


def burning(*advances: Callable[[int], bool]) -> str:
    """Return what gpu-burn prints of cards that advance with some of 199 reports, every half percent."""
    done = [0] * len(advances)
    lines = []
    for report in range(1, 200):
        done = [n + 100 * moves(report) for n, moves in zip(done, advances, strict=True)]
        cards = " - ".join(f"{n} (17000 Gflop/s)" for n in done)
        errors = " - ".join("0" for _ in done)
        lines.append(f"{report / 2 + 0.5:.1f}%  proc'd: {cards}   errors: {errors}   temps: 60 C")
    ends = [f"\tGPU {n}: OK" for n in range(len(done))]
    return "\n".join([*lines, f"Tested {len(done)} GPUs:", *ends, ""])


@pytest.mark.parametrize(
    ("others", "moves", "words"),
    [
        (1, lambda report: report <= 3, "GPU 1 stood still for 98 % of the run"),
        (1, lambda report: report == 1, "GPU 1 computed nothing while the others did"),
        (0, lambda report: report <= 3, "GPU 0 stood still for 98 % of the run"),
        (1, lambda report: report in (1, 90, 199), "GPU 1 stood still for 5. % of the run"),
        (1, lambda report: report < 150, "GPU 1 stood still for 25 % of the run"),
        (2, lambda report: report % 10 == 9, "GPU 2 computed 2000 products, those of its model 1"),
    ],
)
def test_card_that_stops_under_gpu_burn_fails(
    others: int, moves: Callable[[int], bool], words: str
) -> None:
    every = [lambda _: True] * others
    assert len(test_gpu_burn.checked(output(burning(*every, lambda n: n % 2 == 0)))) == others + 1
    with pytest.raises(AssertionError, match=words):
        test_gpu_burn.checked(output(burning(*every, moves)))


def test_gpu_burn_runs_where_nobody_else_puts_its_kernel(tmp_path: Path) -> None:
    tool, kernel = tmp_path / "gpu_burn", tmp_path / "compare.ptx"
    tool.touch()
    kernel.touch(mode=0o644)
    assert test_gpu_burn.home_of(str(tool)) == tmp_path
    kernel.chmod(0o666)
    with pytest.raises(pytest.skip.Exception, match=r"not run: everybody can write .*compare\.ptx"):
        test_gpu_burn.home_of(str(tool))
    kernel.unlink()
    for mode in (0o1777, 0o777):
        tmp_path.chmod(mode)
        with pytest.raises(pytest.skip.Exception, match="everybody can put files into"):
            test_gpu_burn.home_of(str(tool))


def test_plugins_of_dcgm_that_failed_are_named() -> None:
    run = test_dcgm_diag.checked(output(golden("dcgm_diag_4.json"), code=226))
    assert test_dcgm_diag.complaints(run) == [
        "memory GPU 1: A contained memory error was detected on GPU 1. Drain the GPU and reset it.",
        "memory: failed",
    ]
    with pytest.raises(ToolFailed, match="host engine"):
        test_dcgm_diag.checked(
            output("", code=255, errors="Error: unable to connect to host engine")
        )
    with pytest.raises(AssertionError, match="broke off: no card"):
        test_dcgm_diag.checked(output('{"DCGM Diagnostic": {"runtime_error": "no card"}}'))


@pytest.mark.parametrize(
    ("code", "log", "error", "words"),
    [
        (2, "stress-ng: fail:  [9] cpu: checksum differs\n", AssertionError, "checksum differs"),
        (0, "stress-ng: fail:  [9] cpu: checksum differs\n", AssertionError, "checksum differs"),
        (3, "no room\n", ToolFailed, "status 3: no room"),
        (3, "stress-ng: error: [9] no room\n", ToolFailed, "status 3: .*no room"),
        (3, "stress-ng: fail:  [9] vm: 1 error\n", AssertionError, "vm: 1 error"),
        (4, "", pytest.skip.Exception, "has no cpu stressor"),
        (7, "", UnreadableOutput, "not to be trusted"),
    ],
)
def test_exit_statuses_of_stress_ng(
    tmp_path: Path, code: int, log: str, error: type[BaseException], words: str
) -> None:
    told = tmp_path / "a.yaml"
    told.write_text(golden("stress_ng.yaml"), encoding="utf-8")
    with pytest.raises(error, match=words):
        test_stress_ng.checked(output("", code=code, errors=log), told, "cpu")
    assert test_stress_ng.checked(output(""), told, "cpu").rate == 397.644966
    with pytest.raises(UnreadableOutput, match="vm expected, found cpu"):
        test_stress_ng.checked(output(""), told, "vm")
    told.write_text(golden("stress_ng.yaml").replace("1198", "0").replace("397.644966", "0.0"))
    with pytest.raises(UnreadableOutput, match="nothing was measured"):
        test_stress_ng.checked(output(""), told, "cpu")
    told.unlink()
    with pytest.raises(UnreadableOutput, match="no YAML"):
        test_stress_ng.checked(output(""), told, "cpu")


SLOTS = "There are not enough slots available in the system to satisfy the 8\nslots\n" + "-\n" * 9


@pytest.mark.parametrize(
    ("tool", "code", "said", "inconclusive"),
    [
        ("stress-ng", 3, "no resources", True),
        ("stress-ng", 1, "stress-ng: unrecognized option '--x'", True),
        ("stress-ng", 5, "killed by a signal", False),
        ("mpirun", 1, SLOTS, True),
        ("mpirun", 139, SLOTS, False),
        ("mpirun", 1, "exited with a code of 1", False),
        ("nvbandwidth", 1, "ERROR: unrecognised option '-j'", True),
        ("ib_write_bw", 1, "Couldn't allocate MR\nFailed to create MR", True),
        ("ib_write_lat", 1, "OFED stack does not support DMA-BUF", True),
        ("ib_read_bw", 1, "Completion with error at client", False),
        ("xhpl", 1, SLOTS, False),
        ("xhpl", -11, "unknown option", False),
    ],
)
def test_tool_that_did_not_begin_decides_nothing(
    tool: str, code: int, said: str, inconclusive: bool
) -> None:
    with pytest.raises(ToolFailed) as caught:
        test_hpl.checked(ToolOutput(tool, "", "", said, code))
    assert bool(environment_of(caught.value)) is inconclusive
    assert isinstance(caught.value, ToolRefused) is inconclusive


def test_hpl_has_one_rank_a_physical_core(tmp_path: Path) -> None:
    for cpu in range(8):
        topology = tmp_path / f"sys/devices/system/cpu/cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(f"{cpu % 4},{cpu % 4 + 4}\n")
    assert placement.physical_cores(8, range(8), tmp_path) == 4
    assert placement.physical_cores(3, range(8), tmp_path) == 3  # a control group's quota
    assert placement.physical_cores(8, (1, 4, 5), tmp_path) == 2


def test_size_of_hpl_follows_cores_and_memory() -> None:
    gib = 1 << 30
    small, large = test_hpl.order(2, 64 * gib, 60), test_hpl.order(96, 1024 * gib, 60)
    assert small % test_hpl.BLOCK == 0
    assert 14_000 < small < 16_000
    assert large > 3 * small
    assert 8 * test_hpl.order(96, 4 * gib, 600) ** 2 <= 2 * gib
    assert [test_hpl.grid(n) for n in (1, 2, 7, 12, 96)] == [
        (1, 1),
        (1, 2),
        (1, 7),
        (3, 4),
        (8, 12),
    ]
    lines = test_hpl.input_file(small, 1, 2).splitlines()
    assert len(lines) == 31  # as many as HPL reads
    assert lines[5].split()[0] == str(small)
