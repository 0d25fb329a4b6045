"""The fixtures ``anubis_hosts`` and ``anubis_pairs``, for benchmarks of links between nodes.

Plans and attribution are in `pytest_anubis.fleet.links`, the hosts' processes in
`pytest_anubis.benchmarking.hosts`. `plugin` uses it.
"""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from pytest_anubis.codec import from_plain
from pytest_anubis.core.inventory import Nic
from pytest_anubis.core.measurement import WAY
from pytest_anubis.core.nominal_rate import NominalRate
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason, Reference
from pytest_anubis.fixture_types import PairsFixture
from pytest_anubis.session.collecting.benchmark_mark import BenchmarkMark, benchmark_mark
from pytest_anubis.session.collecting.device_parameters import benchmark_id
from pytest_anubis.session.context import context_key
from pytest_anubis.session.measuring.recorder import Recorder

if TYPE_CHECKING:
    from pytest_anubis.benchmarking.hosts.pair_group import Hosts, PairGroup, PairRates
    from pytest_anubis.fleet.links.attribution import Accusation
    from pytest_anubis.fleet.links.pair_plans import Round
    from pytest_anubis.fleet.links.retransmissions import ResendingPort

SECONDS = 0.1
"""Intended length of a transfer, about a thousand times its two confirmations on a healthy network."""

REPEATS = 3
"""Runs of the whole plan, so that one may be disturbed."""

ACTIVATIONS = 64 * 25_088 * 4
"""Bytes of a block: what the convolutions of a VGG-16 hand on, of 64 pictures in single precision."""

FAN_IN, FAN_OUT = "fan_in_rate", "fan_out_rate"

FAIRNESS = "fan_in_fairness"
"""Property of a test with how evenly the senders shared each host."""

RESENDING = "resending_ports"
"""Property of a test with the receiving ports to which TCP sent segments again."""

PORTS = "port_speeds"
"""Property of a test with the ports that are faster or slower than most."""

GB = 1e9


