"""A model of a node's standing: a few plain rules, independent of the product."""

from __future__ import annotations

from collections.abc import Sequence

from tests.store.history.sequences.statements import CELLS, DEVICES, METRICS, Cell, Statement, when

WEEK = 7
GATE: Cell = ("inventory", "", "")
TODAY = "2026-11-27"
Seen = dict[Cell, bool | None]
"""What is known of cells: good, bad, or None where a value was to be and is not."""


def bad_cells(ordered: Sequence[Statement]) -> set[Cell]:
    """Return what failed in some statement and passed in no later one."""
    found: set[Cell] = set()
    for one in ordered:
        found -= {cell for cell, good in one.said.items() if good}
        found |= {cell for cell, good in one.said.items() if not good}
    return found


def _seen(one: Statement) -> Seen:
    return {**one.said, **dict.fromkeys(one.empty)}


def _devices(one: Statement) -> set[str]:
    return {cell[2] for cell in one.said}


def sought(ordered: Sequence[Statement]) -> list[set[str]]:
    """Return of each statement which devices were bad, or had no value, since the last that was no retest."""
    found, known, since = [], Seen(), set[str]()
    for one in ordered:
        found.append(since)
        known |= _seen(one)
        if not _devices(one) <= since:
            since = {cell[2] for cell, good in known.items() if not good}
    return found


def _whole_runs(ordered: Sequence[Statement]) -> list[bool]:
    """Return which statements have most metrics and most values of their devices, and are no retest."""
    return [
        2 * len({cell[:2] for cell in one.said}) > len(METRICS)
        and 2 * len(one.said) > len(METRICS) * len(_devices(one))
        and not _devices(one) <= again
        for one, again in zip(ordered, sought(ordered), strict=True)
    ]


def gone_devices(ordered: Sequence[Statement]) -> set[str]:
    """Return devices without a value in the latest table with most metrics on most devices, nor later."""
    later: set[str] = set()
    for one, whole in zip(ordered[::-1], _whole_runs(ordered)[::-1], strict=True):
        later |= _devices(one)
        if whole and 2 * len(_devices(one)) > len(DEVICES):
            return set(DEVICES) - later
    return set()


def lacking(ordered: Sequence[Statement]) -> bool:
    """Return whether the latest runs measured half of the devices or fewer, and one before them more."""
    later, after = set[str](), set[str]()
    for one, whole in zip(ordered[::-1], _whole_runs(ordered)[::-1], strict=True):
        here = _devices(one)
        if whole and after and here >= after and here > later and 2 * len(later) <= len(DEVICES):
            return True
        later |= here
        after |= here if whole else set()
    return False


def accepted(ordered: Sequence[Statement]) -> bool:
    """Return whether tables accept a node together: each value is there, and nothing is lacking since."""
    known: Seen = {}
    latest: dict[tuple[str, str], int] = {}
    for place, one in enumerate(ordered):
        known |= _seen(one)
        latest |= {cell[:2]: place for cell in one.said}
    for metric, place in latest.items():
        of_run = [{cell[2] for cell in one.said if cell[:2] == metric} for one in ordered]
        here = of_run.pop(place)
        before = set[str]().union(*of_run)
        if before > here and not here & before <= sought(ordered)[place]:
            return False
    return set(known) == set(CELLS) and all(known.values()) and not lacking(ordered)


def latest_days(ordered: Sequence[Statement]) -> list[Statement]:
    """Return the statements that complete the latest one."""
    return [one for one in ordered if ordered[-1].day - one.day <= WEEK]


def of_tables(statements: Sequence[Statement]) -> str:
    """Return what all tables together say of a node."""
    ordered = sorted(statements, key=lambda one: one.day)
    if bad_cells(ordered) or gone_devices(ordered):
        return "REJECTED"
    if not accepted(ordered):
        return "UNDECIDED"
    near = latest_days(ordered)
    return "ACCEPTED" if len(near) == len(ordered) else of_tables(near)


def of_history(statements: Sequence[Statement], *, together: bool = True) -> str:
    """Return what a history says into which the tables were pushed, `together` or each by itself."""
    ordered = sorted(statements, key=lambda one: one.day)
    last = ordered[-1]
    gone: set[str] = set()
    for one in ordered:
        gone = (gone | gone_devices([one])) - _devices(one)
    if bad_cells(ordered) or gone:
        return "REJECTED"
    near = latest_days(ordered)
    return "ACCEPTED" if accepted([last]) or (together and accepted(near)) else "UNDECIDED"


