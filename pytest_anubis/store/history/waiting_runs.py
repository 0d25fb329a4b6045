"""Note a run that could not be filed in its history, in a small file of its store, until it is filed."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path

from pytest_anubis.codec import without_surrogates
from pytest_anubis.codec.json_files import read_document
from pytest_anubis.passwords import shown_place
from pytest_anubis.store.atomic import write_atomically

WAITING = "history-waiting"
"""Folder in the store; ``<run>.json`` is the note about ``runs/<run>/journal.jsonl``."""

_FORMAT = "anubis-history-waiting"
_MAX_BYTES = 1 << 16  # a note has a few hundred


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRun:
    """A run that is not in its history yet."""

    name: str  # the run's folder below ``runs``
    # The history that it waits for, as it is shown; empty: its store's own; None: unknown, since the note
    # is damaged
    place: str | None


def keep(store: Path, name: str, place: Path | str, *, why: str) -> str:
    """Note that a run waits for a history; return an error in one line, else an empty text."""
    document = {"format": _FORMAT, "run": name, "history": _shown(place, store), "why": why}
    text = json.dumps({key: without_surrogates(value) for key, value in document.items()}, indent=1)
    try:
        write_atomically(_file(store, name), (text + "\n").encode())
    except (OSError, ValueError) as error:
        return f"nor can that be noted ({error}): file it later with 'anubis push'"
    return ""


def waiting(store: Path) -> tuple[WaitingRun, ...]:
    """Return the runs that wait, by name."""
    return tuple(
        WaitingRun(name=path.stem, place=_place(path))
        for path in sorted((store / WAITING).glob("[!.]*.json"))
    )


def waiting_for(store: Path, place: Path | str) -> tuple[str, ...]:
    """Return the names of the runs that wait for a history."""
    return tuple(run.name for run in waiting(store) if run.place == _shown(place, store))


def waits_for(store: Path, name: str, place: Path | str) -> bool:
    """Return whether one run waits for a history, without reading the other notes."""
    return _place(_file(store, name)) == _shown(place, store)


def forget(store: Path, name: str) -> None:
    """Remove the note about a run that was filed."""
    with contextlib.suppress(OSError):  # filing it a second time does no harm
        _file(store, name).unlink()


def _file(store: Path, name: str) -> Path:
    return store / WAITING / f"{name}.json"


def _shown(place: Path | str, store: Path) -> str:
    if isinstance(place, str):
        return shown_place(place)
    return "" if place.resolve() == store.resolve() else str(place.resolve())


def _place(path: Path) -> str | None:
    place = read_document(path, _FORMAT, largest=_MAX_BYTES).get("history")
    return place if isinstance(place, str) else None
