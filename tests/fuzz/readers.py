"""Every reader of the project, with healthy files, and what must hold for a mutated one.

A reader's files are written by the project itself, from the golden recordings. What is held for every file:
no exception, nothing but printable lines on the terminal, one line where it is refused. For what carries
checksums (journals, baselines, archives) besides: damage makes no decision milder.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

from pytest_anubis.core.verdict import Decision
from pytest_anubis.store.journal.journal_reading import read_journal
from pytest_anubis.store.node_standing import keep_ended, standing_file
from tests.fuzz.healthy_files import FILES, HOST, Reader, Seed, seed_of
from tests.fuzz.journals import healthy_journals, read_mutated_journal
from tests.fuzz.outcome import anubis, compare
from tests.fuzz.sealed import read_mutated_seal, sealed_runs
from tests.fuzz.tool_readers import DATA, TOOL_READERS
from tests.fuzz.traces import read_mutated_trace, traces
from tests.golden.runs import BASELINES, RECORDINGS, RUNS, recorded_node

# Baselines, recorded nodes, certificates


def _baselines(scratch: Path) -> list[Seed]:
    return [seed_of(path) for path in sorted(BASELINES.glob("*.json"))]


BASELINE_RUNS = {"no-": ("accepted", "assertion", "waived"), "8x-": ("measured", "slow-card")}
FLEET = BASELINES / "fleet.json"
TABLE = RECORDINGS / "fleet-new.csv"


def _read_baseline(seed: Seed, path: Path, damaged: bool, rng: random.Random) -> None:
    anubis("baseline", "show", str(path))
    runs = [str(RUNS / run) for run in BASELINE_RUNS.get(seed.name[:3], ())]
    run = rng.choice(runs or [str(TABLE)])
    answer = anubis("judge", run, f"--baseline={path.parent}", "--json=-", document=True)
    if damaged:
        before = _judged_against(seed, run, path.parents[1])
        compare(f"judge {Path(run).name}", before, answer.decision, answer.text)
        if answer.code != 2 and answer.decision is not before:
            raise AssertionError(f"another decision: {before} -> {answer.decision}")
    others = [
        ("baseline", "diff", str(path), str(BASELINES / f"{HOST}.json")),
        ("baseline", "promote", str(path), f"--to={path.with_name('promoted')}"),
        ("report", run, f"--baseline={path.parent}"),
        ("baseline", "list", str(path.parent)),
    ]
    if runs or rng.random() < 0.5:
        anubis(*rng.choice(others[: 4 if runs else 2]))


@cache
def _judged_against(seed: Seed, run: str, folder: Path) -> Decision | None:
    place = folder / "healthy" / "baselines"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    (place / seed.name).write_bytes(seed.content)
    return anubis("judge", run, f"--baseline={place}", "--json=-", document=True).decision


def _inventories(scratch: Path) -> list[Seed]:
    nodes = {name: recorded_node(name, cards=name == "eight") for name in ("eight", "lab-a")}
    return [
        Seed(name=f"{name}.json", content=json.dumps(node).encode()) for name, node in nodes.items()
    ]


def _read_inventory(seed: Seed, path: Path, damaged: bool, rng: random.Random) -> None:
    more = rng.choice((("--redact",), ("--json",), (f"--baseline={BASELINES}",)))
    anubis("doctor", f"--inventory={path}", *more, document=more == ("--json",))


def _given(name: str, content: bytes) -> Callable[[Path], list[Seed]]:
    return lambda scratch: [Seed(name=name, content=content)]


CERTIFICATES = b"""{"format": "anubis-certificates", "schema": 2,
"hardware_class": "no-accelerator_lab-f6m143-16c_64-gib_torch2_smoke",
"origin": {"node": "lab-a", "created": "2026-05-01T08:00:00+00:00", "rounds": 3, "alpha": 0.95,
"runs": ["certify-01-alone", "certify-02-alone", "certify-01-together", "certify-02-together"]},
"pairs": [{"first": "pairs.py::test_first", "second": "pairs.py::test_second", "similarity": 1.0,
"metric": "second", "granted": true, "reason": "", "met": 3, "open": false}]}
"""


def _read_certificates(seed: Seed, path: Path, damaged: bool, rng: random.Random) -> None:
    place = path.parent / "certificates"
    place.mkdir()
    path.rename(place / path.name)
    node = path.parent / "node.json"
    node.write_text(json.dumps(recorded_node("lab-a", cards=False)), encoding="utf-8")
    anubis("doctor", f"--inventory={node}", f"--baseline={path.parent}")


WAIVERS = b"""[[waiver]]
owner = "j.doe"
reason = "riser is ordered, HW-4711"
expires = 2030-12-01
test = "toy.py::*"
device = "cpu"

