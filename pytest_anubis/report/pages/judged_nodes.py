"""The page of `anubis fleet verdict` and `fleet run`: a table of nodes, and the findings on each.

The verdicts are those of the nodes' own journals. `anubis judge` judges anew; its page is the fleet's
(`report.fleet.fleet_index`), which reuses `found_on`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from markupsafe import Markup

from pytest_anubis.core.asking.next_step import shared_act
from pytest_anubis.core.end_to_end import end_to_end_losses
from pytest_anubis.core.history import Defect
from pytest_anubis.core.verdict import Decision
from pytest_anubis.report.pages import html_blocks as blocks
from pytest_anubis.report.pages.rendering import block, render
from pytest_anubis.report.text.learned_text import UNLIKE
from pytest_anubis.report.text.node_row import BAD, NodeRow, counted_words
from pytest_anubis.report.text.node_text import traits_text
from pytest_anubis.report.text.numbers import count_text
from pytest_anubis.report.text.shared_lines import after_name

MAX_ROWS = 2000
"""Nodes in the table, the worst first; the JSON form, where it is written, has all."""
MAX_DETAILS = 200
"""Nodes whose findings are shown; a page with thousands would not open on a phone."""
MAX_OPEN = 10
"""Rejected nodes whose findings start unfolded: a page of fifty of them is thirty screens long."""


def judged_nodes_page(rows: Iterable[NodeRow], notes: Sequence[str]) -> str:
    """Return the page of judged nodes; `notes` are sentences about all of them."""
    ordered = sorted(rows, key=lambda row: row.verdict.severity)
    found = [row for row in ordered if has_findings(row)]
    left = len(found) - MAX_DETAILS
    numbers = {id(row): number for number, row in enumerate(found[:MAX_DETAILS])}
    open_ones = [row for row in ordered if row.verdict.decision is not Decision.ACCEPTED]
    accepted = [
        row.verdict.node + (f" ({UNLIKE}: {row.unlike})" if row.unlike else "")
        for row in ordered
        if row.verdict.decision is Decision.ACCEPTED
    ]
    return render(
        "judged_nodes.html",
        title=f"{count_text(len(ordered), 'node')} judged",
        counts=counted_words(ordered),
        notes=notes,
        table=_table(open_ones[:MAX_ROWS], numbers) if open_ones else "",
        rows_left=len(open_ones) - MAX_ROWS,
        accepted=accepted[:MAX_ROWS],
        count=len(accepted),
        found=[found_on(row, number, {}) for number, row in enumerate(found[:MAX_DETAILS])],
        left=count_text(left, "node") if left > 0 else "",
    )


def has_findings(row: NodeRow) -> bool:
    """Tell whether there is more to say of a node than that it is accepted."""
    return row.verdict.decision is not Decision.ACCEPTED or bool(row.verdicts) or bool(row.unlike)


def _table(rows: Sequence[NodeRow], numbers: Mapping[int, int]) -> Markup:
    has_rest = any(row.rest for row in rows)  # an empty column takes the others' place
    cells = []
    for row in rows:
        number = numbers.get(id(row))
        node = block("link", row.verdict.node, "" if number is None else f"#n{number}")
        rest = f"also {row.rest}" if row.rest else ""
        cells.append((block("badge", row.word), node, row.trouble, row.cause, *[rest] * has_rest))
    heads = ("decision", "node", "trouble", "worst", *["besides"] * has_rest)
    return block("table", heads, cells, kind="brief stack")


def found_on(
    row: NodeRow, number: int, traits: Mapping[str, str], closed: Sequence[Defect] = ()
) -> Markup:
    """Return what was found on a node, to be unfolded; its anchor is ``n`` and its number.

    `closed` are the earlier defects of its class that operators have closed.
    """
    verdict = row.verdict
    rejected = verdict.decision is Decision.REJECTED
    bad = [verdict for verdict in row.verdicts if verdict.outcome in BAD]
    # A row holds no passed metrics, so only a loss that has an explanation counts.
    losses = [loss for loss in end_to_end_losses(row.verdicts) if loss.explained_by]
    facts = (f"hardware class {row.hardware_class}", traits_text(traits))
    return block(
        "found_on",
        number,
        row,
        why=after_name(verdict),
        facts=", ".join(filter(None, facts)),
        parts=blocks.blamed_parts(
            bad, row.cards, step=shared_act(verdict), losses=losses, closed=closed
        ),
        blocking=list(map(str, verdict.blocking)),
        rejected=rejected,
        open=rejected and number < MAX_OPEN,
    )
