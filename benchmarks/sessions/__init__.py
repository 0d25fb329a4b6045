"""A run as a user has it: what it costs, what it disturbs, what it notices, who stands beside it."""
