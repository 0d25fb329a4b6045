"""Recognises errors of a test that its environment causes and not the hardware; used by `call_phase`.

By default a test's error counts against the hardware, so that no sick node passes. This table lists the
errors that healthy cards give as well, because of a driver, a service, a container or a library. A test with
such an error is INCONCLUSIVE, which accepts nothing either, and its message says what to mend. Errors that
the hardware reports take precedence, and a failed check of the test itself is always a failure.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

# Messages of the drivers about a fault of the card: CUDA runtime errors 214 (ECC), 220 (NVLink), 714 and 719
# (stack, launch failure), HIP's of the same names, NVML's codes 15 and 16.
_HARDWARE = re.compile(
    r"uncorrectable ecc|uncorrectable nvlink|hardware stack error|unspecified launch failure|"
    r"illegal (memory access|address|instruction)|misaligned address|memory access fault by gpu|"
    r"gpu is lost|fallen off the bus|gpu requires (reset|restart)|contained error|\bxid\b",
    re.IGNORECASE,
)


_OF_A_FILE = re.compile(r"TraceError|CannotReplayError")
"""Errors of ours that quote a trace file: their text may contain words of the hardware's by chance."""


# Pattern of the messages (case does not matter), what prevents the test, what to do about it. The first match
# counts, so more specific patterns come first. Messages are those of torch, the CUDA runtime (error numbers
# in comments), HIP, NCCL and the operating system.
CAUSES = (
    # torch/cuda/__init__.py; torch's builds are made for one vendor, or for none.
    (
        r"not compiled with (cuda|rocm|hip|xpu)|not linked with support for (cuda|hip)",
        "this build of torch does not support the accelerator",
        "install torch's build for CUDA or ROCm",
    ),
    # cudaErrorSystemNotReady (802): NVSwitch systems without a running fabric manager (pytorch#35710).
    (
        r"system not yet initialized|error[: ]*802|SYSTEM_?NOT_?READY",
        "the NVSwitch fabric is not set up",
        "start the fabric manager of the driver's own version (systemctl start nvidia-fabricmanager)",
    ),
    # 803, 804, 35; torch/cuda/__init__.py for the old driver.
    (
        r"unsupported display driver|driver/library version mismatch|forward compatibility was attempted|"
        r"driver version is insufficient|driver on your system is too old|version_?mismatch",
        "the driver does not fit the libraries",
        "update the driver, or install torch for the CUDA version that the driver supports; after an update "
        "of the driver, reboot",
    ),
    (
        r"found no nvidia driver|libcuda\.so|libamdhip64\.so|unable to open /dev/kfd|"
        r"driver initialization failed",
        "the driver cannot be reached",
        "load it; in a container pass the cards in (--gpus all; --device /dev/kfd --device /dev/dri)",
    ),
    # 209, 98 (hipErrorInvalidDeviceFunction), 222, 300: the build has no code for this card's architecture.
    (
        r"no kernel image|invalid device function|NoBinaryForGpu|unsupported toolchain|"
        r"kernel image is invalid|not compatible with the current pytorch",
        "this build of torch has no code for this card",
        "install a build of torch for the card's architecture",
    ),
    # 46: another process holds a card in exclusive-process mode, or the mode forbids all.
    (
        r"devices?(\(s\))? (is/)?are busy or unavailable|devicesunavailable",
        "another process holds the card, or its compute mode forbids its use",
        "end the other program (nvidia-smi shows it), or set nvidia-smi -c DEFAULT",
    ),
    # Ours (session/collecting/device_parameters.py): management library and run-time count differently.
    (
        r"^WrongCardError",
        "the process sees another card than the one to test",
        "leave out HIP_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES and CUDA_VISIBLE_DEVICES, and update amdsmi",
    ),
    # Ours (tool_outputs/unreadable.py), whatever text of the tool the message quotes.
    (
        r"^UnreadableOutput",
        "the output of a tool is not what its adapter knows",
        "use the version of the tool that the adapter was written for, or mend the adapter",
    ),
    # Ours (tool_outputs/refusals.py), whatever text of the tool the message quotes.
    (
        r"^ToolRefused",
        "a tool did not begin: it does not know an option, or lacks slots, memory or space",
        "use the version of the tool that the adapter was written for, or give it what it says it lacks",
    ),
    # Ours (traces/trace_reading.py).
    (
        r"^TraceError",
        "the file is no execution trace that can be read",
        "record it anew (anubis trace record)",
    ),
    # Ours (benchmarking/replay/operation_calls.py), whatever text of torch the message quotes.
    (
        r"^CannotReplayError",
        "the trace cannot be replayed here",
        "change the part of the job that is named and record it anew, or leave the trace out "
        "(anubis trace info shows both)",
    ),
    # nv-hostengine, which dcgmi asks.
    (
        r"unable to (establish a connection|connect to host engine)|connection is not valid",
        "DCGM's service cannot be reached",
        "start it (systemctl start nvidia-dcgm)",
    ),
    # 100, 101: nothing is visible to this process. Two ranks on one card: NCCL says "Duplicate GPU".
    (
        r"no (cuda|hip) gpus are available|no (cuda|rocm)-capable device|invalid device ordinal|"
        r"duplicate gpu detected",
        "the process does not see the card that it was to use",
        "look at CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES, and MIG (nvidia-smi -L)",
    ),
    # Docker gives /dev/shm 64 MiB; NCCL exchanges data through it (nccl#290, #342), so do torch's loaders.
    (
        r"/dev/shm|shared memory segment|insufficient shared memory|"  # noqa: S108 - words, no file
        r"unable to (mmap|allocate|open) shared memory",
        "/dev/shm is too small",  # noqa: S108
        "make it larger: docker run --shm-size=1g or --ipc=host; in Kubernetes a Memory emptyDir there",
    ),
    # Ours (benchmarking/sizes.py): less memory is free than the benchmark takes on cards of the class.
    (
        r"MemoryTakenError",
        "something else has the card's memory",
        "end what else uses the card (nvidia-smi shows it), and test again",
    ),
    (
        r"(cuda|hip) out of memory|(cuda|hip) error: out of memory|OutOfMemoryError|ErrorOutOfMemory|"
        r"ErrorMemoryAllocation|STATUS_ALLOC_FAILED|cuda failure (2\b|'out of memory')",
        "the card's memory did not suffice",
        "end what else uses the card (nvidia-smi shows it), or choose a smaller profile",
    ),
    (
        r"^MemoryError|DefaultCPUAllocator|cannot allocate memory|errno 12\b",
        "main memory did not suffice",
        "free some, or raise the container's limit",
    ),
    # ncclSystemError: a call of the operating system failed. Other errors of NCCL stay failures.
    (
        r"ncclSystemError|unhandled system error|no socket interface found",
        "NCCL was refused something by the operating system",
        "run again with NCCL_DEBUG=WARN to see what: /dev/shm, a network interface, a limit of locked memory",
    ),
    (
        r"address already in use|errno 98\b",
        "a network port is taken",
        "end the program that listens there, and test again",
    ),
    (
        r"no space left on device|errno 28\b|disk quota exceeded|errno 122\b",
        "a file system is full",
        "free some space",
    ),
    (
        r"too many open files|errno 24\b|resource temporarily unavailable|can't start new thread",
        "a limit of processes, threads or open files was reached",
        "raise it (ulimit -n, ulimit -u, the container's pids limit)",
    ),
    # cudaErrorStreamCapture... (900, 904 to 907). Not 901, which hides an error that came before.
    (
        r"when stream is capturing|in a capturing stream|on a capturing (blocking )?stream|uncaptured work|"
        r"StreamCapture(Unsupported|Isolation|Implicit|WrongThread)|ErrorCapturedEvent",
        "the test did something that CUDA forbids while a graph is captured",
        "leave it out of the capture (what waits for the device, or allocates), or run without a graph",
    ),
    (
        r"permission denied|permissionerror|operation not permitted|insufficient permissions",
        "the user who runs the test may not do what it does",
        "give the permission, such as the groups render and video",
    ),
    (
        r"^(ModuleNotFoundError|ImportError)\b|cannot open shared object file",
        "a library is missing",
        "install it",
    ),
    # Not files by which the kernel shows hardware: if one is missing, the device may be gone.
    (
        r"^FileNotFoundError(?!.*'/(dev|sys|proc)/)",
        "a program or file is missing",
        "install it, or put it where the test looks for it",
    ),
    (
        r"^ConnectionRefusedError|errno 111\b",
        "a service does not listen",
        "start it, and test again",
    ),
)  # fmt: skip


