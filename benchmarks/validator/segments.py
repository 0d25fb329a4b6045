"""Changes within a run: what our default search finds, beside PELT and CUSUM.

(a) Simulated rates of 300 values with 1 % of outliers, of which some drop for good: the share of drops that
    is found, the share of steady series with a finding, and the error of the onset. `segments` has its
    defaults, which the search over a soak's cycles uses; judging a run asks for a loss of 5 % ("judged").
    PELT (squared error) and CUSUM have outliers clipped. Their threshold is the one with as many false alarms
    as ours on the same steady series (first figure), or with 2 % (second).
(b) A real GEMM on one core, on which a neighbour starts after a third: the onset that judging finds, and
    whether the shuffled series has one. Other load on the machine disturbs it.

Usage: python benchmarks/validator/segments.py [--series 500] [--runs 20] [--without-real]
PELT needs the extra `oracles`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

import numpy as np
import numpy.typing as npt

from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.metric import Metric
from pytest_anubis.validator import segments
from pytest_anubis.validator.changes.segments import changes_of

Series = npt.NDArray[np.float64]

RATE = Metric(name="rate", unit="GB/s", better="higher")
COUNT = 300
ROWS = ((0.03, 0.01), (0.05, 0.01), (0.05, 0.03), (0.10, 0.03))
"""Drop and noise."""
OUTLIERS = 0.01
"""Share of the values that are up to 30 % lower, as those of a disturbed round."""
WANTED_RECALL, WANTED_ALARMS, WANTED_ERROR = 0.97, 0.02, 2
NEAR = 30
"""Largest error of the onset with which a drop counts as found."""
CLIPPED = 4.0
"""Standard deviations beyond which the peers' values are clipped."""
JUDGED = 5
"""One of so many series is judged, too."""
MIN_SIZE = 8
"""Fewest values of a segment of PELT, as of ours."""
CALIBRATED = 30
"""First values, from which CUSUM takes its level."""
LOWEST = 0.5
"""Smallest threshold of a peer that is tried."""
SLACK = 0.5
"""Slack of CUSUM, in standard deviations."""

ROUNDS, BEGIN = 240, 80
"""Values of a real series, and where its neighbour starts."""
TOLERATED = 10
"""Largest error of the onset in a real series."""
ROUND_SECONDS = 0.012
"""Seconds of a round alone: a few of the scheduler's time slices, so that sharing a core shows in each."""
NEIGHBOUR = "import sys; sys.stdin.readline()\nwhile True: pass"

Find = Callable[[Series, float], int | None]
"""Returns the onset of a change for the worse, or None, of a clipped series at a threshold."""


@dataclass(frozen=True)
class Score:
    """How a search did on series with a drop."""

    recall: float
    error: float  # median, in values
    close: float  # share of the found ones with an error of two values at most


