"""Does it react to reality? Four experiments on this machine, each printing what it saw.

quiet  learn here, then judge ten times: how many runs are accepted, what is disturbed
slow   every call of one benchmark's timed callable takes 10 % longer: that metric fails, no other
load   a busy process on every core, then a CPU quota of half a core: never accepted in silence
link   learn and judge in a network namespace, then shape its loopback to a quarter of the measured rate:
       the node is rejected, TCP and all-reduce are blamed, compute and disk pass

Run: ``python benchmarks/sessions/reality.py quiet slow load link`` (``load``'s quota and ``link`` need root).
The machine should do nothing else meanwhile.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

from benchmarks import ROOT

SLOW_PLUGIN = '''
"""Slow one benchmark down: every timed call of it takes a share longer."""
import os
import time

from pytest_anubis.hardware import timing

SHARE, WHERE = float(os.environ["SLOW_SHARE"]), os.environ["SLOW_TEST"]
take = timing.rounds


def slowed(fn, clock, plan, calls, moments=None):
    if WHERE not in os.environ.get("PYTEST_CURRENT_TEST", ""):
        return take(fn, clock, plan, calls, moments)

    def clock_of_slow_device(fn, calls):
        begin = time.perf_counter()
        took = clock(fn, calls)
        end = begin + took * (1 + SHARE)
        while time.perf_counter() < end:
            pass
        return time.perf_counter() - begin

    return take(fn, clock_of_slow_device, plan, calls, moments)


timing.rounds = slowed
'''


def run(command: Sequence[str], folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the project's folder and return what came of it."""
    return subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(folder)} | environ,
        capture_output=True,
        text=True,
        check=False,
    )


