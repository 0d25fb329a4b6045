"""A baseline learned metric by metric, or elsewhere, is the one that is learned at once."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.gather import Gather
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import Population, SampleProblem
from pytest_anubis.store.samples.spilled_values import SpilledValues
from pytest_anubis.validator import learn_baseline
from pytest_anubis.validator.similarity import usable_rows


class Elsewhere(Executor):
    """Sends what is asked and what is answered as bytes, as to another process."""

    def map(self, fn: Any, *tasks: Any, **_: Any) -> Any:
        for task in tasks[0]:
            sent, one = pickle.loads(pickle.dumps((fn, task)))  # noqa: S301 - our own, of this moment
            yield pickle.loads(pickle.dumps(sent(one)))  # noqa: S301


def fleet(metrics: int = 4, nodes: int = 40, devices: int = 2, count: int = 24) -> list[Population]:
    """Return metrics with sick nodes, a slower group, an exact one and one of unequal sizes."""
    rng = np.random.default_rng(7)
    found = []
    for number in range(metrics):
        units = [(f"n{i:03d}", f"d{d}") for i in range(nodes) for d in range(devices)]
        values = rng.normal(100, 1, (len(units), count)) + rng.normal(0, 0.3, (len(units), 1))
        values[:4] *= 1.4
        values[: len(units) // 3 if number == 1 else 0] *= 1.2
        sizes = np.full(len(units), count)
        sizes[5] -= 3 if number == 2 else 0
        flat = np.concatenate([row[:size] for row, size in zip(values, sizes, strict=True)])
        better: Any = "equal" if number == 3 else "lower"
        found.append(
            Population(
                hardware_class="c",
                benchmark="b",
                metric=Metric(name=f"m{number}", unit="s", better=better),
                nodes=tuple(node for node, _ in units),
                devices=tuple(device for _, device in units),
                runs=("r",) * len(units),
                values=np.ones(len(flat)) if number == 3 else flat,
                offsets=np.concatenate([[0], np.cumsum(sizes)]),
                problems={7: SampleProblem(kind="failed", text="x")},
            )
        )
    return found


def learned(populations: Iterable[Population], **how: Any) -> Baseline:
    return learn_baseline(list(populations), hardware_class="c", created="2026-11-22", **how)


def on_shelf(populations: Iterable[Population], storage: SpilledValues) -> tuple[Population, ...]:
    gather = Gather(storage)
    for population in populations:
        rows = range(len(population))
        gather.add_population(population.only([*rows][::2]))
        gather.add_population(population.only([*rows][1::2]))
    return gather.populations()


@pytest.mark.parametrize("engine", [None, Elsewhere()])
def test_values_on_a_shelf_give_the_same_baseline(
    engine: Executor | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_anubis.core.gather.PENDING", 3000)
    monkeypatch.setattr("pytest_anubis.core.gather.CHUNK", 500)
    monkeypatch.setattr("pytest_anubis.store.samples.spilled_values._SMALL", 0)
    monkeypatch.setattr(usable_rows, "LARGE", 4000)
    monkeypatch.setattr(usable_rows, "BLOCK", 500)
    expected = learned(fleet())
    assert expected.self_check is not None
    assert expected.self_check.sick
    with SpilledValues(0, tmp_path) as storage:
        populations = on_shelf(fleet(), storage)
        assert list(tmp_path.iterdir())  # it was used
        assert learned(populations, storage=storage, executor=engine) == expected
        del populations
    assert not list(tmp_path.iterdir())


def test_samples_beside_a_whole_population_are_the_same_on_a_shelf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_anubis.core.gather.PENDING", 500)
    monkeypatch.setattr("pytest_anubis.store.samples.spilled_values._SMALL", 0)
    (one, *_) = fleet(1)
    half = [row for row in range(len(one)) if row % 3]
    plain = Gather()
    with SpilledValues(0, tmp_path) as storage:
        spilled = Gather(storage)
        for gather in (plain, spilled):
            gather.add_population(replace(one.only([0, 3]), runs=("s", "s")))
            gather.add_population(one.only(half))
        (expected,), (found,) = plain.populations(), spilled.populations()
        assert np.array_equal(found.values, expected.values)
        del found


def test_nodes_of_one_device_have_no_aggregate_though_one_is_told_to_lack_another() -> None:
    (one,) = fleet(metrics=1, devices=1)[:1]
    other = replace(
        one,
        devices=("d3", *one.devices[1:], "d0"),
        nodes=(*one.nodes, one.nodes[0]),
        runs=(*one.runs, one.runs[0]),
        offsets=np.append(one.offsets, one.offsets[-1]),
        problems={len(one.nodes): SampleProblem(kind="missing", text="not in the results")},
    )
    learned = learn_baseline([other], hardware_class="c", created="")
    assert [criterion.scope for criterion in learned.criteria] == ["unit"]
