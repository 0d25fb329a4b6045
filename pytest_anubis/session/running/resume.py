"""Going on with an interrupted run: what is done is not repeated, what was cut short is marked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_anubis.codec import to_plain
from pytest_anubis.core.events import Resumed
from pytest_anubis.core.identity.machine_marks import identity_marks, what_differs
from pytest_anubis.core.run import RESUMABLE
from pytest_anubis.session.context import RunContext, context_key
from pytest_anubis.settings import Settings, without_password
from pytest_anubis.store.journal.journal_events import JournalError
from pytest_anubis.store.journal.journal_file import journal_path
from pytest_anubis.store.journal.journal_reading import read_state

if TYPE_CHECKING:
    from pytest_anubis.core.measurement import Measurement
    from pytest_anubis.core.run import RunRecord
    from pytest_anubis.core.run_state import RunState

LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Earlier:
    """The part of the run that lies behind.

    Attributes:
        state: Everything that the journal tells; the run goes on from it.
        done: Tests that ended, by node id.
        interrupted: Tests that had begun and never ended.
        choice: What the Selector chose then, as plain data; None where it took no part.
        changed: What differs today from what the earlier verdicts rest on, one phrase each.
    """

    state: RunState
    path: Path
    done: tuple[str, ...]
    interrupted: tuple[str, ...]
    choice: Mapping[str, Any] | None = None
    changed: tuple[str, ...] = ()


def find_earlier(settings: Settings) -> Earlier:
    """Find the run to go on with.

    Raises:
        pytest.UsageError: There is none, it has finished, or its journal cannot be used.
    """
    if settings.resume == LATEST:
        path, state = _latest(settings)
    else:
        path = journal_path(settings.store, settings.resume)
        state = _read(path)
    record = state.record()
    if _of_another_kind(record, settings):
        raise pytest.UsageError(
            f"--anubis-resume: run {record.run} had --anubis-mode={record.settings['mode']}, "
            f"this one has {settings.mode}"
        )
    if record.ended and record.exit_status not in RESUMABLE:
        raise pytest.UsageError(
            f"--anubis-resume: run {record.run} has finished; leave the option out for a new run"
        )
    return Earlier(state, path, tuple(state.results), state.interrupted, record.choice)


def _latest(settings: Settings) -> tuple[Path, RunState]:
    """Return the latest run of this kind; `anubis learn` and `anubis certify` leave measuring runs there."""
    paths = sorted(
        (settings.store / "runs").glob("*/journal.jsonl"),
        key=lambda path: path.stat().st_mtime,
        reverse=True,
    )
    for path in paths:
        state = _read(path)
        if not _of_another_kind(state.record(), settings):
            return path, state
    raise pytest.UsageError(f"--anubis-resume: {settings.store} holds no run to go on with")


def _of_another_kind(record: RunRecord, settings: Settings) -> bool:
    return bool(record.settings.get("mode", settings.mode) != settings.mode)


def _read(path: Path) -> RunState:
    try:
        return read_state(path)
    except JournalError as error:
        raise pytest.UsageError(f"--anubis-resume: {error}") from error


_HARMLESS = frozenset(
    (
        *("active", "store", "history", "run_id", "resume", "explain", "redact", "goals_required"),
        *("duration", "timeout", "scratch", "junit"),
        *("quiet_limits", "allowed_processes"),  # what was disturbed then says so itself
        *(
            "baselines",
            "baseline_pin",
            "inventory",
        ),  # compared by what they hold, wherever that lies
        "node",  # compared by itself
        *("waivers", "other_machine", "require"),  # they change no verdict, only how it counts
    )
)
"""Settings that no verdict depends on; deadlines end a test, and what has ended is not judged by them."""


def compared(earlier: Earlier, context: RunContext) -> Earlier:
    """Return the earlier part with what differs today.

    Raises:
        pytest.UsageError: It was measured on another node or hardware class: these are never joined.
    """
    record = earlier.state.record()
    for what, then, now in (
        ("node", record.node, context.node),
        ("hardware class", record.hardware_class, context.hardware_class),
    ):
        if then != now:
            raise pytest.UsageError(
                f"--anubis-resume: run {record.run} is of {what} {then}, this is {now}"
            )
    if exchanged := _exchanged(record.inventory, context.inventory):
        raise pytest.UsageError(
            f"--anubis-resume: run {record.run} was begun with {exchanged}; what was measured then says "
            "nothing about this one: start a new run"
        )
    digest = context.baseline.digest if context.baseline else ""
    changed = []
    if record.baseline != digest:
        changed.append(f"baseline {record.baseline or 'none'} then, {digest or 'none'} now")
    parts = [e.settings for e in record.events if isinstance(e, Resumed) and e.settings]
    then_set = parts[-1] if parts else record.settings
    now_set: dict[str, Any] = to_plain(without_password(context.settings))
    changed += [
        f"{name} {then_set[name]} then, {now_set[name]} now"
        for name in sorted(then_set.keys() & now_set.keys() - _HARMLESS)
        if then_set[name] != now_set[name]
    ]
    if bool(then_set.get("inventory")) != bool(now_set["inventory"]):
        changed.append("one of the inventories is this machine's, the other a recorded one")
    return replace(earlier, changed=tuple(changed))


def _exchanged(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return the first part of a node that is another one than before; empty if none is known to be.

    A card's number is that of its tests, so it must be the same card there; disks and interfaces may change
    their names from one start of the machine to the next.

    Args:
        then: The earlier inventory as plain data; what it has no name for is not compared.
        now: Today's.
    """
    chassis = [one.get("system", {}).get("serial") for one in (then, now)]
    if all(chassis) and chassis[0] != chassis[1]:
        return f"the chassis {chassis[0]}, and now it is {chassis[1]}"
    cards = {card.get("index"): card for card in now.get("accelerators", ())}
    for card in then.get("accelerators", ()):
        for name in ("uuid", "serial"):
            known, found = card.get(name), cards.get(card.get("index"), {}).get(name)
            if known and found and known != found:
                return f"GPU {card.get('index')} {known}, and now it is {found}"
    for kind, word, name in (
        ("disks", "disk", "serial"),
        ("nics", "network interface", "address"),
    ):
        known, found = ({part.get(name) for part in one.get(kind, ())} for one in (then, now))
        gone = sorted(str(part) for part in known - found - {None, ""})
        if gone and found - {None, ""}:
            return f"the {word} {gone[0]}, and now it is not there"
    differs = what_differs(identity_marks(then), identity_marks(now))
    return f"another machine of this name (another {differs})" if differs else ""


def unjudged(earlier: Earlier, record: RunRecord) -> list[Measurement]:
    """Return what was measured in the earlier part and must be judged now.

    That is all of it where the baseline or a setting differs, else what tests had measured when they were cut
    short: that they are repeated does not make it good.
    """
    wanted = {*earlier.interrupted, *(earlier.done if earlier.changed else ())}
    known = {(verdict.test, verdict.metric, verdict.group) for verdict in record.verdicts}
    return [
        one
        for one in record.measurements
        if one.test in wanted and (one.test, one.metric.name, one.group) not in known
    ]


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
