"""Learn the baseline of each hardware class, put it in force, and say what was learned, for `anubis learn`.

The statistics are in ``validator/learning``.
"""

from __future__ import annotations

import argparse
import datetime as dt
import errno
import os
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_anubis.cli.learning.doubts import doubts_of, has_doubtful_values, rejected_lines
from pytest_anubis.cli.learning.gaps import Gaps, gaps_of, nothing_measured
from pytest_anubis.cli.learning.next_commands import pytest_command
from pytest_anubis.cli.learning.rounds import Rounds
from pytest_anubis.cli.learning.true_costs import cost_lines
from pytest_anubis.cli.shared.class_split import run_facts
from pytest_anubis.cli.shared.command_error import CommandError, of_file
from pytest_anubis.cli.shared.printing import say, write_file
from pytest_anubis.cli.shared.progress import Progress
from pytest_anubis.cli.shared.run_sources import wanted_of
from pytest_anubis.codec import to_plain
from pytest_anubis.core.baseline import UnlikeNode
from pytest_anubis.core.machine_marks import identity_marks
from pytest_anubis.hardware.inventory.golden_inventory import golden_inventory
from pytest_anubis.hardware.inventory.inventory_reading import (
    InventoryError,
    inventory_from_plain,
    inventory_to_plain,
)
from pytest_anubis.report.text.learned_text import criteria_lines, learned_lines
from pytest_anubis.report.text.numbers import count_text
from pytest_anubis.report.text.power_text import next_line, power_lines
from pytest_anubis.report.text.text_table import clip
from pytest_anubis.store.baselines.baseline_files import BaselineError, seal
from pytest_anubis.store.baselines.kept_files import put_in_force
from pytest_anubis.validator.deciding.ledger import uncovered_components
from pytest_anubis.validator.deciding.plain_checks import parted_benchmarks, plain_checks

if TYPE_CHECKING:
    from pytest_anubis.core.baseline import Baseline
    from pytest_anubis.core.gather import SampleStorage
    from pytest_anubis.core.sample import Population
    from pytest_anubis.store.collected_runs import RunSet
    from pytest_anubis.store.samples.spilled_values import SpilledValues

MAX_NAMES_LENGTH = 100
"""Characters for the names of metrics in one line; the file has all of them."""


