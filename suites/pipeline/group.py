"""Ranks on all devices of this node that are the stages of one network, in every rotation."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_anubis.benchmarking.children import Message
from pytest_anubis.benchmarking.ranks import START, NodeRanks
from pytest_anubis.benchmarking.sizes import FREE_SHARE
from suites.pipeline.cutting import NoCutError, best_cut, stage_times, step_time
from suites.pipeline.layers import Chain, Kind, Layer, micro_batch, named
from suites.workload.catalogue import BY_NAME
from suites.workload.running import NoRoomError

MODULE = "suites.pipeline.rank"

BATCHES = 4
"""Micro-batches of a step for each stage: n equal stages then wait for (n - 1) / (5n - 1) of the step."""

SLOW = 1.1
"""Times as long as the median of the others a card has to take for all stages before it is named: what cards
of one kind differ by is less."""

MOSTLY = 2 / 3
"""Share of a rotation's steps in which what binds has to be the slowest: less may be chance."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A network cut into stages.

    Attributes:
        layers: Its layers, each with its cost for one micro-batch.
        rates: FLOP/s of each kind of layer on the median device; the embedding multiplies nothing and has
            none.
        receiving: Seconds in which each rank receives a micro-batch from the one before.
        stages: The layers of each stage.
        times: Seconds of each stage for a micro-batch: its work / rate, and to receive its input.
        batches: Micro-batches of a step.
        tokens: Tokens of a micro-batch.
    """

    layers: list[Layer]
    rates: dict[Kind, float]
    receiving: list[float]
    stages: list[range]
    times: list[float]
    batches: int
    tokens: int

    @property
    def link(self) -> float:
        """Bytes a second that the median rank receives, as planned with."""
        return self.layers[1].takes / statistics.median(self.receiving)

    @property
    def step(self) -> float:
        """Seconds of a step, from the first token to the last scores."""
        return step_time(self.times, self.batches)

    def __str__(self) -> str:
        """Return rates and stages in words."""
        rates = [f"{kind} {rate / 1e12:.3g} TFLOP/s" for kind, rate in self.rates.items()]
        times = [f"{self.words(n)} {1e3 * time:.3g} ms" for n, time in enumerate(self.times)]
        last = self.receiving.index(max(self.receiving))
        slowest = self.layers[1].takes / self.receiving[last]
        links = f"links {self.link / 1e9:.3g} GB/s, the slowest, to rank {last}, {slowest / 1e9:.3g} GB/s"
        return "; ".join([*rates, links, *times])

    def words(self, stage: int) -> str:
        """Return a stage in words."""
        return f"stage {stage} ({named(self.stages[stage], len(self.layers))})"


@dataclass(frozen=True, slots=True)
class StepTimes:
    """What a step of all micro-batches took; times by rank.

    Attributes:
        rotation: Rank r was stage (r + rotation) % n.
        seconds: The slowest rank's, from a common beginning.
        computing: Seconds of the step in which each rank computed.
        taken: Seconds of each rank's stage for one micro-batch: computing, and receiving at its link's rate.
        wrong: What was wrong with any rank's results, a sentence each.
    """

    rotation: int
    seconds: float
    computing: tuple[float, ...]
    taken: tuple[float, ...]
    wrong: tuple[str, ...] = ()

    @property
    def bubble(self) -> float:
        """Share of the stages' time in which they wait: for input, for the link, for the others' end."""
        return 1.0 - statistics.mean(self.computing) / self.seconds


@dataclass(frozen=True, slots=True)
class Binding:
    """What is the slowest in every rotation; at most one of both.

    Attributes:
        stage: The stage, whatever card it is on; None if it is not always the same one.
        card: The rank, whatever stage it is, if it also takes `SLOW` times as long as the others.
        unseen: Number of rotations without a step: nothing is known to be the slowest in every one.
    """

    stage: int | None = None
    card: int | None = None
    unseen: int = 0


def slowest_part(steps: Sequence[StepTimes]) -> Binding:
    """Return what is the slowest in every rotation, in a share `MOSTLY` of its steps or more."""
    world = len(steps[0].taken)
    every = [[step.taken for step in steps if step.rotation == one] for one in range(world)]
    if unseen := every.count([]):
        return Binding(unseen=unseen)
    bound = set()
    times = []
    for rotation, taken in enumerate(every):
        slowest = [one.index(max(one)) for one in taken]
        rank = max(range(world), key=slowest.count)
        if slowest.count(rank) < MOSTLY * len(taken):
            return Binding()
        bound.add((rank, (rank + rotation) % world))
        times.append([statistics.median(some) for some in zip(*taken, strict=True)])
    cards, stages = ({one[part] for one in bound} for part in (0, 1))
    if len(stages) == 1:
        return Binding(stage=stages.pop())
    if len(cards) > 1:
        return Binding()
    card = cards.pop()
    # Each rank was each stage once.
    whole = [sum(some) for some in zip(*times, strict=True)]
    others = statistics.median(one for rank, one in enumerate(whole) if rank != card)
    return Binding(card=card if whole[card] >= SLOW * others else None)


class PipelineGroup(NodeRanks):
    """Ranks that are the stages of a network; a request raises `ChildError` where one failed or is late."""

    module = MODULE
    _plan: Plan
    _uncut: Sequence[list[int]] = ()
    _loaded = -1

    def plan(self, name: str, dtype: str) -> Plan:
        """Measure layers and links with short probes and cut a network of the catalogue for these ranks.

        Raises:
            NoRoomError: The ranks' devices cannot hold the network together.
        """
        sizes = micro_batch(BY_NAME[name], on_accelerators=self.on_accelerators)
        layers = Chain(BY_NAME[name], dtype).costs(sizes)
        batches = BATCHES * self.world
        answers = self.ask_all(
            "prepare", timeout=START, workload=name, dtype=dtype, batches=batches
        )
        memory = min(answer["memory"] for answer in answers)
        # Micro-batches that wait to be sent, and scores of two that are compared and of one that is computed.
        room = batches * layers[1].takes + 4 * layers[-1].gives
        limit = int(FREE_SHARE * memory) - room if memory else None
        whole = sum(layer.weights for layer in layers)
        lacking = (
            f"{name} in {dtype} takes {whole / 1e9:.0f} GB, of which these {self.world} cards of "
            f"{memory / 1e9:.0f} GB each have no room for all"
        )
        if limit is not None and max(layer.weights for layer in layers) > limit:
            raise NoRoomError(lacking)
        probes = self.ask_all("probe", timeout=START)
        rates: dict[Kind, float] = {}
        for number in (1, len(layers) - 1):
            kind = layers[number].kind
            seconds = statistics.median(float(one["seconds"][kind]) for one in probes)
            rates[kind] = layers[number].work / seconds
        receiving = [float(one["link"]) for one in probes]
        computing = [
            layer.work / rates[layer.kind] if layer.kind in rates else 0.0 for layer in layers
        ]
        received = [statistics.median(receiving)] * len(layers)  # blocks take what they give
        try:
            cut = best_cut(
                computing,
                received,
                self.world,
                weights=[layer.weights for layer in layers],
                limit=limit,
            )
        except NoCutError as error:
            raise NoRoomError(lacking) from error
        self._loaded = -1
        self._plan = Plan(
            layers,
            rates,
            receiving,
            cut,
            stage_times(computing, received, cut),
            batches,
            sizes.batch * sizes.length,
        )
        return self._plan

    def uncut(self) -> tuple[list[float], list[str]]:
        """Let each rank compute the whole network alone, layer by layer: what the cut one has to be equal to.

        Returns:
            The largest relative error of each layer's results on any rank, against double precision of what
            the layer took, and a sentence for each rank whose bits are not those of the others.
        """
        answers = self.ask_all("uncut", timeout=START)
        bits = [answer["bits"] for answer in answers]
        usual = max(bits, key=bits.count)
        self._uncut, self._loaded = usual, -1
        found = [
            f"rank {number} computes the uncut network with other bits than the rest"
            for number, one in enumerate(bits)
            if one != usual
        ]
        return [
            max(map(float, some)) for some in zip(*(a["off"] for a in answers), strict=True)
        ], found

    def step(self, rotation: int, *, check: bool = False) -> StepTimes:
        """Pass all micro-batches through the stages in a rotation of the ranks.

        The stages' weights are drawn anew for another rotation than the last one. With `check` the bits of
        every micro-batch are compared, which takes time; else those of the last one of each text.
        """
        plan, world = self._plan, self.world
        rotation %= world
        if self._loaded != rotation:
            cut = [[stage.start, stage.stop] for stage in plan.stages]
            self.ask_all("load", timeout=START, rotation=rotation, stages=cut)
            self._loaded = rotation
        answers = self.ask_all("step", all=check)
        computing = tuple(float(answer["computing"]) for answer in answers)
        first = (-rotation) % world
        taken = tuple(
            seconds / plan.batches + (plan.receiving[rank] if rank != first else 0.0)
            for rank, seconds in enumerate(computing)
        )
        longest = max(float(answer["seconds"]) for answer in answers)
        return StepTimes(rotation, longest, computing, taken, tuple(self._wrong(rotation, answers)))

    def _wrong(self, rotation: int, answers: Sequence[Message]) -> list[str]:
        """Return a sentence for each rank whose bits are not the uncut network's though its input was."""
        plan, uncut, found = self._plan, self._uncut, []
        for stage, layers in enumerate(plan.stages):
            rank = (stage - rotation) % self.world
            mine = answers[rank]
            before = (rank - 1) % self.world
            if stage and mine["received"] != answers[before]["passed"]:
                found.append(f"rank {rank} received other bits than rank {before} sent")
                continue
            right = not stage or mine["received"] == uncut[layers.start - 1]
            if right and mine["passed"] != uncut[layers.stop - 1]:
                found.append(f"rank {rank} as {plan.words(stage)} computed other bits than uncut")
        return found
