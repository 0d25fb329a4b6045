"""Several hardware classes among what is learned from are named early."""

from __future__ import annotations

from pytest_anubis.cli.shared.class_split import class_lines
from pytest_anubis.core.gather import Gather
from pytest_anubis.core.metric import Metric
from pytest_anubis.store.collected_runs import RunSet


def runs(*classes: str) -> RunSet:
    gather = Gather()
    for number, key in enumerate(classes):
        gather.add(
            hardware_class=key,
            benchmark="b",
            metric=Metric(name="m", unit="GB/s", better="higher"),
            component="c",
            group="",
            node=f"n{number}",
            device="cpu",
            run="r",
            values=(1.0,),
            problem=None,
        )
    return RunSet(populations=gather.populations())


def test_classes_are_named_with_their_nodes() -> None:
    (line,) = class_lines(runs("a", "a", "unclassified"))
    assert line.startswith("2 hardware classes, each with limits of its own: a (2 nodes), unclassi")
    assert "(1 node); unclassified is what an import named no class of" in line
    assert line.endswith("--class KEY")
    (line,) = class_lines(runs("a", "b"))
    assert "unclassified" not in line
    assert class_lines(runs("a", "a")) == []
