"""Say what explains a verdict: evidence, parts that carry the loss of a step or of a whole, nominal rate.

`failure_text`, `html_blocks` and `summary_text` use it.
"""

from __future__ import annotations

import math

from pytest_anubis.core.end_to_end import EndToEndLoss
from pytest_anubis.core.loss_shares import LossShare
from pytest_anubis.core.metric import first_of, percent_text
from pytest_anubis.core.shown_loss import nominal_text
from pytest_anubis.core.verdict import HOST, MetricVerdict, Reference
from pytest_anubis.report.text.numbers import count_text, value_text
from pytest_anubis.report.text.safe_text import plain_line

_COMMON = "clock, power or host"
MAX_NAMED = 4
"""Micro benchmarks that are named of many."""


def evidence_lines(verdict: MetricVerdict) -> list[str]:
    """Return a verdict's evidence, then which parts carry its loss, then its share of the nominal rate."""
    return [*verdict.evidence, *filter(None, [shares_text(verdict), attained_text(verdict)])]


def attained_text(verdict: MetricVerdict) -> str:
    """Return which share of the nominal rate a value reaches; empty if unknown, or its text says it."""
    share = nominal_text(verdict.nominal, verdict.value, verdict.better, verdict.unit)
    said = not share or verdict.reference is Reference.MODEL
    return "" if said else plain_line(f"{verdict.metric} {share}")


def shares_text(verdict: MetricVerdict) -> str:
    """Return which parts carry the loss of a metric, in one line; empty if it has no parts or no loss."""
    shares = verdict.shares
    if shares is None:
        return ""
    count, named = len(shares.parts), shares.named
    text = f"none of {count_text(count, 'part')} explains the loss of {verdict.metric}"
    if named:
        said = " and ".join(_share(one, count) for one in named)
        seen = " and ".join(verdict.evidence) or "no sensor shows which"
        common = f"{_COMMON} ({seen})"
        places = [one.component if one.metric else common for one in named]
        points = " and ".join(dict.fromkeys(filter(None, places)))
        text = f"the loss of {verdict.metric}: {said}; {percent_text(shares.rest, 0)} unexplained"
        text += f"; points at {points}" if points else ""
    if shares.left_out:
        text += f" ({count_text(shares.left_out, 'part')} without a criterion)"
    return plain_line(text)


def _share(one: LossShare, count: int) -> str:
    """Return a share with its interval: ``93 % (80 to 109 %) in time_matrix, 1.5 times as long``."""
    low, high = (f"{100 * edge:.0f}" for edge in (one.low, one.high))
    interval = f"{low} to {high} %" if one.high < math.inf else f"{low} % or more"
    what = one.metric or f"all {count} parts"
    return f"{percent_text(one.share, 0)} ({interval}) in {what}, {value_text(one.factor)} times as long"


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
