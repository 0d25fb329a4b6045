"""Limits of noise, and failures under widened limits, which count as to be measured again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_anubis.core.verdict import NOISY, MetricVerdict, Outcome

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
    """Return the option with all limits above the defaults in any part of a run; empty if there are none.

    Args:
        parts: The settings of each part of the run, as plain data.
    """
    found: dict[str, float] = {}
    for part in parts:
        limits = part.get("quiet_limits")
        for name, share in limits.items() if isinstance(limits, Mapping) else ():
            if isinstance(share, int | float) and share > LIMITS.get(name, 1.0):
                found[name] = max(share, found.get(name, 0.0))
    limits = ",".join(f"{name}={100 * share:g}%" for name, share in sorted(found.items()))
    return f"--anubis-quiet-limit={limits}" if limits else ""


def noise_options(parts: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the pytest options that allowed noise, which the next measurement needs as well.

    Args:
        parts: See `widened`.
    """
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
