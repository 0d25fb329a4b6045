"""List the benchmarks that a history knows of a hardware class, for `anubis select` and `fleet plan`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_anubis.core.history import Defect, FleetHistory
from pytest_anubis.core.metric import whole_of
from pytest_anubis.core.standing.standing_of import GATE, HARDWARE


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBenchmarks:
    """The benchmarks of a history, for one hardware class."""

    # Benchmark that applies to the class -> its component, empty if unknown; sorted
    components: Mapping[str, str]
    # Benchmarks that only other classes have run, sorted; whether they apply is unknown
    elsewhere: tuple[str, ...]


def known_benchmarks(fleet: FleetHistory, hardware_class: str) -> KnownBenchmarks:
    """Return the benchmarks that apply to a class; all of them if the class is empty.

    A benchmark applies if it has run on the class, in any run or import, or exposed a defect of one of its
    nodes. A class without defects borrows those of the others, but not their benchmarks, since a card's
    benchmark would otherwise be planned for a node without cards.
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
    # Defects that a run finds without a test are no benchmarks.
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
