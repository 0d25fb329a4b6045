"""What the Selector left out and why, in words and as HTML, from the event that the journal holds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from pytest_anubis.report.pages.rendering import block, fragment
from pytest_anubis.report.text.numbers import count_text, duration_text, percent
from pytest_anubis.report.text.text_table import table

FEW = 3
"""Defects below which a coverage is called what it is: of two of which one is exposed, the share of
all may be anything from 1 to 99 % (95 % interval)."""
_DAMAGE = (TypeError, KeyError, ValueError, AttributeError)  # of a journal that was edited


def choice_lines(event: Mapping[str, Any]) -> list[str]:
    """Return what was chosen, what it costs, which risk remains, and what the full set would cost."""
    left = event["pruned"]
    total = len(event["chosen"]) + len(left)
    full = duration_text(event["full_cost"])
    if event.get("unreadable"):
        lines = [f"the history could not be read: {_how_many(event, total, full)}"]
    elif event["lacking"]:
        lines = [f"the history has {_lacking(event)}: {_how_many(event, total, full)}"]
    elif event["method"] == "nothing":
        lines = [
            f"{_pinned(event)}{_risks(event)}; the full set of {count_text(total, 'benchmark')} would "
            f"take {full}"
        ]
    else:
        lines = [f"{_how_many(event, total, full)}; {_risks(event)}"]
    if event["target"] is not None and not event["reached"] and not event["lacking"]:
        asked = f"the accepted risk of {percent(event['target'])} cannot be reached"
        whole = event["full_risk"]
        if whole is not None and whole > event["target"]:
            asked += f": even the full set leaves {percent(whole)}"
        lines.append(asked)
    budget = event.get("budget") if event.get("mode") == "budget" else None
    if left and budget is not None and event["cost"] > budget:
        must = "what was named, or exposed an open defect, runs whatever it takes"
        lines.append(
            f"takes {duration_text(event['cost'])}, more than the budget of "
            f"{duration_text(budget)}: {must}"
        )
    if left and budget is not None and not event["chosen"] and event["method"] != "nothing":
        least = min(left, key=lambda item: item["cost_seconds"])
        takes = least["cost_seconds"]
        lines.append(
            f"the budget of {duration_text(budget)} is too small for any benchmark: the cheapest, "
            f"{least['benchmark']}, takes {duration_text(takes)}; give at least {math.ceil(takes)}s"
        )
    if event["explored"]:
        lines.append(
            f"{len(event['explored'])} of them by chance, so that learning goes on (seed "
            f"{event['seed']})"
        )
    if event["unpriced"]:
        lines.append(
            f"{count_text(len(event['unpriced']), 'benchmark')} of unknown duration, counted like "
            "the others: give their tests' marks a cost, or tables a column 'duration'"
        )
    if not event["optimal"]:
        lines.append("chosen greedily, not proven to be the best choice")
    return lines + [f"warning: {words}" for words in event.get("warnings", ())]


def _pinned(event: Mapping[str, Any]) -> str:
    """Say what runs although nothing needs to, and why; older journals know no numbers of defects."""
    numbers = [str(number) for number in event.get("open_defects", ())]
    named = set(event["chosen"]) - set(event.get("exposing", ()))
    words = ["only what was named runs"] if named or (event["chosen"] and not numbers) else []
    if len(numbers) == 1:
        words.append(f"open defect {numbers[0]}: its component is measured again")
    elif numbers:
        words.append(f"open defects {', '.join(numbers)}: their components are measured again")
    return ("; ".join(words) or "nothing needs to run") + ("; " if numbers else ": ")


def _lacking(event: Mapping[str, Any]) -> str:
    """Say what the history does not have, and which of its defects do not count here."""
    alarms = event.get("false_alarms", 0)
    if not alarms:
        return f"no {' and no '.join(event['lacking'])} yet"
    none = "no incidents yet and " if "incidents" in event["lacking"] else ""
    return f"{none}no defect that counts ({count_text(alarms, 'false alarm')})"


def _how_many(event: Mapping[str, Any], total: int, full: str) -> str:
    if not event["pruned"]:
        return f"the full set runs, {count_text(total, 'benchmark')}, {full}"
    share = ""
    if event["defects"]:
        told = _guessed(event) or _exposed(event)
        # The share counts what is not known yet as well, so the count of the known ones stands beside it.
        of = f"defects ({told})" if told else "known defects"
        share = f", exposing {percent(event['coverage'])} of {of}"
    return (
        f"{len(event['chosen'])} of {count_text(total, 'benchmark')}, "
        f"{duration_text(event['cost'])} of {full}{share}"
    )


def _exposed(event: Mapping[str, Any]) -> str:
    """Return how many of the known defects the share comes from; empty of journals that do not say it."""
    count = event.get("exposed_defects")
    return "" if count is None else f"{count} of the {event['defects']} known"


def _guessed(event: Mapping[str, Any]) -> str:
    """Say that shares of defects are a guess, where so few are known that most of them is assumed."""
    few = event["defects"]
    others = event.get("other_defects", 0)
    if others:
        return f"assumed: {count_text(others, 'defect')} known, none exposed by one of these benchmarks"
    if "defects" in event["lacking"]:
        return "assumed: no defect that counts is known"
    if few and event.get("exposed_defects") == 0:
        return f"assumed: {count_text(few, 'defect')} known, none exposed by what was chosen"
    if not 0 < few < FEW:
        return ""
    known = "1 defect is known" if few == 1 else f"{few} defects are known"
    return f"a guess: {known}, the rest is assumed"


def _why(event: Mapping[str, Any], name: str) -> str:
    """Return why a benchmark runs whatever is chosen; empty where it was chosen."""
    if name in event.get("exposing", ()):
        return "it exposed a defect that is still open"
    if name in event["pinned"]:
        exact = "exposing" in event
        return "named on the command line" + ("" if exact else ", or an open defect")
    return "drawn by chance" if name in event["explored"] else ""


def _risks(event: Mapping[str, Any]) -> str:
    """Return the risks before, after and after the full set, as far as they are known."""
    if event["risk_before"] is None:
        return "the risk is unknown, since no incident was ever recorded"
    hours = f"{event['horizon'] / 3600:g} h"
    before = _interval(event, "risk_interval")
    text = f"risk of an incident in {hours} {percent(event['risk_before'])}{before}"
    if event["method"] != "nothing":
        after = _interval(event, "residual_interval")
        text += f", {percent(event['residual_risk'])}{after} after these pass"
        if event["pruned"] and _guessed(event):
            text += ", a guess as well"
        if event["pruned"]:
            text += f" (full set: {percent(event['full_risk'])})"
    if event["target"] is not None:
        text += f", accepted {percent(event['target'])}"
    return text


def driver_lines(event: Mapping[str, Any]) -> list[str]:
    """Return a line for each node: its risk, where that lies, and what it comes from."""
    lines = []
    for node, risk in (event.get("nodes") or {}).items():
        told = (event.get("drivers") or {}).get(node, ())
        ends = (event.get("node_intervals") or {}).get(node)
        if risk is None or not (told or ends):
            continue
        within = "" if ends is None else f" (95 % within {percent(ends[0])} to {percent(ends[1])})"
        why = "; ".join(told) or "nothing is unusual about it"
        lines.append(f"{node}: risk {percent(risk)}{within}: {why}")
    if lines and event.get("within"):
        lines.append(f"95 % within: {event['within']}")
    return lines


def _interval(event: Mapping[str, Any], name: str) -> str:
    """Return where a risk lies in 95 % of cases; nothing in records without it."""
    ends = event.get(name)
    return "" if ends is None else f" (95 % within {percent(ends[0])} to {percent(ends[1])})"


def explain_lines(event: Mapping[str, Any], *, width: int | None = None) -> list[str]:
    """Return what each node's risk comes from, and a line for every benchmark, those left out first."""
    reasons = {item["benchmark"]: item["reason"] for item in event.get("picked") or ()}
    runs = [["runs", "because"]]
    for name in event["chosen"]:
        why = _why(event, name) or "chosen"
        told = reasons.get(name, "")
        runs.append([name, told if why == "chosen" and told else f"{why}; {told}" if told else why])
    out = [["left out", "takes", "because"]]
    out += [
        [item["benchmark"], duration_text(item["cost_seconds"]), item["reason"]]
        for item in event["pruned"]
    ]
    lines = driver_lines(event)
    if _guessed(event):
        lines.append(f"shares of defects below are {_guessed(event)}")
    elif reasons:
        lines.append(
            "shares of defects below weigh them by the kinds of incident that the node tends to have, and "
            "count what is not known yet"
        )
    if len(out) > 1:  # first: what is not measured is the risk that is taken
        lines += table(out).splitlines()
    lines += table(runs, width=width).splitlines() if len(runs) > 1 else []
    return [*lines, *(f"note: {note}" for note in event["notes"])]


