"""Which of the questions that benchmarks ask a run has answered, and what keeps the others open.

Page, terminal, JSON and `anubis goals` all count with it, so that they say the same numbers. How they say
it is in ``report``. Open `open_questions.py` first.
"""
