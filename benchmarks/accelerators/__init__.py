"""Benchmarks of nodes with accelerators: stand-ins for cards, and the first hour on real ones."""
