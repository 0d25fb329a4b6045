"""The pytest11 entry point: declares options, hooks and fixtures, and starts a run, a worker or a soak.

It also guards the exit status. The parts of a run are registered in ``start.py`` and ``start_worker.py``.

Every pytest run in this environment imports this module, so it loads nothing but the standard library,
pytest and light modules of ours.
PYTEST_DONT_REWRITE
"""

from __future__ import annotations

import os
from collections.abc import Generator
from dataclasses import replace

import pytest

from pytest_anubis import hookspecs
from pytest_anubis.session.collecting.benchmark_mark import MARKER_LINE
from pytest_anubis.session.collecting.collection_checks import CollectionChecks
from pytest_anubis.session.collecting.device_parameters import DeviceParametrizer
from pytest_anubis.session.collecting.trace_files import TraceCollector
from pytest_anubis.session.context import RunContext, add_part, context_key
from pytest_anubis.session.measuring.fixtures import (
    anubis_device,
    anubis_metric,
    anubis_node,
    anubis_pair,
)
from pytest_anubis.session.measuring.pair_fixtures import anubis_hosts, anubis_pairs
from pytest_anubis.settings import add_options, refuse_misspelt, resolve

__all__ = [
    "anubis_device",
    "anubis_hosts",
    "anubis_metric",
    "anubis_node",
    "anubis_pair",
    "anubis_pairs",
]

_NOT_TIMED = "ignore:Benchmarks are automatically disabled"
"""Ignores the warning that pytest-benchmark up to 5.2 gives in every run with workers.

With ``-W error`` that warning would end the run. `neighbour_plugins` refuses tests that use its fixture.
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare options and ini keys."""
    add_options(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the hooks that users may implement."""
    pluginmanager.add_hookspecs(hookspecs)


# Outermost: this runs before pytest captures output and before it loads any code of the user's.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None, None, None]:
    """Guard the exit status, so that only an accepting verdict ends a run with 0."""
    known = early_config.known_args_namespace
    if known.anubis:
        known.pythonwarnings = [*(known.pythonwarnings or ()), _NOT_TIMED]
    if "PYTEST_ANUBIS_CPUS" in os.environ and "PYTEST_XDIST_WORKER" in os.environ:
        from pytest_anubis.distributed.workers.process_cores import bind_early

        bind_early()
    if known.anubis:
        from pytest_anubis.session.running.exit_guard import guard_exit

        guard_exit(early_config)
        _announce_workers(early_config)
    result = yield
    # Only now are the options of the user's conftest files known.
    refuse_misspelt(parser, args)
    return result


def _announce_workers(config: pytest.Config) -> None:
    """Set ``--dist`` for plugins that read it this early, as pytest-cov does.

    Whether workers run is known only after the inventory is read. A plugin that expects workers in vain
    loses nothing.
    """
    known = config.known_args_namespace  # a copy, which xdist itself does not read
    if getattr(known, "dist", "") == "no" and not known.anubis_in_process:
        known.dist = "load"


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Run a soak if ``--anubis-duration`` is given: cycles of processes instead of one session."""
    if not config.getoption("anubis") or not config.getoption("anubis_duration"):
        return None
    settings = resolve(config)
    from pytest_anubis.session.running.exit_guard import vouched_key
    from pytest_anubis.session.running.soak import Soak

    status = Soak(config, settings).run()
    config.stash[vouched_key] = status == 0  # every cycle has checked its own status
    return status


def pytest_configure(config: pytest.Config) -> None:
    """Resolve the settings and register the parts of this run."""
    config.addinivalue_line("markers", MARKER_LINE)
    settings = resolve(config)
    if any(config.getoption(name, False) for name in ("showfixtures", "show_fixtures_per_test")):
        settings = replace(settings, active=False)  # no test will run
    config.stash[context_key] = RunContext(settings=settings)
    config.pluginmanager.register(TraceCollector(active=settings.active), "anubis-traces")
    if not settings.active:
        config.pluginmanager.register(DeviceParametrizer(), "anubis-devices")
        config.pluginmanager.register(CollectionChecks(config), "anubis-collection")
        return
    add_part(config, DeviceParametrizer(), "anubis-devices")
    add_part(config, CollectionChecks(config), "anubis-collection")
    worker_input = getattr(config, "workerinput", None)
    if worker_input is None:
        from pytest_anubis.start import start

        start(config, settings)
    else:
        from pytest_anubis.start_worker import start_worker

        start_worker(config, worker_input)
