"""What is compared of an answer: decisions and numbers. Sentences are left out."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

Plain = Any
"""A JSON document."""

CLOSE = 2e-4
"""How far apart equal numbers may be, as a share: fits differ a little from one CPU to another."""


def of_run(said: Mapping[str, Plain]) -> Plain:
    """Return the decisions of one run, as ``anubis report --json`` tells them."""
    node = said["node_verdict"]
    return {
        "exit": said["exit_status"],
        "node": node and of_node(node),
        "verdicts": sorted(verdict(one, one["outcome"], "limit") for one in said["verdicts"]),
        "tests": {one["test"]: one["outcome"] for one in said["results"]},
    }


def of_judging(said: Mapping[str, Plain], *, all_verdicts: bool = True) -> Plain:
    """Return the decisions of ``anubis judge --json``, with the verdicts that pass or without them."""
    rows = [
        [one["node"], *verdict(one, one["verdict"], "similarity")]
        for one in said["verdicts"]
        if all_verdicts or one["verdict"] != "PASS"
    ]
    return {"nodes": [of_node(one) for one in said["nodes"]], "verdicts": sorted(rows, key=str)}


def of_node(node: Mapping[str, Plain]) -> Plain:
    """Return what was decided about one node."""
    return {
        "node": node["node"],
        "decision": node["decision"],
        "components": node["components"],
        "triage": node["triage"],
        "blockers": len(node["blocking"]),
        "counts": dict(node["counts"]),
    }


def verdict(one: Mapping[str, Plain], outcome: str, number: str) -> list[Plain]:
    """Return one verdict as a row."""
    names = (one["benchmark"], one["metric"], one["device"], one.get("component", ""))
    return [outcome, one["reason"], one["reference"], *names, one["value"], one[number]]


def nodes_by_decision(said: Mapping[str, Plain]) -> dict[str, str]:
    """Return the names of the nodes of each decision of ``anubis judge --json``, as one text."""
    words = sorted({one["decision"] for one in said["nodes"]})
    return {
        word: " ".join(sorted(one["node"] for one in said["nodes"] if one["decision"] == word))
        for word in words
    }


def picked(rows: list[Mapping[str, Plain]], *names: str) -> list[list[Plain]]:
    """Return some fields of each object of a list."""
    return [[row[name] for name in names] for row in rows]


def rounded(value: Plain) -> Plain:
    """Return a document whose numbers have five digits."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


def aligned(found: Plain, expected: Plain) -> Plain:
    """Return what was found, with the expected number wherever the found one is as good as equal."""
    if isinstance(found, dict) and isinstance(expected, dict):
        return {key: aligned(item, expected.get(key)) for key, item in found.items()}
    if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        return [aligned(one, two) for one, two in zip(found, expected, strict=True)]
    if isinstance(found, float) and isinstance(expected, float):
        return expected if math.isclose(found, expected, rel_tol=CLOSE, abs_tol=1e-9) else found
    return found


def written(document: Plain) -> str:
    """Return a JSON document with short objects and lists on one line."""
    return "\n".join(_lines(document, "")) + "\n"


def _lines(value: Plain, indent: str) -> Iterator[str]:
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + len(indent) <= 200 or not isinstance(value, dict | list):
        yield indent + flat
        return
    opening, closing = ("{", "}") if isinstance(value, dict) else ("[", "]")
    yield indent + opening
    items = list(value.items()) if isinstance(value, dict) else [(None, item) for item in value]
    for place, (key, item) in enumerate(items, start=1):
        inner = list(_lines(item, indent + " "))
        if key is not None:
            inner[0] = f"{indent} {json.dumps(key)}: {inner[0].lstrip()}"
        inner[-1] += "," if place < len(items) else ""
        yield from inner
    yield indent + closing
