"""Public failure records as histories of fleets, as ``anubis risk`` reads them: nodes and incidents.

For `auto.py`; needs duckdb (extra `fleet`).
"""

from __future__ import annotations

import csv
import datetime as dt
import gzip
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from benchmarks.selector.failure_histories import DAY, read
from pytest_anubis.core.history import FleetHistory, Incident, NodeRecord

_MAX_NODES = 300
"""Nodes taken of larger fleets, at equal distances: enough incidents, and read in a minute."""


@dataclass(frozen=True)
class FleetTask:
    """A fleet's history, cut in time.

    Attributes:
        fleet: All of it.
        cut: What happened until then is known; seconds since 1970.
        end: The end of the record.
        horizon: How far ahead risks are judged, seconds.
        step: Time between two judgements of every node, seconds.
    """

    fleet: FleetHistory
    cut: float
    end: float
    horizon: float
    step: float

    @property
    def known(self) -> FleetHistory:
        """The history as it was at the cut."""
        return FleetHistory(
            nodes=tuple(node for node in self.fleet.nodes if node.since < self.cut),
            incidents=tuple(item for item in self.fleet.incidents if item.started <= self.cut),
        )

    @cached_property
    def _starts(self) -> dict[str, list[float]]:
        found: dict[str, list[float]] = defaultdict(list)
        for item in self.fleet.incidents:
            found[item.node].append(item.started)
        return found

    def next_after(self, node: str, moment: float) -> float:
        """Return the seconds until a node's next incident; until the end if it has none."""
        starts = self._starts[node]
        place = bisect_right(starts, moment)
        return (starts[place] if place < len(starts) else self.end + self.horizon) - moment


def as_task(incidents: Iterable[Incident], horizon: float, step: float) -> FleetTask:
    """Return a task from incidents; as after an import, a node is known from its first one on."""
    happened = tuple(sorted(incidents, key=lambda item: (item.started, item.node)))
    since: dict[str, float] = {}
    for item in happened:
        since.setdefault(item.node, item.started)
    fleet = FleetHistory(
        nodes=tuple(NodeRecord(name=name, since=since[name]) for name in sorted(since)),
        incidents=happened,
    )
    cut = float(np.quantile([item.started for item in happened], 0.7))
    return FleetTask(fleet, cut, happened[-1].started, horizon, step)


def lanl_fleet(data: Path) -> FleetTask:
    """LANL's nodes and failures, 30 days."""
    found = []
    path = data / "lanl_failures" / "failures-1996-to-2004-06.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            try:
                begun = _minute(row["Prob Started"])
                over = _minute(row["Prob Fixed"])
            except ValueError:
                continue
            causes = ("Facilities", "Hardware", "Human Error", "Network", "Software")
            kind = next((name for name in causes if row[name].strip()), "unknown")
            node = f"{row['System']}-{row['nodenum']}"
            found.append(
                Incident(node=node, kind=kind, started=begun, duration=max(0.0, over - begun))
            )
    return as_task(found, 30 * DAY, 45 * DAY)


def _minute(text: str) -> float:
    return dt.datetime.strptime(text, "%m/%d/%Y %H:%M").replace(tzinfo=dt.UTC).timestamp()


def alibaba_fleet(data: Path) -> FleetTask:
    """Alibaba's nodes and SSD failures, 30 days."""
    table = read(data / "alibaba_ssd_failures" / "failures-before-2019-03.parquet")
    when = np.array(table["failure_time"], dtype="datetime64[s]").astype(np.int64)
    found = [
        Incident(node=f"n{int(node)}", kind=str(model), started=float(at))
        for node, model, at in zip(table["node_id"], table["model"], when, strict=True)
    ]
    return as_task(found, 30 * DAY, 30 * DAY)


def grid5k_fleet(data: Path) -> FleetTask:
    """Grid'5000's nodes, every fourth, and their outages, one day."""
    table = read(data / "grid5k_fta" / "unavailability.parquet")
    names = np.unique(table["node_id"])
    kept = set(names[:: max(1, len(names) // _MAX_NODES)].tolist())
    found = [
        Incident(node=f"n{int(node)}", kind="down", started=float(a), duration=float(b - a))
        for node, a, b in zip(table["node_id"], table["t0"], table["t1"], strict=True)
        if node in kept and b >= a
    ]
    return as_task(found, DAY, 10 * DAY)


def disk_fleet(name: str, node: str) -> Callable[[Path], FleetTask]:
    """Return a task of disk failures by enclosure or server, 7 days."""

    def load(data: Path) -> FleetTask:
        path = data / "hpc_disk_failures" / f"{name}_formatted_data.csv"
        found = []
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                at = dt.datetime.fromisoformat(row["Timestamp"])
                at = at if at.tzinfo else at.replace(tzinfo=dt.UTC)
                found.append(
                    Incident(
                        node=f"{node} {row[node]}",
                        kind=row.get("Action", "disk"),
                        started=at.timestamp(),
                    )
                )
        return as_task(found, 7 * DAY, 10 * DAY)

    return load


FLEETS: dict[str, Callable[[Path], FleetTask]] = {
    "fleet LANL": lanl_fleet,
    "fleet Alibaba": alibaba_fleet,
    "fleet Grid5000": grid5k_fleet,
    "fleet Alpine disks": disk_fleet("alpine", "Unique enclosure"),
    "fleet Campaign disks": disk_fleet("camp", "Server"),
}
