"""What is known of a node, in a small file that is read at once: no journal, no history, no hardware."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pytest_anubis.codec import from_plain, read_json, to_plain
from pytest_anubis.codec.moments import moment
from pytest_anubis.core.field_types import Rare
from pytest_anubis.core.history import CLOCKS_DIFFER
from pytest_anubis.core.identity.machine_marks import marks_of
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.standing.recorded_run import judged_of
from pytest_anubis.core.standing.standing_of import (
    Holds,
    JudgedRun,
    Standing,
    relevant_runs,
    standing_of,
)
from pytest_anubis.core.verdict import Decision
from pytest_anubis.store.atomic import write_atomically
from pytest_anubis.store.journal.journal_events import JournalError
from pytest_anubis.store.journal.journal_file import is_written, journal_path
from pytest_anubis.store.journal.journal_reading import read_journal
from pytest_anubis.store.namesakes import Machine, full_names, machine_of

FOLDER = "nodes"
"""Folder in the store; ``<node>.json`` is one node's."""

_FORMAT, _VERSION = "anubis-node-standing", 3
_MOST = 1 << 24  # bytes; that of a node with eight cards has some hundred thousand
_NEXT = 1e-3  # seconds by which a run begins after what ended before it, at least
_JOURNALS = 200  # latest runs that a lost file is made of anew
_LOCKED = 10.0  # seconds; of a file that was lost two hundred journals are read meanwhile
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class StandingError(ValueError):
    """The file cannot be used; the message is one line for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRun:
    """A judged run as it is kept.

    Attributes:
        judged: What it says about the node.
        reason: Its verdict in a scheduler's few words.
        baseline: Id of the baseline that decided.
        marks: By which its machine is known again (`identity_marks`); empty if unknown.
    """

    judged: JudgedRun
    reason: str = ""
    baseline: str = ""
    hardware_class: str = ""
    marks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStanding:
    """What the runs of a node say, and the run that is under way.

    Attributes:
        runs: Those that still count (`relevant_runs`), in the order in which they began.
        running: The run that began last and has not ended; empty if there is none.
        since: When that one began, seconds since 1970; not before another one here had ended.
        boot: Id of the start of the machine in which it began.
        answered: Ids of the runs that somebody has answered for (`keep_answered`), kept or not.
    """

    node: str
    runs: tuple[KeptRun, ...] = ()
    running: str = ""
    since: float = 0.0
    boot: str = ""
    answered: Annotated[tuple[str, ...], Rare] = ()

    @property
    def machines(self) -> list[list[KeptRun]]:
        """Its runs by machine: those of one name that are known to be two, apart.

        Runs that somebody has answered for by name (`keep_answered`) make no second machine.
        """
        return _machines(one for one in self.runs if not one.judged.answered)

    def standing(self, holds: Holds) -> Standing:
        """Return the standing of the node; of several machines, that of a rejected one, else of the latest.

        Args:
            holds: Says which waivers do.
        """
        several = self.machines if len(self.machines) > 1 else [self.runs]
        each = [standing_of((one.judged for one in runs), holds) for runs in several]
        rejected = [one for one in each if one.decision is Decision.REJECTED]
        return max(rejected or each, key=lambda one: one.by.order if one.by else (0.0, 0, ""))

    def kept(self, standing: Standing) -> KeptRun | None:
        """Return the run that a standing rests on; None before the first verdict."""
        by = standing.by
        return next((one for one in self.runs if by and one.judged.run == by.run), None)


def standing_file(store: Path, node: str) -> Path:
    """Return where a node's standing is; a name that is no file name is written so that none is another's."""
    safe = re.sub(r"[^A-Za-z0-9._-]", lambda found: f"%{ord(found[0]):x}", node)
    return store / FOLDER / f"{safe}.json"


def name_in(store: Path, node: str) -> str:
    """Return the name by which a store knows a node: its own, or the same host's other one, short or full."""
    names = _names(store)
    if standing_file(store, node).stem in names:
        return node
    same = full_names({*names, node})
    others = (name for pair in same.items() if node in pair for name in pair if name != node)
    return next(others, node)


def _names(store: Path) -> set[str]:
    """Return of which nodes a store knows, as they are written in names of files."""
    return {path.stem for path in (store / FOLDER).glob("*.json")}


def read_standing(store: Path, node: str) -> NodeStanding | None:
    """Return what is known of a node, by its short name or its full one; None before its first run.

    Raises:
        StandingError: The file is damaged, of another version, or cannot be read.
    """
    node = name_in(store, node)
    path = standing_file(store, node)
    again = "judge the node again: its journals are read then"
    try:
        found = read_json(path, largest=_MOST)
        if not isinstance(found, Mapping) or found.get("format") != _FORMAT:
            raise StandingError(f"{path}: is no node's standing; {again}")
        if found.get("version") != _VERSION:
            raise StandingError(f"{path}: is of another version of this program; {again}")
        fields = {name: value for name, value in found.items() if name not in ("format", "version")}
        known = from_plain(NodeStanding, fields, where="standing")
        decisions = {one.judged.decision for one in known.runs}
        if known.node != node or not decisions <= set(Decision):
            raise StandingError(f"{path}: is another node's, or damaged; {again}")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StandingError(f"{path}: cannot be read ({error.strerror})") from error
    except StandingError:
        raise
    except ValueError as error:
        raise StandingError(f"{path}: {error}; {again}") from None
    return known


