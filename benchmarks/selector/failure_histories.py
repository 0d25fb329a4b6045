"""Public failure histories as rows for a risk model: what was known on a date, and what came after it.

For `survival.py` and `auto.py`; needs duckdb (extra `fleet`). No row knows anything of its own future.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_anubis.selector.risk.models.covariates import Floats

DAY = 86_400.0


@dataclass(frozen=True)
class SurvivalRows:
    """Covariates, durations and events of intervals."""

    x: Floats
    duration: Floats
    event: Floats

    def only(self, mask: npt.NDArray[np.bool_]) -> SurvivalRows:
        """Return some of the rows."""
        return SurvivalRows(self.x[mask], self.duration[mask], self.event[mask])

    def until(self, horizon: float) -> SurvivalRows:
        """Return the rows with everything after the horizon cut off."""
        return self.seen_until(np.full(len(self.event), horizon))

    def seen_until(self, end: Floats) -> SurvivalRows:
        """Return the rows with everything after each one's end, shape (n,), cut off."""
        over = self.duration > end
        return SurvivalRows(
            self.x, np.where(over, end, self.duration), np.where(over, 0.0, self.event)
        )


@dataclass(frozen=True)
class Task:
    """The splits of one data set.

    Attributes:
        splits: Training and test rows.
        horizon: Time of skill and calibration; None: third quartile of training incidents.
        dependent: Whether concordance is over all times (Antolini) instead of at the horizon (Harrell).
        began: The day on which each training row began, for each split; empty: the rows have no order.
    """

    splits: list[tuple[SurvivalRows, SurvivalRows]]
    horizon: float | None
    dependent: bool = False
    began: Sequence[Floats] = ()


def parity(name: str) -> Callable[[Path], Task]:
    """Return a task of five folds, the ones of the published protocol (see `dealt`)."""

    def load(data: Path) -> Task:
        table = read(data / "survival_parity" / f"{name}.parquet")
        columns = [column for column in table if column not in ("duration", "event")]
        rows = SurvivalRows(stacked(table, columns), table["duration"], table["event"])
        fold = dealt(rows.event.astype(np.int64), 5, seed=0)
        splits = [(rows.only(fold != k), rows.only(fold == k)) for k in range(5)]
        return Task(splits, None, dependent=True)

    return load


def dealt(group: npt.NDArray[np.int64], count: int, *, seed: int) -> npt.NDArray[np.int64]:
    """Return a fold for each row, shape (n,), every group spread evenly.

    The folds are those of scikit-learn's ``StratifiedKFold(count, shuffle=True, random_state=seed)``, which
    the published figures used: the numbers of each group in a fold follow from dealing the sorted groups in
    turn, their places from numpy's legacy generator.
    """
    rng = np.random.RandomState(seed)
    # Groups are numbered as they first appear.
    _, first, of_row = np.unique(group, return_index=True, return_inverse=True)
    number = np.argsort(np.argsort(first))[of_row]
    line = np.sort(number)
    fold = np.empty(len(group), dtype=np.int64)
    for each in range(len(first)):
        sizes = [int((line[k::count] == each).sum()) for k in range(count)]
        places = np.repeat(np.arange(count), sizes)
        rng.shuffle(places)
        fold[number == each] = places
    return fold


def backblaze(data: Path) -> Task:
    """Drives in service: three landmarks for training, 2015-10-01 for testing, 180 days."""
    table = read(data / "backblaze_hds" / "landmarks_visible.parquet")
    makers = table["manufacturer"].astype(str)
    columns = ["age_days", "size_tb", *(f"smart_{n}" for n in (5, 12, 187, 188, 197))]
    x = np.column_stack(
        [stacked(table, columns), *((makers == name).astype(float) for name in np.unique(makers))]
    )
    rows = SurvivalRows(x, table["duration"], table["event"])
    day = np.array(table["landmark"], dtype="datetime64[s]").astype(np.int64) / DAY
    last = day == day.max()
    return Task([(rows.only(~last), rows.only(last))], 180.0, began=[day[~last]])


LANL = [
    *("age_days", "n_all", "n30", "n90", "n365", "days_since_last", "none", "procs"),
    *("system_rate_90d", "fleet_rate_30d"),
]


def lanl(data: Path) -> Task:
    """Nodes of twelve systems: the last year tests, what was known at its beginning trains, 30 days."""
    rows, day = landmarks(data)
    cut = day.max() - 365
    splits = [(known_at(rows, day, cut), rows.only(day > cut))]
    return Task(splits, 30.0, began=[day[day < cut]])


def lanl_rolling(data: Path) -> Task:
    """The same, rolling: each quarter from what was known at its beginning, 90 days."""
    rows, day = landmarks(data)
    splits, began = [], []
    for start in np.arange(day.min() + 270, day.max(), 90):
        test = (day >= start) & (day < start + 90)
        splits.append((known_at(rows, day, start), rows.only(test)))
        began.append(day[day < start])
    return Task(splits, 90.0, began=began)


def landmarks(data: Path) -> tuple[SurvivalRows, Floats]:
    """Return LANL's rows and the day of each."""
    table = read(data / "lanl_failures" / "landmarks.parquet")
    return SurvivalRows(stacked(table, LANL), table["duration"], table["event"]), table[
        "landmark_day"
    ]


def known_at(rows: SurvivalRows, day: Floats, cut: float) -> SurvivalRows:
    """Return rows that began before a day, without what was not yet known on it."""
    begun = day < cut
    return rows.only(begun).seen_until((cut - day)[begun])


