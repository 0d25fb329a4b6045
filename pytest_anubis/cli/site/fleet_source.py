"""Gather what `judge`, `report` and imports show of judged nodes: verdicts, traits, causes, history."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pytest_anubis.cli.shared.class_split import run_facts
from pytest_anubis.cli.shared.history_access import may_be_there, use
from pytest_anubis.cli.shared.printing import say
from pytest_anubis.cli.shared.run_sources import wanted_of
from pytest_anubis.codec.moments import moment
from pytest_anubis.core.fleet_survey import SLOW_PART, TraitShift
from pytest_anubis.core.history import OUT_OF_SERVICE, Defect, NodeRecord
from pytest_anubis.core.machine_marks import are_of_one_host
from pytest_anubis.core.validation_figures import ValidationFigures
from pytest_anubis.core.verdict import Decision, Reason
from pytest_anubis.report.plots.fleet_plots import day_text
from pytest_anubis.report.text.node_row import NodeRow
from pytest_anubis.report.text.numbers import count_text
from pytest_anubis.report.text.shared_causes import with_shared
from pytest_anubis.store.collected_runs import RunSet
from pytest_anubis.store.history import HISTORY_NAME
from pytest_anubis.store.history.closed_defects import all_closed_defects
from pytest_anubis.validator.deciding.fleet_judging import JudgedFleet
from pytest_anubis.validator.surveying.trait_shifts import (
    part_shifts,
    recovered_nodes,
    trait_shifts,
)
from pytest_anubis.validator.surveying.unit_medians import UnitMedians, unit_medians
from pytest_anubis.validator.surveying.validation_survey import validation_figures

if TYPE_CHECKING:
    from pytest_anubis.store.history.database import History

T = TypeVar("T")

WORST_FIRST = (Decision.REJECTED, Decision.UNDECIDED, Decision.ACCEPTED)
REGISTER = "nodes.csv"
"""Name of a table of nodes that is read from the folders of collected runs."""
_NO_TRAITS = ("node", "class", "since", "state", "on", "note")
"""Columns of a register that are no traits: they have their own meaning, or change from day to day."""
SERIAL = "serial"
"""A trait that is shown and separates no nodes, since each node has its own."""
FIRST = ("rack", "batch")
"""Traits that operators look for first, so they have the first columns."""
NOT_SEPARATING = (SERIAL, SLOW_PART)
"""Traits that are shown and not compared: `part_shifts` tests slow parts."""
MAX_VALUES = 400
"""Most different values of a trait. A column with more names single nodes, so it explains no group."""
Traits = dict[str, dict[str, str]]
"""Node -> name of a trait -> its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSource:
    """Judged nodes, and what is known of them."""

    runs: RunSet  # everything that was read
    judged: JudgedFleet  # the verdicts
    rows: Sequence[NodeRow]  # one for each node and hardware class
    traits: Traits  # traits of every node: the register's first, then those that its runs report
    # Node -> its last decision in the history and the day, of nodes whose class has no baseline
    filed: Mapping[str, tuple[Decision, str]] = field(default_factory=dict)
    # Names of registered or listed nodes without a run; they are in no row
    without_run: Sequence[str] = ()
    # The samples of each class as one table; empty if no trait of nodes is known
    tables: Sequence[UnitMedians] = ()
    shifts: Sequence[TraitShift] = ()  # traits that separate nodes of a class, slow nodes first
    # Nodes that are drained or in repair by the history that was judged from
    out: frozenset[str] = frozenset()
    # How validation itself does; None if no page asks for it
    validation: ValidationFigures | None = None
    # Defects that operators have closed; none if no page asks for them
    closed: Sequence[Defect] = ()

    @property
    def began(self) -> dict[tuple[str, str], float]:
        """Run and node -> when it began, seconds since 1970, for runs with a date."""
        return _began(self.runs)

    @property
    def no_baseline_text(self) -> str:
        """How many nodes were compared with no baseline, and what to do; empty if there are none."""
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
        """One sentence on the history's decisions about such nodes; empty if there are none."""
        if not self.filed:
            return ""
        counts = Counter(decision for decision, _ in self.filed.values())
        counted = ", ".join(f"{counts[one]} {one.value}" for one in WORST_FIRST if counts[one])
        days = sorted(day for _, day in self.filed.values())
        when = f"on {days[0]}" if days[0] == days[-1] else f"from {days[0]} to {days[-1]}"
        return f"as filed in the history when they ran, {when}: {counted}"


