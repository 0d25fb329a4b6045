"""Leaving out the tests that the Selector does not want, in every process that collects."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.core.verdict import Decision
from pytest_anubis.session.collecting.benchmark_mark import (
    benchmark_mark,
    not_applicable,
    takes_metrics,
)
from pytest_anubis.session.collecting.device_parameters import benchmark_id, device_of

Ask = Callable[[list[dict[str, Any]]], dict[str, Any]]
"""Takes what was collected, and returns `Selection.answer`; in a worker it asks the controller."""

reason_key = pytest.StashKey[str]()
"""In an item's stash: why it was left out."""

# pytest's own choices of what to repeat: they look at what ran last, not at what is likely to break.
_OTHERS = (
    ("lf", "--lf"),
    ("failedfirst", "--ff"),
    ("newfirst", "--nf"),
    ("stepwise", "--sw"),
    ("stepwise_skip", "--sw-skip"),
)


def stands_down(config: pytest.Config) -> str:
    """Return the option that the Selector gives way to, empty when there is none."""
    return next((flag for dest, flag in _OTHERS if config.getoption(dest, False)), "")


class Pruning:
    """Deselects what the Selector leaves out.

    Args:
        ask: Asks for the choice.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._left_none = False

    # Last: every other selection comes first, and the original order is kept. Order is the
    # scheduler's business.
    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Drop the tests of benchmarks that were left out, in one go.

        Raises:
            pytest.UsageError: The choice cannot be made; one line says why.
        """
        if stands_down(config):
            return
        benchmarks = [benchmark_id(item) if takes_metrics(item) else "" for item in items]
        with _without_sweeps():
            answer = self._ask(describe(config, items, benchmarks))
        if "error" in answer:
            raise pytest.UsageError(answer["error"])
        reasons = answer["pruned"]
        kept, dropped = [], []
        for item, name in zip(items, benchmarks, strict=True):
            reason = reasons.get(name)
            if reason is None:
                kept.append(item)
            else:
                item.stash[reason_key] = reason
                dropped.append(item)
        if dropped:
            self._left_none = not kept
            items[:] = kept
            config.hook.pytest_deselected(items=dropped)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """End a dry run whose choice leaves nothing as every dry run: there were tests to choose from."""
        nothing = exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED
        if nothing and self._left_none and session.config.option.collectonly:
            session.exitstatus = Decision.UNDECIDED.exit_code


@contextlib.contextmanager
def _without_sweeps() -> Iterator[None]:
    """Let no garbage collection run meanwhile.

    What a choice allocates sets off sweeps over all that pytest has collected, a million objects that
    stay: with ten thousand tests they would take as long as the choice.
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
    """Return every collected benchmark with what a choice needs to know of it, as plain types.

    Args:
        config: The process's configuration, for the tests that the command line names.
        items: What was collected.
        benchmarks: The benchmark of each, empty for plain tests: they always run. What does not apply to
            this node is not offered.
    """
    named = _named(config)
    found: dict[str, dict[str, Any]] = {}
    for item, name in zip(items, benchmarks, strict=True):
        if not name or not_applicable(item):
            continue
        mark = benchmark_mark(item)
        pinned = bool(named) and any(_is_named(item, path, rest) for path, rest in named)
        one = found.get(name)
        if one is None:
            found[name] = {
                "benchmark": name,
                "component": mark.component,
                "cost": mark.cost,
                "devices": {device_of(item)},
                "pinned": pinned,
            }
        else:
            one["devices"].add(device_of(item))
            one["pinned"] = one["pinned"] or pinned
    for one in found.values():
        one["devices"] = len(one["devices"])
    return list(found.values())


def _named(config: pytest.Config) -> list[tuple[Path, str]]:
    """Return file and test of every test that the command line names, e.g. ``a.py::test_x``.

    Symbolic links are kept, as pytest keeps them in `pytest.Item.path`.
    """
    base = Path(config.invocation_params.dir)
    return [
        (Path(os.path.abspath(base / path)), rest)  # noqa: PTH100  # resolve() follows links
        for path, separator, rest in (str(arg).partition("::") for arg in config.args)
        if separator
    ]


def _is_named(item: pytest.Item, path: Path, rest: str) -> bool:
    if item.path != path:
        return False
    test = item.nodeid.partition("::")[2]
    return test == rest or test.startswith((f"{rest}[", f"{rest}::"))