def alibaba(data: Path) -> Task:
    """SSD failures: from one on a node to the next; five folds of nodes."""
    rows, owner, day = ssd_failures(data)
    names, where = np.unique(owner, return_inverse=True)
    fold = np.random.default_rng(0).integers(0, 5, len(names))[where]
    splits = [(rows.only(fold != k), rows.only(fold == k)) for k in range(5)]
    return Task(splits, 90.0, began=[day[fold != k] for k in range(5)])


def alibaba_in_time(data: Path) -> Task:
    """The same in time: what was known when 60, 70 and 80 % had failed, and what began after that."""
    rows, _, day = ssd_failures(data)
    splits, began = [], []
    for share in (0.6, 0.7, 0.8):
        cut = float(np.quantile(day, share))
        splits.append((known_at(rows, day, cut), rows.only(day >= cut)))
        began.append(day[day < cut])
    return Task(splits, 90.0, began=began)


def ssd_failures(data: Path) -> tuple[SurvivalRows, npt.NDArray[np.int64], Floats]:
    """Return rows from one failure on a node to the next, the node of each, and the day it began."""
    table = read(data / "alibaba_ssd_failures" / "failures-before-2019-03.parquet")
    when = np.array(table["failure_time"], dtype="datetime64[s]").astype(np.int64) / DAY
    node = table["node_id"].astype(np.int64)
    order = np.lexsort((when, node))
    end = when.max()
    status, duration, event, owner = [], [], [], []
    kinds = [
        (name, value) for name in ("model", "app") for value in np.unique(table[name].astype(str))
    ]
    count, previous = 0, np.nan
    for place, row in enumerate(order):
        same = place > 0 and node[order[place - 1]] == node[row]
        gap = when[row] - when[order[place - 1]] if same else np.nan
        count = count + 1 if same else 1
        follows = place + 1 < len(order) and node[order[place + 1]] == node[row]
        upto = when[order[place + 1]] if follows else end
        status.append(
            [count, gap, previous if same else np.nan]
            + [float(str(table[name][row]) == value) for name, value in kinds]
        )
        previous = gap
        duration.append(upto - when[row])
        event.append(float(follows))
        owner.append(node[row])
    rows = SurvivalRows(np.array(status), np.array(duration), np.array(event))
    return rows, np.array(owner), when[order]


def grid5k(data: Path) -> Task:
    """Grid'5000: every second week, from a node's past outages to its next one within 7 days."""
    folder = data / "grid5k_fta"
    table = read(folder / "unavailability.parquet")
    with gzip.open(folder / "nodes.csv.gz", "rt", encoding="utf-8") as file:
        spans = {
            int(r["node_id"]): (float(r["first"]), float(r["last"])) for r in csv.DictReader(file)
        }
    first = min(start for start, _ in spans.values())
    marks = first + np.arange(1, 39) * 14 * DAY
    train: list[list[float]] = []
    test: list[list[float]] = []
    day: list[float] = []
    for node, (start, end) in sorted(spans.items()):
        mine = table["node_id"] == node
        order = np.argsort(table["t0"][mine], kind="stable")
        begun = table["t0"][mine][order].astype(float)
        over = (
            np.maximum.accumulate(table["t1"][mine][order].astype(float)) if mine.any() else begun
        )
        for number, mark in enumerate(marks):
            past = int(np.searchsorted(begun, mark))
            if mark < start or mark >= end or (past and over[past - 1] > mark):
                continue  # not in the fleet, or down just then
            (train if number < 18 else test).append(outage(begun, over, past, mark, start, end))
            if number < 18:
                day.append(mark / DAY)
    tables = (np.array(train), np.array(test))
    first_rows, last_rows = (SurvivalRows(t[:, :-2], t[:, -2], t[:, -1]) for t in tables)
    return Task([(first_rows, last_rows)], 7.0, began=[np.array(day)])


def outage(
    begun: Floats, over: Floats, past: int, mark: float, start: float, end: float
) -> list[float]:
    """Return one landmark's covariates, days until the next outage (at most 7), and whether it came."""
    counts = [past - int(np.searchsorted(begun, mark - days * DAY)) for days in (7, 30, 90)]
    since = (mark - over[past - 1]) / DAY if past else np.nan
    length = (over[past - 1] - begun[past - 1]) / DAY if past else np.nan
    age = (mark - start) / DAY
    days = ((begun[past] if past < len(begun) else end) - mark) / DAY
    happened = float(past < len(begun) and days <= 7)
    return [age, past, *counts, since, length, past / max(age, 1.0), min(days, 7.0), happened]


def read(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Return a Parquet table by column, missing numbers as NaN."""
    import duckdb

    with duckdb.connect() as database:
        columns = database.execute("select * from read_parquet(?)", [str(path)]).fetchnumpy()
    return {name: _filled(values) for name, values in columns.items()}


def _filled(values: Any) -> npt.NDArray[Any]:
    found: npt.NDArray[Any] = np.ma.getdata(values)
    hidden = np.ma.getmaskarray(values)
    if found.dtype.kind in "iuf":
        return np.where(hidden, np.nan, found.astype(np.float64))
    return np.where(hidden, "", found) if hidden.any() else found


def stacked(table: dict[str, npt.NDArray[Any]], columns: list[str]) -> Floats:
    """Return columns side by side."""
    return np.column_stack([table[name] for name in columns])


TASKS: dict[str, Callable[[Path], Task]] = {
    "METABRIC": parity("metabric"),
    "FLCHAIN": parity("flchain"),
    "Backblaze": backblaze,
    "LANL": lanl,
    "LANL rolling": lanl_rolling,
    "Alibaba": alibaba,
    "Alibaba in time": alibaba_in_time,
    "Grid5000": grid5k,
}
