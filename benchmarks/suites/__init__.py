"""The benchmark set: what it covers and finds, how near to the limit and how steadily it measures."""
