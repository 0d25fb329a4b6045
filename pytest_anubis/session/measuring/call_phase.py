"""Judges every benchmark's metrics in the test's own call phase, and adds the result to pytest's reports.

`start` and `start_worker` use it.
"""

from __future__ import annotations

import os
import unittest
from bdb import BdbQuit
from collections.abc import Generator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from pytest_anubis.codec import CodecError, from_plain, to_plain
from pytest_anubis.core.events import BlockerFound, Judged, TestStarted
from pytest_anubis.core.measurement import MISTAKE
from pytest_anubis.core.run import card_texts
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason
from pytest_anubis.core.waiving import in_noise, widened, with_waiver
from pytest_anubis.report.export.junit_export import properties
from pytest_anubis.report.text.failure_text import (
    failure_rows,
    failure_text,
    inconclusive_text,
    short_lines,
)
from pytest_anubis.session.code_mistakes import closest_name, failed_cleanups, mistake_in_code
from pytest_anubis.session.collecting.benchmark_mark import benchmark_mark
from pytest_anubis.session.collecting.device_parameters import benchmark_id, device_of
from pytest_anubis.session.context import MetricUsageError, RunContext, emit, judge_key
from pytest_anubis.session.error_causes import environment_of, text_of
from pytest_anubis.session.measuring.conditions import conditions_watch
from pytest_anubis.session.measuring.own_process import (
    end_forked,
    forget_children,
    mistake_of_child,
)
from pytest_anubis.session.measuring.recorder import Recorder, recorder_key

if TYPE_CHECKING:
    from pytest_anubis.core.measurement import Measurement


# pytest.fail.Exception is the public name of the exception behind pytest.fail(), untyped.
_Failed: Any = pytest.fail.Exception
_Skipped: Any = pytest.skip.Exception
_NO_FAILURE: Any = (_Skipped, unittest.SkipTest, pytest.xfail.Exception)
"""Exceptions of a test that are no failure."""


class AcceptanceFailure(_Failed):  # type: ignore[misc]  # see above
    """The failure of a test with a metric outside its criterion; it has a full text and no traceback.

    Args:
        text: The explanation.
        shown: Parts for terminals of different widths: the table as ``rows``, the first line as ``lines`` of
            decreasing length.
    """

    __module__ = "builtins"  # so that the short test summary shows the bare name

    def __init__(self, text: str, shown: dict[str, Any]) -> None:
        super().__init__(text, pytrace=False)
        self.shown = shown


_OWN_ERRORS: Any = (AcceptanceFailure, MetricUsageError)
"""Errors of ours whose ``__module__`` is not in this package."""
_undecided_key = pytest.StashKey[str]()
_properties_key = pytest.StashKey["list[tuple[str, str]]"]()


