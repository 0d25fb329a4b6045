"""Open the history that ``--history`` names; also options, times and risk models that commands share."""

from __future__ import annotations

import argparse
import math
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.codec import to_plain
from pytest_anubis.durations import seconds
from pytest_anubis.passwords import is_mistaken, shown_place
from pytest_anubis.selector.selector_error import SelectorError
from pytest_anubis.store.history import HISTORY_NAME, history_file

if TYPE_CHECKING:
    from pytest_anubis.selector.risk.forecast import RiskModel
    from pytest_anubis.store.history.database import History

T = TypeVar("T")


def row_number(text: str) -> int:
    """Return a record's number, as lists show it; for argparse."""
    number = int(text)
    if not 0 < number < 1 << 63:  # the range of a database
        raise ValueError(text)
    return number


def add_history(parser: argparse.ArgumentParser, *, inherited: bool = False) -> None:
    """Declare ``--history`` and its older spelling; `inherited` if a parent parser has it, too."""
    parser.add_argument(
        "--history",
        "--store",
        dest="history",
        default=argparse.SUPPRESS
        if inherited
        else os.environ.get("PYTEST_ANUBIS_HISTORY") or ".anubis",
        metavar="DIR|URL",
        help="place of the history: folder of a store, or a database URL (default: PYTEST_ANUBIS_HISTORY, "
        "else .anubis); --store is its older spelling",
    )


def add_horizon(parser: argparse.ArgumentParser) -> None:
    """Declare ``--horizon``."""
    parser.add_argument(
        "--horizon",
        type=duration,
        default=86400.0,
        metavar="TIME",
        help="how far ahead incidents count: the time to the next validation, e.g. 24h, 7d (default: 24h)",
    )


def use(store: str, work: Callable[[History], T], *, limit: float | None = None) -> T:
    """Open a history, create it if it is missing, and return what `work` returns.

    Args:
        store: The store's folder or a database URL.
        work: It prints nothing, since its time is limited.
        limit: Seconds; None: as many as one query may take.

    Raises:
        HistoryError: The history cannot be used, or refuses the change.
    """
    from pytest_anubis.store.history.bounded_use import use_history

    return use_history(store if "://" in store else Path(store), work, limit=limit)


def may_be_there(store: str) -> bool:
    """Return whether a place may hold a history: any database, or a folder with the file."""
    return "://" in store or Path(store, HISTORY_NAME).is_file()


def read(store: str, work: Callable[[History], T]) -> T:
    """Open a history that must exist, and return what `work` returns; as `use`."""
    if not may_be_there(store) and not is_mistaken(store):
        raise CommandError(
            f"{store}: no history yet; run 'pytest --anubis suites/', or enter incidents with "
            "'anubis history incident add' or 'incident import'"
        )
    check_file_is_there(store)
    return use(store, work)


def check_file_is_there(place: str) -> None:
    """Refuse an SQLite URL whose file does not exist: reading would create it. Folders are not checked."""
    file = history_file(place) if "://" in place else None
    if file is not None and not file.exists():
        raise CommandError(
            f"{place}: no such file, so no history is there; check its name, or push runs into it first "
            f"('anubis push --history {shlex.quote(shown_place(place))}')"
        )


def day_and_time(moment: float) -> str:
    """Return a time of the history for people, in UTC: ``2026-11-20 14:00``."""
    from pytest_anubis.store.history.database import shown_time

    return shown_time(moment)[:16].replace("T", " ")


def plain_record(record: Any, *times: str) -> dict[str, Any]:
    """Return a record of `core.history` for JSON; its fields `times` become ISO 8601, None stays None."""
    from pytest_anubis.store.history.database import shown_time

    plain: dict[str, Any] = to_plain(record)
    for name in times:
        if plain[name] is not None:
            plain[name] = shown_time(plain[name])
    return plain


def model_path(store: str) -> Path | None:
    """Return where a store keeps its risk model; None for a database URL."""
    from pytest_anubis.store.history.risk_model_files import MODEL_NAME

    return None if "://" in store else Path(store) / MODEL_NAME


def kept_model(store: str) -> Path | None:
    """Return the risk model that a store keeps; None if there is none."""
    path = model_path(store)
    return path if path is not None and path.exists() else None


def load_risk_model(path: Path) -> RiskModel:
    """Read a risk model."""
    from pytest_anubis.selector.risk.forecast import RiskModel
    from pytest_anubis.store.history.risk_model_files import read_model

    try:
        return RiskModel.from_plain(read_model(path))
    except SelectorError as error:
        raise CommandError(f"{path}: {error}") from error


def duration(text: str) -> float:
    """Read a positive time for argparse."""
    try:
        found = seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if found <= 0 or not math.isfinite(found):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive time")
    return found


def probability(text: str) -> float:
    """Read a probability below 1, such as ``0.3`` or ``30%``, for argparse."""
    number = text.strip().removesuffix("%")
    try:
        found = float(number) / (1 if number == text.strip() else 100)
    except ValueError:
        found = math.nan
    if not 0 <= found < 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no probability of 0 or more and below 1: write 0.3 or 30%"
        )
    return found
