"""How often somebody is accused of slow links wrongly, and the right part found, in noise of several forms.

    python benchmarks/fleet/link_attribution.py [--clean 300] [--faults 40]

Pure simulation of the attribution (`pytest_anubis.fleet.links.attribution`): matrices of rates with noise in
their logarithms, with one fault of 15 to 50 % or none. `link_trials.py` does the same on simulated hosts.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

import numpy as np
import numpy.typing as npt

from pytest_anubis.fleet.links.attribution import Kind, Part, attribute

Matrix = npt.NDArray[np.float64]
KEPT = (0.5, 0.85)
"""Part of the rate that a faulty part keeps, drawn evenly: from half of the lanes to what just matters."""

COUNTS = (4, 8, 32)
SPREADS = (0.005, 0.02, 0.05)
KINDS: tuple[Kind, ...] = ("node", "send", "receive", "link", "way")

Noise = Callable[[np.random.Generator, int, float], Matrix]


def normal(rng: np.random.Generator, count: int, spread: float) -> Matrix:
    """Return normal noise of a standard deviation."""
    return rng.normal(0, spread, (count, count))


def downwards(rng: np.random.Generator, count: int, spread: float) -> Matrix:
    """Return noise that only slows down: exponential."""
    return -rng.exponential(spread, (count, count))


def heavy(rng: np.random.Generator, count: int, spread: float) -> Matrix:
    """Return noise with heavy tails: Student's t with three degrees of freedom."""
    return np.asarray(rng.standard_t(3, (count, count)) * spread / np.sqrt(3))


NOISES: dict[str, Noise] = {"normal": normal, "downwards": downwards, "heavy tails": heavy}


def faulty(rng: np.random.Generator, y: Matrix, kind: Kind) -> Part:
    """Put a fault of a kind into a matrix of logarithms; return the part."""
    first, second = sorted(rng.choice(len(y), 2, replace=False).tolist())
    nodes = (first, second) if kind in ("link", "way") else (first,)
    part = Part(kind, nodes)
    lost = np.log(rng.uniform(*KEPT))
    for way in part.ways(len(y)):
        y[way] += lost
    return part


def main() -> None:
    """Print one row for each number of nodes and form of the noise."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--clean", type=int, default=300, help="matrices without a fault")
    parser.add_argument("--faults", type=int, default=40, help="of each kind")
    given = parser.parse_args()
    rng = np.random.default_rng(1)
    print("| nodes | noise | spread | accused wrongly | " + " | ".join(KINDS) + " |")
    print("|---" * (4 + len(KINDS)) + "|")
    for count in COUNTS:
        for name, noise in NOISES.items():
            for spread in SPREADS:
                wrong = sum(
                    bool(attribute(np.exp(noise(rng, count, spread)))) for _ in range(given.clean)
                )
                shares = []
                for kind in KINDS:
                    right = 0
                    for _ in range(given.faults):
                        y = noise(rng, count, spread)
                        part = faulty(rng, y, kind)
                        right += [one.part for one in attribute(np.exp(y))] == [part]
                    shares.append(f"{right / given.faults:.0%}")
                cells = [str(count), name, f"{spread:.1%}", f"{wrong} of {given.clean}", *shares]
                print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
