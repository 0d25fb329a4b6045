"""The Validator: its limits, rates, power and speed, on simulated and on real machines."""
