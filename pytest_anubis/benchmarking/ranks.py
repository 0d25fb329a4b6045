"""Run ranks: processes on this machine that torch's collectives connect and that answer round by round.

The parent starts them and sends requests to all at once. If one is gone, the error names it, and not the
ranks that wait for it. A rank's module ends in `serve`. Processes on several hosts are in `hosts`.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

from pytest_anubis.benchmarking.children import (
    Child,
    ChildError,
    Group,
    Handler,
    Message,
    answer,
    end_with_parent,
)
from pytest_anubis.benchmarking.placement import stay_near, synchronize
from pytest_anubis.hardware.cgroup import usable_threads

if TYPE_CHECKING:
    import torch

R = TypeVar("R", bound="Ranks")

NCCL_CHOICES = tuple(
    f"NCCL_{name}"
    for name in (
        "ALGO", "PROTO", "P2P_DISABLE", "P2P_LEVEL", "P2P_DIRECT_DISABLE", "SHM_DISABLE", "NVLS_ENABLE",
        "NET_GDR_LEVEL", "NET_GDR_READ", "IB_DISABLE", "NTHREADS", "BUFFSIZE", "MIN_NCHANNELS",
        "MAX_NCHANNELS", "MIN_CTAS", "MAX_CTAS", "CROSS_NIC", "NVLSTREE_MAX_CHUNKSIZE",
    )
)  # fmt: skip
"""Variables that replace NCCL's or RCCL's own choices, so that something else would be measured. Variables
that a site needs for any connection (interfaces, adapters, plugins, topology) are not included."""

START = 120.0
"""Seconds that the ranks have to import torch and connect."""

TIMEOUT = 60.0
"""Seconds after which a rank gives up on the others."""

ROUND = 90.0
"""Seconds that one request may take: longer than a rank waits for the others (`TIMEOUT`), so that a rank can
report which one is missing."""

SETTLE = 2.0
"""Seconds to wait for further failures after the first one, which may come from a rank that was waiting for a
dead one."""


def drop_nccl_choices() -> tuple[str, ...]:
    """Remove `NCCL_CHOICES` from the environment of this process; return those that were set.

    A benchmark that needs a choice of its own passes it to its ranks as `environment`.
    """
    return tuple(name for name in NCCL_CHOICES if os.environ.pop(name, None) is not None)


class Ranks(Group):
    """Connected processes; a context manager that ends all of them.

    Args:
        module: Dotted name of a rank's module, whose main is `serve`.
        world: Number of ranks.
        backend: torch's name: ``gloo`` on CPUs, ``nccl`` with one accelerator for each rank.
        threads: Number of threads in which each rank computes.
        arguments: Further arguments on the command line of each.
        environment: Variables to set in addition to those of this process.
        within: Prefix of each rank's command (`ShapedLink.command`); empty for none.

    Attributes:
        world: Number of ranks.
        failed: A request to all has failed, so the state of the ranks is unknown.
    """

    def __init__(
        self,
        module: str,
        world: int,
        *,
        backend: str = "gloo",
        threads: int = 1,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        within: Sequence[Sequence[str]] = (),
    ) -> None:
        super().__init__(timeout=ROUND, settle=SETTLE)
        self.world = world
        self.failed = False
        with self._starting():
            folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="anubis-ranks-"))
            store = str(Path(folder) / "store")
            common = [str(world), backend, store, str(threads), *arguments]
            # gloo would resolve the host's name, which fails in many containers.
            variables = {"GLOO_SOCKET_IFNAME": "lo", **(environment or {})}
            for number in range(world):
                self._start(
                    Child(
                        module,
                        [str(number), *common],
                        name=f"rank {number}",
                        environment=variables,
                        within=within[number] if within else (),
                    )
                )

    def join(self) -> None:
        """Wait until every rank has loaded torch and is connected to the others.

        Raises:
            ChildError: A rank failed or took too long.
        """
        __tracebackhide__ = True
        self.ask_all("join", timeout=START)

    def rest(self) -> None:
        """Let all ranks release their memory while others measure; needs a handler ``rest``.

        Raises:
            ChildError: A rank failed or took too long.
        """
        __tracebackhide__ = True
        self.ask_all("rest", timeout=START)

    def ask_all(
        self, do: str, *, timeout: float | None = None, **arguments: object
    ) -> list[Message]:
        """Send all ranks the same request (`Group.ask_all`) and remember a failure in `failed`."""
        __tracebackhide__ = True
        try:
            return super().ask_all(do, timeout=timeout, **arguments)
        except ChildError:
            self.failed = True
            raise


class NodeRanks(Ranks):
    """Base class for ranks on all devices of this node; a subclass names the module of its ranks.

    Args:
        accelerators: Number of this machine's accelerators. With two or more there is one rank on each, with
            NCCL; else there are ranks on the CPU, with gloo over the loopback interface.
        cores: Number of CPUs that this process may use, which the ranks share.
        module: Module to run in place of the subclass's; tests use a slow or faulty one.
        on_cpu: Number of ranks where there are fewer than two accelerators.
        environment: As for `Ranks`.
        within: As for `Ranks`.

    Attributes:
        on_accelerators: There is one rank on each accelerator.
    """

    module: ClassVar[str]

    def __init__(
        self,
        accelerators: int,
        cores: int,
        *,
        module: str = "",
        on_cpu: int = 2,
        environment: Mapping[str, str] | None = None,
        within: Sequence[Sequence[str]] = (),
    ) -> None:
        self.on_accelerators = accelerators >= 2
        world = accelerators if self.on_accelerators else on_cpu
        super().__init__(
            module or self.module,
            world,
            backend="nccl" if self.on_accelerators else "gloo",
            threads=max(1, cores // world),
            environment=environment,
            within=within,
        )

    def name_of(self, rank: int) -> str:
        """Return the name of a rank: that of its accelerator, if it has one."""
        return f"cuda:{rank}" if self.on_accelerators else f"rank {rank}"


@contextmanager
def lasting(start: Callable[[int, int], R]) -> Iterator[R]:
    """Start and connect ranks that many tests share; if that fails, `sharing` makes each test report why.

    Args:
        start: Starts them; takes the numbers of accelerators and of CPUs that this process may use.
    """
    import torch

    with start(torch.cuda.device_count(), usable_threads()) as ranks:
        with suppress(ChildError):
            ranks.join()
        yield ranks


@contextmanager
def sharing(shared: R, start: Callable[[], R]) -> Iterator[R]:
    """Yield the ranks that several tests share, or new ones if a request to the shared ranks has failed.

    Ranks are shared because starting them, with loading torch and connecting, takes longer than many tests.

    Args:
        shared: Ranks of a fixture of a wider scope; they rest at the end of the block.
        start: Starts ranks of the same kind.

    Raises:
        ChildError: The new ranks failed or took too long.
    """
    if shared.failed or any(rank.gone or rank.late for rank in shared.processes):
        with start() as own:
            own.join()
            yield own
        return
    yield shared
    with suppress(ChildError):  # the next test starts its own
        shared.rest()


def timed(work: Callable[[], object], device: torch.device, times: int = 1) -> float:
    """Return the mean seconds of one of `times` calls that all ranks begin together: a rank's side."""
    import torch.distributed as dist

    synchronize(device)
    dist.barrier()
    synchronize(device)
    begin = time.perf_counter()
    for _ in range(times):
        work()
    synchronize(device)
    return (time.perf_counter() - begin) / times


