"""What was learned, as lines for the terminal: how much, what is to be known of it, and all of it with -v."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence

from pytest_anubis.core.baseline import (
    SEPARATES,
    Baseline,
    Criterion,
    Finding,
    UnlikeNode,
)
from pytest_anubis.core.metric import found_from, loss_text, metric_name
from pytest_anubis.core.verdict import HOST
from pytest_anubis.report.text.numbers import (
    count_text,
    percent,
    similarity_text,
    value_text,
)
from pytest_anubis.report.text.text_table import clip, fitted_table, table

MOST = 60
"""Rows shown; a wide baseline is read in its file."""

SICK = 8
"""Nodes named without ``-v``: the worst of them, on one screen."""
UNLIKE = "sick or unlike the others"
ACCEPTED_UNLIKE = (
    "no part of the healthy nodes that the limits rest on, yet within these limits, so that 'anubis judge' "
    "accepts; to be looked at first when jobs fail there"
)
"""What it means that learning names a node and judging accepts it, in the words of both."""
_COUNTED = ("no-criterion", "not-repeatable")
"""Kinds of findings that are not told one by one without ``-v``: what a baseline lacks is counted."""
LONGEST = 400
"""Characters of a finding without ``-v``."""

RESTS = (
    "what each criterion rests on: healthy nodes, the lowest and highest value of the expected distribution, "
    "and how many values a sample must have to be judged"
)
_SPARE = ("repeatability", "units", "threshold")
"""Columns that a narrow terminal does without, in this order, before names are cut."""
WORST = 3
"""Metrics that reject most, as lines."""


def learned_lines(
    baseline: Baseline, *, verbose: bool = False, see: Sequence[Sequence[str]] = ()
) -> list[str]:
    """Return the summary of a baseline that was just learned.

    Args:
        baseline: As learned.
        verbose: Every node, finding and sample that was left out has its line.
        see: Command lines that show the nodes that are named; ``NODE`` in them is the worst node's name.
    """
    nodes = (
        count_text(len(baseline.nodes), "node") if not baseline.one_machine else "one machine alone"
    )
    left_out = count_text(len(baseline.exclusions), "sample")
    why = "" if verbose else " (-v says why)"
    excluded = f", {left_out} left out" if baseline.exclusions else ""
    count = count_text(len(baseline.criteria), "criterion")
    runs = count_text(len(baseline.runs), "run")
    lines = [f"hardware class {baseline.hardware_class}"]
    blind = len(baseline.unjudged)
    none = f"; {count_text(blind, 'metric')} without one" if blind else ""
    more = why if blind or baseline.exclusions else ""
    lines.append(f"{count} from {nodes}, {runs}{excluded}{none}{more}")
    lines += coarse_lines(baseline.criteria, named=verbose)
    if baseline.together:
        found = ", ".join(
            f"{one.component} from {found_from(one.detectable, 'higher')} on"
            for one in baseline.together
        )
        lines.append(
            f"components that lose in all their metrics are found by the mean of these: {found}"
        )
    if baseline.checks:
        names = ", ".join(check.test.rpartition("/")[2] for check in baseline.checks)
        lines.append(
            f"{count_text(len(baseline.checks), 'check')} without a metric that every node must pass too"
            + (f": {names}" if verbose else "")
        )
    if verbose:
        lines += [
            f"left out: {one.node} {one.device} {metric_name(one.benchmark, one.metric)}: {one.reason}"
            for one in baseline.exclusions
        ]
    lines += _self_check(baseline, verbose, see)
    # Without any criterion they are all that there is to say; else the counts say it.
    told = not baseline.criteria or verbose
    findings = [one for one in baseline.findings if told or one.kind not in _COUNTED]
    return lines + _findings(findings, verbose)


def criteria_lines(baseline: Baseline, *, whole: bool, width: int | None = None) -> list[str]:
    """Return the table of all criteria.

    Args:
        baseline: As learned.
        whole: However many there are, and however wide they are.
        width: Columns of the terminal that the table is to fit otherwise; None: it is as wide as it is.
    """
    shown = sorted(baseline.criteria, key=_order)
    if not shown:
        return []
    header = [
        *("benchmark", "metric", "centre", "unit", "units", "repeatability"),
        *("threshold", "smallest detectable loss"),
    ]
    most = len(shown) if whole else MOST
    rows = [header, *(_row(criterion) for criterion in shown[:most])]
    if width is None or whole:
        lines = table(rows).splitlines()
    else:
        lines = fitted_table(rows, width, _SPARE).splitlines()
    if len(shown) > most:
        more = count_text(len(shown) - most, "more criterion")
        lines.append(f"... and {more}, all in the file (-v shows them)")
    return lines


def details_lines(baseline: Baseline) -> list[str]:
    """Return what each criterion of a baseline rests on, and the names behind its counts; nothing is cut."""
    rows = [
        ["metric", "component", "nodes", "lowest", "highest", "unit", "values needed", "benchmark"]
    ]
    notes = []
    for one in sorted(baseline.criteria, key=_order):
        rows.append(
            [
                one.metric.name,
                one.component or "-",
                str(one.nodes),
                value_text(one.centre[0]) if one.centre else "-",
                value_text(one.centre[-1]) if one.centre else "-",
                one.metric.unit,
                str(one.least),
                one.benchmark + _whose(one),
            ]
        )
        name = _labelled(one)
        if one.devices:
            notes.append(f"{name}: {', '.join(one.devices)} must answer")
        if one.window is not None and not baseline.one_machine:
            warm_up, length = one.window
            after = f" after {count_text(warm_up, 'value')} of warm-up" if warm_up else ""
            notes.append(
                f"{name}: {count_text(length, 'value')}{after} say the same as the whole run, so later runs "
                "measure for so long"
            )
        notes += [f"{name}: {note}" for note in one.notes]
    lines = [RESTS, *table(rows).splitlines(), *notes] if baseline.criteria else []
    lines += [
        f"measured, without a criterion: {metric_name(one.benchmark, one.metric)}: {one.reason}"
        for one in baseline.unjudged
    ]
    lines += [
        f"promised: a loss of {percent(loss)} fails{f' in {what}' if what else ''}"
        for what, loss in sorted(baseline.promises.items())
    ]
    return [*lines, f"nodes: {', '.join(baseline.nodes) or 'none named'}"]


def _findings(findings: Sequence[Finding], verbose: bool) -> list[str]:
    """Return a line a kind of finding, its first one and how many more; if verbose, a line each."""
    if verbose:
        return [f"finding: {_place(finding)}{finding.text}" for finding in findings]
    counts = Counter(finding.kind for finding in findings)
    lines = []
    for kind, count in counts.items():
        first = next(finding for finding in findings if finding.kind == kind)
        more = f" (and {count - 1} more of this kind, see -v)" if count > 1 else ""
        lines.append(clip(f"finding: {_place(first)}{first.text}", LONGEST) + more)
    return lines


def coarse_lines(criteria: Sequence[Criterion], *, named: bool = True) -> list[str]:
    """Return one line on the criteria that are coarse, if any is.

    Args:
        criteria: Those of a baseline.
        named: Name each with what it shows, and do not only count them.
    """
    coarse = [criterion for criterion in criteria if criterion.coarse]
    if not coarse:
        return []
    told = [
        f"{_labelled(one)} from {found_from(one.detectable, one.metric.better)} on"
        for one in sorted(coarse, key=_order)
    ]
    each = f", and show losses of {', '.join(told)}" if named else " (-v names them)"
    return [
        f"{len(coarse)} coarse, as noise hides here that performance has halved: they can fail a node and "
        f"carry no acceptance{each}"
    ]


def _order(one: Criterion) -> tuple[str, ...]:
    return one.benchmark, one.metric.name, one.group, one.scope


def _labelled(criterion: Criterion) -> str:
    name = metric_name(criterion.benchmark.rpartition("/")[2], criterion.metric.name)
    return name + _whose(criterion)


def _whose(criterion: Criterion) -> str:
    """Return the group and whether a whole node is meant, to stand behind a name."""
    group = f" ({criterion.group})" if criterion.group else ""
    return f"{group}{' [node]' if criterion.scope == 'node' else ''}"


def population_lines(groups: Sequence[Criterion]) -> list[str]:
    """Say of every slower group what it is, what holds, and how to decide."""
    lines = []
    for criterion in groups:
        second = criterion.second
        if second is None:
            continue
        what = {
            "": "undecided: the slower ones are MARGINAL",
            "both": "both are accepted",
            "faster": "only the faster ones are accepted",
        }[second.decided]
        unit = criterion.metric.unit
        lines.append(
            metric_name(criterion.benchmark.rpartition("/")[2], criterion.metric.name)
            + f"{' [node]' if criterion.scope == 'node' else ''}: {second.members} of {second.whole} have "
            f"{value_text(second.typical, unit)}, the faster ones {value_text(criterion.typical, unit)}; "
            + what
            + (f"; {second.separates}" if second.separates else "")
        )
    if any(c.second is not None and not c.second.decided for c in groups):
        lines.append("decide with --both METRIC or --faster METRIC (all: every one that is left)")
        names = (
            c.second.separates.partition(SEPARATES)[:2] for c in groups if c.second is not None
        )
        for name in sorted({name for name, known in names if known and name != "device"}):
            lines.append(
                f"or learn the groups apart: anubis learn RUNS --split '{name}'; further runs are then taken "
                f"with --anubis-split='{name}'"
            )
    return lines


def unlike_node(node: str, baseline: Baseline | None) -> UnlikeNode | None:
    """Return what learning found of a node that is no part of the healthy ones; None of every other."""
    check = baseline.self_check if baseline is not None else None
    return next((one for one in check.unlike if one.node == node), None) if check else None


def accepted_unlike(told: Mapping[str, str]) -> str:
    """Return what is to be known of nodes that are accepted and were told as unlike others in learning.

    Args:
        told: Name of such a node -> its `unlike_text`.

    Returns:
        One line; empty where there is no such node.
    """
    if not told:
        return ""
    named = "; ".join(f"{node}: {what}" for node, what in list(told.items())[:SICK])
    more = f"; and {len(told) - SICK} more" if len(told) > SICK else ""
    who = "accepted nodes are" if len(told) > 1 else "accepted node is"
    return f"{len(told)} {who} {UNLIKE}: {ACCEPTED_UNLIKE} ({named}{more})"


def unlike_text(one: UnlikeNode) -> str:
    """Return what a node is worst in, and by how much."""
    where = f" on {one.device}" if one.device not in HOST else ""
    name = metric_name(one.benchmark.rpartition("/")[2], one.metric)  # a plain check has none
    if one.failure:
        return f"{name}{where} failed: {one.failure}"
    lost = (
        "differs from the others"
        if one.better == "equal"
        else loss_text(one.similarity, one.better, one.unit)
    )
    return f"{name}{where} {lost}"


def unlike_line(one: UnlikeNode) -> str:
    """Name a node that is no part of the healthy ones, what it is worst in, and whether that rejects it."""
    blame = f" [{one.component}]" if one.component else ""
    fine = "" if one.rejected else "; not enough to reject it"
    return f"{one.node}: {unlike_text(one)}{blame}{fine}"


def _unlike(nodes: Sequence[UnlikeNode], verbose: bool, see: Sequence[Sequence[str]]) -> list[str]:
    """Name the nodes that are no part of the healthy ones, worst first, and what to type to see them."""
    if not nodes:
        return []
    lines = [
        f"these nodes are {UNLIKE} in one of their runs or more, worst first ('anubis judge' decides):"
    ]
    lines += [f"  {unlike_line(one)}" for one in (nodes if verbose else nodes[:SICK])]
    if len(nodes) > SICK and not verbose:
        lines.append(f"  ... and {len(nodes) - SICK} more (-v names all)")
    if not all(one.rejected for one in nodes):
        lines.append(f"not enough to reject it: {ACCEPTED_UNLIKE}")
    for command in see:
        words = [nodes[0].node if word == "NODE" else word for word in command]
        lines.append(f"see more: {shlex.join(words)}")
    return lines


def _self_check(baseline: Baseline, verbose: bool, see: Sequence[Sequence[str]]) -> list[str]:
    """Say what the limits do to the fleet that they were learned from."""
    check = baseline.self_check
    if check is None or check.nodes < 2:  # without itself, one node leaves nothing to judge it by
        return []
    share = check.sick / check.nodes
    lines = [
        f"judged each without itself, {check.rejected} of its {check.nodes} nodes "
        f"{'is' if check.rejected == 1 else 'are'} rejected"
        + (
            f"; about {percent(share)} of the nodes are no part of the healthy ones"
            if share > 0.005
            else ""
        )
        + (
            f"; of the healthy ones {percent(check.rate)} are rejected (at most {percent(check.upper)})"
            if check.upper < 1
            else ""
        )
    ]
    for item in check.worst if verbose else check.worst[:WORST]:
        name = metric_name(item.benchmark.rpartition("/")[2], item.metric)
        lines.append(
            f"  {name}: rejects {count_text(item.nodes, 'node')}, {item.alone} of them alone"
        )
    return lines + _unlike(check.unlike, verbose, see)


def _place(finding: Finding) -> str:
    place = f"{finding.benchmark.rpartition('/')[2]}: " if finding.benchmark else ""
    return "" if finding.text.startswith(place) else place


def _row(criterion: Criterion) -> list[str]:
    centre = criterion.typical if criterion.centre else 0.0
    threshold = criterion.learned if criterion.learned is not None else criterion.alpha
    return [
        criterion.benchmark.rpartition("/")[2] + _whose(criterion),
        criterion.metric.name,
        value_text(centre),
        criterion.metric.unit,
        str(criterion.units),
        "-" if criterion.repeatability is None else similarity_text(criterion.repeatability),
        similarity_text(threshold),
        found_from(criterion.detectable, criterion.metric.better),
    ]
