"""Compare two baselines of one class (criteria, what they find), and show it, for ``anubis baseline``.

`backtest_lines` shows the verdicts on earlier runs that a new baseline would change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from pytest_anubis.codec import to_plain
from pytest_anubis.core.baseline import Baseline, Criterion
from pytest_anubis.core.metric import found_from, metric_name
from pytest_anubis.core.share_interval import share_interval
from pytest_anubis.report.text.numbers import count_text, similarity_text, value_text
from pytest_anubis.report.text.text_table import table

if TYPE_CHECKING:
    from pytest_anubis.validator.judging.backtest import Backtest

Key = tuple[str, str, str, str]
"""Benchmark, metric, group, scope."""

IN_TABLE = ("centre", "alpha", "learned", "unconfirmed", "detectable", "unit", "version", "metric")
"""Fields of a criterion and its metric that the table shows; those below it go by their names in the file."""

IN_HEAD = ("criteria", "created", "nodes", "runs", "digest")
"""Fields of a baseline that the lines above the table show, or the table itself."""

MAX_LINES = 40
"""Lines of one list shown; backtests of a fleet have thousands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What differs from one baseline to another."""

    # The criteria that differ, (before, now), in order of their keys
    changed: tuple[tuple[Criterion, Criterion], ...]
    same: int  # how many do not
    gone: tuple[Key, ...]
    added: tuple[Key, ...]
    # What else of the file differs, such as its inventory, by the names of the file
    fields: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Say whether anything differs."""
        return bool(self.changed or self.gone or self.added or self.fields)


def key_of(one: Criterion) -> Key:
    """Return the key of a criterion."""
    return one.benchmark, one.metric.name, one.group, one.scope


def key_plain(key: Key) -> dict[str, Any]:
    """Return a criterion's key under the names of the JSON answers."""
    return dict(zip(("benchmark", "metric", "group", "scope"), key, strict=True))


def changes_of(old: Baseline, new: Baseline) -> Changes:
    """Compare the criteria of two baselines."""
    before, after = ({key_of(one): one for one in b.criteria} for b in (old, new))
    both = sorted(before.keys() & after.keys())
    changed = tuple(
        (before[key], after[key]) for key in both if _meant(before[key]) != _meant(after[key])
    )
    return Changes(
        changed=changed,
        same=len(both) - len(changed),
        gone=tuple(sorted(before.keys() - after.keys())),
        added=tuple(sorted(after.keys() - before.keys())),
        fields=_unlike(old, new, IN_HEAD),
    )


def _unlike(old: Any, new: Any, but: Collection[str]) -> tuple[str, ...]:
    """Return the names of the fields in which two values of one dataclass differ, without some."""
    names = (one.name for one in fields(old) if one.name not in but)
    return tuple(name for name in names if getattr(old, name) != getattr(new, name))


def _meant(one: Criterion) -> Criterion:
    """Return a criterion without thresholds where they mean nothing: of what must be exactly so."""
    return replace(one, alpha=1.0, learned=None) if one.metric.better == "equal" else one


def changes_plain(changes: Changes) -> dict[str, Any]:
    """Return the differences as plain data: ``changed``, ``same``, ``gone``, ``added`` and ``fields``."""
    return {
        "changed": [
            key_plain(key_of(new)) | {"before": _plain(old), "now": _plain(new)}
            for old, new in changes.changed
        ],
        "same": changes.same,
        "gone": [key_plain(key) for key in changes.gone],
        "added": [key_plain(key) for key in changes.added],
        "fields": list(changes.fields),
    }


def _plain(one: Criterion) -> dict[str, Any]:
    return {
        "centre": one.typical,
        "unit": one.metric.unit,
        "alpha": one.alpha,
        "limit": to_plain(one.learned),
        "hasty": to_plain(one.unconfirmed),
        "detectable": to_plain(one.detectable),
    }


