"""Tables and fio's outputs in different forms give the same values, or one line."""

from __future__ import annotations

import csv
import io
import json
import random
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.store.importers.fio import import_fio
from pytest_anubis.store.importers.import_result import Imported, ImportFileError
from pytest_anubis.store.importers.table import import_table
from tests.store.importers.tables import HEAD as USUAL
from tests.store.importers.tables import imported, unread

HEAD = ["node", "device", "benchmark", "metric", "unit", "better", "value"]
ROWS = [[f"n{n}", "0", "stream", "triad", "MB/s", "higher", f"{400 + n}.5"] for n in range(6)]


def written(rows: list[list[str]], mark: str, end: str = "\n") -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=mark, lineterminator=end).writerows(rows)
    return out.getvalue()


def values(found: Imported) -> dict[str, list[float]]:
    (population,) = found.populations
    return {node: population.sample(row).tolist() for row, node in enumerate(population.nodes)}


RIGHT = {row[0]: [float(row[-1])] for row in ROWS}


@pytest.mark.parametrize("mark", list(",;\t|"))
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_any_order_mark_and_encoding(tmp_path: Path, mark: str, encoding: str) -> None:
    draw, path = random.Random(mark + encoding), tmp_path / "t.csv"
    above = ["", "# a remark\n", f"sep={mark}\n", "Report, of March; all nodes\n\n", "\n\n"]
    for _ in range(10):
        order = draw.sample(range(len(HEAD)), len(HEAD))
        head = [draw.choice([name.upper(), name.title(), name]) for name in HEAD]
        rows = [[row[n] for n in order] for row in [head, *ROWS]]
        text = draw.choice(above) + written(rows, mark, draw.choice(["\n", "\r\n"]))
        begin = "\ufeff" if encoding in ("utf-16-le", "utf-16-be") else ""
        path.write_bytes((begin + text).encode(encoding))
        found = import_table(path)
        assert values(found) == RIGHT
        assert found.wrong_count == 0


