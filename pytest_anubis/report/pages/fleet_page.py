"""A plain page of nodes: all in one table, the worst first, and below it what was found on each.

It is that of runs which were judged where they ran; of what is judged here it is the fleet's page
(`report.fleet.fleet_index`), which takes from here what was found.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence

from pytest_anubis.core.asking.next_step import shared_act
from pytest_anubis.core.verdict import Decision, Outcome
from pytest_anubis.report.pages import html_blocks as blocks
from pytest_anubis.report.pages.style_sheets import BLOCKS, PAGE
from pytest_anubis.report.text.headlines import after_name
from pytest_anubis.report.text.learned_text import UNLIKE
from pytest_anubis.report.text.node_row import NodeRow, counted_words
from pytest_anubis.report.text.node_text import traits_text
from pytest_anubis.report.text.numbers import count_text

ROWS = 2000
"""Nodes in the table, the worst first; the JSON form, where it is written, has all."""
DETAILS = 200
"""Nodes whose findings are shown; a page with thousands would not open on a phone."""
OPEN = 10
"""Rejected nodes whose findings start unfolded: a page of fifty of them is thirty screens long."""
_BAD = (Outcome.FAIL, Outcome.MARGINAL)


def fleet_page(rows: Iterable[NodeRow], notes: Sequence[str]) -> str:
    """Return the page."""
    ordered = sorted(rows, key=lambda row: row.verdict.severity)
    told = blocks.word_badges(counted_words(ordered))
    shown = [row for row in ordered if has_findings(row)]
    details = "".join(found_on(row, number, {}) for number, row in enumerate(shown[:DETAILS]))
    left = len(shown) - DETAILS
    more = f"<p>and {count_text(left, 'node')} more; --json FILE writes all</p>" if left > 0 else ""
    numbers = {id(row): number for number, row in enumerate(shown[:DETAILS])}
    body = [
        f"<header class='banner'><h1>{count_text(len(ordered), 'node')} judged</h1><p>{told}</p></header>",
        blocks.lines_block("notes", notes),
        f"<h2>Nodes, the worst first</h2>{_table(ordered, numbers)}",
        blocks.titled("What was found", details and details + more),
    ]
    return blocks.document(
        f"{count_text(len(ordered), 'node')} judged", BLOCKS + PAGE, "".join(body)
    )


def has_findings(row: NodeRow) -> bool:
    """Tell whether there is more to say of a node than that it is accepted."""
    return row.verdict.decision is not Decision.ACCEPTED or bool(row.verdicts) or bool(row.unlike)


def _table(ordered: Sequence[NodeRow], numbers: dict[int, int]) -> str:
    rows = []
    besides = any(row.rest for row in ordered)  # a column that says nothing takes the others' place
    open_ones = [row for row in ordered if row.verdict.decision is not Decision.ACCEPTED]
    for row in open_ones[:ROWS]:
        number = numbers.get(id(row))
        linked = blocks.linked(row.verdict.node, "" if number is None else f"#n{number}")
        rest = f"also {row.rest}" if row.rest else ""
        rows.append(
            f"<td>{blocks.badge(row.word)}</td><td>{linked}</td>"
            + blocks.cells(row.trouble, row.cause, *[rest] * besides)
        )
    left = len(open_ones) - ROWS
    more = f"<p>and {left} more, none of them worse; --json FILE writes all</p>" if left > 0 else ""
    names = [
        row.verdict.node + (f" ({UNLIKE}: {row.unlike})" if row.unlike else "")
        for row in ordered
        if row.verdict.decision is Decision.ACCEPTED
    ]
    accepted = blocks.lines_block("accepted", names[:ROWS], count=len(names))
    head = blocks.headings("decision", "node", "trouble", "worst", *["besides"] * besides)
    return (blocks.table(head, rows, kind="brief stack") if rows else "") + more + accepted


def found_on(row: NodeRow, number: int, traits: Mapping[str, str]) -> str:
    """Return what was found on a node, to be unfolded; it is ``#n`` and its number in the order."""
    bad = [verdict for verdict in row.verdicts if verdict.outcome in _BAD]
    verdict = row.verdict
    rejected = verdict.decision is Decision.REJECTED
    head = f"{blocks.badge(row.word)} <h3>{html.escape(verdict.node)}</h3>"
    inner = (
        blocks.paragraph(after_name(verdict), "why")
        + blocks.paragraph(
            ", ".join(filter(None, (f"hardware class {row.hardware_class}", traits_text(traits)))),
            "faint",
        )
        + "".join(blocks.blamed_parts(bad, row.cards, step=shared_act(verdict)))
        + blocks.lines_block(
            "in the way of acceptance", list(map(str, verdict.blocking)), open_=not rejected
        )
        + blocks.lines_block("not judged, does not block", verdict.listed)
        + blocks.lines_block("seen, does not block", verdict.noted, open_=bool(row.unlike))
    )
    state = " open" if rejected and number < OPEN else ""
    return f"<details class='case' id='n{number}'{state}><summary>{head}</summary>{inner}</details>"
