"""Execution traces: a recorded job as operations, shapes and types, without its code and data.

`execution_trace.py` has the values, `trace_reading.py` builds them from the files that PyTorch's
`ExecutionTraceObserver` writes, `operation_kinds.py` says which operations may be replayed and what kind each
is, `step_plan.py` which tensors a step needs and when each is freed, `chosen_masks.py` what masks
are. `trace_writing.py` writes a trace, `obfuscation.py` hides whose it was, `chakra_writing.py` writes it for
simulators. Nothing here imports torch or runs anything: `benchmarking/replay/` does.

PYTEST_DONT_REWRITE
"""
