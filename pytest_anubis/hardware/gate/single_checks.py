"""Compare single values for the inventory gate and yield findings about them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pytest_anubis.core.inventory import FindingKind, GateFinding
from pytest_anubis.hardware.inventory.hardware_classes import words

Severity = Literal["FAIL", "INCONCLUSIVE", "NOTE"]
Value = str | int | float | bool | None


def deviation(
    slot: str,
    component: str,
    what: str,
    expected: Value,
    found: Value,
    severity: Severity,
    action: str = "",
    kind: FindingKind = FindingKind.OTHER,
) -> GateFinding:
    """Return a finding, with its values in words."""
    return GateFinding(
        what=what,
        slot=slot,
        expected=words(expected),
        found=words(found),
        severity=severity,
        component=component,
        action=action,
        kind=kind,
    )


def equal(
    what: str,
    slot: str,
    expected: Value,
    found: Value,
    severity: Severity,
    component: str,
    action: str = "",
) -> Iterator[GateFinding]:
    """Yield a finding if a value differs; INCONCLUSIVE if it is missing."""
    if expected is None or expected == found:
        return
    if found is None:
        yield no_reading(what, slot, expected, component)
    else:
        yield deviation(slot, component, what, expected, found, severity, action)


def at_least(
    what: str,
    slot: str,
    expected: float | None,
    found: float | None,
    component: str,
    action: str = "",
    *,
    severity: Severity = "FAIL",
) -> Iterator[GateFinding]:
    """Yield a finding if a value is below the expected one; INCONCLUSIVE if it is missing."""
    if expected is None:
        return
    if found is None:
        yield no_reading(what, slot, expected, component)
    elif found < expected:
        yield deviation(slot, component, what, expected, found, severity, action)


def at_most(
    what: str, slot: str, limit: float, found: float | None, component: str, action: str
) -> Iterator[GateFinding]:
    """Yield a failure if a counter is above its limit; a missing counter gives no finding."""
    if found is not None and found > limit:
        yield deviation(slot, component, what, f"at most {words(limit)}", found, "FAIL", action)


def no_reading(what: str, slot: str, expected: Value, component: str) -> GateFinding:
    """Return the finding about a value that the golden inventory has and this node does not."""
    action = "find out why the sensor does not answer"
    return deviation(slot, component, what, expected, "not readable", "INCONCLUSIVE", action)


def gib(size: float) -> str:
    """Return bytes in GiB."""
    return f"{size / (1 << 30):.1f} GiB"
