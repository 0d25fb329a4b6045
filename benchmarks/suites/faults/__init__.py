"""Faults that are put in, and which benchmark finds them."""
