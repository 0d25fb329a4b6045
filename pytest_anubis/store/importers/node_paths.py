"""Find files by a pattern like ``results/{node}/nccl.log``, and their nodes' names, for `anubis import`."""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path

from pytest_anubis.store.importers.import_result import ImportFileError
from pytest_anubis.store.importers.table_columns import MAX_NAME_LENGTH

NODE = "{node}"
RUN = "{run}"

_PARTS = re.compile(r"(\*\*/|\*|\{node\}|\{run\})")
_MAX_WILDCARDS = 8
"""Wildcards and names of a pattern, each of which multiplies the ways in which a long path may fit."""


class NodePattern:
    """A pattern of paths that contain the names of node and run.

    ``*`` fits any characters except ``/``, ``**/`` any number of folders, ``{node}`` and ``{run}`` a name
    within one folder or file name. Relative patterns begin in the working folder.

    Raises:
        ImportFileError: It has no ``{node}``, or one of the names twice, or too many wildcards.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        if text.count(NODE) != 1 or text.count(RUN) > 1:
            raise ImportFileError(
                f"--node-pattern {text!r}: needs {NODE} once, in place of the node's name in the path, such "
                f"as 'results/{NODE}/nccl.log', and {RUN} once at most; quote it for the shell"
            )
        whole = os.path.normpath(Path.cwd() / text)
        if len(_PARTS.findall(whole)) > _MAX_WILDCARDS:
            raise ImportFileError(
                f"--node-pattern {text!r}: more than {_MAX_WILDCARDS} wildcards; name more of the path"
            )
        # An ambiguous path gives different names with short and with long matches.
        self._short, self._long = (_expression(whole, open_end) for open_end in ("?", ""))

    def files(self) -> list[Path]:
        """Return the files that fit, sorted.

        Raises:
            ImportFileError: No file fits.
        """
        wanted = "".join(
            {NODE: "*", RUN: "*"}.get(part, part if part.startswith("*") else glob.escape(part))
            for part in _PARTS.split(self.text)
        )
        found = [  # a pattern may be absolute, which Path.glob refuses
            Path(name)
            for name in sorted(glob.glob(wanted, recursive=True))  # noqa: PTH207
            if os.path.isfile(name)  # noqa: PTH113
        ]
        if not found:
            raise ImportFileError(
                f"--node-pattern {self.text!r}: no file fits it (in {Path.cwd()}); is it quoted?"
            )
        return found

    def names(self, path: Path) -> tuple[str, str]:
        """Return the names of node and run in a path; the run is empty if the pattern has none.

        Raises:
            ImportFileError: The path does not fit, fits with several nodes, or a name is unprintable.
        """
        whole = os.path.normpath(Path.cwd() / path)
        short = self._short.fullmatch(whole)
        long = self._long.fullmatch(whole)
        if short is None or long is None:
            raise ImportFileError(f"{path}: no node in it by --node-pattern {self.text!r}")
        names, others = short.groupdict(), long.groupdict()
        for key in sorted(names):
            if names[key] != others[key]:
                raise ImportFileError(
                    f"{path}: may be of {names[key][:40]!r} or of {others[key][:40]!r} by --node-pattern "
                    f"{self.text!r}; write more of the path into it"
                )
        node, run = names["node"], names.get("run", "")
        if not (node + run).isprintable() or max(len(node), len(run)) > MAX_NAME_LENGTH:
            raise ImportFileError(f"{path}: a name in it is unprintable or too long; rename it")
        return node, run


def _expression(pattern: str, open_end: str) -> re.Pattern[str]:
    """Return a pattern as a regular expression; `open_end` "?" prefers short matches, "" long ones."""
    meanings = {
        "**/": f"(?:.*{open_end}/)?{open_end}",
        "*": f"[^/]*{open_end}",
        NODE: f"(?P<node>[^/]+{open_end})",
        RUN: f"(?P<run>[^/]+{open_end})",
    }
    return re.compile(
        "".join(meanings.get(part, re.escape(part)) for part in _PARTS.split(pattern)), re.DOTALL
    )
