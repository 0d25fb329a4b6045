"""Plugins that would quietly make something else of a benchmark: it is refused, with what to type instead."""

from __future__ import annotations

import pytest

from pytest_anubis.session.collecting.benchmark_mark import takes_metrics

REPEATERS = {
    "__pytest_repeat_step_number": "pytest-repeat (--count, or the mark repeat)",
    "__flakefinder_": "pytest-flakefinder (--flake-finder)",
}
"""Beginning of the parameter that a plugin gives to every copy of a test -> what to call the plugin."""


OPTIONS = {"count": ("repeat", 1), "flake_finder_enable": ("flakefinder", 0)}
"""Option that makes copies of every test -> the plugin's name in pytest, and the most that makes none."""

FREEZERS = ("pytest_freezer", "pytest_freezegun")
"""Modules of the plugins that freeze time by a fixture and by a mark, both with freezegun."""
FREEZEGUN = "freezegun.api"
"""Module of freezegun's decorator."""

_COPIES = (
    "makes several tests of one benchmark, and no baseline knows them; leave it out, and repeat with "
    "--anubis-duration or 'anubis learn --rounds N'"
)


def refused_option(config: pytest.Config) -> str:
    """Return in one line which option of another plugin makes copies of every benchmark; empty if none does.

    Asked before the run begins: a run that is refused then leaves nothing that anybody could judge.
    """
    for (option, (plugin, most)), name in zip(OPTIONS.items(), REPEATERS.values(), strict=True):
        if (
            config.pluginmanager.hasplugin(plugin)
            and (getattr(config.option, option, 0) or 0) > most
        ):
            return f"{name} {_COPIES}"
    return ""


def refusal(item: pytest.Item, *, worker: bool) -> str:
    """Return in one line why a test cannot be what it is meant to be beside its plugins; empty if it can."""
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
    """Return what holds the clock of a test from its first line on, in words; empty if nothing is known to.

    A test that freezes time in its own body is known by that only once it is there.
    """
    freezers = [p for p in item.config.pluginmanager.get_plugins() if _is_freezer(_name_of(p))]
    if freezers and item.get_closest_marker("freeze_time"):
        return f"{_shown(_name_of(freezers[0]))} (the mark freeze_time)"
    info = getattr(item, "_fixtureinfo", None)  # what has no fixtures has none
    for one in info.name2fixturedefs.get("freezer", ()) if info is not None else ():
        if _is_freezer(one.func.__module__):
            return f"{_shown(one.func.__module__)} (the fixture freezer)"
    function = getattr(item, "function", None)
    while function is not None:
        # Wrappers carry the names of what they wrap; where they were written stays.
        if getattr(function, "__globals__", {}).get("__name__") == FREEZEGUN:
            return "freezegun (the decorator freeze_time)"
        function = getattr(function, "__wrapped__", None)
    return ""


def _name_of(plugin: object) -> str:
    return str(getattr(plugin, "__name__", ""))


def _is_freezer(module: str) -> bool:
    return module.partition(".")[0] in FREEZERS


def _shown(module: str) -> str:
    return module.partition(".")[0].replace("_", "-")


def _is_timed_by_pytest_benchmark(item: pytest.Item) -> bool:
    """Return whether a test uses that plugin's fixture, and nobody has switched the timing off."""
    option = item.config.option
    if getattr(option, "benchmark_disable", False) or getattr(option, "benchmark_skip", False):
        return False
    info = getattr(item, "_fixtureinfo", None)  # what has no fixtures has none
    found = info.name2fixturedefs.get("benchmark", ()) if info is not None else ()
    return any(one.func.__module__.startswith("pytest_benchmark") for one in found)
