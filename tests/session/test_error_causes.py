"""What the errors of a test speak of: its surroundings, the hardware, or a check of its own."""

from __future__ import annotations

import re

import pytest

from pytest_anubis.benchmarking.replay.operation_calls import CannotReplayError
from pytest_anubis.session.collecting.device_parameters import WrongCardError
from pytest_anubis.session.error_causes import CAUSES, environment_of
from pytest_anubis.traces.trace_reading import TraceError
from tests.cli.command_line import anubis
from tests.run_journals import events_of
from tests.session.conftest import Learn


class OutOfMemoryError(RuntimeError):
    """As torch's, of the same name."""


class AcceleratorError(RuntimeError):
    """As torch's, of the same name."""


class DistBackendError(RuntimeError):
    """As torch's, of the same name."""


class UnreadableOutput(RuntimeError):
    """As `benchmarking/tools.py` has it."""


class ToolRefused(RuntimeError):
    """As `benchmarking/tools.py` has it."""


class ChildError(RuntimeError):
    """As the suites', which tell what their children died of."""


# Messages as drivers and libraries write them -> a word of what is in the way.
ENVIRONMENT: list[tuple[BaseException, str]] = [
    (
        RuntimeError(
            "dcgmi ended with status 255: Error: unable to establish a connection to the specified host"
        ),
        "DCGM's service",
    ),
    (AssertionError("Torch not compiled with CUDA enabled"), "build of torch"),
    (UserWarning("Please use the new API settings to control TF32 behavior"), "warning was raised"),
    (UnreadableOutput("output of fio-4.0 cannot be read: 'no jobs'"), "output of a tool"),
    (ToolRefused("mpirun 4.1 ended with status 1: not enough slots"), "a tool did not begin"),
    (TraceError('schema is "9"; known are 1.0.1 to 1.1.1'), "no execution trace"),
    (CannotReplayError("no replay here of mylib::xid (1 times)"), "cannot be replayed here"),
    (WrongCardError("cuda:3 is the card at 0000:5d:00.0, but"), "another card than the one to test"),
    (
        RuntimeError(
            "Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling "
            "NumCudaDevices() that might have already set an error? Error 802: system not yet initialized"
        ),
        "fabric manager",
    ),
    (
        RuntimeError("The NVIDIA driver on your system is too old (found version 11040). Please update"),
        "driver does not fit",
    ),
    (RuntimeError("Found no NVIDIA driver on your system."), "driver cannot be reached"),
    (
        AcceleratorError("CUDA error: no kernel image is available for execution on the device"),
        "no code for this card",
    ),
    (RuntimeError("HIP error: invalid device function\nHIP kernel errors might be"), "no code"),
    (
        AcceleratorError("CUDA error: CUDA-capable device(s) is/are busy or unavailable"),
        "another process holds the card",
    ),
    (
        RuntimeError("CUDA error: all CUDA-capable devices are busy or unavailable"),
        "another process holds the card",
    ),
    (RuntimeError("No CUDA GPUs are available"), "does not see the card"),
    (AcceleratorError("CUDA error: invalid device ordinal"), "CUDA_VISIBLE_DEVICES"),
    (OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has"), "card's memory"),
    (OutOfMemoryError("HIP out of memory. Tried to allocate 2.00 GiB."), "card's memory"),
    (AcceleratorError("CUDA error: out of memory"), "card's memory"),
    (
        ChildError("rank 1: MemoryTakenError: of cuda:0's 85.0 GB 20.1 GB are free, and this benchmark"),
        "something else has the card's memory",
    ),
    (
        DistBackendError(
            "NCCL error in: ProcessGroupNCCL.cpp:3356, unhandled system error (run with NCCL_DEBUG=INFO for "
            "details), NCCL version 2.27.3\nncclSystemError: System call (e.g. socket, malloc) or external "
            "library call failed or device error.\nLast error:\nError while creating shared memory segment "
            "/dev/shm/nccl-pZafXL (size 7340384), error: No space left on device (28)"
        ),
        "--shm-size=1g",
    ),
    (
        ChildError("rank 3: DistBackendError: NCCL error in: x.cpp:1, unhandled system error (run"),
        "NCCL_DEBUG",
    ),
    (
        ChildError("rank 0 is gone; it printed: Traceback\n  ...\nOutOfMemoryError: CUDA out of memory."),
        "card's memory",
    ),
    (MemoryError(), "main memory"),
    (OSError(28, "No space left on device"), "file system is full"),
    (OSError(24, "Too many open files"), "ulimit"),
    (PermissionError(13, "Permission denied", "/dev/kfd"), "may not"),
    (
        AcceleratorError("CUDA error: operation not permitted when stream is capturing"),
        "while a graph is captured",
    ),
    (AcceleratorError("CUDA error: cudaErrorStreamCaptureImplicit"), "while a graph is captured"),
    (ModuleNotFoundError("No module named 'flash_attn'"), "library is missing"),
    (ImportError("libcudnn.so.9: cannot open shared object file: No such file"), "library is missing"),
    (OSError(98, "Address already in use"), "port is taken"),
    (FileNotFoundError(2, "No such file or directory", "my_tool"), "program or file is missing"),
    (ConnectionRefusedError(111, "Connection refused"), "does not listen"),
]  # fmt: skip

NO_HANDLE = RuntimeError(
    "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"
)


def noted(error: BaseException, note: str) -> BaseException:
    error.add_note(note)
    return error


# What a sick card, or a test that found something, raises.
HARDWARE: list[BaseException] = [
    RuntimeError("CUDA error: uncorrectable ECC error encountered"),
    AcceleratorError("CUDA error: an illegal memory access was encountered"),
    AcceleratorError("CUDA error: unspecified launch failure"),
    RuntimeError("CUDA error: uncorrectable NVLink error detected during the execution"),
    RuntimeError("GPU is lost"),
    # It died of the error, and then had no memory either.
    noted(ChildError("rank 1: ... CUDA out of memory"), "uncorrectable ECC error encountered"),
    AssertionError("3 of 4096 elements are wrong; out of memory is no excuse for it"),
    AssertionError("assert 0.25 < 0.1"),
    RuntimeError("sent 65536 bytes, 65000 arrived"),
    OSError(5, "Input/output error"),
    FileNotFoundError(2, "No such file or directory", "/dev/nvidia3"),
    TimeoutError("rank 3 did not answer"),
    OSError(30, "Read-only file system"),
    ValueError("NaN in the gradient"),
    RuntimeError("CUDA error: unknown error"),
    AcceleratorError("CUDA error: operation failed due to a previous error during capture"),
    NO_HANDLE,
    DistBackendError("NCCL error in: x.cpp:1, remote process exited or there was a network error"),
    ChildError("rank 5 did not answer within 120 s"),
]


def shown(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".replace("\n", " ")[:70]


@pytest.mark.parametrize(("error", "words"), ENVIRONMENT, ids=[shown(e) for e, _ in ENVIRONMENT])
def test_known_errors_are_environment(error: BaseException, words: str) -> None:
    found = environment_of(error)
    assert words in found
    assert found.isprintable()


@pytest.mark.parametrize("error", HARDWARE, ids=map(shown, HARDWARE))
def test_hardware_and_unknown_errors_are_not_excused(error: BaseException) -> None:
    assert environment_of(error) == ""


def test_an_error_that_cannot_say_what_it_is_is_unknown() -> None:
    class Mute(RuntimeError):
        def __str__(self) -> str:
            raise ValueError("no text")

    assert environment_of(Mute()) == ""


def test_missing_handle_is_excused_by_a_full_card() -> None:
    assert "17 MiB are free" in environment_of(NO_HANDLE, free=lambda: 17 << 20)
    assert environment_of(NO_HANDLE, free=lambda: 17 << 20, own_check=True) == ""
    assert environment_of(NO_HANDLE, free=lambda: 40 << 30) == ""
    assert environment_of(NO_HANDLE, free=lambda: None) == ""


def test_every_cause_has_a_message_here() -> None:
    messages = [f"{type(error).__name__}: {error}" for error, _ in ENVIRONMENT]
    for words, cause, _ in CAUSES:
        assert any(re.search(words, message, re.IGNORECASE) for message in messages), cause


def test_a_failed_check_is_no_matter_of_its_words() -> None:
    class Failed(Exception):
        pass

    error = Failed("the copy is wrong: CUDA out of memory")
    assert environment_of(error) != ""
    assert environment_of(error, own_check=True) == ""


BODY = """
import pytest

@pytest.mark.anubis(component="accelerator.compute", scope="device")
def test_gemm(anubis_metric, anubis_device):
    anubis_metric.record("speed", [100.0] * 21, unit="GFLOP/s", better="higher")
    {body}
"""


@pytest.mark.parametrize(
    ("body", "code", "outcome", "words"),
    [
        (
            "raise RuntimeError('CUDA out of memory. Tried to allocate 2 GiB')",
            20,
            "INCONCLUSIVE",
            "the test could not do its work: the card's memory did not suffice; end what else uses the "
            "card (nvidia-smi shows it), or choose a smaller profile (RuntimeError: CUDA out of memory. "
            "Tried to allocate 2 GiB)",
        ),
        (
            "raise RuntimeError('CUDA error: uncorrectable ECC error encountered')",
            1,
            "FAIL",
            "RuntimeError: CUDA error: uncorrectable ECC error encountered",
        ),
        (
            "pytest.fail('wrong sum: CUDA out of memory')",
            1,
            "FAIL",
            "Failed: wrong sum: CUDA out of memory",
        ),
    ],
)
def test_only_the_hardware_rejects(
    project: pytest.Pytester, learn: Learn, body: str, code: int, outcome: str, words: str
) -> None:
    learn(benchmark="test_suite.py::test_gemm")
    project.makepyfile(test_suite=BODY.format(body=body))
    result = project.runpytest("--anubis", "--anubis-run-id=r")
    assert result.ret == code
    verdicts = events_of(project, "verdict")
    assert (outcome, words) in [(one["outcome"], one["text"]) for one in verdicts]
    (ended,) = events_of(project, "node_verdict")
    assert words in ended["headline"]


# Two things go wrong in one test: whichever comes first, what speaks of the hardware counts.
TWICE = """
import pytest

OURS, THEIRS = AssertionError("wrong sum"), RuntimeError("CUDA out of memory")

@pytest.fixture
def card():
    yield
    raise {teardown}

@pytest.mark.anubis(component="accelerator.compute", scope="device")
def test_gemm(anubis_metric, anubis_device, card):
    anubis_metric.record("speed", [100.0] * 21, unit="GFLOP/s", better="higher")
    raise {body}

@pytest.mark.anubis(component="accelerator.compute", scope="device")
def test_subtests(anubis_metric, anubis_device, subtests):
    anubis_metric.record("speed", [100.0] * 21, unit="GFLOP/s", better="higher")
    with subtests.test("first"):
        raise {body}
    with subtests.test("second"):
        raise {teardown}
"""


@pytest.mark.parametrize(
    ("body", "teardown", "outcome"),
    [("OURS", "THEIRS", "FAIL"), ("THEIRS", "OURS", "FAIL"), ("THEIRS", "THEIRS", "INCONCLUSIVE")],
)
@pytest.mark.parametrize("test", ["test_gemm", "test_subtests"])
def test_a_second_error_excuses_nothing(
    project: pytest.Pytester, learn: Learn, test: str, body: str, teardown: str, outcome: str
) -> None:
    learn(benchmark=f"test_suite.py::{test}")
    project.makepyfile(test_suite=TWICE.format(body=body, teardown=teardown))
    result = project.runpytest("--anubis", "--anubis-run-id=r", "-k", test)
    assert result.ret == {"FAIL": 1, "INCONCLUSIVE": 20}[outcome]
    verdicts = events_of(project, "verdict")
    assert outcome in [one["outcome"] for one in verdicts if not one.get("metric")]


def test_judging_the_run_anew_excuses_the_same(project: pytest.Pytester, learn: Learn) -> None:
    learn(benchmark="test_suite.py::test_gemm")
    project.makepyfile(test_suite=BODY.format(body="raise RuntimeError('CUDA out of memory')"))
    assert project.runpytest("--anubis", "--anubis-run-id=r").ret == 20
    said = anubis("judge", ".anubis/runs/r", "--baseline=baselines")
    assert (said.returncode, "1 UNDECIDED" in said.stdout) == (20, True), said
