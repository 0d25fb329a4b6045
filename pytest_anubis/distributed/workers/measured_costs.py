"""How long benchmarks took in earlier runs, as far as a history can be read."""

from __future__ import annotations

from pytest_anubis.session.context import RunContext
from pytest_anubis.session.selecting.run_choice import history_exists


def measured_costs(context: RunContext) -> dict[str, float]:
    """Return how long each benchmark took in earlier runs; nothing where no history can be read."""
    place = context.settings.history_place
    if not history_exists(place):
        return {}
    from pytest_anubis.store.history.database import History, HistoryError

    try:
        with History(place) as history:
            return history.durations(context.hardware_class, profile=context.settings.profile)
    except HistoryError:
        return {}  # filing this run will tell what is wrong with it
