"""The fleet that the paper's figures can be set beside: its defects, durations, and three scenarios.

Kinds and rates are the table of defects at the build-out of 24 thousand A100 (SuperBench, ATC'24), one
benchmark each; durations are those published with the project's reports for an 8-accelerator node.
"""

from __future__ import annotations

import numpy as np

from pytest_anubis.selector.selector_error import SelectorError
from pytest_anubis.selector.simulation.hidden_defects import Rates
from pytest_anubis.selector.simulation.simulated_fleet import Scenario

# Benchmark: nodes that it finds defective, percent; how long it takes, minutes.
BUILD_OUT: dict[str, tuple[float, float]] = {
    "IB HCA loopback": (6.04, 0.65),
    "H2D/D2H bandwidth": (2.03, 0.83),
    "BERT models": (1.59, 15.03),
    "CPU latency": (1.33, 3.5),
    "IB single-node all-reduce": (1.10, 1.05),
    "ResNet models": (0.73, 25.67),
    "GPT-2 models": (0.53, 31.92),
    "LSTM models": (0.46, 2.38),
    "DenseNet models": (0.40, 7.85),
    "MatMul/all-reduce overlap": (0.33, 4.83),
    "NVLink all-reduce": (0.30, 1.05),
    "GPU GEMM": (0.23, 12.17),
}

DEFECTIVE = 0.1036  # share of nodes with a defect at build-out

# Hours to wear, hours to manifest, share of repairs after an incident that remove the cause.
_LIVES = {
    "A": (719.4, 24.0, 0.5),
    "B": (5_000.0, 12.0, 0.1),
    "C": (20_000.0, 6.0, 0.05),
}


def scenario(name: str, *, kind_known: bool = False) -> Scenario:
    """Return a scenario.

    ``A``: fast wear, half of the repairs help. ``B``: slow wear, defects persist. ``C``: slower still.

    Args:
        name: A, B or C.
        kind_known: The kind of an incident is seen.

    Raises:
        SelectorError: There is no such scenario.
    """
    if name not in _LIVES:
        raise SelectorError(f"scenario {name[:20]!r} is none of {', '.join(_LIVES)}")
    wear, manifest, removes = _LIVES[name]
    rates = np.array([rate for rate, _ in BUILD_OUT.values()])
    return Scenario(
        rates=Rates(
            wear=1 / wear,
            manifest=1 / manifest,
            stays=1 - removes,
            initial=DEFECTIVE,
            shares=rates / rates.sum(),
        ),
        benchmark_hours=np.array([minutes / 60 for _, minutes in BUILD_OUT.values()]),
        kind_known=kind_known,
    )
