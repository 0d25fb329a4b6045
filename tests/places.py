"""Where the tests' own data lie."""

from pathlib import Path

DATA = Path(__file__).parent / "data"
RECORDED = DATA / "recorded_8gpu.json"
"""A recorded node with eight accelerators."""
