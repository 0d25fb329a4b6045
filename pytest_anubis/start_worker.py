"""Start of a worker: it takes the facts of the run from the controller and registers what its tests need.

A run with accelerators starts dozens of workers, and each of them imports this module: it must stay light.
`plugin` uses it.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest

from pytest_anubis.codec import from_plain
from pytest_anubis.distributed.workers import worker
from pytest_anubis.session.context import RunContext, add_part, context_key, sink_key
from pytest_anubis.session.measuring.call_phase import Judge
from pytest_anubis.session.measuring.visits import Visits
from pytest_anubis.session.measuring.watching import watch_tests
from pytest_anubis.session.running.resume import SkipDone
from pytest_anubis.session.selecting.pruning import Pruning


def start_worker(config: pytest.Config, worker_input: dict[str, Any]) -> None:
    """Register the parts that a worker needs.

    Raises:
        pytest.UsageError: A part is blocked.
    """
    context = from_plain(RunContext, worker_input[worker.CONTEXT], where="context")
    context = replace(context, root_pid=os.getppid())
    config.stash[context_key] = context

    own = worker.register(config, worker_input)
    config.stash[sink_key] = own.event
    add_part(config, Judge(config, context), "anubis-judge")
    # With several workers, others still measure when this one has run its tests.
    if worker_input["workercount"] == 1:
        add_part(config, Visits(config, context), "anubis-visits")
    watch_tests(config, worker=True)
    if context.settings.select:
        add_part(config, Pruning(own.ask), "anubis-pruning")
    if context.done:
        add_part(config, SkipDone(), "anubis-resume")
