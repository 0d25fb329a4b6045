"""A training by all devices of a node together: each rank has its part of the batch, all the same weights."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_anubis.benchmarking.ranks import START, NodeRanks
from suites.workload.running import NoRoomError

MODULE = "suites.workload.data_parallel_rank"


@dataclass(frozen=True, slots=True)
class Together:
    """Seconds of a step.

    Attributes:
        each: Of every rank, without exchanging gradients, so that none waits for another.
        together: As it is trained, with their exchange: of the slowest rank.
    """

    each: tuple[float, ...]
    together: float

    @property
    def alone(self) -> float:
        """Seconds of the slowest rank without the exchange."""
        return max(self.each)

    @property
    def stretch(self) -> float:
        """How many times as long a step takes with the exchange of gradients: 1 hides it completely."""
        return self.together / self.alone


class TrainingGroup(NodeRanks):
    """Ranks that train one network together; a request raises `ChildError` where one failed or is late."""

    module = MODULE

    @property
    def kind(self) -> str:
        """``cuda`` or ``cpu``."""
        return "cuda" if self.on_accelerators else "cpu"

    def fitting(self, workload: str) -> int:
        """Return how many examples of a network every rank's device has room for.

        Raises:
            NoRoomError: A device has no room for the network.
        """
        answers = self.ask_all("fit", timeout=START, workload=workload)
        for answer in answers:
            if "why" in answer:
                raise NoRoomError(answer["why"])
        return min(int(answer["batch"]) for answer in answers)

    def prepare(self, workload: str, dtype: str, batch: int) -> int:
        """Make the network on every rank; return the examples of a step of all ranks together."""
        self.ask_all("prepare", timeout=START, workload=workload, dtype=dtype, batch=batch)
        return batch * self.world

    def gradient_error(self, workload: str) -> float:
        """Return how far any rank's exchanged gradient is off that of all parts in double precision."""
        answers = self.ask_all("gradient", timeout=START, workload=workload)
        return max(float(answer["off"]) for answer in answers)

    def step(self, steps: int = 1) -> Together:
        """Make so many steps without and with the exchange of gradients."""
        answers = self.ask_all("step", steps=steps)
        each = tuple(float(answer["alone"]) for answer in answers)
        return Together(each, max(float(answer["together"]) for answer in answers))

    def outcome(self) -> list[tuple[int, float, float]]:
        """Return of each rank the fingerprint of its weights, its first and its newest loss."""
        answers = self.ask_all("outcome", timeout=START)
        return [(int(one["weights"]), float(one["first"]), float(one["last"])) for one in answers]
