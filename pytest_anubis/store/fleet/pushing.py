"""Pushing runs into a history: whatever is not there yet, each once, and nothing is lost where it fails.

A run stays where it is until the history has it; pushing it again is harmless.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeVar

import sqlalchemy as sa

from pytest_anubis.codec.regular_files import open_regular
from pytest_anubis.core.asking.next_step import as_shared
from pytest_anubis.core.events import RunFinished
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import Decision, NodeVerdict, Outcome, Reason
from pytest_anubis.store.collected_runs import RunSet, read_runs
from pytest_anubis.store.fleet.import_contents import import_contents
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.bounded_use import HISTORY_TIMEOUT, use_history
from pytest_anubis.store.history.contents.content_rows import Content, digest_of, journal_content
from pytest_anubis.store.history.database import History, HistoryError
from pytest_anubis.store.history.filed_before import lost_runs_line, note_filed
from pytest_anubis.store.history.roles import APPENDED
from pytest_anubis.store.history.run_filing import News, record_together
from pytest_anubis.store.history.waiting_runs import forget, waits_for
from pytest_anubis.store.importers.import_result import IMPORTS_FOLDER
from pytest_anubis.store.journal.journal_events import JournalError
from pytest_anubis.store.journal.journal_file import RUNS_FOLDER, is_written
from pytest_anubis.store.journal.journal_reading import JOURNAL_NAME, read_journal
from pytest_anubis.store.node_standing import killed_here
from pytest_anubis.store.run_files import TABLES, RunsError, files_of, is_superbench
from pytest_anubis.store.samples.columnar_files import SUFFIX

_AT_ONCE = 32
"""Runs that are sent over one connection in one transaction, each of which costs as much as filing a run:
whoever else files waits for these at most, some tenths of a second."""
_SLOW_RUN = 0.5
"""Seconds that filing a run may take on a slow server."""
_BYTES_AT_ONCE = 8 << 20
"""Bytes, compressed, that are sent over one connection: some seconds of a slow line."""
_SLOW_LINE = 1 << 20
"""Bytes a second, at least: what is sent may take so much longer than one question to a history."""
_YOUNG = 10.0
"""Seconds in which a journal without an end has changed and so is still written, unless its process is known
to be gone (`killed_here`); its lock is left alone then, since whoever looks at it holds it for a moment."""
_LONGEST_PAUSE = 30.0
"""Seconds between two tries while a history is away; a fleet's nodes come at random moments within."""

T = TypeVar("T")
Run = tuple[str, str, str]
"""Id of a run, its node and hardware class."""


class Judge(Protocol):
    """Gives imported runs their verdicts."""

    def __call__(self, runs: RunSet) -> Iterable[RunRecord]:
        """Return each run of an import, judged by itself."""
        ...

    def together(self, imports: Sequence[Path]) -> Mapping[Run, NodeVerdict]:
        """Return what all runs of each node say that is accepted so, or rejected as its whole group."""
        ...


@dataclass(slots=True, kw_only=True)
class Pushed:
    """What became of the runs.

    Attributes:
        new: How many are in the history now.
        changed: How many were there in an earlier state: they went on since.
        known: How many were there already.
        running: Journals that are still being written.
        failed: One line for each run or file that could not be filed.
        refused: Those files.
        notes: What was noteworthy inside imports, and machines of one name, one line each.
        left: How many files were not sent, since the history could not be used any more.
        stopped: Why, in one line; empty if it could be used.
    """

    new: int = 0
    changed: int = 0
    known: int = 0
    running: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    refused: set[Path] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    left: int = 0
    stopped: str = ""


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
    """Send runs that a history does not have yet.

    Args:
        paths: Journals, imports and tables, and folders of them.
        place: The history: the folder of a store or a database URL.
        judge: Gives the runs of an import their verdicts; without it they have none.
        patience: Seconds for which a history that cannot be used is tried again.
        progress: Called with how many runs and files are done, in a few words.

    Raises:
        RunsError: A path does not exist.
    """
    files, left = files_of(paths)
    pushed, until = Pushed(failed=[one.line for one in left]), time.monotonic() + patience
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
            progress(f"{runs} runs, {done} of {len(files)} files read")

    def known(digests: list[str]) -> set[str]:
        return _patiently(lambda: _known(place, digests), until)

    try:
        # Whether the history can be used at all is seen before anything is read.
        if lost := _patiently(
            lambda: use_history(place, lambda one: lost_runs_line(one, place)), until
        ):
            pushed.notes.append(lost)
        for start in range(0, len(files), _AT_ONCE):
            part = files[start : start + _AT_ONCE]
            parcels: list[_Parcel] = []
            for parcel in _parcels(part, place, pushed, known, judge, files):
                parcels.append(parcel)
                full = sum(one.packed for one in parcels) > _BYTES_AT_ONCE
                if full or len(parcels) == _AT_ONCE:
                    send(parcels)
                    parcels = []
            send(parcels)
            done += len(part)
        taken = {
            one.name: digest_of(one)
            for one in files
            if _lies_in(one.parent, IMPORTS_FOLDER, place) and one not in pushed.refused
        }
        use_history(place, lambda history: note_filed(history, place, taken))
    except HistoryError as error:
        pushed.stopped, pushed.left = str(error), len(files) - done
    return pushed


