"""Where the tests' own data lie."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
"""The repository."""

DATA = Path(__file__).parent / "data"
RECORDED = DATA / "recorded_8gpu.json"
"""A recorded node with eight accelerators."""
