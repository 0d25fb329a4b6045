"""Verdicts under waivers and under widened limits of noise.

`store.waiver_files` reads the waivers. Open `waiving.py` first.
"""
