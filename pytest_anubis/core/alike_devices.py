"""Group a node's bad verdicts by fault: devices that fail alike, repeats in later runs, and all other faults.

Headlines name all devices that fail alike, so that a technician does not replace just one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_anubis.core.metric import first_of
from pytest_anubis.core.verdict import HOST, MetricVerdict, Reason

_MAX_NAMED = 2
"""Devices that a long list names before it counts the others."""


def failing_alike(worst: MetricVerdict, found: Iterable[MetricVerdict]) -> list[MetricVerdict]:
    """Return verdicts on other devices with the same trouble of the same metric in the same run."""
    if worst.device in HOST or worst.reason is Reason.HARDWARE:
        return []
    alike = {
        verdict.device: verdict
        for verdict in found
        if verdict.device not in ("", *HOST, worst.device)
        and _failure_kind(verdict) == _failure_kind(worst)
        and _device_kind(verdict.device) == _device_kind(worst.device)
    }
    return list(alike.values())


def without_repeats(found: Sequence[MetricVerdict]) -> list[MetricVerdict]:
    """Return verdicts without the metrics of tests whose own check failed, which is one failure."""
    checks = {_place(v) for v in found if v.reason is Reason.TEST_FAILED and not v.metric}
    return [
        v
        for v in found
        if not (v.metric and v.reason is Reason.TEST_FAILED and _place(v) in checks)
    ]


def latest_of(found: Iterable[MetricVerdict]) -> list[MetricVerdict]:
    """Return the latest verdict on each fault, of verdicts in the order in which their runs began."""
    return list({same_thing(verdict): verdict for verdict in found}.values())


def _place(verdict: MetricVerdict) -> tuple[str, str]:
    return verdict.benchmark, verdict.device or "node"


def other_verdicts(worst: MetricVerdict, found: Sequence[MetricVerdict]) -> list[MetricVerdict]:
    """Return the latest verdicts on faults other than the worst one and the same on other devices.

    `worst` may be among all bad verdicts, `found`. If several devices have the loss, the same loss of the
    node as a whole is no further fault.
    """
    alike = failing_alike(worst, found)
    same = {*map(same_thing, (worst, *alike))}
    rest = (one for one in without_repeats(found) if same_thing(one) not in same)
    left = latest_of(rest)
    if not alike:
        return left
    return [v for v in left if v.scope != "node" or _failure_kind(v) != _failure_kind(worst)]


def alike_text(worst: MetricVerdict, found: Iterable[MetricVerdict], devices: Iterable[str]) -> str:
    """Return the devices that fail like the worst one: ``all 8 cards``, ``cuda:1, cuda:3 and 2 more``.

    It is empty if no other device fails in the same way. `found` are all bad verdicts, `devices` all known
    devices of the node.
    """
    failing = {worst.device, *(verdict.device for verdict in failing_alike(worst, found))}
    if len(failing) < 2:
        return ""
    kind = _device_kind(worst.device)
    if failing.issuperset(device for device in devices if _device_kind(device) == kind):
        what = "cards" if ":" in worst.device and ">" not in worst.device else "devices"
        return f"all {len(failing)} {what}"
    *first, last = ordered = sorted(failing, key=lambda device: (len(device), device))
    if len(failing) <= _MAX_NAMED + 1:
        return f"{', '.join(first)} and {last}"
    return first_of(ordered, _MAX_NAMED)


def same_thing(verdict: MetricVerdict) -> tuple[object, ...]:
    """Return the key of a fault of a device, under which several runs find the same one."""
    what = (verdict.benchmark, verdict.metric, verdict.group, verdict.scope, verdict.device)
    text = (
        verdict.text.removesuffix(f"; {verdict.run_words}") if verdict.run_words else verdict.text
    )
    return *what, verdict.trouble, "" if verdict.metric else text


def _failure_kind(verdict: MetricVerdict) -> tuple[object, ...]:
    how = verdict.trouble if verdict.metric else verdict.reason
    return verdict.benchmark, verdict.metric, how, verdict.run


def _device_kind(device: str) -> str:
    """Return a device without its number: ``cuda``, ``rank``; for a pair both."""
    return ">".join(part.partition(":")[0].rstrip("0123456789") for part in device.split(">"))
