"""The fixtures ``anubis_metric``, ``anubis_device``, ``anubis_pair`` and ``anubis_node``, for benchmarks.

Those for links between nodes are in `pair_fixtures`. `plugin` uses it.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from pytest_anubis.benchmarking.sizes import keep_freed_memory
from pytest_anubis.codec import from_plain
from pytest_anubis.core.inventory import Accelerator, Nic
from pytest_anubis.core.nominal_rate import NominalRate
from pytest_anubis.fixture_types import DeviceFixture, MetricFixture, NodeFixture, PairFixture
from pytest_anubis.session.collecting.benchmark_mark import benchmark_mark, timeout_mark
from pytest_anubis.session.collecting.device_parameters import (
    benchmark_id,
    device_named,
    device_of,
    pair_named,
    unit_named,
)
from pytest_anubis.session.context import (
    MetricUsageError,
    context_key,
    discard,
    sink_key,
    time_left,
)
from pytest_anubis.session.measuring.attempts import TimeLimit
from pytest_anubis.session.measuring.conditions import conditions_watch
from pytest_anubis.session.measuring.recorder import Recorder, earlier_key, recorder_key, visit_key
from pytest_anubis.store.scratch_folders import ScratchFolder

if TYPE_CHECKING:
    from pytest_anubis.hardware.load.ambient_load import AmbientLoad

T = TypeVar("T")

_ambient_key = pytest.StashKey["AmbientLoad"]()


def _ambient(config: pytest.Config) -> AmbientLoad | None:
    """Return this process's readings of the host's load, made at first use; None without ``--anubis``."""
    context = config.stash[context_key]
    if not context.settings.active:
        return None
    if _ambient_key not in config.stash:
        from pytest_anubis.hardware.load.ambient_load import AmbientLoad

        config.stash[_ambient_key] = AmbientLoad(
            context.root_pid,
            limits=context.settings.quiet_limits,
            allowed=context.settings.allowed_processes,
        )
    return config.stash[_ambient_key]


def _time_limit(timeout: float | None, item: pytest.Item) -> TimeLimit:
    """Return the end of a test's measuring time: its deadline, or the end of the run's budget."""
    left = time_left(item.config)
    own = timeout or timeout_mark(item)
    return TimeLimit(own if left == math.inf else min(left, own or left))


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The node that the test runs on."""

    name: str  # its name
    profile: str  # ``smoke``, ``standard`` or ``soak``
    scratch: Path  # an empty folder of this test; ``--anubis-scratch`` chooses the disk
    # The node's inventory, as plain data
    inventory: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def cores(self) -> int:
        """How many CPUs this process may use, those of its control group's quota at most."""
        from pytest_anubis.hardware.cgroup import usable_threads

        return usable_threads()

    def nominal(self, link: str = "port", name: str = "") -> NominalRate | None:
        """Return what a link of the node carries one way at best, bytes per second; None if unknown.

        Args:
            link: ``port`` for a network port, ``nvlink`` for the card with the slowest NVLinks, or
                ``adapters`` for a card's share of the RDMA adapters.
            name: Name of the port, such as ``eth0`` or ``mlx5_0/1``; empty: the fastest one.
        """
        from pytest_anubis.hardware.nominal_rates import (
            adapters_rate,
            port_rate,
            slowest_nvlink_rate,
        )

        if link not in ("port", "nvlink", "adapters"):
            raise MetricUsageError(f"link={link!r}: say 'port', 'nvlink' or 'adapters'")
        cards = [from_plain(Accelerator, one) for one in self.inventory.get("accelerators", ())]
        if link == "nvlink":
            return slowest_nvlink_rate(cards)
        ports = [from_plain(Nic, one) for one in self.inventory.get("nics", ())]
        return adapters_rate(ports, cards) if link == "adapters" else port_rate(ports, name)

    def pick(self, *, smoke: T, standard: T, soak: T) -> T:
        """Return the size or duration for this run's profile."""
        return {"smoke": smoke, "standard": standard, "soak": soak}[self.profile]


@pytest.fixture
def anubis_device(request: pytest.FixtureRequest) -> DeviceFixture:
    """The device to run on: one test for every accelerator, or for the CPU when there is none.

    With ``host=True`` in the test's mark there is one for the CPU on every node.

    Example::

        def test_fill(anubis_metric, anubis_device):
            buffer = torch.empty(1 << 26, device=anubis_device.torch)
            anubis_metric.measure("fill_time", buffer.zero_, unit="us", better="lower")

    Pass ``anubis_device.index`` or ``anubis_device.pci`` to a vendor's tool to select the card.
    """
    return device_named(request.config, request.param)


@pytest.fixture
def anubis_pair(request: pytest.FixtureRequest) -> PairFixture:
    """The way from one accelerator to another: one test for every ordered pair of this node's.

    Example, whose mark says ``scope="pair"``::

        def test_peer(anubis_metric, anubis_pair):
            source = torch.zeros(1 << 26, dtype=torch.uint8, device=anubis_pair.source.torch)
            target = torch.empty_like(source, device=anubis_pair.target.torch)
            copy = lambda: target.copy_(source)
            anubis_metric.measure("peer_rate", copy, work=1 << 26, unit="GB/s", better="higher")
    """
    return pair_named(request.config, request.param)


@pytest.fixture
def anubis_node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NodeFixture]:
    """The node: its name, the profile, usable cores, and a scratch folder of this test.

    Example::

        def test_write(anubis_metric, anubis_node):
            data = bytes(anubis_node.pick(smoke=1 << 24, standard=1 << 28, soak=1 << 30))
            write = lambda: (anubis_node.scratch / "file").write_bytes(data)
            anubis_metric.measure("write_rate", write, work=len(data), unit="GB/s", better="higher")
    """
    context = request.config.stash[context_key]
    chosen = context.settings.scratch
    with ExitStack() as stack:
        scratch = tmp_path
        if chosen is not None:
            scratch = stack.enter_context(ScratchFolder(chosen)).path
        yield Node(
            name=context.node or platform.node(),
            profile=context.settings.profile,
            scratch=scratch,
            inventory=context.inventory,
        )


@pytest.fixture
def anubis_metric(request: pytest.FixtureRequest) -> MetricFixture:
    """Record metrics: measure() times a callable, collect() repeats one, record() takes values.

    Example::

        @pytest.mark.anubis(component="host.compute", goal="full speed", question="How fast is a sum?")
        def test_sum(anubis_metric):
            anubis_metric.measure("sum_time", lambda: sum(range(10**6)), unit="ms", better="lower")
            anubis_metric.collect("tool_rate", run_the_tool, unit="GB/s", better="higher")
            anubis_metric.record("errors", count_errors(), unit="count", better="equal")
    """
    item = request.node
    config = request.config
    keep_freed_memory()  # for all alike, else times depend on what ran before in this process
    recorder = Recorder(
        test=item.nodeid,
        benchmark=benchmark_id(item),
        mark=benchmark_mark(item),
        device=unit_named(config, device_of(item)),
        context=config.stash[context_key],
        sink=config.stash.get(sink_key, discard),
        ambient=_ambient(config),
        watch=conditions_watch(config),
        time_limit=_time_limit(config.stash[context_key].settings.timeout, item),
        earlier=item.stash.get(earlier_key, None),
        visit=item.stash.get(visit_key, None),
    )
    item.stash[recorder_key] = recorder
    return recorder
