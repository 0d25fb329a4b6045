"""Ranks: processes on this machine that are connected by torch's collectives and answer round by round.

The parent starts them and asks all at once; whoever is gone is named, not the one that waits for it. A rank's
module ends in `serve`.
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

from pytest_anubis.benchmarking.children import Child, ChildError, Group, Handler, Message, answer
from pytest_anubis.benchmarking.placement import stay_near, synchronize, usable_cores

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
"""Variables of NCCL and RCCL that choose another way than the library's own, so that something else is
measured. What a site needs to be connected at all (interfaces, adapters, plugins, topology) is not one."""

START = 120.0
"""Seconds that the ranks have to import torch and find each other."""

TIMEOUT = 60.0
"""Seconds after which a rank gives up on the others."""

ROUND = 90.0
"""Seconds that one request may take: longer than a rank waits for the others (`TIMEOUT`), so that a rank can
say who is missing."""

SETTLE = 2.0
"""Seconds for which the other ranks are listened to when one has failed: the first to complain of a dead rank
may be a neighbour that was waiting for it."""


def drop_nccl_choices() -> tuple[str, ...]:
    """Take the variables out of this process and its children; return those that were set.

    What a benchmark itself chooses it gives its ranks as their `environment`.
    """
    return tuple(name for name in NCCL_CHOICES if os.environ.pop(name, None) is not None)


class Ranks(Group):
    """Connected processes; a context manager that ends all of them.

    Args:
        module: Dotted name of what a rank runs: a module whose main is `serve`.
        world: How many ranks.
        backend: torch's word: ``gloo`` on CPUs, ``nccl`` with one accelerator for each rank.
        threads: Threads that each rank computes with.
        arguments: What follows on the command line of each.
        environment: Variables to set besides those of this process.
        within: For each rank what stands before its command (`ShapedLink.command`); empty for none.

    Attributes:
        world: How many ranks there are.
        failed: A request to all has failed, so that nobody knows what they still wait for.
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
            # gloo would look up the host's name, which many containers cannot.
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
        """Let all ranks give back their memory: others measure before they are asked again.

        Needs a handler ``rest``.

        Raises:
            ChildError: A rank failed or took too long.
        """
        __tracebackhide__ = True
        self.ask_all("rest", timeout=START)

    def ask_all(
        self, do: str, *, timeout: float | None = None, **arguments: object
    ) -> list[Message]:
        """Ask all ranks the same (`Group.ask_all`); whether that ever failed is remembered."""
        __tracebackhide__ = True
        try:
            return super().ask_all(do, timeout=timeout, **arguments)
        except ChildError:
            self.failed = True
            raise


class NodeRanks(Ranks):
    """Ranks on all devices of this node. For subclasses, which name the module that their ranks run.

    Args:
        accelerators: How many this machine has. With two or more there is one rank on each, and NCCL; else
            there are two ranks on the CPU, and gloo over the loopback interface.
        cores: CPUs that this process may use, shared among the ranks.
        module: What is run in place of the subclass's own; tests put in one that is slow or faulty.
        environment: As of `Ranks`.
        within: As of `Ranks`.

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
        environment: Mapping[str, str] | None = None,
        within: Sequence[Sequence[str]] = (),
    ) -> None:
        self.on_accelerators = accelerators >= 2
        world = accelerators if self.on_accelerators else 2
        super().__init__(
            module or self.module,
            world,
            backend="nccl" if self.on_accelerators else "gloo",
            threads=max(1, cores // world),
            environment=environment,
            within=within,
        )


@contextmanager
def lasting(start: Callable[[int, int], R]) -> Iterator[R]:
    """Connect ranks that many tests are to share; where they do not connect, `sharing` lets each say why.

    Args:
        start: Starts them; takes how many accelerators there are, and how many CPUs this process may use.
    """
    import torch

    with start(torch.cuda.device_count(), usable_cores()) as ranks:
        with suppress(ChildError):
            ranks.join()
        yield ranks


@contextmanager
def sharing(shared: R, start: Callable[[], R]) -> Iterator[R]:
    """Give ranks that several tests share; some of this test's own where a request to those has failed.

    To start ranks takes longer than many a test measures: each of them loads torch and finds the others.

    Args:
        shared: Started by a fixture of a wider scope; they rest when the block has ended.
        start: Starts ranks of the same kind.

    Raises:
        ChildError: The test's own failed or took too long.
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
    """Return the seconds of one of so many calls, begun on all ranks together: a rank's side."""
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

    With NCCL the rank takes the accelerator of its number and stays on the CPUs near it.

    Args:
        arguments: What is on the command line (``sys.argv[1:]``).
        make: Takes the rank's number, how many there are, its device and the arguments of its own, and
            returns what requests name; ``join`` is answered here.
    """
    import torch
    import torch.distributed as dist

    descriptor, number, world, backend, store, threads, *own = arguments
    device = torch.device("cpu")
    if backend == "nccl":
        device = torch.device("cuda", int(number))
        stay_near(torch.cuda.get_device_properties(device))  # before anything has threads
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
