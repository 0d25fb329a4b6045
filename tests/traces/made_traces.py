"""Traces for tests: one written by hand in both forms, and one that torch records of a small network."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

MM = "aten::mm(Tensor self, Tensor mat2) -> Tensor"


def tensor(number: int, *shape: int) -> tuple[list[Any], list[int], str]:
    """Return value, shape and type of a tensor of single precision as a trace has them."""
    value = [number, number + 100, 0, math.prod(shape), 4, "cpu"]
    return value, list(shape), "Tensor(float)"


def node(
    number: int,
    name: str,
    schema: str = "",
    inputs: tuple[Any, ...] = (),
    outputs: tuple[Any, ...] = (),
    parent: int = 1,
    *,
    flat: bool = False,
) -> dict[str, Any]:
    """Return a node as schema 1.1.0 (nested) or 1.0.1 (flat) has it."""
    sides: dict[str, Any] = {}
    for side, given in (("input", inputs), ("output", outputs)):
        values, shapes, types = ([one[place] for one in given] for place in range(3))
        if flat:
            sides |= {f"{side}s": values, f"{side}_shapes": shapes, f"{side}_types": types}
        else:
            sides[f"{side}s"] = {"values": values, "shapes": shapes, "types": types}
    if flat:
        head = {"id": number, "name": name, "parent": parent, "op_schema": schema, "tid": 1}
        return head | sides
    attrs = [{"name": "op_schema", "type": "string", "value": schema}]
    return {"id": number, "name": name, "ctrl_deps": parent, "attrs": attrs, **sides}


def two_products(*, flat: bool = False, size: int = 8) -> dict[str, Any]:
    """Return a trace of two products, the second of which uses the first's result, below one label."""
    first = (tensor(11, size, size), tensor(12, size, size))
    second = (tensor(13, size, size), tensor(12, size, size))
    nodes = [
        node(1, "[process]", flat=flat),
        node(2, "my secret module", flat=flat),
        node(3, "aten::mm", MM, first, (tensor(13, size, size),), parent=2, flat=flat),
        node(4, "aten::mm", MM, second, (tensor(14, size, size),), parent=2, flat=flat),
    ]
    return {"schema": "1.0.1" if flat else "1.1.0-chakra.0.0.4", "pid": 1, "nodes": nodes}


def write(folder: Path, data: Any, name: str = "job.trace.json") -> Path:
    """Write a trace into a folder; return its path."""
    path = folder / name
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


@cache
def recorded_step() -> str:
    """Return the JSON of two training steps of a small convolutional network, recorded once."""
    import torch
    from torch import nn

    from pytest_anubis.benchmarking.replay.trace_recording import recording

    torch.manual_seed(1)
    convolution = (nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
    model = nn.Sequential(*convolution, nn.Flatten(), nn.Linear(72, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    pictures, kinds = torch.randn(4, 3, 8, 8), torch.randint(0, 10, (4,))

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(pictures), kinds).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    step()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "step.trace.json"
        with recording(path):
            step()
            step()
        return path.read_text(encoding="utf-8")
