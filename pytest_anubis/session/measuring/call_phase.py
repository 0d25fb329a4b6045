"""Judging: every benchmark's metrics are compared with their criteria in the test's own call phase."""

from __future__ import annotations

import os
import unittest
from bdb import BdbQuit
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from pytest_anubis.codec import CodecError, from_plain, to_plain
from pytest_anubis.core.events import BlockerFound, Judged, TestStarted
from pytest_anubis.core.measurement import MISTAKE
from pytest_anubis.core.run import card_texts
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason
from pytest_anubis.core.waivers.waiving import with_waiver
from pytest_anubis.core.waivers.widened_limits import in_noise, widened
from pytest_anubis.report.export.junit_export import properties
from pytest_anubis.report.text.failure_text import (
    failure_rows,
    failure_text,
    inconclusive_text,
    short_lines,
)
from pytest_anubis.session.code_mistakes import closest_name, mistake_in_code
from pytest_anubis.session.collecting.benchmark_mark import BenchmarkMark, benchmark_mark
from pytest_anubis.session.collecting.device_parameters import benchmark_id, device_of
from pytest_anubis.session.context import RunContext, emit, judge_key
from pytest_anubis.session.error_causes import environment_of
from pytest_anubis.session.fixture_frames import failed_cleanups
from pytest_anubis.session.measuring.conditions import conditions_watch
from pytest_anubis.session.measuring.given_values import MetricUsageError
from pytest_anubis.session.measuring.own_process import (
    begin_run,
    end_forked,
    mistake_of_child,
)
from pytest_anubis.session.measuring.recorder import Recorder, recorder_key

if TYPE_CHECKING:
    from pytest_anubis.core.measurement import Measurement


# pytest.fail.Exception is the public name of the exception behind pytest.fail(), untyped.
_Failed: Any = pytest.fail.Exception


_Skipped: Any = pytest.skip.Exception
_NO_FAILURE: Any = (_Skipped, unittest.SkipTest, pytest.xfail.Exception)
"""What a test may raise that is no failure."""


class AcceptanceFailure(_Failed):  # type: ignore[misc]  # see above
    """A metric is outside what is normal; the text is the whole explanation, so no traceback.

    Args:
        text: The explanation.
        shown: What a terminal of some width shows of it: its table as ``rows``, its first line as ``lines``
            of ever fewer words.
    """

    __module__ = "builtins"  # so that the short test summary shows the bare name

    def __init__(self, text: str, shown: Mapping[str, Any] = MappingProxyType({})) -> None:
        super().__init__(text, pytrace=False)
        self.shown = dict(shown)


_OUR_WORDS: Any = AcceptanceFailure
_IN_OUR_WORDS: Any = (AcceptanceFailure, MetricUsageError)
"""Those of ours that give another module than their own."""
_undecided_key = pytest.StashKey[str]()
_properties_key = pytest.StashKey["list[tuple[str, str]]"]()


