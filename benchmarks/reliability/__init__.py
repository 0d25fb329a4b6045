"""What may go wrong around a run and in its files, tried on purpose."""
