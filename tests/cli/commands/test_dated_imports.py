"""Tools write each day's results under one name: what one day found stays until a later day measures it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.command_line import anubis
from tests.cli.commands.test_unread_values import DATED, prepare, rows, written

__all__ = ["prepare"]


def day(number: int, seed: int, *, bad: bool = False, parts: tuple[int, ...] = (0, 1, 2, 3)) -> str:
    """Write results.csv anew with a node's rows of one day; if bad, one of its rates is halved."""
    lines = rows("b00", seed, "50" if bad else "", "rate7" if bad else "")
    kept = [line for line in lines if any(f",part{part}," in line for part in parts)]
    Path(f"d{number}").mkdir(exist_ok=True)
    return written("results.csv", [f"{line},2026-11-{number:02d}" for line in kept], DATED)


def judged() -> int:
    return anubis("judge", ".anubis/imports").returncode


def test_another_days_file_of_one_name_replaces_nothing(here: Path) -> None:
    assert anubis("import", "table", day(20, 1, bad=True)).returncode == 0
    assert judged() == 1
    done = anubis("import", "table", day(21, 2, parts=(0, 1)))
    assert done.returncode == 0
    assert "results.2026-11-21" in done.stdout
    assert judged() == 1  # the part that failed was not measured again
    assert anubis("import", "table", "results.csv").returncode == 0  # the same once more
    assert judged() == 1
    assert anubis("import", "table", day(22, 3)).returncode == 0
    assert judged() == 0
    assert len(list(Path(".anubis/imports").glob("*.npz"))) == 3


def test_a_file_corrected_on_its_day_replaces_its_import(here: Path) -> None:
    assert anubis("import", "table", day(20, 1, bad=True)).returncode == 0
    assert anubis("import", "table", day(20, 1)).returncode == 0
    assert judged() == 0
    assert len(list(Path(".anubis/imports").glob("*.npz"))) == 1


def test_files_of_one_name_in_dated_folders_are_runs_of_their_own(here: Path) -> None:
    paths = []
    for number, bad in ((20, True), (21, False)):
        name = day(number, number, bad=bad, parts=(0, 1, 2, 3) if bad else (0, 1))
        paths.append(str(Path(name).rename(Path(f"d{number}") / name)))
    assert anubis("judge", *paths).returncode == 1
    for path in paths:
        assert anubis("push", path, "--history", "h").returncode == 0
    status = json.loads(anubis("fleet", "status", "--history", "h", "--json", "-").stdout)
    assert [one["decision"] for one in status["nodes"]] == ["REJECTED"]
    assert anubis("push", *paths, "--history", "h").stdout.count("2 known already") == 1
    assert anubis("push", *paths, "--history", "both").returncode == 0
    done = anubis("fleet", "status", "--history", "both", "--json", "-")
    assert [one["decision"] for one in json.loads(done.stdout)["nodes"]] == ["REJECTED"]


def test_an_unreadable_file_replaces_no_import_and_its_next_import_replaces_it(here: Path) -> None:
    Path("b00").mkdir()
    table = Path("b00/results.csv")
    pattern = ("import", "table", "--node-pattern", "{node}/results.csv")
    Path(day(20, 1, bad=True)).rename(table)
    assert anubis(*pattern).returncode == 0
    assert judged() == 1
    good = table.read_text()
    table.write_text("mpirun: command not found\n")
    assert anubis(*pattern).returncode != 0
    assert judged() == 1
    table.write_text(good.replace(",50,2026", ",100.1,2026"))
    assert anubis(*pattern).returncode == 0
    assert judged() == 0


def test_a_right_count_without_criterion_answers_a_wrong_one(here: Path) -> None:
    for number, count in ((20, 3), (21, 0)):
        table = Path(day(number, number))
        line = f"b00,memtest,wrong,errors,equal,{count},2026-11-{number}\n"
        table.write_text(table.read_text() + line)
        assert anubis("import", "table", str(table)).returncode == 0
        assert judged() == (1 if count else 0)


def test_a_closed_defect_of_an_import_leaves_its_node_undecided(here: Path) -> None:
    assert anubis("import", "table", day(20, 1, bad=True)).returncode == 0
    assert anubis("push").returncode == 0
    assert anubis("history", "defect", "close", "1", "--as", "false-alarm").returncode == 0
    assert judged() == 20
    assert anubis("judge", "--history", ".anubis").returncode == 20
