"""One run from its first event to its exit status: gate, journal, resume, decision, terminal, soak.

Worker processes are in the room ``distributed``. Open ``live_run.py`` first.

PYTEST_DONT_REWRITE
"""
