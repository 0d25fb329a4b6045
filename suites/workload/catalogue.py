"""What runs where: one row for each network, and the tests' parameters from it.

PYTEST_DONT_REWRITE: read at collection, so nothing here loads torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

Task = Literal["pictures", "sequences", "texts", "language", "clicks", "volumes", "maps", "events"]
Step = Literal[
    "training", "bits", "inference", "prefill", "decode", "token", "parallel", "pipeline"
]
TOGETHER: tuple[Step, ...] = ("parallel", "pipeline")
"""What all devices of a node do together."""

FLOATS = ("float32", "bfloat16", "float16")
LONG = ("standard", "soak")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """One batch.

    Attributes:
        batch: Examples.
        length: Length of each axis of a picture, map or volume, tokens of a text, elements of a sequence.
    """

    batch: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One network, and how it is run.

    Attributes:
        name: As it is known; part of the tests' ids.
        family: Module in `suites.workload.models`.
        task: What it learns: ``pictures``, ``sequences`` of numbers and ``texts`` are classified, a
            ``language`` is continued; ``clicks`` are foreseen from counts and rows of tables, parameters read
            from ``volumes``, ``maps`` made anew with the kind of every place, ``events`` of a detector
            classified.
        shape: What its ``build`` takes.
        parameters: How many the reference has, its classifier of texts not counted.
        cards: Batch on an accelerator, halved until it fits; None if it does not run there.
        cpu: Batch on a CPU; None if it takes too long there.
        served: Sizes of inference on an accelerator and on a CPU.
        dtypes: Element types on accelerators, of those that the hardware has.
        dtypes_cpu: Element types on a CPU, of those that it has.
        steps: What is done with it on accelerators.
        steps_cpu: What is done with it on a CPU.
        smoke: What of this belongs to the profile ``smoke`` of accelerators too.
        usual: Element types that the profile ``standard`` of accelerators takes, of `dtypes`: the others are
            left to ``soak``, where their units and kernels are not the ones that another network loads.
        usual_steps: What of `steps` the profile ``standard`` does; None: all of it.
        between: It lies between two others of its kind, so that it belongs to the profile ``soak`` only.
        light: Weights, gradients and state in the low type itself, trained without momentum: what a network
            needs that fills a card with its weights alone.
        tolerances: Largest relative error of the gradient by element type, where it is not
            `test_training_steps.GRADIENT_TOLERANCE`.
    """

    name: str
    family: str
    task: Task
    shape: Mapping[str, int]
    parameters: int
    cards: Sizes | None = None
    cpu: Sizes | None = None
    served: Mapping[str, Sizes] = field(default_factory=dict)
    dtypes: tuple[str, ...] = ("float32", "bfloat16")
    dtypes_cpu: tuple[str, ...] = ("float32",)
    steps: tuple[Step, ...] = ()
    steps_cpu: tuple[Step, ...] = ()
    smoke: tuple[Step, ...] = ()
    usual: tuple[str, ...] = ("bfloat16",)
    usual_steps: tuple[Step, ...] | None = None
    between: bool = False
    light: bool = False
    tolerances: Mapping[str, float] = field(default_factory=dict)

    def long(self, step: Step, dtype: str) -> bool:
        """Say whether a step in an element type is left to the profile ``soak`` on accelerators."""
        if dtype not in self.types(step, "card"):
            return False
        kept = self.usual_steps is None or step in self.usual_steps
        # Served, and checked, in the type that everybody takes.
        types = self.usual if step == "training" else ("bfloat16",)
        return self.between or not kept or dtype not in types

    @property
    def unit(self) -> str:
        """What is counted."""
        return "tokens/s" if self.task == "language" else "samples/s"

    def types(self, step: Step, kind: str) -> tuple[str, ...]:
        """Return the element types in which a step is made on a kind of device, if it is made there."""
        steps, dtypes = (
            (self.steps, self.dtypes) if kind != "cpu" else (self.steps_cpu, self.dtypes_cpu)
        )
        if step not in steps:
            return ()
        # Together they work in the type that everybody works in.
        return dtypes if step not in TOGETHER else ("bfloat16" if kind != "cpu" else "float32",)

    def __repr__(self) -> str:
        """Say the name only: pytest shows it where a test fails."""
        return self.name