def of_journals(statements: Sequence[Statement], today: str = TODAY) -> str:
    """Return the standing of a node by its runs: a rejection, else the latest verdict."""
    open_yet: dict[
        Cell, str
    ] = {}  # REJECTED, UNDECIDED of a run that was cut, or a waiver's last day
    answer = "UNDECIDED"
    for one in sorted(statements, key=lambda one: one.day):
        failed = {cell for cell, good in one.said.items() if not good}
        failed |= {GATE} if one.absent else set()
        cut = bool(one.broken)
        if one.broken == "killed" and not failed:
            answer = "UNDECIDED"
            continue
        passed = {cell for cell, good in one.said.items() if good and one.broken != "killed"}
        passed |= set() if one.absent or one.broken == "killed" else {GATE}
        open_yet = {cell: how for cell, how in open_yet.items() if cell not in passed}
        covered = {c: one.waived[c[1]] for c in failed if one.waived.get(c[1], "") >= when(one.day)}
        accepts = not cut and {*one.said} == {*CELLS} and failed <= {*covered} and not one.absent
        for cell in failed:
            before = open_yet.get(cell)
            if cell in covered:
                open_yet[cell] = (
                    covered[cell] if accepts or before is None or before[0] == "2" else before
                )
            elif not cut or before is None or before[0] == "2":
                open_yet[cell] = "UNDECIDED" if cut and before is None else "REJECTED"
        answer = "ACCEPTED" if accepts else "UNDECIDED"
    left = {"REJECTED" if how < today else how for how in open_yet.values() if how[0] == "2"}
    left |= {how for how in open_yet.values() if how[0] != "2"}
    return next((how for how in ("REJECTED", "UNDECIDED") if how in left), answer)


def of_judged(statements: Sequence[Statement]) -> str:
    """Return what all runs of a node say that are judged together, with the waivers that hold today."""
    open_yet: dict[Cell, str] = {}
    unended, reached = False, set[Cell]()
    for one in sorted(statements, key=lambda one: one.day):
        failed = {cell for cell, good in one.said.items() if not good}
        covered = {c for c in failed if one.waived.get(c[1], "") >= TODAY}
        covered |= {c for c in failed for later in statements if _accepts_with(later, c, one)}
        silent = {(cell[0], "", cell[2]) for cell in one.empty}
        if not one.broken:  # a test that recorded anything has not come to nothing
            silent -= {(cell[0], "", cell[2]) for cell in one.said}
        if one.broken != "killed":
            ran = {(c[0], "", c[2]) for c in one.said} - {(c[0], "", c[2]) for c in one.empty}
            passed = {cell for cell, good in one.said.items() if good} | ran
            passed |= set() if one.absent else {GATE}
            open_yet = {cell: how for cell, how in open_yet.items() if cell not in passed}
        failed |= {GATE} if one.absent else set()
        how = "UNDECIDED" if one.broken else "REJECTED"
        open_yet |= {cell: how for cell in failed - covered if open_yet.get(cell) != "REJECTED"}
        open_yet |= dict.fromkeys(silent, "UNDECIDED")
        unended = bool(one.broken)
        reached |= {*one.said}
    if "REJECTED" in open_yet.values():
        return "REJECTED"
    if open_yet or unended or reached != {*CELLS}:
        return "UNDECIDED"
    ordered = sorted(statements, key=lambda one: one.day)
    near = latest_days(ordered)
    return "ACCEPTED" if len(near) == len(ordered) else of_judged(near)


def _accepts_with(later: Statement, cell: Cell, one: Statement) -> bool:
    """Return whether a run after `one` accepted the node with a waiver of what failed that holds today."""
    failed = {cell for cell, good in later.said.items() if not good}
    waived = all(later.waived.get(one[1], "") >= when(later.day) for one in failed)
    whole = not later.broken and {*later.said} == {*CELLS} and not later.absent
    holds = cell in failed and later.waived.get(cell[1], "") >= TODAY
    return later.day > one.day and whole and waived and holds


def excuses(one: Statement) -> bool:
    """Return whether something failed in a run that was cut."""
    return bool(one.broken) and not all(one.said.values())
