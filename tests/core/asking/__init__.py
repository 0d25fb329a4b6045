"""What runs have answered, and what bad verdicts ask people to do."""