NOT_ACCEPTED = 20
"""Exit code of a baseline that was written and is less than it claims, as of an undecided node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnResult:
    """Result of the command, for its exit code and its JSON answer."""

    exit_code: int
    classes: Sequence[dict[str, Any]] = ()  # the answer about each class
    failed: Mapping[str, str] = field(default_factory=dict)  # test that failed in a round -> why
    nothing: str = ""  # why nothing could be learned
    error: str = ""  # why the command fails, perhaps after it wrote some baselines


def learned_class(
    options: argparse.Namespace,
    key: str,
    populations: Sequence[Population],
    runs: RunSet,
    *,
    progress: Callable[[int, int], None] | None = None,
    engine: Executor | None = None,
    storage: SampleStorage | None = None,
) -> Baseline:
    """Learn the baseline of one class from its populations.

    Args:
        options: Options of the command.
        key: The class.
        populations: Its populations.
        runs: Everything that was read, of all classes.
        progress: Called with (done, all) after every criterion.
        engine: Learns metrics in parallel; None: one after the other.
        storage: Keeps the values that exceed the memory.
    """
    from pytest_anubis.cli.learning.kept_decisions import decisions_in
    from pytest_anubis.validator import learn_baseline

    node_attributes: dict[str, dict[str, str]] = {}
    for run in runs.runs:
        if run.hardware_class == key:
            node_attributes.setdefault(run.node, {}).update(run_facts(run))
    return learn_baseline(
        populations,
        hardware_class=key,
        attributes=runs.classes.get(key, {}),
        node_attributes=node_attributes,
        created=_creation_time(),
        alpha=options.alpha,
        method=options.method,
        error_rate=options.error_rate,
        promises=dict(options.promise),
        progress=progress,
        executor=engine,
        storage=storage,
        failed=_nodes_with_failed_tests(runs, key),
        decide=decisions_in(options.output, key),
    )


def _nodes_with_failed_tests(runs: RunSet, key: str) -> dict[str, UnlikeNode]:
    """Return the nodes of a class that failed a test without a metric, as judging finds them."""
    from pytest_anubis.validator.deciding.run_decision import failed_checks

    mine = [run for run in runs.runs if run.hardware_class == key]
    return {
        node: UnlikeNode(
            node=node,
            benchmark=verdict.benchmark,
            metric=verdict.metric,
            device=verdict.device,
            component=verdict.component,
            similarity=0.0,
            failure=verdict.text,
        )
        for (node, _), verdict in failed_checks(mine, runs.unmeasured).items()
    }


def _creation_time() -> str:
    """Return SOURCE_DATE_EPOCH if it is set, so that the same runs give the same file, else now."""
    stated = os.environ.get("SOURCE_DATE_EPOCH", "")
    try:
        now = dt.datetime.fromtimestamp(int(stated), dt.UTC) if stated else dt.datetime.now(dt.UTC)
    except (ValueError, OverflowError, OSError):
        raise CommandError(
            f"SOURCE_DATE_EPOCH: {stated[:40]!r} is no moment in seconds since 1970"
        ) from None
    return now.isoformat(timespec="seconds")


def with_machine_facts(baseline: Baseline, runs: RunSet) -> tuple[Baseline, list[str]]:
    """Add what the runs of a baseline's class say of their machines.

    Returns:
        The baseline with the inventory that most nodes have, the tests without metrics that passed, and the
        identity of its machine if there is only one; notes on inventories that cannot be read.
    """
    of_class = [run for run in runs.runs if run.hardware_class == baseline.hardware_class]
    inventories = []
    notes = []
    for run in of_class:
        if run.inventory:
            try:
                inventories.append(inventory_from_plain(run.inventory, where=f"run {run.run}"))
            except InventoryError as error:
                notes.append(f"note: {error}")
    marks = {mark for run in of_class for mark in identity_marks(run.inventory)}
    complete = replace(
        baseline,
        inventory=inventory_to_plain(golden_inventory(inventories)) if inventories else {},
        checks=plain_checks(of_class),
        parted=parted_benchmarks(of_class),
        machine=tuple(sorted(marks)) if baseline.one_node else (),
    )
    return complete, notes


@contextmanager
def naming_full_disk() -> Iterator[None]:
    """Turn the error of a full temporary folder into a line that says how to use another."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise CommandError(
            f"{tempfile.gettempdir()}: no space left for the values; name another folder with TMPDIR"
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _LearnedClass:
    """Result for one hardware class."""

    baseline: Baseline
    path: Path | None  # None: it has no criterion, so no file was written
    doubtful: bool
    lines: list[str]
    answer: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassLearner:
    """Learner of the hardware classes of one set of runs."""

    options: argparse.Namespace  # options of the command
    runs: RunSet  # everything that was read
    rounds: Rounds | None  # the rounds on this machine; None if the runs were collected
    longer: Sequence[str]  # command that measures longer; empty if the runs were collected
    see: Sequence[Sequence[str]]  # commands that show the nodes that the lines name
    engine: Executor | None  # learns metrics in parallel; None: one after the other
    spilled: SpilledValues  # keeps the values that exceed the memory

    def learn_all(self, by_class: Mapping[str, list[Population]]) -> LearnResult:
        """Learn all classes, and print the lines of each as soon as it is learned."""
        if not by_class:
            gaps = self._gaps()
            say(*gaps.lines(verbose=self.options.verbose))
            raise nothing_measured(gaps, refused=bool(self.runs.refused))
        learned: list[_LearnedClass] = []
        error = ""
        try:
            for key, populations in sorted(by_class.items()):
                with naming_full_disk():
                    learned.append(self._learn_class(key, populations))
                say(*learned[-1].lines)
                self._write_page(learned[-1], populations, several=len(by_class) > 1)
        except CommandError as failure:  # classes learned before it have their baselines
            error = str(failure)
        classes = [one.answer for one in learned]
        without = [
            one.baseline.hardware_class for one in learned if one.path is None and not one.doubtful
        ]
        if without and not error:
            more = f"; to measure longer: {shlex.join(self.longer)}" if self.longer else ""
            error = (
                f"{', '.join(without)}: no criterion could be learned; the findings above say "
                f"why{more}"
            )
        if error:
            return LearnResult(exit_code=2, classes=classes, error=error)
        doubtful = any(one.doubtful for one in learned)
        damaged = any(one.damaged for one in self.runs.refused)
        return LearnResult(exit_code=NOT_ACCEPTED if doubtful or damaged else 0, classes=classes)

    def _gaps(self, key: str | None = None) -> Gaps:
        return gaps_of(self.runs, key, partly=bool(wanted_of(self.options).metrics))

    def _learn_class(self, key: str, populations: list[Population]) -> _LearnedClass:
        """Learn one class, and put its baseline into force if it has any criterion."""
        from pytest_anubis.cli.learning.kept_decisions import check_size, with_kept_decisions

        options = self.options
        check_size(key, options.output, {node for one in populations for node in one.nodes})
        baseline, notes = self._baseline(key, populations)
        measured = {one.benchmark for one in populations}
        baseline, kept = with_kept_decisions(baseline, options.output, measured)
        path = replaced = None
        if baseline.criteria:
            try:
                path, replaced = put_in_force(baseline, options.output)
            except (OSError, BaselineError) as error:
                raise of_file(error, done="written") from error
        lines = [*notes, *learned_lines(baseline, verbose=options.verbose, see=self.see)]
        if options.verbose:
            lines += criteria_lines(baseline, whole=True)
        if self.rounds is not None:
            lines += power_lines(baseline, options.detect, verbose=options.verbose)
        lines += kept
        if options.verbose:
            lines += cost_lines(run for run in self.runs.runs if run.hardware_class == key)
        gaps = Gaps()
        doubtful = has_doubtful_values(baseline)
        if path is not None:
            doubts, doubtful = doubts_of(
                baseline, populations, options, self.rounds.what_helps if self.rounds else None
            )
            rejected = rejected_lines(Path(options.store), baseline.nodes) if self.rounds else []
            gaps = self._gaps(key)
            doubtful = doubtful or bool(gaps.unset) or bool(rejected)
            lines += [*doubts, *rejected, *gaps.lines(verbose=options.verbose)]
            lines += self._file_lines(baseline, path, replaced)
            lines += self._next_lines(baseline, gaps)
        elif doubtful:
            lines.append(
                f"{key}: no baseline: look at the values that the findings name, and learn again"
            )
        return _LearnedClass(
            baseline=baseline,
            path=path,
            doubtful=doubtful,
            lines=lines,
            answer=_answer(baseline, path, replaced, gaps=gaps, doubtful=doubtful or path is None),
        )

    def _baseline(self, key: str, populations: list[Population]) -> tuple[Baseline, list[str]]:
        from pytest_anubis.validator import LearnError

        with Progress("learning") as progress:
            try:
                baseline = learned_class(
                    self.options,
                    key,
                    populations,
                    self.runs,
                    progress=progress.count,
                    engine=self.engine,
                    storage=self.spilled,
                )
            except LearnError as error:
                raise CommandError(f"{key}: {error}") from error
        return with_machine_facts(baseline, self.runs)

    def _file_lines(self, baseline: Baseline, path: Path, replaced: Path | None) -> list[str]:
        lines = [f"written: {path}"]
        if replaced is not None:
            lines.append(f"the one that was in force before is kept: {replaced}")
        if baseline.undecided:
            metrics = count_text(len(baseline.undecided), "metric")
            names = clip(", ".join(baseline.undecided), MAX_NAMES_LENGTH)
            lines.append(
                f"an operator must decide about slower groups of nodes in {metrics} ({names}): "
                f"anubis baseline populations {path}"
            )
        return lines

    def _next_lines(self, baseline: Baseline, gaps: Gaps) -> list[str]:
        if self.rounds is None:
            return []
        return [
            next_line(
                judge=pytest_command(self.options, self.rounds.root),
                learn=self.longer,
                bare=bool(uncovered_components(baseline)),
                mend=bool(gaps.unset),
            )
        ]

    def _write_page(
        self, one: _LearnedClass, populations: list[Population], *, several: bool
    ) -> None:
        page: Path | None = self.options.html
        if page is None or one.path is None:
            return
        from pytest_anubis.report.pages.learned_page import learn_page

        if several:
            page = page.with_name(f"{page.stem}-{one.path.stem}{page.suffix}")
        write_file(page, learn_page(seal(one.baseline), populations))  # named by its sealed digest