def latest_run(store: Path, node: str) -> str:
    """Return the id of the latest judged run that is known of a node; empty where none is."""
    try:
        known = read_standing(store, node)
    except StandingError:
        known = None
    return known.runs[-1].judged.run if known and known.runs else ""


def killed_here(store: Path, node: str = "") -> Iterator[NodeStanding]:
    """Yield what is known of nodes whose run was killed on this machine: no process holds its journal.

    Of a run that another machine began nothing is known here, nor of one from before a reboot.

    Args:
        store: Folder of the store.
        node: Only this node; empty: all.
    """
    boot = boot_id()
    paths = (store / FOLDER).glob("*.json")
    for path in [standing_file(store, name_in(store, node))] if node else sorted(paths):
        with contextlib.suppress(OSError, ValueError):
            plain = read_json(path, largest=_MOST)
            if not isinstance(plain, Mapping) or not plain.get("running"):
                continue
            known = read_standing(store, str(plain.get("node")))
            here = known is not None and known.boot == boot != ""
            if known is not None and here and not is_written(journal_path(store, known.running)):
                yield known


def keep_begun(store: Path, node: str, run: str, *, began: float, resumed: bool = False) -> str:
    """Note that a run began; return what went wrong in one line. What earlier ones said stays beside it.

    Args:
        store: Folder of the store.
        node: The node's name.
        run: The run's id.
        began: When it began, seconds since 1970, by this machine's clock.
        resumed: It goes on: its place among the runs is that of its first beginning.
    """

    def noted(known: NodeStanding) -> NodeStanding:
        # What had ended came before, even if a clock went back.
        runs = known.runs
        if known.running not in ("", run):
            runs = _relevant([*runs, *_killed(store, known)])
        ends = [max(one.judged.began, one.judged.ended) + _NEXT for one in runs]
        since = began if resumed else max([began, *ends])
        return replace(known, runs=runs, running=run, since=since, boot=boot_id())

    return _change(store, node, noted)


def keep_ended(store: Path, record: RunRecord, *, ended: float, reason: str) -> str:
    """Note what a run said; one without a verdict leaves what was known. Return what went wrong in one line.

    Where the disk takes nothing, what was known goes, too, unless the run accepts: nothing is better than an
    acceptance that does not hold any more, and the journals still have it.

    Args:
        store: Folder of the store.
        record: The run.
        ended: When it ended, seconds since 1970, by this machine's clock.
        reason: Its verdict in a scheduler's few words.
    """

    def noted(known: NodeStanding) -> NodeStanding:
        mine = known.running == record.run
        filed = [one.judged.began for one in known.runs if one.judged.run == record.run]
        began = known.since if mine else (*filed, moment(record.started) or 0.0)[0]
        kept = _kept(record, began, ended, reason)
        runs = [one for one in known.runs if one.judged.run != record.run]
        if kept.judged.decision:
            runs.append(kept)
        later = known.running and not mine and known.since > began
        known = replace(known, runs=_relevant(runs))
        return known if later else replace(known, running="", since=0.0, boot="")

    problem = _change(store, record.node, noted)
    verdict = record.node_verdict
    if problem and verdict is not None and verdict.decision is not Decision.ACCEPTED:
        with contextlib.suppress(OSError):
            standing_file(store, name_in(store, record.node)).unlink()
    return problem


def _killed(store: Path, known: NodeStanding) -> Iterator[KeptRun]:
    """Yield the run that has not ended, if it has seen something fail so far."""
    with contextlib.suppress(JournalError):
        record = read_journal(journal_path(store, known.running))
        kept = _kept(record, known.since, known.since, "")
        if record.node_verdict is None and kept.judged.decision:
            yield kept


def keep_answered(
    place: str, node: str, runs: Collection[str] = (), *, in_service: float | None = None
) -> str:
    """Note that somebody answered for what runs found; return what went wrong in one line.

    Args:
        place: The history in which that was noted: a store's folder, else nothing is done.
        node: The node's name.
        runs: Runs whose defect was closed.
        in_service: When the node was put into service again, seconds since 1970; None: it was not.
    """

    def noted(known: NodeStanding) -> NodeStanding:
        every = known.runs if in_service is None else (*known.runs, *_journals(Path(place), node))
        found = {*runs, *known.answered}
        found |= {one.judged.run for one in every if one.judged.ended < (in_service or 0.0)}
        kept = (
            replace(one, judged=replace(one.judged, answered=True))
            if one.judged.run in found
            else one
            for one in known.runs
        )
        return replace(known, runs=tuple(kept), answered=tuple(sorted(found)))

    return _change_known(place, node, noted)


