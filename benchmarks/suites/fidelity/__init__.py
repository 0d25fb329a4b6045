"""The benchmarks beside other programs that do the same work."""
