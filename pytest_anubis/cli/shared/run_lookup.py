"""Find and read the one run that a command line names, and decide a run that was cut short (`completed`)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.events import DamageFound
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.run_state import NEVER_FINISHED, NEVER_STARTED
from pytest_anubis.store.journal.journal_events import JournalError
from pytest_anubis.store.journal.journal_file import is_written, journal_path
from pytest_anubis.store.journal.journal_reading import JOURNAL_NAME, journal_file, read_journal

_NOT_YET = {NEVER_FINISHED: "is running now", NEVER_STARTED: "has not begun yet: the run goes on"}


def find_journal(name: str, store: Path) -> Path:
    """Return a run's journal or its folder; a run is named as for `read_run`."""
    path = Path(name)
    if name == "latest":
        runs = sorted((store / "runs").glob("*/journal.jsonl"), key=lambda p: p.stat().st_mtime)
        if not runs:
            raise CommandError(f"{store}: no runs yet; run 'pytest --anubis suites/' first")
        return runs[-1]
    if path.exists():
        return path
    path = journal_path(store, name)
    if not path.exists():
        raise CommandError(
            f"{name}: no such run; give its folder, its journal, its id in {store}, or 'latest'"
        )
    return path


def read_run(name: str, store: Path) -> RunRecord:
    """Read a run by its folder, its journal, its id in the store, or ``latest``."""
    path = find_journal(name, store)
    try:
        record = read_journal(path)
    except JournalError as error:
        if "no run_started event" in str(error) and path.is_file() and path.name != JOURNAL_NAME:
            hint = "what another tool measured becomes readable with 'anubis import'"
            raise CommandError(f"{error}; {hint}") from error
        raise CommandError(str(error)) from error
    return _while_it_runs(record) if not record.ended and is_written(journal_file(path)) else record


def _while_it_runs(record: RunRecord) -> RunRecord:
    """Return a run that still goes on with such a reason at its tests that have not ended."""
    results = tuple(
        one
        if one.outcome != "not reported"
        else replace(one, text=_NOT_YET.get(one.text, one.text))
        for one in record.results
    )
    return replace(record, results=results)


def is_collection(name: str) -> bool:
    """Return whether a name is that of an import, a table or a folder of runs, not of one run.

    A journal may have any name: its verdicts are shown again, not judged anew.
    """
    path = Path(name)
    if path.is_dir():
        return not (path / JOURNAL_NAME).exists()
    if path.name == JOURNAL_NAME or not path.is_file():
        return False
    from pytest_anubis.store.run_files import TABLES, is_superbench
    from pytest_anubis.store.samples.columnar_files import SUFFIX

    return path.suffix.lower() in (SUFFIX, *TABLES) or is_superbench(path)


def collected_path(name: str, store: Path) -> Path:
    """Return the path for a name: a path that exists, or a run's id in the store."""
    path = Path(name)
    return path if path.exists() else journal_path(store, name)


def completed(record: RunRecord, baseline: Baseline | None = None) -> RunRecord:
    """Give a run that was cut short the verdicts for its missing tests.

    The baseline of its class today is used if the run was judged against the same one.
    """
    damaged = any(isinstance(event, DamageFound) for event in record.events)
    settled = record.node_verdict is not None and not record.broken_off and not damaged
    if settled or record.settings.get("mode") != "judge":
        return record
    same = baseline is not None and baseline.digest == record.baseline
    from pytest_anubis.validator.deciding.run_decision import decide_run

    decision = decide_run(
        record,
        baseline if same else None,
        fail_on="marginal" if record.settings.get("fail_on") == "marginal" else "fail",
        require_all=record.settings.get("require_all") is True,
        broken_off=f"the run {record.broken_off}" if record.broken_off else "",
    )
    return replace(
        record, verdicts=(*record.verdicts, *decision.added), node_verdict=decision.node_verdict
    )
