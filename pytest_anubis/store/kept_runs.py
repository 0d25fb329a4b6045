"""A node's judged runs and its runs under way, as `node_standing` keeps them in a file.

`health_check` answers from them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated

from pytest_anubis.core.field_types import Rare
from pytest_anubis.core.standing.standing_of import (
    Holds,
    JudgedRun,
    Standing,
    relevant_runs,
    standing_of,
)
from pytest_anubis.core.verdict import Decision
from pytest_anubis.store.namesakes import Machine, machine_of


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRun:
    """A judged run as it is kept."""

    judged: JudgedRun  # the run's result for the node
    reason: str = ""  # its verdict, short enough for a scheduler
    baseline: str = ""  # id of the baseline that decided
    hardware_class: str = ""
    # Marks that identify its machine (`identity_marks`); empty if unknown
    marks: tuple[str, ...] = ()
    unjudged: Annotated[int, Rare] = 0  # metrics of it without a criterion
    # What rejects the node is to be measured again before anything else is done
    retest: Annotated[bool, Rare] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStanding:
    """A node's runs that count, and the run that is under way."""

    node: str
    # Those that still count (`relevant_runs`), in the order in which they began
    runs: tuple[KeptRun, ...] = ()
    running: str = ""  # id of the latest run if it has not ended; else empty
    # When that one began, seconds since 1970; later than the end of all others here
    since: float = 0.0
    boot: str = ""  # id of the machine's boot in which it began
    # Earlier runs that overlap it and have not ended -> when they began
    others: Annotated[Mapping[str, float], Rare] = field(default_factory=dict)
    # Ids of the runs that the operator has answered for (`keep_answered`), kept or not
    answered: Annotated[tuple[str, ...], Rare] = ()

    @property
    def under_way(self) -> dict[str, float]:
        """All runs that have not ended -> when they began, the latest last."""
        return {**self.others, self.running: self.since} if self.running else {}

    def with_under_way(self, runs: Mapping[str, float], boot: str) -> NodeStanding:
        """Return the standing with these runs that have not ended, of which the latest began in this boot."""
        running = max(runs, key=runs.__getitem__, default="")
        others = {run: since for run, since in runs.items() if run != running}
        since = runs.get(running, 0.0)
        return replace(
            self, running=running, since=since, others=others, boot=boot if running else ""
        )

    @property
    def machines(self) -> list[list[KeptRun]]:
        """The runs of each machine that uses the node's name.

        Runs that the operator has answered for (`keep_answered`) make no second machine.
        """
        return machines_of(one for one in self.runs if not one.judged.answered)

    def standing(self, holds: Holds) -> Standing:
        """Return the node's standing; of several machines, that of a rejected one, else of the latest."""
        several = self.machines if len(self.machines) > 1 else [self.runs]
        each = [standing_of((one.judged for one in runs), holds) for runs in several]
        rejected = [one for one in each if one.decision is Decision.REJECTED]
        return max(rejected or each, key=lambda one: one.by.order if one.by else (0.0, 0, ""))

    def kept(self, standing: Standing) -> KeptRun | None:
        """Return the run that a standing rests on; None before the first verdict."""
        by = standing.by
        return next((one for one in self.runs if by and one.judged.run == by.run), None)


def relevant_kept(runs: Collection[KeptRun]) -> tuple[KeptRun, ...]:
    """Return the runs from which the standing of each machine follows, in the order in which they began."""
    of_run = {one.judged.run: one for one in runs}
    found = [
        replace(
            kept := of_run[one.run],
            judged=one,
            # The reason names failures, some of which later runs may have cleared.
            reason=kept.reason if one.failed == kept.judged.failed else "",
        )
        for several in machines_of(runs)
        for one in relevant_runs(kept.judged for kept in several)
    ]
    return tuple(sorted(found, key=lambda one: one.judged.order))


def machines_of(runs: Iterable[KeptRun]) -> list[list[KeptRun]]:
    """Return the runs of each machine, in the order in which they began; runs without marks fit the first."""
    known: list[Machine] = []
    found: list[list[KeptRun]] = []
    for run in sorted(runs, key=lambda one: one.judged.order):
        marks = frozenset(run.marks)
        place = machine_of(known, marks)
        if place is None:
            place = len(known)
            known.append(("", frozenset()))
            found.append([])
        known[place] = ("", known[place][1] | marks)
        found[place].append(run)
    return found
