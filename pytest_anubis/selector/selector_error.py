"""The Selector's error."""


class SelectorError(ValueError):
    """Invalid input to the Selector; the message says what is wrong and what to do."""