class Judge:
    """Plugin that judges tests and attaches measurements and conclusions to their reports."""

    def __init__(self, config: pytest.Config, context: RunContext) -> None:
        self._config = config
        self._context = context
        self._process = os.getpid()  # the process that began the test
        forget_children()
        config.stash[judge_key] = lambda one: replace(self._judge_one(one), test=one.test)

    @pytest.hookimpl(tryfirst=True)  # before the run's own end is recorded
    def pytest_sessionfinish(self) -> None:
        """Report mistakes of child processes and keep the host's best readings, before the process ends."""
        if mistake := mistake_of_child():
            emit(self._config, BlockerFound(text=mistake))
        watch = conditions_watch(self._config)
        if watch is not None:
            watch.keep_readings()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Reset the item's stash, which survives reruns; judge before a skip that a fixture raises."""
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

    # Here a rejection is a plain FAILED, and xfail keeps its meaning. In a fixture's teardown one test would
    # be PASSED and ERROR, and makereport would ignore xfail.
    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Judge after a body that passes or skips; the error of a body that fails is left as it is."""
        result = None
        skip = None
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
            # The body may have requested the fixture itself.
            recorder = item.stash.get(recorder_key, None)
            if recorder is not None:
                recorder.own_process.end()
        if mistake := mistake_of_child():
            raise MetricUsageError(mistake)
        again = recorder is not None and bool(recorder.waiting)
        if again and skip is not None:  # only a judged loss can turn a skip into a failure
            again = self._context.judging
        whole = skip is None
        if again and recorder and not self._fails_anyway(item, recorder, whole=whole):
            recorder.handed_on = True
            return result
        if skip is not None:
            if recorder is None:
                raise skip
            self._end_with_skip(item, recorder, skip)
        if self._context.judging:
            verdicts = self._judge(item, recorder) if recorder else self._without_fixture(item)
            self._conclude(item, verdicts)
        return result

    def _end_with_skip(
        self, item: pytest.Item, recorder: Recorder, skip: BaseException
    ) -> NoReturn:
        """Raise the failure of a metric recorded before the skip, else the skip.

        Declared metrics without a value are ignored. After a recorded metric ``pytest.xfail()`` counts as a
        skip, because it must not waive that metric.
        """
        if self._fails_anyway(item, recorder, whole=False):
            self._conclude(item, self._judge(item, recorder, whole=False))
        if recorder.measurements and isinstance(skip, pytest.xfail.Exception):
            skip = _Skipped(str(skip)).with_traceback(skip.__traceback__)
        raise skip

    def _conclude(self, item: pytest.Item, verdicts: Sequence[MetricVerdict]) -> None:
        """Emit the verdicts, and raise the failure or skip of the test that follows from them."""
        for verdict in verdicts:
            emit(self._config, Judged(verdict=verdict))
        # The journal has the original verdicts, and the waivers apart from them.
        settings = self._context.settings
        effective = [with_waiver(v, self._context.waivers, settings.fail_on) for v in verdicts]
        if widened([{"quiet_limits": settings.quiet_limits}]):
            effective = [in_noise(verdict) for verdict in effective]
        if settings.junit != "plain":
            for added in (properties([verdict]) for verdict in effective):
                item.stash.setdefault(_properties_key, []).extend(added)
                item.user_properties.extend(added)
        self._raise_if_not_passed(item, effective)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Attach ``report.anubis``, data that pytest's report lacks; measurements and verdicts are events."""
        end_forked(self._process, call.excinfo and call.excinfo.value)  # forked by a fixture
        report = yield
        data: dict[str, Any] = {
            "benchmark": benchmark_id(item),
            "component": benchmark_mark(item).component,
            "device": device_of(item),
        }
        if call.excinfo is not None and not call.excinfo.errisinstance(_NO_FAILURE):
            data |= _failure_data(item, report, str(call.when), call.excinfo)
        if call.when == "call":
            recorder = item.stash.get(recorder_key, None)
            if recorder is not None and recorder.busy:
                data["busy"] = round(recorder.busy, 6)
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
        """Return the verdicts on recorded metrics, and for a `whole` test on declared ones without values."""
        verdicts = [self._judge_one(measurement) for measurement in recorder.measurements]
        if recorder.excuses:
            from pytest_anubis.session.measuring.sample_verdicts import excused

            verdicts = [excused(verdict, recorder.excuses) for verdict in verdicts]
        verdicts += recorder.conclusions
        if any(measurement.metric.part_of for measurement in recorder.measurements):
            from pytest_anubis.validator.surveying.step_shares import with_step_shares

            known = self._context.baseline
            verdicts = with_step_shares(verdicts, recorder.measurements, known)
        recorded = {measurement.metric.name for measurement in recorder.measurements}
        mark = benchmark_mark(item)
        for name in mark.metrics if whole else ():
            if name not in recorded:
                near = closest_name(name, recorded.difference(mark.metrics))
                verdicts.append(self._unset(item, name, near, sorted(recorded)))
        if whole and not verdicts:
            text = "the benchmark recorded no metric, so there is nothing to judge"
            verdicts.append(self._without_values(item, "", text))
        return tuple(replace(verdict, test=item.nodeid) for verdict in verdicts)

    def _fails_anyway(self, item: pytest.Item, recorder: Recorder, *, whole: bool) -> bool:
        """Return whether a metric failed that no other visit can change, such as a wrong result."""
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
        """Fill in what a user's hook left out, so that its verdict counts like one by a criterion."""
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
        self, item: pytest.Item, name: str, near: str, recorded: Sequence[str]
    ) -> MetricVerdict:
        """Return the verdict on a declared metric without a value.

        The text lists what was `recorded`, because a mark may list metrics of all cases of a parametrised
        test, a mistake that only its author can see. `near` is an undeclared metric with a similar name.
        """
        text = f"{name} is declared by the test's mark but was never recorded"
        if near:
            text = f"{MISTAKE}{text}, and {near}, which was, is not declared; did you mean {name}?"
            return self._without_values(item, name, text)
        only = f"; recorded: {', '.join(recorded)}" if recorded else ""
        text = (
            f"{text}{only}; either this node kept the test from it, or the benchmark is written wrongly: "
            f"then record {name}, or take it out of the mark's metrics"
        )
        return self._without_values(item, name, text, Outcome.FAIL)

    def _without_fixture(self, item: pytest.Item) -> tuple[MetricVerdict, ...]:
        """Return the verdicts on the declared metrics of a test that never requests ``anubis_metric``."""
        why = (
            "is declared by the test's mark, and the test never asks for anubis_metric: record it, or take "
            "it out of the mark's metrics"
        )
        metrics = benchmark_mark(item).metrics
        return tuple(self._without_values(item, m, f"{MISTAKE}{m} {why}") for m in metrics)

    def _without_values(
        self, item: pytest.Item, metric: str, text: str, outcome: Outcome = Outcome.INCONCLUSIVE
    ) -> MetricVerdict:
        """Return a verdict on a metric, or on the whole test, of which nothing was recorded."""
        mark = benchmark_mark(item)
        return MetricVerdict(
            outcome=outcome,
            reason=Reason.UNSET,
            text=text,
            benchmark=benchmark_id(item),
            metric=metric,
            component=mark.component,
            node=self._context.node,
            device=device_of(item),
            test=item.nodeid,
            action=mark.action if metric else "",
        )

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


