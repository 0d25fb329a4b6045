"""Judge the collected runs and imports of a whole fleet: first every unit in columns, then every node.

`anubis judge`, `anubis report` and the filing of imports use it; a single run is in `run_decision`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any, Literal

import numpy as np

from pytest_anubis.core.baseline import Baseline, Finding
from pytest_anubis.core.blocker import Blocker
from pytest_anubis.core.run import RunEvidence
from pytest_anubis.core.sample import Population
from pytest_anubis.core.standing.standing_of import JudgedRun
from pytest_anubis.core.verdict import (
    ALLOWED_MISSING,
    MetricVerdict,
    NodeVerdict,
    Outcome,
    Reason,
    Waiver,
)
from pytest_anubis.core.waiving import in_noise, with_waiver
from pytest_anubis.validator.deciding.decision_headline import baseline_doubt_text, groups_of
from pytest_anubis.validator.deciding.ledger import Metric
from pytest_anubis.validator.deciding.missing_values import Cell, Lacking, expected_of, lacking
from pytest_anubis.validator.deciding.node_decision import counts_of, judge_node
from pytest_anubis.validator.deciding.seen_values import SeenValues
from pytest_anubis.validator.judging.change_screening import (
    find_changes,
    note_length,
    too_short,
    unsearched,
)
from pytest_anubis.validator.judging.class_offset import offset_note
from pytest_anubis.validator.judging.column_judging import (
    JudgedColumns,
    as_answered,
    as_broken_off,
    below_nominal,
    confirm,
    judge_columns,
    judge_components,
    judge_populations,
)
from pytest_anubis.validator.judging.device_split import split_by_device
from pytest_anubis.validator.judging.history_judging import judge_latest
from pytest_anubis.validator.judging.later_runs import LaterRuns, with_answered_means
from pytest_anubis.validator.judging.peer_judging import PeerColumns, judge_by_peers
from pytest_anubis.validator.judging.population_shift import class_findings, settle_shift
from pytest_anubis.validator.judging.verdict_table import (
    FAIL,
    MARGINAL,
    OUTCOMES,
    PASS,
    REASONS,
)

_NOTED = [REASONS.index(reason) for reason in (Reason.UNDETECTABLE, Reason.ANSWERED)]
_Units = tuple[Sequence[str], Sequence[str], Sequence[int]]
"""Nodes and devices of a population, and some of its rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDetail:
    """What a node's verdict rests on."""

    hardware_class: str  # hardware class of the node
    # All verdicts other than a plain PASS, in the order in which their runs began
    verdicts: tuple[MetricVerdict, ...] = ()
    # Device -> slot and serial number of its card, if known
    cards: Mapping[str, str] = field(default_factory=dict)
    # The worst metric of an accepted node that learning did not count as healthy; empty for others
    unlike: str = ""
    devices: frozenset[str] = frozenset()  # the known devices of the node
    missing: tuple[Cell, ...] = ()  # the single values that it lacks; only tables show them


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JudgedFleet:
    """The verdicts on a fleet."""

    # The verdicts on every population's units, and on pooled nodes if there are criteria for nodes
    columns: tuple[JudgedColumns, ...]
    baselines: Mapping[str, Baseline]  # hardware class -> the baseline that decided
    nodes: tuple[NodeVerdict, ...]  # one verdict for each node and hardware class, sorted by name
    details: tuple[NodeDetail, ...] = ()  # what each of them rests on
    # Findings on a class as a whole: most of its nodes moved together, or more samples than can be
    # searched looked as if they had changed within their run
    findings: tuple[Finding, ...] = ()
    # Lines about baselines that do not hold their stated error rate, or have slower groups that are
    # undecided
    notes: tuple[str, ...] = ()
    # Lines that need no action: which metrics have too few values to search for changes in a run
    asides: tuple[str, ...] = ()


