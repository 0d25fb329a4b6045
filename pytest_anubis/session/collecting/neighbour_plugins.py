"""Refuses other pytest plugins that would spoil a benchmark, with a remedy; used at start and collection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pytest_anubis.session.collecting.benchmark_mark import takes_metrics

REPEATERS = {
    "__pytest_repeat_step_number": "pytest-repeat (--count, or the mark repeat)",
    "__flakefinder_": "pytest-flakefinder (--flake-finder)",
}
"""Prefix of the parameter that a plugin gives to every copy of a test -> name of the plugin in messages."""

OPTIONS = {"count": ("repeat", 1), "flake_finder_enable": ("flakefinder", 0)}
"""Option that copies every test -> the plugin's name in pytest, and the largest value without copies."""

FREEZERS = ("pytest_freezer", "pytest_freezegun")
"""Modules of plugins that freeze time with freezegun, by a fixture and by a mark."""
FREEZEGUN = "freezegun.api"
"""Module of freezegun's decorator."""

_COPIES = (
    "makes several tests of one benchmark, and no baseline knows them; leave it out, and repeat with "
    "--anubis-duration or 'anubis learn --rounds N'"
)


def refused_option(config: pytest.Config) -> str:
    """Return one line about an option of another plugin that copies every benchmark; empty if none does.

    The run asks before it begins, because a refused run must leave no journal.
    """
    for (option, (plugin, most)), name in zip(OPTIONS.items(), REPEATERS.values(), strict=True):
        value = getattr(config.option, option, 0) or 0
        if config.pluginmanager.hasplugin(plugin) and value > most:
            return f"{name} {_COPIES}"
    return ""


def refusal(item: pytest.Item, *, worker: bool) -> str:
    """Return in one line how a plugin spoils a test; empty if none does."""
    callspec = getattr(item, "callspec", None)
    for name in callspec.params if callspec is not None and takes_metrics(item) else ():
        for begin, plugin in REPEATERS.items():
            if name.startswith(begin):
                return f"{item.nodeid}: {plugin} {_COPIES}"
    if takes_metrics(item) and (how := _held_clock(item)):
        return (
            f"{item.nodeid}: {how} holds the clock of this benchmark, so that nothing can be timed in it; "
            "measure in a test of its own, outside of frozen time"
        )
    if worker and _is_timed_by_pytest_benchmark(item):
        return (
            f"{item.nodeid}: pytest-benchmark times nothing in the worker processes of --anubis; add "
            "--anubis-in-process, or --benchmark-disable if its test need not be timed"
        )
    return ""


def _held_clock(item: pytest.Item) -> str:
    """Return what freezes time for a whole test, in words; empty if nothing is known to.

    A test that freezes time in its own body is found later (`given_values.running_clock`).
    """
    freezers = [p for p in item.config.pluginmanager.get_plugins() if _is_freezer(_name_of(p))]
    if freezers and item.get_closest_marker("freeze_time"):
        return f"{_shown(_name_of(freezers[0]))} (the mark freeze_time)"
    for one in _fixtures(item, "freezer"):
        if _is_freezer(one.func.__module__):
            return f"{_shown(one.func.__module__)} (the fixture freezer)"
    function = getattr(item, "function", None)
    while function is not None:
        # A wrapper copies the names of what it wraps, but its globals are those of its own module.
        if getattr(function, "__globals__", {}).get("__name__") == FREEZEGUN:
            return "freezegun (the decorator freeze_time)"
        function = getattr(function, "__wrapped__", None)
    return ""


def _fixtures(item: pytest.Item, name: str) -> Sequence[pytest.FixtureDef[Any]]:
    info = getattr(item, "_fixtureinfo", None)  # only functions have fixtures
    found: Sequence[pytest.FixtureDef[Any]] = info.name2fixturedefs.get(name, ()) if info else ()
    return found


def _name_of(plugin: object) -> str:
    return str(getattr(plugin, "__name__", ""))


def _is_freezer(module: str) -> bool:
    return module.partition(".")[0] in FREEZERS


def _shown(module: str) -> str:
    return module.partition(".")[0].replace("_", "-")


def _is_timed_by_pytest_benchmark(item: pytest.Item) -> bool:
    """Return whether a test uses that plugin's fixture and no option switches the timing off."""
    option = item.config.option
    if getattr(option, "benchmark_disable", False) or getattr(option, "benchmark_skip", False):
        return False
    found = _fixtures(item, "benchmark")
    return any(one.func.__module__.startswith("pytest_benchmark") for one in found)
