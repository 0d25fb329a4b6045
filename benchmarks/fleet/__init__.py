"""Fleets: histories that many file into, learning, the plan of a night, the part of a network to blame."""
