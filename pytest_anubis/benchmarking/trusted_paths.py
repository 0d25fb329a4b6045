"""Decide which programs may be run and which files they may read: those that no other user can change.

`shaped_link`, `suites/tools/` and `tools` use it.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

_MAX_LINKS = 40
"""Maximum number of links that Linux follows to one file."""


def refusal_of(path: Path) -> str:
    """Return why a program may not be run; empty if it may.

    It has to be a regular file given by its absolute path, which this user may execute. The file, every link
    on the path and every folder above them must belong to this user or to root. No group
    but root's and the user's own may write them, but for folders whose sticky bit protects their files.
    """
    return _refusal(path, os.X_OK, "program")


def refusal_of_file(path: Path) -> str:
    """Return why a program may not be given a file, by the rules of `refusal_of`; empty if it may."""
    return _refusal(path, os.R_OK, "readable file")


def _refusal(path: Path, access: int, kind: str) -> str:
    if not path.is_absolute():
        return f"{path} is no absolute path"
    try:
        whole = path.resolve(strict=True)
        if not stat.S_ISREG(whole.stat().st_mode) or not os.access(whole, access):
            return f"{path} is no {kind}"
        for place in dict.fromkeys(_places(path)):
            refusal = _refusal_at(place)
            if refusal:
                return refusal
    except (OSError, RuntimeError) as error:  # a loop of links
        return f"{path}: {getattr(error, 'strerror', None) or error}"
    return ""


def _places(path: Path) -> Iterator[Path]:
    """Yield every folder and link on the kernel's way to a file, and the file.

    Raises:
        OSError: Links form a loop, or lead nowhere.
    """
    place = Path(path.anchor)
    yield place
    left = list(path.parts[1:])
    links = 0
    while left:
        name = left.pop(0)
        place = place.parent if name == ".." else place / name
        yield place
        if not place.is_symlink():
            continue
        links += 1
        if links > _MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        target = place.readlink()
        left[:0] = target.parts[1:] if target.is_absolute() else target.parts
        place = Path(target.anchor) if target.is_absolute() else place.parent


def _refusal_at(place: Path) -> str:
    found = place.lstat()
    if found.st_uid not in (0, os.geteuid()):
        return f"{place} belongs to another user; have it owned by root or by who runs the tests"
    if stat.S_ISLNK(found.st_mode) or (
        stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
    ):
        return ""  # in a folder with the sticky bit only the owner of a file can move it
    if found.st_mode & stat.S_IWOTH:
        return f"everybody can write {place}; chmod o-w"
    if found.st_mode & stat.S_IWGRP and not _own_group(found.st_gid):
        return f"a group can write {place}; chmod g-w"
    return ""


def _own_group(group: int) -> bool:
    """Return whether a group is root's, or this user's private group of the same name."""
    if group == 0:
        return True
    try:
        found = grp.getgrgid(group)
        me = pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return found.gr_name == me.pw_name and set(found.gr_mem) <= {me.pw_name}
