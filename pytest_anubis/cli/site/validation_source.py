"""Read what validation itself costs and finds, from a history or collected runs, for the fleet's page.

`fleet_source` uses it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from pytest_anubis.cli.shared.history_access import may_be_there, use
from pytest_anubis.cli.shared.printing import say
from pytest_anubis.cli.shared.run_sources import wanted_of
from pytest_anubis.core.history import Defect
from pytest_anubis.core.validation_figures import ValidationFigures
from pytest_anubis.store.run_set import RunSet
from pytest_anubis.validator.surveying.validation_survey import validation_figures


def validation_of(
    options: argparse.Namespace, runs: RunSet, homes: Sequence[str]
) -> ValidationFigures:
    """Return the figures of a fleet.

    Args:
        options: Options of the command, which choose nodes, class and time, and may name a history.
        runs: Everything that was read.
        homes: Where the history with their defects may be.

    Raises:
        HistoryError: A history that was named cannot be read; another one is noted.
    """
    from pytest_anubis.store.fleet.validation_runs import (
        collected_validation_runs,
        filed_validation_runs,
    )

    if options.history:
        wanted = wanted_of(options)
        filed = use(options.history, lambda history: filed_validation_runs(history, wanted))
        return validation_figures(filed.runs, _defects(homes, named=True), filed.older)
    collected = collected_validation_runs(runs.journals)
    return validation_figures(collected, _defects(homes, named=False))


def _defects(homes: Sequence[str], *, named: bool) -> list[Defect] | None:
    """Return the defects of all histories that are there; None if there is none."""
    from pytest_anubis.store.history.database import HistoryError
    from pytest_anubis.store.history.defect_records import defects

    found: list[Defect] | None = None
    for home in filter(may_be_there, homes):
        try:
            found = [*(found or ()), *use(home, defects)]
        except HistoryError as error:
            if named:
                raise
            say(f"note: what became of rejections is not known: {error}")
    return found