def judge_fleet(
    populations: Sequence[Population],
    baselines: Mapping[str, Baseline],
    *,
    fail_on: Literal["fail", "marginal"] = "fail",
    require_all: bool = False,
    started: Mapping[tuple[str, str], str] | None = None,
    ended: Mapping[tuple[str, str], str] | None = None,
    ahead: Collection[tuple[str, str]] = (),
    samples_only: Collection[tuple[str, str]] = (),
    evidence: Mapping[tuple[str, str], RunEvidence] | None = None,
    checked: Mapping[str, Sequence[JudgedRun]] | None = None,
    waivers: Sequence[Waiver] | None = None,
    other_machine: bool = False,
    required: Sequence[str] = (),
    allow_missing: float = ALLOWED_MISSING,
    unread: Mapping[tuple[str, str], int] | None = None,
    virtual: Collection[str] = (),
    progress: Callable[[int, int], None] | None = None,
) -> JudgedFleet:
    """Judge all units and all nodes of collected runs.

    A criterion of the class's baseline decides if there is one. Otherwise the other devices of the node
    decide, or for its latest run the node's own earlier runs; these can reject or warn, but never accept. If
    most nodes of a class moved together, that is one finding. Samples of enough values are searched for
    changes within the run.

    Args:
        populations: Populations of any hardware classes; criteria never cross classes.
        baselines: Hardware class -> baseline; a class without one is undecided.
        fail_on: ``marginal`` rejects on MARGINAL as well.
        require_all: Metrics without a criterion block acceptance.
        started: (run, node) -> when the run began, ISO 8601; it orders the runs of a node.
        ended: (run, node) -> when it ended; a run that began before that clears none of its failures.
        ahead: (run, node) of runs dated by a clock ahead of the present, or killed: these answer nothing.
        samples_only: (run, node) of runs of exported files: they accept no node.
        evidence: (hardware class, node) -> what else is known; each of these nodes gets a verdict even if
            nothing was measured on it.
        checked: Node -> what each of its runs found without a value, such as a test's own check.
        waivers: The waivers to apply; None applies those of the runs themselves.
        other_machine: A baseline of one machine may accept others, whatever the options of the runs.
        required: Components, benchmarks and metrics that a node must have run; empty: as its runs required.
        allow_missing: Share of the values of a node that may be missing in tables.
        unread: (run, node) -> number of lines about the node that could not be read. The node is not accepted
            until a later run has as many metrics of it.
        virtual: Hardware classes of virtual machines, whose own past allows for what other guests take.
        progress: Called with (done, all) after every population.
    """
    by_class: dict[str, list[Population]] = {key: [] for key, _ in evidence or {}}
    for population in populations:
        by_class.setdefault(population.hardware_class, []).append(population)
    done, columns = 0, list[JudgedColumns]()
    later = LaterRuns(
        started=started or {},
        ended=ended or {},
        checked=checked or {},
        ahead=frozenset(ahead),
        samples_only=frozenset(samples_only),
    )
    nodes: list[tuple[NodeVerdict, NodeDetail]] = []
    findings: list[Finding] = []
    notes, asides = list[str](), list[str]()
    judged_of: dict[str, list[JudgedColumns]] = {}
    same: defaultdict[tuple[str, str, str], list[JudgedColumns]] = defaultdict(list)
    for key in sorted(by_class):
        judged_of[key] = []
        each = _judge_class(by_class[key], baselines.get(key), started or {}, key in virtual)
        for one in each:
            judged_of[key].append(judged := confirm(one))
            same[one.population.series].append(judged)
            done += 1
            if progress is not None:
                progress(min(done, len(populations)), len(populations))
    for key, confirmed in judged_of.items():
        baseline = baselines.get(key)
        known = {node: r for (of, node), r in (evidence or {}).items() if of == key}
        gathered = _Nodes(known, waivers, fail_on, later)
        shifts: list[Finding] = []
        searched: dict[tuple[str, str], bool] = {}
        mine = []
        for one in confirmed:
            elsewhere = [other for other in same[one.population.series] if other not in confirmed]
            mine.append(gathered.waived(later.columns(one, elsewhere), baseline))
        mine = with_answered_means(mine)
        for judged in mine:
            gathered.add(judged, baseline)
            if judged.shift is not None:
                shifts.append(judged.shift)
            note_length(judged, searched)
            if judged.unsearched:
                findings.append(unsearched(judged))
        options: dict[str, Any] = {"other_machine": True} if other_machine else {}
        options |= {"required": tuple(required)} if required else {}
        nodes += gathered.decide(key, baseline, require_all, options, allow_missing, unread or {})
        mine = [gathered.seen.answered(judged) for judged in mine]
        columns += mine
        findings += class_findings(key, shifts)
        if doubt := baseline_doubt_text(baseline):
            notes.append(f"hardware class {key}: the baseline's {doubt}")
        if open_ones := groups_of(baseline):
            notes.append(f"hardware class {key}: {open_ones}")
        if offset := offset_note(key, mine):
            findings.append(Finding(kind="class-offset", text=offset))
        asides += too_short(key, searched)
    nodes.sort(key=lambda pair: pair[0].node)
    return JudgedFleet(
        columns=tuple(columns),
        baselines=dict(baselines),
        nodes=tuple(verdict for verdict, _ in nodes),
        details=tuple(detail for _, detail in nodes),
        findings=tuple(findings),
        notes=tuple(notes),
        asides=tuple(asides),
    )