def draw(rng: np.random.Generator, noise: float, drop: float) -> tuple[Series, int]:
    """Return a rate that drops at a random value, and where."""
    values = 100 * np.exp(rng.normal(0, noise, COUNT))
    at = int(rng.integers(COUNT // 5, COUNT * 4 // 5))
    values[at:] *= 1 - drop
    hit = rng.random(COUNT) < OUTLIERS
    values[hit] *= rng.uniform(0.7, 1.0, int(hit.sum()))
    return values, at


def ours(values: Series) -> int | None:
    """Return the onset that our search finds with its defaults."""
    found = segments(values, "higher").change
    return None if found is None else found.onset


def judged(values: Sequence[float], metric: Metric) -> int | None:
    """Return the onset that judging a run finds."""
    one = Measurement(
        test="t", benchmark="b", component="", metric=metric, device="cpu", values=tuple(values)
    )
    found = changes_of(one).change
    return None if found is None else found.onset


def clipped(values: Series) -> Series:
    """Return values in standard deviations of their noise, with outliers clipped to a running median."""
    noise = 1.4826 * float(np.median(np.abs(np.diff(values)))) / np.sqrt(2)
    padded = np.pad(values, 7, mode="edge")
    level = np.median(np.lib.stride_tricks.sliding_window_view(padded, 15), axis=1)
    return np.asarray(np.clip(values, level - CLIPPED * noise, level + CLIPPED * noise) / noise)


def pelt(values: Series, penalty: float) -> int | None:
    """Return the onset of the largest drop among the segments of PELT."""
    import ruptures

    search = ruptures.KernelCPD(kernel="linear", min_size=MIN_SIZE).fit(values[:, None])
    ends = [0, *search.predict(pen=penalty)]
    drops = {
        at: float(np.median(values[before:at]) - np.median(values[at:end]))
        for before, at, end in zip(ends, ends[1:], ends[2:], strict=False)
    }
    largest = max(drops, key=lambda at: drops[at], default=None)
    return largest if largest is not None and drops[largest] > 0 else None


def cusum(values: Series, threshold: float) -> int | None:
    """Return the onset of a drop: the value after which the sum stayed above 0 until it passed."""
    level = float(np.median(values[:CALIBRATED]))
    total, begin = 0.0, 0
    for at in range(CALIBRATED, len(values)):
        total = max(0.0, total + level - values[at] - SLACK)
        if total == 0:
            begin = at + 1
        if total > threshold:
            return begin
    return None


def critical(find: Find, values: Series) -> float:
    """Return the smallest threshold at which a steady series has no finding."""
    low, high = LOWEST, 4000.0
    if find(values, low) is None:
        return low
    while high / low > 1.05:
        middle = (low * high) ** 0.5
        if find(values, middle) is None:
            high = middle
        else:
            low = middle
    return high


def score(found: Sequence[int | None], true: Sequence[int]) -> Score:
    """Compare onsets with the true ones."""
    errors = [
        abs(one - at)
        for one, at in zip(found, true, strict=True)
        if one is not None and abs(one - at) <= NEAR
    ]
    error = float(np.median(errors)) if errors else float("nan")
    close = sum(one <= WANTED_ERROR for one in errors) / max(len(errors), 1)
    return Score(recall=len(errors) / len(true), error=error, close=close)


def words(one: Score) -> str:
    """Return a score for the table."""
    if not one.recall:
        return "none"
    return f"{one.recall:.3f} (onset {one.error:.0f}, {100 * one.close:.0f} % within 2)"


@dataclass(frozen=True)
class Steady:
    """What the searches did on steady series of one noise."""

    alarms: float  # share of them in which ours finds a change
    judged: float  # share in which judging does
    limits: dict[str, tuple[float, float]]  # peer -> its threshold at our false alarms, and at 2 %


def on_steady(rng: np.random.Generator, noise: float, count: int, peers: dict[str, Find]) -> Steady:
    """Count false alarms, and choose the peers' thresholds."""
    drawn = [draw(rng, noise, 0.0)[0] for _ in range(count)]
    alarmed = [one for one in drawn if ours(one) is not None]
    limits = {}
    for name, find in peers.items():
        edges = np.sort([critical(find, clipped(one)) for one in drawn])[::-1]
        at_ours, at_wanted = len(alarmed), int(WANTED_ALARMS * count)
        limits[name] = (
            float(edges[min(at_ours, count - 1)]),
            float(edges[min(at_wanted, count - 1)]),
        )
    seen = sum(
        judged(one.tolist(), RATE) is not None for one in alarmed
    )  # others are no change of 5 %
    return Steady(alarms=len(alarmed) / count, judged=seen / count, limits=limits)


def simulated(count: int) -> bool:
    """Print the table of simulated series; return whether it is as wanted."""
    peers: dict[str, Find] = {"CUSUM": cusum}
    try:
        import ruptures  # noqa: F401

        peers = {"PELT": pelt, **peers}
    except ImportError:
        print("PELT is left out: pip install -e '.[oracles]'")
    rng = np.random.default_rng(7)
    begin = time.perf_counter()
    noises = dict.fromkeys(noise for _, noise in ROWS)
    steady = {noise: on_steady(rng, noise, count, peers) for noise in noises}
    print(f"{count} series a row, {COUNT} values, {100 * OUTLIERS:.0f} % outliers")
    print(f"found with an onset within {NEAR} values; peers: at our false alarms | at 2 %")
    good = True
    for drop, noise in ROWS:
        drawn = [draw(rng, noise, drop) for _ in range(count)]
        true = [at for _, at in drawn]
        few = -(-count // JUDGED)  # a search each, which takes long
        own = score([ours(values) for values, _ in drawn], true)
        seen = score([judged(values.tolist(), RATE) for values, _ in drawn[:few]], true[:few])
        alarms = steady[noise].alarms
        print(f"drop {100 * drop:.0f} %, noise {100 * noise:.0f} %")
        print(f"    ours   {words(own)}; false alarms {alarms:.3f}")
        print(f"    judged {words(seen)}; false alarms {steady[noise].judged:.3f}; {few} series")
        for name, find in peers.items():
            limits = steady[noise].limits[name]
            found = [[find(clipped(values), limit) for values, _ in drawn] for limit in limits]
            print(f"    {name:6} {' | '.join(words(score(one, true)) for one in found)}")
        good &= own.recall >= WANTED_RECALL and alarms <= WANTED_ALARMS
        good &= own.error <= WANTED_ERROR
    print(f"wanted: recall {WANTED_RECALL}, alarms {WANTED_ALARMS}, onset within {WANTED_ERROR}:")
    print(f"    {'reached' if good else 'MISSED'} in {time.perf_counter() - begin:.0f} s")
    return good


def real(runs: int) -> bool:
    """Print what is found in a real GEMM with a neighbour; return whether it is as wanted."""
    import torch

    torch.set_num_threads(1)
    core = min(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    left = torch.rand(256, 256)
    calls = 1
    while min(seconds_of(left, calls) for _ in range(5)) < ROUND_SECONDS:
        calls *= 2
    rng = np.random.default_rng(0)
    metric = Metric(name="time", unit="ms", better="lower")
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    errors: list[int | None] = []
    shuffled = 0
    for number in range(runs):
        values = one_series(left, calls, core)
        onset = judged(values, metric)
        mixed = judged(rng.permutation(values).tolist(), metric)
        shuffled += mixed is not None
        errors.append(None if onset is None else abs(onset - BEGIN))
        print(f"    run {number + 1}: onset {onset}, shuffled {mixed}")
    near = sum(one is not None and one <= TOLERATED for one in errors)
    wanted = runs * 9 // 10
    good = near >= wanted and shuffled == 0
    print(f"a GEMM with a neighbour from value {BEGIN} of {ROUNDS} on, {runs} runs:")
    print(
        f"    onset within {TOLERATED} values in {near}, shuffled series with a finding {shuffled}"
    )
    print(f"    wanted {wanted} and 0: {'reached' if good else 'MISSED'}")
    return good


def seconds_of(left: object, calls: int) -> float:
    """Return the seconds of some products."""
    import torch

    assert isinstance(left, torch.Tensor)  # noqa: S101
    begin = time.perf_counter()
    for _ in range(calls):
        left @ left
    return time.perf_counter() - begin


def one_series(left: object, calls: int, core: int) -> list[float]:
    """Return the milliseconds of all rounds; the neighbour waits on the same core until it may start."""
    command = [sys.executable, "-c", NEIGHBOUR]
    with subprocess.Popen(command, stdin=subprocess.PIPE, bufsize=0) as neighbour:
        try:
            os.sched_setaffinity(neighbour.pid, {core})
            time.sleep(0.3)  # it has started and waits
            for _ in range(20):
                seconds_of(left, calls)
            values = []
            for number in range(ROUNDS):
                if number == BEGIN and neighbour.stdin is not None:
                    neighbour.stdin.write(b"\n")
                values.append(1000 * seconds_of(left, calls) / calls)
            return values
        finally:
            neighbour.kill()


def main() -> int:
    """Print both tables; return 1 if either is not as wanted."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--series", type=int, default=500, help="series a row (default: 500)")
    parser.add_argument("--runs", type=int, default=20, help="real runs (default: 20)")
    parser.add_argument("--without-real", action="store_true", help="simulated series only")
    options = parser.parse_args()
    good = simulated(options.series)
    if not options.without_real:
        good = real(options.runs) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
