"""The one error of the Selector."""


class SelectorError(ValueError):
    """Something handed to the Selector cannot be used; the message says what and how to fix it."""
