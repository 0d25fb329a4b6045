"""Going on with an interrupted run: what is done is not repeated, what was cut short is marked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_anubis.session.context import RunContext, context_key
from pytest_anubis.settings import Settings

if TYPE_CHECKING:
    from pytest_anubis.core.run import RunRecord

LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Earlier:
    """The part of the run that lies behind.

    Attributes:
        record: Everything that the journal tells.
        path: The journal.
    """

    record: RunRecord
    path: Path

    @property
    def done(self) -> tuple[str, ...]:
        """Tests that ended, by node id."""
        return tuple(r.test for r in self.record.results if r.outcome != "not reported")

    @property
    def interrupted(self) -> tuple[str, ...]:
        """Tests that had begun and never ended."""
        return tuple(
            r.test
            for r in self.record.results
            if r.outcome == "not reported" and r.text.startswith("started")
        )


def find_earlier(settings: Settings) -> Earlier:
    """Find the run to go on with.

    Raises:
        pytest.UsageError: There is none, it has finished, or its journal cannot be used.
    """
    from pytest_anubis.store.journal.journal_file import journal_path

    if settings.resume == LATEST:
        path, record = _latest(settings)
    else:
        path = journal_path(settings.store, settings.resume)
        record = _read(path)
        if _of_another_kind(record, settings):
            raise pytest.UsageError(
                f"--anubis-resume: run {record.run} had --anubis-mode={record.settings['mode']}, "
                f"this one has {settings.mode}"
            )
    if record.ended and record.exit_status not in (2, 3):
        raise pytest.UsageError(
            f"--anubis-resume: run {record.run} has finished; leave the option out for a new run"
        )
    return Earlier(record, path)


def _latest(settings: Settings) -> tuple[Path, RunRecord]:
    """Return the latest run of this kind; `anubis learn` and `anubis certify` leave measuring runs there."""
    paths = sorted(
        (settings.store / "runs").glob("*/journal.jsonl"),
        key=lambda path: path.stat().st_mtime,
        reverse=True,
    )
    for path in paths:
        record = _read(path)
        if not _of_another_kind(record, settings):
            return path, record
    raise pytest.UsageError(f"--anubis-resume: {settings.store} holds no run to go on with")


def _of_another_kind(record: RunRecord, settings: Settings) -> bool:
    return bool(record.settings.get("mode", settings.mode) != settings.mode)


def _read(path: Path) -> RunRecord:
    from pytest_anubis.store.journal.journal_events import JournalError
    from pytest_anubis.store.journal.journal_file import read_journal

    try:
        return read_journal(path)
    except JournalError as error:
        raise pytest.UsageError(f"--anubis-resume: {error}") from error


def check_same(earlier: Earlier, context: RunContext) -> None:
    """Refuse to join what was measured on another node or hardware class.

    Raises:
        pytest.UsageError: They differ.
    """
    for what, then, now in (
        ("node", earlier.record.node, context.node),
        ("hardware class", earlier.record.hardware_class, context.hardware_class),
    ):
        if then != now:
            raise pytest.UsageError(
                f"--anubis-resume: run {earlier.record.run} is of {what} {then}, this is {now}"
            )


class SkipDone:
    """Leaves out the tests that ended in the earlier part; in workers too."""

    # Last: every other selection comes first, and the original order is kept.
    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Deselect what is done."""
        done = set(config.stash[context_key].done)
        dropped = [item for item in items if item.nodeid in done]
        if dropped:
            items[:] = [item for item in items if item.nodeid not in done]
            config.hook.pytest_deselected(items=dropped)
