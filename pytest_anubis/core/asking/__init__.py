"""The questions of a run and their answers (`open_questions.py`, open it first), and next steps.

`silent_tests.py` explains planned tests that never ran, `next_step.py` says what to do about a bad verdict,
`typed_tests.py` writes commands. Terminal, pages, JSON and `anubis goals` all count with it.
"""
