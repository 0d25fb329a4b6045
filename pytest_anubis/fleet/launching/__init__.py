"""From a list of hosts to a fleet's verdict: launchers, cached verdicts, and messages to schedulers.

Nothing is measured or judged here. Open `health_check.py`, then `fleet_verdict.py`.
"""
