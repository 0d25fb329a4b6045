"""Apply to verdicts what an operator allowed: waivers, and wider limits of noise (`LIMITS`).

A failure that a waiver covers rejects nothing (`with_waiver`). A slow value under widened limits is to be
measured again (`in_noise`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from pytest_anubis.core.metric import counts_faults, named_by
from pytest_anubis.core.verdict import NOISY, MetricVerdict, Outcome, Reason, Waiver

OWN_CHECK = "check"
"""`Waiver.metric` for the failure of a test itself: its assertions, its return code. In the benchmark set
these are the exact results: checksums, elements, gradients."""

HARDWARE_BENCHMARKS = ("hardware", "inventory")
"""Benchmark ids of the hardware's own reports, and of the gate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaiversRead:
    """The event of reading the waivers; the latest in a run counts."""

    kind: ClassVar[str] = "waivers"
    # All waivers at the start of this part of the run, expired ones included
    waivers: tuple[Waiver, ...] = ()


def concerns(waiver: Waiver, node: str) -> bool:
    """Return whether a waiver is about this node."""
    return _matches(waiver.node, node)


def covers(waiver: Waiver, verdict: MetricVerdict) -> bool:
    """Return whether a waiver covers the subject of a verdict, whatever its outcome."""
    return speaks_of(waiver, verdict) and _matches(waiver.metric, name_of(verdict))


def speaks_of(waiver: Waiver, verdict: MetricVerdict) -> bool:
    """Return whether a waiver is about the test, device, component and node of a verdict."""
    return (
        (_matches(waiver.test, verdict.benchmark) or _matches(waiver.test, verdict.test))
        and _matches(waiver.device, verdict.device)
        and _matches(waiver.component, verdict.component)
        and concerns(waiver, verdict.node)
    )


def needs_its_name(verdict: MetricVerdict) -> bool:
    """Return whether a waiver must name the metric of a verdict, since a failure is wrong and not slow."""
    return (
        verdict.better == "equal"
        or verdict.reason in (Reason.TEST_FAILED, Reason.HARDWARE)
        or verdict.benchmark in HARDWARE_BENCHMARKS
        or counts_faults(verdict.metric, verdict.unit)
    )


def with_waiver(
    verdict: MetricVerdict, waivers: Sequence[Waiver], fail_on: str = "fail"
) -> MetricVerdict:
    """Return a verdict with waivers applied: a failure that one covers is waived.

    The waiver with the latest last day counts. A failure that only an expired one covers stays one, and names
    the waiver. A MARGINAL is waived only if it would reject (`fail_on`).
    """
    marginal = verdict.outcome is Outcome.MARGINAL and fail_on == "marginal"
    if verdict.waiver is not None or not (verdict.outcome is Outcome.FAIL or marginal):
        return verdict
    named = needs_its_name(verdict)
    found = [
        one
        for one in waivers
        if covers(one, verdict) and (not named or one.metric == name_of(verdict) != "")
    ]
    if not found:
        return verdict
    first = max(found, key=lambda one: (not one.expired, one.expires))
    if first.expired:
        text = (
            f"{verdict.text}; its waiver expired on {first.expires} ({first.owner}: {first.reason})"
        )
        return replace(verdict, text=text, waiver=first)
    return replace(
        verdict,
        outcome=Outcome.NOT_TESTED,
        reason=Reason.WAIVED,
        text=f"waived by {first}: {verdict.text}",
        waiver=first,
    )


def holds_on(day: str) -> Callable[[Waiver], bool]:
    """Return a predicate for waivers of earlier runs that are valid on a day (ISO 8601, UTC)."""
    return lambda waiver: not waiver.expires or day <= waiver.expires


def holds_among(waivers: Iterable[Waiver]) -> Callable[[Waiver], bool]:
    """Return a predicate for waivers of earlier runs whose scope a present, unexpired waiver has, too.

    An xfail mark is in no file and stays valid.
    """
    valid = {_scope(one) for one in waivers if not one.expired}
    return lambda waiver: not waiver.owner or _scope(waiver) in valid


def _scope(waiver: Waiver) -> Waiver:
    """Return a waiver without owner, reason and last day."""
    return replace(waiver, owner="", reason="", expires="", expired=False)


def name_of(verdict: MetricVerdict) -> str:
    """Return the name of a verdict's metric in waivers."""
    return OWN_CHECK if verdict.reason is Reason.TEST_FAILED else verdict.metric


def _matches(pattern: str, text: str) -> bool:
    return not pattern or named_by(pattern, text)


def waived_verdict(verdict: MetricVerdict) -> MetricVerdict:
    """Return the verdict of a test that failed as its xfail mark expects, which is only listed."""
    if verdict.outcome not in (Outcome.FAIL, Outcome.MARGINAL):
        return verdict
    return replace(
        verdict,
        outcome=Outcome.NOT_TESTED,
        reason=Reason.WAIVED,
        text=f"failed as its xfail mark expects: {verdict.text}",
        retest="",
    )


# The practical threshold of the criteria is a loss of 5 %. The share of other processes must stay well below
# it, or a healthy machine could be rejected because of its neighbours.
LIMITS: Mapping[str, float] = {
    "steal": 0.03,
    "others": 0.10,
    "cpu": 0.10,
    "memory": 0.05,
    "io": 0.10,
}
"""Limit -> share above which the machine is not quiet; users may set each of them:

``steal``: share of the requested CPU time that the hypervisor gave to other guests. ``others``: share of the
usable CPUs that other processes used; idle cores absorb less than that (daemons, the shell, the watch
itself), and above it a benchmark on all cores must share one. ``cpu``: share of time in which tasks waited
for a CPU because of other processes; waiting behind the run's own threads is no disturbance, so the stall is
limited to the CPU time that others used. ``memory``: share of time in which tasks waited for memory, when
reclaim and swap are measured and not the hardware. ``io``: share of time in which tasks waited for disks,
counted if both the run and other processes used them.
"""


def widened(parts: Sequence[Mapping[str, Any]]) -> str:
    """Return the option with all limits above the defaults in any part of a run; may be empty."""
    found: dict[str, float] = {}
    for part in parts:
        limits = part.get("quiet_limits")
        for name, share in limits.items() if isinstance(limits, Mapping) else ():
            if isinstance(share, int | float) and share > LIMITS.get(name, 1.0):
                found[name] = max(share, found.get(name, 0.0))
    limits = ",".join(f"{name}={100 * share:g}%" for name, share in sorted(found.items()))
    return f"--anubis-quiet-limit={limits}" if limits else ""


def noise_options(parts: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the pytest options that allowed noise in any part of a run, which the next one needs as well."""
    names = [str(name) for part in parts for name in part.get("allowed_processes") or ()]
    allowed = ",".join(dict.fromkeys(names))
    options = (widened(parts), f"--anubis-allow-process={allowed}" if allowed else "")
    return tuple(filter(None, options))


def in_noise(verdict: MetricVerdict) -> MetricVerdict:
    """Return a slow verdict under widened limits as a failure to be measured again.

    Load changes no results: wrong exact results, failed checks of a test and reports of the hardware stay
    sure.
    """
    slow = verdict.similarity is not None and verdict.better in ("higher", "lower")
    if verdict.outcome is not Outcome.FAIL or verdict.retest or not slow:
        return verdict
    return replace(verdict, retest=NOISY, text=f"{verdict.text} (retest: {NOISY})")
