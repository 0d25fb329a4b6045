"""Read lists of hosts for `anubis fleet`: a file, names with commas, and Slurm's ranges (``n[1-3,7]``)."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path

from pytest_anubis.codec import CodecError, read_bytes

_MAX_HOSTS = 200_000
"""Hosts in one list: twice the largest fleet; ``n[0-999999999]`` is a typing error."""
_MAX_BYTES = 16 << 20  # of a file of hosts
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
_DESTINATION = re.compile(r"[A-Za-z0-9_.@:/%\[\]-]+")
_PIECE = re.compile(r"([^\[\],]*)\[([0-9,-]+)\]([^\[\],]*)")


class HostListError(ValueError):
    """A text is no list of hosts; the one-line message says where and why."""


@dataclass(frozen=True, slots=True)
class Host:
    """One host."""

    name: str  # the node's name, as in journals and history
    destination: str  # what ssh connects to: a host, ``user@host``, or ``ssh://user@host:port``


def read_hosts(text: str) -> list[Host]:
    """Read a list: ``@FILE`` or the path of a file with one host a line, else names.

    A line of a file is ``NAME`` or ``NAME DESTINATION``; ``#`` begins a remark. A table (``FILE.csv``) has
    the names in the column ``node``.

    Raises:
        HostListError: It has no host, the same host twice, or something that is no host.
    """
    path = Path(text.removeprefix("@"))
    try:
        there = path.exists() and not path.is_dir()
    except OSError:  # a list of names is too long for the name of a file
        there = False
    if text.startswith("@") or there:
        return _of_file(path)
    return _checked([Host(name, name) for name in expand(text)], repr(text[:40]))


def _of_file(path: Path) -> list[Host]:
    try:
        lines = read_bytes(path, largest=_MAX_BYTES).decode("utf-8").splitlines()
    except OSError as error:
        raise HostListError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError:
        raise HostListError(f"{path}: is no text in UTF-8") from None
    except CodecError as error:
        raise HostListError(f"{path}: {error}; that is no list of hosts") from None
    found = []
    if path.suffix.lower() == ".csv":
        return _checked(_of_table(lines, path), str(path))
    for number, one in enumerate(lines, start=1):
        words = one.partition("#")[0].split()
        if len(words) > 2:
            raise HostListError(f"{path}: line {number}: write NAME, or NAME DESTINATION")
        try:
            names = expand(words[0]) if words else []
        except HostListError as error:
            raise HostListError(f"{path}: line {number}: {error}") from None
        found += [Host(name, words[1] if len(words) == 2 else name) for name in names]
    return _checked(found, str(path))


def _of_table(lines: list[str], path: Path) -> list[Host]:
    try:
        rows = csv.DictReader(lines)
        if "node" not in (rows.fieldnames or ()):
            raise HostListError(f"{path}: has no column 'node'")
        names = dict.fromkeys((row["node"] or "").strip() for row in rows)
    except csv.Error as error:
        raise HostListError(f"{path}: is no CSV ({error})") from None
    return [Host(name, name) for name in names if name]


def is_host(name: str) -> bool:
    """Return whether a text is the name of one host."""
    return _NAME.fullmatch(name) is not None


def _checked(hosts: list[Host], where: str) -> list[Host]:
    seen: set[str] = set()
    for host in hosts:
        if not is_host(host.name):
            raise HostListError(f"{where}: {host.name[:40]!r} is no name of a host")
        if _DESTINATION.fullmatch(host.destination) is None or host.destination.startswith("-"):
            raise HostListError(
                f"{where}: {host.destination[:40]!r} is nothing that ssh connects to"
            )
        if host.name in seen:
            raise HostListError(f"{where}: {host.name} is listed twice; name every node once")
        seen.add(host.name)
    if not hosts:
        raise HostListError(f"{where}: no host in it")
    return hosts


def expand(text: str) -> list[str]:
    """Return the names of ``a,b`` and ``n[01-03,7]``, leading zeros kept.

    Raises:
        HostListError: It is malformed, or too long.
    """
    found: list[str] = []
    for piece in re.findall(r"(?:[^,\[\]]|\[[^\]]*\]?|\])+", text.strip()):
        bracket = _PIECE.fullmatch(piece)
        if bracket is None:
            if "[" in piece or "]" in piece:
                raise HostListError(f"{piece[:40]!r}: write one bracket a name, e.g. n[1-3,7]")
            found.append(piece.strip())
            continue
        head, ranges, tail = bracket.groups()
        for one in ranges.split(","):
            span = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", one)
            if span is None or int(span[2] or span[1]) < int(span[1]):
                raise HostListError(f"{piece[:40]!r}: {one!r} is no range, e.g. 1-3")
            first = int(span[1])
            last = int(span[2] or span[1])
            if len(found) + last - first >= _MAX_HOSTS:
                raise HostListError(f"{piece[:40]!r}: more than {_MAX_HOSTS:,} hosts")
            found += [f"{head}{number:0{len(span[1])}}{tail}" for number in range(first, last + 1)]
    return [name for name in found if name]
