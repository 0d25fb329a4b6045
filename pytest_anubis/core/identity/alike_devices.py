"""Devices of one node that fail alike: whoever pulls one card must know that it is not the only one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_anubis.core.verdict import HOST, MetricVerdict, Reason

_NAMED = 2
"""Devices that are named where there are many."""


def failing_alike(worst: MetricVerdict, found: Iterable[MetricVerdict]) -> list[MetricVerdict]:
    """Return those of other devices that tell the same trouble of the same metric in the same run."""
    if worst.device in HOST or worst.reason is Reason.HARDWARE:
        return []
    alike = {
        verdict.device: verdict
        for verdict in found
        if verdict.device not in ("", *HOST, worst.device)
        and _sort(verdict) == _sort(worst)
        and _kind(verdict.device) == _kind(worst.device)
    }
    return list(alike.values())


def without_repeats(found: Sequence[MetricVerdict]) -> list[MetricVerdict]:
    """Return verdicts without the metrics of tests whose own check failed: that it did is one failure."""
    checks = {_place(v) for v in found if v.reason is Reason.TEST_FAILED and not v.metric}
    return [
        v
        for v in found
        if not (v.metric and v.reason is Reason.TEST_FAILED and _place(v) in checks)
    ]


def latest_of(found: Iterable[MetricVerdict]) -> list[MetricVerdict]:
    """Return of what several runs found the latest run's verdict only.

    Args:
        found: Verdicts, in the order in which their runs began.
    """
    return list({same_thing(verdict): verdict for verdict in found}.values())


def _place(verdict: MetricVerdict) -> tuple[str, str]:
    return verdict.benchmark, verdict.device or "node"


def other_verdicts(worst: MetricVerdict, found: Sequence[MetricVerdict]) -> list[MetricVerdict]:
    """Return those that say something else than the worst does with the devices that fail alike.

    What several runs found of one device is one thing. The loss of a node as a whole is that of its devices,
    where several of them have it.

    Args:
        worst: The verdict that is reported; perhaps one of the others.
        found: All that are bad.
    """
    alike = failing_alike(worst, found)
    same = {*map(same_thing, (worst, *alike))}
    rest = (one for one in without_repeats(found) if same_thing(one) not in same)
    left = latest_of(rest)
    if not alike:
        return left
    return [v for v in left if v.scope != "node" or _sort(v) != _sort(worst)]


def alike_text(worst: MetricVerdict, found: Iterable[MetricVerdict], devices: Iterable[str]) -> str:
    """Say which devices fail as the worst does: ``all 8 cards``, ``cuda:1, cuda:3 and 2 more``.

    Args:
        worst: The worst verdict.
        found: All that are bad.
        devices: All devices of the node that are known, in any order, the failing ones or not.

    Returns:
        The phrase; empty where no other device fails so.
    """
    failing = {worst.device, *(verdict.device for verdict in failing_alike(worst, found))}
    if len(failing) < 2:
        return ""
    kind = _kind(worst.device)
    if failing.issuperset(device for device in devices if _kind(device) == kind):
        what = "cards" if ":" in worst.device and ">" not in worst.device else "devices"
        return f"all {len(failing)} {what}"
    *first, last = sorted(failing, key=_in_order)
    if len(failing) <= _NAMED + 1:
        return f"{', '.join(first)} and {last}"
    return f"{', '.join(first[:_NAMED])} and {len(failing) - _NAMED} more"


def same_thing(verdict: MetricVerdict) -> tuple[object, ...]:
    """Return what is wrong with which device, whichever run found it."""
    what = (verdict.benchmark, verdict.metric, verdict.group, verdict.scope, verdict.device)
    return *what, verdict.trouble, "" if verdict.metric else verdict.text


def _sort(verdict: MetricVerdict) -> tuple[object, ...]:
    how = verdict.trouble if verdict.metric else verdict.reason
    return verdict.benchmark, verdict.metric, how, verdict.run


def _kind(device: str) -> str:
    """Return what a device is, without its number: ``cuda``, ``rank``; of a pair that of both."""
    return ">".join(part.partition(":")[0].rstrip("0123456789") for part in device.split(">"))


def _in_order(device: str) -> tuple[int, str]:
    return len(device), device
