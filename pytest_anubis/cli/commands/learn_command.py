"""``anubis learn``: run the benchmarks some rounds on this machine, or take collected runs, and learn."""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import shlex
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_anubis.cli.shared.arguments import (
    add_output,
    add_profile,
    add_pytest_args,
    add_store,
    explain,
)
from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.printing import say, write_file
from pytest_anubis.cli.shared.progress import Progress
from pytest_anubis.hardware.inventory.golden_inventory import golden_inventory
from pytest_anubis.hardware.inventory.inventory_reading import (
    InventoryError,
    inventory_from_plain,
    inventory_to_plain,
)
from pytest_anubis.hardware.inventory.node_attributes import node_facts
from pytest_anubis.report.text.learned_text import learned_lines
from pytest_anubis.report.text.numbers import count_text
from pytest_anubis.store.baselines.baseline_files import BaselineError, save_baseline, seal
from pytest_anubis.validator.learning.plain_checks import plain_checks

if TYPE_CHECKING:
    from pytest_anubis.core.baseline import Baseline
    from pytest_anubis.core.sample import Population
    from pytest_anubis.store.collected_runs import RunSet


LEAST_ROUNDS = 3
NOT_ACCEPTED = 20
"""Exit code of a baseline that was written and is less than it claims: as that of an undecided node."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    explain(
        parser,
        "Learn what is normal, and write a baseline for each hardware class: from rounds of the tests that "
        "are run here, or from runs that were collected from many nodes.",
        "Exit codes: 0 every class has its baseline; 2 wrong usage or input, a round that failed, or a class "
        "for which no criterion could be learned; 20 a baseline was written, but it does not hold its stated "
        "error rate, or others disturbed the machine so much that a metric has no criterion.",
    )
    parser.add_argument(
        "sources",
        nargs="+",
        metavar="TESTS|RUN",
        help="tests to run here (suites/), or runs collected elsewhere (folders, journals, imports)",
    )
    parser.add_argument("--rounds", type=int, default=5, help="rounds to run here (default: 5)")
    add_profile(parser)
    add_output(parser)
    add_store(parser)
    parser.add_argument(
        "--alpha",
        type=float,
        default=0.95,
        help="practical threshold: a similarity below it is a loss that matters (default: .95)",
    )
    parser.add_argument(
        "--method",
        choices=("median", "medoid"),
        default="median",
        help="centre of a population: quantile by quantile, or the most typical member (default: median)",
    )
    parser.add_argument(
        "--error-rate",
        type=_rate,
        default=0.01,
        metavar="R|none",
        help="stated chance that a healthy node is rejected (default: .01); none: alpha alone",
    )
    parser.add_argument(
        "--promise",
        action="append",
        default=[],
        type=_promise,
        metavar="[NAME=]LOSS",
        help="a loss that must fail whatever the spread, e.g. 10%% or network=20%% (a component or a "
        "metric); what that costs healthy nodes is printed; can be given again",
    )
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="METRIC",
        help="learn no criterion for this metric; can be given again",
    )
    parser.add_argument(
        "--accept-rate",
        action="store_true",
        help="exit with 0 although the baseline does not hold its stated error rate",
    )
    parser.add_argument("--html", type=Path, metavar="FILE", help="page with every metric's CDFs")
    add_pytest_args(parser)


def run(options: argparse.Namespace) -> int:
    """Learn and write one baseline per hardware class."""
    if not 0 < options.alpha < 1:
        raise CommandError(f"--alpha {options.alpha:g}: must lie between 0 and 1")
    paths = [Path(source.partition("::")[0]) for source in options.sources]
    for path in paths:
        if not path.exists():
            raise CommandError(f"{path}: no such file or folder")
    if all(_is_run(path) for path in paths):
        return _learn(options, paths)
    if any(_is_run(path) for path in paths):
        raise CommandError("give either tests to run here or collected runs, not both")
    return _learn(options, _measure(options))


def _is_run(path: Path) -> bool:
    if path.is_dir():
        return any(path.rglob("journal.jsonl")) or any(path.rglob("*.npz"))
    return path.suffix != ".py"


def _measure(options: argparse.Namespace) -> list[Path]:
    """Run the tests once a round, each round a run with its own journal.

    A sample that was taken while others disturbed the machine teaches nothing, so rounds are added, at
    most as many again, until every metric has as many quiet samples as rounds were asked for.
    """
    if options.rounds < LEAST_ROUNDS:
        raise CommandError(
            f"--rounds {options.rounds}: at least {LEAST_ROUNDS} are needed to see the noise"
        )
    stamp = dt.datetime.now(dt.UTC).strftime("%Y%m%d-%H%M%S")
    runs: list[Path] = []
    begin = time.monotonic()
    while len(runs) < 2 * options.rounds:
        number = len(runs) + 1
        spoiled = _spoiled(runs, options.rounds) if number > options.rounds else 0
        if number > options.rounds and not spoiled:
            break
        if number <= options.rounds:
            each = (time.monotonic() - begin) / max(1, len(runs))
            left = f", about {each * (options.rounds - len(runs)):.0f} s left" if runs else ""
            say(f"round {number} of {options.rounds}{left}", flush=True)
        else:
            say(
                f"round {number} of at most {2 * options.rounds}, added: "
                f"{count_text(spoiled, 'metric')} without enough quiet samples, because others "
                "disturbed this machine",
                flush=True,
            )
        runs.append(_round(options, f"learn-{stamp}-{number:02d}", number))
    return runs


def _round(options: argparse.Namespace, run_id: str, number: int) -> Path:
    store = Path(options.store).resolve()
    command = [
        *(sys.executable, "-m", "pytest", "--anubis", "--anubis-mode=measure"),
        *("-q", "--no-header", "-p", "no:cacheprovider"),
        f"--anubis-profile={options.profile}",
        f"--anubis-store={store}",
        f"--anubis-run-id={run_id}",
        *shlex.split(options.pytest_args),
        *options.sources,
    ]
    status = subprocess.run(command, check=False).returncode
    if status != 0:
        raise CommandError(
            f"round {number} ended with exit code {status}; nothing is learned from a run that "
            "failed: fix what failed, or leave it out with --pytest-args"
        )
    return store / "runs" / run_id


def _spoiled(runs: list[Path], wanted: int) -> int:
    """Return how many metrics have fewer quiet samples than wanted."""
    from pytest_anubis.store.collected_runs import read_runs

    populations = read_runs(runs).populations
    return sum(len(population) - len(population.problems) < wanted for population in populations)


def _learn(options: argparse.Namespace, paths: list[Path]) -> int:
    runs = _read(paths)
    by_class: dict[str, list[Population]] = {}
    names = {population.metric.name for population in runs.populations}
    for name in options.without:
        if name not in names:
            raise CommandError(f"--without {name}: no such metric among the runs; check its name")
    known = names | {part for p in runs.populations for part in _parts(p.component)} | {""}
    for name, _ in options.promise:
        if name not in known:
            raise CommandError(
                f"--promise {name}: no such metric or component among the runs; check its name"
            )
    for population in runs.populations:
        if population.metric.name in options.without:
            continue
        by_class.setdefault(population.hardware_class, []).append(population)
    if not by_class:
        raise CommandError(
            "the runs hold nothing to learn from; the lines above say why (if others disturbed this "
            "machine: stop them, and learn again)"
        )
    without, doubtful = [], 0
    for key, populations in sorted(by_class.items()):
        baseline = _learn_class(options, key, populations, runs, several=len(by_class) > 1)
        if not baseline.criteria:
            without.append(key)
            continue
        doubtful += _doubtful(baseline, populations, accept=options.accept_rate)
    if without:
        raise CommandError(
            f"{', '.join(without)}: no criterion could be learned; the findings above say why"
        )
    return NOT_ACCEPTED if doubtful else 0


def _parts(component: str) -> list[str]:
    """Return a component and all that it is a part of."""
    names = component.split(".")
    return [".".join(names[: number + 1]) for number in range(len(names))]


def _doubtful(baseline: Baseline, populations: list[Population], *, accept: bool) -> bool:
    """Say what makes a baseline less than it claims, and return whether anything does."""
    check, doubt = baseline.self_check, False
    if check is not None and not check.holds and not accept:
        say(
            "the stated error rate does not hold (see above): leave out what breaks it (--without METRIC), "
            "learn its populations apart, or take the rate as it is with --accept-rate"
        )
        doubt = True
    disturbed = {
        (population.benchmark, population.metric.name)
        for population in populations
        if any(problem.kind == "disturbed" for problem in population.problems.values())
    }
    lost = [item for item in baseline.unjudged if (item.benchmark, item.metric) in disturbed]
    if lost:
        say(
            f"{count_text(len(lost), 'metric')} lost to disturbances: "
            f"{', '.join(item.metric for item in lost)}; learn again when this machine is quiet"
        )
        doubt = True
    return doubt


def _read(paths: list[Path]) -> RunSet:
    from pytest_anubis.store.collected_runs import RunsError, read_runs

    with Progress("reading") as progress:
        try:
            runs = read_runs(paths, learning=True, progress=progress.say)
        except RunsError as error:
            raise CommandError(str(error)) from error
    for warning in runs.warnings:
        say(f"note: {warning}")
    for refused in runs.refused:
        what = (
            f"run {refused.run} of {refused.node}: " if refused.run else ""
        )  # else the reason names it
        say(f"left out: {what}{refused.reason}")
    return runs


def _learn_class(
    options: argparse.Namespace,
    key: str,
    populations: list[Population],
    runs: RunSet,
    *,
    several: bool,
) -> Baseline:
    """Learn and write the baseline of one class; one without criteria is not written."""
    from pytest_anubis.validator import LearnError, learn_baseline

    with Progress("learning") as progress:
        try:
            baseline = learn_baseline(
                populations,
                hardware_class=key,
                attributes=runs.classes.get(key, {}),
                node_attributes=_node_attributes(runs, key),
                created=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
                alpha=options.alpha,
                method=options.method,
                error_rate=options.error_rate,
                promises=dict(options.promise),
                progress=progress.count,
            )
        except LearnError as error:
            raise CommandError(f"{key}: {error}") from error
    of_class = [run for run in runs.runs if run.hardware_class == key]
    baseline = replace(baseline, inventory=_golden(runs, key), checks=plain_checks(of_class))
    for line in learned_lines(baseline):
        say(line)
    if not baseline.criteria:
        return baseline
    try:
        path = save_baseline(baseline, options.output)
    except (OSError, BaselineError) as error:
        raise CommandError(str(error)) from error
    say(f"written: {path}")
    if options.html is not None:
        page = options.html
        _write_page(
            page.with_name(f"{page.stem}-{path.stem}{page.suffix}") if several else page,
            baseline,
            populations,
        )
    return baseline


def _node_attributes(runs: RunSet, key: str) -> dict[str, dict[str, str]]:
    """Return node -> what could tell it from other nodes of its class: versions, firmware, settings."""
    found: dict[str, dict[str, str]] = {}
    for run in runs.runs:
        if run.hardware_class == key:
            facts = found.setdefault(run.node, {})
            facts.update(run.attributes)
            with contextlib.suppress(InventoryError):  # `_golden` tells of it
                if run.inventory:
                    facts.update(node_facts(inventory_from_plain(run.inventory, where=run.run)))
    return found


def _golden(runs: RunSet, key: str) -> dict[str, Any]:
    """Return the inventory that most nodes of the class have; empty if no run has one that can be read."""
    inventories = []
    for run in runs.runs:
        if run.hardware_class == key and run.inventory:
            try:
                inventories.append(inventory_from_plain(run.inventory, where=f"run {run.run}"))
            except InventoryError as error:
                say(f"note: {error}")
    return inventory_to_plain(golden_inventory(inventories)) if inventories else {}


def _write_page(path: Path, baseline: Baseline, populations: list[Population]) -> None:
    from pytest_anubis.report.pages.learned_page import learn_page

    write_file(path, learn_page(seal(baseline), populations))  # under the name that its file has


def _rate(text: str) -> float | None:
    if text.lower() == "none":
        return None
    rate = float(text)
    if not 0 < rate < 1:
        raise argparse.ArgumentTypeError("must lie between 0 and 1, or be none")
    return rate


def _promise(text: str) -> tuple[str, float]:
    name, _, size = text.rpartition("=")
    try:
        loss = float(size.removesuffix("%")) / 100 if size.endswith("%") else float(size)
    except ValueError:
        loss = 0.0
    if not 0 < loss < 1:
        raise argparse.ArgumentTypeError(
            "must be a loss between 0 and 100 %, such as 10% or network=0.2"
        )
    return name, loss
