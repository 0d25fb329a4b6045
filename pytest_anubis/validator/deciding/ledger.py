"""Compare what a baseline expects of a node with what was judged: each missing metric or check is a blocker.

A node is accepted only if nothing that the baseline expects is missing: a test that was deselected, a device
that was left out and a benchmark that no longer exists each block. So may a component of which no metric
shows that performance has halved (`uncovered`); `anubis learn` warns of these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_anubis.core.baseline import Baseline, Criterion, PlainCheck, Unjudged
from pytest_anubis.core.blocker import Blocker, Hindrance
from pytest_anubis.core.metric import first_of, found_from, metric_name, metric_names
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason
from pytest_anubis.validator.deciding.requirement import Requirement

NOTHING_JUDGED = Blocker(
    kind=Hindrance.NOTHING_JUDGED,
    cause="no metric was judged against a criterion of the baseline",
    act="run the tests that the baseline was learned from",
)
"""Blocks if there is a baseline, and nothing of the run was held against it."""
EVERYTHING = Requirement()
MAX_COMPONENTS_NAMED = 3
"""Components named in a headline."""
ENOUGH = "take what they show for enough: --anubis-require NAME ('anubis judge': --require NAME)"
"""Another remedy for coarse criteria: name what is required."""
NOISY = "it is too noisy here to show that performance has halved"
"""Why a metric does not count for acceptance."""
Metric = tuple[str, str, str]
"""Benchmark id, metric name and group."""

Answers = Mapping[Metric, set[str] | frozenset[str]]
"""Metric -> devices whose values were compared with a criterion of the baseline, passing or not."""


def unanswered(
    verdicts: Sequence[MetricVerdict],
    criteria: Sequence[Criterion],
    *,
    devices: Collection[str] = (),
    answers: Answers | None = None,
) -> list[Blocker]:
    """Return a blocker for everything that some criteria expect and no verdict mentions.

    `devices` are those that per-device tests run on: if a criterion names no devices, a metric that was
    judged on one of them must be judged on all. Without `answers`, the verdicts say which devices were
    judged.
    """
    explaining = [verdict for verdict in verdicts if _explains_absence(verdict)]
    return [
        *_silent(verdicts, explaining, criteria),
        *_missing_devices(
            explaining, criteria, devices, answers_of(verdicts) if answers is None else answers
        ),
    ]


def unplanned(
    verdicts: Sequence[MetricVerdict],
    checks: Sequence[PlainCheck],
    planned: Collection[tuple[str, str]],
) -> list[Blocker]:
    """Return a blocker for every check without a metric that the baseline expects and the run did not plan.

    A planned check that did not pass has a verdict of its own. `planned` are test and device of all tests.
    """
    explained = {v.benchmark for v in verdicts if checks and _explains_absence(v)}
    found = []
    for check in checks:
        missing = [device for device in check.devices if (check.test, device) not in planned]
        if missing and check.test not in explained:
            where = "" if missing == ["node"] else f" on {', '.join(missing)}"
            why = "the nodes of the baseline passed this check, and it is no part of this run"
            found.append(_unanswered(check.test, f"{check.test}{where}", why))
    return found


def _unanswered(benchmark: str, subject: str, cause: str) -> Blocker:
    return Blocker(
        kind=Hindrance.UNANSWERED,
        word=Outcome.NOT_TESTED.value,
        subject=subject,
        cause=cause,
        benchmark=benchmark,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncovered:
    """A component without a metric that shows a loss of a half."""

    component: str
    coarse: tuple[Criterion, ...] = ()  # of rates and times, the smallest loss first
    unjudged: tuple[Unjudged, ...] = ()  # what was measured of it and has no criterion

    @property
    def shown_loss(self) -> float | None:
        """The smallest loss that its best metric shows, as a share of the rate; None without a criterion."""
        return self.coarse[0].shown_loss if self.coarse else None

    @property
    def why(self) -> str:
        """Why none of its metrics shows a loss of a half, in a phrase about the best metric."""
        if self.coarse:
            return f"noise hides it here, losses show {_from(self.coarse[0])}"
        return self.unjudged[0].reason


def uncovered_components(baseline: Baseline) -> list[Uncovered]:
    """Return the components that were measured in learning and have no metric that shows a loss of a half.

    Right results do not show how fast a component is, so criteria of exact values cover no component.
    """
    rates = [one for one in baseline.criteria if one.metric.better != "equal"]
    covered = {one.component for one in rates if not one.coarse}
    coarse = sorted((one for one in rates if one.coarse), key=lambda one: one.shown_loss or 0.0)
    without: dict[str, tuple[list[Criterion], list[Unjudged]]] = {}
    items: list[Criterion | Unjudged] = [*coarse, *baseline.unjudged]
    for item in items:
        if item.component not in ("", *covered):
            criteria, unjudged = without.setdefault(item.component, ([], []))
            criteria.append(item) if isinstance(item, Criterion) else unjudged.append(item)
    return [
        Uncovered(component=component, coarse=tuple(criteria), unjudged=tuple(unjudged))
        for component, (criteria, unjudged) in sorted(without.items())
    ]


def uncovered(baseline: Baseline, required: Requirement = EVERYTHING) -> list[Blocker]:
    """Return a blocker for every component that was measured in learning and that no criterion covers.

    Without a metric that shows a loss of a half, a component was not really tested. An operator who requires
    names accepts what their criteria show.
    """
    exact = {one.component for one in baseline.criteria if one.metric.better == "equal"}
    return [
        Blocker(
            kind=Hindrance.UNCOVERED,
            word=Outcome.NOT_TESTED.value,
            subject=one.component,
            cause="none of its metrics shows a loss of a half: "
            + ("exact values aside, " if one.component in exact else "")
            + "; ".join(_by_reason(one)),
            act="learn again with more or longer rounds, or on a quieter machine"
            + (f", or {ENOUGH}" if one.coarse else ""),
            benchmark=one.component,
        )
        for one in uncovered_components(baseline)
        if _blocks(one, required)
    ]


def _blocks(one: Uncovered, required: Requirement) -> bool:
    if one.coarse:
        return not required.names
    return any(required.covers(item.benchmark, item.metric, one.component) for item in one.unjudged)


def _by_reason(one: Uncovered) -> list[str]:
    """Return one phrase for each reason, with the metrics that have it."""
    reasons: dict[str, list[tuple[str, str]]] = {}
    known: set[tuple[str, str]] = set()
    for criterion in one.coarse:
        metric = (criterion.benchmark, criterion.metric.name)
        if metric not in known:  # the first of its groups shows the smallest loss
            known.add(metric)
            reasons.setdefault(f"{NOISY} (it shows losses {_from(criterion)})", []).append(metric)
    for item in one.unjudged:
        reasons.setdefault(item.reason, []).append((item.benchmark, item.metric))
    return [f"{', '.join(metric_names(some))}: {reason}" for reason, some in reasons.items()]


def _from(criterion: Criterion) -> str:
    return f"from {found_from(criterion.detectable, criterion.metric.better)} on"


def uncovered_text(baseline: Baseline, blocking: Sequence[Blocker]) -> str:
    """Return a phrase about uncovered components if they are the most frequent blocker, else an empty text.

    Measuring again does not help against them, so they are named before blockers that it helps against, with
    the number of these. A blocker that explains the whole run, such as a process that died, is named first.
    """
    names = [one.benchmark for one in blocking if one.kind is Hindrance.UNCOVERED]
    apart = (Hindrance.UNCOVERED, Hindrance.NOTHING_JUDGED)
    words = Counter(one.word for one in blocking if one.kind not in apart)
    if len(names) < 2 or len(names) < max(words.values(), default=0) or "" in words:
        return ""
    noisy = "this machine was too noisy when it was learned"
    if not baseline.one_machine:
        noisy = "healthy nodes differ too much there"
    reasons = Counter(
        why
        for one in uncovered_components(baseline)
        if one.component in names
        for why in (
            *(noisy for _ in one.coarse),
            *(item.reason.partition(" (")[0] for item in one.unjudged),
        )
    )
    (why, most), *_ = reasons.most_common(1) or [("none could be learned", 0)]
    mostly = "mostly " if most < reasons.total() else ""
    also = ", ".join(f"{count} {word}" for word, count in words.items())
    return (
        f"{len(names)} components have no metric that shows a loss of a half "
        f"({first_of(names, MAX_COMPONENTS_NAMED)}), "
        f"{mostly}as {why}, and measuring again does not help{f'; besides {also}' if also else ''}"
    )


def answers_of(verdicts: Iterable[MetricVerdict]) -> dict[Metric, set[str]]:
    """Return which devices the baseline judged, by metric."""
    found: dict[Metric, set[str]] = {}
    for verdict in verdicts:
        if verdict.scope == "unit" and verdict.reference.is_baseline:
            metric = (verdict.benchmark, verdict.metric, verdict.group)
            found.setdefault(metric, set()).add(verdict.device)
    return found


def _explains_absence(verdict: MetricVerdict) -> bool:
    """Return whether a verdict itself blocks, rejects or is listed, so that a missing value needs no blocker.

    A MARGINAL without a metric, such as a repeated attempt, does not replace a value; neither does a waived
    failure of the test itself. A FAIL without a value is a failed test: of the whole benchmark or, in
    imports, of a metric.
    """
    if verdict.outcome is Outcome.PASS:  # nearly all of them
        return False
    if verdict.outcome is Outcome.NOT_TESTED:
        waived = verdict.reason is Reason.WAIVED and not verdict.metric
        return not waived and verdict.reason is not Reason.NO_CRITERION
    return verdict.outcome is Outcome.INCONCLUSIVE or (
        verdict.outcome is Outcome.FAIL and (not verdict.metric or verdict.value is None)
    )


def _silent(
    verdicts: Sequence[MetricVerdict],
    explaining: Iterable[MetricVerdict],
    criteria: Sequence[Criterion],
) -> list[Blocker]:
    """Return a blocker for every criterion that nothing was judged against and no verdict explains.

    A comparison with other devices or earlier runs does not replace a criterion. A group counts as reported
    if another group of the same metric was, unless most nodes of the baseline have it: a node is in one stage
    of a pipeline, but has all zones of a disk. A node with one device needs no pooled values.
    """
    answered = {
        (verdict.benchmark, verdict.metric, verdict.scope, verdict.group)
        for verdict in verdicts
        if verdict.reference.is_baseline
    }
    some_group = {key[:3] for key in answered}
    # A verdict with the metric '' explains the whole benchmark.
    explained = {(v.benchmark, v.metric, v.group if v.metric else "") for v in explaining}
    devices: dict[Metric, set[str]] | None = None
    everywhere = max((criterion.nodes for criterion in criteria), default=0)
    silent = {}
    for criterion in criteria:
        name, group = (criterion.benchmark, criterion.metric.name), criterion.group
        kind = (*name, criterion.scope)
        if (*kind, group) in answered:
            continue
        if (*name, group) in explained or (name[0], "", "") in explained:
            continue
        if criterion.scope == "node":
            devices = answers_of(verdicts) if devices is None else devices
            if len(devices.get((*name, group), ())) == 1:
                continue
        if kind not in some_group or criterion.nodes > everywhere / 2:
            whole = " of the node's pooled values" if criterion.scope == "node" else ""
            silent[*kind, group] = _unanswered(
                name[0],
                f"{metric_name(*name)}{f' ({group})' if group else ''}",
                f"the baseline has a criterion{whole}, but nothing of this run was judged against it",
            )
    return [silent[key] for key in sorted(silent)]


def _missing_devices(
    explaining: Iterable[MetricVerdict],
    criteria: Sequence[Criterion],
    devices: Collection[str],
    answers: Answers,
) -> list[Blocker]:
    """Return a blocker for every metric that was judged on some devices and is missing on others.

    If most nodes have a group, such as all zones of a disk, each device must be judged in that group. If a
    device belongs to one group of several, such as a stage of a pipeline, one group is enough.
    """
    explained = {(v.benchmark, v.metric, v.group if v.metric else "", v.device) for v in explaining}
    everywhere = max((criterion.nodes for criterion in criteria), default=0)
    anywhere: dict[tuple[str, str], set[str]] = {}
    for (benchmark, metric, _), of in answers.items():
        anywhere.setdefault((benchmark, metric), set()).update(of)
    found = {}
    for criterion in criteria:
        if criterion.scope != "unit":
            continue
        benchmark, metric, group = criterion.benchmark, criterion.metric.name, criterion.group
        seen = answers.get((benchmark, metric, group), frozenset())
        if seen and seen.issuperset(criterion.devices or devices):
            continue  # nearly always
        metrics = ((metric, group), ("", ""))
        excused = {of for b, m, g, of in explained if b == benchmark and (m, g) in metrics}
        # A device that a verdict excuses shows that the test was to run on every device.
        named = seen | (excused - {""})
        if not named or "" in excused:
            continue  # another blocker says so: nothing was judged, or the whole benchmark has a reason
        every = set(criterion.devices)
        if not every and named & set(devices):
            every = set(devices)
        elsewhere = criterion.nodes <= everywhere / 2 or not criterion.devices
        done = seen | excused | (anywhere.get((benchmark, metric), set()) if elsewhere else set())
        missing = sorted(every - done)
        if missing:
            found[benchmark, metric, group] = _unanswered(
                benchmark,
                f"{metric_name(benchmark, metric)}{f' ({group})' if group else ''} on "
                f"{', '.join(missing)}",
                f"the baseline expects it of {len(every)} device{'s' if len(every) > 1 else ''}, and "
                "nothing of this run was judged there",
            )
    return [found[key] for key in sorted(found)]
