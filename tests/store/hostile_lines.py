"""Reads files with one line of 100 kB that was made to take for ever; run as a process by a test.

Usage: python -m tests.store.hostile_lines FOLDER. Prints the name of each reader before it begins.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_anubis.codec import CodecError, parse_json
from pytest_anubis.core.inventory import Inventory, Processor
from pytest_anubis.hardware.inventory.hardware_classes import hardware_class
from pytest_anubis.report.text.summary_text import without_folders
from pytest_anubis.report.text.text_table import table
from pytest_anubis.store.history.csv_rows import read_rows
from pytest_anubis.store.history.database import HistoryError
from pytest_anubis.store.importers.dcgm import import_dcgm
from pytest_anubis.store.importers.fio import import_fio
from pytest_anubis.store.importers.import_result import ImportFileError
from pytest_anubis.store.importers.nccl import import_nccl
from pytest_anubis.store.importers.superbench import import_superbench
from pytest_anubis.store.importers.table import import_table
from pytest_anubis.store.waiver_files import WaiverError, read_waivers

SIZE = 100_000
HEAD = "node,device,benchmark,metric,unit,better,value\n"


def many(text: str) -> str:
    return text * (SIZE // len(text))


def nccl(path: Path) -> object:
    return import_nccl(path, node="n")


def fio(path: Path) -> object:
    return import_fio(path, node="n")


def dcgm(path: Path) -> object:
    return import_dcgm(path, node="n")


def waivers(path: Path) -> object:
    return read_waivers(path, "2026-01-01")


def rows(path: Path) -> object:
    return read_rows(path, ("node",), ("note",))


def node(key: str) -> str:
    return json.dumps({"node": "n", f"b/{key}": 1})


FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "nccl, marks": (nccl, many("#")),
    "nccl, words": (nccl, "# " + many("a_perf_")),
    "nccl, start": (nccl, "# Collective test starting:" + many(" ") + "x y"),
    "nccl, blanks": (nccl, "1" + many(" ")),
    "nccl, digits": (nccl, many("1")),
    **{
        f"superbench, {part}": (import_superbench, node(many(part)))
        for part in ("ib", "ib_write", "a/", "a:1", "1/", "_time")
    },
    "superbench, one node": (import_superbench, many('{"node": "n"}\n')),
    "superbench, failed": (
        import_superbench,
        json.dumps({"node": "n"} | {f"b/m{i}": 1 for i in range(20_000)})
        + "".join(f'\n{{"node": "n{i}", "b/return_code": 1}}' for i in range(400)),
    ),
    "csv, quotes": (import_table, HEAD + many('"')),
    "csv, commas": (import_table, HEAD + many(",")),
    "csv, bad names": (import_table, HEAD + "".join(f"\a{i},,b,m,s,lower,1\n" for i in range(15_000))),
    "csv, all different": (
        import_table, HEAD + "".join(f"n{i},d{i},b,m,s,lower,1\n" for i in range(10_000)),
    ),
    "csv, classes": (
        import_table,
        "class," + HEAD + "".join(f"c{i},n,d,b,m,s,lower,1\n" for i in range(5_000)),
    ),
    "history, quotes": (rows, "node,note\n" + many('"')),
    "history, commas": (rows, "node,note\n" + many(",")),
    "history, names": (rows, many("node,")),
    "fio, objects": (fio, many("{}")),
    "fio, warnings": (fio, many("warning ") + '{"jobs": []}'),
    "dcgm, results": (
        dcgm,
        '{"DCGM Diagnostic": {"test_categories": [{"tests": [{"name": "x", "results": ['
        + ",".join(f'{{"status": "Fail", "entity_id": {i}}}' for i in range(5_000))
        + "]}]}]}}",
    ),
    "dcgm, remarks": (
        dcgm,
        '{"DCGM Diagnostic": {"test_categories": [{"tests": [{"name": "x", "results": [{"status": "Pass", '
        '"info": "' + many("GPU 0 ") + '"}]}]}]}}',
    ),
    "waivers, one key": (waivers, many("a.")[:100_000] + "a = 1"),
    "waivers, dotted keys": (
        waivers, "\n".join("a." * 195 + f"b{i} = 1" for i in range(300)),
    ),
    "waivers, brackets": (waivers, "a = " + "[\n" * 60_000),
}  # fmt: skip

TEXTS: dict[str, tuple[Callable[[str], object], str]] = {
    "json, names twice": (
        parse_json, json.dumps({f"k{i}": 0 for i in range(25_000)})[:-1] + ', "k24999": 1}',
    ),
    "json, brackets": (parse_json, many("[")),
    "json, digits": (parse_json, many("1")),
    "json, lists": (parse_json, "[" + many("[],") + "0]"),
    "json, surrogates": (parse_json, '"' + many("\\ud800") + '"'),
    "a table's cell": (lambda text: table([["a"], [text]], width=80), many("1.")),
    "a test's folders": (without_folders, many("a/")),
    "a test's file": (without_folders, many("a.py")),
    "a processor's name": (
        lambda text: hardware_class(_inventory(text), "smoke"), many("1"),
    ),
}  # fmt: skip


def _inventory(model: str) -> Inventory:
    return Inventory(node="n", processor=Processor(model=model))


def main(folder: Path) -> None:
    """Read all of them; what they refuse they refuse."""
    path = folder / "hostile"
    for name, (read, text) in FILES.items():
        _say(name)
        path.write_text(text, encoding="utf-8")
        _quietly(read, path)
    for name, (take, text) in TEXTS.items():
        _say(name)
        _quietly(take, text)
    _say("all of them")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _quietly(read: Callable[[Any], object], given: Any) -> None:
    with contextlib.suppress(ImportFileError, CodecError, WaiverError, HistoryError):
        read(given)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
