"""Which kind of trouble a node is likely to have next, and which components that points to."""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache

from pytest_anubis.core.history import Incident

# Words that operators use for incidents and authors for components, by the part that both mean.
_FAMILIES: dict[str, frozenset[str]] = {
    "network": frozenset(
        {"nic", "hca", "ib", "infiniband", "rdma", "roce", "ethernet", "network", "optics", "cable"}
        | {"transceiver", "switch", "port", "collective"}
    ),
    "storage": frozenset({"disk", "ssd", "nvme", "storage", "filesystem", "drive"}),
    "accelerator": frozenset({"gpu", "accelerator", "xid", "nvlink", "hbm", "compute", "training"}),
    "memory": frozenset({"memory", "dram", "dimm", "ecc", "numa"}),
    "processor": frozenset({"cpu", "socket", "processor", "core"}),
    "cooling": frozenset({"cooling", "fan", "thermal", "temperature", "overheat"}),
}


def _words(text: str) -> frozenset[str]:
    """Return the lower-case words of a kind or a component."""
    return frozenset(word for word in re.split(r"[^a-z0-9]+", text.lower()) if word)


@lru_cache(maxsize=4096)  # asked for every benchmark, and there are far fewer components
def relates(kind: str, component: str) -> bool:
    """Return whether an incident of a kind points to a component.

    They are related when they share a word (``gpu-memory`` and ``accelerator.memory``), or when a
    word of each means the same part (``nic`` and ``network.loopback``).
    """
    left, right = _words(kind), _words(component)
    if left & right:
        return True
    return any(left & family and right & family for family in _FAMILIES.values())


def _name(incident: Incident) -> str:
    return incident.kind or incident.component


def kind_mix(
    incidents: Iterable[Incident],
    node: str,
    *,
    strength: float = 4.0,
    persistence: float = 0.5,
) -> Mapping[str, float]:
    """Return how likely each kind is to be a node's next incident.

    Repairs are often partial, so that an incident tends to come back as the same kind. How much is
    learned: of all incidents that followed one of the same kind on the same node, the share of each
    kind, with `strength` pseudo-incidents of which the share `persistence` repeats the kind and the
    rest falls as in the whole fleet (a Dirichlet prior for the rows of a transition matrix).

    Args:
        incidents: Incidents of the fleet, in any order.
        node: The node that is asked about.
        strength: Weight of the prior, in incidents; positive.
        persistence: Share of the prior that repeats the latest kind.

    Returns:
        Kind -> probability, sorted by kind, summing to 1; empty when the node has had no incident,
        which leaves the whole fleet's mix of defects as it is.
    """
    return kind_mixes(incidents, strength=strength, persistence=persistence).get(node, {})


def kind_mixes(
    incidents: Iterable[Incident], *, strength: float = 4.0, persistence: float = 0.5
) -> dict[str, Mapping[str, float]]:
    """Return `kind_mix` of every node that had an incident, in one pass over them.

    A mix depends on nothing but the node's latest kind, so there are as many as kinds.
    """
    histories: dict[str, list[Incident]] = defaultdict(list)
    for incident in incidents:
        if _name(incident):
            histories[incident.node].append(incident)
    overall: Counter[str] = Counter()
    follows: dict[str, Counter[str]] = defaultdict(Counter)
    latest: dict[str, str] = {}
    for name, history in histories.items():
        history.sort(key=lambda incident: (incident.started, incident.number, incident.kind))
        sequence = [_name(incident) for incident in history]
        latest[name] = sequence[-1]
        overall.update(sequence)
        for before, after in itertools.pairwise(sequence):
            follows[before][after] += 1
    mixes = {
        kind: _mix(kind, follows[kind], overall, strength, persistence)
        for kind in set(latest.values())
    }
    return {name: mixes[kind] for name, kind in latest.items()}


def _mix(
    latest: str,
    follows: Counter[str],
    overall: Counter[str],
    strength: float,
    persistence: float,
) -> Mapping[str, float]:
    total, count = follows.total() + strength, overall.total()
    return {
        kind: (
            follows[kind]
            + strength
            * (persistence * (kind == latest) + (1 - persistence) * overall[kind] / count)
        )
        / total
        for kind in sorted(overall)
    }