def gather_fleet_source(
    options: argparse.Namespace,
    runs: RunSet,
    judged: JudgedFleet,
    rows: Sequence[NodeRow],
    *,
    places: Sequence[str],
    without_run: Collection[str] = (),
    whole_page: bool = False,
) -> FleetSource:
    """Add traits, shared causes and the history's state to judged nodes; print a note where these lack.

    Args:
        options: Options of the command: ``nodes_file``, a table of nodes that replaces those in `places`, and
            ``history``, which replaces `places`.
        runs: Everything that was read.
        judged: The verdicts.
        rows: The nodes to show.
        places: Files and folders that were named.
        without_run: Registered nodes without a run, as far as the history knows.
        whole_page: The page of all nodes is to be written, which shows how validation itself does.
    """
    history = options.history
    found = register_of([history] if history else places, options.nodes_file)
    names = {row.verdict.node for row in rows}
    if options.nodes_file is not None and not names & found.keys():
        table = options.nodes_file
        say(
            f"note: {table}: no node of this table was judged: compare its column 'node' with the names of "
            "the judged nodes"
        )
    for run in sorted(runs.runs, key=lambda run: run.started):
        of_node = found.setdefault(run.node, {})
        of_node.update({name: text for name, text in run_facts(run).items() if text})
    alone = {row.verdict.node for row in rows if row.hardware_class not in judged.baselines}
    stored: Mapping[str, tuple[str, float]] = {}  # decision, and when its run began
    nodes: Sequence[NodeRecord] = ()
    if history:
        from pytest_anubis.store.history.fleet_history import last_verdicts

        stored, nodes = use(history, lambda opened: (last_verdicts(opened), opened.nodes()))
    dated = {
        node: (Decision(decision), day_text(began))
        for node, (decision, began) in stored.items()
        if node in alone and decision in tuple(Decision)
    }
    medians, shifts = survey(runs, rows, found)
    for row in rows:
        if row.verdict.shared:
            named = ", ".join(part.called for part in row.verdict.shared)
            found.setdefault(row.verdict.node, {})[SLOW_PART] = named
    worse = any(row.verdict.decision is Decision.REJECTED or row.to_look_at for row in rows)
    if options.nodes and worse:
        say(
            "note: --nodes hides what these nodes share with others, such as a slow batch or driver: judge "
            "without --nodes before you take a node out of service"
        )
    rows = with_shared(rows, shifts)
    homes = [history] if history else _every_home(places)
    validation = _validation(options, runs, homes) if whole_page else None
    of_unit = {row.unit: row.verdict for row in rows}
    verdicts = [
        of_unit.get((verdict.node, detail.hardware_class), verdict)
        for verdict, detail in zip(judged.nodes, judged.details, strict=True)
    ]
    seen = names | {run.node for run in runs.runs}
    missed = {*without_run, *_listed_without_run(options, seen)} - seen
    return FleetSource(
        runs=runs,
        judged=replace(judged, nodes=tuple(verdicts)),
        rows=rows,
        traits=found,
        filed=dated,
        without_run=sorted(missed),
        tables=medians,
        shifts=shifts,
        out=frozenset(one.name for one in nodes if one.state in OUT_OF_SERVICE),
        validation=validation,
        closed=[one for home in homes for one in all_closed_defects(home)] if whole_page else (),
    )


def _listed_without_run(options: argparse.Namespace, seen: Collection[str]) -> set[str]:
    """Return the wanted nodes of the table of `--nodes-file` that have no run under either of their names."""
    if options.nodes_file is None or options.hardware_class:
        return set()
    wanted = wanted_of(options)
    hosts: dict[str, list[str]] = {}
    for one in seen:
        hosts.setdefault(one.partition(".")[0], []).append(one)
    return {
        name
        for name in read_register(options.nodes_file)
        if wanted.wants_node(name)
        and not any(are_of_one_host(name, one) for one in hosts.get(name.partition(".")[0], ()))
    }


def survey(
    runs: RunSet, rows: Sequence[NodeRow], traits: Traits
) -> tuple[list[UnitMedians], list[TraitShift]]:
    """Return the samples of each class as one table, and the traits that separate its nodes."""
    telling = telling_traits(traits, rows)
    medians = class_tables(runs, rows) if telling else []
    shifts = _shifts(medians, telling, traits, rows, _began(runs))
    shifts = [replace(one, mended=_mended(one, runs, rows, medians)) for one in shifts]
    return medians, [*shifts, *_part_shifts(rows)]


def _mended(
    shift: TraitShift, runs: RunSet, rows: Sequence[NodeRow], tables: Sequence[UnitMedians]
) -> tuple[str, ...]:
    """Return the nodes that were slow with a shift's trait and have made up at least half of the loss.

    Either a later run passed what had failed on them, or they have another value of the trait since.
    """
    lost = {(one.benchmark, one.metric.name) for one in shift.metrics if one.worse}
    had = {run.node for run in runs.runs if run_facts(run).get(shift.trait) == shift.value}
    answered = {
        row.verdict.node
        for row in rows
        if row.hardware_class == shift.hardware_class
        and row.verdict.node in had.union(shift.nodes)
        and any(
            one.reason is Reason.ANSWERED and (one.benchmark, one.metric) in lost
            for one in row.verdicts
        )
    }
    candidates = answered | (had.difference(shift.nodes) if lost else set())
    if not candidates:
        return ()
    (table,) = (one for one in tables if one.hardware_class == shift.hardware_class)
    return tuple(sorted(candidates & recovered_nodes(table, shift, _began(runs))))


