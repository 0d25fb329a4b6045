"""Send runs and imports that a history lacks into it, each once, for `anubis push`; a failure loses nothing.

A run stays in its store until the history has it, and pushing it again is harmless. Journals have verdicts;
imports get theirs from the caller's `Judge`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeVar

import sqlalchemy as sa

from pytest_anubis.codec.regular_files import file_sha256
from pytest_anubis.core.asking.next_step import as_partial, as_shared, lacks_benchmarks
from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.sample import Population
from pytest_anubis.core.verdict import Decision, NodeVerdict, Outcome, Reason, Triage
from pytest_anubis.store.collected_runs import RunSet, read_runs
from pytest_anubis.store.fleet.unfiled import (
    Begun,
    filed_imports,
    filed_runs,
    import_name,
    is_filed,
    store_of,
    with_dated_runs,
)
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.bounded_use import HISTORY_TIMEOUT, use_history
from pytest_anubis.store.history.contents.content_rows import (
    Content,
    columns_content,
    journal_content,
)
from pytest_anubis.store.history.database import History, HistoryError
from pytest_anubis.store.history.filed_before import lost_runs_line, note_filed
from pytest_anubis.store.history.roles import APPENDED
from pytest_anubis.store.history.run_filing import News, record_together
from pytest_anubis.store.history.waiting_runs import forget, waits_for
from pytest_anubis.store.journal.journal_events import JournalError
from pytest_anubis.store.journal.journal_file import RUNS_FOLDER, has_ended, is_written
from pytest_anubis.store.journal.journal_reading import JOURNAL_NAME, read_journal
from pytest_anubis.store.node_standing import killed_here
from pytest_anubis.store.run_files import TABLES, RunsError, files_of, is_superbench
from pytest_anubis.store.samples.columnar_files import SUFFIX, Columns, columns_bytes

_BATCH_RUNS = 32
"""Runs that are sent in one transaction, which costs as much as filing a run; other writers wait for it, some
tenths of a second."""
_SLOW_RUN = 0.5
"""Seconds that filing a run may take on a slow server."""
_BATCH_BYTES = 8 << 20
"""Compressed bytes that are sent in one transaction: some seconds of a slow line."""
_SLOW_LINE = 1 << 20
"""Bytes per second of a slow line, for the time limit of a transaction."""
_YOUNG = 10.0
"""Seconds after its last change in which a journal without an end counts as being written, unless its process
is gone (`killed_here`). Testing its lock would take the lock for a moment."""
_MAX_PAUSE = 30.0
"""Seconds between attempts while a history is away; the pause is random, since many nodes come at once."""

T = TypeVar("T")
RunKey = tuple[str, str, str]
"""Id of a run, its node and hardware class."""


class Judge(Protocol):
    """A function that judges imported runs."""

    def __call__(self, runs: RunSet) -> Iterable[RunRecord]:
        """Return each run of an import, judged by itself."""
        ...

    def together(self, imports: Sequence[Path]) -> Mapping[RunKey, NodeVerdict]:
        """Return the verdicts of nodes that all runs together accept, or that are rejected as a group."""
        ...


@dataclass(slots=True, kw_only=True)
class Pushed:
    """The result of pushing runs."""

    new: int = 0  # how many were filed
    changed: int = 0  # how many replaced an earlier state, since they went on
    known: int = 0  # how many the history had already
    running: list[str] = field(default_factory=list)  # journals that are still being written
    # One line for each run or file that could not be filed
    failed: list[str] = field(default_factory=list)
    refused: set[Path] = field(default_factory=set)  # those files
    # Notes on imports and on machines of one name, one line each
    notes: list[str] = field(default_factory=list)
    # Undecided node -> the benchmarks that none of its imports in this call has
    lacking: dict[str, frozenset[str]] = field(default_factory=dict)
    left: int = 0  # how many files were not sent, since the history became unusable
    stopped: str = ""  # why it did, in one line; empty if it did not


@dataclass(frozen=True, slots=True)
class _Parcel:
    """One run, ready to be sent."""

    record: RunRecord
    content: Content | None  # none of a journal of the history's own store
    path: Path

    @property
    def packed(self) -> int:
        """Bytes that it takes in the database."""
        return 0 if self.content is None else self.content.packed


def push(
    paths: Iterable[Path],
    place: Path | str,
    *,
    judge: Judge | None = None,
    patience: float = 0.0,
    progress: Callable[[str], None] | None = None,
) -> Pushed:
    """Send the runs that a history does not have yet.

    Args:
        paths: Journals, imports and tables, and folders of them.
        place: The history: the folder of a store or a database URL.
        judge: Judges the runs of an import; without it they have no verdicts.
        patience: Seconds for which an unusable history is tried again.
        progress: Called with how many runs are read, and how many files there are, in a few words.

    Raises:
        RunsError: A path does not exist.
    """
    files, left = files_of(paths)
    pushed = Pushed(failed=[one.line for one in left])
    until = time.monotonic() + patience
    if not files:
        pushed.notes.append(
            "no journal and no import is in these; of what was exported, push the journals or imports that "
            "it came from"
        )
    done = 0

    def send(parcels: list[_Parcel]) -> None:
        _patiently(lambda: _send(place, parcels, pushed), until)
        if progress is not None:
            runs = pushed.new + pushed.changed + pushed.known + len(pushed.failed)
            progress(f"{runs} runs read, {len(files)} files in all")

    def known(digests: list[str]) -> set[str]:
        return _patiently(lambda: _known(place, digests), until)

    try:
        # First of all, find out whether the history can be used.
        if lost := _patiently(
            lambda: use_history(place, lambda one: lost_runs_line(one, place)), until
        ):
            pushed.notes.append(lost)
        imports = any(map(_is_import, files))
        begun = _patiently(lambda: use_history(place, filed_imports), until) if imports else {}
        for start in range(0, len(files), _BATCH_RUNS):
            part = files[start : start + _BATCH_RUNS]
            parcels: list[_Parcel] = []
            for parcel in _parcels(part, place, begun, pushed, known, judge, files):
                parcels.append(parcel)
                full = sum(one.packed for one in parcels) > _BATCH_BYTES
                if full or len(parcels) == _BATCH_RUNS:
                    send(parcels)
                    parcels = []
            send(parcels)
            done += len(part)
        own = [] if isinstance(place, str) else [(import_name(one, place), one) for one in files]
        taken = {
            name: file_sha256(one)
            for name, one in own
            if name and one.suffix == SUFFIX and one not in pushed.refused
        }
        use_history(place, lambda history: note_filed(history, place, taken))
    except HistoryError as error:
        pushed.stopped = str(error)
        pushed.left = len(files) - done
    return pushed


def _patiently(work: Callable[[], T], until: float) -> T:
    """Call `work`, again while the history cannot be used, until a moment of the monotonic clock.

    Raises:
        HistoryError: The time is over.
    """
    pause = 1.0
    while True:
        try:
            return work()
        except HistoryError:
            if time.monotonic() + pause > until:
                raise
        time.sleep(random.uniform(0, pause))  # noqa: S311 - no secret
        pause = min(2 * pause, _MAX_PAUSE)


def _parcels(
    files: Iterable[Path],
    place: Path | str,
    begun: Begun,
    pushed: Pushed,
    known: Callable[[list[str]], set[str]],
    judge: Judge | None,
    every: Sequence[Path],
) -> Iterator[_Parcel]:
    """Yield the runs of `files` that have to be sent, and note the others; `every` are all files."""
    journals: list[tuple[Path, str]] = []
    for path in files:
        if _is_import(path):
            yield from _of_import(path, begun, pushed, judge, every)
        elif path.is_dir():
            pushed.failed.append(f"{path}: no {JOURNAL_NAME}; unpack it, or remove the folder")
        elif _is_running(path):
            pushed.running.append(str(path))
        else:
            try:
                journals.append((path, file_sha256(path)))
            except OSError as error:
                pushed.failed.append(f"{path}: cannot be read ({error.strerror})")
    there = known([digest for _, digest in journals])
    # The history of a store keeps only the verdicts of its own journals.
    own = {path for path, _ in journals if _lies_in(path.parent.parent, RUNS_FOLDER, place)}
    filed = _filed_own(place, own)
    for path, digest in journals:
        if digest in there or path in filed:
            pushed.known += 1
            _forget(path, place)
            continue
        try:
            content = None if path in own else journal_content(path)
            yield _Parcel(read_journal(path), content, path)
        except JournalError as error:
            pushed.failed.append(str(error))
        except OSError as error:
            pushed.failed.append(f"{path}: cannot be read ({error.strerror})")


def _is_import(path: Path) -> bool:
    return path.suffix.lower() in (SUFFIX, *TABLES) or is_superbench(path)


def _of_import(
    path: Path, begun: Begun, pushed: Pushed, judge: Judge | None, every: Sequence[Path]
) -> Iterator[_Parcel]:
    """Yield the runs of an import with their verdicts.

    A run that repeats only some measurements is undecided by itself, and one of only some cards seems to lack
    the others. It accepts the node if all runs that are pushed together do, else it says what those lack.
    """
    try:
        runs = with_dated_runs(read_runs([path]), begun)
    except RunsError as error:
        pushed.failed.append(f"{path}: {error}")
        pushed.refused.add(path)
        return
    pushed.failed += [refused.reason for refused in runs.refused]
    pushed.refused.update([path] if runs.refused else [])
    pushed.notes += runs.warnings
    judged = {(one.run, one.node, one.hardware_class): one for one in judge(runs)} if judge else {}
    found = {key: one.node_verdict for key, one in judged.items() if one.node_verdict is not None}
    bad = [key for key, one in found.items() if one.decision is not Decision.ACCEPTED]
    imports = [one for one in every if _is_import(one)]
    together = judge.together(imports) if judge is not None and bad and len(imports) > 1 else {}
    for key in bad:
        whole = together.get(key)
        if whole is not None and whole.decision is not found[key].decision:
            failed = [one for one in judged[key].effective_verdicts if one.outcome is Outcome.FAIL]
            undecided = found[key].decision is Decision.UNDECIDED
            gone = bool(failed) and all(one.reason is Reason.GONE for one in failed)
            partial = undecided or gone  # a retest of some cards does not lack the others
            whole = whole if partial and whole.decision is Decision.ACCEPTED else None
        elif whole is not None and whole.triage is Triage.SHARED:
            whole = as_shared(found[key], whole.blocking[0])
        found[key] = whole or as_partial(found[key])
        judged[key] = replace(judged[key], node_verdict=found[key])
    accepted = {key[1:] for key, one in together.items() if one.decision is Decision.ACCEPTED}
    for key, one in found.items():
        lacks = key[1:] not in accepted and lacks_benchmarks(one)
        absent = frozenset(one.absent if lacks else ())
        pushed.lacking[key[1]] = absent & pushed.lacking.get(key[1], absent)
    for record, content in _import_contents(runs):
        key = (record.run, record.node, record.hardware_class)
        known = judged.get(key, record)
        ended = known.ended or known.started  # a run of an import has always ended
        yield _Parcel(replace(known, ended=ended), content, path)


def _import_contents(runs: RunSet) -> Iterator[tuple[RunRecord, Content]]:
    """Yield the runs of an import, one for each node and class, with their content.

    The record lists what was measured, without values.
    """
    parts: dict[tuple[str, str, str], list[tuple[Population, list[int]]]] = {}
    for population in runs.populations:
        rows: dict[tuple[str, str], list[int]] = {}
        for row, unit in enumerate(zip(population.runs, population.nodes, strict=True)):
            rows.setdefault(unit, []).append(row)
        for (run, node), numbers in rows.items():
            key = (run, node, population.hardware_class)
            parts.setdefault(key, []).append((population, numbers))
    for record in runs.runs:
        key = (record.run, record.node, record.hardware_class)
        # One run at a time: copies of all samples would take the memory twice.
        own = tuple(population.only(numbers) for population, numbers in parts.get(key, ()))
        # Without its beginning, which may be the file's date: copies must have the same content.
        head = replace(record, measurements=(), started="", ended="")
        columns = Columns(populations=own, runs=(head,))
        content = columns_content(columns_bytes(columns, compress=False), sum(map(len, own)))
        yield replace(record, measurements=tuple(map(_without_values, own))), content


def _without_values(population: Population) -> Measurement:
    return Measurement(
        test=population.benchmark,
        benchmark=population.benchmark,
        component=population.component,
        metric=population.metric,
        device=population.devices[0],
        group=population.group,
        values=(),
    )


def _is_running(path: Path) -> bool:
    """Return whether a journal has no end yet and is still being written."""
    try:
        if has_ended(path):
            return False
        if time.time() - path.stat().st_mtime < _YOUNG:
            killed = killed_here(path.parent.parent.parent)
            return all(path.parent.name != one.running for one in killed)
        return is_written(path)
    except OSError:
        return False  # reading it reports the error


def _known(place: Path | str, digests: list[str]) -> set[str]:
    """Return which contents a history has already."""
    column = schema.contents.c.digest

    def ask(history: History) -> set[str]:
        with history.reading() as connection:
            rows = connection.execute(sa.select(column).where(column.in_(digests)))
            return set(rows.scalars())

    return use_history(place, ask) if digests else set()


def _lies_in(folder: Path, name: str, place: Path | str) -> bool:
    """Return whether a folder is the folder of this name in the history's own store."""
    return not isinstance(place, str) and folder.resolve() == (place / name).resolve()


