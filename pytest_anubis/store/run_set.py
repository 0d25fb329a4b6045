"""The result of reading many runs, `RunSet`: samples by population, the runs, and what was refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pytest_anubis.codec.moments import moment
from pytest_anubis.core.history import CLOCK_TOLERANCE
from pytest_anubis.core.machine_marks import another_machine, marks_of
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.sample import Population
from pytest_anubis.core.standing.recorded_run import judged_of
from pytest_anubis.core.standing.standing_of import JudgedRun
from pytest_anubis.store.namesakes import kept_names, renamed


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRun:
    """A run that was refused, and why."""

    run: str  # its id; empty if the file could not be read at all
    node: str
    path: str
    reason: str  # one sentence
    damaged: bool = False  # the file could not be read, so it is unknown which node is missing

    @property
    def line(self) -> str:
        """File and reason as one line."""
        return self.reason if self.reason.startswith(self.path) else f"{self.path}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSet:
    """What was read of many runs, and what could not be."""

    # One per hardware class, benchmark, metric and group, sorted
    populations: tuple[Population, ...] = ()
    # The runs, without their measurements, verdicts and events other than waivers
    runs: tuple[RunRecord, ...] = ()
    refused: tuple[RefusedRun, ...] = ()  # runs and files that were refused, with reasons
    # The runs that come from journals, complete except for the values of their samples
    journals: tuple[RunRecord, ...] = ()
    # (run, node) -> tests that recorded nothing and fit into no population
    unmeasured: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()  # defects inside the files, one line each
    # (run, node) -> why nothing may be learned from the run, in words
    unlearnable: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @property
    def classes(self) -> dict[str, Mapping[str, str]]:
        """Hardware class -> its attributes, from the first run that has any."""
        found: dict[str, Mapping[str, str]] = {}
        for run in self.runs:
            if not found.get(run.hardware_class):
                found[run.hardware_class] = run.attributes
        return found

    @property
    def unjudged(self) -> Counter[str]:
        """Node -> how many of its runs are imports, which have no verdict."""
        own = {(run.run, run.node) for run in self.journals}
        return Counter(run.node for run in self.runs if (run.run, run.node) not in own)


def under_one_name(found: RunSet) -> RunSet:
    """Return the runs with one name for each machine that has runs under several (`kept_names`).

    Different machines keep their names.
    """
    marks: dict[str, frozenset[str]] = {}
    for run in found.runs:
        marks[run.node] = marks.get(run.node, frozenset()) | marks_of(run)
    names = {
        other: name
        for other, name in kept_names(marks).items()
        if not another_machine(marks[other], marks[name])
    }
    if not names:
        return found
    taken = {(run.run, run.node) for run in found.runs}

    def unit(run: str, node: str) -> tuple[str, str]:
        name = names.get(node, node)
        twice = name != node and (run, name) in taken
        return f"{run}~{node}" if twice else run, name

    def called(record: RunRecord) -> RunRecord:
        run, node = unit(record.run, record.node)
        return replace(renamed(record, node), run=run)

    def of_units(one: Population) -> Population:
        units = [unit(*pair) for pair in zip(one.runs, one.nodes, strict=True)]
        return replace(one, runs=[run for run, _ in units], nodes=[node for _, node in units])

    notes = [
        f"{other} and {name} are taken for two names of one machine, {name} here; give it one name "
        "(--anubis-node)"
        for other, name in names.items()
    ]
    return replace(
        found,
        populations=tuple(
            one if names.keys().isdisjoint(one.nodes) else of_units(one)
            for one in found.populations
        ),
        runs=tuple(map(called, found.runs)),
        journals=tuple(map(called, found.journals)),
        unmeasured={unit(*pair): tests for pair, tests in found.unmeasured.items()},
        unlearnable={unit(*pair): why for pair, why in found.unlearnable.items()},
        warnings=(*found.warnings, *notes),
    )


def dated_run(record: RunRecord, now: float) -> JudgedRun:
    """Return a run's result, dated by its own clock; one from the future counts, and clears nothing."""
    began = moment(record.started) or 0.0
    judged = judged_of(record, began=began, ended=moment(record.ended))
    return replace(judged, passed=()) if began - now > CLOCK_TOLERANCE else judged
