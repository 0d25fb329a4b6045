"""What is learned of each metric by itself, one after the other or in other processes: the same either way.

Only here, and where centres are learned without each node (`healthy_tails`), are all values of a metric
looked at. What is known of all metrics together is learned from what these steps return.
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
    """Learn the criterion of a population for a scope; this can be sent to other processes.

    `light` returns what was learned without the values that it was learned from.
    """
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
    """Yield what was learned of every task, in their order; with a storage no values are held beside it.

    Args:
        tasks: Populations with their scopes.
        alpha: Practical threshold.
        method: ``median`` or ``medoid``.
        one_machine: All rows are runs of one machine.
        executor: Learns them in parallel, where there is one.
        storage: Where values lie that are too many for the memory.
    """
    step = partial(
        _learn,
        alpha=alpha,
        method=method,
        one_machine=one_machine,
        storage=None if executor else storage,  # it is no other process's
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
    """Return what is to be learned: every population, and where most nodes have several devices, their nodes.

    Args:
        populations: Of one class.
        single: All rows are runs of one machine.
    """
    tasks: list[Task] = []
    for population in populations:
        tasks.append((population, "unit"))
        missing = tuple(row for row, one in population.problems.items() if one.lacks)
        several = _several(tuple(population.nodes), tuple(population.devices), missing)
        if several and not single and population.metric.better != "equal":
            tasks.append((population, "node"))
    return tasks


@lru_cache(maxsize=8)  # metrics of one fleet come from the same units
def _several(nodes: tuple[str, ...], devices: tuple[str, ...], missing: tuple[int, ...]) -> bool:
    """Return whether most nodes have more than one device; else what is pooled is one device, told twice.

    Args:
        nodes: The node of every row.
        devices: Its device.
        missing: Rows of devices that most nodes have and this one has not.
    """
    pairs = set(zip(nodes, devices, strict=True))
    pairs -= {(nodes[row], devices[row]) for row in missing}
    counts = Counter(node for node, _ in pairs)
    return 2 * sum(count > 1 for count in counts.values()) > len(counts)