[[waiver]]
owner = "ops"
reason = "known"
expires = "2020-01-01"
metric = "XID 48"
"""


def _read_waivers(seed: Seed, path: Path, damaged: bool, rng: random.Random) -> None:
    run = str(RUNS / rng.choice(("accepted", "measured")))
    anubis("judge", run, f"--baseline={BASELINES}", f"--waivers={path}", "--json=-", document=True)


def _standings(scratch: Path) -> list[Seed]:
    record = read_journal(RUNS / "accepted")
    assert keep_ended(scratch, record, ended=2e9, reason="ANB:ACCEPTED") == ""
    return [seed_of(standing_file(scratch, record.node))]


def _read_standing(seed: Seed, path: Path, damaged: bool, rng: random.Random) -> None:
    place = path.parent / "nodes"
    place.mkdir()
    path.rename(place / path.name)
    anubis("health", f"--store={path.parent}", f"--node={path.stem}")


# The history


def database(scratch: Path) -> Path:
    """Return a history of incidents and defects, made once."""
    path = scratch / "history.sqlite"
    if not path.exists():
        history = ("history", f"--store={scratch}")
        anubis(*history, "incident", "import", str(FILES / "incidents.csv"), "--add-nodes")
        for number in range(1, 7):
            benchmark = f"--benchmark=choices.py::test_{number % 3}"
            given = (
                f"--node=n{number:02d}",
                benchmark,
                "--new-benchmark",
                f"--on=2026-04-0{number}",
            )
            anubis(*history, "defect", "add", *given, "--component=storage.disk", "--kind=disk")
        anubis(*history, "defect", "close", "3", "--as=false-alarm")
        anubis(*history, "state", "--node=n20", "--as=removed", "--on=2026-05-27")
    return path


def _models(scratch: Path) -> list[Seed]:
    database(scratch)
    seeds = []
    for kind in ("exponential", "weibull", "cox", "auto"):
        path = scratch / f"{kind}.json"
        anubis("risk", f"--store={scratch}", f"--model={kind}", f"--save={path}")
        seeds.append(seed_of(path, name="risk-model.json"))
    return seeds


def _beside_history(path: Path) -> str:
    """Copy the healthy history into the file's folder and return the option for this store."""
    shutil.copy(path.parents[1] / "seeds" / "history.sqlite", path.parent)
    return f"--store={path.parent}"


def _read_model(seed: Seed, path: Path, damaged: bool, rng: random.Random) -> None:
    store = _beside_history(path)
    if rng.random() < 0.5:
        anubis("risk", store, "--json=-", document=True)
    else:
        anubis("select", store, "--node=n01", "--by=cost", "--json=-", document=True)


def _histories(scratch: Path) -> list[Seed]:
    return [seed_of(database(scratch))]


def _read_history(seed: Seed, path: Path, damaged: bool, rng: random.Random) -> None:
    store = f"--store={path.parent}"
    commands = (
        ("history", store),
        ("history", store, "--node=n01"),
        ("history", "incident", "list", store),
        ("history", "defect", "list", store),
        ("risk", store, "--model=exponential"),
        ("select", store, "--node=n01"),
        ("history", "incident", "add", "--node=n01", "--kind=nic", "--started=2026-05-01", store),
        ("history", "defect", "close", "2", "--as=confirmed", store),
        ("history", "state", "--node=n02", "--as=repair", store),
    )
    for command in rng.sample(commands, 3):
        anubis(*command)


def _incidents(scratch: Path) -> list[Seed]:
    database(scratch)
    text = (FILES / "incidents.csv").read_bytes()
    return [Seed(name="incidents.csv", content=b"".join(text.splitlines(keepends=True)[:12]))]


def _read_incidents(seed: Seed, path: Path, damaged: bool, rng: random.Random) -> None:
    store = _beside_history(path)
    anubis("history", "incident", "import", str(path), "--add-nodes", store)
    anubis("history", "incident", "list", store)


def _nodes(scratch: Path) -> list[Seed]:
    database(scratch)
    rows = (
        "node,class,since,state,on,note",
        "n01,c,2026-01-01,drained,2026-02-01,PSU",
        "n77,,,repair,,",
    )
    return [Seed(name="nodes.csv", content="".join(f"{row}\n" for row in rows).encode())]


def _read_nodes(seed: Seed, path: Path, damaged: bool, rng: random.Random) -> None:
    store = _beside_history(path)
    anubis("history", "nodes", "import", str(path), store)
    anubis("history", store)


# Imports


