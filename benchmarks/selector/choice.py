"""The choice of benchmarks: against brute force, greedy's excess, and how long it takes.

(a) random instances of 12 to 200 benchmarks: the exact choice beside brute force where that is possible
    (all subsets of 12 to 16 runs), and how much dearer the greedy choice is;
(b) seconds to choose from 40, 200 and 1,000 benchmarks, the last with 5,000 patterns of defects.

Usage: python benchmarks/selector/choice.py [--instances 200]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

import numpy as np
import numpy.typing as npt

from pytest_anubis.core.history import Defect
from pytest_anubis.selector.choice.benchmark_choice import make_plan
from pytest_anubis.selector.choice.candidates import Candidate
from pytest_anubis.selector.choice.choice_plan import Plan
from pytest_anubis.selector.choice.coverage import Coverage, learn_coverage
from pytest_anubis.selector.risk.node_risk import NodeRisk

BRUTE = 16  # up to so many benchmarks every subset is tried
RISK = 0.1


def instance(
    benchmarks: int, defects: int, rng: np.random.Generator, width: float = 3.0
) -> tuple[list[Candidate], Coverage]:
    """Return benchmarks with log-normal costs and defects that show in 1 + Poisson(width - 1) of them.

    Benchmarks are unequal: the share of defects that each exposes falls as a power of its rank.
    """
    names = [f"suites/part{i % 7}.py::test_{i:04d}" for i in range(benchmarks)]
    costs = np.round(np.exp(rng.normal(3.5, 1.3, benchmarks)), 1)
    candidates = [
        Candidate(benchmark=name, cost_seconds=float(cost), component=f"part{i % 7}")
        for i, (name, cost) in enumerate(zip(names, costs, strict=True))
    ]
    weight = (1.0 + rng.permutation(benchmarks)) ** -0.7
    known = []
    for number in range(defects):
        count = min(benchmarks, 1 + int(rng.poisson(width - 1)))
        shown = rng.choice(benchmarks, count, replace=False, p=weight / weight.sum())
        known.append(
            Defect(
                number=number,
                node="n",
                found=0.0,
                benchmarks=tuple(sorted(names[i] for i in shown)),
            )
        )
    return candidates, learn_coverage(known, candidates)


def brute(candidates: Sequence[Candidate], coverage: Coverage, need: float) -> float:
    """Return the seconds of the cheapest of all subsets that exposes a share of the defects."""
    exposes = np.zeros((len(coverage.weights), len(coverage.benchmarks)), dtype=np.bool_)
    exposes[coverage.rows, coverage.columns] = True
    cost_of = {candidate.benchmark: candidate.cost_seconds for candidate in candidates}
    costs = np.array([cost_of[name] for name in coverage.benchmarks])
    count = len(costs)
    subsets: npt.NDArray[np.int64] = np.arange(2**count, dtype=np.int64)
    total = np.zeros(len(subsets))
    for i in range(count):
        total += np.where(subsets >> i & 1, costs[i], 0.0)
    covered = np.zeros(len(subsets))
    for row, weight in zip(exposes, coverage.weights, strict=True):
        bits = int(sum(1 << int(i) for i in np.flatnonzero(row)))
        covered += np.where(subsets & bits, weight, 0.0)
    enough = covered / coverage.total >= need - 1e-9
    return float(total[enough].min())


def choose(candidates: Sequence[Candidate], coverage: Coverage, part: float) -> Plan:
    """Choose so that a part of the exposable risk is left."""
    full = RISK * (1 - coverage.of(coverage.benchmarks))
    p0 = full + part * (RISK - full)
    risk = [NodeRisk(node="n", probability=RISK)]
    return make_plan(candidates, coverage, risk, p0=p0, explore=0, time_limit=10)


def against_brute_force(instances: int) -> None:
    """Print how often the exact choice is as cheap as brute force, and greedy's excess."""
    rng = np.random.default_rng(0)
    sizes = np.concatenate(
        [
            rng.integers(12, BRUTE + 1, instances // 2),
            rng.integers(17, 201, instances - instances // 2),
        ]
    )
    equal = tried = proven = 0
    excess = []
    for size in sizes.tolist():
        candidates, coverage = instance(size, int(rng.integers(20, 400)), rng)
        part = float(rng.uniform(0.02, 0.5))
        plan = choose(candidates, coverage, part)
        proven += plan.optimal
        excess.append(plan.greedy_excess or 0.0)
        if size <= BRUTE:
            tried += 1
            need = 1 - (plan.target or 0.0) / RISK
            equal += abs(brute(candidates, coverage, need) - plan.cost) < 1e-3
    spread = np.quantile(excess, [0.5, 0.9, 0.99, 1.0])
    print(f"(a) {instances} instances of 12 to 200 benchmarks, {proven} proven optimal")
    print(f"    equal to brute force: {equal} of {tried}")
    print(
        f"    greedy dearer in {np.mean(np.array(excess) > 1e-9):.0%}; excess median, 90 %, 99 %, largest:"
    )
    print("    " + ", ".join(f"{value:.1%}" for value in spread))


def speed(rounds: int) -> None:
    """Print seconds to choose, exactly and greedily, side by side."""
    print("(b) benchmarks  patterns  coverage s  exact s  greedy s  method  gap     greedy excess")
    for size, defects, width in ((40, 400, 3.0), (200, 2_000, 3.0), (1_000, 6_000, 4.0)):
        rng = np.random.default_rng(size)
        begin = time.perf_counter()
        candidates, coverage = instance(size, defects, rng, width)
        learned = time.perf_counter() - begin
        risk = [NodeRisk(node="n", probability=RISK)]
        full = RISK * (1 - coverage.of(coverage.benchmarks))
        p0 = full + 0.1 * (RISK - full)
        exact, quick = [], []
        for _ in range(rounds if size < 1_000 else 1):
            begin = time.perf_counter()
            plan = make_plan(candidates, coverage, risk, p0=p0, explore=0, time_limit=8)
            exact.append(time.perf_counter() - begin)
            begin = time.perf_counter()
            make_plan(candidates, coverage, risk, p0=p0, explore=0, exact=False)
            quick.append(time.perf_counter() - begin)
        gap = plan.cost / plan.bound - 1 if plan.bound else 0.0
        greedy = f"{plan.greedy_excess:.1%}" if plan.greedy_excess is not None else "-"
        print(
            f"    {size:10d} {len(coverage.weights):9d} {learned:11.2f} {np.median(exact):8.3f} "
            f"{np.median(quick):9.3f}  {plan.method:6s}  {max(0.0, gap):.1%}    {greedy}"
        )


def main() -> None:
    """Run both parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--instances", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    against_brute_force(options.instances)
    speed(options.rounds)


if __name__ == "__main__":
    main()