def answered_runs(places: Iterable[Path], nodes: Iterable[str]) -> set[tuple[str, str]]:
    """Return the runs, with their nodes, whose defect somebody has closed.

    Args:
        places: Journals, and folders of them: the stores that they lie in are asked.
        nodes: Names of nodes.
    """
    above = (one for place in places for one in (place, *place.absolute().parents[:3]))
    stores = {one for one in above if (one / FOLDER).is_dir()}
    names = set(nodes)
    found = set[tuple[str, str]]()
    for store in stores:
        for node in names & _names(store):
            with contextlib.suppress(StandingError):
                known = read_standing(store, node)
                found |= {(run, node) for run in (known.answered if known else ())}
    return found


def keep_joined(place: str, node: str) -> str:
    """Note that the machines of a name are one node, say with a new mainboard; return what went wrong.

    Args:
        place: The history in which that was noted: a store's folder, else nothing is done.
        node: The node's name.
    """

    def noted(known: NodeStanding) -> NodeStanding:
        return replace(known, runs=tuple(replace(one, marks=()) for one in known.runs))

    return _change_known(place, node, noted)


def _change_known(place: str, node: str, noted: Callable[[NodeStanding], NodeStanding]) -> str:
    store = Path(place)
    there = "://" not in place and standing_file(store, name_in(store, node)).stem in _names(store)
    return _change(store, node, noted) if there else ""


def _change(store: Path, node: str, noted: Callable[[NodeStanding], NodeStanding]) -> str:
    node = name_in(store, node)
    path = standing_file(store, node)
    try:
        with _alone(path):
            try:
                known = read_standing(store, node)
            except StandingError:
                known = None
            changed = noted(known or _of_journals(store, node))
            plain = {"format": _FORMAT, "version": _VERSION, **to_plain(changed)}
            write_atomically(path, json.dumps(plain, allow_nan=False) + "\n")
    except OSError as error:
        return (
            f"{path}: cannot be written ({error.strerror}); health checks do not learn of this run"
        )
    return ""


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Keep other runs of the node from changing its file meanwhile, where the file system has locks.

    Any reader of the lock file can hold it for ever, so this waits no longer than a change takes.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    held = os.open(path.with_suffix(".lock"), flags, 0o644)
    try:
        until = time.monotonic() + _LOCKED
        with contextlib.suppress(OSError):
            while not _locked(held) and time.monotonic() < until:
                time.sleep(_LOCKED / 100)
        yield
    finally:
        os.close(held)


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _of_journals(store: Path, node: str) -> NodeStanding:
    """Return what a node's journals say, for a file that is not there or cannot be used."""
    return NodeStanding(node=node, runs=_relevant([*_journals(store, node)]))


def _journals(store: Path, node: str) -> Iterator[KeptRun]:
    """Yield what the journals of a node say, the latest ones."""
    from pytest_anubis.store.earlier_runs import journals_of

    for path in journals_of(store, node)[:_JOURNALS]:
        with contextlib.suppress(JournalError):
            record = read_journal(path)
            began = moment(record.started) or 0.0
            yield _kept(record, began, moment(record.ended) or began, "")


def dated_run(record: RunRecord, now: float) -> JudgedRun:
    """Return what a run says about its node, by its own clock; where that is ahead, it passed nothing.

    When such a run took place is unknown: what it found stands, and it clears nothing.

    Args:
        record: The run.
        now: The present, seconds since 1970.
    """
    began = moment(record.started) or 0.0
    judged = judged_of(record, began=began, ended=moment(record.ended))
    return replace(judged, passed=()) if began - now > CLOCKS_DIFFER else judged


def _kept(record: RunRecord, began: float, ended: float, reason: str) -> KeptRun:
    verdict = record.node_verdict
    return KeptRun(
        judged=judged_of(record, began=began, ended=ended),
        reason=reason or (verdict.headline if verdict else record.broken_off),
        baseline=verdict.baseline if verdict else "",
        hardware_class=record.hardware_class,
        marks=tuple(sorted(marks_of(record))),
    )


def _relevant(runs: Collection[KeptRun]) -> tuple[KeptRun, ...]:
    of_run = {one.judged.run: one for one in runs}
    found = [
        replace(
            kept := of_run[one.run],
            judged=one,
            # It names what it found, of which later runs may have answered the worst.
            reason=kept.reason if one.failed == kept.judged.failed else "",
        )
        for several in _machines(runs)
        for one in relevant_runs(kept.judged for kept in several)
    ]
    return tuple(sorted(found, key=lambda one: one.judged.order))


def _machines(runs: Iterable[KeptRun]) -> list[list[KeptRun]]:
    """Return runs by machine, in the order in which they began; an unknown machine counts as the first."""
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


def boot_id() -> str:
    """Return an id of this start of the machine; empty where the kernel tells none."""
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
