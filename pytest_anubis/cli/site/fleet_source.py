"""What a fleet's pages and the lines about it rest on: judged nodes, and what is known of each."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_anubis.cli.shared.class_split import facts_of
from pytest_anubis.cli.shared.history_access import may_be_there, use
from pytest_anubis.cli.shared.printing import say
from pytest_anubis.codec.moments import moment
from pytest_anubis.core.survey.fleet_survey import TraitShift
from pytest_anubis.core.verdict import Decision, Reason
from pytest_anubis.report.plots.fleet_plots import day_text
from pytest_anubis.report.text.node_row import NodeRow
from pytest_anubis.report.text.numbers import count_text
from pytest_anubis.report.text.shared_causes import with_shared
from pytest_anubis.store.collected_runs import RunSet
from pytest_anubis.validator.deciding.fleet_judging import JudgedFleet
from pytest_anubis.validator.surveying.trait_shifts import as_the_others, trait_shifts
from pytest_anubis.validator.surveying.unit_medians import UnitMedians, unit_medians

WORST_FIRST = (Decision.REJECTED, Decision.UNDECIDED, Decision.ACCEPTED)
REGISTER = "nodes.csv"
"""Name of a table of nodes that is read where it lies beside collected runs."""
_NO_TRAITS = ("node", "class", "since", "state", "on", "note")
"""Columns of a register that are no traits: what has a place of its own, or changes from day to day."""
SERIAL = "serial"
"""A trait that is shown, and separates no nodes: each has its own."""
FIRST = ("rack", "batch")
"""Traits that operators look for first: they have the first columns."""
MOST_VALUES = 400
"""Most values of a trait; a column with more is a name."""
Traits = dict[str, dict[str, str]]
"""Node -> name of a trait -> its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSource:
    """Judged nodes, and what is known of them.

    Attributes:
        runs: Everything that was read.
        judged: The verdicts.
        rows: One a node and hardware class.
        traits: Of every node: the register's first, then what its runs say of it.
        filed: What a history has of nodes whose class has no baseline: the last decision, and its day.
        without_run: Names of nodes that are registered and have no run; they are in no row.
        tables: The samples of each class as one table; empty where no trait of nodes is known.
        shifts: What separates nodes of a class, slow ones first.
        registered: Whether a register says anything of its nodes.
    """

    runs: RunSet
    judged: JudgedFleet
    rows: Sequence[NodeRow]
    traits: Traits
    filed: Mapping[str, tuple[Decision, str]] = field(default_factory=dict)
    without_run: Sequence[str] = ()
    tables: Sequence[UnitMedians] = ()
    shifts: Sequence[TraitShift] = ()
    registered: bool = False

    @property
    def began(self) -> dict[tuple[str, str], float]:
        """Run and node -> when it began, seconds since 1970, of the runs with a date."""
        return _began(self.runs)

    @property
    def without_baseline(self) -> str:
        """How many nodes were held against nothing, and what to do about it; empty where there is none."""
        alone = [row for row in self.rows if row.hardware_class not in self.judged.baselines]
        if not alone:
            return ""
        classes = sorted({row.hardware_class or "(unnamed)" for row in alone})
        whose = classes[0] if len(classes) == 1 else f"{len(classes)} hardware classes"
        every = len(alone) == len(self.rows)
        who = "" if every else f" for {len(alone)} of {count_text(len(self.rows), 'node')}"
        return (
            f"no baseline{who} ({whose}): nothing {'' if every else 'of them '}was judged against one, and "
            "nothing can be accepted; learn one with 'anubis learn RUNS', or name its folder with "
            "--baseline DIR"
        )

    @property
    def filed_text(self) -> str:
        """What the history has of such nodes in one sentence; empty without any."""
        if not self.filed:
            return ""
        counts = Counter(decision for decision, _ in self.filed.values())
        told = ", ".join(f"{counts[one]} {one.value}" for one in WORST_FIRST if counts[one])
        days = sorted(day for _, day in self.filed.values())
        when = f"on {days[0]}" if days[0] == days[-1] else f"from {days[0]} to {days[-1]}"
        return f"as filed in the history when they ran, {when}: {told}"


