"""A group of ranks on this machine whose exchanges have the patterns of whole trainings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_anubis.benchmarking.children import Message
from pytest_anubis.benchmarking.ranks import START, NodeRanks
from pytest_anubis.benchmarking.tier_schedule import Stage, Tier, schedule, timeline
from suites.traffic.exchange_order import cut, first_come, first_needed, ready_times

MODULE = "suites.traffic.rank"

LOADED = {"cpu": 0.06, "cuda": 0.3}
"""Seconds that a round lasts, at least: single steps vary with the scheduling of the ranks."""

PARTS = (1, 2, 4)
"""Parts into which the rows of experts may be cut, so that one travels while another is worked on."""

CHUNKS = 48
"""Chunks of a network's gradients, about: small enough to overtake, large enough for a link's rate."""

LATE = 1.6
"""Products take longer while chunks travel: planned without that, the link waits for late gradients."""

SMALL = {"width": 32, "inner": 48, "tokens": 96}
"""The layer of experts that is compared with a loop over its tokens."""


def groups_of(world: int) -> int:
    """Return how many groups of neighbours there are: two equal halves where there are four ranks or more."""
    return 2 if world >= 4 and world % 2 == 0 else 1


@dataclass(frozen=True, slots=True)
class Way:
    """How rows travel to experts and back.

    Attributes:
        steps: 1: directly; 2: within groups of ranks, then across.
        parts: How many parts of them, one behind the other.
    """

    steps: int
    parts: int

    def __str__(self) -> str:
        """Return it in words."""
        parts = f"{self.parts} part{'s' if self.parts > 1 else ''}"
        return f"{'directly' if self.steps == 1 else 'in two steps'} in {parts}"


@dataclass(frozen=True, slots=True)
class PartTimes:
    """Seconds of a layer of experts or a step of spread tables, each that of the slowest rank.

    Attributes:
        alone: Without the exchange.
        exchange: Without the experts, or without lookups and updates.
        together: As it is used.
    """

    alone: float
    exchange: float
    together: float

    @property
    def stretch(self) -> float:
        """Time of the layer over that of its longer part: 1 hides the shorter (`Overlap.stretch`)."""
        return self.together / max(self.alone, self.exchange)


@dataclass(frozen=True, slots=True)
class Orders:
    """In which order chunks of gradients are exchanged, each order as the bucket of every chunk.

    Attributes:
        first_come: First in, first out.
        first_needed: By priority.
        products: Seconds of a step without exchange, as planned with.
        exchange: Seconds of its exchange alone, likewise.
    """

    first_come: list[int]
    first_needed: list[int]
    products: float
    exchange: float


@dataclass(frozen=True, slots=True)
class TierTimes:
    """Seconds of an all-reduce over two tiers, each that of the slowest rank.

    Attributes:
        within: The collectives within groups of ranks alone.
        across: Those across groups alone.
        together: All of them, as they are planned.
    """

    within: float
    across: float
    together: float

    @property
    def stretch(self) -> float:
        """Time of both over that of the longer one: 1 hides the shorter (`Overlap.stretch`)."""
        return self.together / max(self.within, self.across)


@dataclass(frozen=True, slots=True)
class JobTimes:
    """Seconds of a step of both of two jobs, each that of the slowest rank.

    Attributes:
        apart: One job after the other.
        in_turns: One computes while the other exchanges.
    """

    apart: float
    in_turns: float

    @property
    def gain(self) -> float:
        """How many times as long one after the other takes: 1 gains nothing, 2 hides all exchanges."""
        return self.apart / self.in_turns


def quickest(seconds: Mapping[Way, Sequence[float]]) -> Way:
    """Return the way with the least seconds of all that were taken in turns: neighbours slow no minimum."""
    return min(seconds, key=lambda way: min(seconds[way]))


class TrafficGroup(NodeRanks):
    """Ranks that exchange in patterns; a request raises `ChildError` where one failed or is late."""

    module = MODULE

    @property
    def loaded(self) -> float:
        """Seconds that a round lasts, at least."""
        return LOADED["cuda" if self.on_accelerators else "cpu"]

    def ways(self) -> list[Way]:
        """Return the ways to experts that there are between so many ranks."""
        steps = (1, 2) if groups_of(self.world) > 1 else (1,)
        return [Way(step, parts) for step in steps for parts in PARTS]

    def prepare_experts(self, *, width: int, inner: int, tokens: int, dtype: str) -> int:
        """Make a layer of experts; return the bytes that each rank sends to others in it, there and back."""
        request = {"width": width, "inner": inner, "tokens": tokens, "dtype": dtype}
        answers = self.ask_all("prepare_experts", timeout=START, **request)
        return 2 * int(answers[0]["bytes"])

    def layer_seconds(self, way: Way, times: int = 1) -> float:
        """Return the seconds of the layer in one way, the mean of so many times."""
        return self._slowest("time_experts", ["together"], times, way)["together"]

    def layer(self, way: Way, times: int = 1) -> PartTimes:
        """Return the seconds of the layer's three forms in one way."""
        forms = ["alone", "exchange", "together"]
        return PartTimes(**self._slowest("time_experts", forms, times, way))

    def check_experts(self, way: Way) -> tuple[dict[str, float], int]:
        """Return the largest error of a small layer by element type, and how many numbers went astray."""
        request: dict[str, object] = {"steps": way.steps, "parts": way.parts}
        answers = self.ask_all("check_experts", timeout=START, **request)
        kinds = answers[0]["off"]
        off = {kind: max(float(answer["off"][kind]) for answer in answers) for kind in kinds}
        return off, sum(answer["wrong"] for answer in answers)

    def prepare_layers(
        self, network: str, *, size: int, products: int, order: int, dtype: str, warm: int
    ) -> Orders:
        """Make the gradients and products of a network's training step; return how they may be exchanged.

        Args:
            network: A network of pictures in the catalogue.
            size: Bytes that its gradients are scaled to; 0: as they are.
            products: Matrix products of a forward pass.
            order: Rows and columns of their matrices.
            dtype: Their type.
            warm: Steps from which the order is planned.
        """
        from suites.traffic.buckets import buckets_of, shared_out

        buckets = buckets_of(network)
        total = sum(bucket.numbers for bucket in buckets)
        scale = size / (4 * total) if size else 1.0
        numbers = [max(1, round(bucket.numbers * scale)) for bucket in buckets]
        counts = shared_out([bucket.work for bucket in buckets], products)
        chunk = -(-sum(numbers) // CHUNKS)
        self.ask_all(
            "prepare_layers",
            timeout=START,
            numbers=numbers,
            products=counts,
            chunk=chunk,
            size=order,
            dtype=dtype,
        )
        parts = [self.layered_parts() for _ in range(warm)]
        work, traffic = (min(some) for some in zip(*parts, strict=True))
        chunks = [cut(count, chunk) for count in numbers]
        ready = ready_times(counts, LATE * work / (3 * sum(counts)))
        planned = first_needed(chunks, ready, traffic / sum(numbers))
        return Orders(first_come(chunks), planned, work, traffic)

    def layered_parts(self) -> tuple[float, float]:
        """Return the seconds of a training step's products alone, and of its exchange alone."""
        taken = self._slowest("time_layers", ["products", "exchange"], 1, order=[])
        return taken["products"], taken["exchange"]

    def layered_step(self, order: Sequence[int], times: int = 1) -> float:
        """Return the seconds of a training step that exchanges its gradients in an order."""
        return self._slowest("time_layers", ["step"], times, order=list(order))["step"]

    def wrong_in_layers(self, order: Sequence[int]) -> int:
        """Return how many sums and rows of a product are wrong on any rank after a step."""
        answers = self.ask_all("check_layers", timeout=START, order=list(order))
        return sum(answer["wrong"] for answer in answers)

    def prepare_tiers(self, size: int, chunks: int, warm: int) -> tuple[list[Tier], list[Stage]]:
        """Make a buffer of `size` bytes in chunks; return both tiers, as they were seen, and a schedule.

        Args:
            size: Bytes, fewer where a device has no room, and a whole number for every rank and chunk.
            chunks: How many.
            warm: Values of each tier alone, by which the chunks are shared out.
        """
        room = self.ask_all("fit_tiers", timeout=START, bytes=size)
        size = min(int(answer["bytes"]) for answer in room)
        answers = self.ask_all("prepare_tiers", timeout=START, bytes=size, chunks=chunks)
        size = int(answers[0]["bytes"])
        groups = groups_of(self.world)
        equal = [Tier(self.world // groups, 1.0), Tier(groups, 1.0)]
        stages = timeline(equal, size, ([(0, 1), (1, 0)] * chunks)[:chunks])
        taken = [self.tiers(stages) for _ in range(warm)]
        seconds = (min(one.within for one in taken), min(one.across for one in taken))
        seen = []
        for number, tier in enumerate(equal):
            carried = sum(stage.bytes for stage in stages if stage.tier == number)
            seen.append(Tier(tier.ranks, carried / seconds[number]))
        return seen, schedule(seen, size, chunks)

    def tiers(self, stages: Sequence[Stage], times: int = 1) -> TierTimes:
        """Return the seconds of an all-reduce by its stages, and of each tier's alone."""
        forms = ["within", "across", "together"]
        return TierTimes(**self._slowest("time_tiers", forms, times, stages=_listed(stages)))

    def wrong_in_tiers(self, stages: Sequence[Stage]) -> int:
        """Return how many sums are wrong on any rank when known numbers are reduced by these stages."""
        answers = self.ask_all("check_tiers", timeout=START, stages=_listed(stages))
        return sum(answer["wrong"] for answer in answers)

    def prepare_jobs(self, *, size: int, batches: int, dtype: str) -> None:
        """Make two trainings on every rank, of matrices of a `size` and so many `batches` a step."""
        self.ask_all("prepare_jobs", timeout=START, size=size, batches=batches, dtype=dtype)

    def jobs(self, steps: int) -> JobTimes:
        """Return the seconds of a step of both jobs, the mean of so many, apart and in turns."""
        return JobTimes(**self._slowest("time_jobs", ["apart", "in_turns"], steps))

    def jobs_in_turns(self, steps: int) -> float:
        """Return the seconds of a step of both jobs in turns, the mean of so many."""
        return self._slowest("time_jobs", ["in_turns"], steps)["in_turns"]

    def parts_of_jobs(self, steps: int) -> tuple[float, float]:
        """Return the seconds in which one job computes, and in which it exchanges, in a step."""
        taken = self._slowest("time_jobs", ["computing", "exchange"], steps)
        return taken["computing"] / 2, taken["exchange"] / 2

    def check_jobs(self, steps: int) -> list[Message]:
        """Return every rank's bits and losses of fresh jobs in turns and alone (`JobTraffic.check_jobs`)."""
        return self.ask_all("check_jobs", timeout=START, steps=steps)

    def prepare_tables(
        self, places: Sequence[int], *, rows: int, samples: int, **shape: object
    ) -> int:
        """Make tables, each on its rank or by rows; return the samples of a step for which there is room.

        Args:
            places: Ranks, or `recommendation.placement.BY_ROWS`.
            rows: Of a table, fewer where a device has no room.
            samples: Of a step, likewise.
            **shape: The rest of `recommendation.tables.Shape`.
        """
        whole = {"rows": rows, "samples": samples, **shape}
        answers = self.ask_all("fit_tables", timeout=START, **whole)
        times = max(int(answer["times"]) for answer in answers)
        fitted = {"rows": rows // times, "samples": samples // times, **shape}
        self.ask_all("prepare_tables", timeout=START, places=list(places), **fitted)
        return samples // times

    def tables(self, times: int = 1) -> PartTimes:
        """Return the seconds of a step of spread tables, the mean of so many, in its three forms."""
        return PartTimes(**self._slowest("time_tables", ["alone", "exchange", "together"], times))

    def wrong_rows(self) -> list[str]:
        """Return which rows of each rank's tables are wrong when what timed steps learned is taken back."""
        answers = self.ask_all("wrong_rows", timeout=START)
        return [answer["wrong"] for answer in answers if answer["wrong"]]

    def check_tables(self, places: Sequence[int], samples: int) -> tuple[int, int]:
        """Return how many sums of small spread tables are wrong, and the bits of all after their updates."""
        request = {"places": list(places), "samples": samples}
        answers = self.ask_all("check_tables", timeout=START, **request)
        bits = sum(int(answer["bits"]) for answer in answers)
        return max(answer["wrong"] for answer in answers), bits % (1 << 64)

    def _slowest(
        self, do: str, forms: list[str], times: int, way: Way | None = None, **more: object
    ) -> dict[str, float]:
        """Ask for the seconds of some forms; return those of the slowest rank."""
        if way is not None:
            more |= {"steps": way.steps, "parts": way.parts}
        answers = self.ask_all(do, timeout=None, forms=forms, times=times, **more)
        return {form: max(float(answer[form]) for answer in answers) for form in forms}


def _listed(stages: Sequence[Stage]) -> list[list[int]]:
    """Return stages as ranks take them: chunk, tier, and 1 where sums are gathered."""
    return [[stage.chunk, stage.tier, int(stage.gathers)] for stage in stages]
