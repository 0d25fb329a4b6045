"""Write a fleet's pages into a folder: nodes and metrics first, the index that links them last.

`judged_document` is the page of ``--html`` without ``--fleet``: all nodes in one file.

`judge_command` and `report_command` use it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.node_runs import NodeRuns
from pytest_anubis.cli.shared.progress import Progress
from pytest_anubis.cli.site.fleet_source import FleetSource
from pytest_anubis.cli.site.view_building import fleet_view
from pytest_anubis.codec.regular_files import open_regular
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import Outcome
from pytest_anubis.report.fleet.fleet_index import MARK, fleet_index, on_one_page
from pytest_anubis.report.fleet.fleet_view import FleetMetric, FleetNode, FleetView
from pytest_anubis.report.fleet.metric_page import HOME, metric_page
from pytest_anubis.report.pages.dossier import run_page
from pytest_anubis.report.pages.metric_sections import Case, cases_of
from pytest_anubis.store.atomic import write_atomically

if TYPE_CHECKING:
    from pytest_anubis.core.baseline import Baseline

MAX_PLOTS = 12
"""Measurements drawn in a node's page, those that are not PASS: a fleet has thousands of pages."""
MAX_NODE_PAGES = 5000
"""Nodes with a page, the worst first: as many as a folder on a file share holds without delay."""
_MARK_BYTES = 4096
"""Bytes at the beginning of a page that contain its mark."""
_MAX_NAME = 80
"""Characters of a name in a file's name: file systems take 255 bytes."""


def write_site(folder: Path, source: FleetSource, baselines: dict[str, Baseline]) -> Path:
    """Write the pages, and return the index.

    A page of another kind with the same name is not replaced.
    """
    index = folder / "index.html"
    _refuse_others(index)
    view = fleet_view(source)
    metrics = tuple(
        dataclasses.replace(one, link=f"metrics/{_metric_file(one)}") for one in view.metrics
    )
    view = dataclasses.replace(view, metrics=metrics)
    places = view.places
    names = _node_files([(node.name, node.row.hardware_class) for node in view.nodes])
    runs = NodeRuns(source.runs, source.judged)
    nodes: list[FleetNode] = []
    try:
        for name in ("nodes", "metrics"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        with Progress("writing") as progress:
            for number, node in enumerate(view.nodes[:MAX_NODE_PAGES]):
                link = f"nodes/{names[number]}"
                record = runs.run_of(node.row, brief=True)
                drawn = _drawn(record)
                anchors = {
                    place: f"c{at}"
                    for at, case in reversed(list(enumerate(drawn)))
                    if (place := places.get(_metric_of(case))) is not None
                }
                baseline = baselines.get(node.row.hardware_class)
                page = run_page(record, baseline, drawn=len(drawn), home=HOME, closed=node.closed)
                write_atomically(folder / link, page, durable=False)
                nodes.append(dataclasses.replace(node, link=link, anchors=anchors))
                progress.count(number + 1, len(view.nodes))
        view = dataclasses.replace(
            view,
            nodes=(*nodes, *view.nodes[MAX_NODE_PAGES:]),
            notes=(*view.notes, *_without_page(view)),
        )
        for number, one in enumerate(view.metrics):
            write_atomically(folder / one.link, metric_page(view, number), durable=False)
        write_atomically(index, fleet_index(view))
    except OSError as error:
        raise CommandError(
            f"{error.filename or folder}: cannot be written ({error.strerror})"
        ) from error
    return index


def judged_document(source: FleetSource, inputs: Mapping[str, Any]) -> str:
    """Return the page of judged nodes as one file, with the findings on each below.

    `inputs` has the files that decided, as of `judged_inputs`.
    """
    view = on_one_page(fleet_view(source))
    files = [*inputs["inputs"], *inputs["baseline_files"]]
    return fleet_index(
        dataclasses.replace(view, files=tuple((one["path"], one["sha256"] or "-") for one in files))
    )


def _without_page(view: FleetView) -> list[str]:
    left = len(view.nodes) - MAX_NODE_PAGES
    if left <= 0:
        return []
    return [
        f"the {MAX_NODE_PAGES} worst nodes have a page here, {left} have none: 'anubis report SOURCE --node "
        "NAME --html FILE' writes one"
    ]


def _refuse_others(index: Path) -> None:
    """Refuse to replace a page that is not the index of a fleet."""
    try:
        with open_regular(index) as there:
            ours = MARK.encode() in there.read(_MARK_BYTES)
    except FileNotFoundError:
        return
    except OSError as error:
        raise CommandError(
            f"--html {index.parent}: cannot be used as a folder of pages ({error.strerror}); name another one"
        ) from error
    if not ours:
        raise CommandError(
            f"{index}: is there and no page of a fleet; name another folder, or remove it"
        )


def _drawn(record: RunRecord) -> Sequence[Case]:
    """Return the measurements to draw: the worst of those that are not PASS."""
    cases = cases_of(record.measurements, record.effective_verdicts)
    bad = [
        case for case in cases if case.verdict is None or case.verdict.outcome is not Outcome.PASS
    ]
    return cases[: min(len(bad), MAX_PLOTS)]


def _metric_of(case: Case) -> tuple[str, str]:
    return case.measurement.benchmark, case.measurement.metric.name


def _metric_file(one: FleetMetric) -> str:
    digest = hashlib.sha256(
        f"{one.benchmark}\n{one.metric.name}".encode("utf-8", "replace")
    ).hexdigest()
    return f"metric-{_plain(one.metric.name)}-{digest[:8]}.html"


def _node_files(nodes: Sequence[tuple[str, str]]) -> list[str]:
    """Return a file name for every node and class that any file system and any link can hold.

    A name has a digest if it had to be changed, differs from another one only by capitals, or occurs in
    several classes. The same node always gets the same name.
    """
    counts = Counter(name.casefold() for name, _ in nodes)
    files = []
    for name, key in nodes:
        plain = _plain(name)
        if plain != name or counts[name.casefold()] > 1:
            digest = hashlib.sha256(f"{name}\n{key}".encode("utf-8", "replace")).hexdigest()
            plain += f"-{digest[:8]}"
        files.append(f"node-{plain}.html")
    return files


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)[:_MAX_NAME]