def _filed_own(place: Path | str, journals: Iterable[Path]) -> set[Path]:
    """Return the journals of a history's own store that it has and that do not wait for it."""
    own = list(journals)
    if not own:
        return set()

    def ask(history: History) -> set[tuple[str, str]]:
        with history.reading() as connection:
            return filed_runs(connection)

    there = use_history(place, ask)
    return {
        path
        for path in own
        if is_filed(path, there) and not waits_for(store_of(path), path.parent.name, place)
    }


def _send(place: Path | str, parcels: list[_Parcel], pushed: Pushed) -> None:
    """Send runs over one connection; without runs, only check that the history can be used.

    Raises:
        HistoryError: The history cannot be used.
    """
    size = sum(one.packed for one in parcels)
    limit = HISTORY_TIMEOUT + size / _SLOW_LINE + len(parcels) * _SLOW_RUN
    filed = use_history(place, lambda history: _filed(history, parcels), limit=limit)
    for one, found in zip(parcels, filed, strict=True):
        if isinstance(found, HistoryError):
            pushed.failed.append(f"{one.path}: {found}")
            pushed.refused.add(one.path)
            continue
        news, lines = found
        setattr(pushed, news, getattr(pushed, news) + 1)
        pushed.notes += [line for line in lines if line not in pushed.notes]
        _forget(one.path, place)


