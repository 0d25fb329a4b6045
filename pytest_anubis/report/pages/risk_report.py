"""The risk of a fleet as a table and as a page: which nodes, and how many incidents to expect."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_anubis.report.pages.rendering import block, render
from pytest_anubis.report.plots.frontier_plot import frontier_plot
from pytest_anubis.report.text.numbers import count_text, duration_text, percent
from pytest_anubis.report.text.text_table import folded, table

MAX_ROWS = 500
"""Nodes in the page's table; JSON has all."""
_HEADS = ("node", "risk", "95 % within", "up for", "incidents", "last", "state")
_DAY = 86400.0
_DRIVEN = "because"
_BECAUSE = (
    "because: what changes this node's risk by a tenth or more, the strongest first; usual: the fleet's "
    "median; up for: since it came into service or back from its last incident"
)
"""Explains the columns."""
MAX_POINTS = 400
"""Nodes drawn one by one; of more, as many spread over all ranks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOutlook:
    """A node with its risk.

    Attributes:
        probability: Of an incident within the horizon.
        uptime: Seconds since it came into service or back from its last incident.
        last: Kind of the last one.
        low: Lower end of the probability's 95 % interval; None: unknown.
        drivers: What its risk comes from, in words.
    """

    node: str
    probability: float
    uptime: float
    incidents: int
    last: str
    state: str
    low: float | None = None
    high: float | None = None
    drivers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """Cases of like risk in the backtests: how many, predicted, observed, and its 95 % interval."""

    rows: int
    predicted: float
    observed: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStory:
    """Why a model was taken, and how good it was.

    Attributes:
        reason: In words.
        how: What it was judged by, in words; empty where models were not compared.
        models: What was compared, one row of `model_cells` each.
        horizon: Seconds ahead that they were judged at.
        groups: Calibration of the chosen one.
        warning: What speaks against choosing by it; empty where nothing does.
    """

    reason: str
    how: str = ""
    models: tuple[list[str], ...] = ()
    horizon: float = 0.0
    groups: tuple[GroupRow, ...] = ()
    warning: str = ""


def risk_lines(
    rows: Sequence[NodeOutlook],
    horizon: float,
    basis: str,
    within: str = "",
    *,
    most: int | None = None,
) -> list[str]:
    """Return the fleet's risk in one line, and a table of its nodes.

    Args:
        rows: The nodes, riskiest first.
        horizon: Seconds ahead.
        basis: What the risks rest on.
        within: What their 95 % interval counts.
        most: Lines shown, of which one stands for many nodes that are equal; None: each node has its line.
    """
    known = any(row.low is not None for row in rows)
    cells = [["node", "risk", *["95 % within"] * known, "up for", "incidents", "last", "state"]]
    cells += [
        [
            row.node,
            percent(row.probability),
            *[between(row.low, row.high)] * known,
            _up_text(row.uptime),
            str(row.incidents),
            row.last or "-",
            row.state,
        ]
        for row in rows
    ]
    shared = shared_drivers(rows)
    if any(set(row.drivers) - set(shared) for row in rows[:most]):
        cells[0].append(_DRIVEN)
        for line, row in zip(cells[1:], rows, strict=True):
            line.append("; ".join(word for word in row.drivers if word not in shared) or "-")
    cells, nodes = (cells, [0]) if most is None else folded(cells)
    shown = cells if most is None else cells[: most + 1]
    lines = [fleet_line(rows, horizon), f"from a history: {basis}", *table(shown).splitlines()]
    if left := sum(nodes[len(shown) :]):
        lines.append(f"... and {left} more nodes (--all shows them)")
    lines += [f"because, of every node: {'; '.join(shared)}"] if shared else []
    if cells[0][-1] == _DRIVEN:
        lines.append(_BECAUSE)
    if known and within:
        lines.append(f"95 % within: {within}")
    return lines


def shared_drivers(rows: Sequence[NodeOutlook]) -> tuple[str, ...]:
    """Return what the risk of every one of several nodes comes from, which need not stand in every line."""
    if len(rows) < 2:
        return ()
    return tuple(word for word in rows[0].drivers if all(word in row.drivers for row in rows))


def _up_text(seconds: float) -> str:
    """Return how long a node is up: in days from two on, which is how people count months."""
    return f"{seconds / _DAY:.1f} days" if seconds >= 2 * _DAY else duration_text(seconds)


def between(low: float | None, high: float | None) -> str:
    """Return an interval of shares in words; ``-`` where it is unknown."""
    if low is None or high is None:
        return "-"
    return f"{percent(low)} to {percent(high)}"


def model_lines(story: ModelStory) -> list[str]:
    """Return which model was taken and why, how all of them did, and the calibration of the chosen one."""
    lines = [f"model: {story.reason}"]
    if not story.models:
        return lines
    lines += _warnings(story)
    lines += [story.how, *table([_MODEL_HEAD, *story.models]).splitlines(), *legend(story)]
    if story.groups:
        lines.append(f"{_calibration(story)}, by predicted risk")
        lines += table([_GROUP_HEAD, *group_cells(story)]).splitlines()
    return lines


def legend(story: ModelStory) -> list[str]:
    """Return what the table of models means in plain words: its columns, and the models in it."""
    kinds = [_KINDS[model] for model, *_ in story.models if model in _KINDS]
    return [_COLUMNS, f"models: {'; '.join(kinds)}"] if kinds else [_COLUMNS]


def _calibration(story: ModelStory) -> str:
    return f"incidents predicted and seen within {story.horizon / 3600:.4g} h (calibration)"


def _warnings(story: ModelStory) -> list[str]:
    """Return a line for a chosen model that its own backtest speaks against."""
    return [f"warning: {story.warning}"] if story.warning else []


_COLUMNS = (
    "ranking (C): how often, of two nodes, the one that failed first had been given the higher risk, 0.5 is "
    "chance; skill: how much smaller the error of the probabilities is than with one figure for all nodes, "
    "1 is no error, below 0 is worse"
)
_KINDS = {
    "exponential": "exponential, an incident is as likely in every hour",
    "weibull": "weibull, it becomes more or less likely with the time since the last one",
    "cox": "cox, what is known of a node multiplies that",
    "cox-time": "cox-time, a neural network; what is known of a node may count differently with time",
    "stacked": "stacked, the mean of several",
}
"""Models of risk -> what they take for true, in words for people who run machines."""
_MODEL_HEAD = ["model", "ranking (C)", "skill", "predicted/observed", ""]
_GROUP_HEAD = ["cases", "predicted", "observed", "95 % within"]


def model_cells(
    model: str, concordance: float, skill: float, ratios: Sequence[float], mark: str
) -> list[str]:
    """Return a model in the backtest as a row of texts.

    `ratios` are predicted / observed incidents of each backtest; `mark` says that it was chosen.
    """
    middle = math.exp(math.fsum(math.log(max(r, 1e-9)) for r in ratios) / len(ratios))
    spread = f"{middle:.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    return [model, f"{concordance:.3f}", f"{skill:.3f}", spread, mark]


def group_cells(story: ModelStory) -> list[list[str]]:
    """Return a row of texts for each group of risk."""
    return [
        [str(row.rows), percent(row.predicted), percent(row.observed), between(row.low, row.high)]
        for row in story.groups
    ]


def fleet_line(rows: Sequence[NodeOutlook], horizon: float) -> str:
    """Return the fleet's risk in one line."""
    expected = math.fsum(row.probability for row in rows)
    shown = f"{expected:.3g}"
    none = math.fsum(math.log1p(-min(row.probability, 1 - 1e-9)) for row in rows)
    return (
        f"{count_text(len(rows), 'node')}: {shown} incident{'' if shown == '1' else 's'} expected within "
        f"{horizon / 3600:g} h, at least one with a probability of {percent(-math.expm1(none))}"
    )


