"""Samples are written as Parquet that DuckDB scans, and read back unchanged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_anubis.cli.main import main
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import SampleProblem, population_of
from pytest_anubis.store.collected_runs import read_runs
from pytest_anubis.store.importers.table import import_table
from pytest_anubis.store.samples.parquet_files import COLUMNS, ParquetError, save_parquet
from pytest_anubis.store.samples.parquet_reading import read_samples
from tests.cli.commands.test_judge_command import fleet, write

duckdb = pytest.importorskip("duckdb")


def test_exported_samples_are_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "runs.csv", fleet(4, 2, metrics=("rate", "odd/name 'x'")))
    assert main(["push", "runs.csv", "--history", "fleet"]) == 0
    assert main(["export", "--history", "fleet", "--parquet", "out", "--exclude", "n03"]) == 0
    assert "written: 2 files with 72 values in out" in capsys.readouterr().out
    assert main(["export", "runs.csv", "--parquet", "out2", "--exclude", "n03"]) == 0
    query = (
        "SELECT node, metric, count(*), max(number) FROM 'out/*.parquet' GROUP BY ALL ORDER BY ALL"
    )
    rows = duckdb.connect(":memory:").execute(query).fetchall()
    assert rows == [
        (f"n0{n}", metric, 12, 5) for n in range(3) for metric in ("odd/name 'x'", "rate")
    ]
    wanted = read_runs([tmp_path / "runs.csv"])
    for path in sorted(Path("out").iterdir()):
        assert path.suffix == ".parquet"
        (found,) = read_runs([path]).populations
        source = next(one for one in wanted.populations if one.metric == found.metric)
        kept = source.only([i for i, node in enumerate(source.nodes) if node != "n03"])
        assert (found.nodes, found.devices, found.runs) == (kept.nodes, kept.devices, kept.runs)
        assert found.values.tolist() == kept.values.tolist()


def test_truncated_parquet_is_one_line_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "runs.csv", fleet(4, 2, metrics=("rate", "lag")))
    assert main(["export", "runs.csv", "--parquet", "out"]) == 0
    half, whole = sorted(Path("out").iterdir())
    half.write_bytes(half.read_bytes()[: half.stat().st_size // 2])
    words = f"{half}: damaged, or no Parquet file"
    for command, code in (
        (["learn", "out", "-o", "base"], 20),
        (["judge", "out"], 20),
        (["report", "--fleet", "out", "--html", "site"], 0),
        (["export", "out", "--parquet", "again"], 1),
    ):
        capsys.readouterr()
        assert main(command) == code
        found = capsys.readouterr().out
        assert found.count(words) == 1
        assert "export it anew, or remove it" in found
    assert "not exported: 1 source that could not be read" in found
    assert [path.name for path in Path("again").iterdir()] == [whole.name]
    assert main(["fleet", "status", "out"]) == 2
    line = capsys.readouterr().err
    assert line.count(words) == 1
    assert "hold no verdicts: name journals or a history" in line
    assert line.count("\n") == 1
    assert main(["push", "out", "--history", "fleet"]) == 0
    assert "no journal and no import is in these" in capsys.readouterr().out


def test_a_folder_that_cannot_be_written_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "runs.csv", fleet(1, 1))
    Path("file").write_text("")
    for words in (["runs.csv", "--parquet", "file"], ["--parquet", "out"]):
        assert main(["export", *words]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_parquet_of_an_older_version_is_refused(tmp_path: Path) -> None:
    columns = [name for name in COLUMNS if name != "version"]
    kinds = ["'x'"] * (len(columns) - 2) + ["0::BIGINT", "1.0::DOUBLE"]
    cells = ", ".join(f'{kind} AS "{name}"' for kind, name in zip(kinds, columns, strict=True))
    with duckdb.connect(":memory:") as connection:
        connection.sql(f"SELECT {cells}").write_parquet(str(tmp_path / "old.parquet"))
    with pytest.raises(ParquetError, match="older version"):
        read_samples(tmp_path / "old.parquet")


def test_parquet_keeps_problems_and_refuses_other_orders(tmp_path: Path) -> None:
    population = population_of(
        [[3.0, 1.0, 2.0], [5.0], [6.0, 7.0]],
        metric=Metric(name="m", unit="s", better="lower"),
        benchmark="b",
        hardware_class="c",
        runs=["r"] * 3,
        problems={2: SampleProblem(kind="disturbed", text="steal 20 %")},
    )
    metric = Metric(name="m", unit="s", better="lower", version=3)
    [later] = save_parquet([replace(population, metric=metric)], tmp_path / "later")
    again = read_samples(later)
    assert again is not None
    assert again.metric == metric
    [path] = save_parquet([population], tmp_path)
    found = read_samples(path)
    assert found is not None
    assert found.metric.version == 1
    assert found.values.tolist() == population.values.tolist()
    assert found.offsets.tolist() == population.offsets.tolist()
    assert (found.nodes, found.problems) == (population.nodes, population.problems)
    (read,) = read_runs([path]).populations
    assert read.problems == population.problems
    other = tmp_path / "other.parquet"
    for order in ("number DESC", "number"):  # backwards; the units' values between one another
        query = f"SELECT * FROM read_parquet(?) ORDER BY {order}"  # noqa: S608
        with duckdb.connect(":memory:") as connection:
            connection.sql(query, params=[str(path)]).write_parquet(str(other))
        assert read_samples(other) is None
    (read,) = import_table(other).populations
    assert sorted(read.values.tolist()) == [1, 2, 3, 5]  # a table has no place for problems
