"""How near the replay of a recorded step is to the step itself: its time, and its response to slow hardware.

(a) Original and replay in turns: ratio of the median step times (wanted .85 to 1.15), of the processor time,
    and the memory that each takes at most.
(b) Response: how much slower each is under one thread instead of two, beside a process that streams memory,
    and with half of a core; wanted are equal slowdowns within 10 points.
(c) A batch of twice the size: the replay takes 1.6 to 2.4 times as long.
(d) The obfuscated trace: its replay takes as long within 5 %.

Both keep the memory of freed tensors, as every benchmark does (`keep_freed_memory`). A job under glibc's
defaults may also pay for new pages in each step; a replay leaves that out.

Usage: python benchmarks/traces/fidelity.py [--rounds 15] [--only NAME]
Other load on the machine disturbs it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

import torch

from benchmarks.suites.faults.slowdowns import part_of_core
from benchmarks.traces.networks import (
    NETWORKS,
    RecordedNetwork,
    neighbour_on_another_core,
    one_core,
    one_thread,
    recorded,
)
from pytest_anubis.benchmarking.replay.replayed_step import ReplayedStep
from pytest_anubis.benchmarking.shaped_link import NotPossible
from pytest_anubis.benchmarking.sizes import give_back, keep_freed_memory
from pytest_anubis.traces.obfuscation import obfuscated

WANTED = (0.85, 1.15)
WANTED_POINTS = 0.10
WANTED_TWICE = (1.6, 2.4)
WANTED_OBFUSCATED = 0.05


Setting = Callable[[], AbstractContextManager[object]]
SLOW: dict[str, tuple[Setting, Setting, int]] = {
    "one thread": (nullcontext, one_thread, 7),
    "memory neighbour": (one_core, neighbour_on_another_core, 7),
    "half a core": (nullcontext, lambda: part_of_core(0.5), 21),
}
"""Settings of both, healthy and slow; what makes the slow one slow; how often they are measured in turns.

The neighbour takes memory's time and no core's: with two threads its core would. Under half of a core a step
takes one of a few times, by where its threads wait for each other.
"""


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds, and the processor's seconds, of one call."""
    begin, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - begin, time.process_time() - used


def both(network: RecordedNetwork, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Return times of original and replay, in turns."""
    found: dict[str, list[tuple[float, float]]] = {"original": [], "replay": []}
    for number in range(rounds):
        for name in ("original", "replay") if number % 2 else ("replay", "original"):
            if name == "original":
                found[name].append(timed(network.step))
            else:
                network.replay.ready()
                found[name].append(timed(network.replay.run))
    return found


def median(values: list[tuple[float, float]], place: int = 0) -> float:
    """Return the median of one side of the pairs."""
    return statistics.median(one[place] for one in values)


def peak_bytes(work: Callable[[], object]) -> int:
    """Return by how much a call raises the memory of this process at most."""
    give_back(torch.device("cpu"))
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = _memory("VmRSS")
    work()
    return max(0, _memory("VmHWM") - before)


def _memory(name: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


def of_network(name: str, rounds: int) -> bool:
    """Print the figures of one network; return whether all are as wanted."""
    network = recorded(name)
    both(network, 2)
    times = both(network, rounds)
    ratio = median(times["replay"]) / median(times["original"])
    used = median(times["replay"], 1) / median(times["original"], 1)
    peaks = [peak_bytes(one) for one in (network.step, network.replay.run)]
    good = WANTED[0] <= ratio <= WANTED[1]
    print(
        f"{name}: {network.replay.count} operations, step {1e3 * median(times['original']):.1f} ms; "
        f"replay over original: time {ratio:.3f}, processor time {used:.3f}; memory above rest "
        f"{peaks[0] / 1e6:.0f} and {peaks[1] / 1e6:.0f} MB{'' if good else '  NOT AS WANTED'}",
        flush=True,
    )
    for kind, (usual, slow, blocks) in SLOW.items():
        slower: dict[str, list[float]] = {"original": [], "replay": []}
        try:
            for _ in range(blocks):
                with usual():
                    healthy = both(network, max(3, rounds // 3))
                    with slow():
                        # After a fork each page costs once more at its first change.
                        both(network, 1)
                        hurt = both(network, max(3, rounds // 3))
                for side, values in slower.items():
                    values.append(median(hurt[side]) / median(healthy[side]) - 1)
        except NotPossible as error:
            print(f"    {kind}: not possible here: {error}")
            continue
        original, replay = (statistics.median(slower[side]) for side in ("original", "replay"))
        near = abs(original - replay) <= WANTED_POINTS
        good &= near
        print(
            f"    {kind}: original {100 * original:+.0f} %, replay {100 * replay:+.0f} %"
            f"{'' if near else '  NOT AS WANTED'}",
            flush=True,
        )
    twice = recorded(name, times=2)
    taken = [(both(network, 3), both(twice, 3)) for _ in range(max(1, rounds // 3))]
    original, replay = (
        statistics.median(median(more[side]) / median(once[side]) for once, more in taken)
        for side in ("original", "replay")
    )
    fine = WANTED_TWICE[0] <= replay <= WANTED_TWICE[1]
    print(
        f"    twice the batch: replay {replay:.2f} times as long, original {original:.2f}"
        f"{'' if fine else '  NOT AS WANTED'}",
        flush=True,
    )
    shared = ReplayedStep(obfuscated(network.trace), torch.device("cpu"))
    shared.prepare()
    others = both(replace(network, step=network.replay.run, replay=shared), rounds)
    ratio = median(others["replay"]) / median(others["original"])
    near = abs(ratio - 1) <= WANTED_OBFUSCATED
    print(f"    obfuscated: {ratio:.3f} of the time{'' if near else '  NOT AS WANTED'}", flush=True)
    return good and fine and near


def main() -> int:
    """Print the figures; return 1 if one is not as wanted."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15, help="rounds (default: 15)")
    parser.add_argument("--only", choices=NETWORKS, help="one network")
    options = parser.parse_args()
    keep_freed_memory()
    good = True
    for name in [options.only] if options.only else NETWORKS:
        good = of_network(name, options.rounds) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
