"""Applies the Selector's choice in every process that collects: deselects the tests that it leaves out.

It describes the collected benchmarks for the choice, deselects tests that do not apply to this node, and
skips what has not begun when the budget is over. `start`, `start_worker` and `terminal_plugin` use it.
"""

from __future__ import annotations

import contextlib
import gc
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.core.events import Judged
from pytest_anubis.core.verdict import Decision, MetricVerdict, Outcome, Reason
from pytest_anubis.report.text.numbers import duration_text
from pytest_anubis.session.collecting.benchmark_mark import (
    benchmark_mark,
    not_applicable,
    takes_metrics,
)
from pytest_anubis.session.collecting.device_parameters import benchmark_id, device_of
from pytest_anubis.session.context import context_key, emit, ends_key, time_left
from pytest_anubis.session.measuring.recorder import earlier_key

Ask = Callable[[list[dict[str, Any]]], dict[str, Any]]
"""Takes descriptions of the collected benchmarks and returns `Selection.answer`, in workers by a message."""

# pytest's own options that choose or order tests by their last run.
_CONFLICTING = (
    ("lf", "--lf"),
    ("failedfirst", "--ff"),
    ("newfirst", "--nf"),
    ("stepwise", "--sw"),
    ("stepwise_skip", "--sw-skip"),
)


def conflicting_option(config: pytest.Config) -> str:
    """Return the option of pytest that switches the Selector off; empty if there is none."""
    return next((flag for dest, flag in _CONFLICTING if config.getoption(dest, False)), "")


class Pruning:
    """Plugin that deselects what the Selector leaves out."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._left_none = False
        self._always: set[str] = set()  # benchmarks that run even when the budget is over

    # Last, after every other selection. The order is kept, which the scheduler determines.
    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Drop the tests of left-out benchmarks and those that do not apply to this node.

        Raises:
            pytest.UsageError: The choice cannot be made; one line says why.
        """
        if conflicting_option(config):
            return
        benchmarks = [benchmark_id(item) if takes_metrics(item) else "" for item in items]
        with _gc_paused():
            described = describe(config, items, benchmarks)
            answer = self._ask(described)
        if "error" in answer:
            raise pytest.UsageError(answer["error"])
        reasons = answer["pruned"]
        self._always.update(answer["pinned"])
        if answer["left"] is not None:
            config.stash[ends_key] = time.monotonic() + answer["left"]
        kept: list[pytest.Item] = []
        dropped: list[pytest.Item] = []
        for item, name in zip(items, benchmarks, strict=True):
            # If no benchmark applies, the tests stay, and their skips say why.
            left_out = reasons.get(name) or (described and not_applicable(item))
            (dropped if left_out else kept).append(item)
        if dropped:
            self._left_none = not kept
            items[:] = kept
            config.hook.pytest_deselected(items=dropped)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Skip a benchmark that has not begun when the budget is over."""
        if time_left(item.config) > 0 or earlier_key in item.stash or not takes_metrics(item):
            return
        name = benchmark_id(item)
        context = item.config.stash[context_key]
        if name in self._always:
            return
        verdict = MetricVerdict(
            outcome=Outcome.NOT_TESTED,
            reason=Reason.PRUNED,
            text=f"left out: the budget of {duration_text(context.settings.budget or 0.0)} was over",
            benchmark=name,
            metric="",
            component=benchmark_mark(item).component,
            node=context.node,
            device=device_of(item),
            test=item.nodeid,
        )
        emit(item.config, Judged(verdict=verdict))
        pytest.skip(verdict.text)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Replace pytest's "no tests" by our undecided status if a dry run's choice left nothing."""
        nothing = exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED
        if nothing and self._left_none and session.config.option.collectonly:
            session.exitstatus = Decision.UNDECIDED.exit_code


@contextlib.contextmanager
def _gc_paused() -> Iterator[None]:
    """Pause garbage collection.

    The allocations of a choice trigger scans of everything that pytest has collected. With ten thousand
    tests, a million objects, these scans would take as long as the choice.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def describe(
    config: pytest.Config, items: Sequence[pytest.Item], benchmarks: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the facts about every collected benchmark that a choice needs, as plain types.

    Benchmarks that do not apply to this node are left out.

    Args:
        config: It has the tests that the command line names.
        items: The collected tests.
        benchmarks: The benchmark of each; empty for plain tests, which always run.
    """
    named = _named(config)
    found: dict[str, dict[str, Any]] = {}
    devices: defaultdict[str, set[str]] = defaultdict(set)
    for item, name in zip(items, benchmarks, strict=True):
        if not name or not_applicable(item):
            continue
        mark = benchmark_mark(item)
        if name not in found:
            found[name] = {
                "benchmark": name,
                "component": mark.component,
                "cost": mark.cost,
                "pinned": False,
            }
        devices[name].add(device_of(item))
        found[name]["pinned"] |= any(_is_named(item, path, rest) for path, rest in named)
    return [one | {"devices": len(devices[name])} for name, one in found.items()]


def _named(config: pytest.Config) -> list[tuple[Path, str]]:
    """Return file and test of every test that the command line names, e.g. ``a.py::test_x``."""
    base = Path(config.invocation_params.dir)
    return [
        (Path(os.path.abspath(base / path)), rest)  # noqa: PTH100  # keep links, as Item.path does
        for path, separator, rest in (str(arg).partition("::") for arg in config.args)
        if separator
    ]


def _is_named(item: pytest.Item, path: Path, rest: str) -> bool:
    if item.path != path:
        return False
    test = item.nodeid.partition("::")[2]
    return test == rest or test.startswith((f"{rest}[", f"{rest}::"))
