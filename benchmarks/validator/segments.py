"""Changes within a run: what our default search finds, beside PELT.

Simulated rates of 300 values with 1 % of outliers, of which some drop for good: the share of drops that is
found, the share of steady series with a finding, and the error of the onset. `segments` has its defaults,
which the search over a soak's cycles uses; judging a run asks for a loss of 5 % ("judged"). PELT (squared
error) has outliers clipped. Its penalty is the one with as many false alarms as ours on the same steady
series (first figure), or with 2 % (second).

Usage: python benchmarks/validator/segments.py [--series 500]
PELT needs the extra `oracles`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
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
"""Standard deviations beyond which PELT's values are clipped."""
JUDGED = 5
"""One of so many series is judged, too."""
MIN_SIZE = 8
"""Fewest values of a segment of PELT, as of ours."""
LOWEST = 0.5
"""Smallest penalty that is tried."""


@dataclass(frozen=True)
class Score:
    """How a search did on series with a drop."""

    recall: float
    error: float  # median, in values
    close: float  # share of the found ones with an error of two values at most

    def __str__(self) -> str:
        if not self.recall:
            return "none"
        return f"{self.recall:.3f} (onset {self.error:.0f}, {100 * self.close:.0f} % within 2)"


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


def judged(values: Series) -> int | None:
    """Return the onset that judging a run finds."""
    one = Measurement(
        test="t",
        benchmark="b",
        component="",
        metric=RATE,
        device="cpu",
        values=tuple(values.tolist()),
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


def critical(values: Series) -> float:
    """Return the smallest penalty with which PELT finds nothing in a steady series."""
    low, high = LOWEST, 4000.0
    if pelt(values, low) is None:
        return low
    while high / low > 1.05:
        middle = (low * high) ** 0.5
        if pelt(values, middle) is None:
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


@dataclass(frozen=True)
class Steady:
    """What the searches did on steady series of one noise."""

    alarms: float  # share of them in which ours finds a change
    judged: float  # share in which judging does
    penalties: tuple[float, ...]  # of PELT at our false alarms, and at 2 %; empty without PELT


def on_steady(rng: np.random.Generator, noise: float, count: int, *, peer: bool) -> Steady:
    """Count false alarms, and choose PELT's penalties."""
    drawn = [draw(rng, noise, 0.0)[0] for _ in range(count)]
    alarmed = [one for one in drawn if ours(one) is not None]
    penalties: tuple[float, ...] = ()
    if peer:
        edges = np.sort([critical(clipped(one)) for one in drawn])[::-1]
        places = (len(alarmed), int(WANTED_ALARMS * count))
        penalties = tuple(float(edges[min(place, count - 1)]) for place in places)
    seen = sum(judged(one) is not None for one in alarmed)  # others are no change of 5 %
    return Steady(alarms=len(alarmed) / count, judged=seen / count, penalties=penalties)


def main() -> int:
    """Print the table; return 1 if it is not as wanted."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--series", type=int, default=500, help="series a row (default: 500)")
    count = parser.parse_args().series
    peer = find_spec("ruptures") is not None
    if not peer:
        print("PELT is left out: pip install -e '.[oracles]'")
    rng = np.random.default_rng(7)
    begin = time.perf_counter()
    noises = dict.fromkeys(noise for _, noise in ROWS)
    steady = {noise: on_steady(rng, noise, count, peer=peer) for noise in noises}
    print(f"{count} series a row, {COUNT} values, {100 * OUTLIERS:.0f} % outliers")
    print(f"found with an onset within {NEAR} values; PELT: at our false alarms | at 2 %")
    good = True
    for drop, noise in ROWS:
        drawn = [draw(rng, noise, drop) for _ in range(count)]
        true = [at for _, at in drawn]
        few = -(-count // JUDGED)  # a search each, which takes long
        own = score([ours(values) for values, _ in drawn], true)
        seen = score([judged(values) for values, _ in drawn[:few]], true[:few])
        rest = steady[noise]
        print(f"drop {100 * drop:.0f} %, noise {100 * noise:.0f} %")
        print(f"    ours   {own}; false alarms {rest.alarms:.3f}")
        print(f"    judged {seen}; false alarms {rest.judged:.3f}; {few} series")
        if rest.penalties:
            found = [[pelt(clipped(values), one) for values, _ in drawn] for one in rest.penalties]
            print(f"    PELT   {' | '.join(str(score(one, true)) for one in found)}")
        good &= own.recall >= WANTED_RECALL and rest.alarms <= WANTED_ALARMS
        good &= own.error <= WANTED_ERROR
    print(f"wanted: recall {WANTED_RECALL}, alarms {WANTED_ALARMS}, onset within {WANTED_ERROR}:")
    print(f"    {'reached' if good else 'MISSED'} in {time.perf_counter() - begin:.0f} s")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
