"""Use a history within a time limit, as a server may fall silent, and turn every error into one line."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pytest_anubis.passwords import shown_place
from pytest_anubis.store.history.connections import as_history_error
from pytest_anubis.store.history.database import History, HistoryError

T = TypeVar("T")

HISTORY_TIMEOUT = 30.0
"""Seconds for opening a history and one use of it: room for three waits, and short compared with a run."""


def use_history(
    place: Path | str, work: Callable[[History], T], *, limit: float | None = None
) -> T:
    """Open a history, call `work` with it, close it, and return the result.

    A server may fall silent at any moment, and no driver gives up in every such case. Therefore the work runs
    in a daemon thread, which is abandoned after `limit` seconds (default `HISTORY_TIMEOUT`) and ends with the
    process. It must not prompt, since waiting for a person counts as silence.

    Raises:
        HistoryError: Anything failed, or the time is over.
    """
    limit = HISTORY_TIMEOUT if limit is None else limit
    found: list[T] = []
    failed: list[BaseException] = []

    def use() -> None:
        try:
            with History(place) as history:
                result = work(history)
            found.append(result)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=use, name="anubis-history", daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        raise as_history_error(error, str(place)) from error
    thread.join(limit)
    if found:
        return found[0]
    if failed:
        raise as_history_error(failed[0], str(place)) from failed[0]
    raise HistoryError(f"{shown_place(str(place))}: no answer within {limit:g} s")
