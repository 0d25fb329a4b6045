"""Predictions of `anubis trace predict` beside what held-out steps take.

The operations of one recorded step of each network are profiled. Predicted are (a) the training step itself,
recorded anew, of which all operations are known (wanted: a median error of at most 20 %), and (b) a step with
twice the batch, most of whose operations are scaled by their work. Steps are timed before and after the
profile, because machines have modes.

Usage: python benchmarks/traces/held_out.py [--rounds 9]
Other load on the machine disturbs it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

from benchmarks.traces.networks import NETWORKS, recorded
from pytest_anubis.benchmarking.replay.profiling import profiled
from pytest_anubis.traces.step_prediction import predict

WANTED = 0.20


def main() -> int:
    """Print the errors; return 1 if the median of the known ones is above `WANTED`."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9, help="rounds of each step (default: 9)")
    options = parser.parse_args()
    errors: dict[str, list[float]] = {"known": [], "scaled": []}
    for name in NETWORKS:
        steps = {"known": recorded(name), "scaled": recorded(name, times=2)}
        taken: dict[str, list[float]] = {kind: [] for kind in steps}
        for half in (0, 1):
            if half:
                profile = profiled([recorded(name).trace], "cpu", "here", rounds=options.rounds)
            for kind, network in steps.items():
                for _ in range(options.rounds):
                    begin = time.perf_counter()
                    network.step()
                    taken[kind].append(time.perf_counter() - begin)
        for kind, network in steps.items():
            found = predict(network.trace, profile)
            actual = statistics.median(taken[kind])
            error = found.seconds / actual - 1
            errors[kind].append(abs(error))
            print(
                f"{name}, {'batch x 2' if kind == 'scaled' else 'recorded anew'}: {1e3 * actual:.1f} ms, "
                f"predicted {1e3 * found.seconds:.1f} ms ({100 * error:+.0f} %); "
                f"{100 * found.scaled_share:.0f} % of the time scaled",
                flush=True,
            )
    for kind, values in errors.items():
        print(f"median error, {kind}: {100 * statistics.median(values):.0f} %")
    good = statistics.median(errors["known"]) <= WANTED
    print(f"wanted {100 * WANTED:.0f} % of the known ones: {'reached' if good else 'MISSED'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
