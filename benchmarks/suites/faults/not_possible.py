"""What this machine cannot do."""


class NotPossible(RuntimeError):
    """A fault cannot be put in here, or a kernel cannot run; the message says why."""
