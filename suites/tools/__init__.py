"""Adapters: the tools that fleets use today, run fail-closed and judged like every other benchmark."""