def learn(folder: Path, rounds: int, prefix: Sequence[str] = ()) -> None:
    """Learn this machine into a folder of its own."""
    begin = time.monotonic()
    done = run(
        [
            *prefix,
            *(sys.executable, "-m", "pytest_anubis.cli.main", "learn", "suites", "--rounds"),
            *(str(rounds), "-o", str(folder / "baselines"), "--store", str(folder / "store")),
        ],
        folder,
    )
    if done.returncode:
        raise SystemExit(f"learning ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    print(f"learned from {rounds} rounds in {time.monotonic() - begin:.0f} s")
    for line in done.stdout.splitlines():
        if line.startswith(("test_", "left out", "finding")) or "criteria from" in line:
            print(f"  {line}")


def judge(
    folder: Path, *extra: str, prefix: Sequence[str] = (), **environ: str
) -> tuple[int, list[dict[str, object]], str]:
    """Judge this machine once: exit code, metric verdicts, headline."""
    name = f"judge-{time.time_ns()}"
    done = run(
        [
            *prefix,
            *(sys.executable, "-m", "pytest", "--anubis", "suites", "-q", "-p", "no:cacheprovider"),
            f"--anubis-baseline={folder / 'baselines'}",
            f"--anubis-store={folder / 'store'}",
            f"--anubis-run-id={name}",
            *extra,
        ],
        folder,
        **environ,
    )
    journal = folder / "store" / "runs" / name / "journal.jsonl"
    if not journal.exists():
        raise SystemExit(f"no journal:\n{done.stdout}{done.stderr}")
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    verdicts = [event for event in events if event["event"] == "verdict"]
    headline = next((e["headline"] for e in events if e["event"] == "node_verdict"), "")
    return done.returncode, verdicts, headline


def show(label: str, code: int, verdicts: Sequence[dict[str, object]], headline: str) -> None:
    """Print one run: exit code, counts, and every verdict that is not PASS."""
    counts = Counter(str(verdict["outcome"]) for verdict in verdicts)
    print(f"{label}: exit {code}, {dict(counts)}\n  {headline[:200]}")
    for verdict in verdicts:
        if verdict["outcome"] != "PASS" and verdict.get("metric"):
            print(f"  {verdict['outcome']:12} {verdict['component']}: {str(verdict['text'])[:170]}")


def quiet(folder: Path, rounds: int, runs: int) -> None:
    """Judge an undisturbed machine again and again."""
    if not (folder / "baselines").exists():
        learn(folder, rounds)
    codes: list[int] = []
    lowest: list[float] = []
    for number in range(1, runs + 1):
        code, verdicts, headline = judge(folder)
        show(f"run {number}", code, verdicts, headline)
        codes.append(code)
        lowest += [float(str(v["similarity"])) for v in verdicts if "similarity" in v]
    counts = Counter(codes)
    print(f"{runs} runs: {counts[0]} accepted, {counts[1]} rejected, {counts[20]} undecided")
    print(f"similarities: median {statistics.median(lowest):.4f}, lowest {min(lowest):.4f}")


def slow(folder: Path, test: str, share: float) -> None:
    """Slow one benchmark by a share."""
    (folder / "slow_device.py").write_text(SLOW_PLUGIN)
    result = judge(
        folder, "-p", "slow_device", SLOW_TEST=test, SLOW_SHARE=str(share), PYTHONPATH=str(folder)
    )
    show(f"{test} slowed by {share:.0%}", *result)


@contextlib.contextmanager
def busy(cores: int) -> Iterator[None]:
    """Keep a strange process busy on every core."""
    code = "while True: pass"
    processes = [
        subprocess.Popen([sys.executable, "-c", code], start_new_session=True) for _ in range(cores)
    ]
    try:
        yield
    finally:
        for process in processes:
            os.killpg(process.pid, 9)
            process.wait()


@contextlib.contextmanager
def quota(cores: float) -> Iterator[list[str]]:
    """Give the command behind the yielded prefix a CPU quota through its control group."""
    old, new = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
    base = old if old.is_dir() else new
    group = base / "anubis-reality"
    group.mkdir(exist_ok=True)
    try:
        if base == old:
            (group / "cpu.cfs_period_us").write_text("100000")
            (group / "cpu.cfs_quota_us").write_text(str(int(cores * 100000)))
        else:
            (group / "cpu.max").write_text(f"{int(cores * 100000)} 100000")
        yield ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh"]
    finally:
        group.rmdir()


def load(folder: Path) -> None:
    """Disturb the machine; nothing may be accepted in silence."""
    with busy(os.cpu_count() or 1):
        show("a busy process on every core", *judge(folder))
    with quota(0.5) as prefix:
        show("a CPU quota of half a core", *judge(folder, prefix=prefix))


def link(folder: Path, rounds: int) -> None:
    """Shape the loopback of a network namespace to a quarter of the measured rate."""
    name = f"anubis{os.getpid()}"
    inside = ["ip", "netns", "exec", name]
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        subprocess.run([*inside, "ip", "link", "set", "lo", "up"], check=True)
        learn(folder, rounds, prefix=inside)
        code, verdicts, headline = judge(folder, prefix=inside)
        show("unshaped", code, verdicts, headline)
        rates = [v for v in verdicts if v.get("metric") == "tcp_rate"]
        rate = float(str(rates[0]["value"])) / 4  # GB/s
        shaper = ["tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate"]
        shape = [*shaper, f"{rate * 8:.2f}gbit", "burst", "1mb", "latency", "50ms"]
        subprocess.run([*inside, *shape], check=True)
        show(f"loopback shaped to {rate:.2f} GB/s", *judge(folder, prefix=inside))
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True)


def main() -> None:
    """Run the experiments that were asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("experiments", nargs="+", choices=("quiet", "slow", "load", "link"))
    parser.add_argument("--rounds", type=int, default=5, help="rounds to learn from")
    parser.add_argument("--runs", type=int, default=10, help="runs of quiet")
    parser.add_argument(
        "--slow",
        nargs="+",
        default=["test_gemm[cpu-float32]", "test_dispatch[cpu]"],
        help="benchmarks to slow down, one after the other",
    )
    parser.add_argument("--share", type=float, default=0.10)
    parser.add_argument("--keep", type=Path, help="folder to keep baselines and runs in")
    options = parser.parse_args()
    folder = Path(options.keep or tempfile.mkdtemp(prefix="anubis-reality-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for experiment in options.experiments:
            print(f"== {experiment}")
            if experiment == "quiet":
                quiet(folder, options.rounds, options.runs)
            elif experiment == "link":
                link(folder / "link", options.rounds)
            else:
                if not (folder / "baselines").exists():
                    learn(folder, options.rounds)
                if experiment == "load":
                    load(folder)
                else:
                    for test in options.slow:
                        slow(folder, test, options.share)
    finally:
        if options.keep is None:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
