"""Whether a schedule keeps to what there is, reckoned from its runs alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pytest_anubis.selector.planning.placing.schedule_records import Slot

_EPS = 1e-6
"""Seconds by which a sum of durations may be off."""


def violations(
    slots: Sequence[Slot],
    *,
    seconds: float,
    at_once: int | None,
    pools: Mapping[str, int],
    needs: Mapping[str, Mapping[str, int]],
) -> list[str]:
    """Return what is wrong with a schedule, one line each: reckoned from its runs alone.

    Args:
        slots: The runs.
        seconds: Length of the window.
        at_once: How many nodes may be out of service at a time; None: all.
        pools: Scarce things -> how many there are.
        needs: Benchmark -> pool -> how many of it.
    """
    wrong = [
        f"{one.node}: {one.benchmark} is outside of the window"
        for one in slots
        if one.start < -_EPS or one.start + one.seconds > seconds + 2 * _EPS
    ]
    spans: dict[str, tuple[float, float]] = {}
    busy: dict[tuple[str, str], list[tuple[float, int]]] = {}
    for one in slots:
        begin, end = spans.get(one.node, (one.start, one.start))
        spans[one.node] = (min(begin, one.start), max(end, one.start + one.seconds))
        events = [(one.start + 2 * _EPS, 1), (one.start + one.seconds - _EPS, -1)]
        busy.setdefault(("node", one.node), []).extend(events)
        for pool, count in needs.get(one.benchmark, {}).items():
            if len(set(one.units.get(pool, ()))) != count:
                wrong.append(f"{one.node}: {one.benchmark} lacks its {pool}")
            for unit in one.units.get(pool, ()):
                if not 0 <= unit < pools[pool]:
                    wrong.append(f"{one.node}: there is no {pool} {unit}")
                busy.setdefault((pool, str(unit)), []).extend(events)
    for (kind, name), events in busy.items():
        if _peak(events) > 1:
            wrong.append(f"{kind} {name} does two things at once")
    out = [(b + 2 * _EPS, 1) for b, _ in spans.values()] + [
        (e - _EPS, -1) for _, e in spans.values()
    ]
    if at_once is not None and _peak(out) > at_once:
        wrong.append(f"{_peak(out)} nodes are out of service at once, {at_once} may be")
    return wrong


def _peak(events: Iterable[tuple[float, int]]) -> int:
    now = most = 0
    for _, change in sorted(events):
        now += change
        most = max(most, now)
    return most
