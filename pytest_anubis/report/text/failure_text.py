"""Messages of tests that did not pass: a first line that makes sense alone, then a table and the reasons.

The summary and the texts about many nodes use its sentences about single bad verdicts (`worst_text`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from pytest_anubis.core.asking.next_step import next_steps
from pytest_anubis.core.metric import exact_text, loss_text, measured_text, metric_name
from pytest_anubis.core.shown_loss import ALL_DEVICES, place_of, shown_similarity
from pytest_anubis.core.verdict import HOST, UNSURE, MetricVerdict, Outcome, Reason, Reference
from pytest_anubis.report.text.explanation_text import evidence_lines
from pytest_anubis.report.text.numbers import (
    certainty_text,
    comparison_text,
    lost_text,
    similarity_text,
    value_text,
)
from pytest_anubis.report.text.safe_text import plain_line, printable
from pytest_anubis.report.text.since_text import SINCE, since_text, since_words
from pytest_anubis.report.text.text_table import fitted_table, table, without_columns, wrap

_BAD = (Outcome.FAIL, Outcome.MARGINAL)
_SPARE = ("fleet percentile", "baseline", "certainty", "limit", "unit")
"""Columns left out on a narrow terminal, in this order, before names are cut; ``-v`` shows all."""
_TABLE = 2
"""Lines of a failure's text before its table: the first line and an empty one."""
_SURE = 0.95
"""Certainty from which a failure is not near its limit."""
_REFERENCES = {
    Reference.PEERS: " (peers)",
    Reference.SELF: " (self)",
    Reference.MODEL: " (nominal)",
}
"""The reference in words where it is no baseline."""
_COLUMNS = (
    *("metric", "unit", "value", "expected", "limit", "loss", "certainty", "similarity"),
    *("threshold", "fleet percentile", "baseline", "triage", "verdict"),
)


