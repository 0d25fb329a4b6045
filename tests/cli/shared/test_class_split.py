"""Hardware classes of collected runs: named early, and split by attributes."""

from __future__ import annotations

from dataclasses import replace

from pytest_anubis.cli.shared.class_split import class_lines, split_classes
from pytest_anubis.core.inventory import Inventory
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.sample import population_of
from pytest_anubis.hardware.inventory.hardware_classes import class_key, extended_key
from pytest_anubis.hardware.inventory.inventory_reading import inventory_to_plain
from pytest_anubis.store.collected_runs import RunSet

RATE = Metric(name="rate", unit="GB/s", better="higher")


def runs_of(*units: tuple[str, str, dict[str, str]]) -> RunSet:
    """Return runs of (node, class, attributes), each with one sample."""
    return RunSet(
        runs=tuple(
            RunRecord(run=f"run-{node}", node=node, hardware_class=key, attributes=attributes)
            for node, key, attributes in units
        ),
        populations=tuple(
            population_of(
                [[1.0, 2.0]],
                metric=RATE,
                benchmark="b",
                nodes=[node],
                runs=[f"run-{node}"],
                hardware_class=key,
            )
            for node, key, _ in units
        ),
    )


def classes_of(runs: RunSet) -> list[tuple[str, tuple[str, ...]]]:
    return [(one.hardware_class, tuple(one.nodes)) for one in runs.populations]


def test_runs_split_now_join_those_split_before() -> None:
    names = ("accelerator", "count", "cpu", "cores", "memory", "fabric", "driver", "torch")
    hardware = dict.fromkeys((*names, "profile"), "x")
    key = extended_key(hardware, {"os": "12"})
    runs = runs_of(("n1", key, hardware | {"os": "12"}), ("n2", class_key(hardware), hardware))
    plain = inventory_to_plain(Inventory(node="n2", os="12"))
    runs = replace(runs, runs=(runs.runs[0], replace(runs.runs[1], inventory=plain)))
    split = split_classes(runs, ["os"])
    assert [run.hardware_class for run in split.runs] == [key, key]
    assert classes_of(split) == [(key, ("n1", "n2"))]


def test_every_class_of_a_node_is_split_by_itself() -> None:
    runs = runs_of(("n1", "c", {}), ("n1", "d", {}), ("n2", "c", {"os": "12"}))
    split = split_classes(runs, ["os"])
    assert classes_of(split) == [
        ("c", ("n2",)),
        ("c_os-unknown", ("n1",)),
        ("d_os-unknown", ("n1",)),
    ]


def test_classes_are_named_with_their_nodes() -> None:
    runs = runs_of(("n0", "a", {}), ("n1", "a", {}), ("n2", "unclassified", {}))
    (line,) = class_lines(runs)
    assert line.startswith("2 hardware classes, each with limits of its own: a (2 nodes), unclassi")
    assert "(1 node); class 'unclassified' has the imports without a class" in line
    assert line.endswith("--class KEY")
    (line,) = class_lines(runs_of(("n0", "a", {}), ("n1", "b", {})))
    assert "unclassified" not in line
    assert class_lines(runs_of(("n0", "a", {}), ("n1", "a", {}))) == []