def _patiently(work: Callable[[], T], until: float) -> T:
    """Do something with a history, again while it cannot be used and there is time.

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
        pause = min(2 * pause, _LONGEST_PAUSE)


def _parcels(
    files: Iterable[Path],
    place: Path | str,
    pushed: Pushed,
    known: Callable[[list[str]], set[str]],
    judge: Judge | None,
    every: Sequence[Path],
) -> Iterator[_Parcel]:
    """Yield what is to be sent of some files out of all; what need not or cannot is noted."""
    journals: list[tuple[Path, str]] = []
    for path in files:
        if _is_import(path):
            yield from _of_import(path, pushed, judge, every)
        elif path.is_dir():
            pushed.failed.append(f"{path}: no {JOURNAL_NAME}; unpack it, or remove the folder")
        elif _is_running(path):
            pushed.running.append(str(path))
        else:
            try:
                journals.append((path, digest_of(path)))
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
    return path.suffix == SUFFIX or path.suffix.lower() in TABLES or is_superbench(path)


def _of_import(
    path: Path, pushed: Pushed, judge: Judge | None, every: Sequence[Path]
) -> Iterator[_Parcel]:
    """Yield the runs of an import.

    A run that measures some of a node's values again is undecided by itself, and one of most cards seems to
    have lost the others. Where all runs of the node that are pushed together accept it, so does this one.
    """
    try:
        runs = read_runs([path])
    except RunsError as error:
        pushed.failed.append(f"{path}: {error}")
        pushed.refused.add(path)
        return
    pushed.failed += [refused.reason for refused in runs.refused]
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
            partial = undecided or gone  # of a retest of some cards the others are not gone
            whole = whole if partial and whole.decision is Decision.ACCEPTED else None
        elif whole is not None:
            whole = as_shared(found[key], whole.blocking[0])
        if whole is not None:
            judged[key] = replace(judged[key], node_verdict=whole)
    for record, content in import_contents(runs):
        key = (record.run, record.node, record.hardware_class)
        known = judged.get(key, record)
        ended = known.ended or known.started  # a file of results has no run that goes on
        yield _Parcel(replace(known, ended=ended), content, path)


def _is_running(path: Path) -> bool:
    """Say whether a journal has no end yet and is still being written."""
    try:
        with open_regular(path) as file:
            file.seek(max(0, path.stat().st_size - 4096))  # the last event is a short line
            last = file.read().rstrip().rpartition(b"\n")[2]
        if last.startswith(b'{"event":"%s"' % RunFinished.kind.encode()):
            return False
        if time.time() - path.stat().st_mtime < _YOUNG:
            killed = killed_here(path.parent.parent.parent)
            return all(path.parent.name != one.running for one in killed)
        return is_written(path)
    except OSError:
        return False  # whoever reads it says why


def _known(place: Path | str, digests: list[str]) -> set[str]:
    """Return which contents a history has already."""
    column = schema.contents.c.digest

    def ask(history: History) -> set[str]:
        with history.reading() as connection:
            rows = connection.execute(sa.select(column).where(column.in_(digests)))
            return set(rows.scalars())

    return use_history(place, ask) if digests else set()


def _lies_in(folder: Path, name: str, place: Path | str) -> bool:
    """Say whether a folder is that of this name in the store whose history this is."""
    return not isinstance(place, str) and folder.resolve() == (place / name).resolve()


def _filed_own(place: Path | str, journals: Iterable[Path]) -> set[Path]:
    """Return the journals of its own store that a history has, and that do not wait for it."""
    names = {path.parent.name: path for path in journals}
    if not names:
        return set()

    def ask(history: History) -> set[str]:
        with history.reading() as connection:
            return set(connection.execute(sa.select(schema.runs.c.run)).scalars())

    there = use_history(place, ask) & names.keys()
    return {
        path
        for name, path in names.items()
        if name in there and not waits_for(path.parent.parent.parent, name, place)
    }


def _send(place: Path | str, parcels: list[_Parcel], pushed: Pushed) -> None:
    """Send runs over one connection; with none it is looked whether the history can be used.

    Raises:
        HistoryError: The history cannot be used, or not any more.
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
    """File runs together, or each by itself where one of them spoils that."""
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
    """Say whether a run could be filed here at all, after one could not: else it is no trouble of that run.

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
    """Note that a run does not wait any more, if it lies in a store and waited for this history."""
    runs = journal.parent.parent
    if journal.name == JOURNAL_NAME and runs.name == RUNS_FOLDER:
        name = journal.parent.name
        if waits_for(runs.parent, name, place):
            forget(runs.parent, name)
