"""Scenarios of simulated fleets: those that can be compared with the paper's figures, and an own fleet's.

Kinds and rates of defects are those at the build-out of 24 thousand A100 (SuperBench, ATC'24), one benchmark
each; durations are those published with the project's reports for an 8-accelerator node. `simulate_command`
uses it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from pytest_anubis.core.history import FleetHistory
from pytest_anubis.selector.selector_error import SelectorError
from pytest_anubis.selector.simulation.hidden_defects import DefectRates
from pytest_anubis.selector.simulation.simulated_fleet import Scenario

# Benchmark: percent of nodes that it finds defective, and its minutes.
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
_SCENARIOS = {
    "A": (719.4, 24.0, 0.5),
    "B": (5_000.0, 12.0, 0.1),
    "C": (20_000.0, 6.0, 0.05),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnFleet:
    """Known figures of an operator's own fleet, which replace those of a scenario; None keeps these."""

    # Benchmark -> (share of defects that it finds, in any unit; its hours); empty: the scenario's
    tests: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    wear: float | None = None  # hours of use until a node gets a hidden defect
    manifest: float | None = None  # hours of use until a hidden defect becomes an incident
    stays: float | None = None  # share of repairs after an incident that leave the cause
    initial: float | None = None  # share of new nodes with a hidden defect
    # Hours in service per incident of the fleet's history. It sets `wear` and `initial`, if they
    # are None, such that incidents without validation are as frequent.
    mtbi: float | None = None


def with_own(world: Scenario, own: OwnFleet) -> Scenario:
    """Return a scenario with the known figures of an own fleet.

    Raises:
        SelectorError: Shares or times are negative, not finite, or all 0.
    """
    rates = world.rates
    hours = world.benchmark_hours
    if own.tests:
        shares = np.array([share for share, _ in own.tests.values()])
        hours = np.array([took for _, took in own.tests.values()])
        fine = np.isfinite([*shares, *hours]).all() and shares.min() >= 0 and hours.min() >= 0
        if not fine or not shares.sum() > 0 or not hours.sum() > 0:
            raise SelectorError(
                "shares and times of benchmarks must be 0 or more, and some of them more"
            )
        rates = replace(rates, shares=shares / shares.sum())
    if any(time is not None and not time > 0 for time in (own.wear, own.manifest, own.mtbi)):
        raise SelectorError("the hours until a defect comes and shows must be more than 0")
    manifest = rates.manifest if own.manifest is None else 1 / own.manifest
    stays = rates.stays if own.stays is None else own.stays
    wear, initial = rates.wear, rates.initial
    if own.mtbi is not None:
        # A defect causes an incident, and another after each repair that left it: 1 / (1 - stays) in all. In
        # the long run as many appear as are repaired, which gives the share of nodes with one at any time.
        if not stays < 1:
            raise SelectorError(
                "where no repair helps (--stays 1), no rate of new defects gives a history's incidents"
            )
        wear = (1 - stays) / own.mtbi
        initial = min(1.0, (1 / manifest + world.repair_hours) / own.mtbi)
    rates = replace(
        rates,
        wear=wear if own.wear is None else 1 / own.wear,
        manifest=manifest,
        stays=stays,
        initial=initial if own.initial is None else own.initial,
    )
    return replace(world, rates=rates, benchmark_hours=hours)


def own_of(
    fleet: FleetHistory, now: float, tests: Mapping[str, tuple[float, float]] | None = None
) -> OwnFleet:
    """Return the durations and defects of benchmarks, and the rate of incidents, that a history knows.

    Every benchmark gets one defect more than it found, so that those without any count too. How many
    incidents followed a repair that left the cause is unknown: `with_own` takes that from the scenario.
    `now` is in seconds since 1970; `tests` are those of `OwnFleet`, None takes them from the history.

    Raises:
        SelectorError: It needs to know benchmarks' durations, and knows none.
    """
    hours = sum(max(0.0, fleet.gone.get(n.name, now) - n.since) for n in fleet.nodes) / 3600
    mtbi = hours / len(fleet.incidents) if fleet.incidents and hours > 0 else None
    if tests is not None:
        return OwnFleet(tests=tests, mtbi=mtbi)
    found: Counter[str] = Counter()
    for defect in fleet.defects:
        if defect.state != "false alarm":
            found.update(name for name in defect.benchmarks if name in fleet.durations)
    if not fleet.durations or not sum(fleet.durations.values()) > 0:
        raise SelectorError(
            "the history knows no benchmark's duration; run 'pytest --anubis suites/' first, or give "
            "--costs FILE"
        )
    return OwnFleet(
        tests={name: (1.0 + found[name], took / 3600) for name, took in fleet.durations.items()},
        mtbi=mtbi,
    )


def scenario(name: str, *, kind_known: bool = False) -> Scenario:
    """Return a scenario; `kind_known` lets policies see the kind of an incident.

    ``A``: fast wear, half of the repairs help. ``B``: slow wear, defects persist. ``C``: slower still.

    Raises:
        SelectorError: There is no such scenario.
    """
    if name not in _SCENARIOS:
        raise SelectorError(f"scenario {name[:20]!r} is none of {', '.join(_SCENARIOS)}")
    wear, manifest, removes = _SCENARIOS[name]
    rates = np.array([rate for rate, _ in BUILD_OUT.values()])
    return Scenario(
        rates=DefectRates(
            wear=1 / wear,
            manifest=1 / manifest,
            stays=1 - removes,
            initial=DEFECTIVE,
            shares=rates / rates.sum(),
        ),
        benchmark_hours=np.array([minutes / 60 for _, minutes in BUILD_OUT.values()]),
        kind_known=kind_known,
    )
