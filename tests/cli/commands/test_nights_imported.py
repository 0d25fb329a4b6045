"""Each night's file is a run of its own, whatever it is called and whatever it prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command_line import anubis
from tests.cli.commands.test_unread_values import DATED, HEAD, prepare, rows, written

__all__ = ["prepare"]

GOOD, BAD = rows("b00", 4), rows("b00", 4, "50", "rate7")


@pytest.mark.parametrize("nights", ["bgb", "gbgb"])
@pytest.mark.parametrize("names", ["night{}.csv", "results.2026-11-0{}.csv", "results.csv"])
def test_an_equal_night_is_another_run(here: Path, nights: str, names: str) -> None:
    for day, night in enumerate(nights, start=1):
        path = written(names.format(day), GOOD if night == "g" else BAD)
        run = [] if "{}" in names else ["--run", f"night{day}"]
        done = anubis("import", "table", path, "--date", f"2026-11-0{day}", *run)
        assert done.returncode == 0
        assert anubis("judge", ".anubis/imports").returncode == (night == "b")
    assert len(list(Path(".anubis/imports").iterdir())) == len(nights)


def test_a_redated_copy_clears_nothing(here: Path) -> None:
    for day, lines in enumerate((BAD, GOOD, BAD), start=1):
        Path(f"d{day}").mkdir()
        path = written(f"d{day}/t.csv", lines)
        assert anubis("import", "table", path, "--date", f"2026-11-0{day}").returncode == 0
    assert anubis("judge", ".anubis/imports").returncode in (1, 20)


def test_the_same_file_and_run_id_replaces_it(here: Path) -> None:
    for lines, code in ((BAD, 1), (GOOD, 0)):
        assert anubis("import", "table", written("t.csv", lines)).returncode == 0
        assert anubis("judge", ".anubis/imports").returncode == code
    assert len(list(Path(".anubis/imports").iterdir())) == 1


@pytest.mark.parametrize("age", ["1000000d", "99999999999d", "-70000000000"])
def test_an_age_before_the_first_year_is_refused(here: Path, age: str) -> None:
    path = written("t.csv", GOOD)
    for words in (
        ("import", "table", path, f"--date={age}"),
        ("judge", path, f"--since={age}"),
        ("report", path, f"--since={age}", "--html", "x.html"),
    ):
        done = anubis(*words)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert anubis("import", "table", path, "--date=700000d").returncode == 0
    assert anubis("judge", ".anubis/imports", "--since=730000d").returncode == 0


def test_a_defect_names_all_components_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # without the baseline of the other tests
    rows_of_nights = [row + ("," if "part1" not in row else ",cpu") for row in GOOD]
    good = [row.replace("b00", f"n{number}") for number in range(6) for row in rows_of_nights]
    assert anubis("learn", written("good.csv", good, f"{HEAD},component")).returncode in (0, 20)
    bad = [row.replace(",0,", ",9,") for row in rows_of_nights]
    bad = [
        row if row.split(",")[1] in ("part1", "part2") else old
        for row, old in zip(bad, rows_of_nights, strict=True)
    ]
    bad = [row + ("disk" if row.startswith("b00,part2") else "") for row in bad]
    path = written("bad.csv", bad, f"{HEAD},component")
    assert anubis("push", path, "--history", "h").returncode == 0
    done = anubis("history", "--history", "h", "defect", "list", "--json", "-")
    (defect,) = json.loads(done.stdout)["defects"]
    assert set(defect["components"]) == {"cpu", "disk"}
    for words in (("list",), ("close", "1", "--as", "false-alarm")):
        said = anubis("history", "--history", "h", "defect", *words).stdout
        assert "cpu" in said
        assert "disk" in said


@pytest.mark.parametrize("nights", [2, 27])
def test_a_loss_shows_in_a_growing_table(here: Path, nights: int) -> None:
    rows_of_nights = []
    for night in range(1, nights + 1):
        for seed, node in enumerate(("b00", "b01")):
            lost = "50" if (night, node) == (nights, "b00") else ""
            lines = rows(node, 10 * night + seed, lost, "rate7" if lost else "")
            rows_of_nights += [f"{row},2026-10-{night:02d}T01:00:00Z" for row in lines]
    done = anubis("judge", written("all.csv", rows_of_nights, DATED))
    assert done.returncode == 1
    assert "0 UNDECIDED, 1 ACCEPTED" in done.stdout