PICTURES: dict[str, Any] = {
    "task": "pictures",
    "cards": Sizes(batch=128, length=224),
    "served": {"card": Sizes(batch=128, length=224), "cpu": Sizes(batch=4, length=64)},
    "steps": ("training", "bits", "inference"),
}
"""On cards as in ImageNet; SuperBench's batches are 128 on H100 and MI300X."""

TEXTS: dict[str, Any] = {
    "task": "texts",
    "family": "encoder",
    "cards": Sizes(batch=64, length=512),
    "served": {"card": Sizes(batch=64, length=512), "cpu": Sizes(batch=1, length=64)},
}
LANGUAGE: dict[str, Any] = {
    "task": "language",
    "cards": Sizes(batch=16, length=1024),
    "served": {"card": Sizes(batch=16, length=1023), "cpu": Sizes(batch=4, length=127)},
    "steps": ("training", "bits", "prefill", "decode", "token"),
}
"""Served with one place less, which is the decoded token's."""

SMALL = {"width": 256, "heads": 8, "kept": 2, "inner": 704, "vocabulary": 4096}
"""Of a Llama for CPUs: four heads of the queries share one of the keys, as in the large ones."""

SCIENCE: dict[str, Any] = {
    "usual_steps": (),  # the other kernels that they reach are reached in long runs
    "steps": ("training", "bits", "inference", "parallel"),
}

