"""Lines about a baseline for the terminal: its size, its findings, and with -v all of its contents.

Judging and the fleet's page use the texts about accepted nodes that learning found unlike the healthy ones.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from pytest_anubis.core.baseline import SEPARATES, Baseline, Criterion, Finding, UnlikeNode
from pytest_anubis.core.metric import first_of, found_from, loss_text, metric_name
from pytest_anubis.core.verdict import HOST
from pytest_anubis.report.text.numbers import count_text, percent, similarity_text, value_text
from pytest_anubis.report.text.text_table import clip, fitted_table, table

MAX_ROWS = 60
"""Rows of the table without ``-v``; the file has all of them."""

MAX_UNLIKE = 8
"""Nodes named without ``-v``, the worst first, so that they fit one screen."""
UNLIKE = "sick or unlike the others"
ACCEPTED_UNLIKE = (
    "no part of the healthy nodes that the limits rest on, yet within these limits, so that 'anubis judge' "
    "accepts; to be looked at first when jobs fail there"
)
"""Meaning of a node that learning names and judging accepts."""
_COUNTED = ("no-criterion", "not-repeatable")
"""Kinds of findings that are only counted without ``-v``."""
MAX_FINDING = 400
"""Characters of a finding without ``-v``."""

_DETAILS_HEAD = (
    "what each criterion rests on: healthy nodes, the lowest and highest value of the expected distribution, "
    "and how many values a sample must have to be judged"
)
_SPARE = ("repeatability", "units", "threshold")
"""Columns left out on a narrow terminal, in this order, before names are cut."""
MAX_REJECTING = 3
"""Metrics with a line of their own, those that reject most nodes first."""


def learned_lines(
    baseline: Baseline, *, verbose: bool = False, see: Sequence[Sequence[str]] = ()
) -> list[str]:
    """Return the summary of a baseline that was just learned.

    `verbose`: every node, finding and excluded sample has its line. `see` are commands that show the named
    nodes; their word ``NODE`` becomes the worst node's name.
    """
    lines = [f"hardware class {baseline.hardware_class}", _size_line(baseline, verbose)]
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
    # A baseline without criteria has nothing but these findings to show.
    every = verbose or not baseline.criteria
    findings = [one for one in baseline.findings if every or one.kind not in _COUNTED]
    return lines + _findings(findings, verbose)


def _size_line(baseline: Baseline, verbose: bool) -> str:
    """Return how many criteria there are, from which nodes and runs, and what was left out."""
    nodes = count_text(len(baseline.nodes), "node")
    source = "one machine alone" if baseline.one_machine else nodes
    line = f"{count_text(len(baseline.criteria), 'criterion')} from {source}"
    line += f", {count_text(len(baseline.runs), 'run')}"
    if baseline.exclusions:
        line += f", {count_text(len(baseline.exclusions), 'sample')} left out"
    if baseline.unjudged:
        line += f"; {count_text(len(baseline.unjudged), 'metric')} without one"
    explained = not verbose and (baseline.exclusions or baseline.unjudged)
    return f"{line} (-v says why)" if explained else line


def criteria_lines(baseline: Baseline, *, whole: bool, width: int | None = None) -> list[str]:
    """Return the table of the criteria, `whole` or fitted to the width of the terminal; None: any width."""
    shown = sorted(baseline.criteria, key=_order)
    if not shown:
        return []
    header = [
        *("benchmark", "metric", "centre", "unit", "units", "repeatability"),
        *("threshold", "smallest detectable loss"),
    ]
    most = len(shown) if whole else MAX_ROWS
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
    """Return the nodes and values behind each criterion, and all names that other lines only count."""
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
                one.benchmark + _group_text(one),
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
    lines = [_DETAILS_HEAD, *table(rows).splitlines(), *notes] if baseline.criteria else []
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
    """Return a line for each finding; if not verbose, for the first of each kind."""
    if verbose:
        return [_finding(finding) for finding in findings]
    kinds: dict[str, list[Finding]] = {}
    for finding in findings:
        kinds.setdefault(finding.kind, []).append(finding)
    return [
        clip(_finding(some[0]), MAX_FINDING)
        + (f" (and {len(some) - 1} more of this kind, see -v)" if len(some) > 1 else "")
        for some in kinds.values()
    ]


def _finding(finding: Finding) -> str:
    place = f"{finding.benchmark.rpartition('/')[2]}: " if finding.benchmark else ""
    return f"finding: {'' if finding.text.startswith(place) else place}{finding.text}"


def coarse_lines(criteria: Sequence[Criterion], *, named: bool = True) -> list[str]:
    """Return one line about the coarse criteria, `named` with the losses that they show; or none."""
    losses = [
        f"{_labelled(one)} from {found_from(one.detectable, one.metric.better)} on"
        for one in sorted(criteria, key=_order)
        if one.coarse
    ]
    if not losses:
        return []
    each = f", and show losses of {', '.join(losses)}" if named else " (-v names them)"
    return [
        f"{len(losses)} coarse, as noise hides here that performance has halved: they can fail a node and "
        f"carry no acceptance{each}"
    ]


def _order(one: Criterion) -> tuple[str, ...]:
    return one.benchmark, one.metric.name, one.group, one.scope


def _labelled(criterion: Criterion) -> str:
    name = metric_name(criterion.benchmark.rpartition("/")[2], criterion.metric.name)
    return name + _group_text(criterion)


def _group_text(criterion: Criterion) -> str:
    """Return a criterion's group, and ``[node]`` if it is of a whole node, to be printed after its name."""
    group = f" ({criterion.group})" if criterion.group else ""
    return f"{group}{' [node]' if criterion.scope == 'node' else ''}"


