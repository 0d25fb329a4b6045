"""Single comparisons of the inventory gate, each giving findings in plain words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pytest_anubis.core.inventory import GateFinding

Severity = Literal["FAIL", "INCONCLUSIVE", "NOTE"]
Value = str | int | float | bool | None

NO_READING = "find out why the sensor does not answer"


def equal(
    what: str,
    slot: str,
    expected: Value,
    found: Value,
    severity: Severity,
    component: str,
    action: str = "",
) -> Iterator[GateFinding]:
    """Yield a finding when a value differs; INCONCLUSIVE when it should be there and is not."""
    if expected is None or expected == found:
        return
    if found is None:
        yield no_reading(what, slot, expected, component)
        return
    yield GateFinding(
        what=what,
        slot=slot,
        expected=words(expected),
        found=words(found),
        severity=severity,
        component=component,
        action=action,
    )


def at_least(
    what: str,
    slot: str,
    expected: float | None,
    found: float | None,
    component: str,
    action: str = "",
    *,
    share: float = 1.0,
    severity: Severity = "FAIL",
) -> Iterator[GateFinding]:
    """Yield a finding when a value is below `share` of what is expected; more is never one."""
    if expected is None:
        return
    if found is None:
        yield no_reading(what, slot, expected, component)
    elif found < share * expected:
        yield GateFinding(
            what=what,
            slot=slot,
            expected=words(expected),
            found=words(found),
            severity=severity,
            component=component,
            action=action,
        )


def at_most(
    what: str, slot: str, limit: float, found: float | None, component: str, action: str
) -> Iterator[GateFinding]:
    """Yield a failure when a counter is above its limit; an absent counter is none."""
    if found is not None and found > limit:
        yield GateFinding(
            what=what,
            slot=slot,
            expected=f"at most {words(limit)}",
            found=words(found),
            severity="FAIL",
            component=component,
            action=action,
        )


def no_reading(what: str, slot: str, expected: Value, component: str) -> GateFinding:
    """Return the finding for a value that the class's nodes have and this node does not show."""
    return GateFinding(
        what=what,
        slot=slot,
        expected=words(expected),
        found="not readable",
        severity="INCONCLUSIVE",
        component=component,
        action=NO_READING,
    )


def words(value: Value) -> str:
    """Return a value as people write it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


def gib(size: float) -> str:
    """Return bytes in GiB."""
    return f"{size / (1 << 30):.1f} GiB"
