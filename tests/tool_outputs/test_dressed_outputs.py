"""Text that launchers, shells and versions add to an output changes no value, or is refused."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.store.importers.import_result import ImportFileError
from pytest_anubis.store.importers.nccl import import_nccl
from pytest_anubis.tool_outputs.dcgm_diag import read_dcgm_diag
from pytest_anubis.tool_outputs.failure_lines import FAILURES, failure_said
from pytest_anubis.tool_outputs.gpu_burn import read_gpu_burn
from pytest_anubis.tool_outputs.hpl import read_hpl
from pytest_anubis.tool_outputs.nccl_tests import NcclLog, read_nccl_tests
from pytest_anubis.tool_outputs.nvbandwidth import read_nvbandwidth
from pytest_anubis.tool_outputs.perftest import read_perftest
from pytest_anubis.tool_outputs.plain_lines import lines_around
from pytest_anubis.tool_outputs.stream_benchmark import read_stream
from pytest_anubis.tool_outputs.stress_ng import read_stress_ng
from pytest_anubis.tool_outputs.unreadable import UnreadableOutput

DATA = Path(__file__).parent / "data"
Reader = Callable[[str], Any]
OUTPUTS: list[tuple[Reader, str]] = [
    (read_nccl_tests, "all_reduce_perf.txt"),
    (read_nvbandwidth, "nvbandwidth.txt"),
    (read_nvbandwidth, "nvbandwidth_pairs.txt"),
    (read_nvbandwidth, "nvbandwidth.json"),
    (read_perftest, "ib_write_bw.txt"),
    (read_perftest, "ib_write_lat.txt"),
    (read_dcgm_diag, "dcgm_diag_3.json"),
    (read_dcgm_diag, "dcgm_diag_4.json"),
    (read_stress_ng, "stress_ng.yaml"),
    (read_gpu_burn, "gpu_burn.txt"),
    (read_hpl, "hpl.txt"),
    (read_stream, "stream.txt"),
]
LABELS = [
    "[1,0]<stdout>:",
    "[prterun-node-a-77@1,0]<stdout>: ",
    "Thu Mar  5 05:06:{:02d} 2026<stdout>:",
    "Thu Mar  5 05:06:{:02d} 2026[1,0]<stdout>:",
    *("0: ", "07: ", "[0] ", "node-a: ", "node-a.example.org: ", "bench-1  | ", "worker-0 main "),
    "[pod/bench-x7/main] ",
    "2026-03-04T05:06:{:02d}.123456789Z ",
    "[2026-03-04 05:06:{:02d}] ",
    "05:06:{:02d} ",
    "Mar  4 05:06:{:02d} node-a bench[4711]: ",
    "2026-03-04T05:06:{:02d}Z [1,0]<stdout>:",
]


def golden(name: str) -> str:
    return (DATA / name).read_bytes().decode()


def dressed(text: str, label: str) -> str:
    lines = text.rstrip("\n").split("\n")
    return "\n".join(label.format(n % 60) + line for n, line in enumerate(lines)) + "\n"


def same(one: Any, other: Any) -> bool:
    for run in (one, other):
        if hasattr(run, "place"):
            run.place = 0  # the line on which it begins is another one
    return bool(one == other)


@pytest.mark.parametrize(("reader", "name"), OUTPUTS)
@pytest.mark.parametrize("label", LABELS)
def test_labels_and_stamps_are_taken_off(reader: Reader, name: str, label: str) -> None:
    assert reader(dressed(golden(name), label)) == reader(golden(name))


@pytest.mark.parametrize(("reader", "name"), OUTPUTS)
def test_foreign_lines_and_colours_change_nothing(reader: Reader, name: str) -> None:
    text, whole = golden(name), reader(golden(name))
    before = "+ srun ./bench {size}\nWARNING: an error came up\n[node-a] component.c:17 error 5\n\n"
    after = "\ncommand terminated with exit code 226\nsrun: job 17 done\n"
    coloured = "\n".join(f"\x1b[0;32m{line}\x1b[0m" for line in text.split("\n"))
    for changed in (before + text, text + after, coloured, text.replace("\n", "\r\n")):
        assert same(reader(changed), whole)


@pytest.mark.parametrize(("reader", "name"), OUTPUTS)
@pytest.mark.parametrize(
    ("one", "other"), [("0: ", "1: "), ("[1,0]<stdout>:", "[1,1]<stdout>:"), ("n1: ", "n2: ")]
)
def test_outputs_of_several_processes_are_never_mixed(
    reader: Reader, name: str, one: str, other: str
) -> None:
    text = golden(name)
    pairs = zip(dressed(text, one).split("\n"), dressed(text, other).split("\n"), strict=True)
    woven = "\n".join(line for pair in pairs for line in pair)
    for mixed in (dressed(text, one) + dressed(text, other), woven):
        with pytest.raises(UnreadableOutput) as refused:
            reader(mixed)
        assert "\n" not in str(refused.value)


def permuted(columns: list[str], draw: random.Random) -> list[int]:
    """Draw an order of columns in which those of one name keep theirs."""
    order = draw.sample(range(len(columns)), len(columns))
    places = {name: iter([n for n, one in enumerate(columns) if one == name]) for name in columns}
    return [next(places[columns[n]]) for n in order]


TABLES: list[tuple[Reader, str, str, str]] = [
    (read_nccl_tests, "all_reduce_perf.txt", r"#  +size.*", r" +\d+ +\d+ +float.*"),
    (read_perftest, "ib_write_bw.txt", r" #bytes.*", r" \d+ .*"),
    (read_perftest, "ib_write_lat.txt", r" #bytes.*", r" \d+ .*"),
    (read_hpl, "hpl.txt", r"T/V +N .*", r"WR0.*"),
    (read_stream, "stream.txt", r"Function .*", r"(Copy|Scale|Add|Triad):.*"),
]


@pytest.mark.parametrize(("reader", "name", "head", "row"), TABLES)
def test_columns_are_found_by_their_names(reader: Reader, name: str, head: str, row: str) -> None:
    draw, text, whole = random.Random(9), golden(name), reader(golden(name))
    (line,) = [line for line in text.split("\n") if re.fullmatch(head, line)]
    columns = re.split(r"\s{2,}|(?<=\w) (?=t_)|(?<=s) (?=#)", line.strip("# ").strip())
    if name.startswith("all_reduce"):
        columns = line[1:].split()
    if name.startswith("ib_"):
        columns = ["#bytes", "#iterations", *re.findall(r"(?:BW |9[\d.]*% )?[\w]+\[[^]]+\]", line)]
    for _ in range(20):
        order = permuted(columns, draw)
        lines = []
        for one in text.split("\n"):
            cells = columns if one == line else one.split()
            if one == line or re.fullmatch(row, one):
                begin = "#  " if one == line and name.startswith("all_reduce") else " "
                one = (begin if name[0] in "ai" else "") + "  ".join(cells[n] for n in order)
            lines.append(one)
        assert reader("\n".join(lines)) == whole


def test_lost_and_added_cells_of_a_row_are_refused() -> None:
    text, draw = golden("all_reduce_perf.txt"), random.Random(3)
    row = next(line for line in text.split("\n") if " 33554432 " in line)
    cells = row.split()
    for _ in range(60):
        changed = list(cells)
        for _ in range(draw.randint(1, 3)):
            del changed[draw.randrange(len(changed))]
        if changed in (cells[:3] + cells[4:], cells[:3] + cells[5:]):
            continue  # old programs leave reduction and root empty
        log = NcclLog(text.replace(row, " ".join(changed)))
        assert len(log.wrong) == 1
        assert len(log.runs[0].rows) == 3
        changed = [*cells[: (n := draw.randrange(len(cells)))], "7", *cells[n:]]
        assert len(NcclLog(text.replace(row, " ".join(changed))).wrong) == 1


def nccl(
    name: str, sizes: Any = (1 << 20, 1 << 21), *, ranks: int = 8, of: str = "float sum -1"
) -> str:
    rows = [
        f"{size} {size // 4} {of} 100 {size / 1e5:.2f} {size / 6e4:.2f} 0 100 {size / 1e5:.2f} "
        f"{size / 6e4:.2f} 0"
        for size in sizes
    ]
    return "\n".join((
        f"# Collective test starting: {name}_perf",
        "# nThread 1 nGpus 8 minBytes 1 maxBytes 2 agg iters: 1 validation: 1 graph: 0",
        *(f"#  Rank {n} Group  0 Pid 4711 on node-a device {n} [0000:1b:00] Card" for n in range(ranks)),
        "#  size count type redop root time algbw busbw #wrong time algbw busbw #wrong",
        "#  (B) (elements) (us) (GB/s) (GB/s) (us) (GB/s) (GB/s)",
        *rows,
        "# Out of bounds values : 0 OK",
        "# Avg bus bandwidth : 1.0",
        "#\n",
    ))  # fmt: skip


def imported(path: Path, text: str, **more: Any) -> tuple[set[Any], Any]:
    """Benchmark, metric, group and how many values of each sample of a log, and the import."""
    path.write_text(text)
    found = import_nccl(path, node="node-a", **more)
    cells = set()
    for p in found.populations:
        kind = p.problems[0].kind if p.problems else len(p.values)
        if not p.metric.name.endswith("in_place"):
            cells.add((p.benchmark.removeprefix("nccl-tests/"), p.metric.name, p.group, kind))
    return cells, found


def test_different_values_are_no_repetition(tmp_path: Path) -> None:
    path, size = tmp_path / "x.log", (1 << 20,)
    runs = [
        nccl("all_reduce", size),
        nccl("all_reduce", size, of="half sum -1"),
        nccl("all_reduce", size, of="float prod -1"),
        nccl("all_reduce", size, ranks=4),
        nccl("all_reduce", size).replace("graph: 0", "graph: 4"),
        nccl("broadcast", size, of="float none 3"),
        nccl("all_reduce", size),
    ]
    cells, found = imported(path, "".join(runs))
    assert cells == {
        ("all_reduce", "busbw_1048576", "8 ranks", 2),
        ("all_reduce", "busbw_1048576_half", "8 ranks", 1),
        ("all_reduce", "busbw_1048576_prod", "8 ranks", 1),
        ("all_reduce", "busbw_1048576", "4 ranks", 1),
        ("all_reduce", "busbw_1048576", "8 ranks, graph 4", 1),
        ("broadcast", "busbw_1048576_root3", "8 ranks", 1),
    }
    assert not found.wrong


def test_a_log_that_was_cut_says_so_wherever_it_was(tmp_path: Path) -> None:
    path, text = tmp_path / "x.log", nccl("all_reduce") + nccl("alltoall")
    whole, _ = imported(path, text)
    for end in range(0, len(text) - 40, 11):
        try:
            cells, found = imported(path, text[:end])
        except ImportFileError:
            continue
        assert {cell[:3] for cell in cells} <= {cell[:3] for cell in whole}
        assert found.wrong or {cell[0] for cell in cells} == {"all_reduce"}
        missing = "Collective test starting: alltoall" in text[:end]
        assert bool(found.wrong) or not missing


@pytest.mark.parametrize(
    "failure",
    [
        "node-a: Test NCCL failure common.cu:1 'unhandled cuda error'",
        "node-a: Test CUDA failure common.cu:502 'an illegal memory access was encountered'",
        " .. node-a pid 93200: Test failure common.cu:632",
    ],
)
def test_a_run_that_failed_is_a_failed_unit(tmp_path: Path, failure: str) -> None:
    path, whole = tmp_path / "x.log", nccl("all_reduce")
    at_once = nccl("alltoall", ()).split("# Out of")[0] + failure + "\n"
    cells, _ = imported(path, whole + at_once)
    assert ("alltoall", "return_code", "", "failed") in cells
    assert ("all_reduce", "busbw_1048576", "8 ranks", 1) in cells
    cells, _ = imported(path, whole.split("# Out of")[0] + failure + "\n")
    assert {cell[3] for cell in cells} == {"failed"}
    cells, _ = imported(path, failure + "\n")
    assert {cell[3] for cell in cells} == {"failed"}


def test_one_rank_alone_has_no_bus(tmp_path: Path) -> None:
    alone = re.sub(r"(\d+ \d+ float sum -1 100 \S+) \S+", r"\1 0.00", nccl("all_reduce", ranks=1))
    for text in (alone, re.sub("#  Rank.*\n", "", alone), alone * 8):
        with pytest.raises(ImportFileError, match="one rank alone"):
            imported(tmp_path / "x.log", text)


def test_unknown_collectives_are_not_compared(tmp_path: Path) -> None:
    unnamed = re.sub("# Collective.*\n", "", nccl("all_reduce"))
    path = tmp_path / "x.log"
    _, found = imported(path, unnamed)
    assert any("--collective" in note for note in found.notes)
    with pytest.raises(ImportFileError, match="--collective"):
        imported(path, unnamed * 2)
    cells, _ = imported(path, unnamed * 2, collective="all_gather")
    assert {cell[0] for cell in cells} == {"all_gather"}
    named = [
        f"+ mpirun -np 8 /opt/{name}_perf -b 1M -e 2M\n{unnamed}" for name in ("gather", "scatter")
    ]
    assert {cell[0] for cell in imported(path, "".join(named))[0]} == {"gather", "scatter"}


def test_a_crash_of_another_program_fails_no_run(tmp_path: Path) -> None:
    path, text = tmp_path / "x.log", nccl("all_reduce")
    crash = "run.sh: line 7: Segmentation fault\n"
    for around in (crash + text, text + crash):
        assert {cell[3] for cell in imported(path, around)[0]} == {1}
    head, _ = text.split("# Out of")
    assert {cell[3] for cell in imported(path, head + crash)[0]} == {"failed"}


OLD = """\
# nThread 1 nGpus 8 minBytes 8388608 maxBytes 8388608 warmup iters: 5 iters: 20 validation: 1
#   Rank  0 Pid  1001 on     node-a device  0 [0x07] Card
#   Rank  1 Pid  1001 on     node-a device  1 [0x0f] Card
#       size         count    type   redop    root   time   algbw   busbw  error   time   algbw   busbw  error
#        (B)    (elements)                             (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     8388608        262144   float           100.0   83.89   73.40  0e+00    101.0   83.06   72.67  1e-07
# Out of bounds values : 0 OK
"""
NEW = """\
# nccl-tests version 2.19.9 nccl-headers=23102 nccl-library=23102
# Collective test starting: all_gather_perf
# nThread 1 nGpus 8 minBytes 8388608 maxBytes 8388608 step: 2(factor) agg iters: 1 validation: 1 graph: 0 unalign: 0
#  Rank  0 Group  0 Pid 1 on node-a device  0 [0000:c1:00] Card
#  Rank  1 Group  0 Pid 1 on node-a device  1 [0000:c2:00] Card
#   size count type redop root time algbw busbw #wrong #bitdiff i_min i_max i_p99 i_cv% time algbw busbw #wrong #bitdiff i_min i_max i_p99 i_cv%  timestamp
#   (B) (elements) (us) (GB/s) (GB/s) (us) (us) (us) (%) (us) (GB/s) (GB/s) (us) (us) (us) (%) %Y-%m-%d %H:%M:%S
  8388608 262144 float none -1 100.0 83.89 73.40 0 0 47 55 55 3.20 101.0 83.06 72.67 0 0 46 53 53 2.90 2026-03-04 05:06:07