class Judge:
    """Judges tests and attaches what was measured and concluded to their reports."""

    def __init__(self, config: pytest.Config, context: RunContext) -> None:
        self._config = config
        self._context = context
        self._process = os.getpid()  # the one that began the test
        begin_run()
        config.stash[judge_key] = lambda one: replace(self._judge_one(one), test=one.test)

    @pytest.hookimpl(tryfirst=True)  # before the run's own end is recorded
    def pytest_sessionfinish(self) -> None:
        """Tell what a child of a test did and keep the best readings: after this a process may be killed."""
        if mistake := mistake_of_child():
            emit(self._config, BlockerFound(text=mistake))
        watch = conditions_watch(self._config)
        if watch is not None:
            watch.keep_readings()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Begin an attempt afresh, as an item's stash survives reruns; judge before a fixture's skip."""
        self._process = os.getpid()
        _forget(item, recorder_key)
        stale = item.stash.get(_properties_key, ())
        item.user_properties[:] = [one for one in item.user_properties if one not in stale]
        _forget(item, _properties_key)
        _forget(item, _undecided_key)
        emit(self._config, TestStarted(test=item.nodeid))
        try:
            return (yield)
        except _NO_FAILURE as skip:
            recorder = item.stash.get(recorder_key, None)
            if recorder is None:
                raise
            recorder.own_process.end()
            self._end_with_skip(item, recorder, skip)

    # Around the call, neither in a fixture's teardown (PASSED and ERROR for one test) nor in
    # makereport (xfail ignored): here a rejection is a plain FAILED, and xfail keeps its meaning.
    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Judge when the body has passed, and before its skip; a body that raises is reported as itself."""
        result, skip = None, None
        recorder = item.stash.get(recorder_key, None)
        if recorder is not None:
            recorder.body_begins()
        try:
            result = yield
            end_forked(self._process, None)
        except BaseException as error:
            end_forked(self._process, error)
            if not isinstance(error, _NO_FAILURE):
                raise
            skip = error
        finally:
            if recorder is not None:
                recorder.body_ended()
            # A body may ask for the fixture by itself.
            recorder = item.stash.get(recorder_key, None)
            if recorder is not None:
                recorder.own_process.end()
        if mistake := mistake_of_child():
            raise MetricUsageError(mistake)
        again = recorder is not None and bool(recorder.waiting)
        if again and skip is not None:  # which only a judged loss can take back
            again = self._context.judging
        if (
            recorder is not None
            and again
            and not self._fails_anyway(item, recorder, whole=not skip)
        ):
            recorder.handed_on = True
            return result
        if skip is not None:
            if recorder is None:
                raise skip
            self._end_with_skip(item, recorder, skip)
        if self._context.judging:
            self._tell(
                item,
                self._judge(item, recorder) if recorder is not None else self._unasked(item),
            )
        return result

    def _end_with_skip(
        self, item: pytest.Item, recorder: Recorder, skip: BaseException
    ) -> NoReturn:
        """Let what failed before a skip fail its test; what was not recorded is not missed.

        A call of ``pytest.xfail`` is a skip where something was recorded: it waives none of that.
        """
        if self._fails_anyway(item, recorder, whole=False):
            self._tell(item, self._judge(item, recorder, whole=False))
        if recorder.measurements and isinstance(skip, pytest.xfail.Exception):
            skip = _Skipped(str(skip)).with_traceback(skip.__traceback__)
        raise skip

    def _tell(self, item: pytest.Item, verdicts: Sequence[MetricVerdict]) -> None:
        """Hand verdicts on, and raise what they make of the test."""
        for verdict in verdicts:
            emit(self._config, Judged(verdict=verdict))
        # The journal has them as they were reached, and the waivers beside them.
        fail_on = self._context.settings.fail_on
        told = [with_waiver(verdict, self._context.waivers, fail_on) for verdict in verdicts]
        if widened([{"quiet_limits": self._context.settings.quiet_limits}]):
            told = [in_noise(verdict) for verdict in told]
        for verdict in told:
            self._describe(item, verdict)
        self._raise_if_not_passed(item, told)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Attach what the report itself cannot say; measurements and verdicts are events and travel once."""
        end_forked(self._process, call.excinfo and call.excinfo.value)  # forked by a fixture
        report = yield
        mark = benchmark_mark(item)
        data: dict[str, Any] = {
            "benchmark": benchmark_id(item),
            "component": mark.component,
            "device": device_of(item),
        }
        if call.excinfo is not None and not call.excinfo.errisinstance(_NO_FAILURE):
            data["raised"] = call.excinfo.exconly(tryshort=True).split("\n", 1)[0][:200]
            own_check = call.excinfo.errisinstance(_Failed)
            unclean = failed_cleanups(item, call.excinfo)
            if (
                call.when == "teardown"
            ):  # a setup that ends what another test used is that test's own
                data["unclean"] = unclean
            data["environment"] = (
                unclean
                or mistake_in_code(item, call.excinfo)
                or environment_of(call.excinfo.value, own_check=own_check)
            )
            if not data["environment"]:
                if _is_ours(call.excinfo):
                    data["action"] = getattr(call.excinfo.value, "next_step", "")
                elif isinstance(call.excinfo.value, AssertionError):
                    data["action"], data["text"] = mark.action, _check_text(call.excinfo.value)
                elif own_check:
                    data["action"] = mark.action
        crash = getattr(report.longrepr, "reprcrash", None)
        if crash is not None and call.excinfo is not None and _is_ours(call.excinfo):
            # pytest's summary is narrow: the cause first, without the module of an error of ours.
            crash.message = str(call.excinfo.value) or crash.message
        if call.excinfo is not None and call.excinfo.errisinstance(_OUR_WORDS):
            data["told"] = crash is not None  # all of it is in the verdicts
            data["shown"] = getattr(call.excinfo.value, "shown", {})
        elif data.get("environment", "").startswith(MISTAKE):
            data["text"] = _with_mistake_first(report, data["environment"].removeprefix(MISTAKE))
        elif call.excinfo is not None and data.get("environment"):
            _without_traceback(report, call.excinfo, data["environment"])
        error = None if call.excinfo is None else call.excinfo.value
        if (
            isinstance(error, MetricUsageError) and call.when != "teardown"
        ):  # a body may have failed
            data["usage_error"] = str(error)
        if call.when == "call":
            recorder = item.stash.get(recorder_key, None)
            if recorder is not None and recorder.busy:
                data["busy"] = round(recorder.busy, 6)
            if call.excinfo is not None and call.excinfo.errisinstance(BdbQuit):
                # In a worker, whose input is nobody, or left by hand: this says nothing about the node.
                data["usage_error"] = "left in the debugger; run it with -s or --pdb"
            undecided = item.stash.get(_undecided_key, None)
            if undecided is not None and report.skipped:
                data["undecided"] = True
                line = item.location[1] or 0
                report.longrepr = (str(item.path), line + 1, undecided)
        report.anubis = data  # type: ignore[attr-defined]  # every attribute travels with a report
        return report

    def _judge(
        self, item: pytest.Item, recorder: Recorder, *, whole: bool = True
    ) -> tuple[MetricVerdict, ...]:
        """Return the verdicts on what was recorded, and of a `whole` test on what was not."""
        verdicts = [
            _excused(self._judge_one(measurement), recorder.excuses.get(measurement.device))
            for measurement in recorder.measurements
        ]
        verdicts += recorder.conclusions
        recorded = {measurement.metric.name for measurement in recorder.measurements}
        mark = benchmark_mark(item)
        for name in mark.metrics if whole else ():
            if name not in recorded:
                near = closest_name(name, recorded.difference(mark.metrics))
                verdicts.append(self._unset(item, mark, name, near, sorted(recorded)))
        if whole and not verdicts:
            verdicts.append(self._nothing_recorded(item, mark))
        return tuple(replace(verdict, test=item.nodeid) for verdict in verdicts)

    def _fails_anyway(self, item: pytest.Item, recorder: Recorder, *, whole: bool = True) -> bool:
        """Return whether something failed that no other visit can change, such as a wrong result."""
        if not self._context.judging:
            return False
        return any(
            verdict.outcome is Outcome.FAIL
            and (verdict.metric, verdict.device) not in recorder.waiting
            for verdict in self._judge(item, recorder, whole=whole)
        )

    def _judge_one(self, measurement: Measurement) -> MetricVerdict:
        own = self._config.hook.pytest_anubis_judge(config=self._config, measurement=measurement)
        if own is not None:
            return self._completed(checked_verdict(own), measurement)
        from pytest_anubis.session.measuring.sample_verdicts import judge_measurement

        return judge_measurement(self._context, measurement)

    def _completed(self, verdict: MetricVerdict, measurement: Measurement) -> MetricVerdict:
        """Fill in what a user's hook left out; its judgement counts like a criterion's."""
        return replace(
            verdict,
            unit=verdict.unit or measurement.metric.unit,
            better=verdict.better or measurement.metric.better,
            component=verdict.component or measurement.component,
            node=verdict.node or self._context.node,
            device=verdict.device or measurement.device,
            count=verdict.count or len(measurement.values),
            reference=known.reference if (known := self._context.baseline) else verdict.reference,
            disturbance=verdict.disturbance or measurement.disturbance,
            action=verdict.action or measurement.metric.action,
        )

    def _unset(
        self,
        item: pytest.Item,
        mark: BenchmarkMark,
        name: str,
        near: str,
        recorded: Sequence[str],
    ) -> MetricVerdict:
        """Return the verdict on a metric that is not there; `near` was recorded in its place, undeclared.

        What was `recorded` is named as well: a mark that lists what all cases of a parametrised test record
        together is a mistake that nothing but its author can see.
        """
        text = f"{name} is declared by the test's mark but was never recorded"
        if near:
            text = f"{MISTAKE}{text}, and {near}, which was, is not declared; did you mean {name}?"
        else:
            only = f"; recorded: {', '.join(recorded)}" if recorded else ""
            text = (
                f"{text}{only}; either this node kept the test from it, or the benchmark is written wrongly: "
                f"then record {name}, or take it out of the mark's metrics"
            )
        return MetricVerdict(
            outcome=Outcome.INCONCLUSIVE if near else Outcome.FAIL,
            reason=Reason.UNSET,
            text=text,
            benchmark=benchmark_id(item),
            metric=name,
            component=mark.component,
            node=self._context.node,
            device=device_of(item),
            action=mark.action,
        )

    def _unasked(self, item: pytest.Item) -> tuple[MetricVerdict, ...]:
        """Return the verdicts on what a test declares that never asks for the fixture to record it with."""
        mark = benchmark_mark(item)
        found = (self._unset(item, mark, name, "", ()) for name in mark.metrics)
        return tuple(
            replace(
                one,
                outcome=Outcome.INCONCLUSIVE,
                text=f"{MISTAKE}{one.metric} is declared by the test's mark, and the test never asks for "
                f"anubis_metric: record it, or take it out of the mark's metrics",
                test=item.nodeid,
            )
            for one in found
        )

    def _nothing_recorded(self, item: pytest.Item, mark: BenchmarkMark) -> MetricVerdict:
        return MetricVerdict(
            outcome=Outcome.INCONCLUSIVE,
            reason=Reason.UNSET,
            text="the benchmark recorded no metric, so there is nothing to judge",
            benchmark=benchmark_id(item),
            metric="",
            component=mark.component,
            node=self._context.node,
            device=device_of(item),
        )

    def _describe(self, item: pytest.Item, verdict: MetricVerdict) -> None:
        if self._context.settings.junit == "plain":
            return
        added = properties([verdict])
        item.stash.setdefault(_properties_key, []).extend(added)
        item.user_properties.extend(added)

    def _raise_if_not_passed(self, item: pytest.Item, verdicts: Sequence[MetricVerdict]) -> None:
        failing = {Outcome.FAIL}
        if self._context.settings.fail_on == "marginal":
            failing.add(Outcome.MARGINAL)
        if any(verdict.outcome in failing for verdict in verdicts):
            cards = card_texts({v.device for v in verdicts}, self._context.inventory)
            shown = {"rows": failure_rows(verdicts), "lines": short_lines(verdicts, cards)}
            raise AcceptanceFailure(failure_text(verdicts, cards), shown)
        outcomes = {verdict.outcome for verdict in verdicts}
        waived = [verdict.text for verdict in verdicts if verdict.reason is Reason.WAIVED]
        if waived and Outcome.INCONCLUSIVE not in outcomes:
            pytest.skip("; ".join(waived))
        if Outcome.INCONCLUSIVE in outcomes or outcomes == {Outcome.NOT_TESTED}:
            item.stash[_undecided_key] = text = inconclusive_text(verdicts)
            pytest.skip(text)


def _check_text(error: BaseException) -> str:
    """Return what a failed check of a test says, in one line: its message, then the values compared."""
    first, *more = str(error).strip().split("\n")
    compared = next((line.strip() for line in more if line.startswith("assert ")), "")
    return f"{first} ({compared})" if compared else first


def _with_mistake_first(report: pytest.TestReport, mistake: str) -> str:
    """Let pytest's short summary say what is wrong in the code; of a fixture it would say nothing."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        crash.message = mistake
    elif report.longrepr is not None and not isinstance(report.longrepr, str | tuple):
        # Where pytest's summary looks for it; a report that travels between processes loses it.
        report.longrepr.reprcrash = SimpleNamespace(message=mistake)  # type: ignore[union-attr]
    return mistake


