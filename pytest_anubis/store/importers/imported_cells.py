"""Find values (benchmark, metric, device, run, node) that several imports contain, without keeping values.

`collected_runs` and `import_folder` use it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from pytest_anubis.core.gather import Key, key_of
from pytest_anubis.core.sample import Population
from pytest_anubis.store.importers.dated_runs import RunNode


class ImportedCells:
    """The names of all imported values: what was measured, on which device, in which run."""

    def __init__(self) -> None:
        self._names: list[tuple[Key, Sequence[str], Sequence[str], Sequence[str]]] = []
        self._runs = set[RunNode]()

    def note(self, populations: Iterable[Population], runs: Iterable[RunNode]) -> None:
        """Remember the names of a file's values, and its runs, which may have none."""
        self._runs.update(runs)
        self._names += [(key_of(one), one.runs, one.nodes, one.devices) for one in populations]

    def held_twice(
        self, populations: Iterable[Population], known: Collection[RunNode]
    ) -> Mapping[RunNode, int]:
        """Return run -> number of values in a file that an earlier file contained, without zeros.

        Args:
            populations: The file's samples.
            known: Runs that were read before. One that no import had is from a journal, so all values count.
        """
        held = set[tuple[Key, RunNode, str]]()
        for names in self._names:
            held.update(_cells(*names, known))
        found = Counter[RunNode]()
        for one in populations:
            for cell in _cells(key_of(one), one.runs, one.nodes, one.devices, known):
                if cell in held or cell[1] not in self._runs:
                    found[cell[1]] += 1
        return found


def _cells(
    key: Key,
    runs: Sequence[str],
    nodes: Sequence[str],
    devices: Sequence[str],
    known: Collection[RunNode],
) -> Iterator[tuple[Key, RunNode, str]]:
    for run, device in zip(zip(runs, nodes, strict=True), devices, strict=True):
        if run in known:
            yield key, run, device