def _judge_class(
    populations: Sequence[Population],
    baseline: Baseline | None,
    started: Mapping[tuple[str, str], str],
    virtual: bool,
) -> Iterator[JudgedColumns]:
    lonely: list[Population] = []
    if baseline is None:
        lonely = list(populations)
    else:
        settled = []
        for judged in judge_populations(populations, baseline, started):
            if judged.criterion is None and len(judged.population):
                lonely.append(judged.population)
            else:
                settled.append(find_changes(split_by_device(settle_shift(judged)), baseline))
                yield settled[-1]
        for judged in judge_components(settled, baseline):
            yield settle_shift(judged)
    compared = [_undecided(one, baseline) for one in judge_by_peers(lonely)]
    alone = [place for place, one in enumerate(compared) if not isinstance(one, PeerColumns)]
    latest = judge_latest([compared[place] for place in alone], started, virtual=virtual)
    for place, judged in zip(alone, latest, strict=True):
        compared[place] = judged
    yield from (find_changes(below_nominal(one, baseline)) for one in compared)


def _undecided(by_peers: PeerColumns, baseline: Baseline | None) -> JudgedColumns:
    """Return the verdicts by peers, or verdicts without a reference if no device has enough peers.

    Where the right value is known, as of a count of faults, peers that are wrong alike excuse nothing.
    """
    if by_peers.population.metric.right is not None or np.isnan(by_peers.similarity).all():
        return judge_columns(by_peers.population, None, baseline=baseline)
    return by_peers