def class_tables(runs: RunSet, rows: Sequence[NodeRow]) -> list[UnitMedians]:
    """Return one table of samples for each class of the shown nodes."""
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
    """Return the traits that separate the nodes of each class, slow nodes first."""
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

    def order(one: TraitShift) -> tuple[bool, float, float]:
        lowest = min((metric.similarity for metric in one.metrics), default=1.0)
        return not one.worse, -one.rejected / len(one.nodes), lowest

    return sorted(found, key=order)


def _part_shifts(rows: Sequence[NodeRow]) -> list[TraitShift]:
    """Return the parts of nodes that are slow on unusually many nodes of a class."""
    found: list[TraitShift] = []
    for key in dict.fromkeys(row.hardware_class for row in rows):
        own = [row.verdict for row in rows if row.hardware_class == key]
        rejected = [one.node for one in own if one.decision is Decision.REJECTED]
        found += part_shifts(key, {one.node: one.shared for one in own}, rejected)
    return found


def is_history(place: str) -> bool:
    """Return whether a source is a history: a database URL, or a folder with one and without runs."""
    return "://" in place or (
        Path(place, HISTORY_NAME).is_file() and not Path(place, "runs").is_dir()
    )


def register_of(places: Sequence[str], table: Path | None = None) -> Traits:
    """Return what is registered of nodes: in a history, in a table, or in files and folders.

    Of a folder its store's history and its table of nodes are read, the latter unless a table is named. A
    history that cannot be read is noted, and refused if it was named.
    """
    found: Traits = {}
    for name in filter(may_be_there, _every_home(places)):
        # Loading it takes a third of a second.
        from pytest_anubis.store.history.node_records import node_traits

        stored = _read(name, node_traits, "what is registered of the nodes", named=name in places)
        for node, traits in (stored or {}).items():
            own = {name: text for name, text in traits.items() if name not in _NO_TRAITS}
            found.setdefault(node, {}).update(own)
    tables = [path for place in places if (path := Path(place, REGISTER)).is_file()]
    for one in tables if table is None else [table]:
        for node, traits in read_register(one).items():
            found.setdefault(node, {}).update(traits)
    return found


def _read(home: str, work: Callable[[History], T], what: str, *, named: bool) -> T | None:
    """Read a history; one that was not named and cannot be read is noted, with `what` is not known then."""
    from pytest_anubis.store.history.database import HistoryError

    try:
        return use(home, work)
    except HistoryError as error:
        if named:
            raise
        say(f"note: {what} is not known: {error}")
        return None


def _every_home(places: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(one for place in places for one in _homes(place)))


def _homes(place: str) -> list[str]:
    """Return where the history of runs may be: their store has it, at most two folders up."""
    return [place] if "://" in place else [place, *map(str, Path(place).absolute().parents[:2])]


def _validation(
    options: argparse.Namespace, runs: RunSet, homes: Sequence[str]
) -> ValidationFigures:
    """Return what validation itself costs and finds, from the named history or the collected runs."""
    from pytest_anubis.store.fleet.validation_runs import (
        collected_validation_runs,
        filed_validation_runs,
    )

    defects = _defects(homes, named=bool(options.history))
    if not options.history:
        return validation_figures(collected_validation_runs(runs.journals), defects)
    wanted = wanted_of(options)
    filed = use(options.history, lambda history: filed_validation_runs(history, wanted))
    return validation_figures(filed.runs, defects, filed.older)


def _defects(homes: Sequence[str], *, named: bool) -> list[Defect] | None:
    """Return the defects of all histories that are there; None if there is none."""
    from pytest_anubis.store.history.defect_records import defects

    found: list[Defect] | None = None
    for home in filter(may_be_there, homes):
        own = _read(home, defects, "what became of rejections", named=named)
        found = found if own is None else [*(found or ()), *own]
    return found


def read_register(path: Path) -> Traits:
    """Return a table's traits of each node: every column except those in `_NO_TRAITS`."""
    from pytest_anubis.store.history.csv_rows import read_rows

    return {
        row["node"].strip(): {
            name: text.strip()
            for name, text in row.items()
            if name and name not in _NO_TRAITS and text.strip()
        }
        for _, row in read_rows(path, ("node",), ())
    }


def telling_traits(
    traits: Mapping[str, Mapping[str, str]], rows: Sequence[NodeRow]
) -> tuple[str, ...]:
    """Return the names of traits that distinguish nodes of one class, in the order of the columns."""
    values: dict[str, dict[str, set[str]]] = {}
    sizes = Counter(row.hardware_class for row in rows)
    for row in rows:
        for name, text in traits.get(row.verdict.node, {}).items():
            if name not in NOT_SEPARATING:
                values.setdefault(name, {}).setdefault(row.hardware_class, set()).add(text)
    telling = [
        name
        for name, by_class in values.items()
        if any(1 < len(found) <= min(MAX_VALUES, sizes[key] / 2) for key, found in by_class.items())
    ]
    return (*(n for n in FIRST if n in telling), *(n for n in telling if n not in FIRST))
