"""A verdict in the few words that a scheduler's node list has room for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pytest_anubis.core.metric import measured_text
from pytest_anubis.core.shown_loss import place_of, shown_similarity
from pytest_anubis.core.verdict import Decision, MetricVerdict, NodeVerdict, Outcome, Reason
from pytest_anubis.report.text.numbers import count_text

LEADER = "ANB:"
"""How every reason begins: what another tool wrote is never touched, and ours is known again."""

CODE = 20
"""Characters of a reason that ``sinfo -R`` shows: the code fits into them."""

LONGEST = 128
"""Characters of a whole reason; Slurm's accounting keeps 255 bytes."""

_RUN = 48
"""Characters of a run's id, of which the end tells more than the beginning; most have half of that."""

_WORDS = re.compile(r"[^A-Z0-9]+")


def reason_code(text: str) -> str:
    """Return a code such as ``ANB:NVLINK-BANDWIDTH`` that ``sinfo -R`` shows whole."""
    return (LEADER + _WORDS.sub("-", text.upper()).strip("-"))[:CODE].rstrip("-")


def drain_reason(verdict: NodeVerdict, told: Sequence[MetricVerdict], run: str) -> str:
    """Return why a node is not accepted, such as ``ANB:COPY gpu3 402 GB/s, expected 439 run=7c1e``."""
    if verdict.decision is Decision.ACCEPTED:
        return line(f"{LEADER}ACCEPTED", run=run)
    wanted = Outcome.FAIL if verdict.decision is Decision.REJECTED else Outcome.INCONCLUSIVE
    bad = (one for one in told if one.outcome in (wanted, Outcome.MARGINAL))
    worst = worst_of(bad)
    if worst is None:
        first = verdict.hindrances[0].fact if verdict.hindrances else verdict.headline
        return line(f"{LEADER}{verdict.decision.value}", first, run=run)
    if worst.reason is Reason.NO_BASELINE:
        return line(f"{LEADER}NO-BASELINE", worst.text, run=run)
    if worst.reason is Reason.DISTURBED:
        disturbed = sum(one.reason is Reason.DISTURBED for one in told)
        words = f"{count_text(disturbed, 'measurement')} under other load, measure again:"
        return line(f"{LEADER}DISTURBED", words, worst.metric, run=run)
    code = reason_code(worst.metric or worst.benchmark.rpartition("::")[2].removeprefix("test_"))
    place = place_of(worst)
    if worst.value is None or worst.expected is None or worst.outcome is Outcome.INCONCLUSIVE:
        return line(code, place, worst.text, run=run)
    where = f"[{worst.component}]" if worst.component else ""
    values = measured_text(worst.value, worst.expected, worst.unit)
    if worst.similarity is not None and shown_similarity(worst) is None:
        values = f"{worst.part or 'worse in its distribution'}; median {values}"
    return line(code, place, values, where, run=run)


def worst_of(bad: Iterable[MetricVerdict]) -> MetricVerdict | None:
    """Return which of a run's bad verdicts is to be acted on first; None of none."""
    return min(bad, key=lambda one: one.severity, default=None)


def line(code: str, *words: str, run: str = "") -> str:
    """Return a reason as one line that every tool takes: ASCII without quotes, the run at its end whole."""
    # A quote is left out: "the tests mark" is read as it was meant, "the test?s mark" is a riddle.
    plain = [
        re.sub(r"['\"\u2018\u2019]+", "", " ".join(word.split()))
        for word in (code, *words, run)
        if word
    ]
    clean = [re.sub(r"[^ !#-&(-~]+", "?", word) for word in plain]
    tail = f" run={clean.pop()[-_RUN:]}" if run else ""
    return " ".join(clean)[: LONGEST - len(tail)].rstrip() + tail
