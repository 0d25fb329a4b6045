"""Read journals, imports and tables, from files or folders, into one `RunSet`: samples, runs, refused files.

`RunReader` does so with the runs of a history, too. It marks samples that cannot be judged, and refuses
damaged files, copies and, for learning, runs from which nothing may be learned. Nothing is judged here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pytest_anubis.codec.regular_files import file_sha256, open_regular
from pytest_anubis.core.events import Attempted
from pytest_anubis.core.gather import Gather, Key, SampleStorage, key_of
from pytest_anubis.core.measurement import Measurement, TestResult
from pytest_anubis.core.run import EVIDENCE, RunRecord
from pytest_anubis.core.sample import SampleProblem
from pytest_anubis.core.verdict import Decision, MetricVerdict, Outcome, Reason
from pytest_anubis.core.waiving import WaiversRead
from pytest_anubis.store.importers.dated_runs import dated_names, with_names
from pytest_anubis.store.importers.import_folder import ImportedCells
from pytest_anubis.store.importers.import_result import ImportFileError
from pytest_anubis.store.importers.superbench import import_superbench
from pytest_anubis.store.importers.table import exported_samples, import_table
from pytest_anubis.store.journal.journal_events import JournalError
from pytest_anubis.store.journal.journal_reading import JOURNAL_NAME, read_journal
from pytest_anubis.store.namesakes import NodeNames
from pytest_anubis.store.run_files import PARQUET, TABLES, files_of, is_superbench
from pytest_anubis.store.run_files import RunsError as RunsError
from pytest_anubis.store.run_filter import RunFilter
from pytest_anubis.store.run_set import RefusedRun, under_one_name
from pytest_anubis.store.run_set import RunSet as RunSet
from pytest_anubis.store.samples.columnar_files import SUFFIX, Columns, ColumnsError, load_columns

Progress = Callable[[str], None]

EVERYTHING = RunFilter()

EXPORTED = "exported"
"""In place of a digest, for exported runs, which are spread over several files."""

_BROKEN = ("failed", "error", "crashed", "not reported")
"""Outcomes of a test that did not do its work."""


def read_runs(
    paths: Iterable[Path],
    *,
    learning: bool = False,
    progress: Progress | None = None,
    wanted: RunFilter = EVERYTHING,
    storage: SampleStorage | None = None,
) -> RunSet:
    """Read journals, imports, tables and folders of them.

    Rows get a problem where a test failed on its own (``failed``), the machine was not quiet
    (``disturbed``), nothing was recorded (``missing``), or values cannot be judged (``invalid``). A test
    that failed only because its metric was judged bad keeps its sample.

    Args:
        paths: Files (``journal.jsonl``, ``.npz``, ``.csv``, ``.parquet``, SuperBench ``.jsonl``) or
            folders that are searched for journals and ``.npz`` imports, or hold what was exported.
        learning: Refuse runs that nothing may be learned from: rejected, interrupted or never finished,
            disturbed throughout, with a report of the hardware itself, or under acceptance and not accepted.
        progress: Called with one short line now and then.
        wanted: Which runs and samples are taken.
        storage: Storage for values that exceed the memory; None keeps them in memory.

    Raises:
        RunsError: A path does not exist, or there is no run in any of them.
    """
    reader = RunReader(learning, wanted, storage)
    files, left = files_of(paths, exports=True)
    for i, path in enumerate(_longest_first(files)):
        if progress is not None:
            progress(f"{i + 1}: {path}")
        reader.file(path, progress)
    for one in left:
        reader.damaged(one.path, one.line)
    return reader.result()


def _longest_first(found: Sequence[Path]) -> list[Path]:
    """Return the files in their order, but a truncated copy of a journal after the longer one."""
    groups: dict[str, list[Path]] = {}
    for path in found:
        groups.setdefault(path.parent.name if path.name == JOURNAL_NAME else str(path), []).append(
            path
        )
    return [
        path
        for group in groups.values()
        for path in sorted(group, key=lambda one: sum(_goes_on(one, other) for other in group))
    ]


def _goes_on(short: Path, longer: Path) -> bool:
    """Return whether the longer file begins with all of the short one and goes on."""
    if short == longer:
        return False
    try:
        with open_regular(short) as one, open_regular(longer) as other:
            while block := one.read(1 << 20):
                if other.read(len(block)) != block:
                    return False
            return bool(other.read(1))
    except OSError:  # reported when the file is read
        return False


def refusal(record: RunRecord) -> str:
    """Return why nothing may be learned from a run; empty if it may."""
    decision = record.node_verdict.decision if record.node_verdict else None
    if record.broken_off:
        return f"the run {record.broken_off}"
    if decision is Decision.REJECTED:
        return "the node was rejected in this run"
    if record.purpose == "acceptance" and decision is not Decision.ACCEPTED:
        return "the node was under acceptance and not accepted; learn from `--anubis-mode=measure` runs"
    reported = next((event.name for event in record.hardware if event.sort != EVIDENCE), "")
    if reported:
        return f"the hardware reported {reported} meanwhile: learn from sound nodes"
    measured = record.measurements
    # Load does not change exact values.
    if measured and all(m.disturbance and m.metric.better != "equal" for m in measured):
        return "every measurement was disturbed: " + measured[0].disturbance[0]
    return ""


@dataclass(slots=True)
class RunReader:
    """A collector of the samples of runs, from files or a history; arguments as of `read_runs`.

    Args:
        names: The machines behind the nodes' names that are known already.
    """

    learning: bool
    wanted: RunFilter = EVERYTHING
    storage: SampleStorage | None = None
    names: NodeNames = field(default_factory=NodeNames)
    gather: Gather = field(init=False)
    # by run, node and class: a table may hold a node in two classes
    runs: dict[tuple[str, str, str], RunRecord] = field(default_factory=dict)
    refused: list[RefusedRun] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    silent: list[tuple[RunRecord, TestResult]] = field(default_factory=list)
    unlearnable: dict[tuple[str, str], str] = field(default_factory=dict)
    journals: list[RunRecord] = field(default_factory=list)
    # Of the files that runs are from
    digests: dict[tuple[str, str], str] = field(default_factory=dict)
    _exported: dict[Key, set[tuple[str, str]]] = field(default_factory=dict)
    _cells: ImportedCells = field(default_factory=ImportedCells)

    def __post_init__(self) -> None:
        self.gather = Gather(self.storage)

    def file(self, path: Path, progress: Progress | None) -> None:
        """Add the runs of a file; one that cannot be read is refused."""
        try:
            digest = file_sha256(path)
        except IsADirectoryError:
            why = f"{path}: no {JOURNAL_NAME}; unpack it or put it back, or remove the folder"
            self.damaged(path, why)
            return
        except OSError as error:
            self.damaged(path, f"{path}: cannot be read ({error.strerror})")
            return
        try:
            if path.suffix.lower() == SUFFIX:
                self.columns(path, load_columns(path), digest)
            elif path.suffix.lower() in TABLES or is_superbench(path):
                exported = exported_samples(path, self.storage) if path.suffix in PARQUET else None
                read = import_superbench if path.suffix == ".jsonl" else import_table
                table = exported or read(path, progress=progress)
                said = (*table.wrong, *table.merged, *table.notes)
                self.warnings += [f"{path} {line}" for line in said]
                columns = Columns(populations=table.populations, runs=table.runs)
                if not columns.runs:
                    raise ImportFileError(f"{path}: no line of it could be read")
                self.columns(path, columns, EXPORTED if exported else digest)
            else:
                self.journal(path, read_journal(path), digest)
        except (JournalError, ColumnsError, ImportFileError) as error:
            self.damaged(path, str(error))

    def damaged(self, path: Path, reason: str) -> None:
        """Refuse a file that cannot be read."""
        self.refused.append(
            RefusedRun(run="", node="", path=str(path), reason=reason, damaged=True)
        )

    def _known_already(self, path: Path, run: str, node: str, digest: str) -> RefusedRun:
        """Return the refusal of a run that was read before, as a copy or as another run of the same id."""
        same = digest == self.digests.get((run, node))
        reason = "a run of this id and node was read already"
        if not same:
            reason += ", and this one differs: which counts? Give every run its id, or remove one"
        return RefusedRun(run=run, node=node, path=str(path), reason=reason, damaged=not same)

    def journal(self, path: Path, record: RunRecord, digest: str) -> None:
        """Add the run of a journal; its SHA-256 distinguishes a copy from another run of the same id."""
        record = self.names.disambiguate(record, self.warnings)
        if not self.wanted.wants_run(record):
            return
        named = path.parent.name or record.run
        self.warnings += [f"{named}: {text}" for text in record.warnings]
        if (record.run, record.node) in self.digests:
            self.refused.append(self._known_already(path, record.run, record.node, digest))
            return
        if reason := refusal(record):
            self.unlearnable.setdefault((record.run, record.node), reason)
            if self.learning:
                self._refuse(path, record.run, record.node, reason)
                return
        self.digests[record.run, record.node] = digest
        self.runs[record.run, record.node, record.hardware_class] = dataclasses.replace(
            record,
            measurements=(),
            verdicts=(),
            events=tuple(e for e in record.events if isinstance(e, WaiversRead)),
        )
        if not self.learning:  # which needs samples only
            self.journals.append(
                dataclasses.replace(
                    record,
                    measurements=tuple(
                        dataclasses.replace(m, values=(), telemetry=()) for m in record.measurements
                    ),
                    events=tuple(e for e in record.events if not isinstance(e, Attempted)),
                )
            )
        self._samples(record)

    def _samples(self, record: RunRecord) -> None:
        broken = _broken_tests(record)
        waived = dict.fromkeys(record.waived, "its test failed as its xfail mark expects")
        if self.learning:  # judging applies waivers itself
            waived |= {
                f"{v.test} {v.metric}": v.text for v in record.effective_verdicts if v.waiver
            }
        recorded = {measurement.test for measurement in record.measurements}
        excused = dict.fromkeys(record.excused, record.ambient_overheating)
        for measurement in record.measurements:
            if not self.wanted.wants_metric(measurement.metric.name, measurement.benchmark):
                continue
            self.gather.add(
                hardware_class=record.hardware_class,
                benchmark=measurement.benchmark,
                metric=measurement.metric,
                component=measurement.component,
                group=measurement.group,
                node=record.node,
                device=measurement.device,
                run=record.run,
                values=measurement.values,
                problem=_problem(measurement, broken, waived, excused),
                looks=measurement.looks,
                given=measurement.given,
            )
        known = self.runs[record.run, record.node, record.hardware_class]
        self.silent += [
            (known, result)
            for result in record.results
            if result.test not in recorded and result.outcome in _BROKEN
        ]

    def columns(self, path: Path, columns: Columns, digest: str) -> None:
        """Add imported samples; as `journal`. An exported run has a file for each metric.

        Several tables may hold parts of one run. If two hold the same value of a node, it is unknown which
        counts: this file's rows of that node are left out, and its run counts as not read whole.
        """
        columns, marked = columns.without_marks()
        for unit, why in marked.items():
            if self.wanted.wants_node(unit[1]) and unit not in self.unlearnable:
                self.unlearnable[unit] = why
                if self.learning:
                    self._refuse(path, *unit, why)
        if marked and self.learning:
            columns = columns.without_units(marked)
        units = {(run.run, run.node) for run in columns.runs}
        known = units & self.digests.keys()
        if known and columns.populations and digest not in (EXPORTED, *self.digests.values()):
            columns = self._with_dated_runs(columns)
            units = {(run.run, run.node) for run in columns.runs}
            known = units & self.digests.keys()
        twice: Mapping[tuple[str, str], int] = {}
        if digest == EXPORTED:
            mine = self._exported.setdefault(key_of(columns.populations[0]), set())
            known = {unit for unit in known if self.digests[unit] != EXPORTED} | units & mine
            mine |= units
            if known:
                self.refused.append(self._known_already(path, *min(known), digest))
                return
        elif known:
            if digest in self.digests.values():
                self.refused.append(self._known_already(path, *min(known), digest))
                return
            twice = self._cells.held_twice(columns.populations, known)
        if twice:
            one = self._known_already(path, *min(twice), digest)
            more = f" (and {len(twice) - 1} more nodes)" if len(twice) > 1 else ""
            self.refused.append(dataclasses.replace(one, reason=f"{path}{more}: {one.reason}"))
        self._cells.note(columns.populations, units)
        self.digests.update(((run.run, run.node), digest) for run in columns.runs)
        for run in self.wanted.runs(columns.runs):
            key = (run.run, run.node, run.hardware_class)
            lost = twice.get(key[:2], 0) + run.unread
            if (first := self.runs.get(key)) is not None:
                lost, run = lost + first.unread, first
            self.runs[key] = dataclasses.replace(run, unread=lost) if lost else run
        for population in self.wanted.populations(columns.populations, columns.runs):
            names = enumerate(zip(population.runs, population.nodes, strict=True))
            own = [row for row, unit in names if unit not in twice]
            if len(own) < len(population):
                population = population.only(own)
            if own:
                self.gather.add_population(dataclasses.replace(population, given=True))

    def _with_dated_runs(self, columns: Columns) -> Columns:
        """Give the runs whose ids earlier runs of another time have ids with their dates."""
        known = {(run.run, run.node): run for run in self.runs.values()}
        names = dated_names(columns.runs, known.get)
        populations, runs = with_names(columns.populations, columns.runs, names)
        return dataclasses.replace(columns, populations=populations, runs=runs)

    def _refuse(self, path: Path, run: str, node: str, reason: str) -> None:
        self.refused.append(RefusedRun(run=run, node=node, path=str(path), reason=reason))

    def result(self) -> RunSet:
        """Return everything that was added.

        Raises:
            RunsError: There is no run, and none was refused.
        """
        if not self.runs and not self.refused:
            if self.wanted != EVERYTHING:
                raise RunsError("none of these runs is of the nodes, class and time asked for")
            raise RunsError(
                "no run in any of these; expected journals, imports (.npz), or tables by their names: "
                "DIR/*.csv"
            )
        found = RunSet(
            unmeasured=self._place_silent(),
            populations=self.gather.populations(),
            runs=tuple(self.runs[key] for key in sorted(self.runs)),
            refused=tuple(self.refused),
            journals=tuple(self.journals),
            warnings=tuple(self.warnings),
            unlearnable=self.unlearnable,
        )
        return under_one_name(found)

    def _place_silent(self) -> dict[tuple[str, str], tuple[str, ...]]:
        """Add a row for each test without a measurement to the populations of its benchmark.

        Returns:
            (run, node) -> tests whose benchmark has no population.
        """
        rest: dict[tuple[str, str], tuple[str, ...]] = {}
        keys = self.gather.keys() if self.silent else []
        for record, result in self.silent:
            plan = next((plan for plan in record.planned if plan.test == result.test), None)
            kind = _kind(result)
            text = f"test {result.outcome}" + (f": {result.text}" if result.text else "")
            text = result.environment or text
            found = False
            for (hardware_class, benchmark, _, group), metric, component in keys:
                if (hardware_class, benchmark) != (record.hardware_class, result.benchmark):
                    continue
                found = True
                self.gather.add(
                    hardware_class=hardware_class,
                    benchmark=benchmark,
                    metric=metric,
                    component=component,
                    group=group,
                    node=record.node,
                    device=(plan.device if plan else "") or "node",
                    run=record.run,
                    values=(),
                    problem=SampleProblem(kind=kind, text=text),
                )
            if not found:
                key = (record.run, record.node)
                rest[key] = (*rest.get(key, ()), result.test)
        return rest


def _kind(result: TestResult) -> Literal["failed", "missing", "invalid"]:
    """Return the kind of problem of a test that did not pass; a crash alone is no failure of the hardware."""
    if result.misuse or result.environment:
        return "invalid"
    return "missing" if result.outcome in ("not reported", "crashed") else "failed"


def _broken_tests(record: RunRecord) -> dict[str, SampleProblem]:
    """Return the problems of tests that failed by themselves, not by a metric's verdict."""
    # A verdict from the end of the run names no test, so benchmark and device identify it.
    judged: dict[tuple[str, str], list[MetricVerdict]] = {}
    for verdict in record.verdicts:
        judged.setdefault((verdict.benchmark, verdict.device), []).append(verdict)
    by_test: dict[str, list[MetricVerdict]] = {}
    for test, benchmark, device in {(m.test, m.benchmark, m.device) for m in record.measurements}:
        by_test.setdefault(test, []).extend(judged.get((benchmark, device), ()))
    return {
        result.test: SampleProblem(
            kind=_kind(result), text=result.environment or f"test {result.outcome}: {result.text}"
        )
        for result in record.results
        if result.outcome in _BROKEN
        # An error in setup or teardown is the test's own failure.
        and (result.outcome == "error" or not _failed_by_verdict(by_test.get(result.test, ())))
    }


def _failed_by_verdict(verdicts: Sequence[MetricVerdict]) -> bool:
    bad = [v.reason for v in verdicts if v.outcome in (Outcome.FAIL, Outcome.MARGINAL)]
    return bool(bad) and Reason.TEST_FAILED not in bad


def _problem(
    measurement: Measurement,
    broken: Mapping[str, SampleProblem],
    waived: Mapping[str, str],
    excused: Mapping[str, str],
) -> SampleProblem | None:
    for name in (measurement.test, f"{measurement.test} {measurement.metric.name}"):
        if name in waived:
            return SampleProblem(kind="waived", text=waived[name])
    if measurement.test in broken:
        return broken[measurement.test]
    heat = excused.get(measurement.test, "")
    # Neither load nor heat changes exact values.
    if (measurement.disturbance or heat) and measurement.metric.better != "equal":
        what = (*measurement.disturbance, *([heat] if heat else []))
        return SampleProblem(kind="disturbed", text="; ".join(what))
    return None
