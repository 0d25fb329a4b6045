"""Find parameters that a table has in a column that is not used, so that their values are taken for repeats.

A benchmark with a row for each message size has one metric for all sizes unless the size is part of its
metric's name or group. Time stamps, numbers of iterations, readings of a sensor and remarks differ in each
row too, and are no parameters. `table` uses it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from pytest_anubis.core.sample import IntArray
from pytest_anubis.store.importers.grouping import SAMPLE, combined, sorted_names
from pytest_anubis.store.importers.table_columns import EncodedRows

_MOST_VALUES = 64
"""Values of a parameter; message sizes from 8 bytes to 16 GiB are 32."""
_PARAMETERS = frozenset((
    "size", "sizes", "msgsize", "blocksize", "bs", "ranks", "nranks", "nproc", "nprocs", "procs", "np",
    "threads", "nthreads", "dtype", "datatype", "precision", "gpus", "ngpus", "iodepth", "qd", "numjobs",
    "ntasks", "clients", "streams",
))  # fmt: skip
"""Words in names of columns that are parameters, whatever the nodes' rows have in common."""
_PARTS = frozenset((
    "gpu", "card", "device", "rank", "socket", "numa", "core", "port", "slot", "disk", "drive", "nic",
    "hca", "dimm", "lane", "channel", "die", "tile", "xcd",
))  # fmt: skip
"""Parts of a node, whose names are names of columns."""
_OF_PART = frozenset((
    "id", "index", "idx", "no", "num", "number", "local", "uuid", "name", "bus", "pci", "",
))  # fmt: skip
_ORDER = frozenset((
    "iteration", "iterations", "iter", "it", "i", "rep", "repeat", "repetition", "trial", "run", "attempt",
    "loop", "round", "pass", "sample", "cycle", "try", "index", "idx", "row", "line", "no", "nr", "id",
    "seq", "sequence", "step", "number", "epoch", "count", "time", "date", "timestamp", "ts", "day", "hour",
    "start", "started", "end", "ended", "begin", "finished", "elapsed", "datetime", "comment", "remark",
    "note",
))  # fmt: skip
"""Words in names of columns that number or date the rows, or remark on them."""
_NUMBERED = re.compile(r"(\D{0,40}?)0{0,9}(\d{1,9})(?:\.0+)?")
_MOMENT = re.compile(r"\d{4}-\d\d|\d{1,2}[./]\d{1,2}[./]\d{2,4}|\d{1,2}:\d\d")


def merged_parameters(rows: EncodedRows) -> list[str]:
    """Return the unused columns that are parameters and differ among the values of one sample.

    A column is one if its name says so, or if most samples have the same few values of it, on two nodes at
    least, that are neither moments nor consecutive numbers.
    """
    several = {
        name: (cells, places)
        for name, (cells, places) in rows.unused.items()
        if len({*cells} - {""}) > 1
    }
    if not several:
        return []
    names, codes = sorted_names(rows)
    sample, _ = combined(names, codes, SAMPLE)
    return [
        name
        for name, (cells, places) in several.items()
        if _is_parameter(name, cells, places, sample, codes["node"])
    ]


def _is_parameter(
    name: str, cells: Sequence[str], codes: IntArray, sample: IntArray, nodes: IntArray
) -> bool:
    filled = np.array([bool(cell) for cell in cells])[codes]
    if not filled.any():
        return False
    first_of: dict[str, int] = {}  # different cells may be shown alike
    numbers = [first_of.setdefault(cell, number) for number, cell in enumerate(cells)]
    places = np.array(numbers, dtype=np.int64)[codes][filled]
    pairs, row = np.unique(sample[filled] * len(cells) + places, return_index=True)
    of, value = np.divmod(pairs, len(cells))
    starts = np.flatnonzero(np.concatenate([[True], of[1:] != of[:-1]]))
    counts = np.diff(np.append(starts, len(pairs)))
    if counts.max() < 2:
        return False
    words = re.split(r"[\W_]+", name)
    if not _PARAMETERS.isdisjoint(words) or (
        not _PARTS.isdisjoint(words) and {*words} <= _PARTS | _OF_PART
    ):
        return True
    if not _ORDER.isdisjoint(words):
        return False
    sets = [part.tobytes() for part in np.split(value, starts[1:])]
    most, alike = Counter(sets).most_common(1)[0]
    values = [cells[place] for place in np.frombuffer(most, dtype=value.dtype).tolist()]
    few = 2 <= len(values) <= _MOST_VALUES
    if not few or 2 * alike <= len(sets) or _numbers_rows(values):
        return False
    on = nodes[filled][row[starts]][[one == most for one in sets]]
    return len(np.unique(on)) > 1


def _numbers_rows(cells: Sequence[str]) -> bool:
    """Return whether cells are moments, or consecutive numbers as of iterations."""
    if all(_MOMENT.search(cell) for cell in cells):
        return True
    found = [_NUMBERED.fullmatch(cell) for cell in cells]
    if None in found or len({match[1] for match in found if match}) > 1:
        return False
    numbers = sorted(int(match[2]) for match in found if match)
    return numbers == list(range(numbers[0], numbers[0] + len(numbers)))