def failure_text(
    verdicts: Sequence[MetricVerdict], cards: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Return the message of a test with a rejected metric.

    Its first line makes sense alone in a list of failures; an empty line, the table, and then reasons,
    component, evidence and next step follow. Of the test's verdicts at least one is FAIL or MARGINAL;
    `cards` are device -> slot and serial number of its card in words, as far as they are known.
    """
    verdicts = sorted(verdicts, key=lambda verdict: verdict.severity)
    bad = [verdict for verdict in verdicts if verdict.outcome in _BAD]
    parts = [_why(verdict) for verdict in bad]
    components = list(dict.fromkeys(v.component for v in bad if v.component))
    if components:
        where = ", ".join(
            dict.fromkeys(f"{v.node} {place_text(place_of(v), cards)}".strip() for v in bad)
        )
        parts.append(f"component: {', '.join(components)} ({where})")
    bases = list(dict.fromkeys(v.population for v in bad if v.population))
    if bases:
        parts.append(f"learned from: {', '.join(bases)}")
    parts += dict.fromkeys(f"disturbed: {line}" for v in bad for line in v.disturbance)
    parts += dict.fromkeys(f"evidence: {line}" for v in bad for line in evidence_lines(v))
    parts += [f"{SINCE}: {text}" for text in map(since_text, bad) if text]
    parts += [f"next step: {step}" for step in next_steps(bad)]
    first = printable(_first_line(bad, len(verdicts), cards))
    return "\n".join([first, "", table(failure_rows(verdicts)), "", *map(printable, parts)])


def failure_rows(verdicts: Sequence[MetricVerdict]) -> list[list[str]]:
    """Return the table of a failure's text as rows, the header first."""
    several = len({verdict.device for verdict in verdicts}) > 1
    rows = [list(_COLUMNS)]
    for verdict in sorted(verdicts, key=lambda verdict: verdict.severity):
        name, *cells = _row(verdict)
        rows.append([f"{name} {place_of(verdict)}".strip() if several else name, *cells])
    return without_columns(rows, "similarity", "threshold")


def fitted_failure(
    lines: Sequence[str], rows: Sequence[list[str]], width: int, *, wrapped: bool = True
) -> list[str]:
    """Return the lines of `failure_text` without the less important columns, so that its table fits a width.

    Lines that do not contain the table `rows`, from `failure_rows`, are returned unchanged; `wrapped` breaks
    the other lines at blanks.
    """
    edge = width if wrapped else None
    end = _TABLE + len(rows)
    if list(lines[_TABLE:end]) != table(rows).splitlines():
        return list(lines)
    return [
        *wrap(lines[0], edge, indent="  "),
        *lines[1:_TABLE],
        *fitted_table(rows, width, _SPARE, last="triage").splitlines(),
        *(part for line in lines[end:] for part in wrap(line, edge, indent="  ")),
    ]


def short_lines(
    verdicts: Sequence[MetricVerdict], cards: Mapping[str, str] = MappingProxyType({})
) -> list[str]:
    """Return the first line of `failure_text`, and ever shorter forms of it.

    All of them have metric and loss, all but the shortest value and expected value.
    """
    bad = sorted((v for v in verdicts if v.outcome in _BAD), key=lambda verdict: verdict.severity)
    worst = bad[0]
    text, _, short = _sentence(worst)
    blame = f": {worst.component}" if worst.component else ""
    device = f" on {worst.device}" if worst.device not in HOST else ""
    since = since_words(worst)
    lines = [_first_line(bad, len(verdicts), cards), f"{text}{blame}{device}{since}"]
    lines += [f"{text}{blame}{device}", *([f"{short}{since}"] if since else [])]
    lines += [f"{short}{blame}", text, short]
    if short != text:
        lines.append(f"{worst.metric}{_loss(worst)}")
    return [printable(plain_line(line)) for line in dict.fromkeys(lines)]


def place_text(device: str, cards: Mapping[str, str]) -> str:
    """Return a device, or a pair of devices, with slots and serial numbers as far as they are known."""
    ends = [cards[end] for end in device.split(">") if end in cards]
    card = " > ".join(ends)
    return f"{device} ({card})" if card else device


def inconclusive_text(verdicts: Sequence[MetricVerdict]) -> str:
    """Return one line with the reasons why a test that measured cannot be judged."""
    open_ones = [v for v in verdicts if v.outcome in (Outcome.INCONCLUSIVE, Outcome.NOT_TESTED)]
    texts = list(dict.fromkeys(plain_line(verdict.text) for verdict in open_ones))
    word = next((v.outcome for v in open_ones if v.outcome is Outcome.INCONCLUSIVE), None)
    return f"{word or Outcome.NOT_TESTED}: {'; '.join(texts)}"


def verdict_table(verdicts: Sequence[MetricVerdict]) -> str:
    """Return a table with a row for each verdict, in their order."""
    rows = [["benchmark", *(name.removeprefix("fleet ") for name in _COLUMNS)]]
    rows += [[f"{v.benchmark} {place_of(v)}".strip(), *_row(v)] for v in verdicts]
    return table(without_columns(rows, "baseline"))


def summary_sentence(verdict: MetricVerdict) -> str:
    """Return a bad verdict in one line: metric, value, loss, component.

    The loss is that of the medians. If they do not show it (a tail, two modes), the sentence names the part
    of the values that differs, or says that the distribution is worse.
    """
    text, compared, _ = _sentence(verdict)
    return text + compared + (f": {verdict.component}" if verdict.component else "")


def worst_text(
    verdict: MetricVerdict, cards: Mapping[str, str], among: str = "", runs: int = 1
) -> str:
    """Return a bad verdict in one sentence: metric, device with slot, loss, values, component.

    Args:
        verdict: The verdict.
        cards: Device -> slot and serial number of its card in words.
        among: The devices that fail in the same way, in words; this is the worst. Empty for one device.
        runs: How many of the node's runs found it.
    """
    name = metric_name(verdict.benchmark.rpartition("::")[2], verdict.metric)
    name += f" of {ALL_DEVICES}" if verdict.scope == "node" else ""
    where = f" on {place_text(verdict.device, cards)}" if verdict.device not in HOST else ""
    where = f" on {among}, the worst {where.removeprefix(' on ')}:" if among else where
    blame = f" [{verdict.component}]" if verdict.component else ""
    ending = f"; {verdict.run_words}" if verdict.run_words else ""
    run = ending + (f" and {runs - 1} more" if ending and runs > 1 else "")
    if verdict.reason is Reason.GONE:
        return f"{plain_line(verdict.text)}{blame}"
    if not _below(verdict) or verdict.better == "equal":
        text = plain_line(verdict.text).removesuffix(ending)
        for known in (f"{verdict.metric} ", f"{verdict.metric}: ", f"{verdict.device}: "):
            text = text.removeprefix(known)
        own = "" if verdict.metric else "".join(f"; {one}" for one in verdict.evidence)
        return f"{name}{where.removesuffix(':')}: {text}{own}{blame}{run}"
    lost = _lost(verdict, measured_text(verdict.value, verdict.expected, verdict.unit))
    by = ""
    if verdict.reference in _REFERENCES and verdict.population:
        by = f" by {verdict.population}"
    where = where.removesuffix(":") if lost.startswith(":") else where
    return f"{name}{where}{lost}{by}{blame}{run}"


def _below(verdict: MetricVerdict) -> bool:
    """Return whether a similarity is below the threshold."""
    alike, limit = verdict.similarity, verdict.threshold
    return alike is not None and limit is not None and alike < limit


def sure_text(verdict: MetricVerdict) -> str:
    """Return how sure it is that a loss is beyond the limit: ``; 98 % sure``; or empty.

    It is empty for an exact metric, which is right or wrong, and for a verdict to be measured again for
    another reason than that it is near the limit.
    """
    if verdict.certainty is None or verdict.better == "equal" or verdict.retest in UNSURE:
        return ""
    if verdict.retest and verdict.certainty >= _SURE:
        return ""
    return f"; {certainty_text(verdict.certainty)} sure"


def _sentence(verdict: MetricVerdict) -> tuple[str, str, str]:
    """Return three texts: metric, loss and values; similarity and threshold; and the first one shortened."""
    value, expected, similarity = verdict.value, verdict.expected, verdict.similarity
    if value is None or expected is None or similarity is None or not _below(verdict):
        text = plain_line(verdict.text)
        return text, "", text
    if verdict.better == "equal":
        text = _exact_sentence(verdict, value, expected, similarity)
        return text, "", text
    long = _lost(verdict, measured_text(value, expected, verdict.unit))
    short = _lost(verdict, f"{value_text(value)} vs {value_text(expected, verdict.unit)}")
    compared = f" ({comparison_text(similarity, verdict.threshold or 0.0)})"
    return f"{verdict.metric}{long}", compared, f"{verdict.metric}{short}"


def _lost(verdict: MetricVerdict, values: str) -> str:
    """Return how much worse a metric is, with its values, to be printed after its name."""
    hidden = shown_similarity(verdict) is None
    mark = ";" if hidden and verdict.part else ":"
    return f"{_loss(verdict)}{mark} {'median ' if hidden else ''}{values}"


def _loss(verdict: MetricVerdict) -> str:
    """Return how much worse a metric is, to be printed after its name."""
    alike = shown_similarity(verdict)
    if alike is not None:
        return f" {loss_text(alike, verdict.better, verdict.unit)}"
    return f": {verdict.part}" if verdict.part else " worse in its distribution"


def _exact_sentence(
    verdict: MetricVerdict, value: float, expected: float, similarity: float
) -> str:
    name, unit, count = verdict.metric, verdict.unit, verdict.count
    must = f"must be {exact_text(expected, unit, name)}"
    differ = f"{round((1 - similarity) * count)} of {count} values differ"
    if value == expected:  # the median: fewer than half of them differ
        return f"{name} {must}, but {differ}"
    more = f" ({differ})" if count > 1 else ""
    return f"{name} {exact_text(value, unit, name)}, {must}{more}"


def _first_line(bad: Sequence[MetricVerdict], total: int, cards: Mapping[str, str]) -> str:
    """Return the worst verdict, then the names of the others: a terminal may cut the end."""
    worst = bad[0]
    where = f" on {place_text(worst.device, cards)}" if worst.device not in HOST else ""
    names = list(dict.fromkeys(verdict.metric or verdict.benchmark for verdict in bad[1:]))
    more = f"; {len(bad)} of {total} metrics are bad, also {', '.join(names)}" if names else ""
    return f"{summary_sentence(worst)}{where}{since_words(worst)}{more}"


def _why(verdict: MetricVerdict) -> str:
    name = verdict.metric or verdict.benchmark
    text = plain_line(verdict.text)
    return text if text.startswith(name) else f"{name}: {text}"


def _row(verdict: MetricVerdict) -> list[str]:
    """Return the cells of `_COLUMNS`."""
    return [
        verdict.metric or "(none)",
        verdict.unit or "-",
        value_text(verdict.value),
        value_text(verdict.expected),
        value_text(verdict.limit),
        lost_text(verdict),
        certainty_text(verdict.certainty),
        similarity_text(verdict.similarity),
        similarity_text(verdict.threshold),
        "-" if verdict.percentile is None else f"{verdict.percentile:.0f}",
        verdict.baseline or "-",
        verdict.triage.value or "-",
        verdict.shown_as + _REFERENCES.get(verdict.reference, ""),
    ]