def risk_page(
    rows: Sequence[NodeOutlook],
    horizon: float,
    basis: str,
    expected: Sequence[tuple[float, float]],
    notes: Sequence[str] = (),
    story: ModelStory | None = None,
    passed: str = "",
    within: str = "",
) -> str:
    """Return a page that needs nothing from outside.

    Args:
        rows: The nodes, riskiest first.
        horizon: Seconds ahead.
        basis: What the risks rest on.
        expected: Hours ahead and nodes with an incident by then.
        notes: What was only assumed.
        story: Why this model; None if unknown.
        passed: What happened to nodes that had passed, in words.
        within: What the 95 % interval of a risk counts, in words.
    """
    step = max(1, len(rows) // MAX_POINTS)
    ranked = [(rank + 1, 100 * rows[rank].probability) for rank in range(0, len(rows), step)]
    shared = shared_drivers(rows)
    driven = any(set(row.drivers) - set(shared) for row in rows[:MAX_ROWS])
    heads = (*_HEADS, *[_DRIVEN] * driven)
    cells = [
        (
            row.node,
            percent(row.probability),
            between(row.low, row.high),
            _up_text(row.uptime),
            str(row.incidents),
            row.last,
            # The words of a state stay together: on a phone the table scrolls.
            row.state.replace(" ", "\N{NO-BREAK SPACE}"),
            *["; ".join(word for word in row.drivers if word not in shared)] * driven,
        )
        for row in rows[:MAX_ROWS]
    ]
    left = len(rows) - MAX_ROWS
    return render(
        "risk.html",
        title="Risk of the fleet",
        headline=fleet_line(rows, horizon),
        basis=basis,
        passed=passed,
        notes=notes,
        hours=f"{horizon / 3600:g}",
        table=block("table", heads, cells, numbers=range(1, 5)),
        left=count_text(left, "node") if left > 0 else "",
        shared="; ".join(shared),
        because=_BECAUSE if driven else "",
        within=within,
        ranks=frontier_plot(
            [("one node", ranked)],
            x_label="node, by rank",
            y_label="probability of an incident, %",
        ),
        course=frontier_plot(
            [("this fleet", expected)],
            x_label="hours ahead",
            y_label="nodes with an incident by then",
        ),
        story=story,
        warnings=_warnings(story) if story else (),
        models=block("table", _MODEL_HEAD, story.models) if story else "",
        legend=legend(story) if story else (),
        calibration=_calibration(story).capitalize() if story else "",
        groups=block("table", _GROUP_HEAD, group_cells(story)) if story else "",
        calibration_plot=_calibration_plot(story.groups) if story and story.groups else "",
    )


def _calibration_plot(groups: Sequence[GroupRow]) -> str:
    highest = max(100 * row.predicted for row in groups)
    return frontier_plot(
        [
            ("backtests", [(100 * row.predicted, 100 * row.observed) for row in groups]),
            ("right", [(0.0, 0.0), (highest, highest)]),
        ],
        x_label="predicted, %",
        y_label="observed, %",
    )