def judged_source(
    options: argparse.Namespace,
    runs: RunSet,
    judged: JudgedFleet,
    rows: Sequence[NodeRow],
    *,
    places: Sequence[str],
    without_run: Collection[str] = (),
) -> FleetSource:
    """Gather what is known of nodes that are judged already, out of the places that were named.

    Args:
        options: Those of the command: ``nodes_file``, a table of nodes (racks, batches and the like) in place
            of those that lie in `places`, and ``history``, which is named in their place.
        runs: Everything that was read.
        judged: The verdicts.
        rows: The nodes that are to be shown.
        places: Files and folders that were named.
        without_run: Nodes that are registered and have no run as far as the register's owner knows.

    Raises:
        HistoryError: A table or the history cannot be read.
    """
    history = options.history
    found = register_of([history] if history else places, options.nodes_file)
    names = {row.verdict.node for row in rows}
    registered = bool(names & found.keys())
    if options.nodes_file is not None and not registered:
        table = options.nodes_file
        say(f"note: {table}: none of its nodes is among these; are they called otherwise?")
    for run in sorted(runs.runs, key=lambda run: run.started):
        of_node = found.setdefault(run.node, {})
        of_node.update({name: text for name, text in facts_of(run).items() if text})
    alone = {row.verdict.node for row in rows if row.hardware_class not in judged.baselines}
    dated = {
        node: (Decision(decision), day_text(began))
        for node, (decision, began) in (stored_verdicts(history) if history else {}).items()
        if node in alone and decision in tuple(Decision)
    }
    medians, shifts = survey(runs, rows, found)
    worse = any(row.verdict.decision is Decision.REJECTED or row.look for row in rows)
    if options.nodes and worse:
        say(
            "note: of chosen nodes it is not seen what they share with others, such as a slow batch or "
            "driver: judge without --nodes before one is taken out of service"
        )
    rows = with_shared(rows, shifts)
    of_unit = {row.unit: row.verdict for row in rows}
    verdicts = [
        of_unit.get((verdict.node, detail.hardware_class), verdict)
        for verdict, detail in zip(judged.nodes, judged.details, strict=True)
    ]
    return FleetSource(
        runs=runs,
        judged=replace(judged, nodes=tuple(verdicts)),
        rows=rows,
        traits=found,
        filed=dated,
        without_run=sorted(set(without_run) - names - {run.node for run in runs.runs}),
        tables=medians,
        registered=registered,
        shifts=shifts,
    )


def survey(
    runs: RunSet, rows: Sequence[NodeRow], traits: Traits
) -> tuple[list[UnitMedians], list[TraitShift]]:
    """Return the samples of each class as one table, and what separates its nodes, slow ones first."""
    telling = telling_traits(traits, rows)
    medians = class_tables(runs, rows) if telling else []
    shifts = _shifts(medians, telling, traits, rows, _began(runs))
    return medians, [replace(one, mended=_mended(one, runs, rows, medians)) for one in shifts]


def _mended(
    shift: TraitShift, runs: RunSet, rows: Sequence[NodeRow], tables: Sequence[UnitMedians]
) -> tuple[str, ...]:
    """Return the nodes that have a shift's trait, or had it, and of which a later run answered its loss."""
    lost = {(one.benchmark, one.metric.name) for one in shift.metrics if one.worse}
    had = {run.node for run in runs.runs if facts_of(run).get(shift.trait) == shift.value}
    answered = [
        row.verdict.node
        for row in rows
        if row.hardware_class == shift.hardware_class
        and row.verdict.node in had.union(shift.nodes)
        and any(
            one.reason is Reason.ANSWERED and (one.benchmark, one.metric) in lost
            for one in row.verdicts
        )
    ]
    if not answered:
        return ()
    (table,) = (one for one in tables if one.hardware_class == shift.hardware_class)
    good = as_the_others(table, shift, _began(runs))
    return tuple(sorted(good.intersection(answered)))


def class_tables(runs: RunSet, rows: Sequence[NodeRow]) -> list[UnitMedians]:
    """Return the samples of each class of the nodes that are shown as one table."""
    classes = {row.hardware_class for row in rows}
    return [one for one in unit_medians(runs.populations) if one.hardware_class in classes]


def _began(runs: RunSet) -> dict[tuple[str, str], float]:
    dated = {(run.run, run.node): moment(run.started) for run in runs.runs}
    return {unit: when for unit, when in dated.items() if when is not None}