def _filed(
    history: History, some: Sequence[_Parcel]
) -> list[tuple[News, list[str]] | HistoryError]:
    """File runs together, or each by itself if that fails."""
    if not some:
        return []
    try:
        return record_together(history, [(one.record, one.content) for one in some])
    except HistoryError as error:
        if len(some) == 1:
            if not _may_file(history, error):
                raise
            return [error]
    return [found for one in some for found in _filed(history, [one])]


def _may_file(history: History, error: HistoryError) -> bool:
    """Return whether this role can file runs at all, after one failed: then the fault is that run's.

    Raises:
        HistoryError: The history cannot be used any more.
    """
    with history.reading() as connection:
        if connection.dialect.name != "postgresql":
            connection.execute(sa.select(1))
            return not error.denied
        may = (sa.func.has_table_privilege(table.name, "INSERT") for table in APPENDED)
        return bool(connection.execute(sa.select(sa.and_(*may))).scalar())


def _forget(journal: Path, place: Path | str) -> None:
    """Remove the note that a run waits, if it is in a store and waited for this history."""
    runs = journal.parent.parent
    if journal.name == JOURNAL_NAME and runs.name == RUNS_FOLDER:
        name = journal.parent.name
        if waits_for(runs.parent, name, place):
            forget(runs.parent, name)