# Errors of libraries that lack memory for their handle; libraries on a sick card give them too.
_NO_HANDLE = re.compile(
    r"(cublas|cusolver|cusparse|cudnn|hipblas|rocblas|miopen)\w*_STATUS_NOT_INITIALIZED",
    re.IGNORECASE,
)

MIN_FREE_BYTES = 1 << 29
"""Free memory of a card below which a library may lack room for its handle and workspace: cuBLAS takes about
100 MiB with its kernels, cuDNN and the context of a first call several times as much."""


def free_memory() -> int | None:
    """Return the free bytes of this process's card; None if it uses none or the driver does not answer."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    try:
        return int(torch.cuda.mem_get_info()[0]) if torch.cuda.is_initialized() else None
    except Exception:  # after a fault of the card every call fails
        return None


def text_of(error: BaseException) -> str:
    """Return an error's text; empty if its class fails to make one."""
    try:
        return str(error)
    except Exception:  # any error of a test's own class
        return ""


def environment_of(
    error: BaseException,
    *,
    own_check: bool = False,
    free: Callable[[], int | None] = free_memory,
) -> str:
    """Return what in the environment caused a test's error, and what to do about it.

    Args:
        error: The test's error.
        own_check: The error is a failed check of the test: an assertion, ``pytest.fail``, a verdict.
        free: Returns the free bytes of the card; called only if the answer matters.

    Returns:
        One sentence; empty for a failed check, a fault of the hardware, and every unknown error.
    """
    notes = getattr(error, "__notes__", ())
    message = "\n".join((f"{type(error).__name__}: {text_of(error)}", *notes))
    if _HARDWARE.search(message) and not _OF_A_FILE.match(message):
        return ""
    if isinstance(error, Warning) and not own_check:
        return (
            "a library's warning was raised as an error; let warnings be warnings: pytest's filterwarnings, "
            "-W and PYTHONWARNINGS"
        )
    # Torch asserts that it can use the card: the only assertion that is no check of the test itself.
    known = CAUSES[:1] if own_check or isinstance(error, AssertionError) else CAUSES
    for words, cause, fix in known:
        if re.search(words, message, re.IGNORECASE):
            return f"{cause}; {fix}"
    if not own_check and _NO_HANDLE.search(message):
        left = free()
        if left is not None and left < MIN_FREE_BYTES:
            return (
                f"a library found no room on the card, of which {left >> 20} MiB are free; end what else "
                "uses it (nvidia-smi shows it), or choose a smaller profile"
            )
    return ""
