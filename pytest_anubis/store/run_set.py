"""What was read of many runs: populations, the runs themselves, and what takes no part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.sample import Population


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRun:
    """A run that takes no part, and why.

    Attributes:
        run: Its id, empty when the file could not be read at all.
        node: Its node.
        path: Its file.
        reason: One sentence.
        damaged: The file could not be read: nobody knows which node is missing.
    """

    run: str
    node: str
    path: str
    reason: str
    damaged: bool = False

    @property
    def line(self) -> str:
        """The file and why, as one line."""
        return self.reason if self.reason.startswith(self.path) else f"{self.path}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSet:
    """Everything that was read.

    Attributes:
        populations: One per hardware class, benchmark, metric and group, sorted.
        runs: The runs read, without their measurements, verdicts and events other than their waivers.
        refused: Runs and files that take no part, with reasons.
        unmeasured: (run, node) -> tests that recorded nothing and fit into no population.
        journals: The runs among them that come from journals, complete but for the values of their samples.
        warnings: What was wrong inside the files, one line each.
    """

    populations: tuple[Population, ...] = ()
    runs: tuple[RunRecord, ...] = ()
    refused: tuple[RefusedRun, ...] = ()
    journals: tuple[RunRecord, ...] = ()
    unmeasured: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def classes(self) -> dict[str, Mapping[str, str]]:
        """Hardware class -> its attributes, as the first run that has any tells them."""
        found: dict[str, Mapping[str, str]] = {}
        for run in self.runs:
            if not found.get(run.hardware_class):
                found[run.hardware_class] = run.attributes
        return found
