"""One line that says why a node is accepted or not, short enough for a scheduler's list of nodes.

Each run's decision gets one; `anubis health` and `anubis fleet status` word others. It drains nothing:
`fleet.launching.slurm_node` does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pytest_anubis.core.asking.next_step import throughout
from pytest_anubis.core.metric import measured_text
from pytest_anubis.core.shown_loss import place_of, shown_similarity
from pytest_anubis.core.verdict import Decision, MetricVerdict, NodeVerdict, Outcome, Reason
from pytest_anubis.report.text.numbers import count_text

LEADER = "ANB:"
"""Prefix of every reason, by which ours are recognised; reasons of other tools are never changed."""

MAX_CODE = 20
"""Characters of a code: ``sinfo -R`` shows no more of a reason."""

MAX_REASON = 128
"""Characters of a reason; Slurm's accounting keeps 255 bytes."""

_MAX_RUN = 48
"""Characters of a run's id, of which the end is kept; most ids have half as many."""

_WORDS = re.compile(r"[^A-Z0-9]+")


def reason_code(text: str) -> str:
    """Return a code such as ``ANB:NVLINK-BANDWIDTH`` that ``sinfo -R`` shows whole."""
    return (LEADER + _WORDS.sub("-", text.upper()).strip("-"))[:MAX_CODE].rstrip("-")


def drain_reason(verdict: NodeVerdict, metrics: Sequence[MetricVerdict], run: str) -> str:
    """Return a decision's reason, such as ``ANB:COPY gpu3 402 GB/s, expected 439 run=7c1e``."""
    if verdict.decision is Decision.ACCEPTED:
        return line(f"{LEADER}ACCEPTED", run=run)
    wanted = Outcome.FAIL if verdict.decision is Decision.REJECTED else Outcome.INCONCLUSIVE
    verdicts = [one for one in metrics if one.outcome in (wanted, Outcome.MARGINAL)]
    if not verdicts:
        first = verdict.hindrances[0].fact if verdict.hindrances else verdict.headline
        return line(f"{LEADER}{verdict.decision.value}", first, run=run)
    worst = min(verdicts, key=lambda one: one.severity)
    if worst.reason is Reason.NO_BASELINE:
        return line(f"{LEADER}NO-BASELINE", worst.text, run=run)
    if worst.reason is Reason.DISTURBED:
        disturbed = sum(one.reason is Reason.DISTURBED for one in metrics)
        words = f"{count_text(disturbed, 'measurement')} under other load, measure again:"
        return line(f"{LEADER}DISTURBED", words, worst.metric, run=run)
    metrics_worse, components = throughout(verdicts)
    if metrics_worse:
        said = f"worse in {metrics_worse} metrics of {components} components, as by one cause"
        return line(f"{LEADER}EVERYWHERE", said, run=run)
    code = reason_code(worst.metric or worst.benchmark.rpartition("::")[2].removeprefix("test_"))
    place = place_of(worst)
    if worst.value is None or worst.expected is None or worst.outcome is Outcome.INCONCLUSIVE:
        return line(code, place, worst.text, run=run)
    where = f"[{worst.component}]" if worst.component else ""
    values = measured_text(worst.value, worst.expected, worst.unit)
    if worst.similarity is not None and shown_similarity(worst) is None:
        values = f"{worst.part or 'worse in its distribution'}; median {values}"
    return line(code, place, values, where, run=run)


def unjudged_text(count: int) -> str:
    """Return how many metrics had no criterion, in words; empty for none."""
    return f"{count_text(count, 'metric')} without a criterion" if count else ""


def line(code: str, *words: str, run: str = "") -> str:
    """Return a reason as one line of ASCII without quotes, which every scheduler accepts."""
    # Quotes are dropped and not replaced: "the tests mark" is easier to read than "the test?s mark".
    plain = [
        re.sub(r"['\"\u2018\u2019]+", "", " ".join(word.split()))
        for word in (code, *words, run)
        if word
    ]
    clean = [re.sub(r"[^ !#-&(-~]+", "?", word) for word in plain]
    tail = f" run={clean.pop()[-_MAX_RUN:]}" if run else ""
    return " ".join(clean)[: MAX_REASON - len(tail)].rstrip() + tail
