"""How long benchmarks took in earlier runs, as far as a history can be read."""

from __future__ import annotations

from pytest_anubis.session.context import RunContext
from pytest_anubis.session.selecting.run_choice import history_exists


def measured_costs(context: RunContext) -> dict[str, float]:
    """Return how long each benchmark took in earlier runs; nothing where no history can be read."""
    place = context.settings.history_place
    if not history_exists(place):
        return {}
    from pytest_anubis.store.history.bounded_use import use_history
    from pytest_anubis.store.history.database import HistoryError

    key, profile = context.hardware_class, context.settings.profile
    try:
        return use_history(place, lambda history: history.durations(key, profile=profile))
    except HistoryError:
        return {}  # filing this run will tell what is wrong with it
