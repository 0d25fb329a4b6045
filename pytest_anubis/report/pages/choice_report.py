"""The Selector's choice explained: lines for `anubis select` and runs that select, and HTML for their pages.

Every function takes the choice as `selector.choice.choice_record` writes it; one with missing or odd values
is called damaged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from pytest_anubis.report.pages.rendering import block, fragment
from pytest_anubis.report.text.numbers import count_text, duration_text, percent
from pytest_anubis.report.text.text_table import table

MIN_KNOWN_DEFECTS = 3
"""Defects below which a share of them is called a guess: of two of which one is exposed, the share of all may
be anything from 1 to 99 % (95 % interval)."""
MAX_OPEN_ROWS = 12
"""Longer tables of what was left out start folded."""
_DAMAGE = (
    TypeError,
    LookupError,
    ValueError,
    AttributeError,
)  # of a journal that was edited, or is older


def choice_lines(event: Mapping[str, Any]) -> list[str]:
    """Return what was chosen, what it costs, which risk remains, and what the full set would cost."""
    left = event["pruned"]
    total = len(event["chosen"]) + len(left)
    full = duration_text(event["full_cost"])
    if event.get("unreadable"):
        lines = [f"the history could not be read: {_how_many(event, total, full)}"]
    elif event.get("doubt"):
        lines = [f"{event['doubt']}: {_how_many(event, total, full)}"]
    elif event["lacking"]:
        lines = [f"the history has {_lacking(event)}: {_how_many(event, total, full)}"]
    elif event["method"] == "nothing":
        lines = [
            f"{_pinned(event)}{_risks(event)}; the full set of {count_text(total, 'benchmark')} would "
            f"take {full}"
        ]
    else:
        lines = [f"{_how_many(event, total, full)}; {_risks(event)}"]
    known = not (event["lacking"] or event.get("doubt"))
    if event["target"] is not None and not event["reached"] and known:
        line = f"the accepted risk of {percent(event['target'])} cannot be reached"
        risk = event["full_risk"]
        if risk is not None and risk > event["target"]:
            line += f": even the full set leaves {percent(risk)}"
        lines.append(line)
    if left and event["mode"] == "budget" and event["budget"] is not None:
        lines += _budget_lines(event)
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


def _budget_lines(event: Mapping[str, Any]) -> list[str]:
    """Return a line where the choice exceeds its budget, or the budget is too small for any benchmark."""
    budget = event["budget"]
    lines = []
    if event["cost"] > budget:
        lines.append(
            f"takes {duration_text(event['cost'])}, more than the budget of {duration_text(budget)}: "
            "what was named, or exposed an open defect, runs whatever it takes"
        )
    if not event["chosen"] and event["method"] != "nothing":
        cheapest = min(event["pruned"], key=lambda item: item["cost_seconds"])
        takes = cheapest["cost_seconds"]
        lines.append(
            f"the budget of {duration_text(budget)} is too small for any benchmark: the cheapest, "
            f"{cheapest['benchmark']}, takes {duration_text(takes)}; give at least {math.ceil(takes)}s"
        )
    return lines


def _pinned(event: Mapping[str, Any]) -> str:
    """Return which benchmarks run although no risk asks for them, and why."""
    numbers = [str(number) for number in event.get("open_defects", ())]
    words = ["only what was named runs"] if set(event["chosen"]) - set(event["exposing"]) else []
    if len(numbers) == 1:
        words.append(f"open defect {numbers[0]}: its component is measured again")
    elif numbers:
        words.append(f"open defects {', '.join(numbers)}: their components are measured again")
    elif event["exposing"]:
        words.append("what failed here is measured again")
    return ("; ".join(words) or "nothing needs to run") + ("; " if numbers else ": ")


def _lacking(event: Mapping[str, Any]) -> str:
    """Return what the history does not have, and which of its defects do not count here."""
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
        # The share also counts defects that are not known yet.
        basis = _guess(event) or f"{event['exposed_defects']} of the {event['defects']} known"
        share = f", exposing {percent(event['coverage'])} of defects ({basis})"
    return (
        f"{len(event['chosen'])} of {count_text(total, 'benchmark')}, "
        f"{duration_text(event['cost'])} of {full}{share}"
    )


def _guess(event: Mapping[str, Any]) -> str:
    """Return why shares of defects are a guess; empty where enough defects are known."""
    known = event["defects"]
    others = event.get("other_defects", 0)
    if others:
        return f"assumed: {count_text(others, 'defect')} known, none exposed by one of these benchmarks"
    if "defects" in event["lacking"]:
        return "assumed: no defect that counts is known"
    if known and event["exposed_defects"] == 0:
        return f"assumed: {count_text(known, 'defect')} known, none exposed by what was chosen"
    if not 0 < known < MIN_KNOWN_DEFECTS:
        return ""
    verb = "is" if known == 1 else "are"
    return f"a guess: {count_text(known, 'defect')} {verb} known, the rest is assumed"


def _why(event: Mapping[str, Any], name: str) -> str:
    """Return why a benchmark runs whatever is chosen; empty where it was chosen."""
    if name in event["exposing"]:
        return "it exposed a defect that is still open"
    if name in event["pinned"]:
        return "named on the command line"
    return "drawn by chance" if name in event["explored"] else ""


def _risks(event: Mapping[str, Any]) -> str:
    """Return the risks before, after and after the full set, as far as they are known."""
    if event["risk_before"] is None:
        return "the risk is unknown, since no incident was ever recorded"
    before = percent(event["risk_before"]) + _interval(event["risk_interval"])
    text = f"risk of an incident in {event['horizon'] / 3600:g} h {before}"
    if event["method"] != "nothing":
        after = percent(event["residual_risk"]) + _interval(event["residual_interval"])
        text += f", {after} after these pass"
        if event["pruned"]:
            guess = ", a guess as well" if _guess(event) else ""
            text += f"{guess} (full set: {percent(event['full_risk'])})"
    if event["target"] is not None:
        text += f", accepted {percent(event['target'])}"
    return text


def _interval(ends: Sequence[float] | None) -> str:
    """Return the 95 % interval of a risk; empty where it is unknown."""
    return "" if ends is None else f" (95 % within {percent(ends[0])} to {percent(ends[1])})"


def driver_lines(event: Mapping[str, Any]) -> list[str]:
    """Return a line for each node: its risk, the interval of the risk, and what it comes from."""
    lines = []
    for node, risk in event["nodes"].items():
        drivers, ends = event["drivers"].get(node, ()), event["node_intervals"].get(node)
        if risk is not None and (drivers or ends):
            why = "; ".join(drivers) or "nothing is unusual about it"
            lines.append(f"{node}: risk {percent(risk)}{_interval(ends)}: {why}")
    if lines and event["within"]:
        lines.append(f"95 % within: {event['within']}")
    return lines


def explain_lines(event: Mapping[str, Any]) -> list[str]:
    """Return what each node's risk comes from, and a line for every benchmark, those left out first."""
    reasons = {item["benchmark"]: item["reason"] for item in event["picked"]}
    runs = [["runs", "because"]]
    for name in event["chosen"]:
        why = _why(event, name), reasons.get(name, "")
        runs.append([name, "; ".join(filter(None, why)) or "chosen"])
    out = [["left out", "takes", "because"]]
    out += [
        [item["benchmark"], duration_text(item["cost_seconds"]), item["reason"]]
        for item in event["pruned"]
    ]
    lines = driver_lines(event)
    if guess := _guess(event):
        lines.append(f"shares of defects below are {guess}")
    elif reasons:
        lines.append(
            "shares of defects below weigh them by the kinds of incident that the node tends to have, and "
            "count what is not known yet"
        )
    if len(out) > 1:  # first: what is not measured is the risk that is taken
        lines += table(out).splitlines()
    lines += table(runs).splitlines() if len(runs) > 1 else []
    return [*lines, *(f"note: {note}" for note in event["notes"])]


def chosen_lines(choice: Mapping[str, Any] | None) -> list[str]:
    """Return `choice_lines` of a run's record of its choice; nothing when the Selector took no part."""
    if choice is None:
        return []
    try:
        return choice_lines(choice)
    except _DAMAGE:
        return ["the journal's record of the choice of benchmarks is damaged"]


def selection_block(event: Mapping[str, Any] | None) -> Markup:
    """Return what was left out and why as HTML, or nothing when the Selector took no part."""
    if event is None:
        return Markup()
    try:
        lines = [*choice_lines(event), event["basis"], *driver_lines(event), *event["notes"]]
        return fragment(
            "choice.html",
            lines=[str(line) for line in lines if line],
            chosen=_rows(event["picked"]),
            count=len(event["chosen"]),
            left_out=_rows(event["pruned"]),
            max_open=MAX_OPEN_ROWS,
        )
    except _DAMAGE:
        return block("paragraph", "The journal's record of the choice of benchmarks is damaged.")


def _rows(items: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    """Return benchmarks with what they take and why."""
    return [
        (str(item["benchmark"]), duration_text(item["cost_seconds"]), str(item["reason"]))
        for item in items
    ]
