"""Keep a node's judged runs, and its run under way, in a small file, which `anubis health` reads at once."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_anubis.codec import from_plain, read_json, to_plain
from pytest_anubis.codec.moments import moment
from pytest_anubis.core.machine_marks import marks_of
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.standing.recorded_run import judged_of, unjudged_in
from pytest_anubis.core.verdict import RETEST, Decision
from pytest_anubis.store.atomic import alone, write_atomically
from pytest_anubis.store.journal import journal_heads
from pytest_anubis.store.journal.journal_events import JournalError
from pytest_anubis.store.journal.journal_file import (
    has_ended,
    is_written,
    journal_path,
    last_moment,
)
from pytest_anubis.store.journal.journal_reading import read_journal
from pytest_anubis.store.kept_runs import KeptRun, NodeStanding, relevant_kept
from pytest_anubis.store.namesakes import kept_names

FOLDER = "nodes"
"""Folder in the store; ``<node>.json`` is one node's."""

_FORMAT = "anubis-node-standing"
_VERSION = 3
_MAX_BYTES = 1 << 24  # the file of a node with eight cards has some hundred thousand
_MIN_GAP = 1e-3  # seconds between the end of one run and the beginning of the next
_MAX_JOURNALS = 200  # latest runs from which a lost file is rebuilt
_LOCK_TIMEOUT = 10.0  # seconds; rebuilding a lost file reads two hundred journals
_MAX_CLOSING = 1.0  # seconds from the end that is kept to a run's last event


class StandingError(ValueError):
    """The file cannot be used; the message is one line for people."""


def standing_file(store: Path, node: str) -> Path:
    """Return the file of a node's standing; letters that file names cannot have are encoded."""
    safe = re.sub(r"[^A-Za-z0-9._-]", lambda found: f"%{ord(found[0]):x}", node)
    return store / FOLDER / f"{safe}.json"


def name_in(store: Path, node: str) -> str:
    """Return the name under which a store knows a node: its own, or another one of the host."""
    names = _names(store)
    if standing_file(store, node).stem in names:
        return node
    same = kept_names({*names, node})
    others = (name for pair in same.items() if node in pair for name in pair if name != node)
    return next(others, node)


def _names(store: Path) -> set[str]:
    """Return the nodes that a store knows, as encoded in file names."""
    return {path.stem for path in (store / FOLDER).glob("*.json")}


def read_standing(store: Path, node: str) -> NodeStanding | None:
    """Return the standing of a node, by its short or full name; None before its first run.

    Raises:
        StandingError: The file is damaged, of another version, or cannot be read.
    """
    node = name_in(store, node)
    path = standing_file(store, node)
    again = "judge the node again: its journals are read then"
    try:
        found = read_json(path, largest=_MAX_BYTES)
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
    """Return the id of a node's latest judged run; empty without one."""
    try:
        known = read_standing(store, node)
    except StandingError:
        known = None
    return known.runs[-1].judged.run if known and known.runs else ""


def killed_here(store: Path, node: str = "") -> Iterator[NodeStanding]:
    """Yield nodes, or the given one, whose run was killed on this machine since its boot."""
    boot = boot_id()
    paths = (store / FOLDER).glob("*.json")
    for path in [standing_file(store, name_in(store, node))] if node else sorted(paths):
        with contextlib.suppress(OSError, ValueError):
            plain = read_json(path, largest=_MAX_BYTES)
            if not isinstance(plain, Mapping) or not plain.get("running"):
                continue
            known = read_standing(store, str(plain.get("node")))
            here = known is not None and known.boot == boot != ""
            if known is not None and here and not is_written(journal_path(store, known.running)):
                yield known


def keep_begun(store: Path, node: str, run: str, *, began: float, resumed: bool = False) -> str:
    """Record that a run began; a resumed one keeps its place. Return an error in one line, or nothing."""

    def noted(known: NodeStanding) -> NodeStanding:
        # A run begins after the end of all others, even if the clock went back.
        going, killed = _going_and_killed(store, known, but=run)
        runs = relevant_kept([*known.runs, *killed]) if killed else known.runs
        ends = [max(one.judged.began, one.judged.ended) + _MIN_GAP for one in runs]
        since = began if resumed else max([began, *ends, *going.values()])
        return replace(known, runs=runs).with_under_way({**going, run: since}, boot_id())

    return _change(store, node, noted)