_FIELDS = {
    "mode", "method", "chosen", "pruned", "explored", "pinned", "unpriced", "lacking", "notes",
    "basis", "horizon", "target", "reached", "optimal", "seed", "cost", "full_cost", "coverage",
    "defects", "risk_before", "residual_risk", "full_risk",
}  # fmt: skip


def chosen_lines(choice: Mapping[str, Any] | None) -> list[str]:
    """Return `choice_lines` of a run's record of its choice; nothing when the Selector took no part."""
    if choice is None or not choice.keys() >= _FIELDS:
        return []
    try:
        return choice_lines(choice)
    except _DAMAGE:
        return ["the journal's record of the choice of benchmarks is damaged"]


def selection_block(event: Mapping[str, Any] | None) -> Markup:
    """Return what was left out and why as HTML, or nothing when the Selector took no part."""
    if event is None or not event.keys() >= _FIELDS:
        return Markup()
    try:
        said = [*choice_lines(event), event["basis"], *driver_lines(event), *event["notes"]]
        left_out = _items("left out", event["pruned"])
    except _DAMAGE:
        return block("paragraph", "The journal's record of the choice of benchmarks is damaged.")
    try:
        chosen = _items("runs", event.get("picked") or ())
    except _DAMAGE:
        chosen = Markup()
    return fragment(
        "choice.html",
        lines=[str(line) for line in said if line],
        chosen=chosen,
        count=len(event["chosen"]),
        left_out=left_out,
        left=len(event["pruned"]),
    )


def _items(title: str, items: Sequence[Mapping[str, Any]]) -> Markup:
    """Return benchmarks with what they take and why, as a table; nothing without any."""
    rows = [
        (str(item["benchmark"]), duration_text(item["cost_seconds"]), str(item["reason"]))
        for item in items
    ]
    return block("table", (title, "takes", "because"), rows, numbers=(1,)) if rows else Markup()
