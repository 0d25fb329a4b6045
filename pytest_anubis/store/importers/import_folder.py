"""Save what `anubis import` read in the store's folder of imports, as columnar files, each file once.

A file that is imported again replaces its first import, a copy of another file is refused, and values that an
earlier import of the same run has are counted.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path

from pytest_anubis.store.importers.import_result import (
    IMPORTS_FOLDER,
    DoubleImportError,
    Imported,
)
from pytest_anubis.store.importers.imported_cells import ImportedCells
from pytest_anubis.store.samples.columnar_files import (
    SUFFIX,
    Columns,
    ColumnsError,
    Origin,
    load_columns,
    origin_of,
    save_columns,
)


class ImportFolder:
    """The imports of a store as they were when this was made, and those saved since.

    Attributes:
        lost: Nodes with a run in the file that was replaced last and without one in its successor.
        twice: (run, node) -> number of values in the latest import that an earlier one saved here has too.
    """

    def __init__(self, store: Path) -> None:
        self._folder = store / IMPORTS_FOLDER
        self.lost: tuple[str, ...] = ()
        self.twice: Mapping[tuple[str, str], int] = {}
        self._cells = ImportedCells()
        self._runs: set[tuple[str, str]] = set()
        self._kept: set[Path] = set()
        self._by_path: dict[str, list[Path]] = {}
        self._by_digest: dict[str, tuple[Path, Origin]] = {}
        for file in sorted(self._folder.glob(f"*{SUFFIX}")):
            known = origin_of(file)
            if known is not None:
                self._note(file, known)

    def save(self, imported: Imported, name: str = "") -> Path:
        """Save an import as ``imports/<file name>.npz``.

        A repeated import of a file replaces the first, unless its nodes or runs are all different. Then, as
        for another file of the same name, a part of the digest is added to the name.

        Raises:
            DoubleImportError: The same content, runs, nodes and dates are there from another file.
            ColumnsError: The disk refuses.
        """
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", name or imported.source.name).strip(".-")
        path = self._folder / f"{name or 'import'}{SUFFIX}"
        origin = _origin(imported)
        if origin is not None:
            path = self._place(path, origin, {(run.run, run.node) for run in imported.runs})
        written = save_columns(
            Columns(populations=imported.populations, runs=imported.runs, origin=origin), path
        )
        if origin is not None:
            self._by_digest = {d: kept for d, kept in self._by_digest.items() if kept[0] != path}
            self._note(path, origin)
        self.twice = {}
        if written not in self._kept:  # else it replaces what it holds again
            runs = {(run.run, run.node) for run in imported.runs}
            if known := runs & self._runs:
                self.twice = self._cells.held_twice(imported.populations, known)
            self._cells.note(imported.populations)
            self._runs |= runs
            self._kept.add(written)
        return written

    def _place(self, path: Path, origin: Origin, runs: AbstractSet[tuple[str, str]]) -> Path:
        """Return the path for an import with the preferred name `path`, given the imports that exist."""
        twin, known = self._by_digest.get(origin.digest, (None, None))
        if known is not None and known.path != origin.path:
            raise DoubleImportError(
                f"{origin.path}: left out, a copy: content, run, nodes and date stand in {twin} already "
                f"(from {known.path}) and would count twice; another run has another --run ID or --date"
            )
        self.lost = ()
        for mine in self._by_path.get(origin.path, ()):
            try:
                before = {(run.run, run.node) for run in load_columns(mine).runs}
            except ColumnsError:  # a damaged import is replaced
                return mine
            if before & runs:
                self.lost = tuple(sorted({node for _, node in before - runs}))
                return mine
        if path in itertools.chain(*self._by_path.values()):
            return path.with_name(f"{path.name.removesuffix(SUFFIX)}-{origin.digest[:8]}{SUFFIX}")
        return path

    def _note(self, file: Path, origin: Origin) -> None:
        files = self._by_path.setdefault(origin.path, [])
        files += [file] if file not in files else []
        self._by_digest[origin.digest] = (file, origin)


def _origin(imported: Imported) -> Origin | None:
    """Return the identity of an imported file, with its runs, nodes and dates, since results may be equal."""
    path = imported.source
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256")
    except OSError:
        return None
    content = found.hexdigest()
    for run in sorted((run.run, run.node, run.started) for run in imported.runs):
        found.update("\0".join(("", *run)).encode("utf-8", "replace"))
    return Origin(digest=found.hexdigest(), path=str(path.resolve()), sha256=content)
