"""Continues an interrupted run: finds it, compares it with today's conditions, and skips finished tests.

`live_run`, `start` and `start_worker` use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_anubis.codec import to_plain
from pytest_anubis.core.events import Resumed
from pytest_anubis.core.machine_marks import identity_marks, what_differs
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
    """The earlier part of the run."""

    state: RunState
    path: Path
    done: tuple[str, ...]  # node ids of tests that ended
    interrupted: tuple[str, ...]  # tests that began and did not end
    # The Selector's choice as plain data; None if it took no part
    choice: Mapping[str, Any] | None = None
    # Differences between then and now that verdicts depend on, one phrase each
    changed: tuple[str, ...] = ()


def find_earlier(settings: Settings) -> Earlier:
    """Find the run to continue.

    Raises:
        pytest.UsageError: There is none, it has finished, or its journal cannot be used.
    """
    if settings.resume == LATEST:
        path, state = _latest(settings)
    else:
        path = journal_path(settings.store, settings.resume)
        state = _read(path)
    record = state.record()
    if _of_another_mode(record, settings):
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
    """Return the latest run of this mode, since `anubis learn` and `anubis certify` leave measuring runs."""
    paths = sorted(
        (settings.store / "runs").glob("*/journal.jsonl"),
        key=lambda path: path.stat().st_mtime,
        reverse=True,
    )
    for path in paths:
        state = _read(path)
        if not _of_another_mode(state.record(), settings):
            return path, state
    raise pytest.UsageError(f"--anubis-resume: {settings.store} holds no run to go on with")


def _of_another_mode(record: RunRecord, settings: Settings) -> bool:
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
        *("quiet_limits", "allowed_processes"),  # the journal has the disturbances
        *("baselines", "baseline_pin", "inventory", "node"),  # compared by their contents
        *("waivers", "other_machine", "require"),  # they change the decision, but no verdict
    )
)
"""Settings that no verdict on a finished test depends on."""


def compared(earlier: Earlier, context: RunContext) -> Earlier:
    """Return the earlier part with its differences from today.

    Raises:
        pytest.UsageError: It was measured on another node or hardware class.
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
    old = parts[-1] if parts else record.settings
    new: dict[str, Any] = to_plain(without_password(context.settings))
    changed += [
        f"{name} {old[name]} then, {new[name]} now"
        for name in sorted(old.keys() & new.keys() - _HARMLESS)
        if old[name] != new[name]
    ]
    if bool(old.get("inventory")) != bool(new["inventory"]):
        changed.append("one of the inventories is this machine's, the other a recorded one")
    return replace(earlier, changed=tuple(changed))


def _exchanged(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return the first part of a node that was exchanged; empty if none is known to be.

    Cards are compared by number, because their tests are named after it. Disks and interfaces may change
    their names at each boot, so only their serial numbers and addresses are compared.

    Args:
        then: The earlier inventory as plain data; parts without a serial number are not compared.
        now: Today's inventory.
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
    for kind, word, name in (("disks", "disk", "serial"), ("nics", "network interface", "address")):
        known, found = ({part.get(name) for part in one.get(kind, ())} for one in (then, now))
        gone = sorted(str(part) for part in known - found - {None, ""})
        if gone and found - {None, ""}:
            return f"the {word} {gone[0]}, and now it is not there"
    differs = what_differs(identity_marks(then), identity_marks(now))
    return f"another machine of this name (another {differs})" if differs else ""


def unjudged(earlier: Earlier, record: RunRecord) -> list[Measurement]:
    """Return the measurements of the earlier part that must be judged now.

    If the baseline or a setting differs, these are all without a verdict in `record`; else only those of
    interrupted tests, which count although repeated.
    """
    wanted = {*earlier.interrupted, *(earlier.done if earlier.changed else ())}
    known = {(verdict.test, verdict.metric, verdict.group) for verdict in record.verdicts}
    return [
        one
        for one in record.measurements
        if one.test in wanted and (one.test, one.metric.name, one.group) not in known
    ]


class SkipDone:
    """Plugin that deselects the tests that ended in the earlier part, in workers too."""

    # Last, after every other selection.
    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Deselect finished tests."""
        done = set(config.stash[context_key].done)
        dropped = [item for item in items if item.nodeid in done]
        if dropped:
            items[:] = [item for item in items if item.nodeid not in done]
            config.hook.pytest_deselected(items=dropped)