class _Nodes:
    """The verdicts of each node that its decision needs: every bad unit, and one passed unit per metric.

    A fleet has millions of passed units; one of them shows that the node's metric was judged.
    """

    def __init__(
        self,
        evidence: Mapping[str, RunEvidence],
        waivers: Sequence[Waiver] | None,
        fail_on: Literal["fail", "marginal"],
        later: LaterRuns,
    ) -> None:
        self._waivers, self._fail_on, self._later = waivers, fail_on, later
        if waivers is not None:
            all_of = tuple(waivers)
            evidence = {n: replace(e, waivers=all_of, waivers_of={}) for n, e in evidence.items()}
        self._evidence = evidence
        self._answers: defaultdict[str, dict[Metric, frozenset[str]]] = defaultdict(dict)
        self._verdicts: defaultdict[str, list[MetricVerdict]] = defaultdict(list)
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._bad = (Outcome.FAIL,) if fail_on == "fail" else (Outcome.FAIL, Outcome.MARGINAL)
        for name, one in evidence.items():
            verdicts = [
                self._of_run(with_waiver(v, one.waivers_for(v.run), fail_on), name)
                for v in later.without_sample(name, one.verdicts)
            ]
            self._verdicts[name] = verdicts
            self._counts[name] = Counter(verdict.counted_as for verdict in verdicts)
        self._last: tuple[_Units, Mapping[str, frozenset[str]]] = (((), (), ()), {})
        self.seen = SeenValues(later)

    def waived(self, judged: JudgedColumns, baseline: Baseline | None) -> JudgedColumns:
        """Return verdicts as they count with the waivers and the allowed noise of their runs.

        A failure in a run that was broken off rejects nothing, unless all runs of the node were broken off.
        """
        bad = [OUTCOMES.index(outcome) for outcome in self._bad]
        waived = {}
        for row in np.flatnonzero(np.isin(judged.outcome, bad)).tolist():
            known = self._known(judged.population.nodes[row])
            run = judged.population.runs[row]
            waivers = known.waivers_for(run)
            if waivers or run in known.noisy or run in known.broken_off:
                full = judged.of_run(row, baseline)
                counted = with_waiver(full, waivers, self._fail_on)
                counted = in_noise(counted) if run in known.noisy else counted
                counted = self._of_run(counted, judged.population.nodes[row])
                if counted is not full:
                    waived[row] = counted
        return judged.with_verdicts(waived, waived=waived) if waived else judged

    def _of_run(self, verdict: MetricVerdict, node: str) -> MetricVerdict:
        """Return a verdict as it counts if its run was broken off and the node has other runs."""
        broken = self._known(node).broken_off
        bad = verdict.run in broken and verdict.outcome in self._bad
        return as_broken_off(verdict) if bad and not self._all_broken_off(node) else verdict

    def _all_broken_off(self, node: str) -> bool:
        """Return whether no run of a node came to its end."""
        broken = self._known(node).broken_off
        return len(self._later.runs.get(node, broken)) <= len(broken)

    def _broken_off(self, node: str) -> tuple[str, list[Blocker]]:
        """Return why nothing can be decided about a node, and the blockers for its other broken-off runs."""
        broken = self._known(node).broken_off
        runs = self._later.unfollowed(node, broken)
        ends = [Blocker(run=run, cause=f"it {broken[run]}") for run in runs]
        return (str(ends.pop()), ends) if ends and self._all_broken_off(node) else ("", ends)

    def _known(self, node: str) -> RunEvidence:
        """Return what is known of a node besides its samples; only waivers for an imported node."""
        return self._evidence.get(node) or RunEvidence(waivers=tuple(self._waivers or ()))

    def add(self, judged: JudgedColumns, baseline: Baseline | None) -> None:
        population = judged.population
        outcomes = judged.outcome
        if judged.reference.is_baseline and (
            judged.criterion is not None and judged.criterion.scope == "unit"
        ):
            self._note_answers(
                population, np.flatnonzero(np.isin(outcomes, (PASS, MARGINAL, FAIL))).tolist()
            )
            self.seen.note(judged)
        good = _passed(judged, baseline)
        passed = Counter(compress(population.nodes, (outcomes == PASS).tolist()))
        for name, count in passed.items():
            self._counts[name][good.counted_as] += count
            self._verdicts[name].append(good)
        named = (outcomes != PASS) | np.isin(judged.reason, _NOTED)
        for row in np.flatnonzero(named).tolist():
            name = population.nodes[row]
            if outcomes[row] != PASS:
                self._counts[name][OUTCOMES[outcomes[row]].value] += 1
            self._verdicts[name].append(judged.of_run(row, baseline))

    def _note_answers(self, population: Population, rows: Sequence[int]) -> None:
        metric = population.series
        units = (population.nodes, population.devices, rows)
        if units != self._last[0]:  # most metrics have the units of the metric before
            found: defaultdict[str, set[str]] = defaultdict(set)
            for row in rows:
                found[population.nodes[row]].add(population.devices[row])
            self._last = (units, {node: frozenset(devices) for node, devices in found.items()})
        for node, devices in self._last[1].items():
            answers = self._answers[node]
            answers[metric] = answers[metric] | devices if metric in answers else devices

    def decide(
        self,
        key: str,
        baseline: Baseline | None,
        require_all: bool,
        options: Mapping[str, Any],
        allow_missing: float,
        unread: Mapping[tuple[str, str], int],
    ) -> list[tuple[NodeVerdict, NodeDetail]]:
        """Decide about all nodes; `options` are fields of their evidence that the caller sets."""
        found = []
        criteria = baseline.criteria if baseline is not None else ()
        expected = expected_of(criteria)
        seen = self.seen.by_node(self._evidence, unread) if expected else {}
        for name, every in self._verdicts.items():
            evidence, answers = replace(self._known(name), **options), self._answers.get(name, {})
            here = self.seen.of_others(name, every, answers)
            self._counts[name][Outcome.NOT_TESTED.value] -= len(every) - len(here)
            every = self._later.in_order(name, here)
            lack = Lacking(answers=answers, verdicts=every)
            if name in seen:
                lack = lacking(name, every, answers, seen[name], expected, allow_missing)
            broken_off, ends = self._broken_off(name)
            lines = self.seen.unread(name, unread) + self.seen.samples_only(name)
            if name in seen:
                lines += self.seen.partly(name, allow_missing)
            blockers = (*evidence.blockers, *ends, *lines, *lack.blockers)
            evidence = replace(evidence, blockers=blockers)
            lost = [with_waiver(v, evidence.waivers_for(v.run), self._fail_on) for v in lack.gone]
            verdicts = [*lost, *lack.verdicts]
            if lack.cells and lack.allowed:
                evidence = replace(evidence, missing=(len(lack.cells), lack.whole))
            verdict = judge_node(
                verdicts,
                lack.needed(criteria) if lack.spared else None,
                baseline=baseline,
                node=name,
                evidence=evidence,
                answers=lack.answers,
                fail_on=self._fail_on,
                require_all=require_all,
                broken_off=broken_off,
            )
            verdicts += [as_answered(one, "a later run has it", True) for one in lack.back]
            detail = NodeDetail(
                hardware_class=key,
                verdicts=tuple(v for v in verdicts if v.text),  # a plain PASS has no text
                cards=evidence.cards,
                devices=frozenset(evidence.devices).union(*answers.values()),
                missing=(*lack.cells, *lack.absent),
            )
            gone = tuple(one.device for one in lost if one.outcome is Outcome.FAIL)
            counts = counts_of(self._counts[name] + Counter(one.counted_as for one in lost))
            found.append((replace(verdict, counts=counts, gone=gone), detail))
        return found


def _passed(judged: JudgedColumns, baseline: Baseline | None) -> MetricVerdict:
    """Return a PASS without a text, which shows that a metric of a node was judged."""
    return MetricVerdict(
        outcome=Outcome.PASS,
        reason=Reason.WITHIN,
        text="",
        benchmark=judged.population.benchmark,
        metric=judged.population.metric.name,
        group=judged.population.group,
        scope=judged.criterion.scope if judged.criterion is not None else "unit",
        reference=judged.reference,
        baseline=baseline.digest if baseline and judged.reference.is_baseline else "",
    )
