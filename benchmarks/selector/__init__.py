"""The Selector: its risk models on public histories, its choice, what it saves."""