# Out of bounds values : 0 OK
# Bitwise mismatches   : 0 OK
# Avg bus bandwidth    : 73.0
"""  # noqa: E501


@pytest.mark.parametrize("text", [OLD, NEW])
def test_old_and_new_nccl_tests_agree(tmp_path: Path, text: str) -> None:
    path = tmp_path / "all_gather.log"
    cells, found = imported(path, text)
    assert cells == {("all_gather", "busbw_8388608", "2 ranks", 1)}
    assert (found.values, found.wrong_count) == (2, 0)
    cells, _ = imported(path, text.replace(": 0 OK", ": 3 FAILED"))
    assert {cell[3] for cell in cells} == {"failed"}


SAID = (
    "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
    "=   EXIT CODE: 9",
    "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)",
    "\tExit status: 139",
    "Command exited with non-zero status 3",
    "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB",
    "watchdog: BUG: soft lockup - CPU#3 stuck for 22s!",
    "srun: error: n1: task 3: Segmentation fault (core dumped)",
    "srun: error: n1: tasks 0-7: Exited with exit code 3",
    "mpirun noticed that process rank 3 with PID 1 on node n1 exited on signal 9 (Killed).",
    "slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2026-11-01T00:00:00 DUE TO TIME LIMIT ***",
    "n1:1:2 [0] NCCL WARN Cuda failure 'an illegal memory access was encountered'",
    "[ 123.4] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
    "GPU 00000000:3B:00.0 requires reset",
    "nvidia-smi: No devices were found",
    "reason: OOMKilled",
    "[ 99.1] Out of memory: Killed process 4242 (all_reduce_perf)",
    "[E ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(",
    "mlx5_0: CQE error syndrome 0x81",
    "ibv_modify_qp failed with error Connection timed out",
    "work completion: status=IBV_WC_RETRY_EXC_ERR",
    "n2:77:90 [0] NCCL INFO NET/IB : Got completion with error 12, opcode 0",
    "rc=1",
    "blk_update_request: critical medium error, dev nvme0n1, sector 1",
    "Buffer I/O error on dev nvme0n1, logical block 1",
    "EXT4-fs error (device nvme0n1): htree_dirblock_to_tree",
    "nvme nvme0: controller is down; will reset: CSTS=0xffffffff",
    "mce: CPU0: Machine Check Exception: 5 Bank 1",
    "PCIe Bus Error: severity=Uncorrected (Fatal)",
    "EDAC MC0: 1 UE memory read error",
    "NVRM: RmInitAdapter failed! (0x26:0xffff:1227)",
    "bash: line 1: 7 Bus error (core dumped) ./all_reduce_perf",
    "Killed",
    "command terminated with exit code 137",
    "CUDA error: uncorrectable ECC error encountered",
    "fio: io_u error on file /dev/nvme0n1: Input/output error: read offset=0",
    "mce: [Hardware Error]: Machine check events logged",
    "./run.sh: line 3: 12345 Killed                  ./all_reduce_perf -b 8 -e 1G -g 8",
    "./run.sh: line 3:   345 Aborted                 (core dumped) ./all_reduce_perf",
    "./run.sh: line 3: 12345 Illegal instruction     ./all_reduce_perf",
    "./run.sh: line 3: 12345 Floating point exception./all_reduce_perf",
    "./run.sh: line 3: 12345 Trace/breakpoint trap   ./all_reduce_perf",
    "zsh: segmentation fault  ./all_reduce_perf",
    "Illegal instruction (core dumped)",
    "timeout: the monitored command dumped core",
    "[n1:12345] Signal: Aborted (6)",
    "[n1:12345] *** Process received signal ***",
    "free(): invalid pointer",
    "malloc(): unaligned tcache chunk detected",
    "double free or corruption (!prev)",
    "corrupted size vs. prev_size",
    "*** stack smashing detected ***: terminated",
    "perf: x.c:12: main: Assertion `a == b' failed.",
    "terminate called after throwing an instance of 'std::bad_alloc'",
    "CUDA error: an illegal memory access was encountered",
    "cudaErrorECCUncorrectable",
    "n1:77:90 [3] NCCL WARN NET/IB : Got completion from peer 10.0.0.9<45123> with status=12 opcode=0 "
    "len=0 vendor err 129 (Recv)",
    "n1:77:90 [3] NCCL WARN NET/IB : mlx5_0:1 Got async fatal event: local catastrophic error",
    "blk_update_request: I/O error, dev nvme2n1, sector 0",
    "nvme nvme2: I/O 1 QID 2 timeout, aborting",
    "Error: Diagnostic could not be run because the recommended driver is not being used.",
    "[ERROR] Detected mismatch",
    "srun: Job step aborted: 10 CANCELLED DUE TO TIME LIMIT",
    "make: *** [Makefile:3: run] Error 1",
    "timeout: sending signal KILL to command './all_reduce_perf'",
    "fio: terminating on signal 2",
    "prterun detected that one or more processes exited abnormally",
    "n1: task 3: exited with exit code 3",
    'COMMAND_EXIT_CODE="137"',
    "Command terminated by signal 9",
    "Terminated",
    "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
    "slurmstepd-n3: error: *** STEP 12.0 ON n3 CANCELLED AT 2026-11-30T00:00:00 ***",
    "ssh: connect to host n3 port 22: Connection refused",
    "MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD",
    "[1764500000.1] [n3:123:0] ib_mlx5_log.c:170  UCX  ERROR Transport retry count exceeded",
    "Failed to initialize NVML: Driver/library version mismatch",
    "amdgpu 0000:c3:00.0: amdgpu: GPU reset begin!",
    "mlx5: n3: got completion with error:",
    "INFO: task nccl:123 blocked for more than 120 seconds.",
    "fio: write: No space left on device",
    "ncclInternalError: Internal check failed.",
    "n3: Test NCCL failure common.cu:958 'internal error'",
    "FATAL: could not start",
    "Verification FAILED",
    "GPU 3: FAULTY",
)


@pytest.mark.parametrize("line", SAID)
def test_failures_reported_by_other_programs_count(line: str) -> None:
    assert failure_said(line)


def test_every_row_of_the_catalogue_has_its_line() -> None:
    assert not [pattern for pattern, _ in FAILURES if not any(re.search(pattern, x) for x in SAID)]


@pytest.mark.parametrize(
    "line",
    [
        "n1:1:2 [0] NCCL WARN NET/IB : No device found.",
        "# Out of bounds values : 0 OK",
        "slurmstepd: error: couldn't chdir to `/home/u': No such file or directory: going to /tmp instead",
        "0 uncorrectable ECC errors",
        "error_count 0",
        "Error: 0",
        "ERROR: ld.so: object 'libtrace.so' from LD_PRELOAD cannot be preloaded: ignored.",
        "./run.sh: line 9: 12345 Terminated              nvidia-smi dmon > cards.log",
        "CUDA error: 0",
        "NCCL version 2.22.3+cuda12.5",
        "fio-3.36",
    ],
)
def test_harmless_lines_are_no_failures(line: str) -> None:
    assert not failure_said(line)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("n1 failed: no response", True),
        ("host 'n1.rack7' is not responding.", True),
        ("n1 did not finish", True),
        ("N1 FAILED", True),
        ("n2 failed", False),
        ("[n1] component.c:17 error obtaining attributes of a fabric device", False),
        ("n1: 0 errors", False),
        ("n1:1:2 [0] NCCL INFO NET/Plugin: Failed to find ncclNetPlugin symbol", False),
        ("#  Rank  0 Group  0 Pid  123 on n1 device  0 [0x07] NVIDIA H100", False),
    ],
)
def test_failure_word_next_to_a_node_counts(line: str, said: bool) -> None:
    assert bool(failure_said(line, {"n1"})) is said


def test_lines_around_json_are_told_from_its_own() -> None:
    own = '{\n  "warning": "GPU 3: uncorrectable ECC error",\n"b": 1\n}'
    text = f"before\n{own}\n[1,0]<stderr>:free(): invalid pointer\n05:06:07 Killed\n  {own}\n\terror: lost"
    assert list(lines_around(text)) == [
        (1, "before"),
        (6, "free(): invalid pointer"),
        (7, "Killed"),
        (12, "error: lost"),
    ]
    labelled = "".join(f"n1: {line}\n" for line in f"{own}\nKilled".split("\n"))
    assert list(lines_around(labelled)) == [(5, "Killed")]


@pytest.mark.parametrize("label", ["", "0: ", " 0: ", "t1: ", "t1 | "])
@pytest.mark.parametrize("failure", ["error: GPU 3 lost", "Traceback (most recent call last):"])
def test_a_failure_is_seen_behind_any_label(label: str, failure: str) -> None:
    lines = [*golden("all_reduce_perf.txt").splitlines(), failure]
    text = "\n".join(f"{label}{line}" for line in lines)
    assert failure in [line for _, line in lines_around(text)]