def test_wrong_lines_keep_their_numbers_below_a_title(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = [*ROWS[:2], [*ROWS[2][:-1], "fast"], *ROWS[3:]]
    path.write_text("a title\n\n" + written([HEAD, *rows], ","))
    found = import_table(path)
    assert [line.line for line in found.wrong] == [6]
    assert any("line 3 is the head" in note for note in found.notes)


@pytest.mark.parametrize("word", ["N/A", "n/a", "NA", "-", "--", "null", "None", "", " "])
def test_words_for_nothing_are_missing(tmp_path: Path, word: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(written([HEAD, *ROWS[:-1], [*ROWS[-1][:-1], word]], ","))
    found = import_table(path)
    (population,) = found.populations
    assert (found.wrong_count, population.problems[5].kind) == (0, "missing")


@pytest.mark.parametrize(
    "number", ["412,507", "1,412,507.5", "412 507", "412'507", "412\u00a0507", "1.412.507", "412,5"]
)
@pytest.mark.parametrize("mark", list(",;\t|"))
def test_a_number_with_marks_in_it_is_no_value(tmp_path: Path, number: str, mark: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(written([HEAD, *ROWS[:-1], [*ROWS[-1][:-1], number]], mark))
    found = import_table(path)
    said = "is not a number" if number == "412,5" else "between thousands"
    if number in ("412,507", "412,5") and mark != ",":
        said = "decimal comma"
    assert said in {line.line: str(line) for line in found.wrong}[7]
    assert {node for p in found.populations for node in p.nodes} <= set(RIGHT) - {"n5"}


def test_point_among_decimal_commas_is_ambiguous(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = [["412,5"], ["1.412"], ["7"]]
    path.write_text(written([HEAD, *([*ROWS[n][:-1], *row] for n, row in enumerate(rows))], ";"))
    found = import_table(path)
    assert values(found) == {"n2": [7.0]}
    assert [line.line for line in found.wrong] == [2, 3]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"PK\x03\x04rest", "workbook"),
        (b"\xd0\xcf\x11\xe0rest", "Excel"),
        (b"\x1f\x8b\x08rest", "compressed"),
        (b"PAR1rest", "Parquet"),
        ("node,value".encode("utf-16-le"), "UTF-8"),
        (b"node benchmark metric unit better value\n", "no comma, semicolon, tab or bar"),
        (b"machine;benchmark;metric;unit;better;value\n", "rename 'machine' to 'node'"),
        (b"node,benchmark,metric,unit,better,result\n", "rename 'result' to 'value'"),
    ],
)
def test_file_that_is_no_table_is_named(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(data)
    with pytest.raises(ImportFileError, match=words) as refused:
        import_table(path)
    assert "\n" not in str(refused.value)


def job(
    rate: float = 100e6, *, name: str = "seq", disk: str = "nvme0n1", **more: Any
) -> dict[str, Any]:
    options = more.pop("options", {})
    read = {
        "bw_bytes": rate,
        "bw": rate // 1024,
        "iops": rate / 4096,
        "total_ios": int(rate // 4096),
    }
    read |= more.pop("read", {})
    options = {"filename": f"/dev/{disk}", **options}
    return {"jobname": name, "error": 0, "job options": options, "read": read, **more}


def fio(path: Path, *outputs: list[dict[str, Any]]) -> Imported:
    path.write_text(
        "\n".join(json.dumps({"fio version": "fio-3.36", "jobs": jobs}) for jobs in outputs)
    )
    return import_fio(path, node="n1")


def bandwidths(found: Imported) -> dict[tuple[str, str, str], Any]:
    return {
        (p.benchmark, p.group, device): p.problems[row].kind
        if row in p.problems
        else p.sample(row).tolist()
        for p in found.populations
        if p.metric.name.endswith("bandwidth")
        for row, device in enumerate(p.devices)
    }


def test_snapshots_of_a_running_job_are_no_results(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    found = fio(path, [job(3e8, eta=50)], [job(2e8, eta=10)], [job(1e8, eta=0)])
    assert bandwidths(found) == {("fio/seq", "", "nvme0n1"): [100.0]}
    assert (found.wrong_count, len(found.notes)) == (0, 1)
    same = [[job(3e8, job_start=7)], [job(1e8, job_start=7)], [job(2e8, job_start=9)]]
    assert bandwidths(fio(path, *same)) == {("fio/seq", "", "nvme0n1"): [100.0, 200.0]}
    found = fio(path, [job(1e8, eta=0)], [job(3e8, eta=50)])
    assert bandwidths(found) == {("fio/seq", "", "nvme0n1"): [100.0]}
    assert found.wrong_count == 1
    with pytest.raises(ImportFileError, match="still ran"):
        fio(path, [job(3e8, eta=50)], [job(2e8, eta=10)])
    hung = fio(path, [job(3e8, job_start=7, eta=50)], [job(1e8, job_start=9)])
    assert (bandwidths(hung), hung.wrong_count) == ({("fio/seq", "", "nvme0n1"): [100.0]}, 1)
    unknown = fio(path, [job(1e8, eta=2**31 - 1)])  # how long it took is unknown
    assert bandwidths(unknown) == {("fio/seq", "", "nvme0n1"): [100.0]}
    assert bandwidths(fio(path, [job(error=-17024)])) == {("fio/seq", "", "nvme0n1"): "failed"}
    one = job()
    assert bandwidths(fio(path, [one | {"read": None, "mixed": one["read"]}])) == {
        ("fio/seq", "", "nvme0n1"): [100.0]
    }


def test_jobs_with_other_options_are_no_repetition(tmp_path: Path) -> None:
    options = [
        {"bs": "4k"},
        {"bs": "1m"},
        {"bs": "4k", "rw": "randread"},
        {"bs": "4k", "iodepth": "8"},
        {"rwmixread": "70"},
        {"rate_iops": "1000"},
        {"direct": "1"},
        {"direct": "1", "buffered": "1"},
    ]
    found = fio(
        tmp_path / "f.json", [job((n + 1) * 1e8, options=one) for n, one in enumerate(options)]
    )
    assert bandwidths(found) == {
        ("fio/seq", "bs=4k", "nvme0n1"): [100.0],
        ("fio/seq", "bs=1m", "nvme0n1"): [200.0],
        ("fio/seq", "rw=randread, bs=4k", "nvme0n1"): [300.0],
        ("fio/seq", "bs=4k, iodepth=8", "nvme0n1"): [400.0],
        ("fio/seq", "rwmixread=70", "nvme0n1"): [500.0],
        ("fio/seq", "rate_iops=1000", "nvme0n1"): [600.0],
        ("fio/seq", "direct=1", "nvme0n1"): [700.0],
        ("fio/seq", "direct=0", "nvme0n1"): [800.0],
    }


def test_a_disk_that_moved_nothing_has_failed(tmp_path: Path) -> None:
    dead = job(0.0, disk="nvme1n1", error=5)
    cells = bandwidths(fio(tmp_path / "f.json", [job(), dead]))
    assert cells == {("fio/seq", "", "nvme0n1"): [100.0], ("fio/seq", "", "nvme1n1"): "failed"}
    (population,) = fio(tmp_path / "f.json", [dead]).populations
    assert (population.metric.name, population.problems[0].kind) == ("return_code", "failed")
    found = fio(tmp_path / "f.json", [job(), job(0.0, disk="nvme1n1")])
    assert (found.wrong_count, len(bandwidths(found))) == (1, 1)


def test_percentiles_are_found_by_their_value(tmp_path: Path) -> None:
    listed = {"99.9000": 9e6, "99.00": 3e6, "50.0": 1e6, "1.000000": 1e5}
    found = fio(tmp_path / "f.json", [job(read={"clat_ns": {"percentile": listed}})])
    cells = {p.metric.name: p.sample(0).tolist() for p in found.populations}
    assert (cells["read_latency_p50"], cells["read_latency_p99"]) == ([1000.0], [3000.0])


def test_an_output_of_fio_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    text = json.dumps({"fio version": "fio-3.36", "jobs": [job(), job(disk="nvme1n1")]}, indent=1)
    for end in range(0, len(text) - 1, 3):
        path.write_text(f"fio: a warning\n{text}\n{text[:end]}" if end > 1 else text[:end])
        with pytest.raises(ImportFileError) as refused:
            import_fio(path, node="n1")
        assert "\n" not in str(refused.value)


def disks(path: Path, *options: dict[str, str]) -> list[str]:
    """Return the devices of jobs of one name, one job for each of the options."""
    jobs = []
    for number, own in enumerate(options):
        one = job((number + 1) * 1e8)
        jobs.append(one | {"job options": own})
    return [device for _, _, device in bandwidths(fio(path, jobs))]


def test_disks_with_different_paths_differ(tmp_path: Path) -> None:
    path = tmp_path / "f.json"

    def of(option: str, *paths: str) -> list[str]:
        return disks(path, *({option: one} for one in paths))

    assert of("filename", "/dev/nvme0n1", "/dev/nvme1n1") == ["nvme0n1", "nvme1n1"]
    assert of("filename", "/mnt/d0/test") == ["test"]
    assert of("directory", "/mnt/d0/") == ["disk"]
    files = ["/mnt/d0/test", "/mnt/d1/test"]
    assert of("filename", *files) == files
    assert of("directory", "/mnt/d0", "/mnt/d1") == ["/mnt/d0", "/mnt/d1"]
    both = [{"directory": f"/mnt/d{number}", "filename": "test"} for number in range(2)]
    assert disks(path, *both) == files
    dealt = {"directory": "/mnt/d0:/mnt/d1", "numjobs": "4"}  # fio gives each job the next folder
    assert disks(path, *[dealt] * 4) == ["/mnt/d0", "/mnt/d1"]
    assert disks(path, *[dealt] * 3) == ["disk"]
    assert of("filename", "/dev/nvme0n1:/dev/nvme1n1") == ["nvme0n1+nvme1n1"]


def test_common_folder_and_several_disks(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    outputs = []
    for number in range(2):
        one = job(1e8) | {"job options": {"filename": "test"}}
        outputs.append({"jobs": [one], "global options": {"directory": f"/mnt/d{number}"}})
    path.write_text("\n".join(json.dumps(output) for output in outputs))
    assert [device for _, _, device in bandwidths(import_fio(path, node="n1"))] == [
        "/mnt/d0/test",
        "/mnt/d1/test",
    ]


@pytest.mark.parametrize("name", ["result", "outcome", "verdict"])
@pytest.mark.parametrize("number", ["-1", "3", "0", "1.5"])
def test_number_among_outcomes_is_a_wrong_line(tmp_path: Path, name: str, number: str) -> None:
    for far in (2, 2500):  # rows are read in chunks
        rows = [f"n{row % 3},b,m,s,lower,1,{number if row == 1 else 'PASS'}" for row in range(far)]
        for ordered in (rows, rows[::-1]):
            found = imported(tmp_path, *ordered, more=name)
            assert found.wrong_count == 1
            assert [node for node, count in unread(found).items() if count] == ["n1"]


def test_node_with_invalid_utf_8_still_counts(tmp_path: Path) -> None:
    rows = f"{USUAL}\nbäd,b,m,s,lower,1\nbäd,b,n,s,lower,1\nok,b,m,s,lower,1\nok2,b,m,s,lower,1\n"
    (tmp_path / "t.csv").write_bytes(rows.encode("latin-1"))
    found = import_table(tmp_path / "t.csv")
    assert unread(found) == {"b\ufffdd": 2, "ok": 0, "ok2": 0}


@pytest.mark.parametrize("above", [False, True])
def test_remark_about_a_failure_is_a_wrong_line(tmp_path: Path, above: bool) -> None:
    rows = [f"{node},b,m,s,lower,1" for node in ("bad", "ok")]
    said = "bad: b on cuda:3 FAILED: uncorrectable ECC error"
    path = tmp_path / "t.csv"
    path.write_text("\n".join([said, USUAL, *rows] if above else [USUAL, *rows, said]))
    found = import_table(path)
    assert (found.wrong_count, unread(found)) == (1, {"bad": 1, "ok": 0})
    assert imported(tmp_path, *rows, f"# {said}", "(2 rows)", "by hand").wrong_count == 0
