"""Replay of a recorded job: its operations, run again on any device on tensors of the same shapes.

`replayed_step.py` is what a benchmark uses; `operation_calls.py` turns an operation of a trace into a call
of torch, `step_checks.py` refuses what must not run, `step_memory.py` counts its memory. `trace_recording.py`
records, and `recorded_script.py` is the process of `anubis trace record`; `profiling.py` times operations
for predictions.

PYTEST_DONT_REWRITE
"""
