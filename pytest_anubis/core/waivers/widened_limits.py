"""What a failure counts as that was measured while the machine was let be noisy: to be measured again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_anubis.core.verdict import NOISY, MetricVerdict, Outcome

# The practical threshold of the criteria is a loss of 5 %. What others take has to stay well below it, or a
# healthy machine could be rejected because of its neighbours.
LIMITS: Mapping[str, float] = {
    "steal": 0.03,
    "others": 0.10,
    "cpu": 0.10,
    "memory": 0.05,
    "io": 0.10,
}
"""Every limit that whoever runs a fleet may set, by its name, above which the machine is not quiet:

``steal``: share of the CPU time we asked for that the hypervisor gave to others. ``others``: share of the
usable CPUs that other processes used; idle cores absorb less than that (daemons, the shell, the watch
itself), and above it a benchmark on all cores must share one. ``cpu``: share of time in which tasks waited
for a CPU because of others; waiting behind one's own threads is no disturbance, so the stall counts at most
for the CPU time that others used. ``memory``: share of time in which tasks waited for memory; whoever causes
it, what is measured is then reclaim and swap, not the hardware. ``io``: share of time in which tasks waited
for disks, counted when we used the disks and others did as well.
"""


def widened(parts: Sequence[Mapping[str, Any]]) -> str:
    """Return the option with the limits above the usual ones, in any part of a run; empty if there is none.

    Args:
        parts: The settings of each part of the run, as plain data.
    """
    found: dict[str, float] = {}
    for part in parts:
        limits = part.get("quiet_limits")
        for name, share in limits.items() if isinstance(limits, Mapping) else ():
            if isinstance(share, int | float) and share > LIMITS.get(name, 1.0):
                found[name] = max(share, found.get(name, 0.0))
    told = ",".join(f"{name}={100 * share:g}%" for name, share in sorted(found.items()))
    return f"--anubis-quiet-limit={told}" if told else ""


def noise_options(parts: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the options of pytest by which noise was allowed: what is measured again needs them again.

    Args:
        parts: See `widened`.
    """
    names = [str(name) for part in parts for name in part.get("allowed_processes") or ()]
    allowed = ",".join(dict.fromkeys(names))
    told = (widened(parts), f"--anubis-allow-process={allowed}" if allowed else "")
    return tuple(filter(None, told))


def in_noise(verdict: MetricVerdict) -> MetricVerdict:
    """Return a verdict as it counts where others may have slowed what it is about: still a failure, unsure.

    Load flips no bits: an exact result that is wrong, a test's own check and what the hardware reports stay
    sure.
    """
    slow = verdict.similarity is not None and verdict.better in ("higher", "lower")
    if verdict.outcome is not Outcome.FAIL or verdict.retest or not slow:
        return verdict
    return replace(verdict, retest=NOISY, text=f"{verdict.text} (retest: {NOISY})")
