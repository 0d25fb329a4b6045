"""Predict the kind of a node's next incident, and relate kinds to components.

`choice.coverage` weighs known defects by it: a benchmark counts for the kinds that a node tends to have.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache

from pytest_anubis.core.history import Incident

_STRENGTH = 4.0  # weight of the prior of a mix, in incidents
_PERSISTENCE = 0.5  # share of that prior that repeats the latest kind

# Words of operators for incidents and of authors for components, by the part of the node that both mean.
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


@lru_cache(maxsize=4096)  # called for every benchmark, and there are far fewer components
def relates(kind: str, component: str) -> bool:
    """Return whether an incident of a kind points to a component.

    It does if they share a word (``gpu-memory`` and ``accelerator.memory``), or if a word of each means
    the same part (``nic`` and ``network.loopback``).
    """
    left, right = _words(kind), _words(component)
    if left & right:
        return True
    return any(left & family and right & family for family in _FAMILIES.values())


def _name(incident: Incident) -> str:
    return incident.kind or incident.component


def kind_mixes(incidents: Iterable[Incident]) -> dict[str, Mapping[str, float]]:
    """Return node -> kind -> probability of its next incident; kinds are sorted, probabilities sum to 1.

    Repairs are often partial, so an incident tends to come back as the same kind. How often is learned: the
    shares of kinds among all incidents that followed one of the node's latest kind on the same node. The
    prior (Dirichlet, for the rows of a transition matrix) is `_STRENGTH` pseudo-incidents: the share
    `_PERSISTENCE` repeats the kind, the rest is distributed as in the whole fleet. Nodes of the same latest
    kind share a mix; a node without incidents has none.
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
    mixes = {kind: _mix(kind, follows[kind], overall) for kind in set(latest.values())}
    return {name: mixes[kind] for name, kind in latest.items()}


def _mix(latest: str, follows: Counter[str], overall: Counter[str]) -> Mapping[str, float]:
    total, count = follows.total() + _STRENGTH, overall.total()
    return {
        kind: (
            follows[kind]
            + _STRENGTH
            * (_PERSISTENCE * (kind == latest) + (1 - _PERSISTENCE) * overall[kind] / count)
        )
        / total
        for kind in sorted(overall)
    }
