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
    """Return in one line why a test cannot be what it is meant to be beside its plugins; empty if it can.

    Args:
        item: A test of a run with ``--anubis``.
        worker: Whether it is to run in a worker process.
    """
    callspec = getattr(item, "callspec", None)
    for name in callspec.params if callspec is not None and takes_metrics(item) else ():
        for begin, plugin in REPEATERS.items():
            if name.startswith(begin):
                return f"{item.nodeid}: {plugin} {_COPIES}"
    if worker and _is_timed_by_pytest_benchmark(item):
        return (
            f"{item.nodeid}: pytest-benchmark times nothing in the worker processes of --anubis; add "
            "--anubis-in-process, or --benchmark-disable if its test need not be timed"
        )
    return ""


def _is_timed_by_pytest_benchmark(item: pytest.Item) -> bool:
    """Return whether a test uses that plugin's fixture, and nobody has switched the timing off."""
    option = item.config.option
    if getattr(option, "benchmark_disable", False) or getattr(option, "benchmark_skip", False):
        return False
    info = getattr(item, "_fixtureinfo", None)  # what has no fixtures has none
    found = info.name2fixturedefs.get("benchmark", ()) if info is not None else ()
    return any(one.func.__module__.startswith("pytest_benchmark") for one in found)
