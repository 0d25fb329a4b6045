"""What explains a blamed part's end-to-end loss, and how often operators confirmed findings like it.

`html_blocks` and `summary_text` use it.
"""

from __future__ import annotations

from pytest_anubis.core.end_to_end import EndToEndLoss
from pytest_anubis.core.history import Precedents
from pytest_anubis.core.metric import first_of
from pytest_anubis.core.verdict import HOST
from pytest_anubis.report.text.numbers import count_text
from pytest_anubis.report.text.safe_text import plain_line
from pytest_anubis.report.text.text_table import clip

MAX_NAMED = 4
"""Micro benchmarks that are named of many."""

MAX_NOTE = 160
"""Columns of an operator's note."""


def whole_text(loss: EndToEndLoss) -> str:
    """Return what explains an end-to-end loss, to be printed after it."""
    if loss.explained_by:
        device = loss.whole.device
        names = [
            f"{one.metric or one.benchmark}{'' if one.device == device else f' on {one.device}'}"
            f" [{one.component}]"
            for one in loss.explained_by
        ]
        return f"explained by {first_of(names, MAX_NAMED)}"
    where = "this node" if loss.whole.device in HOST else loss.whole.device
    if not loss.passed:
        return f"no micro benchmark of {where} was judged"
    if loss.passed == 1:
        return f"the one micro benchmark of {where} does not show it"
    return f"none of {count_text(loss.passed, 'micro benchmark')} of {where} shows it"


def precedents_text(before: Precedents) -> str:
    """Return how often such findings were right before; empty if none was closed."""
    closed = before.confirmed + before.false_alarms
    if not closed:
        return ""
    verb = "was" if closed == 1 else "were"
    text = f"{before.confirmed} of {closed} like it {verb} confirmed"
    if before.false_alarms:
        text += f", {count_text(before.false_alarms, 'false alarm')}"
    note = clip(plain_line(before.note), MAX_NOTE)
    return f"{text}; last note: {note}" if note else text
