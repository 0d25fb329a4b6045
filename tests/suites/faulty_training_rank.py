"""A rank of a training on which a bit flips, where the file says that ``FAULT`` in its environment names."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist

from pytest_anubis.benchmarking.verification import flip_bit
from suites.workload import data_parallel_rank
from suites.workload.catalogue import BY_NAME, Sizes, Workload
from suites.workload.models import dense, plain, residual

FAULT = "ANUBIS_TEST_FAULT"


def spoil(model: torch.nn.Module) -> None:
    """Flip a high bit of one number of the second rank's gradient, or the last bit of one of its weights."""
    fault = Path(os.environ[FAULT]).read_text(encoding="ascii")
    if dist.get_rank() != 1:
        return
    weights = [one for one in model.parameters() if one.ndim > 1][-1]
    if fault == "gradient":
        assert weights.grad is not None
        flip_bit(weights.grad, 5, 30)
    elif fault == "weight":
        flip_bit(weights.data, 5, 0)


_LANGUAGE = {"width": 64, "layers": 2, "heads": 4, "vocabulary": 256}
_LLAMA = {**_LANGUAGE, "kept": 2, "inner": 96}
SHAPES: dict[str, dict[str, int]] = {
    "resnet50": {"layers": 50, "classes": 10},
    "densenet201": {"layers": 201, "classes": 10},
    "vgg19": {"layers": 19, "classes": 10},
    "lstm": {"inputs": 8, "width": 16, "layers": 2, "classes": 10},
    "bert-large": {**_LANGUAGE, "classes": 10},
    "gpt2-large": _LANGUAGE,
    "llama-small": _LLAMA,
    "experts-800m": {**_LLAMA, "experts": 4},
    "dlrm": {"width": 8, "most_rows": 50},
    "cosmoflow": {"channels": 4, "width": 2, "outputs": 4},
    "climate": {"channels": 4, "width": 4, "stages": 3},
    "hep": {"width": 8, "layers": 3, "classes": 2},
}
"""Of one network of each family, such that its steps take milliseconds."""

SIZES, PICTURES = Sizes(batch=2, length=32), Sizes(batch=2, length=64)
"""Of a picture less than one number of each channel would be left, which there is nothing to normalise by."""


def small_ones() -> dict[str, Workload]:
    """Return the rows of the catalogue with these shapes."""
    return {
        name: replace(row, shape=shape, cpu=PICTURES if row.task == "pictures" else SIZES)
        for name, shape in SHAPES.items()
        for row in (BY_NAME[name],)
    }


def shorten() -> None:
    """Leave networks of pictures one layer of each kind; their shapes say only how many layers they have."""
    residual.STAGES[50], residual.WIDTH = (1, 1, 1, 1), 8
    dense.BLOCKS[201] = (1, 1, 1, 1)
    plain.STAGES[19] = (1, 1, 1, 1, 1)
    plain.CHANNELS, plain.HIDDEN = (8, 16, 16, 16, 16), 64


if __name__ == "__main__":
    shorten()
    BY_NAME.update(small_ones())
    data_parallel_rank.main(*sys.argv[1:], spoil=spoil)