def _is_ours(raised: pytest.ExceptionInfo[BaseException]) -> bool:
    """Return whether an error's words are this plugin's own, and stand without its name."""
    ours = raised.type.__module__.startswith("pytest_anubis.")
    return ours or raised.errisinstance(_IN_OUR_WORDS)


def _without_traceback(
    report: pytest.TestReport, raised: pytest.ExceptionInfo[BaseException], environment: str
) -> None:
    """Say an error of ours that speaks of the surroundings in two lines; of others the place counts."""
    if not _is_ours(raised):
        return
    told = raised.getrepr(style="value", chain=False)
    text = str(raised.value)
    if told.reprcrash is not None:
        told.reprcrash.message = text
    for entry in told.reprtraceback.reprentries:
        entry.lines = [f"INCONCLUSIVE: {text}", f"next step: {environment.partition('; ')[2]}"]
    report.longrepr = told


def _excused(verdict: MetricVerdict, blame: str | None) -> MetricVerdict:
    """Return a verdict that rejects nothing where another unit than this node's is to blame."""
    if blame is None or verdict.outcome is not Outcome.FAIL:
        return verdict
    text = f"{verdict.text}; not this node's: {blame}"
    return replace(verdict, outcome=Outcome.MARGINAL, reason=Reason.UNUSUAL, text=text)


def _forget(item: pytest.Item, key: pytest.StashKey[Any]) -> None:
    if key in item.stash:
        del item.stash[key]


def checked_verdict(value: Any) -> MetricVerdict:
    """Return a user hook's answer if it is a verdict.

    Raises:
        MetricUsageError: It is something else.
    """
    if not isinstance(value, MetricVerdict):
        raise MetricUsageError(
            f"hook pytest_anubis_judge returned {type(value).__name__}; return a MetricVerdict or None"
        )
    try:
        # What the journal would say of it: text where an enum belongs is none, or becomes one.
        return from_plain(MetricVerdict, to_plain(value))
    except CodecError as error:
        raise MetricUsageError(f"hook pytest_anubis_judge returned a verdict: {error}") from None
