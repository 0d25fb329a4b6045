"""A run as a user has it: its cost, and what it notices on idle and on busy hosts."""