def _archives(scratch: Path) -> list[Seed]:
    store = f"--store={scratch}"
    disks = ("--node=n", "--class=disks")
    anubis("import", "table", str(TABLE), store)
    anubis("import", "superbench", str(FILES / "superbench.jsonl"), "--class=a100", store)
    anubis("import", "nccl", str(FILES / "nccl_allreduce.log"), "--node=n", "--class=a100", store)
    anubis("import", "fio", str(FILES / "fio.json"), *disks, store)
    return [seed_of(path) for path in sorted((scratch / "imports").glob("*.npz"))]


def _read_archive(seed: Seed, path: Path, damaged: bool, rng: random.Random) -> None:
    after = _judged_archive(path)
    if damaged:
        healthy = _healthy_archive(seed, path.parents[1])
        compare("judge", healthy, after[0], after[1])


@cache
def _healthy_archive(seed: Seed, folder: Path) -> Decision | None:
    path = folder / "healthy" / seed.name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(seed.content)
    return _judged_archive(path)[0]


def _judged_archive(path: Path) -> tuple[Decision | None, str]:
    answer = anubis("judge", str(path), f"--baseline={FLEET}", "--json=-", document=True)
    return answer.decision, answer.text


def _table_rows() -> list[str]:
    """Return the lines of a small table: a few of every kind that the recorded one has, also wrong ones."""
    lines = TABLE.read_text("utf-8").splitlines()
    return [lines[0], *lines[1:20], *lines[-8:]]


def _tables(scratch: Path) -> list[Seed]:
    rows = _table_rows()
    return [
        Seed(name="table.csv", content=("\n".join(rows) + "\n").encode()),
        Seed(name="table.tsv", content=("\n".join(rows).replace(",", "\t") + "\n").encode()),
    ]


def _parquets(scratch: Path) -> list[Seed]:
    import duckdb

    source, target = scratch / "table.csv", scratch / "table.parquet"
    source.write_text("\n".join(_table_rows()[:20]) + "\n", encoding="utf-8")
    relation = duckdb.sql(f"SELECT * FROM read_csv('{source}')")  # noqa: S608
    assert relation is not None
    relation.write_parquet(str(target))
    return [seed_of(target)]


def _read_table(seed: Seed, path: Path, damaged: bool, rng: random.Random) -> None:
    anubis("import", "table", str(path), f"--store={path.parent}")
    if rng.random() < 0.5:
        anubis("judge", str(path), f"--baseline={FLEET}")


def _importer(name: str, kind: str, form: str, file: Path) -> Reader:
    """Return a reader of one tool's output, with one healthy file."""

    def read(seed: Seed, path: Path, damaged: bool, rng: random.Random) -> None:
        answer = anubis("import", kind, str(path), f"--store={path.parent}")
        if answer.code == 0:  # what was written must be readable
            (written,) = path.parent.glob("imports/*.npz")
            anubis("judge", str(written), f"--baseline={FLEET}")

    return Reader(name=name, form=form, seeds=lambda _: [seed_of(file)], read=read)


READERS: dict[str, Reader] = {
    reader.name: reader
    for reader in (
        Reader(name="journal", form="journal", seeds=healthy_journals, read=read_mutated_journal),
        Reader(name="baseline", form="baseline", seeds=_baselines, read=_read_baseline),
        Reader(name="recorded-node", form="json", seeds=_inventories, read=_read_inventory),
        Reader(
            name="certificates", form="json", seeds=_given(f"{HOST}.json", CERTIFICATES),
            read=_read_certificates,
        ),
        Reader(name="waivers", form="text", seeds=_given("waivers.toml", WAIVERS), read=_read_waivers),
        Reader(name="standing", form="json", seeds=_standings, read=_read_standing),
        Reader(name="risk-model", form="json", seeds=_models, read=_read_model),
        Reader(name="history", form="sqlite", seeds=_histories, read=_read_history),
        Reader(name="incidents-csv", form="text", seeds=_incidents, read=_read_incidents),
        Reader(name="nodes-csv", form="text", seeds=_nodes, read=_read_nodes),
        Reader(name="seal", form="npz", seeds=sealed_runs, read=read_mutated_seal),
        Reader(name="npz", form="npz", seeds=_archives, read=_read_archive),
        Reader(name="table", form="text", seeds=_tables, read=_read_table),
        Reader(name="parquet", form="bytes", seeds=_parquets, read=_read_table),
        _importer("superbench", "superbench", "lines", FILES / "superbench.jsonl"),
        _importer("nccl-tests", "nccl", "text", FILES / "nccl_allreduce.log"),
        _importer("nvbandwidth-import", "nvbandwidth", "json", DATA / "nvbandwidth_pairs.json"),
        _importer("fio", "fio", "json", FILES / "fio.json"),
        _importer("dcgm", "dcgm", "json", DATA / "dcgm_diag_4.json"),
        Reader(name="trace", form="json", seeds=traces, read=read_mutated_trace),
        *TOOL_READERS,
    )
}  # fmt: skip
