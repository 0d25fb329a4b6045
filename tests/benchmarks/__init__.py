"""Tests of the project's own benchmarks: what they print must be what they saw."""
