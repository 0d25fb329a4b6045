"""``anubis health``: whether this node is fit by its last verdicts; fast, for health checks and prologs.

Nothing is measured. ``--act`` drains a rejected node in Slurm, or labels the node in Kubernetes.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from pytest_anubis.cli.shared.arguments import add_json, explain
from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.history_access import may_be_there, use
from pytest_anubis.cli.shared.printing import answer, say
from pytest_anubis.codec.moments import day_of
from pytest_anubis.core.history import NodeRecord
from pytest_anubis.core.machine_marks import are_of_one_host
from pytest_anubis.core.verdict import Decision
from pytest_anubis.core.waiving import holds_among
from pytest_anubis.durations import seconds
from pytest_anubis.fleet.launching import kubernetes_node as cluster
from pytest_anubis.fleet.launching.health_check import Health, health_of
from pytest_anubis.fleet.launching.kubernetes_node import ACCOUNT
from pytest_anubis.fleet.launching.slurm_node import SlurmError, act
from pytest_anubis.hardware.inventory.node_name import node_name
from pytest_anubis.report.export.drain_reason import LEADER, line, unjudged_text
from pytest_anubis.store.journal.journal_file import is_written, journal_path
from pytest_anubis.store.kept_rejections import (
    KeptRejection,
    has_foreign_verdict,
    keep_rejection,
    kept_rejection,
)
from pytest_anubis.store.node_standing import (
    StandingError,
    boot_id,
    newer_standing,
    read_standing,
)
from pytest_anubis.store.waiver_files import WaiverError, read_waivers

ENV_STORE = "PYTEST_ANUBIS_STORE"  # repeated here, since `options` loads pytest

IMPORTS = "imports"  # repeated here, since the importers load numpy

ACTS = ("drain", "drain-resume", "label")


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    explain(
        parser,
        "Say in one line whether this node is fit, by all its runs: nothing is measured, no hardware is "
        "asked. Nothing is done about it either, unless --act asks for that.",
        "Exit codes: 0 accepted; 1 rejected; 20 neither: no verdict yet, too old, a run was cut short, or "
        "rejected for nothing but what many nodes share, which is no reason to drain one; 2 wrong usage, or "
        "what --act asked for was refused.",
    )
    parser.add_argument("--node", help="name of the node (default: this one's, see docs/fleet.md)")
    parser.add_argument(
        "--store",
        type=Path,
        default=Path(os.environ.get(ENV_STORE) or ".anubis"),
        metavar="DIR",
        help=f"folder that keeps runs, as --anubis-store (default: {ENV_STORE}, else .anubis)",
    )
    parser.add_argument(
        "--max-age",
        metavar="TIME",
        help="an acceptance that is older says nothing any more, e.g. 7d (default: it never ages)",
    )
    parser.add_argument(
        "--waivers",
        type=Path,
        metavar="FILE",
        help="what a waiver covered counts as failed where none of this file covers the same any more "
        "(default: from the day after the one that the waiver had in the run)",
    )
    parser.add_argument(
        "--act",
        choices=ACTS,
        help="tell the scheduler: 'drain' drains a rejected node of Slurm, 'drain-resume' also resumes an "
        "one that this program drained before its accepted run, 'label' sets labels and condition of a node "
        "of Kubernetes; what others drained is never touched",
    )
    parser.add_argument(
        "--patch",
        choices=("labels", "condition"),
        help="print the patch of Kubernetes' node in place of the line",
    )
    add_json(parser, "the decision, its reason and the run behind it")
    parser.add_argument("--prefix", help="domain of labels and annotations in Kubernetes")


def run(options: argparse.Namespace) -> int:
    """Print the answer; the exit code is that of the decision."""
    node = node_name(os.environ, options.node or "", where="--node")
    now = time.time()
    health = _health(options, node, now)
    if options.patch and options.json:
        raise CommandError("--patch prints in place of the answer: leave --json out")
    if options.patch:
        prefix = options.prefix or cluster.PREFIX
        labels = options.patch == "labels"
        patch = (
            cluster.label_patch(health, prefix)
            if labels
            else cluster.condition_patch(health, now=now)
        )
        say(json.dumps(patch))
    else:
        again = " (measure again first)" if health.retest else ""
        answer(options.json, _document(node, health), f"{health.text}{again}")
    if options.act:
        _act(options, node, health, now)
    return health.decision.exit_code


def _document(node: str, health: Health) -> dict[str, Any]:
    """Return the JSON answer; times are in seconds since 1970, None without a run."""
    known = health.kept
    return {
        "schema": 1,
        "node": node,
        "decision": health.decision.name,
        "reason": health.text,
        "retest": health.retest,
        "run": None if known is None else known.judged.run,
        "ended": None if known is None else known.judged.ended,
        "hardware_class": None if known is None else known.hardware_class,
        "baseline": None if known is None else known.baseline,
    }


def _health(options: argparse.Namespace, node: str, now: float) -> Health:
    try:
        limit = None if options.max_age is None else seconds(options.max_age)
    except ValueError as error:
        raise CommandError(f"--max-age: {error}") from error
    try:
        given = options.waivers
        holds = None if given is None else holds_among(read_waivers(given, day_of(now)))
    except WaiverError as error:
        raise CommandError(f"--waivers: {error}") from error
    try:
        standing = read_standing(options.store, node)
    except StandingError as error:
        return Health(Decision.UNDECIDED, line(f"{LEADER}UNREADABLE", str(error)))
    missing = standing is None
    standing = newer_standing(options.store, node, standing, keep=not missing)
    running = standing.running if standing else ""
    filed = None
    if missing:
        filed = _filed(options.store, node, now, limit) or _lost_rejection(options.store, node)
        latest = running or (standing.runs[-1].judged.run if standing and standing.runs else "")
        knows_all = not latest or _is_filed(options.store, node, latest)
        if filed is not None and (knows_all or filed.decision is Decision.REJECTED):
            return filed
        newer_standing(options.store, node, None, keep=True)
    alive = not running or is_written(journal_path(options.store, running))
    found = health_of(
        standing, node, now=now, max_age=limit, boot=boot_id(), alive=alive, holds=holds
    )
    if found.decision is Decision.ACCEPTED:
        others = (options.store / IMPORTS).is_dir() or has_foreign_verdict(options.store, node)
        if filed is None and others:  # an imported run, or one of another store, may be worse
            filed = _filed(options.store, node, now, limit)
        return found if filed is None or filed.decision is Decision.ACCEPTED else filed
    return found


def _is_filed(store: Path, node: str, run: str) -> bool:
    """Return whether the store's history has a run of a node."""
    from pytest_anubis.store.history.filed_before import has_run

    return may_be_there(str(store)) and use(str(store), partial(has_run, node=node, run=run))


