"""Figures of the Selector's risk models on public failure histories."""