def _failure_data(
    item: pytest.Item,
    report: pytest.TestReport,
    when: str,
    raised: pytest.ExceptionInfo[BaseException],
) -> dict[str, Any]:
    """Return the entries of ``report.anubis`` about a failure, and shorten the text of the report itself."""
    error, action = raised.value, benchmark_mark(item).action
    own_check = isinstance(error, _Failed)
    ours = _is_ours(raised)
    unclean = failed_cleanups(item, raised)
    environment = (
        unclean or mistake_in_code(item, raised) or environment_of(error, own_check=own_check)
    )
    data: dict[str, Any] = {
        "raised": raised.exconly(tryshort=True).split("\n", 1)[0][:200],
        "environment": environment,
    }
    if when == "teardown":  # in a setup, a failed cleanup counts against the test itself
        data["unclean"] = unclean
    if not environment:
        if ours:
            data["action"] = getattr(error, "next_step", "")
        elif isinstance(error, AssertionError):
            data |= {"action": action, "text": _check_text(error)}
        elif own_check:
            data["action"] = action
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None and ours:
        # pytest's summary is narrow, so the cause comes first, without the name of the error.
        crash.message = str(error) or crash.message
    if isinstance(error, AcceptanceFailure):
        data |= {"in_verdicts": crash is not None, "shown": error.shown}
    elif environment.startswith(MISTAKE):
        data["text"] = _with_mistake_first(report, environment.removeprefix(MISTAKE))
    elif environment and ours:
        _without_traceback(report, raised, environment)
    if isinstance(error, MetricUsageError) and when != "teardown":
        data["usage_error"] = str(error)
    elif isinstance(error, BdbQuit) and when == "call":
        # In a worker, which has no input, or ended by hand: this says nothing about the node.
        data["usage_error"] = "left in the debugger; run it with -s or --pdb"
    return data


def _check_text(error: BaseException) -> str:
    """Return a failed check of a test in one line: its message, then the compared values."""
    first, *more = text_of(error).strip().split("\n")
    compared = next((line.strip() for line in more if line.startswith("assert ")), "")
    return f"{first} ({compared})" if compared else first


def _with_mistake_first(report: pytest.TestReport, mistake: str) -> str:
    """Put the mistake into pytest's short summary, which for a fixture would be empty; return it."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        crash.message = mistake
    elif report.longrepr is not None and not isinstance(report.longrepr, str | tuple):
        # pytest's summary reads it from here; a report that is sent between processes loses it.
        report.longrepr.reprcrash = SimpleNamespace(message=mistake)  # type: ignore[union-attr]
    return mistake


def _is_ours(raised: pytest.ExceptionInfo[BaseException]) -> bool:
    """Return whether an error is of this package, so that its text needs no name of the error."""
    ours = raised.type.__module__.startswith("pytest_anubis.")
    return ours or raised.errisinstance(_OWN_ERRORS)


def _without_traceback(
    report: pytest.TestReport, raised: pytest.ExceptionInfo[BaseException], environment: str
) -> None:
    """Show an error of ours that the environment causes as two lines: the error and the next step."""
    shown = raised.getrepr(style="value", chain=False)
    text = str(raised.value)
    if shown.reprcrash is not None:
        shown.reprcrash.message = text
    for entry in shown.reprtraceback.reprentries:
        entry.lines = [f"INCONCLUSIVE: {text}", f"next step: {environment.partition('; ')[2]}"]
    report.longrepr = shown


def _forget(item: pytest.Item, key: pytest.StashKey[Any]) -> None:
    if key in item.stash:
        del item.stash[key]


def checked_verdict(value: Any) -> MetricVerdict:
    """Return a user hook's answer if it is a valid verdict.

    Raises:
        MetricUsageError: It is something else.
    """
    if not isinstance(value, MetricVerdict):
        raise MetricUsageError(
            f"hook pytest_anubis_judge returned {type(value).__name__}; return a MetricVerdict or None"
        )
    try:
        # As the journal would read it: text in place of an enum is converted, or refused.
        return from_plain(MetricVerdict, to_plain(value))
    except CodecError as error:
        raise MetricUsageError(f"hook pytest_anubis_judge returned a verdict: {error}") from None
