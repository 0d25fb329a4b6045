"""Which of the questions that benchmarks ask a run has answered, and what keeps the others open.

Also which planned tests never ran, and which one cause kept them from it: `silent_tests.py`; and what a bad
verdict asks people to do: `next_step.py`.

Page, terminal, JSON and `anubis goals` all count with it, so that they say the same numbers. How they say
it is in ``report``. Open `open_questions.py` first.
"""
