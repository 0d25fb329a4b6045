"""Which benchmarks a history knows of a hardware class: what a choice for a node and a plan offer alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_anubis.core.history import Defect, FleetHistory
from pytest_anubis.core.metric import whole_of
from pytest_anubis.core.standing.standing_of import GATE, HARDWARE


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBenchmarks:
    """The benchmarks of a history, seen from one hardware class.

    Attributes:
        components: Benchmark that applies to the class -> its component, empty where nobody told; sorted.
        elsewhere: Those that only other classes have run, sorted: nobody knows whether they apply.
    """

    components: Mapping[str, str]
    elsewhere: tuple[str, ...]


def known_benchmarks(fleet: FleetHistory, hardware_class: str) -> KnownBenchmarks:
    """Return what can be offered to the nodes of a class.

    A benchmark applies to a class if it has run on it, in whatever run or import, or if it exposed a defect
    of one of its nodes. A class without any defect borrows those of the others, but not their benchmarks:
    that of a card would be planned for a node that has none.

    Args:
        fleet: The history, with durations, experience and defects of the class.
        hardware_class: The class; empty: nobody tells classes apart, and everything applies.
    """
    classes = {node.name: node.hardware_class for node in fleet.nodes}

    def of_class(defect: Defect) -> bool:
        own = defect.hardware_class or classes.get(defect.node, "")
        return not hardware_class or own in (hardware_class, "")

    real = [one for one in fleet.defects if one.state != "false alarm"]
    everywhere = frozenset().union(*fleet.measured.values())
    own = fleet.measured.get(hardware_class, frozenset()) if hardware_class else everywhere
    ran = {*fleet.durations, *fleet.experience, *own}
    parts = {*fleet.components.values(), *(one.component for one in real)}
    # What a run finds without a test of its own is no benchmark.
    no_tests = {GATE[0], HARDWARE, *map(whole_of, parts)}
    names = ran.union(*(one.benchmarks for one in real if of_class(one))) - no_tests
    every = names.union(everywhere, *(one.benchmarks for one in real)) - no_tests
    alone = {
        name: one.component
        for one in fleet.defects
        for name in one.benchmarks
        if len(one.benchmarks) == 1
    }
    components = alone | dict(fleet.components)
    return KnownBenchmarks(
        components={name: components.get(name, "") for name in sorted(names)},
        elsewhere=tuple(sorted(every - names)),
    )