CATALOGUE = (
    Workload(
        name="resnet50",
        family="residual",
        shape={"layers": 50},
        parameters=25_557_032,
        cpu=Sizes(batch=4, length=64),
        dtypes=FLOATS,
        usual=("float32", "bfloat16"),
        **{**PICTURES, "steps": (*PICTURES["steps"], "parallel")},
        steps_cpu=("training", "inference"),
    ),
    *(
        Workload(
            name=f"resnet{layers}",
            family="residual",
            shape={"layers": layers},
            parameters=parameters,
            between=layers in (101, 152),
            **PICTURES,
        )
        for layers, parameters in ((101, 44_549_160), (152, 60_192_808))
    ),
    *(
        Workload(
            name=f"densenet{layers}",
            family="dense",
            shape={"layers": layers},
            parameters=parameters,
            between=layers == 169,
            # Many small layers: their gradients come in many small parts.
            **{
                **PICTURES,
                "steps": (*PICTURES["steps"], *(("parallel",) if layers == 201 else ())),
            },
        )
        for layers, parameters in ((169, 14_149_480), (201, 20_013_928))
    ),
    *(
        Workload(
            name=f"vgg{layers}",
            family="plain",
            shape={"layers": layers},
            parameters=parameters,
            between=layers < 19,
            # Most numbers of all for little computing: the exchange is hardest to hide.
            **{**PICTURES, "steps": (*PICTURES["steps"], *(("parallel",) if layers == 19 else ()))},
        )
        for layers, parameters in (
            (11, 132_863_336),
            (13, 133_047_848),
            (16, 138_357_544),
            (19, 143_667_240),
        )
    ),
    Workload(
        name="lstm",
        family="recurrent",
        task="sequences",
        shape={"inputs": 256, "width": 1024, "layers": 8, "classes": 100},
        parameters=64_131_172,
        cards=Sizes(batch=224, length=512),
        served={"card": Sizes(batch=224, length=512), "cpu": Sizes(batch=4, length=16)},
        steps=(
            "training",
            "inference",
            "parallel",
        ),  # not "bits": cuDNN's recurrent kernels sum in several streams
        steps_cpu=("inference",),
    ),
    Workload(
        name="bert-base",
        shape={"width": 768, "layers": 12, "heads": 12, "classes": 100},
        parameters=109_482_240,
        between=True,
        **TEXTS,
        steps=("training", "bits", "inference"),
    ),
    Workload(
        name="bert-large",
        shape={"width": 1024, "layers": 24, "heads": 16, "classes": 100},
        parameters=335_141_888,
        dtypes=FLOATS,
        usual=("bfloat16", "float16"),
        **TEXTS,
        steps=("training", "bits", "inference", "parallel"),
    ),
    Workload(
        name="gpt2",
        family="decoder",
        shape={"width": 768, "layers": 12, "heads": 12},
        parameters=124_439_808,
        cpu=Sizes(batch=1, length=64),
        usual_steps=("training", "bits"),
        **LANGUAGE,
        steps_cpu=("training",),
    ),
    Workload(
        name="gpt2-large",
        family="decoder",
        shape={"width": 1280, "layers": 36, "heads": 20},
        parameters=774_030_080,
        usual_steps=("training", "parallel"),
        **{**LANGUAGE, "steps": (*LANGUAGE["steps"], "parallel")},
    ),
    Workload(
        name="llama-small",
        family="llama",
        shape={**SMALL, "layers": 4},
        parameters=4_917_504,
        cpu=Sizes(batch=4, length=128),
        dtypes_cpu=("float32", "bfloat16"),
        usual_steps=(),  # but for what `smoke` has
        **{**LANGUAGE, "steps": ("token",)},
        steps_cpu=(
            "training",
            "bits",
            "prefill",
            "decode",
            "token",
            "parallel",
            "pipeline",
        ),
        smoke=("token",),
    ),
    Workload(
        name="llama-1b",
        family="llama",
        shape={"width": 2048, "layers": 22, "heads": 32, "kept": 4, "inner": 5632},
        parameters=1_100_048_384,
        **{
            **LANGUAGE,
            "dtypes": FLOATS[1:],
            "steps": (*LANGUAGE["steps"], "parallel"),
        },
    ),
    Workload(
        name="llama2-7b",
        family="llama",
        shape={"width": 4096, "layers": 32, "heads": 32, "kept": 32, "inner": 11008},
        parameters=6_738_415_616,
        light=True,
        **{
            **LANGUAGE,
            "cards": Sizes(batch=4, length=1024),
            "dtypes": ("bfloat16",),
            "steps": ("training", "prefill", "decode", "token"),
        },
    ),
    *(
        Workload(
            name=name,
            family="llama",
            shape=shape,
            parameters=parameters,
            between=name == "llama2-70b",
            light=True,
            # Two texts at a time: products as large as a card needs for its rate.
            **{
                **LANGUAGE,
                "cards": Sizes(batch=2, length=1024),
                "dtypes": ("bfloat16",),
                "steps": ("pipeline",),
            },
        )
        for name, parameters, shape in (
            (
                "llama2-13b",
                13_015_864_320,
                {"width": 5120, "layers": 40, "heads": 40, "kept": 40, "inner": 13824},
            ),
            (
                "llama2-70b",
                68_976_648_192,
                {"width": 8192, "layers": 80, "heads": 64, "kept": 8, "inner": 28672},
            ),
        )
    ),
    Workload(
        name="experts-small",
        family="llama",
        shape={**SMALL, "layers": 2, "experts": 8},
        parameters=11_080_960,
        cpu=Sizes(batch=4, length=128),
        task="language",
        steps_cpu=("training", "bits"),
    ),
    Workload(
        name="experts-800m",
        family="llama",
        shape={
            "width": 1024,
            "layers": 8,
            "heads": 16,
            "kept": 4,
            "inner": 3584,
            "experts": 8,
        },
        parameters=791_233_536,
        **{
            **LANGUAGE,
            "dtypes": ("bfloat16",),
            "steps": (*LANGUAGE["steps"], "parallel"),
        },
    ),
    Workload(
        name="dlrm",
        family="recommendation",
        task="clicks",
        shape={"width": 16, "most_rows": 40_000_000},
        parameters=540_677_217,
        cards=Sizes(batch=8192, length=1),
        served={"card": Sizes(batch=8192, length=1)},
        usual_steps=("training",),  # whole tables are exchanged by few who train it
        steps=("training", "bits", "inference", "parallel"),
    ),
    Workload(
        name="cosmoflow",
        family="cosmoflow",
        task="volumes",
        shape={"channels": 4, "width": 32, "outputs": 4},
        parameters=8_907_556,
        cards=Sizes(batch=8, length=128),
        served={"card": Sizes(batch=8, length=128)},
        # not "bits": pooling in three dimensions adds its gradients in any order on accelerators
        **{**SCIENCE, "steps": ("training", "inference", "parallel")},
    ),
    Workload(
        name="climate",
        family="climate",
        task="maps",
        shape={"channels": 16, "width": 64, "stages": 5},
        parameters=34_993_363,
        cards=Sizes(batch=8, length=768),
        served={"card": Sizes(batch=8, length=768)},
        **SCIENCE,
    ),
    Workload(
        name="hep",
        family="hep",
        task="events",
        shape={"width": 128, "layers": 5, "classes": 2},
        parameters=594_178,
        cards=Sizes(batch=128, length=224),
        served={"card": Sizes(batch=128, length=224)},
        **SCIENCE,
    ),
)
"""Names and shapes are those of the references; ``-small`` is ours, of the same architecture, for CPUs; so
are the widths of ``climate``."""

