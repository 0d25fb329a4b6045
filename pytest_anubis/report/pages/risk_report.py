"""Lines and page of `anubis risk`: the nodes' risks, incidents to expect, accuracy of models in backtests."""

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
MAX_POINTS = 400
"""Nodes drawn one by one; of more nodes as many are drawn, spread over all ranks."""
_DAY = 86400.0
_HEADS = ("node", "risk", "95 % within", "up for", "incidents", "last", "state")
_INTERVAL = 2
"""Column that a terminal leaves out where no interval is known."""
_DRIVEN = "because"
_BECAUSE = (
    "because: what changes this node's risk by a tenth or more, the strongest first; usual: the fleet's "
    "median; up for: since it came into service or back from its last incident"
)
"""Explains the columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOutlook:
    """A node with its risk."""

    node: str
    probability: float  # probability of an incident within the horizon
    uptime: float  # seconds since it came into service or back from its last incident
    incidents: int
    last: str  # kind of the last incident
    state: str
    # Lower end of the probability's 95 % interval, None where it is unknown
    low: float | None = None
    high: float | None = None
    drivers: tuple[str, ...] = ()  # facts that raise or lower its risk, in words


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """A group of cases with similar risk in the backtests: size, predicted and observed share of incidents.

    `low` and `high` are the 95 % interval of the observed share.
    """

    rows: int
    predicted: float
    observed: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStory:
    """The reason why a risk model was chosen, and the accuracy of all models in backtests."""

    reason: str  # why it was chosen, in words
    how: str = ""  # how models were compared, in words; empty where they were not
    models: tuple[list[str], ...] = ()  # one row of `model_cells` for each model
    horizon: float = 0.0  # seconds ahead for which they were compared
    groups: tuple[GroupRow, ...] = ()  # calibration of the chosen model
    warning: str = ""  # finding that speaks against a choice by this model; empty without one


def risk_lines(
    rows: Sequence[NodeOutlook],
    horizon: float,
    basis: str,
    within: str = "",
    *,
    most: int | None = None,
) -> list[str]:
    """Return the fleet's risk in one line, and a table of its nodes, riskiest first.

    Args:
        rows: The nodes, riskiest first.
        horizon: Seconds ahead.
        basis: Model and history that the risks come from.
        within: Uncertainty that the 95 % intervals cover, in words.
        most: Lines shown, with equal nodes in one line; None: each node has its line.
    """
    shared = shared_drivers(rows)
    driven = any(_own_drivers(row, shared) for row in rows[:most])
    cells = [[*_HEADS, *[_DRIVEN] * driven]]
    for row in rows:
        *texts, last, state = _texts(row)
        cells.append([*texts, last or "-", state, *[_own_drivers(row, shared) or "-"] * driven])
    known = any(row.low is not None for row in rows)
    if not known:
        for line in cells:
            del line[_INTERVAL]
    cells, nodes = (cells, [0]) if most is None else folded(cells)
    shown = cells if most is None else cells[: most + 1]
    lines = [fleet_line(rows, horizon), f"from a history: {basis}", *table(shown).splitlines()]
    if left := sum(nodes[len(shown) :]):
        lines.append(f"... and {left} more nodes (--all shows them)")
    lines += [f"because, of every node: {'; '.join(shared)}"] if shared else []
    lines += [_BECAUSE] if driven else []
    lines += [f"95 % within: {within}"] if known and within else []
    return lines


def _texts(row: NodeOutlook) -> list[str]:
    """Return the cells of a node below `_HEADS`."""
    return [
        row.node,
        percent(row.probability),
        between(row.low, row.high),
        _up_text(row.uptime),
        str(row.incidents),
        row.last,
        row.state,
    ]


def shared_drivers(rows: Sequence[NodeOutlook]) -> tuple[str, ...]:
    """Return the drivers that all nodes have in common, which are shown once; none for a single node."""
    if len(rows) < 2:
        return ()
    return tuple(word for word in rows[0].drivers if all(word in row.drivers for row in rows))


def _own_drivers(row: NodeOutlook, shared: Sequence[str]) -> str:
    return "; ".join(word for word in row.drivers if word not in shared)


def _up_text(seconds: float) -> str:
    """Return how long a node is up, in days from two on."""
    return f"{seconds / _DAY:.1f} days" if seconds >= 2 * _DAY else duration_text(seconds)


def between(low: float | None, high: float | None) -> str:
    """Return an interval of shares in words; ``-`` where it is unknown."""
    if low is None or high is None:
        return "-"
    return f"{percent(low)} to {percent(high)}"


def model_lines(story: ModelStory) -> list[str]:
    """Return the chosen model and why, the accuracy of all models, and the calibration of the chosen one."""
    lines = [f"model: {story.reason}"]
    if not story.models:
        return lines
    lines += [f"warning: {story.warning}"] if story.warning else []
    lines += [story.how, *table([_MODEL_HEAD, *story.models]).splitlines(), *legend(story)]
    if story.groups:
        lines.append(f"{_calibration(story)}, by predicted risk")
        lines += table([_GROUP_HEAD, *group_cells(story)]).splitlines()
    return lines


def legend(story: ModelStory) -> list[str]:
    """Return an explanation of the table of models: its columns, and the models in it."""
    kinds = [_KINDS[model] for model, *_ in story.models if model in _KINDS]
    return [_COLUMNS, f"models: {'; '.join(kinds)}"] if kinds else [_COLUMNS]


def _calibration(story: ModelStory) -> str:
    return f"incidents predicted and seen within {story.horizon / 3600:.4g} h (calibration)"


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
"""Risk model -> its assumption, in words for operators."""
_MODEL_HEAD = ["model", "ranking (C)", "skill", "predicted/observed", ""]
_GROUP_HEAD = ["cases", "predicted", "observed", "95 % within"]


def model_cells(
    model: str, concordance: float, skill: float, ratios: Sequence[float], mark: str
) -> list[str]:
    """Return the row of a model in the backtests; `ratios` are predicted / observed incidents of each."""
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
    story: ModelStory,
    *,
    notes: Sequence[str] = (),
    passed: str = "",
    within: str = "",
) -> str:
    """Return the page of a fleet's risk; the other arguments are those of `risk_lines`.

    `expected` has hours ahead, and the expected number of nodes with an incident by then; `story` says why
    this model was chosen, and `passed` how many nodes that had passed had an incident.
    """
    step = max(1, len(rows) // MAX_POINTS)
    ranked = [(rank + 1, 100 * rows[rank].probability) for rank in range(0, len(rows), step)]
    shared = shared_drivers(rows)
    driven = any(_own_drivers(row, shared) for row in rows[:MAX_ROWS])
    cells = []
    for row in rows[:MAX_ROWS]:
        *texts, state = _texts(row)
        # The words of a state stay together: on a phone the table scrolls.
        state = state.replace(" ", "\N{NO-BREAK SPACE}")
        cells.append([*texts, state, *[_own_drivers(row, shared)] * driven])
    left = len(rows) - MAX_ROWS
    return render(
        "risk.html",
        title="Risk of the fleet",
        headline=fleet_line(rows, horizon),
        basis=basis,
        passed=passed,
        notes=notes,
        hours=f"{horizon / 3600:g}",
        table=block("table", (*_HEADS, *[_DRIVEN] * driven), cells, numbers=range(1, 5)),
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
        models=block("table", _MODEL_HEAD, story.models),
        legend=legend(story),
        calibration=_calibration(story).capitalize(),
        groups=block("table", _GROUP_HEAD, group_cells(story)),
        calibration_plot=_calibration_plot(story.groups) if story.groups else "",
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
