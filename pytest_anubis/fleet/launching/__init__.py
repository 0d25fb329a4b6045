"""Run the tests on a list of hosts, read what their runs decided, and pass it to schedulers.

Nothing is measured or judged here. Open `health_check.py`, then `fleet_verdict.py`; `anubis fleet recipes`
copies `recipes/`.
"""