def keep_ended(store: Path, record: RunRecord, *, ended: float, reason: str) -> str:
    """Record the result of a run; return an error in one line, else an empty text.

    A run without a verdict changes nothing. If the file cannot be written, it is deleted unless the run
    accepts: no standing is better than an outdated acceptance, and it can be rebuilt from the journals.
    """

    def noted(known: NodeStanding) -> NodeStanding:
        under_way = known.under_way
        mine = record.run in under_way
        filed = [one.judged.began for one in known.runs if one.judged.run == record.run]
        began = under_way.pop(record.run, (*filed, moment(record.started) or 0.0)[0])
        kept = _kept(record, began, ended, reason)
        runs = [one for one in known.runs if one.judged.run != record.run]
        if kept.judged.decision:
            runs.append(kept)
        left = {run: since for run, since in under_way.items() if mine or since > began}
        return replace(known, runs=relevant_kept(runs)).with_under_way(left, known.boot)

    problem = _change(store, record.node, noted)
    verdict = record.node_verdict
    if problem and verdict is not None and verdict.decision is not Decision.ACCEPTED:
        with contextlib.suppress(OSError):
            standing_file(store, name_in(store, record.node)).unlink()
    return problem


def _going_and_killed(
    store: Path, known: NodeStanding, *, but: str
) -> tuple[dict[str, float], list[KeptRun]]:
    """Return the runs but one that still go on, and those that were killed after something had failed."""
    going: dict[str, float] = {}
    killed: list[KeptRun] = []
    for run, since in known.under_way.items():
        path = journal_path(store, run)
        if run == but:
            continue
        if is_written(path):
            going[run] = since
            continue
        with contextlib.suppress(JournalError):
            record = read_journal(path)
            kept = _kept(record, since, max(since, record.last), "")
            if record.node_verdict is None and kept.judged.decision:
                killed.append(kept)
    return going, killed


def keep_answered(
    place: str,
    node: str,
    runs: Collection[str] = (),
    *,
    answered: bool = True,
    in_service: float | None = None,
) -> str:
    """Record that the operator answered for failures; return an error in one line, else an empty text.

    Args:
        place: The history with the operator's entry: a store's folder, else nothing is done.
        node: The node's name.
        runs: Runs whose defect was closed, or opened again.
        answered: False if it was opened again.
        in_service: When the node was put into service again, seconds since 1970; None: it was not.
    """

    def noted(known: NodeStanding) -> NodeStanding:
        all_runs = in_service is not None or not answered
        earlier = dict(_read(_newest_first(Path(place), node)) if all_runs else ()).values()
        every = {one.judged.run: one for one in (*earlier, *known.runs)}
        found = {*known.answered, *runs} if answered else {*known.answered}.difference(runs)
        found |= {run for run, one in every.items() if one.judged.ended < (in_service or 0.0)}
        shown = {one.judged.run for one in known.runs}.union(() if answered else runs)
        kept = (
            replace(one, judged=replace(one.judged, answered=one.judged.run in found))
            for one in sorted(every.values(), key=lambda one: one.judged.order)
            if one.judged.run in shown
        )
        return replace(known, runs=tuple(kept), answered=tuple(sorted(found)))

    return _change_known(place, node, noted)


