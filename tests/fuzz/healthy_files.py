"""Readers, their healthy files, and where the recorded ones are."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

FILES = Path(__file__).parent / "data"
"""Incidents of a made-up fleet, and excerpts of other tools' output."""

HOST = "no-accelerator_lab-f6m143-16c_64-gib_torch2_smoke"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """One healthy file.

    Attributes:
        name: Of the file, as its reader expects it.
        content: Its bytes.
        about: What its reader needs besides.
    """

    name: str
    content: bytes
    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """One way in for files.

    Attributes:
        name: In words.
        form: Of its files, see `mutations.CHANGES`.
        seeds: Makes its healthy files in a scratch folder.
        read: Reads one in a folder of its own: the seed, the file, whether it was only damaged, and a source
            of chance for what is the same for every file. Raises whatever goes wrong.
    """

    name: str
    form: str
    seeds: Callable[[Path], Sequence[Seed]]
    read: Callable[[Seed, Path, bool, random.Random], None]


def seed_of(path: Path, about: str = "", name: str = "") -> Seed:
    """Return a recorded file."""
    return Seed(name=name or path.name, content=path.read_bytes(), about=about)