def _filed(store: Path, node: str, now: float, max_age: float | None) -> Health | None:
    """Return the answer of the store's history on an imported node, or that an import is not filed yet."""
    there = may_be_there(str(store))
    if not there and not (store / IMPORTS).is_dir():  # opening a history takes a third of a second
        return None
    from pytest_anubis.fleet.fleet_status import Status, statuses_of
    from pytest_anubis.store.fleet.last_runs import NodeState, last_of_history
    from pytest_anubis.store.fleet.unfiled import unfiled
    from pytest_anubis.store.history.database import History, HistoryError
    from pytest_anubis.store.history.machine_owners import name_here

    def named(history: History) -> str:
        return name_here(history, node, frozenset())

    try:
        known, own = (
            use(str(store), lambda history: (last_of_history(history, store), named(history)))
            if there
            else (
                tuple(
                    NodeState(node=NodeRecord(name=name), unfiled=files)
                    for name, files in unfiled(store, None).items()
                ),
                node,
            )
        )
    except HistoryError as error:
        return Health(Decision.UNDECIDED, line(f"{LEADER}UNREADABLE", str(error)))
    judged = [one for one in known if one.last is not None or one.unfiled]
    mine = [one for one in judged if one.node.name == own]
    if not mine and not there:  # nothing is filed yet, under the short or the full name
        mine = [one for one in judged if are_of_one_host(one.node.name, node)]
    began = {one.node.name: one.last.started for one in mine if one.last is not None}
    for status in statuses_of(mine, now=now, risks={}, accepted_risk=1.0, max_age=max_age):
        said = f"{node}: {status.why}; {status.act}" if status.act else f"{node}: {status.why}"
        due = "OLD-VERDICT" if status.decision == Decision.ACCEPTED else "ANSWERED"
        codes = {Status.DUE: due, Status.CUT_SHORT: "CUT-SHORT"}
        code = codes.get(status.status, "NO-VERDICT")
        neither = Health(Decision.UNDECIDED, line(f"{LEADER}{code}", said))
        if status.group:
            return Health(Decision.UNDECIDED, status.reason)
        if status.reason and status.status is Status.QUARANTINED:
            rejection = KeptRejection(status.reason, status.run, began.get(status.node, 0.0))
            keep_rejection(store, node, rejection)
            return Health(Decision.REJECTED, status.reason, retest=status.retest)
        kept = kept_rejection(store, node)
        lost = kept is not None and not _is_filed(store, status.node, kept.run)
        later = kept is not None and began.get(status.node, 0.0) > kept.began
        if lost and not (later and status.status is Status.FIT):  # not answered
            return _lost_rejection(store, node)
        keep_rejection(store, node, None)
        if status.status is Status.FIT:
            return Health(
                Decision.ACCEPTED,
                line(f"{LEADER}ACCEPTED", unjudged_text(status.unjudged), run=status.run),
            )
        return neither
    return None


def _lost_rejection(store: Path, node: str) -> Health | None:
    """Return a rejection that the store's history had and lost with its run; None without one."""
    kept = kept_rejection(store, node)
    if kept is None:
        return None
    named = shlex.quote(str(store))
    say(
        f"{node}: run {kept.run} rejected it, and is not in the history of {named} any more: push it there "
        f"again (anubis push STORE --history {named}), or measure the node again",
        file=sys.stderr,
    )
    return Health(Decision.REJECTED, kept.reason)


def _act(options: argparse.Namespace, node: str, health: Health, now: float) -> None:
    if options.act == "label":
        try:
            prefix = options.prefix or cluster.PREFIX
            cluster.apply_patches(node, health, now=now, prefix=prefix, account=ACCOUNT)
        except cluster.KubernetesError as error:
            raise CommandError(f"--act label: {error}") from error
        return
    if health.retest and health.decision is Decision.REJECTED:
        say(f"{node}: not drained, measure it again first", file=sys.stderr)
        return
    resume, began = options.act == "drain-resume", health.kept.judged.began if health.kept else 0.0
    try:
        done = act(node, health.decision, health.text, resume=resume, began=began)
    except SlurmError as error:
        raise CommandError(f"--act {options.act}: {error}") from error
    if done:
        say(f"{node}: {done}", file=sys.stderr)