def serve(
    arguments: Sequence[str],
    make: Callable[[int, int, torch.device, Sequence[str]], Mapping[str, Handler]],
) -> None:
    """Join the group and answer until the parent closes the socket: a rank's side.

    With NCCL the rank uses the accelerator of its own number and the CPUs near it.

    Args:
        arguments: The command line (``sys.argv[1:]``).
        make: Takes the rank's number, the number of ranks, the device and the rank's further arguments, and
            returns handlers by the names in requests; ``join`` is answered here.
    """
    import torch
    import torch.distributed as dist

    descriptor, number, world, backend, store, threads, *own = arguments
    end_with_parent(int(descriptor))
    device = torch.device("cpu")
    if backend == "nccl":
        device = torch.device("cuda", int(number))
        stay_near(torch.cuda.get_device_properties(device))  # before any threads start
        torch.cuda.set_device(device)
    torch.set_num_threads(int(threads))
    dist.init_process_group(
        backend,
        init_method=f"file://{store}",
        rank=int(number),
        world_size=int(world),
        timeout=timedelta(seconds=TIMEOUT),
        device_id=device if backend == "nccl" else None,
    )

    def join(_request: Message) -> Message:
        dist.barrier()  # the first message of a group connects its ranks
        return {}

    try:
        handlers = make(int(number), int(world), device, own)
        answer(int(descriptor), {"join": join, **handlers})
    finally:
        dist.destroy_process_group()
