"""Figures about recorded execution traces."""