def population_lines(groups: Sequence[Criterion]) -> list[str]:
    """Return a line for every slower group with its size, values and decision, then how to decide."""
    lines = []
    undecided = False
    separating = set()
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
        undecided = undecided or not second.decided
        name, separates, _ = second.separates.partition(SEPARATES)
        if separates and name != "device":
            separating.add(name)
    if undecided:
        lines.append(
            "decide with --both METRIC or --faster METRIC (in one benchmark: 'BENCHMARK METRIC'; all: every "
            "one that is left)"
        )
        lines += [
            f"or learn the groups apart: anubis learn RUNS --split '{name}'; further runs are then taken "
            f"with --anubis-split='{name}'"
            for name in sorted(separating)
        ]
    return lines


def unlike_node(node: str, baseline: Baseline | None) -> UnlikeNode | None:
    """Return a node's entry among those that learning found unlike the healthy ones; None if it has none."""
    check = baseline.self_check if baseline is not None else None
    return next((one for one in check.unlike if one.node == node), None) if check else None


def accepted_unlike(nodes: Mapping[str, str]) -> str:
    """Return one line about accepted nodes that learning found unlike the others; empty if none.

    `nodes` has the name of such a node -> its `unlike_text`.
    """
    if not nodes:
        return ""
    named = first_of([f"{node}: {text}" for node, text in nodes.items()], MAX_UNLIKE, "; ")
    who = "accepted nodes are" if len(nodes) > 1 else "accepted node is"
    return f"{len(nodes)} {who} {UNLIKE}: {ACCEPTED_UNLIKE} ({named})"


def unlike_text(one: UnlikeNode) -> str:
    """Return a node's worst metric with its loss."""
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
    """Return a node that is unlike the healthy ones with its worst metric, and whether that rejects it."""
    blame = f" [{one.component}]" if one.component else ""
    fine = "" if one.rejected else "; not enough to reject it"
    return f"{one.node}: {unlike_text(one)}{blame}{fine}"


def _unlike(nodes: Sequence[UnlikeNode], verbose: bool, see: Sequence[Sequence[str]]) -> list[str]:
    """Return the nodes that are unlike the healthy ones, worst first, and the commands that show them."""
    if not nodes:
        return []
    lines = [
        f"these nodes are {UNLIKE} in one of their runs or more, worst first ('anubis judge' decides):"
    ]
    lines += [f"  {unlike_line(one)}" for one in (nodes if verbose else nodes[:MAX_UNLIKE])]
    if len(nodes) > MAX_UNLIKE and not verbose:
        lines.append(f"  ... and {len(nodes) - MAX_UNLIKE} more (-v names all)")
    if not all(one.rejected for one in nodes):
        lines.append(f"not enough to reject it: {ACCEPTED_UNLIKE}")
    for command in see:
        words = [nodes[0].node if word == "NODE" else word for word in command]
        lines.append(f"see more: {shlex.join(words)}")
    return lines


def _self_check(baseline: Baseline, verbose: bool, see: Sequence[Sequence[str]]) -> list[str]:
    """Return how the limits judge the fleet that they were learned from."""
    check = baseline.self_check
    if check is None or check.nodes < 2:  # a single node leaves no others to judge it by
        return []
    verb = "is" if check.rejected == 1 else "are"
    line = (
        f"judged each without itself, {check.rejected} of its {check.nodes} nodes {verb} rejected"
    )
    share = check.sick / check.nodes
    if share > 0.005:
        line += f"; about {percent(share)} of the nodes are no part of the healthy ones"
    if check.upper < 1:
        line += f"; of the healthy ones {percent(check.rate)} are rejected (at most {percent(check.upper)})"
    lines = [line]
    for item in check.worst if verbose else check.worst[:MAX_REJECTING]:
        name = metric_name(item.benchmark.rpartition("/")[2], item.metric)
        nodes = count_text(item.nodes, "node")
        lines.append(f"  {name}: rejects {nodes}, {item.alone} of them alone")
    return lines + _unlike(check.unlike, verbose, see)


def _row(criterion: Criterion) -> list[str]:
    centre = criterion.typical if criterion.centre else 0.0
    threshold = criterion.learned if criterion.learned is not None else criterion.alpha
    return [
        criterion.benchmark.rpartition("/")[2] + _group_text(criterion),
        criterion.metric.name,
        value_text(centre),
        criterion.metric.unit,
        str(criterion.units),
        "-" if criterion.repeatability is None else similarity_text(criterion.repeatability),
        similarity_text(threshold),
        found_from(criterion.detectable, criterion.metric.better),
    ]