def _shifts(
    tables: Sequence[UnitMedians],
    telling: Sequence[str],
    traits: Traits,
    rows: Sequence[NodeRow],
    began: Mapping[tuple[str, str], float],
) -> list[TraitShift]:
    """Return what separates the nodes of each class, slow ones first."""
    wanted = {
        node: {name: own[name] for name in telling if name in own} for node, own in traits.items()
    }
    found: list[TraitShift] = []
    for table in tables:
        rejected = {
            row.verdict.node
            for row in rows
            if row.hardware_class == table.hardware_class
            and row.verdict.decision is Decision.REJECTED
        }
        found += trait_shifts(table, wanted, rejected, began)
    return sorted(found, key=lambda s: (not s.worse, -s.rejected / len(s.nodes), _largest(s)))


def _largest(shift: TraitShift) -> float:
    return min((one.similarity for one in shift.metrics), default=1.0)


def is_history(place: str) -> bool:
    """Say whether a source is a history: a database URL, or a folder with one and no runs of its own."""
    from pytest_anubis.store.history.database import HISTORY_NAME

    return "://" in place or (
        Path(place, HISTORY_NAME).is_file() and not Path(place, "runs").is_dir()
    )


def register_of(places: Sequence[str], table: Path | None = None) -> Traits:
    """Return what is registered of the nodes of runs.

    Args:
        places: Where the runs lie: a history, or files and folders. Of these the history of their store says
            what it knows, and a table of nodes that lies in one counts too.
        table: A table of nodes in place of such tables.

    Raises:
        HistoryError: A table, or a history that was named, cannot be read; another one is noted.
    """
    found: Traits = {}
    homes = dict.fromkeys(one for place in places for one in _homes(place))
    for name in filter(may_be_there, homes):
        for node, traits in _stored_traits(name, named=name in places).items():
            own = {name: text for name, text in traits.items() if name not in _NO_TRAITS}
            found.setdefault(node, {}).update(own)
    beside = [path for place in places if (path := Path(place, REGISTER)).is_file()]
    for one in beside if table is None else [table]:
        for node, traits in read_register(one).items():
            found.setdefault(node, {}).update(traits)
    return found


def _stored_traits(name: str, *, named: bool) -> Traits:
    """Return what a history says of its nodes; of one that was not named, nothing where it cannot be read."""
    from pytest_anubis.store.history.database import HistoryError  # loads a third of a second
    from pytest_anubis.store.history.node_records import node_traits

    try:
        return use(name, node_traits)
    except HistoryError as error:
        if named:
            raise
        say(f"note: what is registered of the nodes is not known: {error}")
        return {}


def _homes(place: str) -> list[str]:
    """Return where the history of runs may be: their store has it, which is two folders up at most."""
    return [place] if "://" in place else [place, *map(str, Path(place).absolute().parents[:2])]


def stored_verdicts(place: str) -> dict[str, tuple[str, float]]:
    """Return what a history has as each node's last decision, and when that run began (epoch seconds).

    Raises:
        HistoryError: It cannot be read.
    """
    from pytest_anubis.store.history.fleet_history import last_verdicts

    return use(place, last_verdicts)


def read_register(path: Path) -> Traits:
    """Return what a table of nodes says of each: every column but its name, class and dates.

    Raises:
        HistoryError: It cannot be read or has no column ``node``.
    """
    from pytest_anubis.store.history.csv_rows import read_rows

    return {
        row["node"].strip(): {
            name: text.strip()
            for name, text in row.items()
            if name and name not in _NO_TRAITS and text.strip()
        }
        for _, row in read_rows(path, ("node",), (), others=True)
    }


def telling_traits(
    traits: Mapping[str, Mapping[str, str]], rows: Sequence[NodeRow]
) -> tuple[str, ...]:
    """Return the names of traits that tell nodes of one class apart, those that people look for first."""
    values: dict[str, dict[str, set[str]]] = {}
    sizes: dict[str, int] = {}
    for row in rows:
        sizes[row.hardware_class] = sizes.get(row.hardware_class, 0) + 1
        own = traits.get(row.verdict.node, {})
        for name, text in own.items() - {(SERIAL, own.get(SERIAL))}:
            values.setdefault(name, {}).setdefault(row.hardware_class, set()).add(text)
    telling = [
        name
        for name, by_class in values.items()
        if any(
            1 < len(found) <= min(MOST_VALUES, sizes[key] / 2) for key, found in by_class.items()
        )
    ]
    return (*(n for n in FIRST if n in telling), *(n for n in telling if n not in FIRST))