class Pairs:
    """The value of the fixture ``anubis_pairs``; `PairsFixture` explains the arguments.

    Args:
        properties: The test's properties, (name, value) pairs, to which findings are added.
    """

    def __init__(
        self,
        group: PairGroup,
        recorder: Recorder,
        mark: BenchmarkMark,
        benchmark: str,
        node: str,
        properties: list[tuple[str, object]] | None = None,
    ) -> None:
        self._group = group
        self._recorder = recorder
        self._mark = mark
        self._benchmark = benchmark
        self._node = node
        self._properties = properties if properties is not None else []
        self.names = group.names
        if group.differing_ports:
            self._properties.append((PORTS, _port_text(self.names, group.ports)))

    def __len__(self) -> int:
        return len(self.names)

    def measure(
        self,
        name: str = "pair_rate",
        *,
        rounds: Sequence[Round] | None = None,
        hops: Sequence[Sequence[int]] | None = None,
        good: Sequence[int] = (),
        seconds: float = SECONDS,
        repeats: int = REPEATS,
    ) -> tuple[str, ...]:
        """Measure the pairs of a plan, record the rate of each way, and name parts to blame for slow ones.

        Every way, such as ``node-a -> node-b``, is a unit with values of its own, recorded in the run of the
        sending host. The test fails if a part of this session's hosts is to blame. If another host is to
        blame for a slow way, the verdict on that way says so and fails nothing here.
        """
        from pytest_anubis.fleet.links.pair_plans import quick_scan, round_robin
        from pytest_anubis.fleet.links.retransmissions import resending_ports

        if rounds is None:
            count = len(self)
            rounds = quick_scan(count, good) if good else round_robin(count)
        with self._measuring():
            size = self._group.size_for(rounds, seconds)
            rates, found = self._group.find_guilty(
                rounds, size=size, repeats=repeats, hops=hops, good=good
            )
        resending = resending_ports(rates.resent)
        if resending:
            lines = [port.text(self.names) for port in resending]
            self._properties.append((RESENDING, "; ".join(lines)))
        self._record(name, rates, resending)
        for accusation in found:
            part = accusation.part
            if self._is_own(accusation):
                evidence = [port for port in resending if port.node in part.nodes]
                self._conclude(name, accusation, evidence)
            else:
                ways = [f"{self.names[a]}{WAY}{self.names[b]}" for a, b in part.ways(len(self))]
                self._excuse(ways, accusation)
        self._check(rates)
        return tuple(accusation.text(self.names) for accusation in found)

    def fan_in(self, *, size: int = ACTIVATIONS, repeats: int = REPEATS) -> tuple[str, ...]:
        """Measure every host with all others at once, in each direction, and name the slow ones.

        Every host is a unit with values of its own, recorded in its own run. The test fails if one of this
        session's hosts is slow. Where another host is so slow that these wait for it, their verdicts say so.
        """
        from pytest_anubis.fleet.links.fan_rates import fan_rates, slowed_by

        if len(self) < 3:
            pytest.skip("not applicable: two hosts; several that send to one take three")
        with self._measuring():
            rates, found = self._group.find_guilty_hosts(size=size, repeats=repeats)
        fans = fan_rates(rates.rates, rates.together)
        own = {host: self.names[host] for host in self._group.own}
        ports = self._group.ports
        for host, name in own.items():
            # A fan ends with its last block, so that the slowest of the others can limit it.
            least = min(port for other, port in enumerate(ports) if other != host)
            rating = self._nominal(host) if ports[host] <= (len(self) - 1) * least else None
            unit = self._recorder.of(name)
            for metric, table in ((FAN_IN, fans.receiving), (FAN_OUT, fans.sending)):
                values = (table[:, host] / GB).tolist()
                unit.record(metric, values, unit="GB/s", better="higher", nominal=rating)
        fairness = [f"{name} {fans.fairness[host]:.2f}" for host, name in own.items()]
        self._properties.append((FAIRNESS, ", ".join(fairness)))
        for accusation in found:
            if self._is_own(accusation):
                self._conclude(FAN_OUT if accusation.part.kind == "send" else FAN_IN, accusation)
            elif slowed_by(accusation, len(self)):
                self._excuse(own.values(), accusation)
        self._check(rates)
        return tuple(accusation.text(self.names) for accusation in found)

    @contextmanager
    def _measuring(self) -> Iterator[None]:
        """Count the time as measured; hosts that do not finish together skip the test."""
        from pytest_anubis.benchmarking.children import ChildError

        begin = time.perf_counter()
        try:
            yield
        except ChildError as error:  # it says nothing about this host
            pytest.skip(f"the hosts did not finish together: {error}")
        finally:
            self._recorder.busy += time.perf_counter() - begin

    def _record(self, name: str, rates: PairRates, resending: Sequence[ResendingPort]) -> None:
        lost = {port.node: [port.text(self.names)] for port in resending}
        for sender in self._group.own:
            for receiver in range(len(self)):
                values = [rate / GB for rate in rates.of(sender, receiver)]
                if values and not math.isnan(values[0]):
                    unit = f"{self.names[sender]}{WAY}{self.names[receiver]}"
                    self._recorder.of(unit).record(
                        name,
                        values,
                        unit="GB/s",
                        better="higher",
                        nominal=self._nominal(sender, receiver),
                        evidence=lost.get(receiver, ()),
                    )

    def _nominal(self, *hosts: int) -> NominalRate | None:
        """Return what the slowest port of some hosts carries; None if one is unknown, or too fast for TCP."""
        from pytest_anubis.hardware.nominal_rates import TCP

        ports = self._group.ports
        slowest = min(hosts, key=lambda host: ports[host])
        if not 0 < ports[slowest] <= TCP:
            return None
        owner = f"the port of {self.names[slowest]}" if self._group.differing_ports else "a port"
        of = f"{owner} ({_speed(ports[slowest])} Gbit/s)"
        return NominalRate(value=ports[slowest], of=of)

    def _check(self, rates: PairRates) -> None:
        """Fail if bytes arrived changed, and one of this session's hosts is to blame or may be."""
        own = set(self._group.own)
        changed = [
            f"{self.names[a]}{WAY}{self.names[b]}"
            for (a, b), ends in rates.changed().items()
            if own & ends
        ]
        if changed:
            pytest.fail(f"bytes arrived changed from {', '.join(changed)}", pytrace=False)

    def _is_own(self, accusation: Accusation) -> bool:
        """Return whether the part belongs to one of this session's hosts."""
        return bool(set(accusation.part.nodes) & set(self._group.own))

    def _excuse(self, units: Iterable[str], accusation: Accusation) -> None:
        """Let the verdicts on units say that another host's part is to blame if they are slow."""
        self._recorder.excuses.update(dict.fromkeys(units, accusation.text(self.names)))

    def _conclude(
        self, name: str, accusation: Accusation, resending: Sequence[ResendingPort] = ()
    ) -> None:
        """Add a verdict against a part of this session's hosts.

        On a host that was disturbed meanwhile the verdict is INCONCLUSIVE, because a sender whose core others
        use is slow even if its port is healthy.
        """
        text = accusation.text(self.names)
        own = [one for one in self._recorder.measurements if one.metric.name == name]
        disturbance = tuple(dict.fromkeys(line for one in own for line in one.disturbance))
        if disturbance:
            others = "; ".join(disturbance)
            text = f"{text}; but the machine was disturbed ({others}): measure again"
        verdict = MetricVerdict(
            outcome=Outcome.INCONCLUSIVE if disturbance else Outcome.FAIL,
            reason=Reason.DISTURBED if disturbance else Reason.BEYOND,
            text=text,
            disturbance=disturbance,
            evidence=tuple(port.text(self.names) for port in resending),
            benchmark=self._benchmark,
            metric=name,
            better="higher",
            component=self._mark.component,
            node=self._node,
            device=accusation.part.named(self.names),
            similarity=1 - max(accusation.losses),
            certainty=accusation.confidence,
            reference=Reference.PEERS,
            action=self._mark.action,
        )
        self._recorder.conclusions.append(verdict)