def answered_runs(places: Iterable[Path], nodes: Iterable[str]) -> set[tuple[str, str]]:
    """Return (run, node) of the runs whose defect the operator has closed.

    Places, which are journals and folders of them, are searched upwards for their stores.
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
    """Record that the machines of a name are one node, as after a change of mainboard; return as above."""

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
        with alone(path, _LOCK_TIMEOUT):
            try:
                known = read_standing(store, node)
            except StandingError:
                known = None
            changed = noted(_with_newer(store, known or NodeStanding(node=node)))
            plain = {"format": _FORMAT, "version": _VERSION, **to_plain(changed)}
            write_atomically(path, json.dumps(plain, allow_nan=False) + "\n")
    except OSError as error:
        return (
            f"{path}: cannot be written ({error.strerror}); health checks do not learn of this run"
        )
    return ""


def newer_standing(
    store: Path, node: str, known: NodeStanding | None, *, keep: bool = False
) -> NodeStanding | None:
    """Return a node's standing with the runs that only their journals know; None without a run.

    Its file, which says what is `known`, may be missing or an older one from a backup. With `keep` a file
    that lacks anything is written anew, so that these journals are read once.
    """
    before = known or NodeStanding(node=name_in(store, node))
    found = _with_newer(store, before)
    if keep and found != before:
        _change(store, node, lambda known: known)
    return found if found.runs or found.running else None


def _with_newer(store: Path, known: NodeStanding) -> NodeStanding:
    """Return a standing with the runs that began after all that it knows, and those resumed since."""
    as_now = tuple(_as_now(store, one) for one in known.runs)
    if as_now != known.runs:
        known = replace(known, runs=relevant_kept(as_now))
    last = max([known.since or -1.0, *(one.judged.began for one in known.runs)])
    newer = _newest_first(store, known.node, without=known.running, after=last)
    if not newer:
        return known
    going, killed = _going_and_killed(store, known, but="")
    read = dict(_read(newer))
    judged = [one for one in read.values() if one.judged.decision]
    runs = relevant_kept([*known.runs, *killed, *judged])
    path, began = newer[0]
    ended = False
    with contextlib.suppress(OSError):
        ended = path in read and has_ended(path)  # an unreadable one may have rejected it
    going |= {} if ended else {path.parent.name: began}
    return replace(known, runs=runs).with_under_way(going, known.boot if ended else "")


def _as_now(store: Path, kept: KeptRun) -> KeptRun:
    """Return a run as its journal has it, if the journal has grown since the run was kept."""
    path = journal_path(store, kept.judged.run)
    if last_moment(path) <= kept.judged.ended + _MAX_CLOSING:
        return kept
    grown = dict(_read([(path, kept.judged.began)])).get(path, kept)
    judged = replace(grown.judged, answered=kept.judged.answered)
    return replace(grown, judged=judged) if judged.decision else kept


def _newest_first(store: Path, node: str, **more: Any) -> list[tuple[Path, float]]:
    """Return a node's latest journals, and when they began; not those of runs that only measured.

    A journal whose beginning is damaged belongs to the node that its run's id ends with, else to all nodes.
    """
    names = _names(store)
    heads = journal_heads.newest_first(store, {}, **more)
    found = [
        (path, journal_heads.began_of(head))
        for path, head in journal_heads.of_node(heads, node, names)
        if not (isinstance(own := head.get("settings"), dict) and own.get("mode") == "measure")
    ]
    for path, written in journal_heads.headless(store, **more):
        named = {one for one in (*names, node) if path.parent.name.endswith(f"-{one}")}
        if node in named or not named:
            found.append((path, written))
    return sorted(found, key=lambda one: one[1], reverse=True)[:_MAX_JOURNALS]


def _read(journals: Iterable[tuple[Path, float]]) -> Iterator[tuple[Path, KeptRun]]:
    for path, began in journals:
        with contextlib.suppress(JournalError):
            record = read_journal(path)
            yield path, _kept(record, began, moment(record.ended) or max(began, record.last), "")


def _kept(record: RunRecord, began: float, ended: float, reason: str) -> KeptRun:
    verdict = record.node_verdict
    return KeptRun(
        judged=judged_of(record, began=began, ended=ended),
        reason=reason
        or (verdict.headline if verdict else record.broken_off or next(iter(record.warnings), "")),
        baseline=verdict.baseline if verdict else "",
        hardware_class=record.hardware_class,
        marks=tuple(sorted(marks_of(record))),
        unjudged=unjudged_in(record.effective_verdicts),
        retest=verdict is not None and verdict.word == RETEST,
    )


def boot_id() -> str:
    """Return the id of the machine's current boot; empty if the kernel has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
