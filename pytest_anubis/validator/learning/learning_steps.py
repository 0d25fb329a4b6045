"""Learn each metric by itself: its criterion, and how many values later runs need (its window).

Only these steps, and `healthy_tails`, which learns each centre again without one node, read all values of a
metric. What `baseline_learning` learns of all metrics together follows from what these steps return. Other
processes may run them, with the same result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import lru_cache, partial

from pytest_anubis.core.baseline import Scope
from pytest_anubis.core.gather import SampleStorage
from pytest_anubis.core.sample import Population
from pytest_anubis.validator.changes.steady_state import shortest_window
from pytest_anubis.validator.learning.criterion_learning import learn_criterion
from pytest_anubis.validator.learning.learned_criterion import LearnedCriterion
from pytest_anubis.validator.similarity.centre import Method
from pytest_anubis.validator.similarity.pooling import pooled

Task = tuple[Population, Scope]


def _learn(
    task: Task,
    *,
    alpha: float,
    method: Method,
    one_machine: bool,
    storage: SampleStorage | None,
    light: bool,
) -> LearnedCriterion:
    """Learn the criterion of a population for a scope, in any process; `light` returns it without values."""
    population, scope = task
    learned = learn_criterion(
        population,
        alpha=alpha,
        method=method,
        one_machine=one_machine,
        scope=scope,
        storage=storage,
    )
    if learned.criterion is not None and scope == "unit" and population.metric.better != "equal":
        window = shortest_window(population, learned.rows.usable & ~learned.flagged)
        learned = replace(learned, criterion=replace(learned.criterion, window=window))
    if storage is not None:
        storage.release()
    return learned.without_values() if light else learned


def learned_of(
    tasks: Sequence[Task],
    *,
    alpha: float,
    method: Method,
    one_machine: bool,
    executor: Executor | None,
    storage: SampleStorage | None,
) -> Iterator[LearnedCriterion]:
    """Yield what was learned of every task, in their order, with the arguments of `learn_baseline`.

    With a storage, no values stay in memory.
    """
    step = partial(
        _learn,
        alpha=alpha,
        method=method,
        one_machine=one_machine,
        storage=None if executor else storage,  # other processes cannot use it
        light=storage is not None,
    )
    found = executor.map(step, tasks) if executor else map(step, tasks)
    for (population, scope), learned in zip(tasks, found, strict=True):
        if storage is None:
            yield learned
            continue
        whole = pooled(population, storage) if scope == "node" else population
        yield learned.with_values(whole, storage)


def tasks_of(populations: Sequence[Population], single: bool) -> list[Task]:
    """Return the tasks: every population, and its pooled nodes if most nodes have several devices.

    If all rows are runs of a `single` machine, nothing is pooled.
    """
    tasks: list[Task] = []
    for population in populations:
        tasks.append((population, "unit"))
        missing = tuple(row for row, one in population.problems.items() if one.lacks)
        several = _several(tuple(population.nodes), tuple(population.devices), missing)
        if several and not single and population.metric.better != "equal":
            tasks.append((population, "node"))
    return tasks


@lru_cache(maxsize=8)  # metrics of one fleet share their units
def _several(nodes: tuple[str, ...], devices: tuple[str, ...], missing: tuple[int, ...]) -> bool:
    """Return whether most nodes have several devices, so that pooled values show more than one device's.

    `missing` are rows of devices that a node lacks and most nodes have.
    """
    pairs = set(zip(nodes, devices, strict=True))
    pairs -= {(nodes[row], devices[row]) for row in missing}
    counts = Counter(node for node, _ in pairs)
    return 2 * sum(count > 1 for count in counts.values()) > len(counts)