def _answer(
    baseline: Baseline, path: Path | None, replaced: Path | None, *, gaps: Gaps, doubtful: bool
) -> dict[str, Any]:
    """Return what was learned of one hardware class.

    `path` is None if no file was written, as there is no criterion, and `replaced` is where the baseline
    before is kept, if there was one. It is `doubtful` if it is less than it claims.
    """
    without = uncovered_components(baseline)
    plain: dict[str, Any] = to_plain(
        {
            "hardware_class": baseline.hardware_class,
            "digest": seal(baseline).digest if baseline.criteria else "",
            "nodes": len(baseline.nodes),
            "runs": len(baseline.runs),
            "one_machine": baseline.one_machine,
            "error_rate": baseline.error_rate,
            "self_check": baseline.self_check,
            "criteria": [
                {
                    "benchmark": one.benchmark,
                    "metric": one.metric.name,
                    "component": one.component,
                    "group": one.group,
                    "scope": one.scope,
                    "finds": one.shown_loss,
                    "coarse": one.coarse,
                }
                for one in baseline.criteria
            ],
            "unjudged": baseline.unjudged,
            "undecided": baseline.undecided,
            "without_criterion": [one.component for one in without if not one.coarse],
            "coarse_components": {one.component: one.shown_loss for one in without if one.coarse},
            "findings": baseline.findings,
        }
    )
    return plain | {
        "file": path and str(path),
        "replaced": replaced and str(replaced),
        "doubtful": doubtful,
        "skipped": [{"test": test, "reason": why} for test, why in gaps.skipped],
        "not_applicable": gaps.not_applicable,
        "never_recorded": [{"benchmark": test, "metric": name} for test, name in gaps.unset],
    }