@pytest.fixture
def anubis_hosts(request: pytest.FixtureRequest) -> Hosts | None:
    """The hosts whose pairs are measured: those on which torchrun or Slurm started this session, or None.

    Override it to measure others, such as simulated ones
    (`pytest_anubis.benchmarking.hosts.simulated_hosts`).

    Example, in a conftest::

        @pytest.fixture
        def anubis_hosts():
            with SimulatedHosts(8, None) as hosts:
                yield hosts
    """
    from pytest_anubis.benchmarking.hosts.launched_hosts import HostsError, launched_hosts

    name = request.config.stash[context_key].node or platform.node()
    try:
        return launched_hosts(os.environ, name)
    except HostsError as error:
        pytest.skip(str(error))


@pytest.fixture
def anubis_pairs(
    request: pytest.FixtureRequest, anubis_hosts: Hosts | None, anubis_metric: Recorder
) -> Iterator[PairsFixture]:
    """Pairs of hosts: runs all pairs of a round at once, and names the parts to blame for slow ones.

    Example, started on every host by torchrun or srun::

        def test_links(anubis_pairs):
            anubis_pairs.measure(seconds=10, repeats=3)
    """
    if anubis_hosts is None or len(anubis_hosts) < 2:
        pytest.skip("not applicable: one host; torchrun or srun starts this session on several")
    import torch

    from pytest_anubis.benchmarking.children import ChildError
    from pytest_anubis.benchmarking.hosts.pair_group import PairGroup

    if not torch.distributed.is_available():
        pytest.skip("not applicable: this build of torch has no distributed package")
    port = _port_of(anubis_hosts, request.config.stash[context_key].inventory)
    with PairGroup(anubis_hosts, port=port) as group:
        try:
            group.join()
        except ChildError as error:
            pytest.skip(f"the {len(anubis_hosts)} hosts did not find each other: {error}")
        yield Pairs(
            group,
            anubis_metric,
            benchmark_mark(request.node),
            benchmark_id(request.node),
            request.config.stash[context_key].node,
            request.node.user_properties,
        )


def _port_of(hosts: Hosts, inventory: Mapping[str, Any]) -> float:
    """Return what the port between the hosts carries now, in bytes per second; 0 if unknown."""
    from pytest_anubis.hardware.nominal_rates import port_rate

    if not hosts.interface:
        return 0.0
    rate = port_rate((from_plain(Nic, one) for one in inventory.get("nics", ())), hosts.interface)
    return rate.value if rate else 0.0


def _port_text(names: Sequence[str], ports: Sequence[float]) -> str:
    """Return the speeds that few hosts have, such as ``n3's port: 10 Gbit/s, the others 25``."""
    usual = max(ports, key=ports.count)
    odd = [
        f"{name}'s port: {_speed(port)} Gbit/s"
        for name, port in zip(names, ports, strict=True)
        if port != usual
    ]
    return f"{', '.join(odd)}, the others {_speed(usual)}"


def _speed(port: float) -> str:
    return f"{port * 8 / GB:g}"