BY_NAME = {workload.name: workload for workload in CATALOGUE}


SMOKE_COST: dict[Step, str] = {"token": "2s"}

ELSEWHERE = "0.1s"
"""Of a test that says that it is for the other kind of device."""

SOAK_COST = "12min"
"""On an accelerator, of what belongs to ``soak`` only: its plan is 600 rounds of a second, and a minute until
the card has settled."""
SOAK_BITS_COST = "15s"
"""Of the same where nothing is timed."""


def runs(step: Step, *, cost: str, cards: str) -> list[Any]:
    """Return a parameter for each network and element type in which a step is made on any kind of device.

    Args:
        step: What is done.
        cost: How long it takes on a CPU in the profile ``standard``, as the mark's ``cost`` says it.
        cards: The same on an accelerator.
    """
    found = []
    for workload in CATALOGUE:
        dtypes = (*workload.types(step, "card"), *workload.types(step, "cpu"))
        for dtype in dict.fromkeys(dtypes):
            profiles: tuple[str, ...] = LONG
            there: str | dict[int, str] = cards
            if step in workload.smoke and dtype == dtypes[0]:
                profiles, there = ("smoke", *LONG), SMOKE_COST[step]
            elif workload.long(step, dtype):
                profiles, there = ("soak",), SOAK_BITS_COST if step == "bits" else SOAK_COST
            elif dtype not in workload.types(step, "card"):
                there = ELSEWHERE
            if step in TOGETHER:  # a card alone exchanges nothing
                there = {1: ELSEWHERE, 2: str(there)}
            here = cost if dtype in workload.types(step, "cpu") else ELSEWHERE
            marks = pytest.mark.anubis(
                cost={"cpu": here, "accelerator": there},
                profiles={"cpu": LONG, "accelerator": profiles},
            )
            found.append(pytest.param(workload, dtype, id=f"{workload.name}-{dtype}", marks=marks))
    return found


def require_step(workload: Workload, step: Step, dtype: str, kind: str) -> None:
    """Leave the test out, as not applicable, where a step is not made on this kind of device in this type."""
    if dtype in workload.types(step, kind):
        return
    # The same words for all of them: a report folds them into one line.
    if not workload.types(step, kind):
        where = "accelerators" if kind == "cpu" else "a CPU"
        pytest.skip(f"not applicable: this step of such a network is made on {where} only")
    pytest.skip(f"not applicable: {dtype} is not measured with this network on this kind of device")