def changes_lines(changes: Changes, most: int | None = None) -> list[str]:
    """Return a table of the criteria that differ, `most` at the most, and a line for what else there is."""
    rows = [
        ["benchmark", "metric", "scope", "centre", "change", "alpha", "limit", "hasty", "finds"],
        *(_row(old, new) for old, new in changes.changed[:most]),
    ]
    lines = table(rows).splitlines() if changes.changed else []
    if most is not None and len(changes.changed) > most:
        lines.append(f"... and {len(changes.changed) - most} more that differ")
    if changes.same or not changes:
        lines.append(f"{count_text(changes.same, 'criterion')} as before")
    lines += _beyond_table(changes.changed)
    if changes.fields:
        lines.append(f"of the whole file: {', '.join(changes.fields)} (compare the files)")
    lines += _listed("no longer there", changes.gone, most)
    return lines + _listed("new", changes.added, most)


def _listed(what: str, keys: tuple[Key, ...], most: int | None) -> list[str]:
    lines = [f"{what}: {metric_name(*key)}" for key in keys[:most]]
    more = len(keys) - len(lines)
    return [*lines, f"{what}: {more} more"] if more else lines


def _beyond_table(changed: Iterable[tuple[Criterion, Criterion]]) -> list[str]:
    """Name the fields outside of the table that differ in any criterion."""
    counts: Counter[str] = Counter()
    for old, new in changed:
        counts.update(_unlike(old, new, IN_TABLE))
        counts.update(_unlike(old.metric, new.metric, IN_TABLE))
    names = ", ".join(f"{name} of {count}" for name, count in counts.items())
    return [f"besides: {names}"] if names else []


def _row(old: Criterion, new: Criterion) -> list[str]:
    before = old.typical
    after = new.typical
    exact = new.metric.better == "equal"
    if after == before:
        change = "-"
    elif exact or not before:
        change = f"was {value_text(before, old.metric.unit)}"
    else:
        change = f"{100 * (after - before) / before:+.1f} %"
    if old.metric.unit != new.metric.unit:
        change = f"unit {old.metric.unit} -> {new.metric.unit}"
    elif old.metric.version != new.metric.version:
        change = f"version {old.metric.version} -> {new.metric.version}"
    name = new.benchmark.rpartition("/")[2] + (f" ({new.group})" if new.group else "")
    centre = value_text(after, new.metric.unit)
    row = [name, new.metric.name, new.scope, centre, change]
    if exact:  # thresholds mean nothing to what must be exactly so
        return [*row, "-", "-", "-", "-"]
    pairs = [(old.alpha, new.alpha), (old.learned, new.learned), (old.unconfirmed, new.unconfirmed)]
    row += [_arrow(*map(similarity_text, pair)) for pair in pairs]
    finds = (found_from(one.detectable, one.metric.better) for one in (old, new))
    return [*row, _arrow(*finds)]


def _arrow(before: str, now: str) -> str:
    return now if before == now else f"{before} -> {now}"


def backtest_lines(result: Backtest) -> list[str]:
    """Return lines on the verdicts of earlier runs that a new baseline would change."""
    lines = [
        f"{count_text(result.nodes, 'node')} in {count_text(result.runs, 'run')}: "
        f"{result.rejected_before} rejected before, {result.rejected_after} now",
        *(f"only the new one rejects {name}" for name in result.newly_rejected[:MAX_LINES]),
        *(f"only the old one rejects {name}" for name in result.newly_passed[:MAX_LINES]),
    ]
    rows = [["node", "device", "benchmark", "metric", "before", "now"]]
    rows += [
        [f.node, f.device, f.benchmark.rpartition("/")[2], f.metric, f.before.value, f.after.value]
        for f in result.changes[:MAX_LINES]
    ]
    if result.changes:
        lines += table(rows).splitlines()
    if len(result.changes) > MAX_LINES:
        lines.append(f"... and {len(result.changes) - MAX_LINES} more verdicts that change")
    if result.per_thousand is not None:
        most = 1000 * share_interval(result.sound_rejected, result.sound)[1]
        stated = f"; stated are {result.stated:.3g}" if result.stated is not None else ""
        lines.append(
            f"of {count_text(result.sound, 'run')} that the baseline in force accepts the new one rejects "
            f"{result.sound_rejected}: false rejections of up to {most:.3g} in 1,000 agree with that "
            f"(95 %){stated}"
        )
    return lines
